// SPDX-License-Identifier: Apache-2.0
//
// The embedded transport's barrier and the collectives, hammered by N PEs as threads. Cells that
// PEs write for each other are plain memory: a barrier that does not order them is a race to TSan.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "transport/error_detail.h"
#include "transport/providers.h"

namespace flightshmem {
namespace {

using PeBody = std::function<void(Transport& transport)>;

constexpr uint64_t kSegmentBytes = 4 << 20;

void RunOnPes(int n_pes, TransportOptions options, const PeBody& body) {
  options.segment_bytes = kSegmentBytes;
  auto transports = VALUE(OpenPosixShmThreads(options, n_pes));
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&body, transport] {
      body(*transport);
      CHECK_OK(transport->Finalize());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TransportOptions Timeout(double seconds) {
  TransportOptions options;
  options.collective_timeout_s = seconds;
  return options;
}

std::vector<std::byte> Pattern(int seed, size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed * 31 + i * 7 + i / 251);
  return bytes;
}

bool IsPeerLost(const arrow::Status& status) {
  const char* error_class = ErrorClassOf(status);
  return error_class != nullptr && std::strcmp(error_class, "PeerLost") == 0;
}

FS_TEST(barrier_orders_plain_memory) {
  for (int n_pes : {1, 2, 3, 5}) {
    RunOnPes(n_pes, Timeout(60), [](Transport& transport) {
      const int next = (transport.my_pe() + 1) % transport.n_pes();
      auto* theirs = reinterpret_cast<int*>(transport.peer(next) + Transport::kReservedBytes);
      const auto* mine = reinterpret_cast<const int*>(transport.peer(transport.my_pe()) +
                                                      Transport::kReservedBytes);
      for (int round = 0; round < 2000; ++round) {
        *theirs = round;
        CHECK_OK(transport.Barrier());
        CHECK(*mine == round);
        CHECK_OK(transport.Barrier());
      }
    });
  }
}

// All collectives in random order and of random sizes; every PE draws the same.
FS_TEST(collectives_in_any_order) {
  RunOnPes(4, Timeout(60), [](Transport& transport) {
    std::mt19937 random(7);
    const int n_pes = transport.n_pes(), my_pe = transport.my_pe();
    for (int round = 0; round < 300; ++round) {
      const size_t size = random() % (round % 20 == 0 ? 1'200'000 : 2'000) / 8 * 8;
      const int root = static_cast<int>(random() % n_pes);
      const auto mine = Pattern(my_pe, size);
      auto bytes = mine;
      CHECK_OK(transport.Broadcast(bytes, root));
      CHECK(bytes == Pattern(root, size));
      const auto gathered = VALUE(transport.AllGatherV(std::span(mine).first(size / (my_pe + 1))));
      for (int pe = 0; pe < n_pes; ++pe) CHECK(gathered[pe] == Pattern(pe, size / (pe + 1)));
      std::vector<int64_t> counts(random() % 50, my_pe + 1);
      CHECK_OK(transport.Reduce(std::as_writable_bytes(std::span(counts)), NumericType::kInt64,
                                ReduceOp::kSum));
      for (int64_t count : counts) CHECK(count == n_pes * (n_pes + 1) / 2);
      std::vector<int32_t> sent(n_pes), received(n_pes);
      std::iota(sent.begin(), sent.end(), 100 * my_pe);
      CHECK_OK(transport.AllToAll(std::as_bytes(std::span(sent)),
                                  std::as_writable_bytes(std::span(received))));
      for (int pe = 0; pe < n_pes; ++pe) CHECK(received[pe] == 100 * pe + my_pe);
    }
  });
}

FS_TEST(adds_are_exact) {
  RunOnPes(4, Timeout(60), [](Transport& transport) {
    const GlobalPtr wide{0, Transport::kReservedBytes}, narrow = wide + 8;
    for (int i = 0; i < 5000; ++i) {
      CHECK_OK(transport.FetchAdd<int64_t>(wide, 3));
      CHECK_OK(transport.FetchAdd<uint32_t>(narrow, 1));
    }
    CHECK_OK(transport.Barrier());
    CHECK(VALUE(transport.FetchAdd<int64_t>(wide, 0)) == 4 * 5000 * 3);
    CHECK(VALUE(transport.FetchAdd<uint32_t>(narrow, 0)) == 4 * 5000);
  });
}

FS_TEST(barrier_fails_on_all_when_one_has_ended) {
  for (int round = 0; round < 50; ++round) {
    RunOnPes(3, Timeout(60), [](Transport& transport) {
      if (transport.my_pe() == 2) return;
      const arrow::Status first = transport.Barrier();
      CHECK(IsPeerLost(first));
      CHECK(first.message().find("PE 2 has ended") != std::string::npos);
      CHECK(IsPeerLost(transport.Barrier()));  // and stays so
    });
  }
}

FS_TEST(barrier_fails_on_all_after_the_timeout) {
  std::atomic<bool> given_up = false;
  RunOnPes(3, Timeout(0.2), [&](Transport& transport) {
    while (transport.my_pe() == 1 && !given_up) std::this_thread::yield();
    const arrow::Status status = transport.Barrier();
    given_up = true;
    CHECK(IsPeerLost(status));
  });
}

FS_TEST(interrupt_ends_the_wait_of_all) {
  std::atomic<bool> given_up = false;
  TransportOptions options = Timeout(60);
  options.check_interrupt = [&given_up] {
    return given_up ? arrow::Status::OK() : arrow::Status::Cancelled("by the test");
  };
  RunOnPes(2, options, [&](Transport& transport) {
    // Not before PE 0 has given up: else the barrier might be completed.
    while (transport.my_pe() == 1 && !given_up) std::this_thread::yield();
    const arrow::Status status = transport.Barrier();
    given_up = true;
    CHECK(transport.my_pe() == 0 ? status.IsCancelled() : IsPeerLost(status));
  });
}

FS_TEST(different_collectives_are_noticed) {
  RunOnPes(3, Timeout(60), [](Transport& transport) {
    std::vector<std::byte> bytes(24);
    const arrow::Status status = transport.my_pe() == 0
                                     ? transport.Reduce(bytes, NumericType::kDouble, ReduceOp::kSum)
                                     : transport.AllGather(std::span(bytes).first(8), bytes);
    CHECK(status.IsInvalid());
    CHECK(status.message().find("PEs disagree") != std::string::npos);
    CHECK_OK(transport.Broadcast(bytes, 1));  // in step again
  });
}

FS_TEST(segments_are_checked) {
  CHECK(CreateSegmentFile(kSegmentBytes, 0).status().IsIOError());
  CHECK(CreateSegmentFile(kSegmentBytes + 1, 1).status().IsIOError());
  CHECK(CreateSegmentFile(uint64_t{1} << 62, 4).status().IsIOError());
  CHECK(OpenPosixShmAlone(TransportOptions{}).status().IsIOError());
  const TransportOptions options{kSegmentBytes, 1, {}};
  CHECK(OpenPosixShm(options, 0, 1, -1).status().IsIOError());
  const int descriptor = VALUE(CreateSegmentFile(kSegmentBytes, 1));
  CHECK(OpenPosixShm(options, 0, 2, descriptor).status().IsIOError());  // too small a file
  CHECK(OpenPosixShm(options, 1, 1, descriptor).status().IsIOError());
  CHECK_OK(OpenPosixShm(options, 0, 1, descriptor));
  close(descriptor);
}

}  // namespace
}  // namespace flightshmem
