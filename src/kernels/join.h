// SPDX-License-Identifier: Apache-2.0
//
// Which rows join, as pandas' merge has it.
#pragma once

#include <arrow/array.h>
#include <arrow/table.h>

#include <memory>

namespace flightshmem {

enum class JoinKind : uint8_t { kInner, kLeft };

struct JoinIndices {
  std::shared_ptr<arrow::Int64Array> left;
  std::shared_ptr<arrow::Int64Array> right;  // null where a left row found no partner
};

// Row numbers of the pairs with equal keys. All columns are keys, matched by position; their types
// are equal once dictionaries are decoded and 32/64 bit offsets are taken as one (TypeError naming
// the column else; nested types: NotImplemented). Null matches null, NaN matches NaN and null, -0.0
// matches 0.0. Ordered by left row, then right row. At most 2^30 rows of both sides together
// (CapacityError).
arrow::Result<JoinIndices> Join(const std::shared_ptr<arrow::Table>& left_keys,
                                const std::shared_ptr<arrow::Table>& right_keys, JoinKind kind);

}  // namespace flightshmem
