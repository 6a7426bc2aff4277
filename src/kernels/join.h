// SPDX-License-Identifier: Apache-2.0
//
// Which rows join, as pandas' merge has it.
#pragma once

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/table.h>

#include <memory>

namespace flightshmem {

enum class JoinKind : uint8_t { kInner, kLeft };

struct JoinRows {
  std::shared_ptr<arrow::UInt32Array> left;   // nullptr: every left row once, in order
  std::shared_ptr<arrow::UInt32Array> right;  // null where a left row found no partner
};

class KeyTable;

// The right side of a join, made once and probed by any number of batches of the left. Immutable
// once made: any number of threads may probe.
class JoinTable {
 public:
  // All columns are keys. At most 2^30 rows (CapacityError).
  static arrow::Result<std::shared_ptr<JoinTable>> Make(std::shared_ptr<arrow::Table> right_keys);

  // The table as bytes that hold no address; nullptr for keys that are not one number or time.
  arrow::Result<std::shared_ptr<arrow::Buffer>> Image() const;
  // A table over the Image of another, made of `rows` keys of this type. No copy; keeps `image`
  // alive. NotImplemented for key types that have no image.
  static arrow::Result<std::shared_ptr<JoinTable>> View(std::shared_ptr<arrow::DataType> type,
                                                        int64_t rows,
                                                        std::shared_ptr<arrow::Buffer> image);

  // Row numbers of the pairs with equal keys. Columns are matched by position; their types are
  // equal once dictionaries are decoded and 32/64 bit offsets are taken as one (TypeError naming
  // the column else; nested types: NotImplemented). Null matches null, NaN matches NaN and null,
  // -0.0 matches 0.0. Ordered by left row, then right row. At most 2^30 rows of both sides together
  // (CapacityError). One number or time is the key: costs the left rows only. Other keys: costs the
  // right rows, too.
  arrow::Result<JoinRows> Probe(const arrow::Table& left_keys, JoinKind kind) const;

 private:
  std::shared_ptr<arrow::Table> right_keys_;  // nullptr in a view
  int64_t right_rows_ = 0;
  std::shared_ptr<arrow::DataType> key_type_;  // of the one key column that table_ is for
  std::shared_ptr<const KeyTable> table_;      // nullptr: keys that are not one number
};

}  // namespace flightshmem
