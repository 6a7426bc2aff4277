// SPDX-License-Identifier: Apache-2.0
//
// Keys as unsigned words with the keys' order. Pure functions.
#pragma once

#include <arrow/array.h>
#include <arrow/chunked_array.h>

#include <cstdint>
#include <vector>

namespace flightshmem {

struct SortCodes {
  std::vector<uint64_t> words;   // 0 where missing
  std::vector<uint8_t> missing;  // 1 where missing; empty if nothing is
};

// One word per row, ordered as the values are (descending: the other way round).
// NotImplemented for types without such words.
arrow::Result<SortCodes> ToSortCodes(const arrow::ChunkedArray& key, bool ascending);

}  // namespace flightshmem
