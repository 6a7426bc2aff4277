// SPDX-License-Identifier: Apache-2.0
//
// Touches heap pages before they are needed. The system gives a page when it is first touched,
// which costs more than to write it: an exchange into untouched pages takes eight times as long.
// Here a thread touches the pages that will be used first, in this PE's segment and in this
// process's view of its peers' segments. Contents are not changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "transport/process_mark.h"
#include "transport/transport.h"

namespace flightshmem {

class Warmer {
 public:
  // Starts warming [begin, begin + bytes) of all segments.
  Warmer(std::shared_ptr<Transport> transport, uint64_t begin, uint64_t bytes);
  // Ends it, at the latest after some milliseconds.
  ~Warmer();
  Warmer(const Warmer&) = delete;
  Warmer& operator=(const Warmer&) = delete;

 private:
  void Run(uint64_t begin, uint64_t end);
  void Touch(uint64_t begin, uint64_t end) const;

  const std::shared_ptr<Transport> transport_;
  ProcessMark made_in_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace flightshmem
