// SPDX-License-Identifier: Apache-2.0
#include "shard/shard.h"

#include <arrow/array/util.h>
#include <arrow/extension_type.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <cstring>
#include <span>
#include <vector>

#include "shard/erase.h"
#include "shard/ipc_message.h"
#include "shard/stream_copy.h"

namespace flightshmem {
namespace {

constexpr uint64_t kAlignment = Allocator::kAlignment;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

arrow::ipc::IpcWriteOptions WriteOptions() {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.allow_64bit = true;
  return options;
}

// Where everything of a batch goes in its block.
struct Layout {
  arrow::ipc::IpcPayload payload;
  std::vector<BufferPlace> places;  // one per payload.body_buffers
  uint64_t metadata_bytes = 0;
  uint64_t body_bytes = 0;
};

// No rows, but the dictionaries.
arrow::Result<std::shared_ptr<arrow::ArrayData>> EmptyLike(const arrow::ArrayData& array) {
  ARROW_ASSIGN_OR_RAISE(const auto made, arrow::MakeEmptyArray(array.type));
  std::shared_ptr<arrow::ArrayData> empty = made->data()->Copy();
  empty->dictionary = array.dictionary;
  for (size_t i = 0; i < empty->child_data.size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(empty->child_data[i], EmptyLike(*array.child_data[i]));
  }
  return empty;
}

// An empty array at an offset whose buffer came empty through the C Data interface makes Arrow's
// writer cut a piece of negative size from it, so empty arrays are replaced, at every depth.
arrow::Result<std::shared_ptr<arrow::ArrayData>> Tidy(const arrow::ArrayData& array) {
  if (array.length == 0) return EmptyLike(array);
  std::shared_ptr<arrow::ArrayData> tidy = array.Copy();
  for (auto& child : tidy->child_data) {
    ARROW_ASSIGN_OR_RAISE(child, Tidy(*child));
  }
  return tidy;
}

arrow::Result<Layout> Plan(const arrow::RecordBatch& batch) {
  arrow::ArrayDataVector columns;
  for (const auto& column : batch.column_data()) {
    ARROW_ASSIGN_OR_RAISE(auto tidy, Tidy(*column));
    columns.push_back(std::move(tidy));
  }
  const auto rows = arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), std::move(columns));
  Layout layout;
  ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchPayload(*rows, WriteOptions(), &layout.payload));
  layout.metadata_bytes =
      RoundUp(kMessagePrefixBytes + static_cast<uint64_t>(layout.payload.metadata->size()));
  for (const auto& buffer : layout.payload.body_buffers) {
    const int64_t size = buffer == nullptr ? 0 : buffer->size();
    layout.places.push_back({static_cast<int64_t>(layout.body_bytes), size});
    layout.body_bytes += RoundUp(static_cast<uint64_t>(size));
  }
  return layout;
}

void CopyBody(const Layout& layout, std::byte* body) {
  for (size_t i = 0; i < layout.places.size(); ++i) {
    const auto size = static_cast<size_t>(layout.places[i].size);
    std::byte* to = body + layout.places[i].offset;
    if (size > 0) {
      const uint8_t* from = layout.payload.body_buffers[i]->data();
      StreamCopy(to, reinterpret_cast<const std::byte*>(from), size);
    }
    std::memset(to + size, 0, RoundUp(size) - size);
  }
}

// The reader writes dictionary pointers into the dictionaries it is given (nested ones), so each
// read gets nodes of its own; buffers are shared.
std::shared_ptr<arrow::ArrayData> CopyNodes(const arrow::ArrayData& array) {
  std::shared_ptr<arrow::ArrayData> copy = array.Copy();
  for (auto& child : copy->child_data) child = CopyNodes(*child);
  return copy;
}

// `dictionaries`: a batch that carries them.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> ReadMessage(
    const arrow::RecordBatch& dictionaries, const std::shared_ptr<arrow::Buffer>& message) {
  ARROW_ASSIGN_OR_RAISE(MessageParts parts, SplitMessage(message));
  ARROW_ASSIGN_OR_RAISE(auto opened, arrow::ipc::Message::Open(parts.metadata, parts.body));
  arrow::ipc::DictionaryMemo memo;
  ARROW_RETURN_NOT_OK(memo.fields().AddSchemaFields(*dictionaries.schema()));
  ARROW_ASSIGN_OR_RAISE(auto collected,
                        arrow::ipc::CollectDictionaries(dictionaries, memo.fields()));
  for (const auto& [id, dictionary] : collected) {
    ARROW_RETURN_NOT_OK(memo.AddDictionary(id, CopyNodes(*dictionary->data())));
  }
  return arrow::ipc::ReadRecordBatch(*opened, dictionaries.schema(), &memo,
                                     arrow::ipc::IpcReadOptions::Defaults());
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> ReadFirstBatch(
    const std::shared_ptr<arrow::Buffer>& stream) {
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(
                                         std::make_shared<arrow::io::BufferReader>(stream)));
  std::shared_ptr<arrow::RecordBatch> batch;
  ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
  return batch;
}

