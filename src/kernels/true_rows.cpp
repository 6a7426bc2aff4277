// SPDX-License-Identifier: Apache-2.0
//
// Why our own: Arrow's indices_nonzero takes the bits one by one where a mask mixes them, and a
// mask that keeps half of the rows is guessed wrong half the time. Here a word's set bits are
// walked, without a branch per bit. Measured (one core, 5 M rows, half kept at random): 2.6 ms, 23
// with Arrow's; with Gather, a filter of four numbers and a text 24 ms, 38 with Arrow's.
#include "kernels/true_rows.h"

#include <arrow/buffer.h>

#include <bit>
#include <limits>
#include <utility>

#include "kernels/bits.h"

namespace flightshmem {
namespace {

constexpr int64_t kBits = 64;

class Mask {
 public:
  explicit Mask(const arrow::BooleanArray& mask)
      : values_(mask.values()->data()),
        validity_(mask.null_count() > 0 ? mask.null_bitmap_data() : nullptr),
        offset_(mask.offset()),
        length_(mask.length()) {}

  // Calls word(row, bits) for every 64 rows.
  template <typename Word>
  void ForEachWord(Word word) const {
    for (int64_t row = 0; row < length_; row += kBits) {
      uint64_t bits = LoadBits(values_, offset_ + row, offset_ + length_);
      if (validity_ != nullptr) bits &= LoadBits(validity_, offset_ + row, offset_ + length_);
      word(static_cast<uint32_t>(row), bits);
    }
  }

 private:
  const uint8_t* values_;
  const uint8_t* validity_;
  int64_t offset_;
  int64_t length_;
};

}  // namespace

arrow::Result<std::shared_ptr<arrow::UInt32Array>> TrueRows(const arrow::BooleanArray& mask) {
  if (mask.length() > int64_t{std::numeric_limits<uint32_t>::max()}) {
    return arrow::Status::CapacityError("[filter] one batch can have 4,294,967,295 rows, got ",
                                        mask.length(), ": use more PEs");
  }
  const Mask words(mask);
  int64_t n_true = 0;
  words.ForEachWord([&](uint32_t, uint64_t bits) { n_true += std::popcount(bits); });
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(n_true * int64_t{sizeof(uint32_t)}));
  auto* out = reinterpret_cast<uint32_t*>(buffer->mutable_data());
  words.ForEachWord([&](uint32_t row, uint64_t bits) {
    for (; bits != 0; bits &= bits - 1)
      *out++ = row + static_cast<uint32_t>(std::countr_zero(bits));
  });
  return std::make_shared<arrow::UInt32Array>(n_true, std::move(buffer));
}

}  // namespace flightshmem
