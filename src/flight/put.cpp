// SPDX-License-Identifier: Apache-2.0
#include "flight/put.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "catalog/names.h"
#include "flight/errors.h"
#include "flight/put_limits.h"
#include "flight/upload.h"

namespace flightshmem {
namespace {

namespace flight = arrow::flight;

constexpr std::string_view kAbort = "abort";
constexpr std::chrono::seconds kDrainTime{5};

arrow::Result<PublishMode> ParseMode(std::string_view mode) {
  if (mode == "create") return PublishMode::kCreate;
  if (mode == "replace") return PublishMode::kReplace;
  if (mode == "append") return PublishMode::kAppend;
  return arrow::Status::Invalid(
      "[do_put] the mode (second path element) is create, replace or "
      "append, got ",
      Quoted(mode));
}

arrow::Status CheckNotCancelled(const flight::ServerCallContext& context) {
  if (!context.is_cancelled()) return arrow::Status::OK();
  return arrow::Status::Cancelled("[do_put] the client went away: nothing was published");
}

bool IsAbort(const arrow::Buffer& app_metadata) { return std::string_view(app_metadata) == kAbort; }

// What Arrow says about bytes it cannot decode, as a client's mistake; our own refusals
// (UploadGate) come through as they are.
arrow::Status Undecodable(const arrow::Status& status) {
  if (status.ok() || status.message().starts_with("[do_put]")) return status;
  return arrow::Status::Invalid("[do_put] the stream cannot be decoded: ", status.message());
}

// Reads to the end of the stream. A client that died ends its stream too: the caller must check.
arrow::Status ReadBatches(flight::FlightMessageReader& reader, Upload& upload,
                          UploadBudget& budget) {
  while (true) {
    flight::FlightStreamChunk chunk;
    ARROW_RETURN_NOT_OK(Undecodable(reader.Next().Value(&chunk)));
    if (!chunk.data && !chunk.app_metadata) return arrow::Status::OK();
    if (chunk.app_metadata && IsAbort(*chunk.app_metadata)) {
      return arrow::Status::Cancelled("[do_put] the client gave up: nothing was published");
    }
    if (chunk.data) ARROW_RETURN_NOT_OK(upload.Add(chunk.data, budget));
  }
}

arrow::Result<std::shared_ptr<const TableVersion>> AppendBase(Catalog& catalog,
                                                              const PutTarget& target) {
  if (target.mode != PublishMode::kAppend) return nullptr;
  auto base = catalog.Lookup(target.name);
  if (base.status().IsKeyError()) return nullptr;  // appending to nothing makes the table
  return base;
}

arrow::Status Receive(const std::shared_ptr<Catalog>& catalog, UploadBudget& budget,
                      const flight::ServerCallContext& context, flight::FlightMessageReader& reader,
                      flight::FlightMetadataWriter& writer) {
  ARROW_ASSIGN_OR_RAISE(const PutTarget target, ParsePutDescriptor(reader.descriptor()));
  std::shared_ptr<arrow::Schema> schema;
  ARROW_RETURN_NOT_OK(Undecodable(reader.GetSchema().Value(&schema)));
  ARROW_ASSIGN_OR_RAISE(auto base, AppendBase(*catalog, target));
  ARROW_ASSIGN_OR_RAISE(auto upload, Upload::Start(catalog, schema, std::move(base)));
  ARROW_RETURN_NOT_OK(ReadBatches(reader, *upload, budget));
  // The end of the stream looks the same when the client was killed. Writing to a dead stream
  // fails, so the answer doubles as the question whether somebody is still there.
  ARROW_RETURN_NOT_OK(CheckNotCancelled(context));
  const auto answer =
      arrow::Buffer::FromString("{\"rows\": " + std::to_string(upload->rows()) + "}");
  if (!writer.WriteMetadata(*answer).ok()) {
    return arrow::Status::Cancelled("[do_put] the client went away: nothing was published");
  }
  ARROW_RETURN_NOT_OK(CheckNotCancelled(context));
  return upload->Publish(target.name, target.mode);
}

void Drain(const flight::ServerCallContext& context, flight::FlightMessageReader& reader) {
  const auto deadline = std::chrono::steady_clock::now() + kDrainTime;
  while (!context.is_cancelled() && std::chrono::steady_clock::now() < deadline) {
    const auto chunk = reader.Next();
    if (chunk.ok() && !chunk->data && !chunk->app_metadata) return;
  }
}

}  // namespace

arrow::Result<PutTarget> ParsePutDescriptor(const flight::FlightDescriptor& descriptor) {
  if (descriptor.type != flight::FlightDescriptor::PATH || descriptor.path.empty() ||
      descriptor.path.size() > 2) {
    return arrow::Status::Invalid(
        "[do_put] the descriptor must be a path [name] or [name, mode], got ",
        Quoted(descriptor.ToString()));
  }
  PutTarget target{descriptor.path[0]};
  ARROW_RETURN_NOT_OK(CheckTableName("do_put", target.name));
  if (descriptor.path.size() == 2) {
    ARROW_ASSIGN_OR_RAISE(target.mode, ParseMode(descriptor.path[1]));
  }
  return target;
}

arrow::Status ReceivePut(const std::shared_ptr<Catalog>& catalog, int64_t max_put_bytes,
                         const flight::ServerCallContext& context,
                         flight::FlightMessageReader& reader,
                         flight::FlightMetadataWriter& writer) {
  const auto capacity = static_cast<int64_t>(catalog->heap()->stats().capacity_bytes);
  UploadBudget budget(std::min(max_put_bytes, capacity));
  arrow::Status status = Receive(catalog, budget, context, reader, writer);
  if (!status.ok()) {
    budget.Close();
    Drain(context, reader);
  }
  return status;
}

}  // namespace flightshmem
