// SPDX-License-Identifier: Apache-2.0
#include "catalog/descriptor.h"

#include <cstring>

namespace flightshmem {
namespace {

struct Sizes {
  uint64_t shards;
  uint64_t name_bytes;
  uint64_t partitioning_bytes;
  uint64_t header_bytes;
};

struct StoredShard {
  int64_t pe;
  uint64_t offset;
  uint64_t size_bytes;
  int64_t rows;
};

uint64_t NameOffset(const Sizes& sizes) {
  return sizeof(Sizes) + sizes.shards * sizeof(StoredShard);
}
uint64_t PartitioningOffset(const Sizes& sizes) { return NameOffset(sizes) + sizes.name_bytes; }
uint64_t HeaderOffset(const Sizes& sizes) {
  const uint64_t end = PartitioningOffset(sizes) + sizes.partitioning_bytes;
  return (end + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
}

}  // namespace

arrow::Result<Block> WriteDescriptor(SymmetricHeap& heap, const Descriptor& descriptor) {
  const Sizes sizes{descriptor.shards.size(), descriptor.name.size(),
                    descriptor.partitioning.size(),
                    static_cast<uint64_t>(descriptor.header->bytes()->size())};
  ARROW_ASSIGN_OR_RAISE(Block block, heap.Allocate(HeaderOffset(sizes) + sizes.header_bytes));
  std::byte* to = block.data();
  std::memcpy(to, &sizes, sizeof(sizes));
  for (size_t i = 0; i < descriptor.shards.size(); ++i) {
    const ShardRef& shard = descriptor.shards[i];
    const StoredShard stored{shard.where.pe, shard.where.offset, shard.size_bytes, shard.rows};
    std::memcpy(to + sizeof(Sizes) + i * sizeof(stored), &stored, sizeof(stored));
  }
  std::memset(to + PartitioningOffset(sizes), 0, HeaderOffset(sizes) - PartitioningOffset(sizes));
  std::memcpy(to + NameOffset(sizes), descriptor.name.data(), sizes.name_bytes);
  std::memcpy(to + PartitioningOffset(sizes), descriptor.partitioning.data(),
              sizes.partitioning_bytes);
  std::memcpy(to + HeaderOffset(sizes), descriptor.header->bytes()->data(), sizes.header_bytes);
  return block;
}

arrow::Result<Descriptor> ReadDescriptor(const std::shared_ptr<arrow::Buffer>& bytes) {
  const auto* from = reinterpret_cast<const char*>(bytes->data());
  Sizes sizes;
  std::memcpy(&sizes, from, sizeof(sizes));
  Descriptor descriptor;
  descriptor.name.assign(from + NameOffset(sizes), sizes.name_bytes);
  descriptor.partitioning.assign(from + PartitioningOffset(sizes), sizes.partitioning_bytes);
  for (uint64_t i = 0; i < sizes.shards; ++i) {
    StoredShard stored;
    std::memcpy(&stored, from + sizeof(Sizes) + i * sizeof(stored), sizeof(stored));
    descriptor.shards.push_back(
        {{static_cast<int32_t>(stored.pe), stored.offset}, stored.size_bytes, stored.rows});
  }
  ARROW_ASSIGN_OR_RAISE(descriptor.header, TableHeader::Parse(arrow::SliceBuffer(
                                               bytes, static_cast<int64_t>(HeaderOffset(sizes)),
                                               static_cast<int64_t>(sizes.header_bytes))));
  return descriptor;
}

arrow::Result<std::string> ReadName(const Words& words, const EntryFields& fields) {
  Sizes sizes;
  ARROW_RETURN_NOT_OK(words.Read(&sizes, fields.descriptor, sizeof(sizes)));
  std::string name(sizes.name_bytes, '\0');
  ARROW_RETURN_NOT_OK(
      words.Read(name.data(), fields.descriptor + NameOffset(sizes), sizes.name_bytes));
  return name;
}

}  // namespace flightshmem
