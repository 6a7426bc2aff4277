// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flightshmem {

// The finaliser of MurmurHash3: every input bit reaches every output bit.
inline uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDULL;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ULL;
  return x ^ (x >> 33);
}

}  // namespace flightshmem
