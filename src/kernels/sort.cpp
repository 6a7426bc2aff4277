// SPDX-License-Identifier: Apache-2.0
//
// Why our own: Arrow's sort_indices compares rows through two indirections and cannot place missing
// values per call as pandas does; NumPy's sort of packed words does not know how few bits differ.
// Here keys become words of just the bits that differ, next to their row number; a radix sort of
// two passes orders up to 22 of these bits, and what more there are only decides within the short
// runs that are left. Measured (one core, 5 M rows): 500,000 different int64 34 ms here, 313 ms for
// NumPy's sort of packed words; random float64 115 ms here, 806 ms for NumPy's stable argsort.
// Finding the ranges of 2 PEs: 3.5 ms here, 31 ms with Arrow's comparisons and NumPy.
#include "kernels/sort.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "kernels/clones.h"
#include "kernels/sort_codes.h"

namespace flightshmem {
namespace {

constexpr int kDigitBits = 11;
constexpr int64_t kDigitValues = int64_t{1} << kDigitBits;
// Below this, comparing beats counting.
constexpr int64_t kFewRows = 1024;
constexpr int64_t kShortRun = 24;

constexpr int64_t kMorselRows = 2048;
// More cuts than this are searched.
constexpr size_t kFewCuts = 8;

// What is sorted: a word of keys with the row number in its low bits, or beside it.
using Packed = uint64_t;
struct Wide {
  uint64_t word;
  uint32_t row;
};

uint64_t ValueOf(Packed entry) { return entry; }
uint64_t ValueOf(const Wide& entry) { return entry.word; }

template <typename Entry>
bool Less(const Entry& a, const Entry& b) {
  return ValueOf(a) < ValueOf(b);
}

// Memory of Arrow's pool, whose pages the gathered columns will use next.
template <typename T>
class PoolArray {
 public:
  static arrow::Result<PoolArray> Make(int64_t count) {
    PoolArray array;
    ARROW_ASSIGN_OR_RAISE(array.buffer_, arrow::AllocateBuffer(count * sizeof(T)));
    return array;
  }
  T* get() { return reinterpret_cast<T*>(buffer_->mutable_data()); }

 private:
  std::unique_ptr<arrow::Buffer> buffer_;
};

// Adjacent keys side by side in one word of `bits` bits.
struct Group {
  PoolArray<uint64_t> words;
  int bits = 0;
};

// One stable pass: orders entries by the digit above `shift`.
template <typename Entry>
void RadixPass(const Entry* in, int64_t count, int shift, int bits, Entry* out) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  std::array<int64_t, kDigitValues> places{};
  for (int64_t i = 0; i < count; ++i) ++places[(ValueOf(in[i]) >> shift) & mask];
  int64_t before = 0;
  for (int64_t& place : places) place = std::exchange(before, before + place);
  for (int64_t i = 0; i < count; ++i) out[places[(ValueOf(in[i]) >> shift) & mask]++] = in[i];
}

template <typename Entry>
void SortRun(Entry* first, Entry* last) {
  if (last - first > kShortRun) {
    if constexpr (std::is_same_v<Entry, Packed>) {
      std::sort(first, last, Less<Entry>);
    } else {
      std::stable_sort(first, last, Less<Entry>);
    }
    return;
  }
  for (Entry* next = first + 1; next < last; ++next) {
    const Entry moving = *next;
    Entry* at = next;
    for (; at > first && Less(moving, *(at - 1)); --at) *at = *(at - 1);
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
    const uint64_t run = ValueOf(entries[begin]) >> low;
    int64_t end = begin + 1;
    while (end < count && ValueOf(entries[end]) >> low == run) ++end;
    SortRun(entries + begin, entries + end);
    begin = end;
  }
}

// A key column in words.
struct KeyWords {
  PoolArray<uint64_t> words;
  std::vector<uint8_t> missing;  // 1 where missing
  bool has_missing = false;
  int64_t rows = 0;

