// SPDX-License-Identifier: Apache-2.0
#include "kernels/key_codes.h"

#include <arrow/array/array_dict.h>
#include <arrow/array/array_primitive.h>
#include <arrow/chunked_array.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/cast.h>
#include <arrow/extension_type.h>
#include <arrow/util/float16.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace flightshmem {
namespace {

// A piece of a key column. `indices` is set when the rows are positions in `values`.
struct Piece {
  std::shared_ptr<arrow::Array> values;
  std::shared_ptr<arrow::DictionaryArray> indices;
  int64_t length() const { return indices ? indices->length() : values->length(); }
};

// Up to so many codes a table indexed by code costs less than hashing the rows again.
int64_t DenseLimit(int64_t rows) { return std::max<int64_t>(1024, 2 * rows); }

std::unique_ptr<uint32_t[]> NewCodes(int64_t rows) {
  return std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(rows));
}

// Missing is NaN, -0.0 is 0.0, every width is double: then equal bits are equal keys.
template <typename T, typename ToDouble>
arrow::Result<std::shared_ptr<arrow::Array>> CanonicalFloats(const arrow::Array& values,
                                                             ToDouble to_double) {
  ARROW_ASSIGN_OR_RAISE(auto buffer,
                        arrow::AllocateBuffer(values.length() * int64_t{sizeof(double)}));
  auto* out = reinterpret_cast<double*>(buffer->mutable_data());
  const T* in = values.data()->GetValues<T>(1);
  const bool has_nulls = values.null_count() > 0;
  for (int64_t i = 0; i < values.length(); ++i) {
    const double value = to_double(in[i]) + 0.0;
    const bool missing = std::isnan(value) || (has_nulls && values.IsNull(i));
    out[i] = missing ? std::numeric_limits<double>::quiet_NaN() : value;
  }
  return std::make_shared<arrow::DoubleArray>(values.length(), std::move(buffer));
}

arrow::Result<std::shared_ptr<arrow::Array>> Canonical(std::shared_ptr<arrow::Array> values) {
  switch (values->type_id()) {
    case arrow::Type::HALF_FLOAT:
      return CanonicalFloats<uint16_t>(*values, [](uint16_t bits) {
        return double{arrow::util::Float16::FromBits(bits).ToFloat()};
      });
    case arrow::Type::FLOAT:
      return CanonicalFloats<float>(*values, [](float value) { return double{value}; });
    case arrow::Type::DOUBLE:
      return CanonicalFloats<double>(*values, [](double value) { return value; });
    case arrow::Type::STRING:
      return arrow::compute::Cast(*values, arrow::large_utf8());
    case arrow::Type::BINARY:
      return arrow::compute::Cast(*values, arrow::large_binary());
    default:
      return values;
  }
}

std::shared_ptr<arrow::DataType> KeyType(const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
    case arrow::Type::DICTIONARY:
      return KeyType(static_cast<const arrow::DictionaryType&>(*type).value_type());
    case arrow::Type::EXTENSION:
      return KeyType(static_cast<const arrow::ExtensionType&>(*type).storage_type());
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::FLOAT:
      return arrow::float64();
    case arrow::Type::STRING:
      return arrow::large_utf8();
    case arrow::Type::BINARY:
      return arrow::large_binary();
    default:
      return type;
  }
}

arrow::Result<Piece> MakePiece(std::shared_ptr<arrow::Array> chunk) {
  if (chunk->type_id() == arrow::Type::EXTENSION) {
    return MakePiece(static_cast<const arrow::ExtensionArray&>(*chunk).storage());
  }
  Piece piece;
  if (chunk->type_id() == arrow::Type::DICTIONARY) {
    piece.indices = std::static_pointer_cast<arrow::DictionaryArray>(chunk);
    chunk = piece.indices->dictionary();
  }
  ARROW_ASSIGN_OR_RAISE(piece.values, Canonical(std::move(chunk)));
  return piece;
}

