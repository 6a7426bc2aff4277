// SPDX-License-Identifier: Apache-2.0
//
// The order of rows, and which range of keys a row falls into. Pure functions.
//
// Keys: bool, integers, floats, dates, times, timestamps, durations; NotImplemented naming the
// column for others (rank their values first). Null and NaN are missing; -0.0 equals 0.0.
#pragma once

#include <arrow/array.h>
#include <arrow/table.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace flightshmem {

// The row numbers of `keys` in sorted order, stably: by the first column, ties by the next, then by
// row. REQUIRES: one `ascending` per column. Missing values come last or first in either direction.
// CapacityError beyond 2^32 rows.
arrow::Result<std::shared_ptr<arrow::UInt32Array>> SortRows(const arrow::Table& keys,
                                                            const std::vector<bool>& ascending,
                                                            bool missing_last);

// Where a range of sorted rows ends and the next begins: between rows with the key of the cut, so
// that one frequent key can be spread over ranges.
struct RangeCuts {
  std::shared_ptr<arrow::Array> keys;  // one per cut, in sorted order
  std::vector<int64_t> ties;           // rows of the cut's key from this number on lie after it
};

// For each row, how many cuts lie before it. REQUIRES: as many `ties` as keys, at most 65,535.
// TypeError if the types of `key` and of the cuts' keys differ.
arrow::Result<std::shared_ptr<arrow::UInt16Array>> FindRanges(const arrow::ChunkedArray& key,
                                                              const RangeCuts& cuts, bool ascending,
                                                              bool missing_last);

}  // namespace flightshmem
