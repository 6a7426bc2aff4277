// SPDX-License-Identifier: Apache-2.0
#include "shard/ipc_message.h"

#include <bit>
#include <cstring>

namespace flightshmem {
namespace {

static_assert(std::endian::native == std::endian::little, "flatbuffers are little-endian");

constexpr uint32_t kContinuation = 0xFFFFFFFF;

// Field numbers of the tables in Arrow's Message.fbs.
constexpr int kMessageHeader = 2;
constexpr int kMessageBodyLength = 3;
constexpr int kRecordBatchBuffers = 2;

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// The bytes of field `number` of a table, or null when it has its default value. A table starts
// with the signed distance back to its vtable: sizes first, then one 16-bit offset per field.
uint8_t* Field(uint8_t* table, int number) {
  const uint8_t* vtable = table - Load<int32_t>(table);
  const int entry = 4 + 2 * number;
  if (entry + 2 > Load<uint16_t>(vtable)) return nullptr;
  const uint16_t offset = Load<uint16_t>(vtable + entry);
  return offset == 0 ? nullptr : table + offset;
}

uint8_t* Follow(uint8_t* reference) { return reference + Load<uint32_t>(reference); }

arrow::Status PlaceBuffers(uint8_t* flatbuffer, std::span<const BufferPlace> places,
                           int64_t body_bytes) {
  uint8_t* message = Follow(flatbuffer);
  uint8_t* header = Field(message, kMessageHeader);
  uint8_t* buffers = header == nullptr ? nullptr : Field(Follow(header), kRecordBatchBuffers);
  const size_t planned = buffers == nullptr ? 0 : Load<uint32_t>(Follow(buffers));
  if (planned != places.size()) {
    return arrow::Status::Invalid("[shard] the metadata lists ", planned, " buffers, got ",
                                  places.size());
  }
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(Follow(buffers) + 4 + i * sizeof(BufferPlace), &places[i], sizeof(BufferPlace));
  }
  uint8_t* length = Field(message, kMessageBodyLength);
  if (length != nullptr) {
    std::memcpy(length, &body_bytes, sizeof(body_bytes));
  } else if (body_bytes != 0) {  // a length of 0 is not stored, so nor are there bytes to place
    return arrow::Status::Invalid("[shard] the metadata plans no body, got ", body_bytes, " bytes");
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Status WriteMessageHead(std::byte* to, uint64_t metadata_bytes,
                               const arrow::Buffer& flatbuffer, std::span<const BufferPlace> places,
                               int64_t body_bytes) {
  const auto flatbuffer_bytes = static_cast<uint64_t>(flatbuffer.size());
  if (metadata_bytes < kMessagePrefixBytes + flatbuffer_bytes || metadata_bytes % 8 != 0) {
    return arrow::Status::Invalid("[shard] metadata needs ", kMessagePrefixBytes + flatbuffer_bytes,
                                  " bytes in multiples of 8, got room for ", metadata_bytes);
  }
  const auto length = static_cast<int32_t>(metadata_bytes - kMessagePrefixBytes);
  auto* copy = reinterpret_cast<uint8_t*>(to) + kMessagePrefixBytes;
  std::memcpy(to, &kContinuation, 4);
  std::memcpy(to + 4, &length, 4);
  std::memcpy(copy, flatbuffer.data(), flatbuffer_bytes);
  std::memset(copy + flatbuffer_bytes, 0, static_cast<uint64_t>(length) - flatbuffer_bytes);
  return PlaceBuffers(copy, places, body_bytes);
}

arrow::Result<MessageParts> SplitMessage(const std::shared_ptr<arrow::Buffer>& message) {
  constexpr auto kPrefix = static_cast<int64_t>(kMessagePrefixBytes);
  const int64_t room = message->size() - kPrefix;
  if (room < 0 || Load<uint32_t>(message->data()) != kContinuation) {
    return arrow::Status::SerializationError("[shard] no IPC message lies here, got ",
                                             message->size(), " bytes");
  }
  const int64_t metadata_bytes = Load<int32_t>(message->data() + 4);
  if (metadata_bytes <= 0 || metadata_bytes > room) {
    return arrow::Status::SerializationError("[shard] IPC metadata longer than its block, got ",
                                             metadata_bytes, " of ", room, " bytes");
  }
  return MessageParts{arrow::SliceBuffer(message, kPrefix, metadata_bytes),
                      arrow::SliceBuffer(message, kPrefix + metadata_bytes)};
}

}  // namespace flightshmem
