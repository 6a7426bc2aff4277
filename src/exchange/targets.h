// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/bit_writer.h"

namespace flightshmem {

// Where the next row of a column goes, at each destination. Any memory: a peer's block or a staged
// copy. Everything moves on as rows are written.
struct ColumnTargets {
  explicit ColumnTargets(size_t n_destinations)
      : values(n_destinations),
        text(n_destinations),
        text_limit(n_destinations),
        text_end(n_destinations),
        validity(n_destinations),
        bools(n_destinations) {}

  size_t n_destinations() const { return values.size(); }

  std::vector<uint8_t*> values;  // slots or text offsets
  std::vector<uint8_t*> text;
  std::vector<uint8_t*> text_limit;  // [text, text_limit) is this writer's alone
  std::vector<int64_t> text_end;     // the offset that belongs to `text`
  std::vector<BitWriter> validity;   // not open: no row at that destination is null
  std::vector<BitWriter> bools;
};

}  // namespace flightshmem
