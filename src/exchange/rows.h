// SPDX-License-Identifier: Apache-2.0
//
// This PE's rows and where they go; counting them.
#pragma once

#include <arrow/record_batch.h>

#include <vector>

#include "exchange/layout.h"

namespace flightshmem {

// So many rows are routed at once, then written column by column.
inline constexpr int64_t kMorselRows = 2048;

// pes[b][i] is the destination of row i of batches[b].
struct RoutedRows {
  arrow::RecordBatchVector batches;
  std::vector<const uint16_t*> pes;
};

// Adds to source 0 of `counts`. REQUIRES: every destination < counts->n_destinations().
void CountRows(const std::vector<ColumnShape>& shapes, const RoutedRows& rows, Counts* counts);

}  // namespace flightshmem
