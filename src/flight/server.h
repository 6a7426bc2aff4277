// SPDX-License-Identifier: Apache-2.0
//
// The Flight server that runs in every PE. Data verbs run here, in gRPC's threads, without the GIL
// and without calling the transport: tables are read through peer pointers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace flightshmem {

struct FlightOptions {
  std::string host = "127.0.0.1";
  int port = 0;                         // 0: a free one
  std::string token;                    // empty: no authentication (only with --insecure)
  int64_t max_message_bytes = 2 << 20;  // no FlightData is larger; one wider row is an error
  int64_t max_put_bytes = 1LL << 32;    // decoded bytes one DoPut may bring
};

class FlightServer {
 public:
  // Listens. Port in use, bad host: IOError saying so. Any thread; one per PE.
  static arrow::Result<std::unique_ptr<FlightServer>> Start(std::shared_ptr<Catalog> catalog,
                                                            const FlightOptions& options);
  virtual ~FlightServer() = default;

  virtual int port() const = 0;
  // Where each PE's server listens ("grpc+tcp://host:port"), for FlightInfo endpoints. Call once,
  // after all PEs have started. `gateway_only`: endpoints name no location (the client's own
  // connection serves every shard).
  virtual void SetLocations(std::vector<std::string> locations, bool gateway_only) = 0;
  // Stops accepting, gives running streams `grace_s` seconds, then cancels them. Never hangs,
  // whatever clients do. Any thread, any number of times; the destructor stops without grace.
  virtual arrow::Status Stop(double grace_s) = 0;
};

}  // namespace flightshmem
