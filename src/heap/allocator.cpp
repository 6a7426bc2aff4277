// SPDX-License-Identifier: Apache-2.0
#include "heap/allocator.h"

#include <algorithm>
#include <limits>

namespace flightshmem {

Allocator::Allocator(uint64_t begin, uint64_t end)
    : begin_((begin + kAlignment - 1) / kAlignment * kAlignment),
      end_(std::max(begin_, end / kAlignment * kAlignment)) {
  if (begin_ < end_) free_.emplace(begin_, end_ - begin_);
}

// Saturates instead of wrapping: a size near 2^64 must not turn into a small one.
uint64_t Allocator::RoundUp(uint64_t size) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max() / kAlignment * kAlignment;
  if (size > kMax) return kMax;
  return std::max<uint64_t>((size + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
}

std::optional<uint64_t> Allocator::Allocate(uint64_t size) {
  const uint64_t needed = RoundUp(size);
  auto extent = std::find_if(free_.begin(), free_.end(),
                             [needed](const auto& free) { return free.second >= needed; });
  if (extent == free_.end()) return std::nullopt;
  const uint64_t offset = extent->first;
  Take(extent, offset, needed);
  return offset;
}

std::optional<uint64_t> Allocator::HighestFit(uint64_t size, uint64_t limit) const {
  const uint64_t needed = RoundUp(size);
  // Extents that begin above the limit cannot help; from there downwards the first fit is highest.
  for (auto extent = free_.upper_bound(limit); extent != free_.begin();) {
    --extent;
    if (extent->second < needed) continue;
    const uint64_t highest = extent->first + extent->second - needed;
    return std::min(highest, limit / kAlignment * kAlignment);
  }
  return std::nullopt;
}

bool Allocator::AllocateAt(uint64_t offset, uint64_t size) {
  const uint64_t needed = RoundUp(size);
  auto extent = free_.upper_bound(offset);
  if (offset % kAlignment != 0 || extent == free_.begin()) return false;
  --extent;
  const uint64_t before = offset - extent->first;
  if (before > extent->second || extent->second - before < needed) return false;
  Take(extent, offset, needed);
  return true;
}

void Allocator::Take(std::map<uint64_t, uint64_t>::iterator extent, uint64_t offset,
                     uint64_t size) {
  const uint64_t before = offset - extent->first;
  const uint64_t after = extent->second - before - size;
  if (before == 0) {
    free_.erase(extent);
  } else {
    extent->second = before;
  }
  if (after > 0) free_.emplace(offset + size, after);
  blocks_.emplace(offset, size);
  used_bytes_ += size;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
}

void Allocator::Free(uint64_t offset) {
  const auto block = blocks_.find(offset);
  if (block == blocks_.end()) return;
  uint64_t size = block->second;
  blocks_.erase(block);
  used_bytes_ -= size;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += size;
      return;
    }
  }
  free_.emplace_hint(next, offset, size);
}

HeapStats Allocator::stats() const {
  HeapStats stats;
  stats.capacity_bytes = end_ - begin_;
  stats.used_bytes = used_bytes_;
  stats.peak_bytes = peak_bytes_;
  stats.blocks = blocks_.size();
  for (const auto& [offset, size] : free_) {
    stats.largest_free_bytes = std::max(stats.largest_free_bytes, size);
  }
  return stats;
}

}  // namespace flightshmem
