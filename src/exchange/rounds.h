// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/layout.h"
#include "exchange/rows.h"

namespace flightshmem {

struct Rounds {
  std::vector<RoutedRows> rows;
  int64_t largest_bytes = 0;
};

// Cuts the rows, in order, into runs that take at most `max_bytes` each when copied; a run of one
// row may take more. The batches of a round are slices.
Rounds SplitRounds(const std::vector<ColumnShape>& shapes, const RoutedRows& rows,
                   int64_t max_bytes);

}  // namespace flightshmem
