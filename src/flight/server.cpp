// SPDX-License-Identifier: Apache-2.0
#include "flight/server.h"

#include <arrow/flight/server.h>

#include <chrono>
#include <mutex>
#include <numeric>

#include "catalog/names.h"
#include "flight/actions.h"
#include "flight/auth_middleware.h"
#include "flight/errors.h"
#include "flight/listen.h"
#include "flight/put.h"
#include "flight/put_limits.h"
#include "flight/slices.h"
#include "flight/ticket.h"

namespace flightshmem {
namespace {

namespace flight = arrow::flight;

arrow::Result<std::string> TableOf(const flight::FlightDescriptor& descriptor) {
  if (descriptor.type != flight::FlightDescriptor::PATH || descriptor.path.size() != 1) {
    return arrow::Status::Invalid(
        "[flight] the descriptor must be a path with one table name, got ",
        Quoted(descriptor.ToString()));
  }
  return descriptor.path[0];
}

// The verbs, as Flight calls them from its own threads. Thread-safe: the catalog is, and the
// locations change under a mutex.
class Verbs : public flight::FlightServerBase {
 public:
  Verbs(std::shared_ptr<Catalog> catalog, const FlightOptions& options)
      : catalog_(std::move(catalog)), options_(options) {}

  void SetLocations(std::vector<std::string> locations, bool gateway_only) {
    std::lock_guard lock(mutex_);
    locations_ = gateway_only ? std::vector<std::string>{} : std::move(locations);
  }

  arrow::Status ListFlights(const flight::ServerCallContext&, const flight::Criteria* criteria,
                            std::unique_ptr<flight::FlightListing>* listings) override {
    return ToClient(List(criteria ? criteria->expression : "").Value(listings));
  }

  arrow::Status GetFlightInfo(const flight::ServerCallContext&,
                              const flight::FlightDescriptor& request,
                              std::unique_ptr<flight::FlightInfo>* info) override {
    return ToClient(Describe(request).Value(info));
  }

  arrow::Status GetSchema(const flight::ServerCallContext&, const flight::FlightDescriptor& request,
                          std::unique_ptr<flight::SchemaResult>* schema) override {
    return ToClient(SchemaOf(request).Value(schema));
  }

  arrow::Status DoGet(const flight::ServerCallContext&, const flight::Ticket& request,
                      std::unique_ptr<flight::FlightDataStream>* stream) override {
    return ToClient(Open(request.ticket).Value(stream));
  }

  arrow::Status DoPut(const flight::ServerCallContext& context,
                      std::unique_ptr<flight::FlightMessageReader> reader,
                      std::unique_ptr<flight::FlightMetadataWriter> writer) override {
    return ToClient(ReceivePut(catalog_, options_.max_put_bytes, context, *reader, *writer));
  }

  arrow::Status DoAction(const flight::ServerCallContext&, const flight::Action& action,
                         std::unique_ptr<flight::ResultStream>* result) override {
    const std::string_view body = action.body ? std::string_view(*action.body) : std::string_view();
    auto json = RunAction(*catalog_, action.type, body);
    ARROW_RETURN_NOT_OK(ToClient(json.status()));
    *result = std::make_unique<flight::SimpleResultStream>(
        std::vector<flight::Result>{{arrow::Buffer::FromString(std::move(json).ValueUnsafe())}});
    return arrow::Status::OK();
  }

  arrow::Status ListActions(const flight::ServerCallContext&,
                            std::vector<flight::ActionType>* actions) override {
    *actions = ListedActions();
    return arrow::Status::OK();
  }

 private:
  // `prefix`: only tables whose name begins so.
  arrow::Result<std::unique_ptr<flight::FlightListing>> List(const std::string& prefix) {
    std::vector<flight::FlightInfo> flights;
    ARROW_ASSIGN_OR_RAISE(const auto names, catalog_->Names());
    for (const std::string& name : names) {
      if (!name.starts_with(prefix)) continue;
      auto table = catalog_->Lookup(name);
      if (table.status().IsKeyError()) continue;  // dropped since
      ARROW_RETURN_NOT_OK(table.status());
      ARROW_ASSIGN_OR_RAISE(auto info, InfoOf(**table));
      flights.push_back(std::move(info));
    }
    return std::make_unique<flight::SimpleFlightListing>(std::move(flights));
  }

  arrow::Result<std::unique_ptr<flight::FlightInfo>> Describe(
      const flight::FlightDescriptor& descriptor) {
    ARROW_ASSIGN_OR_RAISE(const std::string name, TableOf(descriptor));
    ARROW_ASSIGN_OR_RAISE(const auto table, catalog_->Lookup(name));
    ARROW_ASSIGN_OR_RAISE(auto info, InfoOf(*table));
    return std::make_unique<flight::FlightInfo>(std::move(info));
  }

  arrow::Result<std::unique_ptr<flight::SchemaResult>> SchemaOf(
      const flight::FlightDescriptor& descriptor) {
    ARROW_ASSIGN_OR_RAISE(const std::string name, TableOf(descriptor));
    ARROW_ASSIGN_OR_RAISE(const auto table, catalog_->Lookup(name));
    return flight::SchemaResult::Make(*table->header()->schema());
  }

