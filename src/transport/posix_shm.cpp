// SPDX-License-Identifier: Apache-2.0
//
// The embedded provider. One memory file holds the segments of all PEs, one after the other; every
// PE maps the whole file once, so all one-sided calls are plain memory accesses.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/error_detail.h"
#include "transport/memory_access.h"
#include "transport/node_barrier.h"
#include "transport/process_mark.h"
#include "transport/providers.h"

namespace flightshmem {
namespace {

template <typename... Args>
arrow::Status StartError(Args&&... message) {
  return MakeError(arrow::StatusCode::IOError, "TransportError", "[init] ",
                   std::forward<Args>(message)...);
}

// The mapping of a memory file; unmapped by the destructor.
class MemoryFile {
 public:
  static arrow::Result<std::shared_ptr<MemoryFile>> Map(int fd, uint64_t size) {
    struct stat status;
    if (fstat(fd, &status) != 0) {
      return StartError("cannot use descriptor ", fd, " of the launcher: ", std::strerror(errno),
                        ": start PEs with `flightshmem run`");
    }
    // A shorter file would end in SIGBUS at the first touch of the missing part.
    if (static_cast<uint64_t>(status.st_size) != size) {
      return StartError("the memory file has ", status.st_size, " bytes, expected ", size,
                        ": all PEs need the same heap size; set it with --heap");
    }
    void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
      return StartError("cannot map ", size, " bytes: ", std::strerror(errno),
                        ": use a smaller --heap or fewer PEs");
    }
    // Where the system grants huge pages, peers map our memory 30 times faster. Only a wish.
    madvise(base, size, MADV_HUGEPAGE);
    return std::shared_ptr<MemoryFile>(new MemoryFile(static_cast<std::byte*>(base), size));
  }
  ~MemoryFile() { munmap(base_, size_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::byte* base() const { return base_; }

 private:
  MemoryFile(std::byte* base, uint64_t size) : base_(base), size_(size) {}
  std::byte* base_;
  uint64_t size_;
};

class PosixShm final : public Transport {
 public:
  PosixShm(std::shared_ptr<MemoryFile> file, const TransportOptions& options, int my_pe, int n_pes)
      : file_(std::move(file)),
        segment_bytes_(options.segment_bytes),
        my_pe_(my_pe),
        n_pes_(n_pes),
        barrier_(Areas(), my_pe, options.collective_timeout_s, options.check_interrupt) {
    barrier_.Announce(PeState::kRunning);
  }
  ~PosixShm() override {
    if (made_in_.is_here()) barrier_.Announce(PeState::kFinished);
  }

  std::string_view name() const override { return "posix_shm"; }
  int my_pe() const override { return my_pe_; }
  int n_pes() const override { return n_pes_; }
  uint64_t segment_size() const override { return segment_bytes_; }
  std::byte* peer(int pe) const override {
    return pe < 0 || pe >= n_pes_ ? nullptr : file_->base() + pe * segment_bytes_;
  }

  arrow::Status Put(GlobalPtr to, const void* from, uint64_t size) override {
    ARROW_RETURN_NOT_OK(CheckRange("put", to, size));
    if (size > 0) std::memcpy(At(to), from, size);
    return arrow::Status::OK();
  }
  arrow::Status Get(void* out, GlobalPtr from, uint64_t size) override {
    ARROW_RETURN_NOT_OK(CheckRange("get", from, size));
    if (size > 0) std::memcpy(out, At(from), size);
    return arrow::Status::OK();
  }
  arrow::Status PutNbi(GlobalPtr to, const void* from, uint64_t size) override {
    ARROW_RETURN_NOT_OK(CheckRange("put_nbi", to, size));
    if (size > 0) std::memcpy(At(to), from, size);
    return arrow::Status::OK();
  }
  arrow::Status Quiet() override { return Fence(); }
  arrow::Status Fence() override {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return arrow::Status::OK();
  }

  [[noreturn]] void Abort(int code, std::string_view message) override {
    PrintLastWords(my_pe_, message);
    barrier_.Announce(PeState::kAborted, message);
    // The launcher sees this process end and stops the others.
    _exit(code);
  }

  arrow::Status Finalize() override {
    // Memory outlives the process, so there is nobody to wait for.
    barrier_.Announce(PeState::kFinished);
    return arrow::Status::OK();
  }

 private:
  arrow::Status AwaitAll() override { return barrier_.Wait(); }

  std::byte* At(GlobalPtr at) const { return peer(at.pe) + at.offset; }

  std::vector<ReservedArea*> Areas() const {
    std::vector<ReservedArea*> areas;
    for (int pe = 0; pe < n_pes_; ++pe) areas.push_back(reinterpret_cast<ReservedArea*>(peer(pe)));
    return areas;
  }

  arrow::Result<uint64_t> FetchAddBits(GlobalPtr at, uint64_t value, int width) override {
    ARROW_RETURN_NOT_OK(CheckAtomic("fetch_add", at, width));
    return FetchAddAt(At(at), value, width);
  }
  arrow::Result<uint64_t> CompareSwapBits(GlobalPtr at, uint64_t expected, uint64_t desired,
                                          int width) override {
    ARROW_RETURN_NOT_OK(CheckAtomic("compare_swap", at, width));
    return CompareSwapAt(At(at), expected, desired, width);
  }

  ProcessMark made_in_;
  std::shared_ptr<MemoryFile> file_;
  uint64_t segment_bytes_;
  int my_pe_;
  int n_pes_;
  NodeBarrier barrier_;
};

arrow::Status CheckShape(uint64_t segment_bytes, int n_pes) {
  if (n_pes < 1) return StartError("needs at least one PE, got ", n_pes);
  if (segment_bytes <= Transport::kReservedBytes || segment_bytes % kPageBytes != 0) {
    return StartError("a segment must be larger than ", Transport::kReservedBytes,
                      " bytes and a multiple of ", kPageBytes, ", got ", segment_bytes);
  }
  if (segment_bytes > (uint64_t{1} << 62) / n_pes) {
    return StartError("segments are too large, got ", n_pes, " x ", segment_bytes, " bytes");
  }
  return arrow::Status::OK();
}

// CreateSegmentFile for this process alone: mapped, and closed again.
arrow::Result<std::shared_ptr<MemoryFile>> MapNewFile(uint64_t segment_bytes, int n_pes) {
  ARROW_ASSIGN_OR_RAISE(const int fd, CreateSegmentFile(segment_bytes, n_pes));
  auto file = MemoryFile::Map(fd, segment_bytes * n_pes);
  close(fd);
  return file;
}

}  // namespace

arrow::Result<int> CreateSegmentFile(uint64_t segment_bytes, int n_pes) {
  ARROW_RETURN_NOT_OK(CheckShape(segment_bytes, n_pes));
  const int fd = memfd_create("flightshmem", 0);
  if (fd < 0) return StartError("cannot make a memory file: ", std::strerror(errno));
  if (ftruncate(fd, static_cast<off_t>(segment_bytes * n_pes)) != 0) {
    const arrow::Status failed = StartError("cannot make a memory file of ", segment_bytes * n_pes,
                                            " bytes: ", std::strerror(errno));
    close(fd);
    return failed;
  }
  return fd;
}

arrow::Result<std::shared_ptr<Transport>> OpenPosixShm(const TransportOptions& options, int my_pe,
                                                       int n_pes, int segment_fd) {
  ARROW_RETURN_NOT_OK(CheckShape(options.segment_bytes, n_pes));
  if (my_pe < 0 || my_pe >= n_pes) {
    return StartError("no such PE, got ", my_pe, " of ", n_pes,
                      ": start PEs with `flightshmem run`");
  }
  ARROW_ASSIGN_OR_RAISE(auto file, MemoryFile::Map(segment_fd, options.segment_bytes * n_pes));
  auto transport = std::make_shared<PosixShm>(std::move(file), options, my_pe, n_pes);
  ARROW_RETURN_NOT_OK(transport->Barrier());
  return transport;
}

arrow::Result<std::shared_ptr<Transport>> OpenPosixShmAlone(const TransportOptions& options) {
  ARROW_ASSIGN_OR_RAISE(auto file, MapNewFile(options.segment_bytes, 1));
  return std::make_shared<PosixShm>(std::move(file), options, 0, 1);
}

arrow::Result<std::vector<std::shared_ptr<Transport>>> OpenPosixShmThreads(
    const TransportOptions& options, int n_pes) {
  ARROW_ASSIGN_OR_RAISE(auto file, MapNewFile(options.segment_bytes, n_pes));
  std::vector<std::shared_ptr<Transport>> transports;
  for (int pe = 0; pe < n_pes; ++pe) {
    transports.push_back(std::make_shared<PosixShm>(file, options, pe, n_pes));
  }
  return transports;
}

}  // namespace flightshmem
