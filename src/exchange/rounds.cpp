// SPDX-License-Identifier: Apache-2.0
#include "exchange/rounds.h"

#include <arrow/array/data.h>

#include <algorithm>
#include <utility>

namespace flightshmem {
namespace {

// The bytes of rows [begin, begin + count), at most: text of nulls counts too.
class Sizes {
 public:
  Sizes(const std::vector<ColumnShape>& shapes, const arrow::RecordBatch& batch) {
    for (size_t c = 0; c < shapes.size(); ++c) {
      const ColumnShape& shape = shapes[c];
      row_bytes_ += static_cast<int64_t>(shape.width) + 1;  // and a bit for null
      if (shape.kind != ColumnKind::kText) continue;
      const arrow::ArrayData& column = *batch.column_data(static_cast<int>(c));
      (shape.source_width == 4 ? short_ : long_).push_back(&column);
    }
  }

  int64_t operator()(int64_t begin, int64_t count) const {
    int64_t bytes = count * row_bytes_;
    for (const auto* column : short_) bytes += Text<int32_t>(*column, begin, count);
    for (const auto* column : long_) bytes += Text<int64_t>(*column, begin, count);
    return bytes;
  }

 private:
  template <typename Offset>
  static int64_t Text(const arrow::ArrayData& column, int64_t begin, int64_t count) {
    const Offset* offsets = column.GetValues<Offset>(1) + begin;
    return offsets[count] - offsets[0];
  }

  int64_t row_bytes_ = 0;
  std::vector<const arrow::ArrayData*> short_, long_;
};

}  // namespace

Rounds SplitRounds(const std::vector<ColumnShape>& shapes, const RoutedRows& rows,
                   int64_t max_bytes) {
  Rounds rounds;
  RoutedRows round;
  int64_t round_bytes = 0;
  const auto close = [&] {
    if (round.batches.empty()) return;
    rounds.largest_bytes = std::max(rounds.largest_bytes, round_bytes);
    rounds.rows.push_back(std::exchange(round, {}));
    round_bytes = 0;
  };
  for (size_t b = 0; b < rows.batches.size(); ++b) {
    const auto& batch = rows.batches[b];
    const Sizes sizes(shapes, *batch);
    int64_t begin = 0;
    while (begin < batch->num_rows()) {
      int64_t count = batch->num_rows() - begin;
      while (count > 1 && round_bytes + sizes(begin, count) > max_bytes) count = (count + 1) / 2;
      const int64_t bytes = sizes(begin, count);
      if (round_bytes > 0 && round_bytes + bytes > max_bytes) {
        close();
        continue;
      }
      round.batches.push_back(batch->Slice(begin, count));
      round.pes.push_back(rows.pes[b] + begin);
      round_bytes += bytes;
      begin += count;
    }
  }
  close();
  return rounds;
}

}  // namespace flightshmem
