// SPDX-License-Identifier: Apache-2.0
//
// What lies in the reserved bytes at the beginning of every segment.
//
//   0         ReservedArea: this PE's state; PE 0's also holds the words of the barrier
//   64 KiB    scratch half 0 |  collectives.cpp uses the halves in turn, so that one barrier per
//   544 KiB   scratch half 1 |  piece is enough
//   1 MiB     end = Transport::kReservedBytes
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace flightshmem {

// The launcher writes kFinished into the memory file for a PE that is gone, so the numbers are
// fixed.
enum class PeState : uint32_t { kAbsent = 0, kRunning = 1, kFinished = 2, kAborted = 3 };

// Valid when all bytes are zero, as memory files are made; lock-free atomics work across processes.
struct ReservedArea {
  alignas(64) std::atomic<PeState> state;
  alignas(64) std::atomic<uint64_t> barriers;  // how many this PE has arrived at
  alignas(64) std::atomic<uint32_t> arrived;   // PE 0's: how many PEs are in the current barrier
  alignas(64) std::atomic<uint32_t> turn;      // PE 0's: counts barriers; the futex word
  alignas(64) char last_words[1024];           // why it aborted; written before kAborted
};

inline constexpr uint64_t kScratchOffset = 64 << 10;
inline constexpr uint64_t kScratchHalfBytes = (Transport::kReservedBytes - kScratchOffset) / 2;

static_assert(std::atomic<PeState>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(ReservedArea) <= kScratchOffset);

}  // namespace flightshmem
