// SPDX-License-Identifier: Apache-2.0
#include "exchange/assemble.h"

#include <arrow/array/data.h>
#include <arrow/buffer.h>

#include <cstring>
#include <utility>

namespace flightshmem {
namespace {

void ZeroAfter(const Region& region, uint64_t next, std::byte* block) {
  const uint64_t end = region.offset + region.bytes;
  std::memset(block + end, 0, next - end);
}

// Adds one source's bits to words that are still to be zeroed when they are met first.
class Stitcher {
 public:
  explicit Stitcher(std::byte* bitmap) : words_(reinterpret_cast<uint64_t*>(bitmap)) {}

  void Add(int64_t begin, int64_t count, const BitEdges& edges) {
    if (count == 0) return;
    const int64_t end = begin + count;
    if (begin % 64 != 0) Or(begin / 64, edges.head);
    if (end % 64 != 0) Or(end / 64, edges.tail);
  }

 private:
  void Or(int64_t word, uint64_t bits) {
    if (word != last_) words_[word] = 0;
    last_ = word;
    words_[word] |= bits;
  }

  uint64_t* words_;
  int64_t last_ = -1;
};

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

void StitchBitmaps(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                   const Counts& counts, int destination, const EdgesBySource& edges,
                   std::byte* block) {
  for (size_t c = 0; c < shapes.size(); ++c) {
    const ColumnPlace& place = layout.columns[c];
    const auto stitch = [&](const Region& bitmap, size_t which) {
      if (bitmap.bytes == 0) return;
      Stitcher stitcher(block + bitmap.offset);
      int64_t begin = 0;
      for (int source = 0; source < counts.n_sources(); ++source) {
        const int64_t rows = counts.rows(source, destination);
        stitcher.Add(begin, rows, edges[source][2 * c + which]);
        begin += rows;
      }
    };
    stitch(place.validity, 0);
    if (shapes[c].kind == ColumnKind::kBool) stitch(place.values, 1);
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
