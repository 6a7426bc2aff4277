// SPDX-License-Identifier: Apache-2.0
//
// The right side of a join by one number: looked up, never copied per left batch.
#pragma once

#include <arrow/array.h>
#include <arrow/chunked_array.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/row_lists.h"

namespace flightshmem {

class KeyTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  virtual ~KeyTable() = default;

  // nullptr when `keys` are not whole numbers, times or doubles. At most 2^30 rows.
  static std::shared_ptr<const KeyTable> Make(const arrow::ChunkedArray& keys);

  // Writes for each of `count` rows from `begin` the code of its key, in [0, n_codes()); `left` has
  // the type of the right keys. Any thread.
  virtual void Encode(const arrow::Array& left, int64_t begin, int64_t count,
                      uint32_t* codes) const = 0;

  // The one right row of each code or kNone; null when some code has several: then lists() counts.
  const uint32_t* row_of_code() const { return row_of_.empty() ? nullptr : row_of_.data(); }
  const RowLists& lists() const { return lists_; }

 protected:
  // Codes of all right rows.
  void SetRows(const std::vector<uint32_t>& codes, int64_t n_codes);

 private:
  std::vector<uint32_t> row_of_;
  RowLists lists_;
};

}  // namespace flightshmem
