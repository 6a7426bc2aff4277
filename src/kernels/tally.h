// SPDX-License-Identifier: Apache-2.0
//
// Totals per destination. Pure functions.
#pragma once

#include <cstdint>

namespace flightshmem {

// counts[d] += how many of pes[0..rows) are d. REQUIRES: pes[i] < n_destinations.
void Tally(const uint16_t* pes, int64_t rows, int n_destinations, int64_t* counts);

// sums[d] += the weights of the rows that go to d. REQUIRES: as Tally.
void TallyWeights(const uint16_t* pes, const int64_t* weights, int64_t rows, int n_destinations,
                  int64_t* sums);

}  // namespace flightshmem
