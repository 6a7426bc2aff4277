// SPDX-License-Identifier: Apache-2.0
#include "heap/symmetric_heap.h"

#include <array>
#include <cstdio>
#include <utility>

namespace flightshmem {
namespace {

class BlockBuffer : public arrow::MutableBuffer {
 public:
  BlockBuffer(Block block, uint64_t size)
      : arrow::MutableBuffer(reinterpret_cast<uint8_t*>(block.data()), static_cast<int64_t>(size)),
        block_(std::move(block)) {}

 private:
  Block block_;
};

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

Block::Block(Block&& other) noexcept
    : heap_(std::move(other.heap_)), data_(other.data_), size_(other.size_), where_(other.where_) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(heap_, other.heap_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(where_, other.where_);
  return *this;
}

Block::~Block() {
  if (heap_ != nullptr) heap_->Free(where_.offset);
}

std::string HeapExhaustedDetail::ToString() const {
  return HumanBytes(requested_bytes) + " requested, " +
         HumanBytes(stats.capacity_bytes - stats.used_bytes) + " free";
}

arrow::Result<std::shared_ptr<SymmetricHeap>> SymmetricHeap::Make(
    std::shared_ptr<Transport> transport, uint64_t begin, uint64_t warm_bytes) {
  if (begin >= transport->segment_size()) {
    return arrow::Status::Invalid("[heap] the segment has no room for a heap, got ",
                                  HumanBytes(transport->segment_size()), ", PE ",
                                  transport->my_pe(), "/", transport->n_pes(), ": give more than ",
                                  HumanBytes(begin), " with --heap or FLIGHTSHMEM_HEAP");
  }
  return std::shared_ptr<SymmetricHeap>(new SymmetricHeap(std::move(transport), begin, warm_bytes));
}

SymmetricHeap::SymmetricHeap(std::shared_ptr<Transport> transport, uint64_t begin,
                             uint64_t warm_bytes)
    : transport_(std::move(transport)), allocator_(begin, transport_->segment_size()) {
  if (warm_bytes > 0) warmer_ = std::make_unique<Warmer>(transport_, begin, warm_bytes);
}

arrow::Status SymmetricHeap::CheckOpen() const {
  if (!closed_) return arrow::Status::OK();
  return arrow::Status::Invalid("[heap] the runtime has ended, PE ", transport_->my_pe(), "/",
                                transport_->n_pes(), ": allocate before flightshmem.finalize()");
}

arrow::Status SymmetricHeap::Exhausted(uint64_t requested, const HeapStats& stats, int pe) const {
  std::string holdings;
  for (const HeapTenant& tenant : tenants()) {
    const std::string text = tenant.description();
    if (!text.empty()) holdings += "; " + text;
  }
  return arrow::Status::FromDetailAndArgs(
      arrow::StatusCode::OutOfMemory, std::make_shared<HeapExhaustedDetail>(requested, stats, pe),
      "[heap] no room in the symmetric heap, got a request for ", HumanBytes(requested), " with ",
      HumanBytes(stats.capacity_bytes - stats.used_bytes), " of ", HumanBytes(stats.capacity_bytes),
      " free, largest free block ", HumanBytes(stats.largest_free_bytes), ", PE ", pe, "/",
      transport_->n_pes(), holdings,
      ": start with a larger heap (--heap 4G or FLIGHTSHMEM_HEAP=4G) or drop tables");
}

arrow::Result<Block> SymmetricHeap::Allocate(uint64_t size) {
  ARROW_RETURN_NOT_OK(CheckOpen());
  for (const bool retry : {false, true}) {
    if (retry) Reclaim();
    std::lock_guard lock(mutex_);
    FreeWaiting();
    if (const auto offset = allocator_.Allocate(size)) return MakeBlock(*offset, size);
  }
  return Exhausted(size, stats(), transport_->my_pe());
}

arrow::Result<std::shared_ptr<arrow::Buffer>> SymmetricHeap::AllocateBuffer(uint64_t size) {
  ARROW_ASSIGN_OR_RAISE(Block block, Allocate(size));
  return ToBuffer(std::move(block), size);
}

SymmetricHeap::Proposal SymmetricHeap::Propose(uint64_t size, uint64_t limit) {
  for (const bool retry : {false, true}) {
    if (retry) Reclaim();
    std::lock_guard lock(mutex_);
    FreeWaiting();
    const auto offset = allocator_.HighestFit(size, limit);
    if (offset || retry) {
      return {offset ? static_cast<int64_t>(*offset) : -1, allocator_.stats()};
    }
  }
  return {};
}

// The lowest of all proposals; an error, the same on all PEs, when some PE has none.
arrow::Result<uint64_t> SymmetricHeap::CommonOffset(uint64_t size, uint64_t limit) {
  const Proposal mine = Propose(size, limit);
  std::vector<Proposal> all(static_cast<size_t>(transport_->n_pes()));
  ARROW_RETURN_NOT_OK(transport_->AllGather(std::as_bytes(std::span(&mine, 1)),
                                            std::as_writable_bytes(std::span(all))));
  int64_t lowest = mine.offset;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].offset < 0) return Exhausted(size, all[pe].stats, static_cast<int>(pe));
    lowest = std::min(lowest, all[pe].offset);
  }
  return static_cast<uint64_t>(lowest);
}

