// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/select.h"

namespace flightshmem {

// Writes bytes that come in small runs to memory in whole cache lines. What does not fill a line
// yet is held back; the bytes before the first one, in its line, are another writer's and not
// touched.
class LineWriter {
 public:
  static constexpr int64_t kLine = 64;

  LineWriter() = default;
  // `streams`: past the caches, for more than they hold.
  LineWriter(uint8_t* to, bool streams)
      : line_(to - reinterpret_cast<uintptr_t>(to) % kLine),
        held_(to - line_),
        others_(held_),
        streams_(streams) {}

  // Where the next run may be laid, in `scratch`. REQUIRES: `scratch` is 64-byte aligned and has
  // room for a line more than the run; nothing else is done before End.
  uint8_t* Begin(uint8_t* scratch) const {
    std::memcpy(scratch, held_bytes_, kLine);
    return scratch + held_;
  }
  void End(uint8_t* scratch, int64_t bytes) {
    held_ += bytes;
    const int64_t whole = held_ / kLine * kLine;
    if (whole > 0) {
      int64_t done = 0;
      if (others_ > 0) {
        std::memcpy(line_ + others_, scratch + others_, static_cast<size_t>(kLine - others_));
        others_ = 0;
        done = kLine;
      }
      if (streams_) {
        StreamLines(line_ + done, scratch + done, whole - done);
      } else {
        std::memcpy(line_ + done, scratch + done, static_cast<size_t>(whole - done));
      }
      line_ += whole;
      held_ -= whole;
    }
    std::memcpy(held_bytes_, scratch + whole, kLine);
  }

  // Writes what is held; returns where the next byte would go.
  uint8_t* Finish() {
    std::memcpy(line_ + others_, held_bytes_ + others_, static_cast<size_t>(held_ - others_));
    return line_ + held_;
  }

 private:
  uint8_t* line_ = nullptr;  // the start of the line that is held
  int64_t held_ = 0;         // bytes of it so far
  int64_t others_ = 0;       // of these, the first so many are another writer's
  bool streams_ = false;
  uint8_t held_bytes_[kLine];
};

}  // namespace flightshmem
