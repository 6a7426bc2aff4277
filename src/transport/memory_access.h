// SPDX-License-Identifier: Apache-2.0
//
// What providers share for memory that is mapped here: atomics by width, and the way to say
// goodbye.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flightshmem {

inline constexpr uint64_t kPageBytes = 4096;

// REQUIRES: `at` is aligned to `width`, which is 4 or 8.
inline uint64_t FetchAddAt(std::byte* at, uint64_t value, int width) {
  if (width == 8) return std::atomic_ref(*reinterpret_cast<uint64_t*>(at)).fetch_add(value);
  return std::atomic_ref(*reinterpret_cast<uint32_t*>(at)).fetch_add(static_cast<uint32_t>(value));
}

template <typename T>
T CompareSwapWord(std::byte* at, T expected, T desired) {
  std::atomic_ref(*reinterpret_cast<T*>(at)).compare_exchange_strong(expected, desired);
  return expected;  // which a failed exchange has replaced by the value found
}

inline uint64_t CompareSwapAt(std::byte* at, uint64_t expected, uint64_t desired, int width) {
  if (width == 8) return CompareSwapWord<uint64_t>(at, expected, desired);
  return CompareSwapWord<uint32_t>(at, static_cast<uint32_t>(expected),
                                   static_cast<uint32_t>(desired));
}

// One write(), so that the lines of PEs that abort together do not mix.
inline void PrintLastWords(int my_pe, std::string_view message) {
  if (message.empty()) return;
  std::string line =
      "flightshmem: PE " + std::to_string(my_pe) + ": " + std::string(message) + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace flightshmem
