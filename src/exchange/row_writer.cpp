// SPDX-License-Identifier: Apache-2.0
#include "exchange/row_writer.h"

#include <algorithm>

#include "exchange/selections.h"

namespace flightshmem {
RowWriter::RowWriter(const std::vector<ColumnShape>& shapes, const arrow::Schema& schema,
                     int n_destinations, bool is_portable)
    : targets_(shapes.size(), ColumnTargets(n_destinations)) {
  for (const ColumnShape& shape : shapes) row_bytes_ += static_cast<int64_t>(shape.width);
  const bool selects = !is_portable && CanSelect() && n_destinations <= kMostSelected;
  spreader_ = (selects ? MakeSelectingSpreader : MakeRoutingSpreader)(shapes, schema, &targets_);
}

void RowWriter::Write(const RoutedRows& rows) {
  int64_t n_rows = 0;
  for (const auto& batch : rows.batches) n_rows += batch->num_rows();
  spreader_->Start(n_rows * row_bytes_);
  for (size_t b = 0; b < rows.batches.size(); ++b) {
    const arrow::RecordBatch& batch = *rows.batches[b];
    for (int64_t begin = 0; begin < batch.num_rows(); begin += kRunRows) {
      const int64_t run = std::min(kRunRows, batch.num_rows() - begin);
      spreader_->Spread(batch, begin, run, rows.pes[b] + begin);
    }
  }
  spreader_->Stop();
}

void RowWriter::Finish() {
  for (ColumnTargets& targets : targets_) {
    for (BitWriter& bits : targets.validity) bits.Finish();
    for (BitWriter& bits : targets.bools) bits.Finish();
  }
}

}  // namespace flightshmem
