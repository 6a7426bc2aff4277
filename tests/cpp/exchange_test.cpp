// SPDX-License-Identifier: Apache-2.0
#include "exchange/exchange.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/cast.h>
#include <arrow/datum.h>
#include <arrow/json/from_string.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <cstring>
#include <random>
#include <sstream>

#include "threads_as_pes.h"

namespace flightshmem {
namespace {

using testing::Reach;
using testing::RunOnPes;

constexpr uint64_t kSegmentBytes = 16 << 20;

std::shared_ptr<arrow::Schema> TestSchema() {
  return arrow::schema({
      arrow::field("id", arrow::int64()),
      arrow::field("flag", arrow::boolean()),
      arrow::field("small", arrow::int8()),
      arrow::field("half", arrow::float16()),
      arrow::field("ratio", arrow::float64()),
      arrow::field("price", arrow::decimal128(20, 2)),
      arrow::field("huge", arrow::decimal256(60, 0)),
      arrow::field("code", arrow::fixed_size_binary(3)),
      arrow::field("text", arrow::utf8()),
      arrow::field("long_text", arrow::large_utf8()),
      arrow::field("nothing", arrow::null()),
      arrow::field("when", arrow::timestamp(arrow::TimeUnit::MICRO, "UTC")),
      arrow::field("kind", arrow::dictionary(arrow::int8(), arrow::utf8())),
  });
}

// One column as JSON text; every seventh row or so is null.
std::string Column(int column, int pe, int rows) {
  std::mt19937 random(static_cast<uint32_t>(1000 * pe + column));
  std::ostringstream json;
  json << "[";
  for (int i = 0; i < rows; ++i) {
    const uint32_t r = random();
    json << (i > 0 ? "," : "");
    if (column == 10 || (column > 0 && r % 7 == 0)) {
      json << "null";
    } else if (column == 0) {
      json << pe * 1000000 + i;
    } else if (column == 1) {
      json << (r % 2 == 0 ? "true" : "false");
    } else if (column == 5) {
      json << '"' << r % 1000 << "." << 10 + r % 90 << '"';
    } else if (column == 6) {
      json << '"' << r << "123456789012345678901234567890" << '"';
    } else if (column == 7) {
      json << '"' << 100 + r % 900 << '"';
    } else if (column == 8 || column == 9) {
      json << '"' << std::string(r % 23, static_cast<char>('a' + r % 26)) << '"';
    } else {
      json << r % 3;
    }
  }
  json << "]";
  return json.str();
}

std::shared_ptr<arrow::RecordBatch> TestBatch(int pe, int rows) {
  const auto schema = TestSchema();
  arrow::ArrayVector columns;
  for (int c = 0; c < schema->num_fields() - 1; ++c) {
    columns.push_back(
        VALUE(arrow::json::ArrayFromJSONString(schema->field(c)->type(), Column(c, pe, rows))));
  }
  const auto words = VALUE(arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["x","y","z"])"));
  const auto codes = VALUE(arrow::json::ArrayFromJSONString(arrow::int8(), Column(12, pe, rows)));
  columns.push_back(
      VALUE(arrow::DictionaryArray::FromArrays(schema->fields().back()->type(), codes, words)));
  return arrow::RecordBatch::Make(schema, rows, columns);
}

uint16_t Destination(int pe, int64_t row, int n_pes) {
  return static_cast<uint16_t>(static_cast<uint32_t>((row * 2654435761u + pe) >> 4) % n_pes);
}

std::shared_ptr<arrow::UInt16Array> PesOf(int pe, int64_t begin, int64_t rows, int n_pes) {
  auto buffer = VALUE(arrow::AllocateBuffer(rows * 2));
  auto* pes = reinterpret_cast<uint16_t*>(buffer->mutable_data());
  for (int64_t i = 0; i < rows; ++i) pes[i] = Destination(pe, begin + i, n_pes);
  return std::make_shared<arrow::UInt16Array>(rows,
                                              std::shared_ptr<arrow::Buffer>(std::move(buffer)));
}

int RowsOf(int pe) { return pe == 1 ? 0 : 1500 + 777 * pe; }

// What `destination` should get: all rows of all PEs in order, filtered (-1: all of them).
std::shared_ptr<arrow::RecordBatch> Expected(int destination, int n_pes) {
  arrow::RecordBatchVector parts;
  for (int pe = 0; pe < n_pes; ++pe) {
    const auto batch = TestBatch(pe, RowsOf(pe));
    arrow::Int64Builder rows;
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      const auto to = static_cast<int>(Destination(pe, i, n_pes));
      if (destination < 0 || to == destination) CHECK_OK(rows.Append(i));
    }
    parts.push_back(VALUE(arrow::compute::Take(batch, VALUE(rows.Finish()))).record_batch());
  }
  const auto table = VALUE(arrow::Table::FromRecordBatches(TestSchema(), parts));
  return VALUE(table->CombineChunksToBatch());
}

// This PE's rows in slices, so that arrays have offsets.
arrow::RecordBatchVector Slices(const std::shared_ptr<arrow::RecordBatch>& batch) {
  arrow::RecordBatchVector slices{batch->Slice(0, 0)};
  for (int64_t begin = 0; begin < batch->num_rows(); begin += 613) {
    slices.push_back(batch->Slice(begin, 613));
  }
  return slices;
}

// Leaves a pattern in all free memory.
void Poison(SymmetricHeap& heap) {
  const Block all = VALUE(heap.Allocate(heap.stats().largest_free_bytes));
  std::memset(all.data(), 0xAB, all.size());
}

// Every byte of the body is what one local write of the expected rows makes: values, order,
// padding, null slots.
void CheckShard(const Shard& shard, const arrow::RecordBatch& batch,
                const std::shared_ptr<arrow::RecordBatch>& expected, SymmetricHeap& heap) {
  CHECK_OK(batch.ValidateFull());
  CHECK(batch.Equals(*expected, /*check_metadata=*/true, arrow::EqualOptions().nans_equal(true)));
  CHECK(shard.rows == expected->num_rows());
  const auto header = VALUE(TableHeader::FromBatch(batch));
  CHECK(VALUE(ReadShard(*header, shard.message))->Equals(batch));
  const Shard local = VALUE(WriteShard(heap, *expected));
  const auto body_of = [](const Shard& s, const arrow::RecordBatch& rows) {
    const auto first = rows.column_data(0)->buffers[1];
    return arrow::SliceBuffer(s.message, first->data() - s.message->data());
  };
  const auto local_batch = VALUE(ReadShard(*header, local.message));
  CHECK(body_of(shard, batch)->Equals(*body_of(local, *local_batch)));
}

void RunScatter(int n_pes, Reach reach, const ExchangeOptions& options = {}) {
  RunOnPes(n_pes, kSegmentBytes, reach, [&](const std::shared_ptr<SymmetricHeap>& heap) {
    const int pe = heap->transport()->my_pe();
    for (int round = 0; round < 2; ++round) {
      Poison(*heap);
      const auto batches = Slices(TestBatch(pe, RowsOf(pe)));
      std::vector<std::shared_ptr<arrow::UInt16Array>> pes;
      int64_t begin = 0;
      for (const auto& batch : batches) {
        pes.push_back(PesOf(pe, begin, batch->num_rows(), n_pes));
        begin += batch->num_rows();
      }
      const auto [shard, batch] = VALUE(Scatter(heap, TestSchema(), batches, pes, options));
      CHECK(heap->stats().blocks == 1);
      CheckShard(shard, *batch, Expected(pe, n_pes), *heap);
    }
  });
}

// The rows are the same everywhere; a node keeps them once, where there is most room.
void RunReplicate(int n_pes, Reach reach, const ExchangeOptions& options = {}) {
  RunOnPes(n_pes, kSegmentBytes, reach, [&](const std::shared_ptr<SymmetricHeap>& heap) {
    Transport& transport = *heap->transport();
    const int pe = transport.my_pe();
    Poison(*heap);
    const int roomiest = n_pes - 1;
    const Block taken = VALUE(heap->Allocate(pe == roomiest ? 64 : 4096));
    const auto batches = Slices(TestBatch(pe, RowsOf(pe)));
    const auto [shard, batch] = VALUE(Replicate(heap, TestSchema(), batches, options));
    const int keeper = reach == Reach::kDirect ? roomiest : pe;
    CHECK(shard.where.pe == keeper);
    CHECK(heap->stats().blocks == 1 + (pe == keeper ? 1 : 0));
    CheckShard(shard, *batch, Expected(-1, n_pes), *heap);
  });
}

FS_TEST(ScatterThroughPointers) {
  for (int n_pes : {1, 2, 3, 5, 8}) RunScatter(n_pes, Reach::kDirect);
}

FS_TEST(ScatterOnAnyProcessor) {
  const ExchangeOptions portable{.is_portable = true};
  for (int n_pes : {2, 3}) RunScatter(n_pes, Reach::kDirect, portable);
  RunScatter(3, Reach::kRemoteOnly, {.staging_bytes = 4000, .is_portable = true});
}

FS_TEST(ScatterByPuts) {
  for (int n_pes : {2, 4}) RunScatter(n_pes, Reach::kRemoteOnly);
}

FS_TEST(ScatterByPutsThroughSmallStages) {
  for (int64_t staging_bytes : {int64_t{1}, int64_t{4000}, int64_t{100000}}) {
    RunScatter(3, Reach::kRemoteOnly, {.staging_bytes = staging_bytes});
  }
}

FS_TEST(ReplicateThroughPointers) {
  for (int n_pes : {1, 2, 5}) RunReplicate(n_pes, Reach::kDirect);
}

FS_TEST(ReplicateByPuts) { RunReplicate(3, Reach::kRemoteOnly); }

FS_TEST(BorrowersMayLetGoLast) {
  RunOnPes(3, kSegmentBytes, Reach::kDirect, [](const std::shared_ptr<SymmetricHeap>& heap) {
    Transport& transport = *heap->transport();
    auto rows = VALUE(Replicate(heap, TestSchema(), {TestBatch(transport.my_pe(), 10)}));
    const bool keeps = rows.shard.where.pe == transport.my_pe();
    if (keeps) rows = {};
    CHECK_OK(transport.Barrier());
    if (keeps) CHECK(heap->stats().blocks == 1);
    if (!keeps) CHECK(rows.batch->num_rows() == 30 && rows.batch->ValidateFull().ok());
    CHECK_OK(transport.Barrier());
    rows = {};
    CHECK_OK(transport.Barrier());
    CHECK(heap->stats().blocks == 0);
  });
}

FS_TEST(LongTextGetsWideOffsets) {
  const ExchangeOptions options{.max_short_text = 5000};
  RunOnPes(2, kSegmentBytes, Reach::kDirect, [&](const std::shared_ptr<SymmetricHeap>& heap) {
    const int pe = heap->transport()->my_pe();
    const auto batch = TestBatch(pe, RowsOf(0));
    const auto pes = PesOf(pe, 0, batch->num_rows(), 2);
    const auto [shard, result] = VALUE(Scatter(heap, TestSchema(), {batch}, {pes}, options));
    CHECK(result->schema()->GetFieldByName("text")->type()->Equals(arrow::large_utf8()));
    CHECK(result->schema()->GetFieldByName("long_text")->type()->Equals(arrow::large_utf8()));
    CHECK_OK(result->ValidateFull());
    const auto plain = VALUE(Scatter(heap, TestSchema(), {batch}, {pes}));
    CHECK(plain.batch->schema()->Equals(*TestSchema()));
    const auto narrow = result->GetColumnByName("text");
    const auto wide = plain.batch->GetColumnByName("text");
    CHECK(VALUE(arrow::compute::Cast(*wide, arrow::large_utf8()))->Equals(narrow));
  });
}

FS_TEST(NoRoomOnOnePeFailsAlikeOnAll) {
  RunOnPes(3, 3 << 20, Reach::kDirect, [](const std::shared_ptr<SymmetricHeap>& heap) {
    const int pe = heap->transport()->my_pe();
    const int rows = 100000;
    auto numbers = VALUE(arrow::json::ArrayFromJSONString(arrow::int64(), Column(0, pe, rows)));
    const auto schema = arrow::schema({arrow::field("id", arrow::int64())});
    const auto batch = arrow::RecordBatch::Make(schema, rows, {numbers});
    auto buffer = VALUE(arrow::AllocateBuffer(rows * 2));
    std::fill_n(reinterpret_cast<uint16_t*>(buffer->mutable_data()), rows, 2);  // all to PE 2
    auto pes = std::make_shared<arrow::UInt16Array>(
        rows, std::shared_ptr<arrow::Buffer>(std::move(buffer)));
    const HeapStats before = heap->stats();
    for (int round = 0; round < 2; ++round) {
      const arrow::Status status = Scatter(heap, schema, {batch}, {pes}).status();
      CHECK(status.IsOutOfMemory());
      const auto& detail = dynamic_cast<const HeapExhaustedDetail&>(*status.detail());
      CHECK(detail.pe == 2);
      CHECK(detail.requested_bytes > 3 * 8 * static_cast<uint64_t>(rows));
      CHECK(detail.stats.capacity_bytes == before.capacity_bytes);
      CHECK(heap->stats().used_bytes == before.used_bytes);
    }
  });
}

FS_TEST(SchemasThatDifferFailAlikeOnAll) {
  RunOnPes(3, kSegmentBytes, Reach::kDirect, [](const std::shared_ptr<SymmetricHeap>& heap) {
    const auto type = heap->transport()->my_pe() == 1 ? arrow::utf8() : arrow::int64();
    const auto schema = arrow::schema({arrow::field("a", arrow::int8()), arrow::field("b", type)});
    const arrow::Status status = Scatter(heap, schema, {}, {}).status();
    CHECK(status.IsTypeError());
    CHECK(
        status.message() ==
        "[exchange] column 1 differs from PE 0's 'b' int64, got 'b' string, PE 1/3: give every PE "
        "the same columns (cast or select them first)");
  });
}

FS_TEST(PeNumbersBeyondTheJobFailAlikeOnAll) {
  RunOnPes(2, kSegmentBytes, Reach::kDirect, [](const std::shared_ptr<SymmetricHeap>& heap) {
    const auto schema = arrow::schema({arrow::field("a", arrow::int8())});
    const auto one = VALUE(arrow::json::ArrayFromJSONString(arrow::int8(), "[1]"));
    const char* number = heap->transport()->my_pe() == 1 ? "[2]" : "[1]";
    const auto pes = std::static_pointer_cast<arrow::UInt16Array>(
        VALUE(arrow::json::ArrayFromJSONString(arrow::uint16(), number)));
    const auto batch = arrow::RecordBatch::Make(schema, 1, {one});
    const arrow::Status status = Scatter(heap, schema, {batch}, {pes}).status();
    CHECK(status.IsInvalid());
    CHECK(status.message() == "[exchange] PE numbers must be below 2, got 2, PE 1/2");
  });
}

}  // namespace
}  // namespace flightshmem
