// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <memory>

#include "heap/symmetric_heap.h"

namespace flightshmem {

// Collective, main thread. Bytes of one PE for all to read in place: they are copied into the
// keeper's heap and lent. `bytes`: the keeper's, others' is not looked at. Null on all PEs when the
// keeper has none or its heap no room for them. REQUIRES: all PEs share memory.
arrow::Result<std::shared_ptr<arrow::Buffer>> ShareBytes(
    const std::shared_ptr<SymmetricHeap>& heap, int keeper,
    const std::shared_ptr<arrow::Buffer>& bytes);

}  // namespace flightshmem
