// SPDX-License-Identifier: Apache-2.0
#include "exchange/plan.h"

#include <arrow/buffer.h>

#include <utility>

#include "exchange/checks.h"
#include "shard/shard.h"

namespace flightshmem {

arrow::Result<ExchangePlan> ExchangePlan::Make(Transport& transport,
                                               std::shared_ptr<arrow::Schema> schema,
                                               const RoutedRows& rows, int n_destinations,
                                               int64_t max_short_text) {
  ARROW_RETURN_NOT_OK(CheckSchemasAgree(transport, *schema));
  const auto n_columns = static_cast<size_t>(schema->num_fields());
  ExchangePlan plan(rows, Counts(transport.n_pes(), n_destinations, n_columns));
  ARROW_ASSIGN_OR_RAISE(plan.shapes_, ShapesOf(*schema));
  Counts mine(1, n_destinations, n_columns);
  CountRows(plan.shapes_, rows, &mine);
  ARROW_RETURN_NOT_OK(transport.AllGather(mine.bytes(), plan.counts_.bytes()));
  plan.schema_ = WidenLongText(schema, plan.counts_, max_short_text, &plan.shapes_);
  const uint64_t metadata_bytes = ShardMetadataBytes(*plan.schema_);
  for (int d = 0; d < n_destinations; ++d) {
    plan.layouts_.push_back(LayOutShard(plan.shapes_, plan.counts_, d, metadata_bytes));
    for (size_t c = 0; c < n_columns; ++c) {
      const bool is_bool = plan.shapes_[c].kind == ColumnKind::kBool;
      plan.has_bitmaps_ |= is_bool || plan.layouts_[d].columns[c].validity.bytes > 0;
    }
  }
  return plan;
}

std::vector<ColumnPiece> ExchangePlan::PiecesOf(int source, int d) const {
  return flightshmem::PiecesOf(shapes_, layouts_[d], counts_, source, d);
}

arrow::Status ExchangePlan::Complete(int d, const EdgesBySource& edges, std::byte* block) const {
  const ShardLayout& layout = layouts_[d];
  if (has_bitmaps_) StitchBitmaps(shapes_, layout, counts_, d, edges, block);
  WriteMargins(shapes_, layout, block);
  const auto message = std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(block),
                                                       static_cast<int64_t>(layout.block_bytes));
  return WriteShardMetadata(block, layout.metadata_bytes, *BatchIn(d, message));
}

std::shared_ptr<arrow::RecordBatch> ExchangePlan::BatchIn(
    int d, const std::shared_ptr<arrow::Buffer>& message) const {
  return BatchOver(schema_, shapes_, layouts_[d], message,
                   rows_->batches.empty() ? nullptr : rows_->batches[0].get());
}

}  // namespace flightshmem
