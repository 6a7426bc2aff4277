// SPDX-License-Identifier: Apache-2.0
//
// Arrow's own kernels can allocate their results in the symmetric heap through this pool.
#pragma once

#include <arrow/memory_pool.h>

#include <memory>

#include "heap/symmetric_heap.h"

namespace flightshmem {

// Thread-safe. Keeps the heap alive; must itself outlive the buffers made from it (Arrow's rule).
std::unique_ptr<arrow::MemoryPool> MakeHeapMemoryPool(std::shared_ptr<SymmetricHeap> heap);

}  // namespace flightshmem