uint64_t CountNodes(const arrow::DataType& type) {
  if (type.id() == arrow::Type::EXTENSION) {
    return CountNodes(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  uint64_t nodes = 1;
  for (const auto& field : type.fields()) nodes += CountNodes(*field->type());
  return nodes;
}

}  // namespace

arrow::Result<std::shared_ptr<TableHeader>> TableHeader::FromBatch(
    const arrow::RecordBatch& sample) {
  arrow::ArrayDataVector columns;
  for (const auto& column : sample.column_data()) {
    ARROW_ASSIGN_OR_RAISE(auto empty, EmptyLike(*column));
    columns.push_back(std::move(empty));
  }
  ARROW_ASSIGN_OR_RAISE(auto sink, arrow::io::BufferOutputStream::Create());
  ARROW_ASSIGN_OR_RAISE(auto writer,
                        arrow::ipc::MakeStreamWriter(sink, sample.schema(), WriteOptions()));
  ARROW_RETURN_NOT_OK(
      writer->WriteRecordBatch(*arrow::RecordBatch::Make(sample.schema(), 0, std::move(columns))));
  ARROW_RETURN_NOT_OK(writer->Close());
  ARROW_ASSIGN_OR_RAISE(auto bytes, sink->Finish());
  return Parse(std::move(bytes));
}

arrow::Result<std::shared_ptr<TableHeader>> TableHeader::Parse(
    std::shared_ptr<arrow::Buffer> bytes) {
  auto batch = ReadFirstBatch(bytes);
  if (!batch.ok() || *batch == nullptr) {
    return arrow::Status::SerializationError("[shard] no table header in ", bytes->size(),
                                             " bytes: ", batch.status().message());
  }
  auto header = std::make_shared<TableHeader>();
  header->empty_ = std::move(*batch);
  header->bytes_ = std::move(bytes);
  return header;
}

arrow::Status TableHeader::CheckEquals(const TableHeader& other) const {
  if (!schema()->Equals(*other.schema(), /*check_metadata=*/true)) {
    return arrow::Status::TypeError("schemas differ, got\n", schema()->ToString(true), "\nand\n",
                                    other.schema()->ToString(true));
  }
  const arrow::ipc::DictionaryFieldMapper mapper(*schema());
  ARROW_ASSIGN_OR_RAISE(const auto mine, arrow::ipc::CollectDictionaries(*empty_, mapper));
  ARROW_ASSIGN_OR_RAISE(const auto theirs, arrow::ipc::CollectDictionaries(*other.empty_, mapper));
  for (size_t i = 0; i < mine.size(); ++i) {
    if (!mine[i].second->Equals(theirs[i].second)) {
      return arrow::Status::TypeError("dictionaries differ, got ", mine[i].second->length(),
                                      " and ", theirs[i].second->length(), " values");
    }
  }
  return arrow::Status::OK();
}

arrow::Result<Shard> WriteShard(SymmetricHeap& heap, const arrow::RecordBatch& batch) {
  ARROW_ASSIGN_OR_RAISE(const Layout layout, Plan(batch));
  const uint64_t size = layout.metadata_bytes + layout.body_bytes;
  ARROW_ASSIGN_OR_RAISE(Block block, heap.Allocate(size));
  std::byte* base = block.data();
  ARROW_RETURN_NOT_OK(WriteMessageHead(base, layout.metadata_bytes, *layout.payload.metadata,
                                       layout.places, static_cast<int64_t>(layout.body_bytes)));
  CopyBody(layout, base + layout.metadata_bytes);
  Shard shard{nullptr, block.where(), batch.num_rows()};
  shard.message = SymmetricHeap::ToBuffer(std::move(block), size);
  // Erasing goes over the batch as it now lies in the block, where all offsets are 0.
  ARROW_ASSIGN_OR_RAISE(const auto written, ReadMessage(batch, shard.message));
  for (const auto& column : written->column_data()) {
    ARROW_RETURN_NOT_OK(EraseDeadBytes(*column));
  }
  return shard;
}

arrow::Result<uint64_t> ShardBytes(const arrow::RecordBatch& batch) {
  ARROW_ASSIGN_OR_RAISE(const Layout layout, Plan(batch));
  return layout.metadata_bytes + layout.body_bytes;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> ReadShard(
    const TableHeader& header, const std::shared_ptr<arrow::Buffer>& message) {
  auto batch = ReadMessage(*header.empty(), message);
  if (batch.ok()) return batch;
  return arrow::Status::SerializationError("[read] a shard does not hold what its table says: ",
                                           batch.status().message());
}

arrow::Status WriteShardMetadata(std::byte* block, uint64_t metadata_bytes,
                                 const arrow::RecordBatch& batch) {
  arrow::ipc::IpcPayload payload;
  ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchPayload(batch, WriteOptions(), &payload));
  const auto* body = reinterpret_cast<const uint8_t*>(block) + metadata_bytes;
  std::vector<BufferPlace> places;
  int64_t end = 0;
  for (const auto& buffer : payload.body_buffers) {
    BufferPlace place{end, buffer == nullptr ? 0 : buffer->size()};
    if (place.size > 0) {
      // Compared as integers: a buffer somewhere else entirely has no distance to the block.
      place.offset = static_cast<int64_t>(buffer->address() - reinterpret_cast<uintptr_t>(body));
      if (place.offset < end || place.offset % static_cast<int64_t>(kAlignment) != 0) {
        return arrow::Status::Invalid("[shard] buffer ", places.size(),
                                      " does not lie in IPC order in its block, got offset ",
                                      place.offset, " after ", end);
      }
      end = static_cast<int64_t>(RoundUp(static_cast<uint64_t>(place.offset + place.size)));
    }
    places.push_back(place);
  }
  return WriteMessageHead(block, metadata_bytes, *payload.metadata, places, end);
}

// Per node 16 bytes, per buffer 16, three buffers at most (views have a count beside them, and
// reach more only with data of their own); the tables round them stay well below 256 bytes.
uint64_t ShardMetadataBytes(const arrow::Schema& schema) {
  uint64_t nodes = 0;
  for (const auto& field : schema.fields()) nodes += CountNodes(*field->type());
  return RoundUp(256 + 72 * nodes);
}

}  // namespace flightshmem
