// SPDX-License-Identifier: Apache-2.0
//
// The right side of a join by one number: looked up, never copied per left batch.
#pragma once

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <span>
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
  const uint32_t* row_of_code() const { return row_of_; }
  const RowListsView& lists() const { return lists_; }

  // The whole table as bytes that hold no address: other processes may View them in place.
  arrow::Result<std::shared_ptr<arrow::Buffer>> Image() const;
  // A table over the Image of one whose keys have this type: no copy, keeps `image` alive.
  static std::shared_ptr<const KeyTable> View(const arrow::DataType& type,
                                              std::shared_ptr<arrow::Buffer> image);

 protected:
  // What begins an image; then come the arrays, each at a multiple of 64.
  struct Head {
    uint64_t is_dense = 0;
    uint64_t low = 0;     // dense: the least key
    uint64_t others = 0;  // dense: the code of keys that no right row has
    uint64_t words = 0;   // sparse: how many the hash table holds
    uint64_t row_of = 0, starts = 0, rows = 0, slots = 0;  // bytes of each
  };

  KeyTable() = default;
  KeyTable(const Head& head, std::shared_ptr<arrow::Buffer> image);
  // Codes of all right rows.
  void SetRows(const std::vector<uint32_t>& codes, int64_t n_codes);
  // Fills what differs between the kinds, `slots` too, and returns the hash table's bytes.
  virtual std::span<const std::byte> Describe(Head* head) const = 0;
  static std::span<const std::byte> SlotsIn(const Head& head, const arrow::Buffer& image);

 private:
  template <typename T>
  static std::shared_ptr<const KeyTable> ViewAs(std::shared_ptr<arrow::Buffer> image);

  std::shared_ptr<arrow::Buffer> image_;  // of a view
  std::vector<uint32_t> owned_row_of_;    // of others
  RowLists owned_lists_;
  const uint32_t* row_of_ = nullptr;
  RowListsView lists_;
};

}  // namespace flightshmem
