// SPDX-License-Identifier: Apache-2.0
//
// This PE's part of the symmetric heap. Allocation is local (no collective) and thread-safe; what
// lies in a block can be read by every PE.
//
// Ownership: Block -> SymmetricHeap -> Transport, each by shared pointer, so memory stays mapped as
// long as a view of it lives. After Close() a free does nothing.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "heap/allocator.h"
#include "transport/transport.h"

namespace flightshmem {

class SymmetricHeap;

// One allocation. Move-only; the destructor frees. Contents are what the last owner left: the
// writer must overwrite or zero everything that others will see.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  explicit operator bool() const { return heap_ != nullptr; }
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  GlobalPtr where() const { return where_; }

 private:
  friend class SymmetricHeap;
  std::shared_ptr<SymmetricHeap> heap_;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  GlobalPtr where_;
};

// The status of an allocation that found no room: OutOfMemory with this detail.
class HeapExhaustedDetail : public arrow::StatusDetail {
 public:
  static constexpr const char* kTypeId = "flightshmem::HeapExhausted";

  HeapExhaustedDetail(uint64_t requested_bytes, HeapStats stats, int pe);
  const char* type_id() const override { return kTypeId; }
  std::string ToString() const override;

  const uint64_t requested_bytes;
  const HeapStats stats;
  const int pe;
};

class SymmetricHeap : public std::enable_shared_from_this<SymmetricHeap> {
 public:
  // Manages [begin, transport->segment_size()) of this PE's segment.
  static arrow::Result<std::shared_ptr<SymmetricHeap>> Make(std::shared_ptr<Transport> transport,
                                                            uint64_t begin);

  // 64-byte aligned. When full, calls the reclaimers (see below) and tries once more, then fails
  // with HeapExhaustedDetail. One-sided, any thread.
  arrow::Result<Block> Allocate(uint64_t size);
  // As Allocate, as an Arrow buffer that owns its block.
  arrow::Result<std::shared_ptr<arrow::Buffer>> AllocateBuffer(uint64_t size);
  // A block at the same offset on every PE (an OpenSHMEM symmetric object). Collective; equal
  // sizes. Freeing it is local. Fails on all PEs alike.
  arrow::Result<Block> AllocateSymmetric(uint64_t size);

  // `reclaim` frees what it can (retired tables); called without locks held, any thread.
  void AddReclaimer(std::function<void()> reclaim);
  // From here on frees do nothing and allocations fail. Any thread.
  void Close();

  HeapStats stats() const;
  const std::shared_ptr<Transport>& transport() const { return transport_; }

  // Moves a block into an Arrow buffer that frees it. `size` <= block size: the visible length.
  static std::shared_ptr<arrow::Buffer> ToBuffer(Block block, uint64_t size);

 private:
  friend class Block;
  SymmetricHeap(std::shared_ptr<Transport> transport, uint64_t begin);
  Block MakeBlock(uint64_t offset, uint64_t size);
  void Free(uint64_t offset);

  std::shared_ptr<Transport> transport_;
  mutable std::mutex mutex_;
  Allocator allocator_;
  bool closed_ = false;
  std::mutex reclaimers_mutex_;
  std::vector<std::function<void()>> reclaimers_;
};

}  // namespace flightshmem
