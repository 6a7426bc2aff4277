// SPDX-License-Identifier: Apache-2.0
//
// Why two ways: with few destinations the obvious loop adds to the same counter over and over and
// waits each time for the addition before; comparing all rows with each destination has no such
// chain and vectorises. Measured (one core, 5 M rows): 0.5 ms against 4.5 ms for 2 destinations,
// 2.0 against 1.9 ms for 8.
#include "kernels/tally.h"

#include "kernels/clones.h"

namespace flightshmem {
namespace {

constexpr int kFew = 6;

FLIGHTSHMEM_CLONES int64_t CountOf(const uint16_t* pes, int64_t rows, uint16_t destination) {
  int64_t total = 0;
  constexpr int64_t kRun = 4096;  // so that a run's count fits in 16 bits
  for (int64_t begin = 0; begin < rows; begin += kRun) {
    const int64_t end = begin + kRun < rows ? begin + kRun : rows;
    uint16_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
      count = static_cast<uint16_t>(count + (pes[i] == destination));
    }
    total += count;
  }
  return total;
}

FLIGHTSHMEM_CLONES int64_t SumOf(const uint16_t* pes, const int64_t* weights, int64_t rows,
                                 uint16_t destination) {
  int64_t total = 0;
  for (int64_t i = 0; i < rows; ++i) total += pes[i] == destination ? weights[i] : 0;
  return total;
}

}  // namespace

void Tally(const uint16_t* pes, int64_t rows, int n_destinations, int64_t* counts) {
  if (n_destinations > kFew) {
    for (int64_t i = 0; i < rows; ++i) ++counts[pes[i]];
    return;
  }
  int64_t others = 0;
  for (int d = 1; d < n_destinations; ++d) {
    const int64_t count = CountOf(pes, rows, static_cast<uint16_t>(d));
    counts[d] += count;
    others += count;
  }
  counts[0] += rows - others;
}

void TallyWeights(const uint16_t* pes, const int64_t* weights, int64_t rows, int n_destinations,
                  int64_t* sums) {
  if (n_destinations > kFew) {
    for (int64_t i = 0; i < rows; ++i) sums[pes[i]] += weights[i];
    return;
  }
  for (int d = 0; d < n_destinations; ++d) {
    sums[d] += SumOf(pes, weights, rows, static_cast<uint16_t>(d));
  }
}

}  // namespace flightshmem
