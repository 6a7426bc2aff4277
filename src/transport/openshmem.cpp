// SPDX-License-Identifier: Apache-2.0
//
// The provider over a real OpenSHMEM library (1.4 or later); the only file that includes shmem.h.
// Built as a module of its own. The segment is one symmetric object of the library, so an array in
// our heap is a symmetric address for shmem4py too.
//
// PEs that share memory are reached by their pointers, without the library: a library call of a PE
// that waits spins on its core, and only the main thread may make one.
#include <shmem.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "transport/error_detail.h"
#include "transport/memory_access.h"
#include "transport/node_barrier.h"
#include "transport/process_mark.h"
#include "transport/providers.h"
#include "transport/watchdog.h"

namespace flightshmem {
namespace {

class OpenShmem final : public Transport {
 public:
  OpenShmem(std::byte* segment, uint64_t segment_bytes, const TransportOptions& options)
      : segment_(segment),
        segment_bytes_(segment_bytes),
        my_pe_(shmem_my_pe()),
        n_pes_(shmem_n_pes()),
        timeout_s_(options.collective_timeout_s) {
    std::vector<ReservedArea*> areas;
    for (int pe = 0; pe < n_pes_; ++pe) {
      peers_.push_back(static_cast<std::byte*>(shmem_ptr(segment_, pe)));
      areas.push_back(reinterpret_cast<ReservedArea*>(peers_.back()));
    }
    peers_[my_pe_] = segment_;
    areas[my_pe_] = reinterpret_cast<ReservedArea*>(segment_);
    if (std::find(peers_.begin(), peers_.end(), nullptr) == peers_.end()) {
      node_barrier_.emplace(areas, my_pe_, timeout_s_, options.check_interrupt);
      node_barrier_->Announce(PeState::kRunning);
    } else {
      watchdog_.emplace([this] {
        Abort(1, "[barrier] waited " + std::to_string(static_cast<int>(timeout_s_)) +
                     " s for other PEs: raise FLIGHTSHMEM_TIMEOUT if the work between collectives "
                     "takes longer");
      });
    }
  }

  std::string_view name() const override { return "openshmem"; }
  int my_pe() const override { return my_pe_; }
  int n_pes() const override { return n_pes_; }
  uint64_t segment_size() const override { return segment_bytes_; }
  std::byte* peer(int pe) const override { return pe < 0 || pe >= n_pes_ ? nullptr : peers_[pe]; }

  arrow::Status Put(GlobalPtr to, const void* from, uint64_t size) override {
    ARROW_RETURN_NOT_OK(CheckRange("put", to, size));
    if (size == 0 || CopyTo(to, from, size)) return arrow::Status::OK();
    shmem_putmem(segment_ + to.offset, from, size, to.pe);
    shmem_quiet();  // the library's blocking put only means that `from` may be reused
    return arrow::Status::OK();
  }
  arrow::Status Get(void* out, GlobalPtr from, uint64_t size) override {
    ARROW_RETURN_NOT_OK(CheckRange("get", from, size));
    if (size == 0) return arrow::Status::OK();
    if (const std::byte* base = peers_[from.pe]) {
      std::memcpy(out, base + from.offset, size);
    } else {
      shmem_getmem(out, segment_ + from.offset, size, from.pe);
    }
    return arrow::Status::OK();
  }
  arrow::Status PutNbi(GlobalPtr to, const void* from, uint64_t size) override {
    ARROW_RETURN_NOT_OK(CheckRange("put_nbi", to, size));
    if (size == 0 || CopyTo(to, from, size)) return arrow::Status::OK();
    shmem_putmem_nbi(segment_ + to.offset, from, size, to.pe);
    return arrow::Status::OK();
  }
  arrow::Status Quiet() override {
    shmem_quiet();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return arrow::Status::OK();
  }
  arrow::Status Fence() override {
    shmem_fence();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return arrow::Status::OK();
  }

  [[noreturn]] void Abort(int code, std::string_view message) override {
    PrintLastWords(my_pe_, message);
    if (node_barrier_) node_barrier_->Announce(PeState::kAborted, message);
    shmem_global_exit(code);
    _exit(code);  // some libraries return
  }

  // The library's own end comes when the process exits, see EndLibrary.
  arrow::Status Finalize() override {
    if (node_barrier_) node_barrier_->Announce(PeState::kFinished);
    return arrow::Status::OK();
  }

  // Sleeps until the library's finalisation, in which a PE that waits would spin, can be quick.
  void AwaitOthers() {
    if (node_barrier_) node_barrier_->AwaitEnd();
  }

 private:
  // Whether it could be done by pointer.
  bool CopyTo(GlobalPtr to, const void* from, uint64_t size) {
    std::byte* base = peers_[to.pe];
    if (base == nullptr) return false;
    std::memcpy(base + to.offset, from, size);
    return true;
  }

  arrow::Status AwaitAll() override {
    if (node_barrier_) {
      shmem_quiet();  // for puts that others (shmem4py) made
      return node_barrier_->Wait();
    }
    watchdog_->Set(std::chrono::duration<double>(timeout_s_));
    shmem_barrier_all();
    watchdog_->Clear();
    return arrow::Status::OK();
  }

