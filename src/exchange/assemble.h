// SPDX-License-Identifier: Apache-2.0
//
// What a destination does to its own shard, before and after the sources write.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <vector>

#include "exchange/layout.h"

namespace flightshmem {

// Writes what belongs to no row: zeros between buffers and the first text offsets. `block` is the
// shard block. Touches no byte that a source writes, so it needs no order with them.
void WriteMargins(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                  std::byte* block);

// Packs the byte maps in `scratch` into the bitmaps of `block`. REQUIRES: all sources have written.
void PackBitmaps(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                 const std::byte* scratch, std::byte* block);

// The batch that lies in `message` (the whole shard block); its buffers keep `message` alive.
// `sample`: a batch with the same dictionaries; null when there are no dictionary columns.
std::shared_ptr<arrow::RecordBatch> BatchOver(const std::shared_ptr<arrow::Schema>& schema,
                                              const std::vector<ColumnShape>& shapes,
                                              const ShardLayout& layout,
                                              const std::shared_ptr<arrow::Buffer>& message,
                                              const arrow::RecordBatch* sample);

}  // namespace flightshmem
