// SPDX-License-Identifier: Apache-2.0
//
// A run of rows small enough to stay in the cache, and the loops that spread its slots.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exchange/rows.h"

namespace flightshmem {

struct Morsel {
  explicit Morsel(int n_destinations)
      : counts(n_destinations), starts(n_destinations), next(n_destinations) {}

  // Takes rows [first, first + count); numbers[i] is the destination of row first + i.
  void Route(const uint16_t* numbers, int64_t first, int64_t count);
  // Sorts the row numbers by destination, for columns that are written one destination at a time.
  void Group();
  // After Group: counts[destination] numbers, ascending, from 0 for the morsel's first row.
  const uint16_t* rows_to(size_t destination) const { return order.data() + starts[destination]; }

  int64_t begin = 0;
  int64_t rows = 0;
  const uint16_t* pes = nullptr;
  std::vector<int64_t> counts;  // of rows, per destination
  std::vector<int64_t> starts;
  std::vector<int64_t> next;  // of the loop that is running
  std::array<uint16_t, kMorselRows> order;
};

// A column of fixed width on its way: where the morsel's slots are, and where the next slot goes at
// each destination.
struct Lane {
  const uint8_t* in;
  uint8_t* const* out;
};

// Writes the slots of one lane (`b` null) or of two of the same width. The pointers do not move.
void ScatterSlots(uint64_t width, const Lane& a, const Lane* b, Morsel* morsel);

}  // namespace flightshmem
