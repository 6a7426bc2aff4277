// SPDX-License-Identifier: Apache-2.0
//
// N PEs as N threads, each with its part of one memory file.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "check.h"
#include "heap/symmetric_heap.h"
#include "transport/providers.h"

namespace flightshmem::testing {

// The same transport, but other PEs are out of reach but for Put and Get, as on another machine.
class RemoteOnly : public Transport {
 public:
  explicit RemoteOnly(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  int my_pe() const override { return inner_->my_pe(); }
  int n_pes() const override { return inner_->n_pes(); }
  uint64_t segment_size() const override { return inner_->segment_size(); }
  std::byte* peer(int pe) const override { return pe == my_pe() ? inner_->peer(pe) : nullptr; }
  arrow::Status Put(GlobalPtr to, const void* from, uint64_t size) override {
    return inner_->Put(to, from, size);
  }
  arrow::Status Get(void* out, GlobalPtr from, uint64_t size) override {
    return inner_->Get(out, from, size);
  }
  arrow::Status PutNbi(GlobalPtr to, const void* from, uint64_t size) override {
    return inner_->PutNbi(to, from, size);
  }
  arrow::Status Quiet() override { return inner_->Quiet(); }
  arrow::Status Fence() override { return inner_->Fence(); }
  [[noreturn]] void Abort(int code, std::string_view message) override {
    inner_->Abort(code, message);
    std::abort();  // not reached
  }
  arrow::Status Finalize() override { return inner_->Finalize(); }

 protected:
  arrow::Status AwaitAll() override { return inner_->Barrier(); }
  // Words are 64 bits wide wherever they are used here.
  arrow::Result<uint64_t> FetchAddBits(GlobalPtr at, uint64_t value, int width) override {
    CHECK(width == 8);
    return inner_->FetchAdd<uint64_t>(at, value);
  }
  arrow::Result<uint64_t> CompareSwapBits(GlobalPtr at, uint64_t expected, uint64_t desired,
                                          int width) override {
    CHECK(width == 8);
    return inner_->CompareSwap<uint64_t>(at, expected, desired);
  }

 private:
  std::shared_ptr<Transport> inner_;
};

enum class Reach { kDirect, kRemoteOnly };

// Runs `body` on every PE with a heap of its own; at the end all of it must be free.
inline void RunOnPes(int n_pes, uint64_t segment_bytes, Reach reach,
                     const std::function<void(const std::shared_ptr<SymmetricHeap>&)>& body) {
  TransportOptions options;
  options.segment_bytes = segment_bytes;
  options.collective_timeout_s = 60;
  auto transports = VALUE(OpenPosixShmThreads(options, n_pes));
  std::vector<std::thread> threads;
  for (auto& opened : transports) {
    threads.emplace_back([&body, reach, transport = std::move(opened)]() mutable {
      if (reach == Reach::kRemoteOnly) transport = std::make_shared<RemoteOnly>(transport);
      auto heap = VALUE(SymmetricHeap::Make(transport, Catalog::kEndOffset));
      body(heap);
      CHECK_OK(transport->Barrier());  // until then other PEs may hold blocks of this one
      CHECK(heap->stats().blocks == 0);
      CHECK_OK(transport->Finalize());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace flightshmem::testing