  arrow::Result<std::unique_ptr<flight::FlightDataStream>> Open(const std::string& bytes) {
    ARROW_ASSIGN_OR_RAISE(const TableTicket ticket, TableTicket::Parse(bytes));
    ARROW_ASSIGN_OR_RAISE(auto table, Redeem(*catalog_, ticket));
    std::vector<size_t> shards{ticket.shard};
    if (ticket.shard == TableTicket::kAllShards) {
      shards.resize(table->shards().size());
      std::iota(shards.begin(), shards.end(), size_t{0});
    }
    return std::make_unique<ShardStream>(catalog_, std::move(table), std::move(shards),
                                         options_.max_message_bytes);
  }

  arrow::Result<flight::FlightInfo> InfoOf(const TableVersion& table) {
    std::vector<flight::FlightEndpoint> endpoints;
    const auto& shards = table.shards();
    for (uint32_t i = 0; i < shards.size(); ++i) {
      if (shards[i].rows == 0) continue;
      ARROW_ASSIGN_OR_RAISE(auto endpoint, EndpointOf(table, i, shards[i].where.pe));
      endpoints.push_back(std::move(endpoint));
    }
    if (endpoints.empty()) {
      const int pe = catalog_->heap()->transport()->my_pe();
      ARROW_ASSIGN_OR_RAISE(auto endpoint, EndpointOf(table, TableTicket::kAllShards, pe));
      endpoints.push_back(std::move(endpoint));
    }
    std::string app_metadata = "{\"version\": " + std::to_string(table.version()) +
                               ", \"partitioning\": " + JsonString(table.partitioning()) + "}";
    const uint64_t total_bytes = table.size_bytes() + table.header()->bytes()->size();
    // Ordered: a table's rows are those of its shards, one after the other.
    return flight::FlightInfo::Make(*table.header()->schema(),
                                    flight::FlightDescriptor::Path({table.name()}), endpoints,
                                    table.rows(), static_cast<int64_t>(total_bytes),
                                    /*ordered=*/true, std::move(app_metadata));
  }

  arrow::Result<flight::FlightEndpoint> EndpointOf(const TableVersion& table, uint32_t shard,
                                                   int pe) {
    const TableTicket ticket{table.name(), table.id(), shard};
    flight::FlightEndpoint endpoint;
    endpoint.ticket.ticket = ticket.Serialize();
    std::lock_guard lock(mutex_);
    if (static_cast<size_t>(pe) < locations_.size()) {
      ARROW_ASSIGN_OR_RAISE(auto location, flight::Location::Parse(locations_[pe]));
      endpoint.locations.push_back(std::move(location));
    }
    return endpoint;
  }

  const std::shared_ptr<Catalog> catalog_;
  const FlightOptions options_;
  std::mutex mutex_;
  std::vector<std::string> locations_;
};

class RunningServer : public FlightServer {
 public:
  RunningServer(std::shared_ptr<Catalog> catalog, const FlightOptions& options)
      : verbs_(std::move(catalog), options) {}

  ~RunningServer() override { (void)Stop(0); }

  arrow::Status Listen(const FlightOptions& options) {
    ARROW_RETURN_NOT_OK(CheckCanListen(options.host, options.port));
    ARROW_ASSIGN_OR_RAISE(auto location,
                          flight::Location::Parse(FlightUri(options.host, options.port)));
    flight::FlightServerOptions flight_options(location);
    flight_options.memory_manager = MakeUploadGate();
    if (!options.token.empty()) {
      flight_options.middleware.emplace_back("token", MakeTokenMiddleware(options.token));
    }
    const auto status = verbs_.Init(flight_options);
    if (!status.ok()) return CannotListen(options.host, options.port, status.message());
    std::lock_guard lock(mutex_);
    running_ = true;
    return arrow::Status::OK();
  }

  int port() const override { return verbs_.port(); }

  void SetLocations(std::vector<std::string> locations, bool gateway_only) override {
    verbs_.SetLocations(std::move(locations), gateway_only);
  }

  arrow::Status Stop(double grace_s) override {
    std::lock_guard lock(mutex_);
    if (!running_) return arrow::Status::OK();
    running_ = false;
    // Without a deadline gRPC would wait for a client that never reads on.
    const auto deadline = std::chrono::system_clock::now() +
                          std::chrono::milliseconds(static_cast<int64_t>(grace_s * 1000));
    ARROW_RETURN_NOT_OK(verbs_.Shutdown(&deadline));
    return verbs_.Wait();
  }

 private:
  std::mutex mutex_;  // two threads may stop; the second waits for the first
  bool running_ = false;
  Verbs verbs_;
};

}  // namespace

arrow::Result<std::unique_ptr<FlightServer>> FlightServer::Start(std::shared_ptr<Catalog> catalog,
                                                                 const FlightOptions& options) {
  auto server = std::make_unique<RunningServer>(std::move(catalog), options);
  ARROW_RETURN_NOT_OK(server->Listen(options));
  return server;
}

}  // namespace flightshmem
