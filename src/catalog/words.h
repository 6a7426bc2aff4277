// SPDX-License-Identifier: Apache-2.0
//
// 64-bit words and bytes of any PE's segment: through its pointer where there is one (any thread),
// through the transport otherwise (main thread only; elsewhere NotImplemented naming the PE).
#pragma once

#include <arrow/result.h>

#include <memory>
#include <thread>

#include "transport/transport.h"

namespace flightshmem {

class Words {
 public:
  // REQUIRES: called by the transport's main thread.
  explicit Words(std::shared_ptr<Transport> transport);

  // Sequentially consistent among all that go through this class. REQUIRES: 8-byte aligned, in
  // the segment.
  arrow::Result<uint64_t> Load(GlobalPtr at) const;
  arrow::Status Store(GlobalPtr at, uint64_t value) const;
  // The value before; the swap took place when it equals `expected`.
  arrow::Result<uint64_t> CompareSwap(GlobalPtr at, uint64_t expected, uint64_t desired) const;
  // Bytes that nobody writes meanwhile.
  arrow::Status Read(void* out, GlobalPtr from, uint64_t size) const;

  // The bytes at `at` in this process, or null.
  std::byte* pointer(GlobalPtr at) const;
  bool on_main_thread() const { return std::this_thread::get_id() == main_thread_; }
  // OK when this thread can reach `pe`.
  arrow::Status CheckReach(int pe) const;
  Transport& transport() const { return *transport_; }

 private:
  std::shared_ptr<Transport> transport_;
  std::thread::id main_thread_;
};

}  // namespace flightshmem
