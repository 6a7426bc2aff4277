// SPDX-License-Identifier: Apache-2.0
//
// Slots and bits of a run of rows, as an exchange wants them.
#pragma once

#include <arrow/array/data.h>

#include <cstdint>
#include <cstring>

namespace flightshmem {

inline bool HasNulls(const arrow::ArrayData& column) {
  return column.GetNullCount() > 0 && column.buffers[0] != nullptr;
}

// Bits [offset, offset + count), one byte each (0 or 1).
void UnpackBits(const uint8_t* bits, int64_t offset, int64_t count, uint8_t* out);

// Copies slots of `width` bytes. Where `valid` is 0 they become zero (floats: NaN), as null slots
// are in shards.
void CleanSlots(const uint8_t* in, const uint8_t* valid, int64_t rows, uint64_t width,
                arrow::Type::type id, uint8_t* out);

template <size_t kWords>
struct Wide {
  uint64_t words[kWords];
};

template <typename T>
T Load(const uint8_t* from) {
  T value;  // imported buffers need not be aligned
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace flightshmem
