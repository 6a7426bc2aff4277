// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exchange/layout.h"

namespace flightshmem {

struct ExchangeOptions {
  // The most that rows on their way to PEs out of reach take, on the sending side.
  int64_t staging_bytes = 64 << 20;
  // Text columns with more bytes than this on some PE get 64-bit offsets on all.
  int64_t max_short_text = kMaxShortText;
  // Without the instructions that not every processor has; the result is the same.
  bool is_portable = false;
};

}  // namespace flightshmem
