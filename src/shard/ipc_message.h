// SPDX-License-Identifier: Apache-2.0
//
// The frame of an encapsulated IPC message, and the places of its buffers.
//
// Arrow's writer plans a body with buffers packed at multiples of 8 bytes. A shard wants them at
// multiples of 64, or where the exchange has already put them, so the plan's buffer table, a vector
// of (offset, length) structs in the flatbuffer, is overwritten with the real places.
#pragma once

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <span>

namespace flightshmem {

// Where a buffer lies, from the start of the body.
struct BufferPlace {
  int64_t offset = 0;
  int64_t size = 0;
};

// What stands before the flatbuffer: the continuation mark and the metadata length.
inline constexpr uint64_t kMessagePrefixBytes = 8;

// Writes prefix, flatbuffer with `places` in it, and zero padding to [to, to + metadata_bytes).
// Invalid when it does not fit, or `flatbuffer` is no record batch of that many buffers.
arrow::Status WriteMessageHead(std::byte* to, uint64_t metadata_bytes,
                               const arrow::Buffer& flatbuffer, std::span<const BufferPlace> places,
                               int64_t body_bytes);

struct MessageParts {
  std::shared_ptr<arrow::Buffer> metadata;  // the flatbuffer
  std::shared_ptr<arrow::Buffer> body;
};
// Slices of `message`; SerializationError when the prefix is not one.
arrow::Result<MessageParts> SplitMessage(const std::shared_ptr<arrow::Buffer>& message);

}  // namespace flightshmem
