// SPDX-License-Identifier: Apache-2.0
//
// Join keys of any type as small whole numbers.
#pragma once

#include <arrow/result.h>
#include <arrow/table.h>

#include <cstdint>
#include <memory>

namespace flightshmem {

// One code per row of two tables, the left one's rows first. A left and a right row have the same
// code exactly when their keys are equal as pandas' merge has it; left rows without a partner may
// share a code. Codes lie in [0, n_codes); not all need occur.
struct KeyCodes {
  std::unique_ptr<uint32_t[]> codes;
  int64_t n_codes = 0;
};

// All columns are keys, matched by position. Types must be equal once dictionaries are decoded and
// string/large_string, binary/large_binary are taken as one (TypeError naming the column else).
// Nested types: NotImplemented naming the column.
arrow::Result<KeyCodes> EncodeKeys(const arrow::Table& left, const arrow::Table& right);

}  // namespace flightshmem
