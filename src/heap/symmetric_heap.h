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
#include <string>
#include <vector>

#include "heap/allocator.h"
#include "heap/warmer.h"
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

  HeapExhaustedDetail(uint64_t requested_bytes, HeapStats stats, int pe)
      : requested_bytes(requested_bytes), stats(stats), pe(pe) {}
  const char* type_id() const override { return kTypeId; }
  std::string ToString() const override;

  const uint64_t requested_bytes;
  const HeapStats stats;
  const int pe;
};

// A layer above that keeps blocks it could give up. Both are called without locks held, by any
// thread, and must not allocate from the heap.
struct HeapTenant {
  std::function<void()> reclaim;             // frees what it can
  std::function<std::string()> description;  // its largest holdings, for the error text
};

class SymmetricHeap : public std::enable_shared_from_this<SymmetricHeap> {
 public:
  // Manages [begin, transport->segment_size()) of this PE's segment. Invalid when there is nothing
  // left to manage. `warm_bytes`: touch the first so many ahead of use (see warmer.h).
  static arrow::Result<std::shared_ptr<SymmetricHeap>> Make(std::shared_ptr<Transport> transport,
                                                            uint64_t begin,
                                                            uint64_t warm_bytes = 0);

  // 64-byte aligned. When full, calls the tenants' reclaim and tries once more, then fails with
  // HeapExhaustedDetail. One-sided, any thread.
  arrow::Result<Block> Allocate(uint64_t size);
  // As Allocate, as an Arrow buffer that owns its block.
  arrow::Result<std::shared_ptr<arrow::Buffer>> AllocateBuffer(uint64_t size);
  // A block at the same offset on every PE (an OpenSHMEM symmetric object). Collective; equal
  // sizes. Freeing it is local. Fails on all PEs alike. Main thread.
  arrow::Result<Block> AllocateSymmetric(uint64_t size);

  void AddTenant(HeapTenant tenant);
  // Lets every tenant free what it can. Any thread.
  void Reclaim();
  // From here on frees do nothing and allocations fail. Any thread.
  void Close() { closed_ = true; }
  bool closed() const { return closed_; }

  // Takes back first what borrowers have let go of.
  HeapStats stats();
  const std::shared_ptr<Transport>& transport() const { return transport_; }

  // Frees `block` once `holders`, which lies in it, is zero: now, or at a later call of this heap.
  // Any thread.
  static void FreeWhenZero(Block block, const std::atomic<int64_t>* holders);

  // Moves a block into an Arrow buffer that frees it. `size` <= block size: the visible length.
  static std::shared_ptr<arrow::Buffer> ToBuffer(Block block, uint64_t size);

 private:
  friend class Block;
  struct Waiting {
    uint64_t offset = 0;
    const std::atomic<int64_t>* holders = nullptr;
  };
  // What the PEs tell each other while they look for a common place.
  struct Proposal {
    int64_t offset = -1;  // -1: no room
    HeapStats stats;
  };

  SymmetricHeap(std::shared_ptr<Transport> transport, uint64_t begin, uint64_t warm_bytes);
  std::vector<HeapTenant> tenants() const;
  arrow::Status CheckOpen() const;
  arrow::Status Exhausted(uint64_t requested, const HeapStats& stats, int pe) const;
  arrow::Result<uint64_t> CommonOffset(uint64_t size, uint64_t limit);
  Proposal Propose(uint64_t size, uint64_t limit);
  Block MakeBlock(uint64_t offset, uint64_t size);
  void Free(uint64_t offset);
  void FreeWaiting();  // REQUIRES: mutex_ held

  const std::shared_ptr<Transport> transport_;
  std::unique_ptr<Warmer> warmer_;  // may be null
  mutable std::mutex mutex_;        // guards the next three
  Allocator allocator_;
  std::vector<Waiting> waiting_;
  std::vector<HeapTenant> tenants_;
  std::atomic<bool> closed_ = false;
};

// "1.5 GiB"; exact below 1 KiB.
std::string HumanBytes(uint64_t bytes);

}  // namespace flightshmem
