// SPDX-License-Identifier: Apache-2.0
//
// The bearer token: every call of every verb must carry `authorization: Bearer <token>`.
#pragma once

#include <arrow/flight/server_middleware.h>

#include <memory>
#include <string>

namespace flightshmem {

// REQUIRES: token is not empty. Calls without it end as Unauthenticated before any verb runs. The
// comparison takes the same time whatever the bytes are.
std::shared_ptr<arrow::flight::ServerMiddlewareFactory> MakeTokenMiddleware(std::string token);

}  // namespace flightshmem
