// SPDX-License-Identifier: Apache-2.0
#include "heap/loan.h"

#include <atomic>
#include <new>
#include <utility>

namespace flightshmem {
namespace {

using Borrowers = std::atomic<int64_t>;
static_assert(Borrowers::is_always_lock_free);

uint64_t RoundUp(uint64_t size) {
  return (size + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
}

Borrowers* BorrowersOf(std::byte* block, uint64_t size) {
  return std::launder(reinterpret_cast<Borrowers*>(block + RoundUp(size)));
}

class LentBuffer : public arrow::Buffer {
 public:
  LentBuffer(Block block, uint64_t size)
      : Buffer(reinterpret_cast<const uint8_t*>(block.data()), static_cast<int64_t>(size)),
        block_(std::move(block)) {}
  ~LentBuffer() override {
    SymmetricHeap::FreeWhenZero(std::move(block_),
                                BorrowersOf(block_.data(), static_cast<uint64_t>(size())));
  }

 private:
  Block block_;
};

class BorrowedBuffer : public arrow::Buffer {
 public:
  BorrowedBuffer(std::shared_ptr<SymmetricHeap> heap, std::byte* block, uint64_t size)
      : Buffer(reinterpret_cast<const uint8_t*>(block), static_cast<int64_t>(size)),
        heap_(std::move(heap)),
        borrowers_(BorrowersOf(block, size)) {}
  ~BorrowedBuffer() override { borrowers_->fetch_sub(1, std::memory_order_release); }

 private:
  std::shared_ptr<SymmetricHeap> heap_;  // keeps the memory mapped
  Borrowers* borrowers_;
};

}  // namespace

uint64_t LoanBytes(uint64_t size) { return RoundUp(size) + Allocator::kAlignment; }

std::shared_ptr<arrow::Buffer> Lend(Block block, uint64_t size, int64_t n_borrowers) {
  new (block.data() + RoundUp(size)) Borrowers(n_borrowers);
  return std::make_shared<LentBuffer>(std::move(block), size);
}

std::shared_ptr<arrow::Buffer> Borrow(std::shared_ptr<SymmetricHeap> heap, GlobalPtr block,
                                      uint64_t size) {
  std::byte* at = heap->transport()->peer(block.pe) + block.offset;
  return std::make_shared<BorrowedBuffer>(std::move(heap), at, size);
}

}  // namespace flightshmem
