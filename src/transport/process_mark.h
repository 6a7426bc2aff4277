// SPDX-License-Identifier: Apache-2.0
//
// Tells a process from its forks. A fork copies our objects but is no PE: what their destructors
// write to memory that PEs share must not happen a second time in it.
#pragma once

#include <unistd.h>

namespace flightshmem {

class ProcessMark {
 public:
  // Whether this is the process that made the mark.
  bool is_here() const { return getpid() == pid_; }

 private:
  pid_t pid_ = getpid();
};

}  // namespace flightshmem
