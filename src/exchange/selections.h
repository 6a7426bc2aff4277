// SPDX-License-Identifier: Apache-2.0
//
// A run of rows with, for each destination, the selection of those that go there; and bitmaps read
// alongside. For few destinations; see kernels/select.h.
#pragma once

#include <arrow/array/data.h>

#include <cstdint>
#include <vector>

#include "exchange/slots.h"
#include "kernels/bits.h"
#include "kernels/select.h"

namespace flightshmem {

// With more destinations, going row by row is as fast.
inline constexpr int kMostSelected = 6;

// So many rows have their selections in the cache while one column after the other is looked at.
inline constexpr int64_t kRunRows = 1 << 16;

// The rows of a run, and for each destination which of them go there.
struct Selections {
  int64_t begin = 0;
  int64_t rows = 0;
  std::vector<std::vector<uint64_t>> words;  // per destination

  void Select(const uint16_t* pes, int64_t first, int64_t count) {
    begin = first;
    rows = count;
    for (size_t d = 0; d < words.size(); ++d) {
      SelectRows(pes, rows, static_cast<uint16_t>(d), words[d].data());
    }
  }
};

// The values or the validity of a column, as bits of a run.
struct Bits {
  const uint8_t* bits = nullptr;  // null: all ones
  int64_t offset = 0;             // of the run's first row

  uint64_t Word(int64_t row, int64_t rows) const {
    if (bits == nullptr) return ~uint64_t{0};
    return LoadBits(bits, offset + row, offset + rows);
  }
};

// Of the rows from `begin` on.
inline Bits Validity(const arrow::ArrayData& column, int64_t begin) {
  if (!HasNulls(column)) return {};
  return {column.buffers[0]->data(), column.offset + begin};
}

}  // namespace flightshmem
