// SPDX-License-Identifier: Apache-2.0
//
// A barrier over PEs that share memory: spins for microseconds, then sleeps in the kernel, so a PE
// that waits costs nothing. Used by both providers (OpenSHMEM's own barrier spins at 100 % CPU).
#pragma once

#include <arrow/status.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/reserved_area.h"

namespace flightshmem {

class NodeBarrier {
 public:
  // `areas`: the reserved area of every PE, as mapped here; they outlive this object.
  // `check_interrupt` may be empty; see TransportOptions.
  NodeBarrier(std::vector<ReservedArea*> areas, int my_pe, double timeout_s,
              std::function<arrow::Status()> check_interrupt);

  // Collective. OK on every PE or an error on every PE: whoever gives up (a PE has ended, the time
  // is over, an interrupt) breaks the barrier for all, and it stays broken.
  arrow::Status Wait();

  // Tells the others what became of this PE and wakes them to look. Any thread.
  void Announce(PeState state, std::string_view last_words = {});

  // Blocks until every other PE has finished or aborted, or its process is gone. For providers
  // whose library ends with a collective of its own.
  void AwaitEnd();

 private:
  arrow::Status Pass();
  arrow::Status SleepUntil(uint32_t turn);
  arrow::Status Examine(double waited_s) const;
  arrow::Status Broken() const;
  std::string Absent() const;
  // Whether the process of `pe` has ended without a word, as after SIGKILL.
  bool IsKilled(size_t pe) const;

  std::vector<ReservedArea*> areas_;
  int my_pe_;
  double timeout_s_;
  std::function<arrow::Status()> check_interrupt_;
  int spins_;
  uint64_t pid_namespace_;
  arrow::Status verdict_;  // the first failure, which all later calls return
};

}  // namespace flightshmem
