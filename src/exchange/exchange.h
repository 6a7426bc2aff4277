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
//      offsets are written final, and the words of bitmaps that are its own alone
//   4. the edges of bitmaps go round, which is a barrier; the destination puts them in and writes
//   the
//      IPC metadata
//
// Memory beyond inputs and outputs: the counts (n_pes * n_pes * (1 + 2 * columns) * 8 bytes), and
// with PEs out of reach the stages.
//
// Row order is deterministic: by source PE, then source order.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <memory>
#include <vector>

#include "exchange/options.h"
#include "shard/shard.h"

namespace flightshmem {

struct Exchanged {
  Shard shard;
  std::shared_ptr<arrow::RecordBatch> batch;
};

// Collective, main thread. `batches`: this PE's rows in any number of batches of one schema (equal
// on all PEs: checked, TypeError). `pes[i]`: one PE number per row of batches[i]. Types: null,
// bool, fixed width (numbers, temporal, decimal, fixed-size binary), string/binary with 32 or 64
// bit offsets (32 become 64, in the batch's schema, where the text would not fit), dictionary whose
// dictionary is equal on all PEs (see exchange.py). Others: NotImplemented naming the column.
// The result lies in this PE's heap, as a shard. Errors are the same on all PEs.
arrow::Result<Exchanged> Scatter(const std::shared_ptr<SymmetricHeap>& heap,
                                 const std::shared_ptr<arrow::Schema>& schema,
                                 const arrow::RecordBatchVector& batches,
                                 const std::vector<std::shared_ptr<arrow::UInt16Array>>& pes,
                                 const ExchangeOptions& options = {});

// Collective, main thread: every PE gets all rows of all PEs, in PE order. Otherwise as Scatter.
// PEs that share memory share the result: it lies once, in the heap of the one with most room, and
// is freed when all have let go of it.
arrow::Result<Exchanged> Replicate(const std::shared_ptr<SymmetricHeap>& heap,
                                   const std::shared_ptr<arrow::Schema>& schema,
                                   const arrow::RecordBatchVector& batches,
                                   const ExchangeOptions& options = {});

}  // namespace flightshmem
