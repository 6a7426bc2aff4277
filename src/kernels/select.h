// SPDX-License-Identifier: Apache-2.0
//
// Taking the rows of one destination out of a run of rows, 64 at a time: a *selection* has one bit
// per row, in 64-bit words; bits beyond the last row are 0. For processors with AVX-512 VBMI2 and
// BMI2; CanSelect tells. Pure functions.
#pragma once

#include <cstdint>

namespace flightshmem {

// Whether this processor runs the functions below; they must not be called else.
bool CanSelect();

// The words of a selection of `rows` rows.
constexpr int64_t SelectionWords(int64_t rows) { return (rows + 63) / 64; }

// Selects the rows with pes[i] == destination; returns their number.
int64_t SelectRows(const uint16_t* pes, int64_t rows, uint16_t destination, uint64_t* selection);

// Writes the numbers of the selected rows, ascending. May write up to 64 bytes past them.
void SelectNumbers(const uint64_t* selection, int64_t rows, uint16_t* out);

// Writes the selected slots of 1, 2, 4, 8, 16 or 32 bytes, side by side. May write up to 64 bytes
// past them, and reads no slot beyond `rows`.
void SelectSlots(const uint8_t* in, uint64_t width, const uint64_t* selection, int64_t rows,
                 uint8_t* out);
constexpr bool HasSelectableWidth(uint64_t width) {
  return width > 0 && width <= 32 && (width & (width - 1)) == 0;
}

// Copies slots of 8 or 4 bytes; those whose bit in `valid` is 0 become `null_slot`.
void BlendSlots8(const uint8_t* in, const uint64_t* valid, int64_t rows, uint64_t null_slot,
                 uint8_t* out);
void BlendSlots4(const uint8_t* in, const uint64_t* valid, int64_t rows, uint32_t null_slot,
                 uint8_t* out);

// Packs the bits of the selected rows into the low end of a word. `bits`: of the same 64 rows.
uint64_t SelectBits(uint64_t bits, uint64_t selection);

// Copies whole 64-byte lines past the caches. REQUIRES: `to` and `from` are 64-byte aligned,
// `bytes` is a multiple of 64. Visible to others after StreamFence.
void StreamLines(uint8_t* to, const uint8_t* from, int64_t bytes);
void StreamFence();

}  // namespace flightshmem
