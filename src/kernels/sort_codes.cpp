// SPDX-License-Identifier: Apache-2.0
//
// Part of kernels/sort.cpp: see there why it exists.
#include "kernels/sort_codes.h"

#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/float16.h>

#include <bit>
#include <cmath>
#include <type_traits>

namespace flightshmem {
namespace {

constexpr uint64_t kSign = uint64_t{1} << 63;

template <typename T>
uint64_t Word(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    // Adding 0.0 turns -0.0 into 0.0. Negative numbers order against their bits.
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(value) + 0.0);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value)) ^ kSign;
  } else {
    return value;
  }
}

struct Target {
  uint64_t* words;
  uint64_t flip;  // all ones to sort descending
};

template <typename T>
void FillWords(const arrow::ArrayData& chunk, Target target) {
  const T* values = chunk.GetValues<T>(1);
  for (int64_t i = 0; i < chunk.length; ++i) target.words[i] = Word(values[i]) ^ target.flip;
}

void FillHalves(const arrow::ArrayData& chunk, Target target) {
  const auto* bits = chunk.GetValues<uint16_t>(1);
  for (int64_t i = 0; i < chunk.length; ++i) {
    target.words[i] = Word(arrow::util::Float16::FromBits(bits[i]).ToDouble()) ^ target.flip;
  }
}

void FillBools(const arrow::ArrayData& chunk, Target target) {
  const uint8_t* bits = chunk.buffers[1]->data();
  for (int64_t i = 0; i < chunk.length; ++i) {
    target.words[i] =
        uint64_t{arrow::bit_util::GetBit(bits, chunk.offset + i) ? 1U : 0U} ^ target.flip;
  }
}

using Fill = void (*)(const arrow::ArrayData&, Target);

Fill FillFor(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return FillBools;
    case arrow::Type::INT8:
      return FillWords<int8_t>;
    case arrow::Type::INT16:
      return FillWords<int16_t>;
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return FillWords<int32_t>;
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return FillWords<int64_t>;
    case arrow::Type::UINT8:
      return FillWords<uint8_t>;
    case arrow::Type::UINT16:
      return FillWords<uint16_t>;
    case arrow::Type::UINT32:
      return FillWords<uint32_t>;
    case arrow::Type::UINT64:
      return FillWords<uint64_t>;
    case arrow::Type::HALF_FLOAT:
      return FillHalves;
    case arrow::Type::FLOAT:
      return FillWords<float>;
    case arrow::Type::DOUBLE:
      return FillWords<double>;
    default:
      return nullptr;
  }
}

// A NaN's word lies outside those of the infinities.
bool IsNan(uint64_t word) { return word > Word(HUGE_VAL) || word < Word(-HUGE_VAL); }

void MarkMissing(SortCodes* codes, int64_t row) {
  if (codes->missing.empty()) codes->missing.assign(codes->words.size(), 0);
  codes->missing[row] = 1;
  codes->words[row] = 0;
}

}  // namespace

arrow::Result<SortCodes> ToSortCodes(const arrow::ChunkedArray& key, bool ascending) {
  const Fill fill = FillFor(*key.type());
  if (fill == nullptr) {
    return arrow::Status::NotImplemented("its values have no sort words, got ",
                                         key.type()->ToString());
  }
  SortCodes codes;
  codes.words.resize(key.length());
  const uint64_t flip = ascending ? 0 : ~uint64_t{0};
  int64_t row = 0;
  for (const auto& chunk : key.chunks()) {
    if (chunk->length() == 0) continue;
    fill(*chunk->data(), {codes.words.data() + row, flip});
    if (chunk->null_count() > 0) {
      for (int64_t i = 0; i < chunk->length(); ++i) {
        if (chunk->IsNull(i)) MarkMissing(&codes, row + i);
      }
    }
    row += chunk->length();
  }
  if (!arrow::is_floating(key.type()->id())) return codes;
  for (int64_t i = 0; i < key.length(); ++i) {
    const bool is_missing = !codes.missing.empty() && codes.missing[i] != 0;
    if (!is_missing && IsNan(codes.words[i] ^ flip)) MarkMissing(&codes, i);
  }
  return codes;
}

}  // namespace flightshmem
