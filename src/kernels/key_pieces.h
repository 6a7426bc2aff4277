// SPDX-License-Identifier: Apache-2.0
//
// What the ways of encoding keys share.
#pragma once

#include <arrow/array/array_dict.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace flightshmem {

// A piece of a key column. `indices` is set when the rows are positions in `values`.
struct Piece {
  bool is_left = false;
  std::shared_ptr<arrow::Array> values;
  std::shared_ptr<arrow::DictionaryArray> indices;
  int64_t length() const { return indices ? indices->length() : values->length(); }
};

struct RowCounts {
  int64_t left = 0;
  int64_t right = 0;
  int64_t both() const { return left + right; }
};

// Tables start with room for so many words: most have few, and growing costs less than room unused.
inline constexpr int64_t kFirstWords = 1 << 14;

inline std::unique_ptr<uint32_t[]> NewCodes(int64_t rows) {
  return std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(rows));
}

// Gives the rows of plain pieces whose value is null `null_code`. `out`: of the first piece's first
// row.
inline void WriteNullCodes(const std::vector<Piece>& pieces, uint32_t null_code, uint32_t* out) {
  for (const Piece& piece : pieces) {
    for (int64_t i = 0; piece.values->null_count() > 0 && i < piece.length(); ++i) {
      if (piece.values->IsNull(i)) out[i] = null_code;
    }
    out += piece.length();
  }
}

}  // namespace flightshmem
