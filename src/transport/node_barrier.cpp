// SPDX-License-Identifier: Apache-2.0
#include "transport/node_barrier.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>

#include "transport/error_detail.h"

namespace flightshmem {
namespace {

using Clock = std::chrono::steady_clock;

// Set in `turn` once a PE has given up. The count uses the other bits.
constexpr uint32_t kBroken = 1u << 31;

// How long a sleeper goes without looking after the others. Wakes normally come much earlier.
constexpr long kSliceNs = 100'000'000;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns on a wake, when the word is not `expected`, after a slice, or on a signal.
void FutexWait(std::atomic<uint32_t>* word, uint32_t expected) {
  const timespec slice{0, kSliceNs};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &slice, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool HasEnded(PeState state) { return state >= PeState::kFinished; }

// Process numbers of another namespace (a container's) mean nothing here. 0: unknown.
uint64_t PidNamespace() {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// A process that has ended counts as gone before its parent has taken notice, too.
bool IsGone(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd ended{fd, POLLIN, 0};
  const bool is_gone = poll(&ended, 1, 0) == 1;
  close(fd);
  return is_gone;
}

std::string InPhase(const ReservedArea& area) {
  const std::string phase = area.phase.Get();
  return phase.empty() ? "" : ", last seen in phase \"" + phase + "\"";
}

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

NodeBarrier::NodeBarrier(std::vector<ReservedArea*> areas, int my_pe, double timeout_s,
                         std::function<arrow::Status()> check_interrupt)
    : areas_(std::move(areas)),
      my_pe_(my_pe),
      timeout_s_(timeout_s),
      check_interrupt_(std::move(check_interrupt)),
      // Spinning only pays while every PE has a core of its own.
      spins_(std::thread::hardware_concurrency() >= areas_.size() ? 1000 : 0),
      pid_namespace_(PidNamespace()) {}

arrow::Status NodeBarrier::Wait() {
  if (verdict_.ok()) verdict_ = Pass();
  return verdict_;
}

arrow::Status NodeBarrier::Pass() {
  std::atomic<uint32_t>& turn_word = areas_[0]->turn;
  std::atomic<uint32_t>& arrived = areas_[0]->arrived;
  uint32_t turn = turn_word.load(std::memory_order_acquire);
  // Also when it is broken already: who is behind this PE can be told then.
  areas_[my_pe_]->barriers.fetch_add(1, std::memory_order_release);
  if (turn & kBroken) return Broken();
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < areas_.size()) return SleepUntil(turn);
  // The last one: reset before letting the others go, since they may come back at once.
  arrived.store(0, std::memory_order_relaxed);
  const uint32_t next = (turn + 1) & ~kBroken;
  if (!turn_word.compare_exchange_strong(turn, next, std::memory_order_acq_rel)) return Broken();
  FutexWakeAll(&turn_word);
  return arrow::Status::OK();
}

arrow::Status NodeBarrier::SleepUntil(uint32_t turn) {
  std::atomic<uint32_t>& turn_word = areas_[0]->turn;
  const auto moved = [&] { return turn_word.load(std::memory_order_acquire) != turn; };
  for (int i = 0; i < spins_ && !moved(); ++i) Pause();
  const Clock::time_point start = Clock::now();
  while (!moved()) {
    const arrow::Status verdict = Examine(SecondsSince(start));
    uint32_t expected = turn;
    // Losing this race means that the barrier was completed, or broken by another PE, meanwhile.
    if (!verdict.ok() && turn_word.compare_exchange_strong(expected, turn | kBroken)) {
      FutexWakeAll(&turn_word);
      return verdict;
    }
    FutexWait(&turn_word, turn);
  }
  // Exactly this: a later barrier may be broken by the time this PE looks at one that went well.
  return turn_word.load(std::memory_order_acquire) == (turn | kBroken) ? Broken()
                                                                       : arrow::Status::OK();
}

arrow::Status NodeBarrier::Examine(double waited_s) const {
  if (check_interrupt_) ARROW_RETURN_NOT_OK(check_interrupt_());
  const uint64_t mine = areas_[my_pe_]->barriers.load(std::memory_order_relaxed);
  for (size_t pe = 0; pe < areas_.size(); ++pe) {
    const bool is_absent = areas_[pe]->barriers.load(std::memory_order_acquire) < mine;
    if (is_absent && HasEnded(areas_[pe]->state.load(std::memory_order_acquire))) return Broken();
    // Wherever it stopped: it may have died between two words of this very barrier.
    if (IsKilled(pe)) return Broken();
  }
  if (waited_s < timeout_s_) return arrow::Status::OK();
  std::ostringstream waited;  // 0.5 and 600, where arrow::Status would write 600.000000
  waited << timeout_s_;
  return MakeError(arrow::StatusCode::IOError, "PeerLost", "[barrier] waited ", waited.str(),
                   " s: ", Absent(), ", PE ", my_pe_, "/", areas_.size(),
                   ": raise FLIGHTSHMEM_TIMEOUT if the work between collectives takes longer");
}

// Every PE words it for itself, from what it sees of the others.
arrow::Status NodeBarrier::Broken() const {
  const std::string absent = Absent();
  return MakeError(arrow::StatusCode::IOError, "PeerLost", "[barrier] ",
                   absent.empty() ? "another PE gave up waiting for this one" : absent, ", PE ",
                   my_pe_, "/", areas_.size(),
                   ": all PEs must make the same collective calls; see the first error of the job");
}

std::string NodeBarrier::Absent() const {
  const uint64_t mine = areas_[my_pe_]->barriers.load(std::memory_order_relaxed);
  std::ostringstream text;
  for (size_t pe = 0; pe < areas_.size(); ++pe) {
    const bool is_killed = IsKilled(pe);
    if (!is_killed && areas_[pe]->barriers.load(std::memory_order_acquire) >= mine) continue;
    text << (text.tellp() > 0 ? "; " : "") << "PE " << pe;
    if (is_killed) {
      text << " was killed" << InPhase(*areas_[pe]);
      continue;
    }
    switch (areas_[pe]->state.load(std::memory_order_acquire)) {
      case PeState::kAborted:
        text << " aborted (" << areas_[pe]->last_words << ")";
        break;
      case PeState::kFinished:
        text << " has ended" << InPhase(*areas_[pe]);
        break;
      case PeState::kAbsent:
        text << " has not started";
        break;
      case PeState::kKilled:  // meanwhile
        text << " was killed" << InPhase(*areas_[pe]);
        break;
      case PeState::kRunning:
        text << " is not here yet" << InPhase(*areas_[pe]);
    }
  }
  return text.str();
}

bool NodeBarrier::IsKilled(size_t pe) const {
  const ReservedArea& area = *areas_[pe];
  if (area.state.load(std::memory_order_acquire) == PeState::kKilled) return true;
  // In this order: a PE announces its end before it ends.
  const int32_t pid = area.pid.load(std::memory_order_acquire);
  if (pid == 0 || pid == getpid() || pid_namespace_ == 0 ||
      area.pid_namespace.load(std::memory_order_relaxed) != pid_namespace_) {
    return false;
  }
  return IsGone(pid) && !HasEnded(area.state.load(std::memory_order_acquire));
}

void NodeBarrier::Announce(PeState state, std::string_view last_words) {
  ReservedArea* area = areas_[my_pe_];
  if (!last_words.empty()) {
    const size_t length = std::min(last_words.size(), sizeof(area->last_words) - 1);
    std::memcpy(area->last_words, last_words.data(), length);
  }
  if (state == PeState::kRunning) {
    area->pid_namespace.store(pid_namespace_, std::memory_order_relaxed);
    area->pid.store(getpid(), std::memory_order_release);
  }
  area->state.store(state, std::memory_order_release);
  FutexWakeAll(&areas_[0]->turn);
}

void NodeBarrier::AwaitEnd() {
  for (size_t pe = 0; pe < areas_.size(); ++pe) {
    while (static_cast<int>(pe) != my_pe_ && !HasEnded(areas_[pe]->state.load()) && !IsKilled(pe)) {
      FutexWait(&areas_[0]->turn, areas_[0]->turn.load());
    }
  }
}

}  // namespace flightshmem
