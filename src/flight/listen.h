// SPDX-License-Identifier: Apache-2.0
//
// Where a server listens, and why it cannot.
#pragma once

#include <arrow/status.h>

#include <string>

namespace flightshmem {

// `host` and `port` as a Flight URI; IPv6 addresses are bracketed.
std::string FlightUri(const std::string& host, int port);

// IOError (ServerError in Python) that says why.
arrow::Status CannotListen(const std::string& host, int port, const std::string& why);

// OK when host:port can be bound now, else CannotListen: address in use, no such host, no
// permission. gRPC itself only says that it did not start.
arrow::Status CheckCanListen(const std::string& host, int port);

}  // namespace flightshmem
