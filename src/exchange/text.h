// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/array/data.h>

#include <cstdint>
#include <cstring>

#include "exchange/layout.h"
#include "exchange/targets.h"

namespace flightshmem {

// A text column, its rows numbered from `begin`.
struct TextRows {
  const arrow::ArrayData* column = nullptr;
  int64_t begin = 0;
  const uint8_t* valid = nullptr;  // one byte per row; null: no nulls
};

// Copying a known number of bytes costs less than the exact number, where there is room for it.
inline void CopyText(const uint8_t* from, const uint8_t* from_end, int64_t length, uint8_t* to,
                     const uint8_t* limit) {
  constexpr int64_t kShort = 16;
  if (length <= kShort && limit - to >= kShort && from_end - from >= kShort) {
    std::memcpy(to, from, kShort);
  } else if (length > 0) {
    std::memcpy(to, from, static_cast<size_t>(length));
  }
}

// Appends the text of `count` rows, by number, to destination `d`, and the offsets where each ends
// to `ends`.
template <typename In, typename Out>
void WriteTextAs(const TextRows& text, const uint16_t* rows, int64_t count, size_t d,
                 ColumnTargets* to, uint8_t* ends) {
  const In* offsets = text.column->GetValues<In>(1) + text.begin;
  const arrow::Buffer* buffer = text.column->buffers[2].get();
  const uint8_t* bytes = buffer == nullptr ? nullptr : buffer->data();
  const uint8_t* bytes_end = buffer == nullptr ? nullptr : bytes + buffer->size();
  uint8_t* next = to->text[d];
  const uint8_t* limit = to->text_limit[d];
  int64_t end = to->text_end[d];
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t row = rows[i];
    if (text.valid == nullptr || text.valid[row]) {
      const auto length = static_cast<int64_t>(offsets[row + 1] - offsets[row]);
      CopyText(bytes + offsets[row], bytes_end, length, next, limit);
      next += length;
      end += length;
    }
    reinterpret_cast<Out*>(ends)[i] = static_cast<Out>(end);
  }
  to->text[d] = next;
  to->text_end[d] = end;
}

inline void WriteText(const ColumnShape& shape, const TextRows& text, const uint16_t* rows,
                      int64_t count, size_t d, ColumnTargets* to, uint8_t* ends) {
  if (shape.source_width == 8) {
    WriteTextAs<int64_t, int64_t>(text, rows, count, d, to, ends);
  } else if (shape.width == 8) {
    WriteTextAs<int32_t, int64_t>(text, rows, count, d, to, ends);
  } else {
    WriteTextAs<int32_t, int32_t>(text, rows, count, d, to, ends);
  }
}

}  // namespace flightshmem
