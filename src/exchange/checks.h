// SPDX-License-Identifier: Apache-2.0
//
// What must hold before any row is counted.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <memory>
#include <string_view>
#include <vector>

#include "transport/transport.h"

namespace flightshmem {

// Local: batches are of `schema`, movable, and every row has a PE in [0, n_pes). Errors name this
// PE.
arrow::Status CheckRows(const Transport& transport, const arrow::Schema& schema,
                        const arrow::RecordBatchVector& batches,
                        const std::vector<std::shared_ptr<arrow::UInt16Array>>& pes);
// As CheckRows, for rows without a PE of their own.
arrow::Status CheckBatches(const Transport& transport, const arrow::Schema& schema,
                           const arrow::RecordBatchVector& batches);

// Collective. TypeError naming the first PE and column that differ from PE 0's; metadata is
// ignored. The same on all PEs.
arrow::Status CheckSchemasAgree(Transport& transport, const arrow::Schema& schema);

}  // namespace flightshmem