  // A network card's atomics and the processor's need not exclude each other: with PEs on other
  // nodes all go through the library.
  arrow::Result<uint64_t> FetchAddBits(GlobalPtr at, uint64_t value, int width) override {
    ARROW_RETURN_NOT_OK(CheckAtomic("fetch_add", at, width));
    if (node_barrier_) return FetchAddAt(peers_[at.pe] + at.offset, value, width);
    if (width == 8) return shmem_ulong_atomic_fetch_add(Word(at.offset), value, at.pe);
    return Update32(at, [value](uint32_t old) { return old + static_cast<uint32_t>(value); });
  }
  arrow::Result<uint64_t> CompareSwapBits(GlobalPtr at, uint64_t expected, uint64_t desired,
                                          int width) override {
    ARROW_RETURN_NOT_OK(CheckAtomic("compare_swap", at, width));
    if (node_barrier_) {
      return CompareSwapAt(peers_[at.pe] + at.offset, expected, desired, width);
    }
    if (width == 8) {
      return shmem_ulong_atomic_compare_swap(Word(at.offset), expected, desired, at.pe);
    }
    return Update32(at, [=](uint32_t old) {
      return static_cast<uint32_t>(old == static_cast<uint32_t>(expected) ? desired : old);
    });
  }

  // Replaces 4 bytes by a function of them, within the 8 that hold them, and returns them as they
  // were. Not with the library's 4-byte calls: Open MPI 4's compare-and-swap writes 8 bytes to the
  // stack, and atomics of different widths on one word need not exclude each other.
  uint64_t Update32(GlobalPtr at, const std::function<uint32_t(uint32_t)>& update) {
    unsigned long* word = Word(at.offset / 8 * 8);
    const int shift = at.offset % 8 == 0 ? 0 : 32;
    unsigned long seen = shmem_ulong_atomic_fetch(word, at.pe);
    while (true) {
      const auto old = static_cast<uint32_t>(seen >> shift);
      const unsigned long wanted =
          (seen & ~(0xffffffffUL << shift)) | static_cast<unsigned long>(update(old)) << shift;
      const unsigned long found = shmem_ulong_atomic_compare_swap(word, seen, wanted, at.pe);
      if (found == seen) return old;
      seen = found;
    }
  }
  unsigned long* Word(uint64_t offset) {
    static_assert(sizeof(unsigned long) == 8);
    return reinterpret_cast<unsigned long*>(segment_ + offset);
  }

  std::byte* segment_;
  uint64_t segment_bytes_;
  int my_pe_;
  int n_pes_;
  double timeout_s_;
  std::vector<std::byte*> peers_;
  std::optional<NodeBarrier> node_barrier_;  // when all PEs share memory
  std::optional<Watchdog> watchdog_;         // else
};

// The library is one per process, and so is this: kept until the process exits, whatever Python
// does with its references, since the library must end after everything that uses it.
std::shared_ptr<OpenShmem>& TheTransport() {
  static auto* transport = new std::shared_ptr<OpenShmem>();
  return *transport;
}

std::optional<ProcessMark> started_in;

// At process exit, when this module has started the library. Without it the library's own exit
// handler would spin until the last PE is there.
void EndLibrary(int exit_code, void*) {
  if (!started_in->is_here()) _exit(exit_code);  // a fork is no PE, and would hang in what follows
  if (TheTransport()) TheTransport()->AwaitOthers();
  shmem_finalize();
}

// Starting the library leaves the process's signals as they were: Open MPI would swallow SIGTERM.
arrow::Status StartLibrary() {
  constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
  struct sigaction before[std::size(kSignals)];
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], nullptr, &before[i]);
  int provided = SHMEM_THREAD_SINGLE;
  const int failed = shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before[i], nullptr);
  if (failed != 0) {
    return MakeError(arrow::StatusCode::IOError, "TransportError",
                     "[init] the OpenSHMEM library did not start, it said ", failed,
                     ": start PEs with `flightshmem run --transport openshmem` or oshrun");
  }
  started_in.emplace();
  on_exit(EndLibrary, nullptr);
  return arrow::Status::OK();
}

// What the PEs tell each other before there is a segment: one number each.
class Bootstrap {
 public:
  static arrow::Result<Bootstrap> Make() {
    auto* words = static_cast<uint64_t*>(shmem_malloc(shmem_n_pes() * sizeof(uint64_t)));
    if (words != nullptr) return Bootstrap(words);
    return MakeError(arrow::StatusCode::OutOfMemory, "TransportError",
                     "[init] the OpenSHMEM library's heap is full: raise SHMEM_SYMMETRIC_SIZE "
                     "(Open MPI 4: SHMEM_SYMMETRIC_HEAP_SIZE)");
  }
  void End() { shmem_free(words_); }

