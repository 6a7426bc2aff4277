// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace flightshmem {

// Rows in order of their codes; those of code c are rows[starts[c]] ... rows[starts[c+1]-1],
// ascending.
struct RowLists {
  std::vector<uint32_t> starts;
  std::vector<uint32_t> rows;
};

// The same without the memory.
struct RowListsView {
  const uint32_t* starts = nullptr;
  const uint32_t* rows = nullptr;
};

inline RowLists ListRows(const uint32_t* codes, int64_t n_rows, int64_t n_codes) {
  RowLists lists{std::vector<uint32_t>(static_cast<size_t>(n_codes) + 2),
                 std::vector<uint32_t>(static_cast<size_t>(n_rows))};
  // Counted two places up, summed, then used as cursors one place up: what remains are the starts.
  for (int64_t i = 0; i < n_rows; ++i) ++lists.starts[codes[i] + 2];
  for (size_t c = 2; c < lists.starts.size(); ++c) lists.starts[c] += lists.starts[c - 1];
  for (int64_t i = 0; i < n_rows; ++i) {
    lists.rows[lists.starts[codes[i] + 1]++] = static_cast<uint32_t>(i);
  }
  return lists;
}

}  // namespace flightshmem
