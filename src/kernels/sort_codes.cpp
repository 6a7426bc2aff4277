// SPDX-License-Identifier: Apache-2.0
//
// Part of kernels/sort.cpp: see there why it exists.
#include "kernels/sort_codes.h"

#include <arrow/array/data.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/float16.h>

#include <bit>
#include <cmath>
#include <type_traits>

namespace flightshmem {
namespace {

using arrow::bit_util::GetBit;

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

template <typename T>
void FillWords(const arrow::ArrayData& values, int64_t begin, int64_t count, uint64_t flip,
               uint64_t* words) {
  const T* in = values.GetValues<T>(1) + begin;
  for (int64_t i = 0; i < count; ++i) words[i] = Word(in[i]) ^ flip;
}

void FillHalves(const arrow::ArrayData& values, int64_t begin, int64_t count, uint64_t flip,
                uint64_t* words) {
  const auto* in = values.GetValues<uint16_t>(1) + begin;
  for (int64_t i = 0; i < count; ++i) {
    words[i] = Word(arrow::util::Float16::FromBits(in[i]).ToDouble()) ^ flip;
  }
}

void FillBools(const arrow::ArrayData& values, int64_t begin, int64_t count, uint64_t flip,
               uint64_t* words) {
  const uint8_t* bits = values.buffers[1]->data();
  for (int64_t i = 0; i < count; ++i) {
    words[i] = uint64_t{GetBit(bits, values.offset + begin + i) ? 1U : 0U} ^ flip;
  }
}

auto FillFor(const arrow::DataType& type) -> decltype(&FillBools) {
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

bool AnyNan(const uint64_t* words, int64_t count, uint64_t flip) {
  bool any = false;
  for (int64_t i = 0; i < count; ++i) any |= IsNan(words[i] ^ flip);
  return any;
}

}  // namespace

arrow::Result<SortCoder> SortCoder::Make(const arrow::DataType& type, bool ascending) {
  SortCoder coder;
  coder.fill_ = FillFor(type);
  if (coder.fill_ == nullptr) {
    return arrow::Status::NotImplemented("its values have no sort words, got ", type.ToString());
  }
  coder.flip_ = ascending ? 0 : ~uint64_t{0};
  coder.has_nan_ = arrow::is_floating(type.id());
  return coder;
}

bool SortCoder::Read(const arrow::Array& values, int64_t begin, int64_t count, uint64_t* words,
                     uint8_t* missing) const {
  if (count == 0) return false;
  fill_(*values.data(), begin, count, flip_, words);
  const uint8_t* validity = values.null_count() > 0 ? values.null_bitmap_data() : nullptr;
  if (validity == nullptr && !(has_nan_ && AnyNan(words, count, flip_))) return false;
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    const bool is_null = validity != nullptr && !GetBit(validity, values.offset() + begin + i);
    const bool is_missing = is_null || (has_nan_ && IsNan(words[i] ^ flip_));
    missing[i] = is_missing ? 1 : 0;
    if (is_missing) words[i] = 0;
    any |= is_missing;
  }
  return any;
}

}  // namespace flightshmem
