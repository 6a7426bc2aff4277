// SPDX-License-Identifier: Apache-2.0
//
// A failure on one PE becomes the same failure on all, before anybody goes on.
#pragma once

#include <arrow/status.h>

#include "transport/transport.h"

namespace flightshmem {

// Collective. OK when `local` is OK on every PE, else the failure of the first PE that has one,
// with its code, message and details, on every PE. Has the effect of a barrier.
arrow::Status Agree(Transport& transport, const arrow::Status& local);

}  // namespace flightshmem