  bool IsMissing(int64_t row) const { return has_missing && missing[row] != 0; }
};

arrow::Result<KeyWords> ReadKey(const arrow::ChunkedArray& key, bool ascending) {
  ARROW_ASSIGN_OR_RAISE(const SortCoder coder, SortCoder::Make(*key.type(), ascending));
  KeyWords read;
  read.rows = key.length();
  ARROW_ASSIGN_OR_RAISE(read.words, PoolArray<uint64_t>::Make(read.rows));
  std::array<uint8_t, kMorselRows> missing;
  int64_t row = 0;
  for (const auto& chunk : key.chunks()) {
    for (int64_t begin = 0; begin < chunk->length(); begin += kMorselRows) {
      const int64_t count = std::min(kMorselRows, chunk->length() - begin);
      if (coder.Read(*chunk, begin, count, read.words.get() + row, missing.data())) {
        read.has_missing = true;
        read.missing.resize(read.rows);
        std::copy_n(missing.data(), count, read.missing.data() + row);
      }
      row += count;
    }
  }
  return read;
}

// Bits that tell the words' differences apart; subtracts the least from all of them.
int Narrow(KeyWords* key) {
  uint64_t low = std::numeric_limits<uint64_t>::max();
  uint64_t high = 0;
  uint64_t* words = key->words.get();
  for (int64_t i = 0; i < key->rows; ++i) {
    if (key->IsMissing(i)) continue;
    low = std::min(low, words[i]);
    high = std::max(high, words[i]);
  }
  if (low >= high) low = words[0];
  for (int64_t i = 0; i < key->rows; ++i) words[i] = key->IsMissing(i) ? 0 : words[i] - low;
  return low < high ? std::bit_width(high - low) : 0;
}

// Puts keys of `bits` bits before those that the groups have.
void Prepend(PoolArray<uint64_t> words, int64_t rows, int bits, std::vector<Group>* groups) {
  if (bits == 0) return;
  if (groups->empty() || groups->back().bits + bits > 64) {
    groups->push_back({std::move(words), bits});
    return;
  }
  Group& group = groups->back();
  for (int64_t i = 0; i < rows; ++i) group.words.get()[i] |= words.get()[i] << group.bits;
  group.bits += bits;
}

arrow::Status PrependMissing(const KeyWords& key, bool missing_last, std::vector<Group>* groups) {
  if (!key.has_missing) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto words, PoolArray<uint64_t>::Make(key.rows));
  for (int64_t i = 0; i < key.rows; ++i) {
    words.get()[i] = key.IsMissing(i) == missing_last ? 1 : 0;
  }
  Prepend(std::move(words), key.rows, 1, groups);
  return arrow::Status::OK();
}

// Groups of keys, the least important first. REQUIRES: there are rows.
arrow::Result<std::vector<Group>> ToGroups(const arrow::Table& keys,
                                           const std::vector<bool>& ascending, bool missing_last) {
  std::vector<Group> groups;
  for (int c = keys.num_columns() - 1; c >= 0; --c) {
    auto key = ReadKey(*keys.column(c), ascending[c]);
    if (!key.ok()) {
      const arrow::Status& error = key.status();
      return error.WithMessage("[sort] column '", keys.field(c)->name(), "': ", error.message());
    }
    const int bits = Narrow(&*key);
    Prepend(std::move(key->words), key->rows, bits, &groups);
    ARROW_RETURN_NOT_OK(PrependMissing(*key, missing_last, &groups));
  }
  return groups;
}

arrow::Status SortPacked(Group* group, int64_t rows, int row_bits, uint32_t* order) {
  Packed* entries = group->words.get();
  ARROW_ASSIGN_OR_RAISE(auto spare, PoolArray<Packed>::Make(rows));
  for (int64_t i = 0; i < rows; ++i) {
    entries[i] = entries[i] << row_bits | static_cast<uint64_t>(i);
  }
  SortEntries(entries, rows, row_bits, group->bits, spare.get());
  const uint64_t mask = (uint64_t{1} << row_bits) - 1;
  for (int64_t i = 0; i < rows; ++i) order[i] = static_cast<uint32_t>(entries[i] & mask);
  return arrow::Status::OK();
}

arrow::Status SortWide(std::vector<Group>* groups, int64_t rows, uint32_t* order) {
  ARROW_ASSIGN_OR_RAISE(auto entries, PoolArray<Wide>::Make(rows));
  ARROW_ASSIGN_OR_RAISE(auto spare, PoolArray<Wide>::Make(rows));
  for (int64_t i = 0; i < rows; ++i) order[i] = static_cast<uint32_t>(i);
  for (Group& group : *groups) {
    const uint64_t* words = group.words.get();
    for (int64_t i = 0; i < rows; ++i) entries.get()[i] = {words[order[i]], order[i]};
    SortEntries(entries.get(), rows, 0, group.bits, spare.get());
    for (int64_t i = 0; i < rows; ++i) order[i] = entries.get()[i].row;
  }
  return arrow::Status::OK();
}

// The place of a row, or of a cut, in the order. Ranks order missing values against others.
struct Place {
  uint64_t rank;
  uint64_t word;
  int64_t row;  // of a cut: the first row of its key after it
};