// Whole numbers that lie close together are their own codes. No result: they do not.
template <typename T>
std::unique_ptr<KeyCodes> DenseCodes(const std::vector<Piece>& pieces, int64_t rows) {
  T low = std::numeric_limits<T>::max();
  T high = std::numeric_limits<T>::min();
  for (const Piece& piece : pieces) {
    if (piece.indices) return nullptr;
    const T* values = piece.values->data()->GetValues<T>(1);
    const bool has_nulls = piece.values->null_count() > 0;
    for (int64_t i = 0; i < piece.length(); ++i) {
      if (has_nulls && piece.values->IsNull(i)) continue;
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
  }
  if (low > high) low = high = 0;  // nothing but nulls
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (span >= static_cast<uint64_t>(DenseLimit(rows))) return nullptr;
  auto result =
      std::make_unique<KeyCodes>(KeyCodes{NewCodes(rows), static_cast<int64_t>(span) + 2});
  const auto null_code = static_cast<uint32_t>(span + 1);
  uint32_t* out = result->codes.get();
  for (const Piece& piece : pieces) {
    const T* values = piece.values->data()->GetValues<T>(1);
    const bool has_nulls = piece.values->null_count() > 0;
    for (int64_t i = 0; i < piece.length(); ++i) {
      const auto code = static_cast<uint64_t>(values[i]) - static_cast<uint64_t>(low);
      *out++ = has_nulls && piece.values->IsNull(i) ? null_code : static_cast<uint32_t>(code);
    }
  }
  return result;
}

std::unique_ptr<KeyCodes> TryDenseCodes(const arrow::DataType& type,
                                        const std::vector<Piece>& pieces, int64_t rows) {
  switch (type.id()) {
    case arrow::Type::INT8:
      return DenseCodes<int8_t>(pieces, rows);
    case arrow::Type::INT16:
      return DenseCodes<int16_t>(pieces, rows);
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return DenseCodes<int32_t>(pieces, rows);
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return DenseCodes<int64_t>(pieces, rows);
    case arrow::Type::UINT8:
      return DenseCodes<uint8_t>(pieces, rows);
    case arrow::Type::UINT16:
      return DenseCodes<uint16_t>(pieces, rows);
    case arrow::Type::UINT32:
      return DenseCodes<uint32_t>(pieces, rows);
    case arrow::Type::UINT64:
      return DenseCodes<uint64_t>(pieces, rows);
    default:
      return nullptr;
  }
}

// Writes the codes of one piece; `encoded` holds the codes of its values. Returns where it stopped.
uint32_t* WritePiece(const Piece& piece, const arrow::DictionaryArray& encoded, uint32_t null_code,
                     uint32_t* out) {
  const auto& codes = static_cast<const arrow::Int32Array&>(*encoded.indices());
  const auto code_of = [&](int64_t i) {
    return codes.IsNull(i) ? null_code : static_cast<uint32_t>(codes.Value(i));
  };
  for (int64_t i = 0; i < piece.length(); ++i) {
    if (!piece.indices) {
      *out++ = code_of(i);
    } else {
      *out++ = piece.indices->IsNull(i) ? null_code : code_of(piece.indices->GetValueIndex(i));
    }
  }
  return out;
}

arrow::Result<KeyCodes> HashedCodes(const std::shared_ptr<arrow::DataType>& type,
                                    const std::vector<Piece>& pieces, int64_t rows) {
  arrow::ArrayVector values;
  for (const Piece& piece : pieces) values.push_back(piece.values);
  ARROW_ASSIGN_OR_RAISE(
      arrow::Datum datum,
      arrow::compute::DictionaryEncode(std::make_shared<arrow::ChunkedArray>(values, type)));
  KeyCodes result{NewCodes(rows), 1};
  const arrow::ArrayVector& chunks = datum.chunked_array()->chunks();
  uint32_t* out = result.codes.get();
  for (size_t c = 0; c < pieces.size(); ++c) {
    const auto& encoded = static_cast<const arrow::DictionaryArray&>(*chunks[c]);
    const int64_t distinct = encoded.dictionary()->length();  // of all chunks: they share it
    result.n_codes = distinct + 1;
    out = WritePiece(pieces[c], encoded, static_cast<uint32_t>(distinct), out);
  }
  return result;
}

arrow::Result<KeyCodes> EncodeColumn(const std::string& name, const arrow::ChunkedArray& left,
                                     const arrow::ChunkedArray& right) {
  const std::shared_ptr<arrow::DataType> type = KeyType(left.type());
  if (!type->Equals(KeyType(right.type()))) {
    return arrow::Status::TypeError("[join] key column '", name, "' has two types, got ",
                                    left.type()->ToString(), " and ", right.type()->ToString(),
                                    ": cast one side");
  }
  if (arrow::is_nested(type->id()) || arrow::is_binary_view_like(type->id()) ||
      type->id() == arrow::Type::RUN_END_ENCODED) {
    return arrow::Status::NotImplemented("[join] column '", name, "' cannot be a key, got type ",
                                         type->ToString());
  }
  const int64_t rows = left.length() + right.length();
  std::vector<Piece> pieces;
  for (const arrow::ChunkedArray* side : {&left, &right}) {
    for (const auto& chunk : side->chunks()) {
      ARROW_ASSIGN_OR_RAISE(Piece piece, MakePiece(chunk));
      pieces.push_back(std::move(piece));
    }
  }
  if (type->id() == arrow::Type::NA) {
    KeyCodes all_null{std::make_unique<uint32_t[]>(static_cast<size_t>(rows)), 1};
    return all_null;
  }
  if (auto dense = TryDenseCodes(*type, pieces, rows)) return std::move(*dense);
  return HashedCodes(type, pieces, rows);
}

// Codes of pairs: `all` becomes the codes of (all, next).
arrow::Status Combine(KeyCodes* all, const KeyCodes& next, int64_t rows) {
  const int64_t n_codes = all->n_codes * next.n_codes;  // each < 2^32 / 2: no overflow
  if (n_codes <= DenseLimit(rows)) {
    const auto stride = static_cast<uint32_t>(next.n_codes);
    for (int64_t i = 0; i < rows; ++i) all->codes[i] = all->codes[i] * stride + next.codes[i];
    all->n_codes = n_codes;
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(rows * int64_t{sizeof(int64_t)}));
  auto* pairs = reinterpret_cast<int64_t*>(buffer->mutable_data());
  for (int64_t i = 0; i < rows; ++i) pairs[i] = all->codes[i] * next.n_codes + next.codes[i];
  auto array = std::make_shared<arrow::Int64Array>(rows, std::move(buffer));
  ARROW_ASSIGN_OR_RAISE(*all, HashedCodes(arrow::int64(), {Piece{array, nullptr}}, rows));
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<KeyCodes> EncodeKeys(const arrow::Table& left, const arrow::Table& right) {
  if (left.num_columns() != right.num_columns() || left.num_columns() == 0) {
    return arrow::Status::Invalid("[join] needs as many left as right keys, got ",
                                  left.num_columns(), " and ", right.num_columns());
  }
  const int64_t rows = left.num_rows() + right.num_rows();
  if (rows > std::numeric_limits<int32_t>::max() / 2) {
    return arrow::Status::CapacityError("[join] one PE can join 1,073,741,823 rows, got ", rows,
                                        ": use more PEs");
  }
  KeyCodes all;
  for (int c = 0; c < left.num_columns(); ++c) {
    ARROW_ASSIGN_OR_RAISE(KeyCodes next,
                          EncodeColumn(left.field(c)->name(), *left.column(c), *right.column(c)));
    if (c == 0) {
      all = std::move(next);
    } else {
      ARROW_RETURN_NOT_OK(Combine(&all, next, rows));
    }
  }
  return all;
}

}  // namespace flightshmem
