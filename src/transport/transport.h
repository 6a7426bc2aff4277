// SPDX-License-Identifier: Apache-2.0
//
// The seam below everything: symmetric memory, one-sided operations, barriers.
//
// Words: a *segment* is the region one PE contributes; all segments have the same size. A GlobalPtr
// names a byte of some PE's segment; raw pointers never cross PEs, since PEs may map segments at
// different addresses.
//
// Rules common to all calls
//  * A transport is constructed once and passed down; there is no global one.
//  * "Collective" calls must be made by every PE, in the same order, each by the thread that built
//    the transport. One-sided calls involve no other PE.
//  * Threads: only the owning thread may call anything but my_pe, n_pes, segment_size, peer and
//    Abort. Other threads (Flight handlers) reach memory through peer() alone.
//  * Errors: every failure is a Status whose text is "[call] what, got <value>, PE k/n". Wrong
//    arguments of a collective fail at once, on the PE that gave them, while the others wait: the
//    caller must converge errors first (see runtime/session.py) or Abort.
//  * Complete: a blocking call has had its effect on return; a *Nbi call has it after Quiet.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flightshmem {

struct GlobalPtr {
  int32_t pe = -1;
  uint64_t offset = 0;
  GlobalPtr operator+(uint64_t bytes) const { return {pe, offset + bytes}; }
  bool operator==(const GlobalPtr&) const = default;
};

enum class NumericType : uint8_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat,
  kDouble
};
enum class ReduceOp : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor };

class Transport : public std::enable_shared_from_this<Transport> {
 public:
  // Every segment begins with bytes the transport keeps for itself (barrier words, collective
  // scratch). Layers above own [kReservedBytes, segment_size()).
  static constexpr uint64_t kReservedBytes = 1 << 20;

  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual std::string_view name() const = 0;
  virtual int my_pe() const = 0;
  virtual int n_pes() const = 0;
  virtual uint64_t segment_size() const = 0;

  // The base of `pe`'s segment in this process, or null when it can only be reached by Put and Get
  // (another machine). Stable while the transport lives. peer(my_pe()) is never null. Any thread.
  virtual std::byte* peer(int pe) const = 0;

  // One-sided, blocking: on return the bytes are in the target's memory / in `out`.
  // REQUIRES: [offset, offset + size) lies in the segment, 0 <= pe < n_pes (checked, IndexError).
  virtual arrow::Status Put(GlobalPtr to, const void* from, uint64_t size) = 0;
  virtual arrow::Status Get(void* out, GlobalPtr from, uint64_t size) = 0;
  // One-sided, not blocking: `from` must stay unchanged until Quiet.
  virtual arrow::Status PutNbi(GlobalPtr to, const void* from, uint64_t size) = 0;
  // One-sided: on return all earlier puts of this PE are complete / ordered before later ones.
  virtual arrow::Status Quiet() = 0;
  virtual arrow::Status Fence() = 0;

  // One-sided atomics on 4 or 8 byte integers (T: int32_t, int64_t, uint32_t, uint64_t); return the
  // value before. REQUIRES: naturally aligned.
  template <typename T>
  arrow::Result<T> FetchAdd(GlobalPtr at, T value);
  template <typename T>
  arrow::Result<T> CompareSwap(GlobalPtr at, T expected, T desired);

  // Collective: nobody leaves before everybody came, and all puts made before are visible after.
  // When a PE has ended, the time is over, or a signal interrupts, it fails on every PE (PeerLost,
  // naming the absent PEs; Cancelled where the signal was), and so does every collective after it.
  // With PEs on other nodes the library cannot be interrupted: there the timeout aborts the job.
  arrow::Status Barrier();

  // Collectives over small values, built on Get and Barrier (collectives.cpp); any size works,
  // large ones go in pieces. On return the results are complete on this PE. PEs that find each
  // other in different calls, or with different sizes, fail (Invalid) and stay in step. Broadcast:
  // `bytes` of `root` replace everybody's; equal sizes everywhere.
  arrow::Status Broadcast(std::span<std::byte> bytes, int root);
  // AllGather: equal-sized `mine` of every PE, in PE order; out.size() == n_pes * mine.size().
  arrow::Status AllGather(std::span<const std::byte> mine, std::span<std::byte> out);
  // AllGatherV: any sizes; one vector per PE.
  arrow::Result<std::vector<std::vector<std::byte>>> AllGatherV(std::span<const std::byte> mine);
  // AllToAll: piece d of `mine` goes to PE d; sizes equal; piece s of `out` came from PE s.
  arrow::Status AllToAll(std::span<const std::byte> mine, std::span<std::byte> out);
  // Reduce: element-wise over PEs, in PE order (so floats are deterministic), result everywhere.
  // And/Or/Xor are for integer types only (TypeError). Integer sums wrap.
  arrow::Status Reduce(std::span<std::byte> values, NumericType type, ReduceOp op);

  // Tells the others what this PE is at ("scatter: write"), in 31 characters at most: should it be
  // lost, their errors say so. Stays until set again. Costs nanoseconds.
  void SetPhase(std::string_view phase);
  // What a PE that shares memory with this one is at; empty for others.
  std::string PhaseOf(int pe) const;

  // Ends the whole job: prints `message` to stderr with this PE's number, then every PE dies with
  // `code`. Any thread. Does not return.
  [[noreturn]] virtual void Abort(int code, std::string_view message) = 0;

  // Every PE's last call; waits for nobody. A collective that others are in, or come to, fails
  // there instead of hanging. Memory stays mapped until the object dies. Idempotent.
  virtual arrow::Status Finalize() = 0;

 protected:
  Transport() = default;

  // What Barrier waits with.
  virtual arrow::Status AwaitAll() = 0;
  // Used by the templates above. REQUIRES: width is 4 or 8.
  virtual arrow::Result<uint64_t> FetchAddBits(GlobalPtr at, uint64_t value, int width) = 0;
  virtual arrow::Result<uint64_t> CompareSwapBits(GlobalPtr at, uint64_t expected, uint64_t desired,
                                                  int width) = 0;
  arrow::Status CheckRange(std::string_view call, GlobalPtr at, uint64_t size) const;
  // The same for an atomic of `width` bytes, alignment too.
  arrow::Status CheckAtomic(std::string_view call, GlobalPtr at, int width) const;

 private:
  class Pieces;  // collectives.cpp: pieces on their way through the scratch
  class Reduction;

  uint64_t barriers_ = 0;  // calls so far: the same on all PEs that are in the same one
};

template <typename T>
arrow::Result<T> Transport::FetchAdd(GlobalPtr at, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  ARROW_ASSIGN_OR_RAISE(uint64_t old, FetchAddBits(at, static_cast<uint64_t>(value), sizeof(T)));
  return static_cast<T>(old);
}

template <typename T>
arrow::Result<T> Transport::CompareSwap(GlobalPtr at, T expected, T desired) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  ARROW_ASSIGN_OR_RAISE(uint64_t old, CompareSwapBits(at, static_cast<uint64_t>(expected),
                                                      static_cast<uint64_t>(desired), sizeof(T)));
  return static_cast<T>(old);
}

}  // namespace flightshmem
