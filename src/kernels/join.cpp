// SPDX-License-Identifier: Apache-2.0
//
// Why our own: pandas matches null keys and wants a fixed row order. Acero's hash join can do the
// first from C++ but not the second, and does not take every key type. So keys become small codes
// and the right rows are listed per code: the pairs come out in order without a sort; where each
// code has one right row at most, it is looked up and written, and nothing else.
// Measured (one core, 10 M x 1 M int64 keys, unique right): 26 ms when the keys lie close together,
// 0.26 s else; pyarrow's Table.join 0.65 s without order or null keys, pandas 0.46 and 0.54 s.
#include "kernels/join.h"

#include <arrow/array/array_primitive.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_generate.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kernels/key_codes.h"
#include "kernels/key_table.h"

namespace flightshmem {
namespace {

constexpr uint32_t kNone = KeyTable::kNone;
// Rows whose codes are held at once: they stay in L1.
constexpr int64_t kRun = 2048;
// Far enough that a line arrives in time, near enough that it is still in L1 when its turn comes.
constexpr int64_t kAhead = 24;

arrow::Result<std::shared_ptr<arrow::Buffer>> NewRows(int64_t count) {
  ARROW_ASSIGN_OR_RAISE(auto rows, arrow::AllocateBuffer(count * int64_t{sizeof(uint32_t)}));
  return std::shared_ptr<arrow::Buffer>(std::move(rows));
}

uint32_t* Rows(const std::shared_ptr<arrow::Buffer>& buffer) {
  return reinterpret_cast<uint32_t*>(buffer->mutable_data());
}

std::shared_ptr<arrow::UInt32Array> ToArray(int64_t count, std::shared_ptr<arrow::Buffer> rows) {
  return std::make_shared<arrow::UInt32Array>(count, std::move(rows));
}

// Makes rows that are kNone null.
arrow::Result<std::shared_ptr<arrow::UInt32Array>> ToNullable(int64_t count, int64_t n_null,
                                                              std::shared_ptr<arrow::Buffer> rows) {
  if (n_null == 0) return ToArray(count, std::move(rows));
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> validity, arrow::AllocateBitmap(count));
  uint32_t* row = Rows(rows);
  int64_t i = 0;
  arrow::internal::GenerateBitsUnrolled(validity->mutable_data(), 0, count, [&] {
    const bool found = row[i] != kNone;
    row[i] = found ? row[i] : 0;
    ++i;
    return found;
  });
  return std::make_shared<arrow::UInt32Array>(count, std::move(rows), std::move(validity), n_null);
}

// The left rows that found a partner, and their partners.
arrow::Result<JoinRows> KeepFound(int64_t count, int64_t n_found, const uint32_t* partners) {
  // One more: each row is written, then kept or not.
  ARROW_ASSIGN_OR_RAISE(auto left, NewRows(n_found + 1));
  ARROW_ASSIGN_OR_RAISE(auto right, NewRows(n_found + 1));
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    Rows(left)[at] = static_cast<uint32_t>(i);
    Rows(right)[at] = partners[i];
    at += partners[i] != kNone;
  }
  return JoinRows{ToArray(n_found, std::move(left)), ToArray(n_found, std::move(right))};
}

arrow::Result<JoinRows> ProbeUnique(const KeyTable& table, const arrow::ChunkedArray& left,
                                    JoinKind kind) {
  ARROW_ASSIGN_OR_RAISE(auto partners, NewRows(left.length()));
  const uint32_t* row_of = table.row_of_code();
  uint32_t* out = Rows(partners);
  int64_t missing = 0;
  std::array<uint32_t, kRun + kAhead> codes{};
  for (const auto& chunk : left.chunks()) {
    for (int64_t begin = 0; begin < chunk->length(); begin += kRun) {
      const int64_t run = std::min(kRun, chunk->length() - begin);
      table.Encode(*chunk, begin, run, codes.data());
      for (int64_t i = 0; i < run; ++i) {
        __builtin_prefetch(row_of + codes[i + kAhead]);
        out[i] = row_of[codes[i]];
        missing += out[i] == kNone;
      }
      out += run;
    }
  }
  if (kind == JoinKind::kLeft || missing == 0) {
    ARROW_ASSIGN_OR_RAISE(auto right, ToNullable(left.length(), missing, std::move(partners)));
    return JoinRows{nullptr, std::move(right)};
  }
  return KeepFound(left.length(), left.length() - missing, Rows(partners));
}

