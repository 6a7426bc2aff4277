// SPDX-License-Identifier: Apache-2.0
#include "kernels/key_codes.h"

#include <arrow/array/array_primitive.h>
#include <arrow/chunked_array.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/cast.h>
#include <arrow/extension_type.h>
#include <arrow/util/float16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/key_numbers.h"
#include "kernels/key_pieces.h"
#include "kernels/text_codes.h"
#include "kernels/word_table.h"

namespace flightshmem {
namespace {

// Up to so many codes a table indexed by code costs less than hashing the rows again.
int64_t DenseLimit(int64_t rows) { return std::max<int64_t>(1024, 2 * rows); }

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

// Smallest and largest value that is not null; the reverse when there is none.
template <typename T>
std::pair<T, T> Range(const std::vector<Piece>& pieces) {
  T low = std::numeric_limits<T>::max();
  T high = std::numeric_limits<T>::lowest();
  for (const Piece& piece : pieces) {
    const T* values = piece.values->data()->GetValues<T>(1);
    const bool has_nulls = piece.values->null_count() > 0;
    for (int64_t i = 0; i < piece.length(); ++i) {
      if (has_nulls && piece.values->IsNull(i)) continue;
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
  }
  return {low, high};
}

// Whole numbers that lie close together are their own codes. n_codes is 0 when they do not.
template <typename T>
KeyCodes DenseCodes(const std::vector<Piece>& pieces, const RowCounts& rows) {
  auto [low, high] = Range<T>(pieces);
  if (low > high) low = high = 0;
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (span >= static_cast<uint64_t>(DenseLimit(rows.both()))) return {};
  KeyCodes result{NewCodes(rows.both()), static_cast<int64_t>(span) + 2};
  uint32_t* out = result.codes.get();
  for (const Piece& piece : pieces) {
    const T* values = piece.values->data()->GetValues<T>(1);
    for (int64_t i = 0; i < piece.length(); ++i) {
      *out++ = static_cast<uint32_t>(static_cast<uint64_t>(values[i]) - static_cast<uint64_t>(low));
    }
  }
  WriteNullCodes(pieces, static_cast<uint32_t>(span + 1), result.codes.get());
  return result;
}

// Only right keys get codes; left keys that are not among them share one.
template <typename T>
KeyCodes WordCodes(const std::vector<Piece>& pieces, const RowCounts& rows) {
  WordTable table(std::min(rows.right, kFirstWords));
  KeyCodes result{NewCodes(rows.both()), 0};
  for (const bool left : {false, true}) {
    uint32_t* out = result.codes.get();
    for (const Piece& piece : pieces) {
      const auto word_at = [values = piece.values->data()->GetValues<T>(1)](int64_t i) {
        if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(values[i]);
        return static_cast<uint64_t>(values[i]);
      };
      if (left && piece.is_left) {
        table.Find(piece.length(), word_at, static_cast<uint32_t>(table.size()), out);
      } else if (!left && !piece.is_left) {
        table.Insert(piece.length(), word_at, out);
      }
      out += piece.length();
    }
  }
  result.n_codes = table.size() + 2;
  WriteNullCodes(pieces, static_cast<uint32_t>(table.size() + 1), result.codes.get());
  return result;
}

template <typename T>
KeyCodes NumberCodes(const std::vector<Piece>& pieces, const RowCounts& rows) {
  if constexpr (std::is_integral_v<T>) {
    KeyCodes dense = DenseCodes<T>(pieces, rows);
    if (dense.n_codes > 0) return dense;
  }
  return WordCodes<T>(pieces, rows);
}

// n_codes is 0 when the keys are not plain numbers.
KeyCodes TryNumberCodes(const arrow::DataType& type, const std::vector<Piece>& pieces,
                        const RowCounts& rows) {
  const bool encoded = std::any_of(pieces.begin(), pieces.end(),
                                   [](const Piece& piece) { return piece.indices != nullptr; });
  if (encoded) return {};
  return VisitKeyNumber<KeyCodes>(
      type.id(), [&](auto number) { return NumberCodes<decltype(number)>(pieces, rows); });
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

// Any type that Arrow can encode.
arrow::Result<KeyCodes> DictionaryCodes(const std::shared_ptr<arrow::DataType>& type,
                                        const std::vector<Piece>& pieces, const RowCounts& rows) {
  arrow::ArrayVector values;
  for (const Piece& piece : pieces) values.push_back(piece.values);
  ARROW_ASSIGN_OR_RAISE(
      arrow::Datum datum,
      arrow::compute::DictionaryEncode(std::make_shared<arrow::ChunkedArray>(values, type)));
  KeyCodes result{NewCodes(rows.both()), 1};
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
  const RowCounts rows{left.length(), right.length()};
  std::vector<Piece> pieces;
  for (const arrow::ChunkedArray* side : {&left, &right}) {
    for (const auto& chunk : side->chunks()) {
      if (chunk->length() == 0) continue;  // of which Arrow's encoder makes no chunk
      ARROW_ASSIGN_OR_RAISE(Piece piece, MakePiece(chunk));
      piece.is_left = side == &left;
      pieces.push_back(std::move(piece));
    }
  }
  if (type->id() == arrow::Type::NA) {
    return KeyCodes{std::make_unique<uint32_t[]>(static_cast<size_t>(rows.both())), 1};
  }
  if (arrow::is_large_binary_like(type->id())) return TextCodes(pieces, rows);
  KeyCodes numbers = TryNumberCodes(*type, pieces, rows);
  if (numbers.n_codes > 0) return numbers;
  return DictionaryCodes(type, pieces, rows);
}

// Codes of pairs: `all` becomes the codes of (all, next).
void Combine(KeyCodes* all, const KeyCodes& next, const RowCounts& rows) {
  // Each is below 2^32, and so are the rows: no overflow.
  const auto pair_at = [all = all->codes.get(), &next](int64_t i) {
    return all[i] * static_cast<uint64_t>(next.n_codes) + next.codes[i];
  };
  const int64_t n_pairs = all->n_codes * next.n_codes;
  if (n_pairs <= DenseLimit(rows.both())) {
    for (int64_t i = 0; i < rows.both(); ++i) all->codes[i] = static_cast<uint32_t>(pair_at(i));
    all->n_codes = n_pairs;
    return;
  }
  WordTable table(std::min(rows.right, kFirstWords));
  uint32_t* right = all->codes.get() + rows.left;
  table.Insert(rows.right, [&](int64_t i) { return pair_at(rows.left + i); }, right);
  table.Find(rows.left, pair_at, static_cast<uint32_t>(table.size()), all->codes.get());
  all->n_codes = table.size() + 1;
}

}  // namespace

arrow::Result<KeyCodes> EncodeKeys(const arrow::Table& left, const arrow::Table& right) {
  if (left.num_columns() != right.num_columns() || left.num_columns() == 0) {
    return arrow::Status::Invalid("[join] needs as many left as right keys, got ",
                                  left.num_columns(), " and ", right.num_columns());
  }
  const RowCounts rows{left.num_rows(), right.num_rows()};
  if (rows.both() > std::numeric_limits<int32_t>::max() / 2) {
    return arrow::Status::CapacityError("[join] one PE can join 1,073,741,823 rows, got ",
                                        rows.both(), ": use more PEs");
  }
  KeyCodes all;
  for (int c = 0; c < left.num_columns(); ++c) {
    ARROW_ASSIGN_OR_RAISE(KeyCodes next,
                          EncodeColumn(left.field(c)->name(), *left.column(c), *right.column(c)));
    if (c == 0) {
      all = std::move(next);
    } else {
      Combine(&all, next, rows);
    }
  }
  return all;
}

}  // namespace flightshmem
