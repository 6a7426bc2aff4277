// SPDX-License-Identifier: Apache-2.0
//
// Rows leave for the PE their partitioning says: every byte read once, written once, into its final
// Arrow column in the destination's heap.
//
//   1. every PE counts rows and string bytes per destination; counts go round (AllGather)
//   2. every PE knows exact sizes, allocates its final shard block, tells its offset; a PE without
//      room makes all PEs fail here, before any row moved
//   3. sources write rows straight into the destination's columns through its pointer (off-node:
//      staged per destination, PutNbi, Quiet). A source knows its row base and byte base, so string
//      offsets are written final. Validity and bool go as one byte per row into a scratch block
//   4. barrier; the destination packs the bitmaps, counts nulls, writes the IPC metadata
//
// Row order is deterministic: by source PE, then source order.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <memory>
#include <vector>

#include "shard/shard.h"

namespace flightshmem {

// Collective, main thread. `batches`: this PE's rows in any number of batches of one schema (equal
// on all PEs: checked, TypeError). `pes[i]`: uint32, one PE number per row of batches[i]. Types:
// null, bool, fixed width (numbers, temporal, decimal, fixed-size binary), string/binary with 32 or
// 64 bit offsets, dictionary whose dictionary is equal on all PEs (see exchange.py). Others:
// NotImplemented naming the column. A string column that would pass 2 GiB of 32-bit offsets on some
// PE: CapacityError naming column and PE.
// The result lies in this PE's heap, as a shard. Errors are the same on all PEs.
arrow::Result<std::pair<Shard, std::shared_ptr<arrow::RecordBatch>>> Scatter(
    const std::shared_ptr<SymmetricHeap>& heap, const std::shared_ptr<arrow::Schema>& schema,
    const arrow::RecordBatchVector& batches,
    const std::vector<std::shared_ptr<arrow::UInt32Array>>& pes);

// Collective, main thread: every PE gets all rows of all PEs, in PE order. Otherwise as Scatter.
arrow::Result<std::pair<Shard, std::shared_ptr<arrow::RecordBatch>>> Replicate(
    const std::shared_ptr<SymmetricHeap>& heap, const std::shared_ptr<arrow::Schema>& schema,
    const arrow::RecordBatchVector& batches);

}  // namespace flightshmem
