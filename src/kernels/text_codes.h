// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/key_codes.h"
#include "kernels/key_pieces.h"

namespace flightshmem {

// The codes of a key column whose values are strings or binary, of any offset width.
KeyCodes TextCodes(const std::vector<Piece>& pieces, const RowCounts& rows);

}  // namespace flightshmem
