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

// The edges of every source, in order of sources: two per column, of its validity and of its bools.
using EdgesBySource = std::vector<std::vector<BitEdges>>;

// Completes the bitmaps of `block`: writes the words that sources share. REQUIRES: all sources have
// written.
void StitchBitmaps(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                   const Counts& counts, int destination, const EdgesBySource& edges,
                   std::byte* block);

// The batch that lies in `message` (the whole shard block); its buffers keep `message` alive.
// `sample`: a batch with the same dictionaries; null when there are no dictionary columns.
std::shared_ptr<arrow::RecordBatch> BatchOver(const std::shared_ptr<arrow::Schema>& schema,
                                              const std::vector<ColumnShape>& shapes,
                                              const ShardLayout& layout,
                                              const std::shared_ptr<arrow::Buffer>& message,
                                              const arrow::RecordBatch* sample);

}  // namespace flightshmem
