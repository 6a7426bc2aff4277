// SPDX-License-Identifier: Apache-2.0
//
// Why our own: Arrow's sort_indices compares rows through two indirections and cannot place missing
// values per call as pandas does; NumPy's sort of packed words does not know how few bits differ.
// Here keys become words of just the bits that differ, next to their row number; a radix sort of
// two passes orders up to 22 of these bits, and what more there are only decides within the short
// runs that are left. Measured (one core, 5 M rows): 500,000 different int64 97 ms here, 313 ms for
// NumPy's sort of packed words; random float64 219 ms here, 806 ms for NumPy's stable argsort.
#include "kernels/sort.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "kernels/sort_codes.h"

namespace flightshmem {
namespace {

constexpr int kDigitBits = 11;
constexpr int64_t kDigitValues = int64_t{1} << kDigitBits;
// Below this, comparing beats counting.
constexpr int64_t kFewRows = 1024;
constexpr int64_t kShortRun = 24;

// Adjacent keys side by side in one word of `bits` bits.
struct Group {
  std::vector<uint64_t> words;
  int bits = 0;
};

struct Packed {  // word << row_bits | row
  uint64_t value;
  static constexpr bool kOrderKnowsRow = true;
};
struct Wide {
  uint64_t value;
  uint32_t row;
  static constexpr bool kOrderKnowsRow = false;
};

template <typename Entry>
bool Less(const Entry& a, const Entry& b) {
  return a.value < b.value;
}

// One stable pass: orders entries by the digit above `shift`.
template <typename Entry>
void RadixPass(const Entry* in, int64_t count, int shift, int bits, Entry* out) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  std::array<int64_t, kDigitValues> places{};
  for (int64_t i = 0; i < count; ++i) ++places[(in[i].value >> shift) & mask];
  int64_t before = 0;
  for (int64_t& place : places) place = std::exchange(before, before + place);
  for (int64_t i = 0; i < count; ++i) out[places[(in[i].value >> shift) & mask]++] = in[i];
}

template <typename Entry>
void SortRun(Entry* first, Entry* last) {
  if (last - first > kShortRun) {
    if constexpr (Entry::kOrderKnowsRow) {
      std::sort(first, last, Less<Entry>);
    } else {
      std::stable_sort(first, last, Less<Entry>);
    }
    return;
  }
  for (Entry* next = first + 1; next < last; ++next) {
    const Entry moving = *next;
    Entry* at = next;
    for (; at > first && moving.value < (at - 1)->value; --at) *at = *(at - 1);
    *at = moving;
  }
}

// Sorts entries stably by the `bits` bits of their values above `shift`, of which those above
// are 0. `spare` is as long; the result is in `entries`.
template <typename Entry>
void SortEntries(Entry* entries, int64_t count, int shift, int bits, Entry* spare) {
  if (count < 2 || bits == 0) return;
  if (count < kFewRows) return SortRun(entries, entries + count);
  const int radix_bits = std::min(bits, 2 * kDigitBits);
  const int low = shift + bits - radix_bits;
  const int first = radix_bits / 2;
  if (first > 0) {
    RadixPass(entries, count, low, first, spare);
    RadixPass(spare, count, low + first, radix_bits - first, entries);
  } else {
    RadixPass(entries, count, low, radix_bits, spare);
    std::copy(spare, spare + count, entries);
  }
  if (radix_bits == bits) return;
  for (int64_t begin = 0; begin < count;) {
    const uint64_t run = entries[begin].value >> low;
    int64_t end = begin + 1;
    while (end < count && entries[end].value >> low == run) ++end;
    SortRun(entries + begin, entries + end);
    begin = end;
  }
}

template <typename T>
arrow::Result<std::unique_ptr<T[]>> NewArray(int64_t count) {
  std::unique_ptr<T[]> array(new (std::nothrow)
                                 T[static_cast<size_t>(std::max<int64_t>(count, 1))]);
  if (array == nullptr) {
    return arrow::Status::OutOfMemory("[sort] no memory for ", count * sizeof(T), " bytes");
  }
  return array;
}

// Bits that tell the words' differences apart; subtracts the least from all of them.
int Narrow(SortCodes* codes) {
  uint64_t low = std::numeric_limits<uint64_t>::max();
  uint64_t high = 0;
  const bool has_missing = !codes->missing.empty();
  const auto rows = static_cast<int64_t>(codes->words.size());
  for (int64_t i = 0; i < rows; ++i) {
    if (has_missing && codes->missing[i] != 0) continue;
    low = std::min(low, codes->words[i]);
    high = std::max(high, codes->words[i]);
  }
  if (low > high) return 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (!has_missing || codes->missing[i] == 0) codes->words[i] -= low;
  }
  return std::bit_width(high - low);
}

// Puts keys of `bits` bits before those that the group has.
void Prepend(std::vector<uint64_t> words, int bits, std::vector<Group>* groups) {
  if (bits == 0) return;
  if (groups->empty() || groups->back().bits + bits > 64) {
    groups->push_back({std::move(words), bits});
    return;
  }
  Group& group = groups->back();
  for (size_t i = 0; i < words.size(); ++i) group.words[i] |= words[i] << group.bits;
  group.bits += bits;
}