arrow::Result<JoinRows> ProbeLists(const uint32_t* codes, int64_t n_rows, const RowListsView& lists,
                                   JoinKind kind) {
  int64_t pairs = 0;
  int64_t unmatched = 0;
  for (int64_t i = 0; i < n_rows; ++i) {
    const uint32_t partners = lists.starts[codes[i] + 1] - lists.starts[codes[i]];
    pairs += partners;
    unmatched += partners == 0;
  }
  if (kind == JoinKind::kInner) unmatched = 0;
  pairs += unmatched;
  ARROW_ASSIGN_OR_RAISE(auto left, NewRows(pairs));
  ARROW_ASSIGN_OR_RAISE(auto right, NewRows(pairs));
  int64_t at = 0;
  for (int64_t i = 0; i < n_rows; ++i) {
    uint32_t next = lists.starts[codes[i]];
    const uint32_t end = lists.starts[codes[i] + 1];
    if (next == end && unmatched > 0) {
      Rows(left)[at] = static_cast<uint32_t>(i);
      Rows(right)[at++] = kNone;
    }
    for (; next < end; ++next, ++at) {
      Rows(left)[at] = static_cast<uint32_t>(i);
      Rows(right)[at] = lists.rows[next];
    }
  }
  ARROW_ASSIGN_OR_RAISE(auto partners, ToNullable(pairs, unmatched, std::move(right)));
  return JoinRows{ToArray(pairs, std::move(left)), std::move(partners)};
}

arrow::Result<JoinRows> ProbeSeveral(const KeyTable& table, const arrow::ChunkedArray& left,
                                     JoinKind kind) {
  const auto codes = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(left.length()));
  int64_t at = 0;
  for (const auto& chunk : left.chunks()) {
    table.Encode(*chunk, 0, chunk->length(), codes.get() + at);
    at += chunk->length();
  }
  return ProbeLists(codes.get(), left.length(), table.lists(), kind);
}

arrow::Status CheckRows(int64_t rows) {
  if (rows <= std::numeric_limits<int32_t>::max() / 2) return arrow::Status::OK();
  return arrow::Status::CapacityError("[join] one PE can join 1,073,741,823 rows, got ", rows,
                                      ": use more PEs");
}

}  // namespace

arrow::Result<std::shared_ptr<JoinTable>> JoinTable::Make(
    std::shared_ptr<arrow::Table> right_keys) {
  ARROW_RETURN_NOT_OK(CheckRows(right_keys->num_rows()));
  auto table = std::make_shared<JoinTable>();
  table->right_rows_ = right_keys->num_rows();
  if (right_keys->num_columns() == 1) {
    table->key_type_ = right_keys->column(0)->type();
    table->table_ = KeyTable::Make(*right_keys->column(0));
  }
  table->right_keys_ = std::move(right_keys);
  return table;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> JoinTable::Image() const {
  if (table_ == nullptr || right_keys_ == nullptr) return nullptr;
  return table_->Image();
}

arrow::Result<std::shared_ptr<JoinTable>> JoinTable::View(std::shared_ptr<arrow::DataType> type,
                                                          int64_t rows,
                                                          std::shared_ptr<arrow::Buffer> image) {
  auto table = std::make_shared<JoinTable>();
  table->right_rows_ = rows;
  table->table_ = KeyTable::View(*type, std::move(image));
  if (table->table_ == nullptr) {
    return arrow::Status::NotImplemented("[join] no shared table for keys of type ",
                                         type->ToString());
  }
  table->key_type_ = std::move(type);
  return table;
}

arrow::Result<JoinRows> JoinTable::Probe(const arrow::Table& left_keys, JoinKind kind) const {
  ARROW_RETURN_NOT_OK(CheckRows(left_keys.num_rows() + right_rows_));
  if (table_ && left_keys.num_columns() == 1 && left_keys.column(0)->type()->Equals(*key_type_)) {
    const arrow::ChunkedArray& left = *left_keys.column(0);
    return table_->row_of_code() ? ProbeUnique(*table_, left, kind)
                                 : ProbeSeveral(*table_, left, kind);
  }
  if (right_keys_ == nullptr) {
    return arrow::Status::TypeError("[join] a shared table takes one key column of type ",
                                    key_type_->ToString(), ", got ", left_keys.num_columns());
  }
  ARROW_ASSIGN_OR_RAISE(KeyCodes keys, EncodeKeys(left_keys, *right_keys_));
  const int64_t left_rows = left_keys.num_rows();
  const RowLists right =
      ListRows(keys.codes.get() + left_rows, right_keys_->num_rows(), keys.n_codes);
  return ProbeLists(keys.codes.get(), left_rows, {right.starts.data(), right.rows.data()}, kind);
}

}  // namespace flightshmem
