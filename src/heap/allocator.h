// SPDX-License-Identifier: Apache-2.0
//
// Where blocks lie in one PE's part of the symmetric heap. Knows offsets only: no memory is
// touched, no Arrow, no transport.
//
//   begin                                                      end
//     | block | free extent | block | block |   free extent     |
//       64-byte aligned offsets and sizes; neighbouring free extents are always one (coalesced).
//
// The lowest fitting extent wins, so pages touched before are used again before cold ones.
// Not thread-safe: SymmetricHeap locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace flightshmem {

struct HeapStats {
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t peak_bytes = 0;          // high-water mark of used_bytes
  uint64_t largest_free_bytes = 0;  // the largest allocation that can succeed now
  uint64_t blocks = 0;
};

class Allocator {
 public:
  static constexpr uint64_t kAlignment = 64;

  // REQUIRES: begin <= end.
  Allocator(uint64_t begin, uint64_t end);

  // The offset of a block of at least `size` bytes, or nothing when no free extent is large enough.
  // A size of 0 takes one aligned unit, so that every block has an address of its own.
  std::optional<uint64_t> Allocate(uint64_t size);
  // The highest aligned offset <= `limit` where `size` bytes are free; takes nothing. Symmetric
  // blocks go to the top, where all PEs are likely to have the same offset free.
  std::optional<uint64_t> HighestFit(uint64_t size, uint64_t limit) const;
  // Takes exactly [offset, offset + size); false when part of it is in use.
  bool AllocateAt(uint64_t offset, uint64_t size);
  // REQUIRES: offset came from Allocate or was given to AllocateAt, and was not freed since (any
  // other offset is ignored).
  void Free(uint64_t offset);

  HeapStats stats() const;

 private:
  static uint64_t RoundUp(uint64_t size);
  void Take(std::map<uint64_t, uint64_t>::iterator extent, uint64_t offset, uint64_t size);

  uint64_t begin_;
  uint64_t end_;
  uint64_t used_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  std::map<uint64_t, uint64_t> free_;    // offset -> size
  std::map<uint64_t, uint64_t> blocks_;  // offset -> size
};

}  // namespace flightshmem
