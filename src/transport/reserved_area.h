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
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "transport/transport.h"

namespace flightshmem {

// The launcher writes kFinished or kKilled into the memory file for a PE that has ended without a
// word, so the numbers are fixed.
enum class PeState : uint32_t {
  kAbsent = 0,
  kRunning = 1,
  kFinished = 2,
  kAborted = 3,
  kKilled = 4,
};

// A few words that one PE writes and any PE may read at any time, also after its end. Who reads
// while it is written may see some of both texts.
class PhaseText {
 public:
  void Set(std::string_view text) {
    char bytes[sizeof(words_)] = {};
    text.copy(bytes, sizeof(bytes) - 1);
    for (size_t i = 0; i < std::size(words_); ++i) {
      uint64_t word;
      std::memcpy(&word, bytes + i * sizeof(word), sizeof(word));
      words_[i].store(word, std::memory_order_relaxed);
    }
  }
  std::string Get() const {
    char bytes[sizeof(words_)];
    for (size_t i = 0; i < std::size(words_); ++i) {
      const uint64_t word = words_[i].load(std::memory_order_relaxed);
      std::memcpy(bytes + i * sizeof(word), &word, sizeof(word));
    }
    return std::string(bytes, strnlen(bytes, sizeof(bytes)));
  }

 private:
  std::atomic<uint64_t> words_[4];
};

// Valid when all bytes are zero, as memory files are made; lock-free atomics work across processes.
struct ReservedArea {
  alignas(64) std::atomic<PeState> state;
  std::atomic<int32_t> pid;                    // written before kRunning
  std::atomic<uint64_t> pid_namespace;         // where `pid` means something
  PhaseText phase;                             // see Transport::SetPhase
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
