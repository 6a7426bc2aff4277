// SPDX-License-Identifier: Apache-2.0
//
// The directory of published tables: readable one-sided by every PE, every thread.
//
// Where: the first kDirectoryBytes above the transport's own in *every* PE's segment hold a
// directory; a name lives in the one of its home PE (hash of the name modulo n_pes).
//
//   directory: [lock][slots: name -> current entry][entries: one per table version]
//   entry word: generation:32 | state:8 | pins:24     state: FREE BUILDING PUBLISHED RETIRED
//   descriptor (a block of the publisher): header bytes, shard list, partitioning
//
// A reader finds the current entry, adds a pin, and looks again: published and of that generation
// means the version is his until he unpins; otherwise he undoes the pin and starts over. A writer
// builds a new entry, makes it current, retires the old one. Whoever finds a retired entry without
// pins bumps its generation; every owner of blocks frees them once he sees the generation moved.
// Readers therefore see the old or the new version, whole, and never wait.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shard/shard.h"

namespace flightshmem {

enum class PublishMode : uint8_t { kCreate, kReplace, kAppend };

struct ShardRef {
  GlobalPtr where;
  uint64_t size_bytes = 0;
  int64_t rows = 0;
};

// Names one version of one table for ever (generations do not repeat within a job).
struct EntryId {
  int32_t home_pe = -1;
  uint32_t index = 0;
  uint32_t generation = 0;
  bool operator==(const EntryId&) const = default;
};

class Catalog;

// A pinned version: while it lives its shards stay. Immutable, any thread.
class TableVersion {
 public:
  ~TableVersion();

  const std::string& name() const { return name_; }
  uint64_t version() const { return version_; }  // 1 for a new name, then counting up
  EntryId id() const { return id_; }
  const std::shared_ptr<TableHeader>& header() const { return header_; }
  const std::vector<ShardRef>& shards() const { return shards_; }
  const std::string& partitioning() const { return partitioning_; }  // opaque here; JSON above
  int64_t rows() const;
  uint64_t size_bytes() const;

 private:
  friend class Catalog;
  std::shared_ptr<Catalog> catalog_;
  std::string name_, partitioning_;
  uint64_t version_ = 0;
  EntryId id_;
  std::shared_ptr<TableHeader> header_;
  std::vector<ShardRef> shards_;
};

class Catalog : public std::enable_shared_from_this<Catalog> {
 public:
  // Bytes of a directory; the heap begins behind it.
  static constexpr uint64_t kDirectoryBytes = 1 << 20;
  static constexpr size_t kMaxNameBytes = 200;

  // Zeroes this PE's directory. Collective (ends with a barrier). Main thread.
  static arrow::Result<std::shared_ptr<Catalog>> Make(std::shared_ptr<SymmetricHeap> heap);

  // Makes a version current. `shards` may lie on any PEs. kCreate fails with AlreadyExists when the
  // name is taken; kAppend keeps the current version's shards (same schema, else TypeError) and adds
  // these. Atomic: readers see all of it or nothing. One-sided, any thread (on-node).
  arrow::Result<EntryId> Publish(const std::string& name, PublishMode mode, const TableHeader& header,
                                 const std::vector<ShardRef>& shards, const std::string& partitioning);
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
  friend class TableVersion;
  struct Impl;
  explicit Catalog(std::shared_ptr<SymmetricHeap> heap);
  void Unpin(EntryId id);

  std::shared_ptr<SymmetricHeap> heap_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace flightshmem