// Every round the PEs agree on the lowest proposal and try to take it. A PE where that place is in
// use proposes a lower one in the next round, so the rounds end.
arrow::Result<Block> SymmetricHeap::AllocateSymmetric(uint64_t size) {
  ARROW_RETURN_NOT_OK(CheckOpen());
  uint64_t limit = transport_->segment_size();
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t offset, CommonOffset(size, limit));
    Block block;
    {
      std::lock_guard lock(mutex_);
      if (allocator_.AllocateAt(offset, size)) block = MakeBlock(offset, size);
    }
    uint8_t taken_everywhere = block ? 1 : 0;
    ARROW_RETURN_NOT_OK(transport_->Reduce(std::as_writable_bytes(std::span(&taken_everywhere, 1)),
                                           NumericType::kUInt8, ReduceOp::kMin));
    if (taken_everywhere != 0) return block;
    limit = offset;
  }
}

void SymmetricHeap::AddTenant(HeapTenant tenant) {
  std::lock_guard lock(mutex_);
  tenants_.push_back(std::move(tenant));
}

std::vector<HeapTenant> SymmetricHeap::tenants() const {
  std::lock_guard lock(mutex_);
  return tenants_;
}

void SymmetricHeap::Reclaim() {
  for (const HeapTenant& tenant : tenants()) tenant.reclaim();
}

HeapStats SymmetricHeap::stats() {
  std::lock_guard lock(mutex_);
  FreeWaiting();
  return allocator_.stats();
}

Block SymmetricHeap::MakeBlock(uint64_t offset, uint64_t size) {
  Block block;
  block.heap_ = shared_from_this();
  block.where_ = {transport_->my_pe(), offset};
  block.data_ = transport_->peer(transport_->my_pe()) + offset;
  block.size_ = size;
  return block;
}

void SymmetricHeap::Free(uint64_t offset) {
  if (closed_) return;
  std::lock_guard lock(mutex_);
  allocator_.Free(offset);
}

void SymmetricHeap::FreeWhenZero(Block block, const std::atomic<int64_t>* holders) {
  if (block.heap_ == nullptr || holders->load(std::memory_order_acquire) == 0) return;
  // Only the place is kept: a block would keep the heap alive, and the heap the block.
  const std::shared_ptr<SymmetricHeap> heap = std::move(block.heap_);
  std::lock_guard lock(heap->mutex_);
  heap->waiting_.push_back({block.where_.offset, holders});
}

void SymmetricHeap::FreeWaiting() {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const bool is_free = waiting.holders->load(std::memory_order_acquire) == 0;
    if (is_free) allocator_.Free(waiting.offset);
    return is_free;
  });
}

std::shared_ptr<arrow::Buffer> SymmetricHeap::ToBuffer(Block block, uint64_t size) {
  return std::make_shared<BlockBuffer>(std::move(block), size);
}

}  // namespace flightshmem
