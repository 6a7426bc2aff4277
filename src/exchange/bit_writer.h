// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exchange/layout.h"

namespace flightshmem {

// Writes the bits of one BitPiece, in order: words that are this source's alone to memory, the
// edges into a BitEdges.
class BitWriter {
 public:
  BitWriter() = default;
  // `edges` must outlive this.
  BitWriter(const BitPiece& piece, BitEdges* edges)
      : edges_(edges),
        at_(piece.begin % 64),
        own_word_(piece.begin / 64 + (at_ != 0)),
        in_head_(at_ != 0) {}

  bool is_open() const { return edges_ != nullptr; }
  // The number, in the bitmap, of the word that will be written next.
  int64_t own_word() const { return own_word_; }
  // How many words `count` more bits will complete.
  int64_t WordsIn(int64_t count) const {
    const int64_t words = (at_ + count) / 64;
    return in_head_ && words > 0 ? words - 1 : words;
  }
  // From here on words go to `out`. To be called before the first Push.
  void Aim(uint64_t* out) { out_ = out; }

  // Takes bit_at(0), ..., bit_at(count - 1), each 0 or 1.
  template <typename BitAt>
  void Push(int64_t count, BitAt bit_at) {
    uint64_t word = word_;
    int64_t at = at_;
    for (int64_t i = 0; i < count; ++i) {
      word |= static_cast<uint64_t>(bit_at(i)) << at;
      if (++at == 64) {
        Complete(word);
        word = 0;
        at = 0;
      }
    }
    word_ = word;
    at_ = at;
  }

  // Takes the `count` <= 64 low bits of `bits`; those above are 0.
  void PushWord(uint64_t bits, int64_t count) {
    word_ |= bits << at_;
    if (at_ + count < 64) {
      at_ += count;
      return;
    }
    Complete(word_);
    word_ = at_ == 0 ? 0 : bits >> (64 - at_);
    at_ = at_ + count - 64;
  }

  // After the last bit.
  void Finish() {
    if (is_open()) (in_head_ ? edges_->head : edges_->tail) = word_;
  }

 private:
  void Complete(uint64_t word) {
    if (in_head_) {
      edges_->head = word;
      in_head_ = false;
      return;
    }
    *out_++ = word;
    ++own_word_;
  }

  uint64_t* out_ = nullptr;
  BitEdges* edges_ = nullptr;
  uint64_t word_ = 0;  // the bits below at_
  int64_t at_ = 0;
  int64_t own_word_ = 0;
  bool in_head_ = false;
};

}  // namespace flightshmem
