// SPDX-License-Identifier: Apache-2.0
#include "kernels/text_codes.h"

#include <arrow/type_traits.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "kernels/text_table.h"
#include "kernels/word_table.h"

namespace flightshmem {
namespace {

// The texts of a piece's values, of any offset width.
class Texts {
 public:
  explicit Texts(const arrow::Array& values) : values_(*values.data()) {
    is_large_ = arrow::is_large_binary_like(values.type_id());
    if (values_.buffers[2] != nullptr) {
      bytes_ = reinterpret_cast<const char*>(values_.buffers[2]->data());
      bytes_size_ = values_.buffers[2]->size();
    }
  }

  std::string_view operator()(int64_t i) const {
    const auto [begin, end] = Bounds(i);
    return {bytes_ + begin, static_cast<size_t>(end - begin)};
  }
  int64_t LongestBytes() const { return is_large_ ? Longest<int64_t>() : Longest<int32_t>(); }
  // A text of up to 7 bytes, with its length.
  uint64_t Word(int64_t i) const {
    const auto [begin, end] = Bounds(i);
    const int64_t length = end - begin;
    uint64_t word = 0;
    if (begin + 8 <= bytes_size_) {
      std::memcpy(&word, bytes_ + begin, 8);
      word &= (uint64_t{1} << (8 * length)) - 1;
    } else if (length > 0) {
      std::memcpy(&word, bytes_ + begin, static_cast<size_t>(length));
    }
    return word | static_cast<uint64_t>(length) << 56;
  }

 private:
  std::pair<int64_t, int64_t> Bounds(int64_t i) const {
    if (is_large_) {
      const int64_t* offsets = values_.GetValues<int64_t>(1) + i;
      return {offsets[0], offsets[1]};
    }
    const int32_t* offsets = values_.GetValues<int32_t>(1) + i;
    return {offsets[0], offsets[1]};
  }
  template <typename Offset>
  int64_t Longest() const {
    const Offset* offsets = values_.GetValues<Offset>(1);
    Offset longest = 0;
    for (int64_t i = 0; i < values_.length; ++i) {
      longest = std::max<Offset>(longest, offsets[i + 1] - offsets[i]);
    }
    return longest;
  }

  const arrow::ArrayData& values_;
  bool is_large_ = false;
  const char* bytes_ = nullptr;
  int64_t bytes_size_ = 0;
};

// Writes the codes of a piece's rows; `codes`: of its values.
void WriteEncodedRows(const Piece& piece, const uint32_t* codes, uint32_t null_code,
                      uint32_t* out) {
  for (int64_t i = 0; i < piece.length(); ++i) {
    const bool has_value = piece.indices->IsValid(i);
    const int64_t value = has_value ? piece.indices->GetValueIndex(i) : 0;
    out[i] = has_value && piece.values->IsValid(value) ? codes[value] : null_code;
  }
}

// Only right keys get codes, as in WordCodes. `at`: makes a function of row numbers for the table
// out of the texts of a piece.
template <typename Table, typename At>
KeyCodes CodesFrom(const std::vector<Piece>& pieces, const RowCounts& rows, Table table, At at) {
  KeyCodes result{NewCodes(rows.both()), 0};
  std::vector<std::unique_ptr<uint32_t[]>> value_codes(pieces.size());
  for (const bool left : {false, true}) {
    uint32_t* out = result.codes.get();
    for (size_t p = 0; p < pieces.size(); ++p) {
      const Piece& piece = pieces[p];
      if (piece.is_left == left) {
        if (piece.indices) value_codes[p] = NewCodes(piece.values->length());
        uint32_t* codes = piece.indices ? value_codes[p].get() : out;
        const Texts texts(*piece.values);
        if (left) {
          table.Find(piece.values->length(), at(texts), static_cast<uint32_t>(table.size()), codes);
        } else {
          table.Insert(piece.values->length(), at(texts), codes);
        }
      }
      out += piece.length();
    }
  }
  const auto null_code = static_cast<uint32_t>(table.size() + 1);
  result.n_codes = table.size() + 2;
  uint32_t* out = result.codes.get();
  for (size_t p = 0; p < pieces.size(); ++p) {
    if (pieces[p].indices) {
      WriteEncodedRows(pieces[p], value_codes[p].get(), null_code, out);
    } else {
      WriteNullCodes({pieces[p]}, null_code, out);
    }
    out += pieces[p].length();
  }
  return result;
}

}  // namespace

KeyCodes TextCodes(const std::vector<Piece>& pieces, const RowCounts& rows) {
  const bool all_short = std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) {
    return Texts(*piece.values).LongestBytes() < 8;
  });
  if (all_short) {
    return CodesFrom(pieces, rows, WordTable(kFirstWords), [](const Texts& texts) {
      return [&texts](int64_t i) { return texts.Word(i); };
    });
  }
  return CodesFrom(pieces, rows, TextTable(), [](const Texts& texts) { return std::cref(texts); });
}

}  // namespace flightshmem
