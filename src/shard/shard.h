// SPDX-License-Identifier: Apache-2.0
//
// A shard: one encapsulated Arrow IPC record-batch message in one heap block.
//
//   block:  [0xFFFFFFFF][metadata length][flatbuffer, zero padded][body]
//            ^ offset 0                                           ^ a multiple of 64
//   body:    the batch's buffers in IPC order, each at a multiple of 64, zeros between them.
//
// The same bytes serve a peer, a same-host client, Flight and a file. Schema and dictionaries are
// not part of a shard: a table has one TableHeader for all its shards.
#pragma once

#include <arrow/record_batch.h>

#include <memory>

#include "heap/symmetric_heap.h"

namespace flightshmem {

// Schema and dictionaries as an Arrow IPC stream that holds one zero-row batch. Immutable, any
// thread.
class TableHeader {
 public:
  // `sample`: any batch of the table; its dictionaries are the table's.
  static arrow::Result<std::shared_ptr<TableHeader>> FromBatch(const arrow::RecordBatch& sample);
  // No copy: dictionaries keep `bytes` alive.
  static arrow::Result<std::shared_ptr<TableHeader>> Parse(std::shared_ptr<arrow::Buffer> bytes);

  const std::shared_ptr<arrow::Schema>& schema() const { return empty_->schema(); }
  const std::shared_ptr<arrow::Buffer>& bytes() const { return bytes_; }
  // A batch without rows that carries the dictionaries.
  const std::shared_ptr<arrow::RecordBatch>& empty() const { return empty_; }
  // OK when schemas (with metadata) and dictionaries are equal; else TypeError saying what differs.
  arrow::Status CheckEquals(const TableHeader& other) const;

 private:
  std::shared_ptr<arrow::Buffer> bytes_;
  std::shared_ptr<arrow::RecordBatch> empty_;
};

struct Shard {
  std::shared_ptr<arrow::Buffer> message;  // owns the block (or pins it, when it is a peer's)
  GlobalPtr where;
  int64_t rows = 0;
};

// Copies `batch` into a fresh block of `heap`, any type. One copy; null slots and padding are
// zeroed (floats under null become NaN), so nothing older shows through. One-sided, any thread.
arrow::Result<Shard> WriteShard(SymmetricHeap& heap, const arrow::RecordBatch& batch);

// The size of the block WriteShard would take, in bytes.
arrow::Result<uint64_t> ShardBytes(const arrow::RecordBatch& batch);

// The batch that lies in `message`: no copy, buffers keep `message` alive. Structure is checked,
// the values are trusted (only WriteShard and the exchange write shards).
arrow::Result<std::shared_ptr<arrow::RecordBatch>> ReadShard(
    const TableHeader& header, const std::shared_ptr<arrow::Buffer>& message);

// Writes the IPC metadata of a batch whose buffers already lie in `block` at the layout's places
// (the exchange builds shards that way). `metadata_bytes` is the room kept in front of the body.
// The body ends with the last buffer, rounded up to 64. Padding between buffers is the
// caller's to zero.
// REQUIRES: every buffer of `batch` is null, empty, or lies in IPC order, 64-byte aligned, from
// block + metadata_bytes on; array offsets are 0 (checked, Invalid).
arrow::Status WriteShardMetadata(std::byte* block, uint64_t metadata_bytes,
                                 const arrow::RecordBatch& batch);
// Room for the metadata of any batch of this schema, a multiple of 64.
uint64_t ShardMetadataBytes(const arrow::Schema& schema);

}  // namespace flightshmem
