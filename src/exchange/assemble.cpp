// SPDX-License-Identifier: Apache-2.0
#include "exchange/assemble.h"

#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/util/bitmap_generate.h>

#include <cstring>
#include <utility>

namespace flightshmem {
namespace {

void ZeroAfter(const Region& region, uint64_t next, std::byte* block) {
  const uint64_t end = region.offset + region.bytes;
  std::memset(block + end, 0, next - end);
}

void Pack(const Region& map, const Region& bitmap, int64_t rows, const std::byte* scratch,
          std::byte* block) {
  const std::byte* next = scratch + map.offset;
  arrow::internal::GenerateBitsUnrolled(reinterpret_cast<uint8_t*>(block + bitmap.offset), 0, rows,
                                        [&] { return *next++ != std::byte{0}; });
}

std::shared_ptr<arrow::Buffer> Slice(const std::shared_ptr<arrow::Buffer>& message,
                                     const Region& region) {
  return arrow::SliceBuffer(message, static_cast<int64_t>(region.offset),
                            static_cast<int64_t>(region.bytes));
}

}  // namespace

void WriteMargins(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                  std::byte* block) {
  const Region* last = nullptr;
  for (size_t c = 0; c < shapes.size(); ++c) {
    const ColumnPlace& place = layout.columns[c];
    for (const Region* region : {&place.validity, &place.values, &place.text}) {
      if (region->bytes == 0) continue;
      if (last != nullptr) ZeroAfter(*last, region->offset, block);
      last = region;
    }
    if (shapes[c].kind == ColumnKind::kText) {
      std::memset(block + place.values.offset, 0, shapes[c].width);
    }
  }
  if (last != nullptr) ZeroAfter(*last, layout.block_bytes, block);
}

void PackBitmaps(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                 const std::byte* scratch, std::byte* block) {
  for (size_t c = 0; c < shapes.size(); ++c) {
    const ColumnPlace& place = layout.columns[c];
    if (place.validity.bytes > 0) {
      Pack(place.validity_map, place.validity, layout.rows, scratch, block);
    }
    if (shapes[c].kind == ColumnKind::kBool) {
      Pack(place.bool_map, place.values, layout.rows, scratch, block);
    }
  }
}

std::shared_ptr<arrow::RecordBatch> BatchOver(const std::shared_ptr<arrow::Schema>& schema,
                                              const std::vector<ColumnShape>& shapes,
                                              const ShardLayout& layout,
                                              const std::shared_ptr<arrow::Buffer>& message,
                                              const arrow::RecordBatch* sample) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (size_t c = 0; c < shapes.size(); ++c) {
    const ColumnPlace& place = layout.columns[c];
    std::vector<std::shared_ptr<arrow::Buffer>> buffers{nullptr};
    if (place.validity.bytes > 0) buffers[0] = Slice(message, place.validity);
    if (shapes[c].kind != ColumnKind::kNull) buffers.push_back(Slice(message, place.values));
    if (shapes[c].kind == ColumnKind::kText) buffers.push_back(Slice(message, place.text));
    auto column = arrow::ArrayData::Make(schema->field(static_cast<int>(c))->type(), layout.rows,
                                         std::move(buffers), place.nulls);
    if (sample != nullptr)
      column->dictionary = sample->column_data(static_cast<int>(c))->dictionary;
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(schema, layout.rows, std::move(columns));
}

}  // namespace flightshmem
