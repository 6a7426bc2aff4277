// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <vector>

#include "exchange/layout.h"
#include "exchange/selections.h"
#include "exchange/targets.h"

namespace flightshmem {

// One way to write runs of rows to their destinations.
class Spreader {
 public:
  virtual ~Spreader() = default;

  // Before the first run since the targets were set. `bytes`: about how much is going to be
  // written.
  virtual void Start(int64_t bytes) = 0;
  // Rows [begin, begin + rows) of `batch`, in order after those before; pes[i] is the destination
  // of row begin + i. REQUIRES: rows <= kRunRows.
  virtual void Spread(const arrow::RecordBatch& batch, int64_t begin, int64_t rows,
                      const uint16_t* pes) = 0;
  // Everything is in memory, and the targets tell where the next row goes.
  virtual void Stop() = 0;
};

// Works with any number of destinations, on any processor: row by row. `targets`: one per column;
// they outlive the spreader, here and below.
std::unique_ptr<Spreader> MakeRoutingSpreader(const std::vector<ColumnShape>& shapes,
                                              const arrow::Schema& schema,
                                              std::vector<ColumnTargets>* targets);

// For few destinations: takes the rows of each out of every column in turn. REQUIRES: CanSelect().
std::unique_ptr<Spreader> MakeSelectingSpreader(const std::vector<ColumnShape>& shapes,
                                                const arrow::Schema& schema,
                                                std::vector<ColumnTargets>* targets);

}  // namespace flightshmem
