// SPDX-License-Identifier: Apache-2.0
//
// The two passes over this PE's rows: count them, write them.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <algorithm>
#include <vector>

#include "exchange/layout.h"

namespace flightshmem {

// This PE's rows and where they go: pes[b][i] is the destination of row i of batches[b].
struct RoutedRows {
  const arrow::RecordBatchVector& batches;
  std::vector<const uint32_t*> pes;
};

// Fills source `source` of `counts`. REQUIRES: every destination < counts->n_destinations().
void CountRows(const std::vector<ColumnShape>& shapes, const RoutedRows& rows, int source,
               Counts* counts);

// Where a column's piece begins, at each destination. Any memory: a peer's block or a staged copy.
struct ColumnTargets {
  explicit ColumnTargets(size_t n_destinations)
      : values(n_destinations),
        validity(n_destinations),
        text(n_destinations),
        text_end(n_destinations) {}

  // Whether some destination has nulls in this column.
  bool has_nulls() const {
    return std::any_of(validity.begin(), validity.end(), [](auto map) { return map != nullptr; });
  }

  std::vector<uint8_t*> values;    // slots, text offsets, or one byte per bool
  std::vector<uint8_t*> validity;  // one byte per row; null: no row at that destination is null
  std::vector<uint8_t*> text;      // moves on as text is written
  std::vector<int64_t> text_end;   // the offset that belongs to `text`
};

// Writes every row once, in order. Null slots become zero (floats: NaN), so that no older bytes of
// the source show. REQUIRES: targets (one per column) have the room that CountRows told.
void WriteRows(const std::vector<ColumnShape>& shapes, const RoutedRows& rows,
               std::vector<ColumnTargets>* targets);

}  // namespace flightshmem
