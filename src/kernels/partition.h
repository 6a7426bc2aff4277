// SPDX-License-Identifier: Apache-2.0
//
// Rows -> PE numbers. Pure functions.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <memory>

namespace flightshmem {

// PE numbers are 16 bits wide: what an exchange reads of them, it reads several times.
inline constexpr int kMaxPes = 1 << 16;

// A uint16 array: for each row of `keys` (all columns are keys) the PE in [0, n_pes) it belongs to.
// Equal keys get equal PEs on every PE and in every batch: null equals null and NaN, -0.0 equals
// 0.0; integers of all widths, floats of all widths, decimals of all widths (the scale does not
// count), text of all encodings (32 and 64 bit offsets, dictionaries) agree when their values are
// equal. Temporal values hash as their numbers: units and scales are brought together before.
// NotImplemented naming the column for nested, view, interval and run-end types.
arrow::Result<std::shared_ptr<arrow::UInt16Array>> HashPartition(const arrow::RecordBatch& keys,
                                                                 int n_pes);

}  // namespace flightshmem
