// SPDX-License-Identifier: Apache-2.0
//
// Shards as Flight messages: slices of heap memory, none larger than a client accepts.
//
// A slice is found by measuring, not by averages: the IPC payload of a guessed number of rows is
// made (metadata only, buffers are views), its real size taken, and the guess corrected. So wide
// strings, nested columns and wide schemas need no rules of their own.
#pragma once

#include <arrow/flight/server.h>
#include <arrow/ipc/writer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace flightshmem {

// Cuts rows into payloads. One thread.
class RowSlicer {
 public:
  // Makes the payload of rows [offset, offset + rows).
  using MakePayload =
      std::function<arrow::Status(int64_t offset, int64_t rows, arrow::ipc::IpcPayload* out)>;

  // `what` names the thing in errors ("table 'x'"). `max_bytes` bounds a whole FlightData message.
  RowSlicer(int64_t rows, int64_t max_bytes, std::string what, MakePayload make);

  bool done() const { return next_row_ == rows_ && !empty_pending_; }
  // The next slice; of no rows only when there are none at all. A row that alone passes max_bytes:
  // CapacityError naming the row, its size and the option. REQUIRES: !done().
  arrow::Result<arrow::ipc::IpcPayload> Next();

 private:
  const int64_t rows_;
  const int64_t max_bytes_;
  const std::string what_;
  const MakePayload make_;
  int64_t next_row_ = 0;
  int64_t guess_;
  bool empty_pending_;
};

// Schema, dictionaries (each once), then the rows of `shards` in order: never an empty batch,
// except a single one when there are no rows. Buffers on the wire hold the version, so its memory
// stays until gRPC has let go of it.
class ShardStream : public arrow::flight::FlightDataStream {
 public:
  ShardStream(std::shared_ptr<Catalog> catalog, std::shared_ptr<const TableVersion> version,
              std::vector<size_t> shards, int64_t max_message_bytes);

  std::shared_ptr<arrow::Schema> schema() override { return version_->header()->schema(); }
  arrow::Result<arrow::flight::FlightPayload> GetSchemaPayload() override;
  arrow::Result<arrow::flight::FlightPayload> Next() override;

 private:
  arrow::Result<arrow::ipc::IpcPayload> NextMessage();
  arrow::Status CollectDictionaries();
  void SliceDictionary(int64_t id, std::shared_ptr<arrow::Array> values);
  void SliceBatch(std::shared_ptr<arrow::RecordBatch> batch);
  // Makes slicer_ the next thing to send; false at the end.
  arrow::Result<bool> Advance();

  const std::shared_ptr<Catalog> catalog_;
  const std::shared_ptr<const TableVersion> version_;
  const std::vector<size_t> shards_;
  const int64_t max_message_bytes_;
  const arrow::ipc::DictionaryFieldMapper mapper_;
  arrow::ipc::DictionaryVector dictionaries_;
  bool started_ = false;
  size_t next_dictionary_ = 0;
  size_t next_shard_ = 0;
  bool any_batch_ = false;
  std::unique_ptr<RowSlicer> slicer_;
};

}  // namespace flightshmem
