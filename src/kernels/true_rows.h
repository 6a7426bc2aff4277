// SPDX-License-Identifier: Apache-2.0
//
// Row numbers of a mask: the first half of a filter, Gather being the second. Pure function.
#pragma once

#include <arrow/array.h>
#include <arrow/result.h>

#include <memory>

namespace flightshmem {

// Numbers of the rows that are true, ascending; null counts as false. CapacityError for masks of
// 2^32 rows and more.
arrow::Result<std::shared_ptr<arrow::UInt32Array>> TrueRows(const arrow::BooleanArray& mask);

}  // namespace flightshmem
