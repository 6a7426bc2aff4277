// SPDX-License-Identifier: Apache-2.0
// What Flight's verbs are made of, without gRPC: under the sanitizers everything here is ours.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>

#include <random>
#include <thread>

#include "catalog/catalog.h"
#include "flight/ipc_peek.h"
#include "flight/put_limits.h"
#include "flight/slices.h"
#include "flight/ticket.h"
#include "flight/upload.h"
#include "threads_as_pes.h"

namespace flightshmem {
namespace {

constexpr int64_t kRows = 5000;
constexpr int64_t kMessageBytes = 16 << 10;

// Numbers all equal to `value`, and text of lengths from 0 to 999.
std::shared_ptr<arrow::RecordBatch> MakeBatch(int64_t value, int64_t rows = kRows) {
  arrow::Int64Builder numbers;
  arrow::StringBuilder words;
  for (int64_t i = 0; i < rows; ++i) {
    CHECK_OK(numbers.Append(value));
    CHECK_OK(i % 7 == 3 ? words.AppendNull() : words.Append(std::string(i * i % 1000, 'x')));
  }
  const auto schema =
      arrow::schema({arrow::field("n", arrow::int64()), arrow::field("s", arrow::utf8())});
  return arrow::RecordBatch::Make(schema, rows, {VALUE(numbers.Finish()), VALUE(words.Finish())});
}

std::span<const uint8_t> Span(const arrow::Buffer& buffer) {
  return {buffer.data(), static_cast<size_t>(buffer.size())};
}

arrow::ipc::IpcPayload Payload(const arrow::RecordBatch& batch,
                               arrow::Compression::type compression) {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;  // the sanitizers cannot see into Arrow's pool
  if (compression != arrow::Compression::UNCOMPRESSED) {
    options.codec = VALUE(arrow::util::Codec::Create(compression));
  }
  arrow::ipc::IpcPayload payload;
  CHECK_OK(arrow::ipc::GetRecordBatchPayload(batch, options, &payload));
  return payload;
}

std::vector<uint8_t> Body(const arrow::ipc::IpcPayload& payload) {
  std::vector<uint8_t> body;
  for (const auto& buffer : payload.body_buffers) {
    if (buffer) body.insert(body.end(), buffer->data(), buffer->data() + buffer->size());
    body.resize((body.size() + 7) / 8 * 8);
  }
  return body;
}

FS_TEST(FlightPeekAgreesWithArrow) {
  const auto batch = MakeBatch(1);
  const IpcClaim plain = VALUE([&] {
    const auto payload = Payload(*batch, arrow::Compression::UNCOMPRESSED);
    return PeekIpcMessage(Span(*payload.metadata), Body(payload));
  }());
  CHECK(plain.rows == kRows);
  CHECK(plain.decoded_bytes > 2'000'000);
  const auto payload = Payload(*batch, arrow::Compression::ZSTD);
  const auto body = Body(payload);
  CHECK(body.size() < 100'000);
  const IpcClaim packed = VALUE(PeekIpcMessage(Span(*payload.metadata), body));
  CHECK(packed.rows == kRows);
  CHECK(packed.decoded_bytes == plain.decoded_bytes);
}

FS_TEST(FlightPeekSurvivesDamage) {
  std::mt19937 random(1);
  const auto payload = Payload(*MakeBatch(1, 50), arrow::Compression::ZSTD);
  const std::vector<uint8_t> metadata(payload.metadata->data(),
                                      payload.metadata->data() + payload.metadata->size());
  const auto body = Body(payload);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    // Copies of the exact size: a step outside is seen.
    std::vector<uint8_t> damaged = metadata;
    std::vector<uint8_t> cut(body.begin(), body.begin() + random() % (body.size() + 1));
    if (round % 3 == 0) damaged.resize(random() % damaged.size());
    for (uint32_t flips = random() % 8; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<uint8_t>(random() % 3 ? random() : 0xff);
    }
    damaged.shrink_to_fit();
    cut.shrink_to_fit();
    refused += !PeekIpcMessage(damaged, cut).ok();
    (void)FindFlightMetadata(damaged);
  }
  CHECK(refused > 1000);
}

FS_TEST(FlightTicketsSurviveDamage) {
  const TableTicket ticket{"name", EntryId{1, 2, 3}, 4};
  const std::string bytes = ticket.Serialize();
  const TableTicket again = VALUE(TableTicket::Parse(bytes));
  CHECK(again.name == "name" && *again.version == *ticket.version && again.shard == 4);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = TableTicket::Parse(bytes.substr(0, size));
    CHECK(!cut.ok() || cut->name != "name");
  }
}

FS_TEST(FlightSlicesHoldEveryRowOnce) {
  const auto batch = MakeBatch(1);
  RowSlicer slicer(batch->num_rows(), kMessageBytes, "a test",
                   [&](int64_t offset, int64_t rows, arrow::ipc::IpcPayload* out) {
                     return arrow::ipc::GetRecordBatchPayload(
                         *batch->Slice(offset, rows), arrow::ipc::IpcWriteOptions::Defaults(), out);
                   });
  int64_t rows = 0;
  while (!slicer.done()) {
    const auto payload = VALUE(slicer.Next());
    CHECK(payload.metadata->size() + payload.body_length <= kMessageBytes);
    rows += VALUE(PeekIpcMessage(Span(*payload.metadata), Body(payload))).rows;
  }
  CHECK(rows == kRows);
}

// The first value of a stream of one-valued versions, after checking that it is whole.
void ReadWholeVersion(const std::shared_ptr<Catalog>& catalog) {
  const auto version = VALUE(catalog->Lookup("turning"));
  std::vector<size_t> shards(version->shards().size());
  for (size_t i = 0; i < shards.size(); ++i) shards[i] = i;
  ShardStream stream(catalog, version, shards, kMessageBytes);
  arrow::ipc::DictionaryMemo memo;
  int64_t rows = 0;
  int64_t value = -1;
  while (true) {
    const auto payload = VALUE(stream.Next());
    if (payload.ipc_message.metadata == nullptr) break;
    const auto body = Body(payload.ipc_message);
    const auto message = VALUE(arrow::ipc::Message::Open(
        payload.ipc_message.metadata, arrow::Buffer::Wrap(body.data(), body.size())));
    const auto batch = VALUE(arrow::ipc::ReadRecordBatch(*message, stream.schema(), &memo,
                                                         arrow::ipc::IpcReadOptions::Defaults()));
    const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
    if (value < 0) value = numbers.Value(0);
    for (int64_t i = 0; i < numbers.length(); ++i) CHECK(numbers.Value(i) == value);
    rows += batch->num_rows();
  }
  CHECK(rows == kRows);
}

void Replace(const std::shared_ptr<Catalog>& catalog, int64_t value) {
  const auto batch = MakeBatch(value);
  UploadBudget budget(64 << 20);
  auto upload = VALUE(Upload::Start(catalog, batch->schema(), nullptr));
  CHECK_OK(upload->Add(batch->Slice(0, 2000), budget));
  CHECK_OK(upload->Add(batch->Slice(2000), budget));
  CHECK_OK(upload->Publish("turning", PublishMode::kReplace));
}

// As Flight's threads do: uploads replace a table on one PE while others read it on all.
FS_TEST(FlightReadersSeeWholeVersions) {
  TransportOptions options;
  options.segment_bytes = 64 << 20;
  options.collective_timeout_s = 60;
  auto transports = VALUE(OpenPosixShmThreads(options, 2));
  std::vector<std::thread> pes;
  for (auto& opened : transports) {
    pes.emplace_back([transport = std::move(opened)] {
      const auto heap = VALUE(SymmetricHeap::Make(transport, Catalog::kEndOffset));
      const auto catalog = VALUE(Catalog::Make(heap));
      if (transport->my_pe() == 0) Replace(catalog, 0);
      CHECK_OK(transport->Barrier());
      std::vector<std::thread> handlers;
      for (int handler = 0; handler < 2; ++handler) {
        handlers.emplace_back([&catalog, handler] {
          for (int i = 1; i < 15; ++i) {
            handler == 0 ? Replace(catalog, i) : ReadWholeVersion(catalog);
          }
        });
      }
      for (std::thread& handler : handlers) handler.join();
      CHECK_OK(transport->Barrier());
      if (transport->my_pe() == 0) CHECK_OK(catalog->Drop("turning"));
      CHECK_OK(transport->Barrier());
      catalog->Reclaim();
      CHECK(heap->stats().blocks == 0);
      CHECK_OK(transport->Finalize());
    });
  }
  for (std::thread& pe : pes) pe.join();
}

}  // namespace
}  // namespace flightshmem
