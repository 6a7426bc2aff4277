// SPDX-License-Identifier: Apache-2.0
//
// Numbers the distinct 64-bit words it has seen: 0, 1, 2, ... in order of arrival.
//
// Why our own: Arrow's dictionary encoding would have to insert the probe side of a join, too, and
// waits for memory row by row; here the probe side is only looked up, with the slots of a run of
// rows fetched ahead. Measured (10 M x 1 M sparse int64 keys, one core): join 0.31 s, 0.70 s with
// Arrow's. Huge pages: 10 M words inserted 0.27 s (small pages 0.46), 10 M looked up among them
// 0.24 s (0.27).
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "kernels/mix.h"

namespace flightshmem {

class WordTable {
 public:
  // Starts with room for so many distinct words; grows as need be.
  explicit WordTable(int64_t words)
      : mask_((uint64_t{2} << std::bit_width(static_cast<uint64_t>(words))) - 1),
        slots_(MakeSlots(mask_ + 1)) {}

  // A table that only looks up, in the bytes() of another that holds `size` words: no copy, `bytes`
  // must outlive it.
  WordTable(std::span<const std::byte> bytes, int64_t size)
      : mask_(bytes.size() / sizeof(Slot) - 1),
        slots_(reinterpret_cast<Slot*>(const_cast<std::byte*>(bytes.data())), FreeSlots{false}),
        size_(size) {}

  int64_t size() const { return size_; }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(slots_.get(), mask_ + 1));
  }

  // codes[i] becomes the number of word_at(i), for i in [0, count); new words are added.
  // word_at(i) may read codes[i].
  template <typename WordAt>
  void Insert(int64_t count, WordAt word_at, uint32_t* codes) {
    const auto make_room = [&] {
      if (2 * static_cast<uint64_t>(size_ + kRun) > mask_ + 1) Grow();
    };
    ForEach(count, word_at, make_room, [&](int64_t i, uint64_t word, uint64_t at) {
      Slot& slot = Probe(word, at);
      if (slot.number == 0) slot = {word, static_cast<uint32_t>(++size_)};
      codes[i] = slot.number - 1;
    });
  }
  // As Insert, but words that were never inserted get `absent`.
  template <typename WordAt>
  void Find(int64_t count, WordAt word_at, uint32_t absent, uint32_t* codes) const {
    ForEach(
        count, word_at, [] {},
        [&](int64_t i, uint64_t word, uint64_t at) {
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

  struct FreeSlots {
    bool owns;
    void operator()(Slot* slots) const {
      if (owns) std::free(slots);
    }
  };
  using Slots = std::unique_ptr<Slot[], FreeSlots>;

  // Zeroed. In huge pages where the system grants them: handing out small ones, and looking them up
  // for slots all over a large table, costs more than the table itself.
  static Slots MakeSlots(uint64_t count) {
    constexpr uint64_t kHugePage = 2 << 20;
    const uint64_t bytes = count * sizeof(Slot);
    const uint64_t alignment = bytes < kHugePage ? 64 : kHugePage;
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
    return Slots(static_cast<Slot*>(std::memset(memory, 0, bytes)), FreeSlots{true});
  }

  template <typename WordAt, typename BeforeRun, typename Visit>
  void ForEach(int64_t count, WordAt word_at, BeforeRun before_run, Visit visit) const {
    std::array<uint64_t, kRun> at;
    for (int64_t begin = 0; begin < count; begin += kRun) {
      before_run();
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

  void Grow() {
    const Slots old = std::move(slots_);
    const uint64_t old_size = mask_ + 1;
    mask_ = 2 * old_size - 1;
    slots_ = MakeSlots(mask_ + 1);
    for (uint64_t i = 0; i < old_size; ++i) {
      if (old[i].number != 0) Probe(old[i].word, Home(old[i].word)) = old[i];
    }
  }

  uint64_t mask_;
  Slots slots_;
  int64_t size_ = 0;
};

}  // namespace flightshmem
