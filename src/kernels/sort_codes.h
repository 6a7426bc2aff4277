// SPDX-License-Identifier: Apache-2.0
//
// Keys as unsigned words with the keys' order. Pure functions.
#pragma once

#include <arrow/array.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>

namespace flightshmem {

class SortCoder {
 public:
  // NotImplemented for types without such words.
  static arrow::Result<SortCoder> Make(const arrow::DataType& type, bool ascending);

  // words[i]: of row begin + i of `values`, ordered as the values are (descending: the other way
  // round), 0 where missing. missing[i]: 1 where missing; written only when something is, which
  // the result tells. REQUIRES: `values` has the type given to Make.
  bool Read(const arrow::Array& values, int64_t begin, int64_t count, uint64_t* words,
            uint8_t* missing) const;

 private:
  using Fill = void (*)(const arrow::ArrayData& values, int64_t begin, int64_t count, uint64_t flip,
                        uint64_t* words);

  Fill fill_ = nullptr;
  uint64_t flip_ = 0;  // all ones to sort descending
  bool has_nan_ = false;
};

}  // namespace flightshmem
