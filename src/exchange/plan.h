// SPDX-License-Identifier: Apache-2.0
//
// What every PE knows about one exchange before rows move, and how a shard is completed after.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <vector>

#include "exchange/assemble.h"
#include "exchange/layout.h"
#include "exchange/rows.h"
#include "transport/transport.h"

namespace flightshmem {

class ExchangePlan {
 public:
  // Collective: checks that schemas agree, counts, and lays out the shards of all destinations.
  // Every PE computes the same from the counts of all PEs. Errors are the same on all PEs.
  // REQUIRES: `rows` passed its checks on all PEs; it outlives the plan.
  static arrow::Result<ExchangePlan> Make(Transport& transport,
                                          std::shared_ptr<arrow::Schema> schema,
                                          const RoutedRows& rows, int n_destinations,
                                          int64_t max_short_text);

  // Of the result: text columns may have become wider.
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  const std::vector<ColumnShape>& shapes() const { return shapes_; }
  const ShardLayout& layout(int d) const { return layouts_[d]; }
  std::vector<ColumnPiece> PiecesOf(int source, int d) const;
  bool has_bitmaps() const { return has_bitmaps_; }

  // Completes the shard of destination `d` in `block`. REQUIRES: all sources have written; `edges`
  // are those of all sources, empty when there are no bitmaps.
  arrow::Status Complete(int d, const EdgesBySource& edges, std::byte* block) const;
  // The rows of a complete shard; its buffers keep `message` alive.
  std::shared_ptr<arrow::RecordBatch> BatchIn(int d,
                                              const std::shared_ptr<arrow::Buffer>& message) const;

 private:
  ExchangePlan(const RoutedRows& rows, Counts counts) : rows_(&rows), counts_(std::move(counts)) {}

  const RoutedRows* rows_;  // for the dictionaries
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ColumnShape> shapes_;
  Counts counts_;
  std::vector<ShardLayout> layouts_;
  bool has_bitmaps_ = false;
};

}  // namespace flightshmem
