// SPDX-License-Identifier: Apache-2.0
//
// What an IPC record-batch or dictionary message claims about itself, read before Arrow decodes it.
//
// Why by hand: Arrow decompresses while it reads, and a few kilobytes of zstd can stand for
// gigabytes; neither its reader nor Flight offers a limit. Only the few flatbuffer fields needed
// are walked, every access bounds-checked.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <span>

namespace flightshmem {

struct IpcClaim {
  int64_t rows = 0;
  int64_t decoded_bytes = 0;  // of all buffers, after decompression
};

// `metadata`: the flatbuffer of the message (no length prefix); `body`: the bytes that came with
// it. Messages that are neither record batch nor dictionary claim nothing. Invalid when an offset
// or size points outside.
arrow::Result<IpcClaim> PeekIpcMessage(std::span<const uint8_t> metadata,
                                       std::span<const uint8_t> body);

// The data_header field of a serialized FlightData protobuf; empty when there is none.
arrow::Result<std::span<const uint8_t>> FindFlightMetadata(std::span<const uint8_t> flight_data);

}  // namespace flightshmem