// Groups of keys, the least important first.
arrow::Result<std::vector<Group>> ToGroups(const arrow::Table& keys,
                                           const std::vector<bool>& ascending, bool missing_last) {
  std::vector<Group> groups;
  for (int c = keys.num_columns() - 1; c >= 0; --c) {
    auto codes = ToSortCodes(*keys.column(c), ascending[c]);
    if (!codes.ok()) {
      const arrow::Status& error = codes.status();
      return error.WithMessage("[sort] column '", keys.field(c)->name(), "': ", error.message());
    }
    const int bits = Narrow(&*codes);
    Prepend(std::move(codes->words), bits, &groups);
    if (codes->missing.empty()) continue;
    std::vector<uint64_t> missing(codes->missing.begin(), codes->missing.end());
    if (!missing_last) {
      for (uint64_t& bit : missing) bit ^= 1;
    }
    Prepend(std::move(missing), 1, &groups);
  }
  return groups;
}

arrow::Status SortPacked(const Group& group, int64_t rows, int row_bits, uint32_t* order) {
  ARROW_ASSIGN_OR_RAISE(auto entries, NewArray<Packed>(rows));
  ARROW_ASSIGN_OR_RAISE(auto spare, NewArray<Packed>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    entries[i].value = group.words[i] << row_bits | static_cast<uint64_t>(i);
  }
  SortEntries(entries.get(), rows, row_bits, group.bits, spare.get());
  const uint64_t mask = (uint64_t{1} << row_bits) - 1;
  for (int64_t i = 0; i < rows; ++i) order[i] = static_cast<uint32_t>(entries[i].value & mask);
  return arrow::Status::OK();
}

arrow::Status SortWide(const std::vector<Group>& groups, int64_t rows, uint32_t* order) {
  ARROW_ASSIGN_OR_RAISE(auto entries, NewArray<Wide>(rows));
  ARROW_ASSIGN_OR_RAISE(auto spare, NewArray<Wide>(rows));
  for (int64_t i = 0; i < rows; ++i) order[i] = static_cast<uint32_t>(i);
  for (const Group& group : groups) {
    for (int64_t i = 0; i < rows; ++i) entries[i] = {group.words[order[i]], order[i]};
    SortEntries(entries.get(), rows, 0, group.bits, spare.get());
    for (int64_t i = 0; i < rows; ++i) order[i] = entries[i].row;
  }
  return arrow::Status::OK();
}

// The place of a row among cuts. Ranks order missing values against others.
struct CutPoint {
  uint64_t rank;
  uint64_t word;
  int64_t tie;
};

struct RowPoint {
  uint64_t rank;
  uint64_t word;
  int64_t row;
};

bool LiesAfter(const RowPoint& row, const CutPoint& cut) {
  if (row.rank != cut.rank) return row.rank > cut.rank;
  if (row.word != cut.word) return row.word > cut.word;
  return row.row >= cut.tie;
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::UInt32Array>> SortRows(const arrow::Table& keys,
                                                            const std::vector<bool>& ascending,
                                                            bool missing_last) {
  const int64_t rows = keys.num_rows();
  if (rows > int64_t{1} << 32) {
    return arrow::Status::CapacityError("[sort] a PE sorts at most 2^32 rows, got ", rows);
  }
  ARROW_ASSIGN_OR_RAISE(auto groups, ToGroups(keys, ascending, missing_last));
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(rows * sizeof(uint32_t)));
  auto* order = buffer->mutable_data_as<uint32_t>();
  const int row_bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows - 1, 0)));
  if (groups.size() == 1 && groups[0].bits + row_bits <= 64) {
    ARROW_RETURN_NOT_OK(SortPacked(groups[0], rows, row_bits, order));
  } else {
    ARROW_RETURN_NOT_OK(SortWide(groups, rows, order));
  }
  return std::make_shared<arrow::UInt32Array>(rows, std::move(buffer));
}

arrow::Result<std::shared_ptr<arrow::UInt16Array>> FindRanges(const arrow::ChunkedArray& key,
                                                              const RangeCuts& cuts, bool ascending,
                                                              bool missing_last) {
  if (!key.type()->Equals(cuts.keys->type())) {
    return arrow::Status::TypeError("[sort] keys and cuts differ in type, got ",
                                    key.type()->ToString(), " and ", cuts.keys->type()->ToString());
  }
  ARROW_ASSIGN_OR_RAISE(const SortCodes at, ToSortCodes(arrow::ChunkedArray(cuts.keys), ascending));
  ARROW_ASSIGN_OR_RAISE(const SortCodes codes, ToSortCodes(key, ascending));
  const auto rank = [missing_last](const SortCodes& of, int64_t i) -> uint64_t {
    const bool is_missing = !of.missing.empty() && of.missing[i] != 0;
    return is_missing == missing_last ? 1 : 0;
  };
  std::vector<CutPoint> points;
  for (size_t c = 0; c < at.words.size(); ++c) {
    points.push_back({rank(at, static_cast<int64_t>(c)), at.words[c], cuts.ties[c]});
  }
  const int64_t rows = key.length();
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(rows * sizeof(uint16_t)));
  auto* ranges = buffer->mutable_data_as<uint16_t>();
  for (int64_t i = 0; i < rows; ++i) {
    const RowPoint row{rank(codes, i), codes.words[i], i};
    const auto first = std::partition_point(
        points.begin(), points.end(), [&](const CutPoint& cut) { return LiesAfter(row, cut); });
    ranges[i] = static_cast<uint16_t>(first - points.begin());
  }
  return std::make_shared<arrow::UInt16Array>(rows, std::move(buffer));
}

}  // namespace flightshmem
