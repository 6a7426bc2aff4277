// SPDX-License-Identifier: Apache-2.0
#include "exchange/share.h"

#include <cstring>
#include <span>
#include <utility>

#include "heap/loan.h"

namespace flightshmem {
namespace {

struct Place {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0: there is none
};

}  // namespace

arrow::Result<std::shared_ptr<arrow::Buffer>> ShareBytes(
    const std::shared_ptr<SymmetricHeap>& heap, int keeper,
    const std::shared_ptr<arrow::Buffer>& bytes) {
  Transport& transport = *heap->transport();
  Place place;
  std::shared_ptr<arrow::Buffer> shared;
  if (transport.my_pe() == keeper && bytes != nullptr && bytes->size() > 0) {
    const auto size = static_cast<uint64_t>(bytes->size());
    auto block = heap->Allocate(LoanBytes(size));
    if (block.ok()) {
      std::memcpy(block->data(), bytes->data(), size);
      place = {block->where().offset, size};
      shared = Lend(std::move(*block), size, transport.n_pes() - 1);
    }
  }
  // The others borrow after this, which has the effect of a barrier.
  ARROW_RETURN_NOT_OK(transport.Broadcast(std::as_writable_bytes(std::span(&place, 1)), keeper));
  if (place.bytes == 0 || transport.my_pe() == keeper) return shared;
  return Borrow(heap, {keeper, place.offset}, place.bytes);
}

}  // namespace flightshmem
