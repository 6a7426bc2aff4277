// SPDX-License-Identifier: Apache-2.0
//
// Which rows form a group, and states of groups. Pure functions.
#pragma once

#include <arrow/array.h>
#include <arrow/result.h>
#include <arrow/table.h>

#include <cstdint>
#include <memory>

namespace flightshmem {

struct Groups {
  std::shared_ptr<arrow::UInt32Array> numbers;    // of each row's group, from 0
  std::shared_ptr<arrow::Int64Array> first_rows;  // of each group; ascending
};

// Groups are numbered in the order in which they first appear. All columns are keys, of any type
// that Join takes, with the same equalities.
arrow::Result<Groups> GroupRows(const arrow::Table& keys);

enum class GroupState : uint8_t { kSum, kCount, kMin, kMax };

// The state of every group over the values that are not null. kSum: 0 for a group without values,
// int64 (wrapping), uint64 or double; of integers and floats of 32 and 64 bits. kCount: int64; of
// anything. kMin, kMax: null for a group without values; of integers, temporal values, and floats
// of 32 and 64 bits. Other types: NotImplemented. `nan_is_missing`: as null, in columns of 32 and
// 64 bit floats. REQUIRES: as many values as numbers, below n_groups.
arrow::Result<std::shared_ptr<arrow::Array>> StateOfGroups(GroupState state,
                                                           const arrow::UInt32Array& numbers,
                                                           int64_t n_groups,
                                                           const arrow::ChunkedArray& values,
                                                           bool nan_is_missing);

}  // namespace flightshmem
