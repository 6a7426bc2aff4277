// SPDX-License-Identifier: Apache-2.0
//
// Rows by number: what a sort, a join or a group-by does with the row numbers it found. Pure
// functions.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <memory>

namespace flightshmem {

// Whether Gather moves columns of this type: null, bool, fixed width (numbers, temporal, decimal,
// fixed-size binary), string/binary with 32 or 64 bit offsets, dictionary; extension types over
// these.
bool CanGather(const arrow::DataType& type);

// A batch whose row i is row `rows[i]` of `table`; a null number gives a row of nulls. `rows`:
// uint32 or int64. Dictionaries are kept as they are. Fresh memory from Arrow's default pool.
// IndexError when a number is not in [0, table.num_rows()); NotImplemented naming the column whose
// type CanGather denies; CapacityError naming the column when 32-bit offsets cannot count the text.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> Gather(const arrow::RecordBatch& table,
                                                          const arrow::Array& rows);

}  // namespace flightshmem
