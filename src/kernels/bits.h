// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace flightshmem {

// 64 bits of a bitmap from any bit on; bits at and beyond `end` are 0, and no byte that holds none
// of the others is read. REQUIRES: begin < end.
inline uint64_t LoadBits(const uint8_t* bits, int64_t begin, int64_t end) {
  const int64_t count = std::min<int64_t>(64, end - begin);
  const int shift = static_cast<int>(begin % 8);
  const auto bytes = static_cast<size_t>((shift + count + 7) / 8);  // up to 9
  uint64_t word = 0;
  std::memcpy(&word, bits + begin / 8, std::min<size_t>(bytes, 8));
  word >>= shift;
  if (bytes > 8) word |= uint64_t{bits[begin / 8 + 8]} << (64 - shift);
  return count == 64 ? word : word & ((uint64_t{1} << count) - 1);
}

}  // namespace flightshmem
