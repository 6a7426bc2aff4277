// SPDX-License-Identifier: Apache-2.0
//
// What a client is told when a call fails.
#pragma once

#include <arrow/status.h>

#include <string>
#include <string_view>

namespace flightshmem {

// The status to hand to gRPC. Flight has codes for not found, exists, invalid, not implemented and
// unavailable; what has none becomes the nearest: types that do not fit (text tagged "[schema]"),
// sizes, indices and undecodable bytes are invalid, a full heap is unavailable. The text is cut to
// what every client accepts (some stop at 8 KiB of trailers, and it travels twice in them). OK
// stays OK.
arrow::Status ToClient(const arrow::Status& status);

}  // namespace flightshmem
