// SPDX-License-Identifier: Apache-2.0
//
// The directory of published tables: readable one-sided by every PE, every thread.
//
// A reader finds the current version of a name and pins it; while it is pinned its shards stay,
// whatever is published meanwhile. A writer prepares the new version beside the old one, makes it
// current in one step and retires the old one. Readers see the old or the new version, whole, and
// never wait. How the words in the segment do that: directory.h.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "catalog/descriptor.h"
#include "catalog/directory.h"
#include "shard/shard.h"
#include "transport/process_mark.h"

namespace flightshmem {

enum class PublishMode : uint8_t { kCreate, kReplace, kAppend };

class Catalog;

// A pin on a version: what the buffers over its memory hold on to.
class VersionPin {
 public:
  VersionPin(std::shared_ptr<Catalog> catalog, EntryId id);
  ~VersionPin();
  VersionPin(const VersionPin&) = delete;
  VersionPin& operator=(const VersionPin&) = delete;

 private:
  std::shared_ptr<Catalog> catalog_;
  EntryId id_;
};

// A pinned version: while it, or a batch read from it, lives its shards stay. Immutable, any
// thread.
class TableVersion {
 public:
  const std::string& name() const { return descriptor_.name; }
  uint64_t version() const { return version_; }  // 1 for a new name, then counting up
  EntryId id() const { return id_; }
  const std::shared_ptr<TableHeader>& header() const { return descriptor_.header; }
  const std::vector<ShardRef>& shards() const { return descriptor_.shards; }
  // Opaque here; JSON above.
  const std::string& partitioning() const { return descriptor_.partitioning; }
  int64_t rows() const;
  uint64_t size_bytes() const;

 private:
  friend class Catalog;
  EntryId id_;
  uint64_t version_ = 0;
  std::shared_ptr<VersionPin> pin_;
  Descriptor descriptor_;
};

class Catalog : public std::enable_shared_from_this<Catalog> {
 public:
  // Bytes of a directory; the heap begins behind it.
  static constexpr uint64_t kDirectoryBytes = Directory::kBytes;
  static constexpr uint64_t kEndOffset = Directory::kOffset + kDirectoryBytes;
  // An append to a version of this many shards first makes one shard of them.
  static constexpr size_t kMaxShards = 64;

  // Zeroes this PE's directory. Collective (ends with a barrier). Main thread.
  static arrow::Result<std::shared_ptr<Catalog>> Make(std::shared_ptr<SymmetricHeap> heap);

  // Makes a version current. `shards` may lie on any PEs. kCreate fails with AlreadyExists when the
  // name is taken; kAppend keeps the current version's shards (same schema and dictionaries, else
  // TypeError) and adds these; kReplace and kAppend of a new name create it. Atomic: readers see
  // all of it or nothing. One-sided, any thread (on-node).
  arrow::Result<EntryId> Publish(const std::string& name, PublishMode mode,
                                 const TableHeader& header, const std::vector<ShardRef>& shards,
                                 const std::string& partitioning);
  // This PE keeps `block` until version `id` is gone. Call it for each own shard of a version.
  void Own(EntryId id, std::shared_ptr<arrow::Buffer> block);

  // The current version, pinned; KeyError lists the names there are. One-sided, any thread.
  arrow::Result<std::shared_ptr<const TableVersion>> Lookup(const std::string& name);
  // A shard's rows. On-node: no copy, buffers hold the version. Off-node: one copy by Get, main
  // thread only (any other thread: NotImplemented naming the owner).
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Read(
      const std::shared_ptr<const TableVersion>& version, size_t shard);
  // KeyError when absent. One-sided, any thread.
  arrow::Status Drop(const std::string& name);
  // All names, sorted. One-sided, any thread.
  arrow::Result<std::vector<std::string>> Names();

  // Frees this PE's blocks of versions that are gone. Called by Publish, Drop and a full heap.
  void Reclaim();

  const std::shared_ptr<SymmetricHeap>& heap() const { return heap_; }

 private:
  friend class VersionPin;
  using VersionPtr = std::shared_ptr<const TableVersion>;
  struct Owned {
    EntryId id;
    std::shared_ptr<arrow::Buffer> block;
  };

  explicit Catalog(std::shared_ptr<SymmetricHeap> heap);
  arrow::Status CheckPublish(const std::string& name, const std::vector<ShardRef>& shards) const;
  arrow::Result<VersionPtr> Find(const std::string& name);  // null when there is none
  arrow::Result<VersionPtr> Open(const Directory::Pinned& pinned);
  Directory::IsNamed IsNamed(const std::string& name) const;
  arrow::Status NotFound(const std::string& operation, const std::string& name);
  // A buffer over a peer's memory that holds `pin`, or a copy when there is no pointer to it.
  arrow::Result<std::shared_ptr<arrow::Buffer>> View(GlobalPtr where, uint64_t size,
                                                     std::shared_ptr<VersionPin> pin) const;

  struct Draft;
  arrow::Status TakeOver(const VersionPtr& base, Draft* draft);
  arrow::Result<Shard> Consolidate(const VersionPtr& version);
  // The new entry to go in the place of the current one (null: none); Directory::Change.
  arrow::Result<std::optional<EntryFields>> Next(const EntryId* current_id,
                                                 const EntryFields* current, Draft* draft) const;

  void Unpin(EntryId id);
  void UnpinDeferred();
  std::string LargestTables();

  ProcessMark made_in_;  // a fork holds copies of our pins, not pins
  std::shared_ptr<SymmetricHeap> heap_;
  Directory directory_;
  std::mutex mutex_;  // guards what follows
  std::vector<Owned> owned_;
  std::vector<EntryId> deferred_unpins_;  // of versions only the main thread can reach
};

}  // namespace flightshmem