bool LiesAfter(const Place& row, const Place& cut) {
  if (row.rank != cut.rank) return row.rank > cut.rank;
  if (row.word != cut.word) return row.word > cut.word;
  return row.row >= cut.row;
}

uint64_t RankOf(bool is_missing, bool missing_last) { return is_missing == missing_last ? 1 : 0; }

// A run of rows none of which is missing, and the number of the first.
struct Words {
  const uint64_t* words;
  int64_t count;
  int64_t row;
};

// ranges[i] += whether row i lies after the cut.
FLIGHTSHMEM_CLONES void CountCut(Words run, Place cut, uint64_t rank, uint16_t* ranges) {
  if (rank != cut.rank) {
    for (int64_t i = 0; i < run.count; ++i) ranges[i] += rank > cut.rank ? 1 : 0;
    return;
  }
  const int64_t tied = std::clamp<int64_t>(cut.row - run.row, 0, run.count);
  for (int64_t i = 0; i < tied; ++i) ranges[i] += run.words[i] > cut.word ? 1 : 0;
  for (int64_t i = tied; i < run.count; ++i) ranges[i] += run.words[i] >= cut.word ? 1 : 0;
}

uint16_t CutsBefore(const std::vector<Place>& cuts, const Place& row) {
  const auto first = std::partition_point(cuts.begin(), cuts.end(),
                                          [&](const Place& cut) { return LiesAfter(row, cut); });
  return static_cast<uint16_t>(first - cuts.begin());
}

arrow::Result<std::vector<Place>> ToPlaces(const RangeCuts& cuts, bool ascending,
                                           bool missing_last) {
  ARROW_ASSIGN_OR_RAISE(KeyWords read, ReadKey(arrow::ChunkedArray(cuts.keys), ascending));
  std::vector<Place> places;
  for (int64_t i = 0; i < read.rows; ++i) {
    places.push_back({RankOf(read.IsMissing(i), missing_last), read.words.get()[i], cuts.ties[i]});
  }
  return places;
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::UInt32Array>> SortRows(const arrow::Table& keys,
                                                            const std::vector<bool>& ascending,
                                                            bool missing_last) {
  const int64_t rows = keys.num_rows();
  if (rows > int64_t{1} << 32) {
    return arrow::Status::CapacityError("[sort] a PE sorts at most 2^32 rows, got ", rows);
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(rows * sizeof(uint32_t)));
  if (rows == 0) return std::make_shared<arrow::UInt32Array>(0, std::move(buffer));
  ARROW_ASSIGN_OR_RAISE(auto groups, ToGroups(keys, ascending, missing_last));
  auto* order = buffer->mutable_data_as<uint32_t>();
  const int row_bits = std::bit_width(static_cast<uint64_t>(rows - 1));
  if (groups.size() == 1 && groups[0].bits + row_bits <= 64) {
    ARROW_RETURN_NOT_OK(SortPacked(&groups[0], rows, row_bits, order));
  } else {
    ARROW_RETURN_NOT_OK(SortWide(&groups, rows, order));
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
  ARROW_ASSIGN_OR_RAISE(const auto places, ToPlaces(cuts, ascending, missing_last));
  ARROW_ASSIGN_OR_RAISE(const SortCoder coder, SortCoder::Make(*key.type(), ascending));
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(key.length() * sizeof(uint16_t)));
  auto* ranges = buffer->mutable_data_as<uint16_t>();
  std::array<uint64_t, kMorselRows> words;
  std::array<uint8_t, kMorselRows> missing;
  int64_t row = 0;
  for (const auto& chunk : key.chunks()) {
    for (int64_t begin = 0; begin < chunk->length(); begin += kMorselRows) {
      const int64_t count = std::min(kMorselRows, chunk->length() - begin);
      const bool any_missing = coder.Read(*chunk, begin, count, words.data(), missing.data());
      if (!any_missing && places.size() <= kFewCuts) {
        std::fill_n(ranges + row, count, uint16_t{0});
        for (const Place& cut : places) {
          CountCut({words.data(), count, row}, cut, RankOf(false, missing_last), ranges + row);
        }
      } else {
        for (int64_t i = 0; i < count; ++i) {
          const uint64_t rank = RankOf(any_missing && missing[i] != 0, missing_last);
          ranges[row + i] = CutsBefore(places, {rank, words[i], row + i});
        }
      }
      row += count;
    }
  }
  return std::make_shared<arrow::UInt16Array>(row, std::move(buffer));
}

}  // namespace flightshmem
