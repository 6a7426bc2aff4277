// SPDX-License-Identifier: Apache-2.0
#include "exchange/slots.h"

#include <arrow/util/bit_util.h>

#include <array>

namespace flightshmem {
namespace {

constexpr std::array<uint64_t, 256> SpreadTable() {
  std::array<uint64_t, 256> table{};
  for (uint64_t byte = 0; byte < 256; ++byte) {
    for (int bit = 0; bit < 8; ++bit) table[byte] |= ((byte >> bit) & 1) << (8 * bit);
  }
  return table;
}
constexpr std::array<uint64_t, 256> kSpread = SpreadTable();

// `valid` (1 or 0) chooses, without a branch: where nulls fall is not predictable.
template <typename T>
T Choose(uint8_t valid, T value, T null_value) {
  const auto mask = static_cast<T>(-static_cast<T>(valid));
  return static_cast<T>((value & mask) | (null_value & static_cast<T>(~mask)));
}
template <size_t kWords>
Wide<kWords> Choose(uint8_t valid, Wide<kWords> value, Wide<kWords> null_value) {
  for (size_t w = 0; w < kWords; ++w) {
    value.words[w] = Choose(valid, value.words[w], null_value.words[w]);
  }
  return value;
}

template <typename T>
void Clean(const uint8_t* in, const uint8_t* valid, int64_t rows, T null_value, uint8_t* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const T value = Choose(valid[i], Load<T>(in + i * sizeof(T)), null_value);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

void UnpackBits(const uint8_t* bits, int64_t offset, int64_t count, uint8_t* out) {
  const int shift = static_cast<int>(offset % 8);
  const uint8_t* byte = bits + offset / 8;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8, ++byte) {
    // The second byte is read only where it holds some of these bits.
    const unsigned eight = shift == 0 ? *byte : (byte[0] >> shift) | (byte[1] << (8 - shift));
    std::memcpy(out + i, &kSpread[eight & 0xFF], 8);
  }
  for (; i < count; ++i) out[i] = arrow::bit_util::GetBit(bits, offset + i);
}

void CleanSlots(const uint8_t* in, const uint8_t* valid, int64_t rows, uint64_t width,
                arrow::Type::type id, uint8_t* out) {
  switch (width) {
    case 1:
      return Clean<uint8_t>(in, valid, rows, 0, out);
    case 2:
      return Clean<uint16_t>(in, valid, rows, id == arrow::Type::HALF_FLOAT ? 0x7E00 : 0, out);
    case 4:
      return Clean<uint32_t>(in, valid, rows, id == arrow::Type::FLOAT ? 0x7FC00000 : 0, out);
    case 8:
      return Clean<uint64_t>(in, valid, rows, id == arrow::Type::DOUBLE ? 0x7FF8000000000000 : 0,
                             out);
    case 16:
      return Clean<Wide<2>>(in, valid, rows, {}, out);
    case 32:
      return Clean<Wide<4>>(in, valid, rows, {}, out);
    default:
      std::memcpy(out, in, rows * width);
      for (int64_t i = 0; i < rows; ++i) {
        if (!valid[i]) std::memset(out + i * width, 0, width);
      }
  }
}

}  // namespace flightshmem
