// SPDX-License-Identifier: Apache-2.0
//
// Which rows join: pandas' merge on Acero's hash join.
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

// Row numbers of the pairs with equal keys; all columns are keys, matched by position; equal types.
// Null matches null, NaN matches NaN, -0.0 matches 0.0 (pandas). Ordered by left row, then right
// row, so the result does not depend on threads. Why not pyarrow's Table.join: its Python binding
// cannot ask for null == null, and its row order varies from run to run.
arrow::Result<JoinIndices> Join(const std::shared_ptr<arrow::Table>& left_keys,
                                const std::shared_ptr<arrow::Table>& right_keys, JoinKind kind);

}  // namespace flightshmem
