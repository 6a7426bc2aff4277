// SPDX-License-Identifier: Apache-2.0
//
// What a table version consists of, as one block in the heap of the PE that published it:
//
//   [sizes][shard list][name][partitioning][zeros to a multiple of 64][header: Arrow IPC stream]
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <memory>
#include <string>
#include <vector>

#include "catalog/directory.h"
#include "shard/shard.h"

namespace flightshmem {

struct ShardRef {
  GlobalPtr where;
  uint64_t size_bytes = 0;
  int64_t rows = 0;
};

struct Descriptor {
  std::string name;
  std::string partitioning;
  std::vector<ShardRef> shards;
  std::shared_ptr<TableHeader> header;
};

// A block of `heap` that holds `descriptor`. Any thread.
arrow::Result<Block> WriteDescriptor(SymmetricHeap& heap, const Descriptor& descriptor);
// What lies in `bytes`; the header keeps them alive.
arrow::Result<Descriptor> ReadDescriptor(const std::shared_ptr<arrow::Buffer>& bytes);
// Only the name of the version `fields` belongs to. REQUIRES: it is pinned, or its directory
// locked.
arrow::Result<std::string> ReadName(const Words& words, const EntryFields& fields);

}  // namespace flightshmem
