// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace flightshmem {

// Copies `bytes` like memcpy; large copies go past the caches, for they would not stay there, and
// a line that is not read before it is written costs the memory a third less. Measured with two
// processes copying 40 MiB each: memcpy 6.3 GB/s, this 9.4 (2-core AMD EPYC, means).
// REQUIRES: `to` is 16-byte aligned; the two do not overlap. Any thread; complete on return.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace flightshmem
