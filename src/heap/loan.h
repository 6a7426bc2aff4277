// SPDX-License-Identifier: Apache-2.0
//
// A block that its owner and other PEs of the node read in place. Who lets go last does not matter:
// the owner's heap takes the block back when nobody holds it, at its next allocation.
//
// The number of borrowers stands in the block, behind the bytes that are lent.
#pragma once

#include <arrow/buffer.h>

#include <memory>

#include "heap/symmetric_heap.h"

namespace flightshmem {

// The size of a block that is to lend `size` bytes.
uint64_t LoanBytes(uint64_t size);

// On the owner, before any Borrow: a buffer over the first `size` bytes, which `n_borrowers` PEs
// will borrow, each once. REQUIRES: block.size() >= LoanBytes(size).
std::shared_ptr<arrow::Buffer> Lend(Block block, uint64_t size, int64_t n_borrowers);

// On another PE of the node, after a barrier since Lend: a buffer over the same bytes. Letting it
// go is one atomic operation, from any thread.
std::shared_ptr<arrow::Buffer> Borrow(std::shared_ptr<SymmetricHeap> heap, GlobalPtr block,
                                      uint64_t size);

}  // namespace flightshmem
