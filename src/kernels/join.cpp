// SPDX-License-Identifier: Apache-2.0
//
// Why our own: pandas matches null keys and wants a fixed row order. Acero's hash join can do the
// first from C++ but not the second, and does not take every key type. So keys become dense codes
// and the right rows are listed per code: the pairs come out in order without a sort.
// Measured (one core, 10 M x 1 M int64 keys, unique right): 0.16 s when the keys lie close
// together, 0.31 s else; pyarrow's Table.join 0.65 s without order or null keys, pandas 0.46 and
// 0.54 s.
#include "kernels/join.h"

#include <arrow/array/array_primitive.h>
#include <arrow/util/bit_util.h>

#include <utility>
#include <vector>

#include "kernels/key_codes.h"

namespace flightshmem {
namespace {

// The right rows in order of their codes; those of code c are rows[starts[c]] ...
// rows[starts[c+1]-1], ascending.
struct RowsByCode {
  std::vector<uint32_t> starts;
  std::vector<uint32_t> rows;
};

RowsByCode GroupByCode(const uint32_t* codes, int64_t n_rows, int64_t n_codes) {
  RowsByCode groups{std::vector<uint32_t>(static_cast<size_t>(n_codes) + 2),
                    std::vector<uint32_t>(static_cast<size_t>(n_rows))};
  // Counted two places up, summed, then used as cursors one place up: what remains are the starts.
  for (int64_t i = 0; i < n_rows; ++i) ++groups.starts[codes[i] + 2];
  for (size_t c = 2; c < groups.starts.size(); ++c) groups.starts[c] += groups.starts[c - 1];
  for (int64_t i = 0; i < n_rows; ++i) {
    groups.rows[groups.starts[codes[i] + 1]++] = static_cast<uint32_t>(i);
  }
  return groups;
}

struct PairCounts {
  int64_t pairs = 0;
  int64_t unmatched = 0;
};

PairCounts CountPairs(const uint32_t* codes, int64_t n_rows, const RowsByCode& right) {
  PairCounts counts;
  for (int64_t i = 0; i < n_rows; ++i) {
    const uint32_t partners = right.starts[codes[i] + 1] - right.starts[codes[i]];
    counts.pairs += partners;
    counts.unmatched += partners == 0;
  }
  return counts;
}

class PairWriter {
 public:
  static arrow::Result<PairWriter> Make(int64_t pairs, int64_t unmatched) {
    PairWriter writer;
    writer.pairs_ = pairs;
    writer.unmatched_ = unmatched;
    ARROW_ASSIGN_OR_RAISE(writer.left_, arrow::AllocateBuffer(pairs * int64_t{sizeof(int64_t)}));
    ARROW_ASSIGN_OR_RAISE(writer.right_, arrow::AllocateBuffer(pairs * int64_t{sizeof(int64_t)}));
    if (unmatched > 0) {
      ARROW_ASSIGN_OR_RAISE(writer.validity_, arrow::AllocateBitmap(pairs));
      arrow::bit_util::SetBitsTo(writer.validity_->mutable_data(), 0, pairs, true);
    }
    return writer;
  }

  void Write(const uint32_t* codes, int64_t n_rows, const RowsByCode& groups) {
    auto* left = reinterpret_cast<int64_t*>(left_->mutable_data());
    auto* right = reinterpret_cast<int64_t*>(right_->mutable_data());
    int64_t at = 0;
    for (int64_t i = 0; i < n_rows; ++i) {
      const uint32_t end = groups.starts[codes[i] + 1];
      uint32_t row = groups.starts[codes[i]];
      if (row == end && unmatched_ > 0) {
        left[at] = i;
        right[at] = 0;
        arrow::bit_util::ClearBit(validity_->mutable_data(), at++);
      }
      for (; row < end; ++row, ++at) {
        left[at] = i;
        right[at] = groups.rows[row];
      }
    }
  }

  JoinIndices Finish() && {
    return {std::make_shared<arrow::Int64Array>(pairs_, std::move(left_)),
            std::make_shared<arrow::Int64Array>(pairs_, std::move(right_), std::move(validity_),
                                                unmatched_)};
  }

 private:
  int64_t pairs_ = 0;
  int64_t unmatched_ = 0;
  std::shared_ptr<arrow::Buffer> left_, right_, validity_;
};

}  // namespace

arrow::Result<JoinIndices> Join(const std::shared_ptr<arrow::Table>& left_keys,
                                const std::shared_ptr<arrow::Table>& right_keys, JoinKind kind) {
  ARROW_ASSIGN_OR_RAISE(KeyCodes keys, EncodeKeys(*left_keys, *right_keys));
  const int64_t left_rows = left_keys->num_rows();
  const RowsByCode right =
      GroupByCode(keys.codes.get() + left_rows, right_keys->num_rows(), keys.n_codes);
  const PairCounts counts = CountPairs(keys.codes.get(), left_rows, right);
  const int64_t unmatched = kind == JoinKind::kLeft ? counts.unmatched : 0;
  ARROW_ASSIGN_OR_RAISE(PairWriter writer, PairWriter::Make(counts.pairs + unmatched, unmatched));
  writer.Write(keys.codes.get(), left_rows, right);
  return std::move(writer).Finish();
}

}  // namespace flightshmem
