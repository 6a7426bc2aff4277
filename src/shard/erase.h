// SPDX-License-Identifier: Apache-2.0
//
// Overwriting what a batch holds besides its values: slots under nulls, bytes of null strings, list
// elements no row refers to, the bits and bytes behind the last value. They carry whatever the
// memory held earlier, and a shard is read by others.
#pragma once

#include <arrow/array/data.h>
#include <arrow/status.h>

namespace flightshmem {

// Zeroes them, in place; floats under a null become NaN, so that the value buffer alone is a valid
// column of an ML matrix. Dictionaries are left alone, they are not part of a shard.
// REQUIRES: the buffers are writable memory that nobody else reads yet, and all offsets are 0
// (as in what ReadShard gives).
arrow::Status EraseDeadBytes(const arrow::ArrayData& column);

}  // namespace flightshmem
