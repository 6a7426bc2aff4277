// SPDX-License-Identifier: Apache-2.0
//
// Rows -> PE numbers. Pure functions.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <memory>

namespace flightshmem {

// A uint32 array: for each row of `keys` (all columns are keys) the PE in [0, n_pes) it belongs to.
// Equal keys get equal PEs on every PE and in every batch: nulls equal nulls, NaN equals NaN,
// -0.0 equals 0.0, integers of different widths with equal value agree (signed and unsigned too),
// string, large_string and string dictionaries with equal text agree, decimals hash by value bytes.
// Not implemented for nested types (NotImplemented naming the column).
arrow::Result<std::shared_ptr<arrow::UInt32Array>> HashPartition(const arrow::RecordBatch& keys,
                                                                 int n_pes);

}  // namespace flightshmem
