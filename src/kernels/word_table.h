// SPDX-License-Identifier: Apache-2.0
//
// Numbers the distinct 64-bit words it has seen: 0, 1, 2, ... in order of arrival.
//
// Why our own: Arrow's dictionary encoding would have to insert the probe side of a join, too, and
// waits for memory row by row; here the probe side is only looked up, with the slots of a run of
// rows fetched ahead. Measured (10 M x 1 M sparse int64 keys, one core): join 0.31 s, 0.70 s with
// Arrow's.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "kernels/mix.h"

namespace flightshmem {

class WordTable {
 public:
  // Room for `max_words` distinct words.
  explicit WordTable(int64_t max_words)
      : mask_((uint64_t{2} << std::bit_width(static_cast<uint64_t>(max_words))) - 1),
        slots_(std::make_unique<Slot[]>(mask_ + 1)) {}

  int64_t size() const { return size_; }

  // codes[i] becomes the number of word_at(i), for i in [0, count); new words are added.
  // word_at(i) may read codes[i].
  template <typename WordAt>
  void Insert(int64_t count, WordAt word_at, uint32_t* codes) {
    ForEach(count, word_at, [&](int64_t i, uint64_t word, uint64_t at) {
      Slot& slot = Probe(word, at);
      if (slot.number == 0) slot = {word, static_cast<uint32_t>(++size_)};
      codes[i] = slot.number - 1;
    });
  }
  // As Insert, but words that were never inserted get `absent`.
  template <typename WordAt>
  void Find(int64_t count, WordAt word_at, uint32_t absent, uint32_t* codes) const {
    ForEach(count, word_at, [&](int64_t i, uint64_t word, uint64_t at) {
      const Slot& slot = Probe(word, at);
      codes[i] = slot.number == 0 ? absent : slot.number - 1;
    });
  }

 private:
  struct Slot {
    uint64_t word = 0;
    uint32_t number = 0;  // counted from 1; 0: empty
  };
  static constexpr int64_t kRun = 32;

  template <typename WordAt, typename Visit>
  void ForEach(int64_t count, WordAt word_at, Visit visit) const {
    std::array<uint64_t, kRun> at;
    for (int64_t begin = 0; begin < count; begin += kRun) {
      const int64_t run = std::min(kRun, count - begin);
      for (int64_t i = 0; i < run; ++i) {
        at[i] = Home(word_at(begin + i));
        __builtin_prefetch(&slots_[at[i]]);
      }
      for (int64_t i = 0; i < run; ++i) visit(begin + i, word_at(begin + i), at[i]);
    }
  }

  // The low bits: the high ones chose the PE, so they are alike for all words here.
  uint64_t Home(uint64_t word) const { return Mix(word) & mask_; }

  Slot& Probe(uint64_t word, uint64_t at) const {
    while (slots_[at].number != 0 && slots_[at].word != word) at = (at + 1) & mask_;
    return slots_[at];
  }

  uint64_t mask_;
  std::unique_ptr<Slot[]> slots_;
  int64_t size_ = 0;
};

}  // namespace flightshmem
