// SPDX-License-Identifier: Apache-2.0
//
// Ends the job when a call into a library that cannot be interrupted takes too long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace flightshmem {

class Watchdog {
 public:
  // `on_expiry` is called once, by the watchdog's own thread.
  explicit Watchdog(std::function<void()> on_expiry)
      : on_expiry_(std::move(on_expiry)), thread_([this](std::stop_token stop) { Run(stop); }) {}

  // One call under watch at a time. Setting costs no system call: the thread looks once a second.
  void Set(std::chrono::duration<double> allowed) {
    const std::lock_guard lock(mutex_);
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(allowed);
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    deadline_.reset();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Run(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
      if (!stop.stop_requested() && deadline_ && Clock::now() > *deadline_) {
        lock.unlock();
        return on_expiry_();
      }
    }
  }

  std::function<void()> on_expiry_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<Clock::time_point> deadline_;
  std::jthread thread_;  // last: starts when the rest is there
};

}  // namespace flightshmem