  // Collective.
  std::vector<uint64_t> Gather(uint64_t mine) {
    for (int pe = 0; pe < shmem_n_pes(); ++pe) {
      shmem_putmem(words_ + shmem_my_pe(), &mine, sizeof(mine), pe);
    }
    shmem_barrier_all();
    std::vector<uint64_t> all(words_, words_ + shmem_n_pes());
    shmem_barrier_all();
    return all;
  }
  uint64_t Least(uint64_t mine) {
    const std::vector<uint64_t> all = Gather(mine);
    return *std::min_element(all.begin(), all.end());
  }

 private:
  explicit Bootstrap(uint64_t* words) : words_(words) {}
  uint64_t* words_;
};

struct Segment {
  std::byte* base;
  uint64_t bytes;
};

// A symmetric object of `bytes` on all PEs, or null on all. Collective.
std::byte* AllocateOnAll(Bootstrap* bootstrap, uint64_t bytes) {
  void* object = shmem_align(kPageBytes, bytes);
  // What is missing on one PE cannot be freed on the others: they keep it, unused.
  return bootstrap->Least(object != nullptr) ? static_cast<std::byte*>(object) : nullptr;
}

// Whether the library's heap has `bytes` free in one piece. Collective.
bool HasRoom(Bootstrap* bootstrap, uint64_t bytes) {
  std::byte* probe = AllocateOnAll(bootstrap, bytes);
  if (probe != nullptr) shmem_free(probe);
  return probe != nullptr;
}

arrow::Result<Segment> TakeSegment(Bootstrap* bootstrap, uint64_t wish,
                                   const OpenShmemOptions& library) {
  const std::vector<uint64_t> wishes = bootstrap->Gather(wish);
  const auto [least, most] = std::minmax_element(wishes.begin(), wishes.end());
  const bool may_shrink = bootstrap->Least(library.may_shrink);
  if (*least != *most && !may_shrink) {
    return MakeError(arrow::StatusCode::Invalid, "InvalidArgument",
                     "[init] all PEs need the same heap size, got segments of ", *least, " to ",
                     *most, " bytes: give every PE the same heap");
  }
  uint64_t bytes = *least;
  constexpr uint64_t kLeast = 8 * Transport::kReservedBytes;
  if (may_shrink) {
    while (bytes > kLeast && !HasRoom(bootstrap, bytes + library.slack_bytes)) {
      bytes = bytes / 8 * 7 / kPageBytes * kPageBytes;
    }
  }
  std::byte* base = AllocateOnAll(bootstrap, bytes);
  if (base != nullptr) return Segment{base, bytes};
  return MakeError(arrow::StatusCode::OutOfMemory, "TransportError",
                   "[init] the OpenSHMEM library's own heap has no room for a segment, got ", bytes,
                   " bytes, PE ", shmem_my_pe(), "/", shmem_n_pes(),
                   ": raise SHMEM_SYMMETRIC_SIZE (Open MPI 4: SHMEM_SYMMETRIC_HEAP_SIZE), or call "
                   "flightshmem.init() before shmem4py starts the library");
}

// UCX makes the System V segment behind the heap readable and writable for the whole group.
// Nothing to narrow where the heap lies elsewhere.
void NarrowPermissions(const std::byte* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin, end;
    char dash;
    std::string permissions, offset, device;
    int id;
    std::istringstream fields(line);
    fields >> std::hex >> begin >> dash >> end >> permissions >> offset >> device >> std::dec >> id;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (at < begin || at >= end || line.find("/SYSV") == std::string::npos) continue;
    struct shmid_ds status;
    if (shmctl(id, IPC_STAT, &status) != 0) return;
    status.shm_perm.mode = 0600;
    shmctl(id, IPC_SET, &status);
    return;
  }
}

arrow::Result<std::shared_ptr<Transport>> Open(const TransportOptions& options,
                                               const OpenShmemOptions& library) {
  if (TheTransport()) {
    return MakeError(arrow::StatusCode::IOError, "TransportError",
                     "[init] OpenSHMEM can be started only once in a process");
  }
  if (!library.is_started) ARROW_RETURN_NOT_OK(StartLibrary());
  ARROW_ASSIGN_OR_RAISE(Bootstrap bootstrap, Bootstrap::Make());
  ARROW_ASSIGN_OR_RAISE(const Segment segment,
                        TakeSegment(&bootstrap, options.segment_bytes, library));
  bootstrap.End();
  NarrowPermissions(segment.base);
  // The library may have used these bytes before.
  std::memset(segment.base, 0, Transport::kReservedBytes);
  shmem_barrier_all();
  TheTransport() = std::make_shared<OpenShmem>(segment.base, segment.bytes, options);
  ARROW_RETURN_NOT_OK(TheTransport()->Barrier());
  return TheTransport();
}

}  // namespace
}  // namespace flightshmem

extern "C" __attribute__((visibility("default"))) void flightshmem_open_openshmem(
    const flightshmem::TransportOptions& options, const flightshmem::OpenShmemOptions& library,
    arrow::Result<std::shared_ptr<flightshmem::Transport>>* out) {
  *out = flightshmem::Open(options, library);
}
