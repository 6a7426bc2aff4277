// SPDX-License-Identifier: Apache-2.0
//
// The pass that writes this PE's rows to where they belong.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <vector>

#include "exchange/layout.h"
#include "exchange/rows.h"
#include "exchange/spreader.h"
#include "exchange/targets.h"

namespace flightshmem {

// Writes rows in order, each once. Null slots become zero (floats: NaN), so that no older bytes of
// the source show.
class RowWriter {
 public:
  // `is_portable`: without the instructions that not every processor has.
  RowWriter(const std::vector<ColumnShape>& shapes, const arrow::Schema& schema, int n_destinations,
            bool is_portable);

  // One per column. They may be set anew between two calls of Write.
  std::vector<ColumnTargets>& targets() { return targets_; }
  // REQUIRES: the targets have room for these rows, as CountRows tells.
  void Write(const RoutedRows& rows);
  // After the last row: completes the edges of all bitmaps.
  void Finish();

 private:
  int64_t row_bytes_ = 0;
  std::vector<ColumnTargets> targets_;
  std::unique_ptr<Spreader> spreader_;
};

}  // namespace flightshmem
