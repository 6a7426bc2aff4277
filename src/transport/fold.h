// SPDX-License-Identifier: Apache-2.0
//
// Element-wise operations of Transport::Reduce.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace flightshmem {

// total[i] = total[i] op other[i] for `count` elements; no alignment needed.
using Fold = void (*)(std::byte* total, const std::byte* other, uint64_t count);

// TypeError for kAnd, kOr, kXor of a float type. Integers wrap; kMin and kMax give NaN where either
// side is NaN, as NumPy's do.
arrow::Result<Fold> FindFold(NumericType type, ReduceOp op);

// Bytes of an element.
uint64_t WidthOf(NumericType type);

}  // namespace flightshmem
