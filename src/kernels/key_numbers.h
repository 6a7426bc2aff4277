// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/type.h>

#include <cstdint>

namespace flightshmem {

// Calls with_number(T{}), T being what values of a key type are stored as, and returns what it
// returns; Result{} for types that are not whole numbers, times or doubles.
template <typename Result, typename WithNumber>
Result VisitKeyNumber(arrow::Type::type id, WithNumber with_number) {
  switch (id) {
    case arrow::Type::INT8:
      return with_number(int8_t{});
    case arrow::Type::INT16:
      return with_number(int16_t{});
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
    case arrow::Type::DECIMAL32:
      return with_number(int32_t{});
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
    case arrow::Type::DECIMAL64:
      return with_number(int64_t{});
    case arrow::Type::UINT8:
      return with_number(uint8_t{});
    case arrow::Type::UINT16:
      return with_number(uint16_t{});
    case arrow::Type::UINT32:
      return with_number(uint32_t{});
    case arrow::Type::UINT64:
      return with_number(uint64_t{});
    case arrow::Type::DOUBLE:
      return with_number(double{});
    default:
      return Result{};
  }
}

}  // namespace flightshmem
