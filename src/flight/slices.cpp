// SPDX-License-Identifier: Apache-2.0
#include "flight/slices.h"

#include <arrow/array.h>
#include <arrow/ipc/dictionary.h>

#include <algorithm>

#include "catalog/names.h"
#include "flight/column_types.h"
#include "flight/errors.h"

namespace flightshmem {
namespace {

namespace flight = arrow::flight;
namespace ipc = arrow::ipc;

// Protobuf tags and lengths round metadata and body.
constexpr int64_t kEnvelopeBytes = 32;
// A slice that starts at a multiple of 8 rows needs no shifted copy of its bitmaps; 64 keeps
// fixed-width buffers aligned as well.
constexpr int64_t kRowAlignment = 64;

int64_t MessageBytes(const ipc::IpcPayload& payload) {
  return payload.metadata->size() + payload.body_length + kEnvelopeBytes;
}

int64_t AlignRows(int64_t rows) {
  return rows > kRowAlignment ? rows / kRowAlignment * kRowAlignment : std::max<int64_t>(rows, 1);
}

int64_t Scale(int64_t rows, int64_t limit, int64_t size) {
  return static_cast<int64_t>(static_cast<double>(rows) * static_cast<double>(limit) /
                              static_cast<double>(size));
}

}  // namespace

RowSlicer::RowSlicer(int64_t rows, int64_t max_bytes, std::string what, MakePayload make)
    : rows_(rows),
      max_bytes_(max_bytes),
      what_(std::move(what)),
      make_(std::move(make)),
      guess_(rows),
      empty_pending_(rows == 0) {}

arrow::Result<ipc::IpcPayload> RowSlicer::Next() {
  int64_t rows = std::min(guess_, rows_ - next_row_);
  while (true) {
    ipc::IpcPayload payload;
    ARROW_RETURN_NOT_OK(make_(next_row_, rows, &payload));
    const int64_t size = MessageBytes(payload);
    if (size <= max_bytes_) {
      next_row_ += rows;
      empty_pending_ = false;
      // Room left over means narrower rows than before: ask for more next time, but not for all.
      guess_ = AlignRows(std::min(Scale(std::max<int64_t>(rows, 1), max_bytes_, size), 4 * rows));
      return payload;
    }
    if (rows <= 1) {
      return arrow::Status::CapacityError(
          "[do_get] row ", next_row_, " of ", what_, " takes ", size,
          " bytes as a message, more than the server's limit of ", max_bytes_,
          ": start the server with a larger max_message_bytes (--max-message)");
    }
    // A fixed part (metadata of many columns) makes the scaled guess too large: shrink by a quarter
    // at least, so this ends soon.
    rows = AlignRows(std::min(Scale(rows, max_bytes_, size), rows * 3 / 4));
  }
}

ShardStream::ShardStream(std::shared_ptr<Catalog> catalog,
                         std::shared_ptr<const TableVersion> version, std::vector<size_t> shards,
                         int64_t max_message_bytes)
    : catalog_(std::move(catalog)),
      version_(std::move(version)),
      shards_(std::move(shards)),
      max_message_bytes_(max_message_bytes),
      mapper_(*version_->header()->schema()) {}

arrow::Result<flight::FlightPayload> ShardStream::GetSchemaPayload() {
  flight::FlightPayload payload;
  ARROW_RETURN_NOT_OK(ToClient(ipc::GetSchemaPayload(*schema(), ipc::IpcWriteOptions::Defaults(),
                                                     mapper_, &payload.ipc_message)));
  return payload;
}

arrow::Result<flight::FlightPayload> ShardStream::Next() {
  flight::FlightPayload payload;
  auto message = NextMessage();
  ARROW_RETURN_NOT_OK(ToClient(message.status()));
  payload.ipc_message = std::move(message).ValueUnsafe();
  return payload;
}

arrow::Result<ipc::IpcPayload> ShardStream::NextMessage() {
  if (!started_) {
    started_ = true;
    ARROW_RETURN_NOT_OK(CollectDictionaries());
  }
  while (!slicer_ || slicer_->done()) {
    ARROW_ASSIGN_OR_RAISE(bool more, Advance());
    if (!more) return ipc::IpcPayload{};
  }
  return slicer_->Next();
}

arrow::Status ShardStream::CollectDictionaries() {
  ARROW_ASSIGN_OR_RAISE(dictionaries_,
                        ipc::CollectDictionaries(*version_->header()->empty(), mapper_));
  return arrow::Status::OK();
}

arrow::Result<bool> ShardStream::Advance() {
  if (next_dictionary_ < dictionaries_.size()) {
    const auto& [id, values] = dictionaries_[next_dictionary_++];
    SliceDictionary(id, values);
    return true;
  }
  while (next_shard_ < shards_.size()) {
    const size_t shard = shards_[next_shard_++];
    if (version_->shards()[shard].rows == 0) continue;
    ARROW_ASSIGN_OR_RAISE(auto batch, catalog_->Read(version_, shard));
    SliceBatch(std::move(batch));
    return true;
  }
  if (any_batch_) return false;
  SliceBatch(version_->header()->empty());
  return true;
}

// A dictionary that passes the limit goes as a first part and deltas.
void ShardStream::SliceDictionary(int64_t id, std::shared_ptr<arrow::Array> values) {
  const int64_t length = values->length();
  const bool may_split = !HasDictionary(*values->type());
  auto make = [id, length, may_split, values = std::move(values)](
                  int64_t offset, int64_t rows, ipc::IpcPayload* out) -> arrow::Status {
    if (rows < length && !may_split) {
      return arrow::Status::CapacityError(
          "[do_get] a dictionary of dictionaries is larger than a message may be: start the server "
          "with a larger max_message_bytes (--max-message)");
    }
    return ipc::GetDictionaryPayload(id, /*is_delta=*/offset > 0, values->Slice(offset, rows),
                                     ipc::IpcWriteOptions::Defaults(), out);
  };
  slicer_ = std::make_unique<RowSlicer>(length, max_message_bytes_,
                                        "a dictionary of table " + Quoted(version_->name()), make);
}

void ShardStream::SliceBatch(std::shared_ptr<arrow::RecordBatch> batch) {
  any_batch_ = true;
  const int64_t rows = batch->num_rows();
  auto make = [batch = std::move(batch)](int64_t offset, int64_t rows, ipc::IpcPayload* out) {
    return ipc::GetRecordBatchPayload(*batch->Slice(offset, rows), ipc::IpcWriteOptions::Defaults(),
                                      out);
  };
  slicer_ = std::make_unique<RowSlicer>(rows, max_message_bytes_,
                                        "table " + Quoted(version_->name()), make);
}

}  // namespace flightshmem
