// SPDX-License-Identifier: Apache-2.0
//
// Where every byte of an exchange goes. Pure functions of the counts, computed alike on all PEs, so
// that a source knows its places in a destination's shard without asking.
//
//   shard block:    [IPC metadata][column 0: validity, values, text][column 1: ...]   64-byte steps
//
//   rows of a column:   | from PE 0 | from PE 1 | ... |      each is a *piece*
//
// The pieces of a bitmap meet within 64-bit words. A source writes the words that are its own
// alone; what it has of the first and of the last word, its *edges*, it tells the destination.
#pragma once

#include <arrow/result.h>
#include <arrow/type.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace flightshmem {

enum class ColumnKind : uint8_t { kNull, kBool, kFixed, kText };

// How the rows of a column lie in memory.
struct ColumnShape {
  ColumnKind kind = ColumnKind::kNull;
  uint64_t width = 0;         // bytes of a fixed slot, or of a text offset (4 or 8) in the result
  uint64_t source_width = 0;  // of a text offset in the batches; else as width
};

// The type that says how the bytes lie: a dictionary's indices, an extension's storage.
const arrow::DataType& PhysicalType(const arrow::DataType& type);

// NotImplemented naming the column when the exchange does not move its type.
arrow::Result<std::vector<ColumnShape>> ShapesOf(const arrow::Schema& schema);

// How much every source sends to every destination.
class Counts {
 public:
  Counts(int n_sources, int n_destinations, size_t n_columns);

  int n_sources() const { return n_sources_; }
  int n_destinations() const { return n_destinations_; }

  int64_t& rows(int source, int destination) { return *At(source, destination); }
  int64_t& nulls(int source, int destination, size_t column) {
    return At(source, destination)[1 + 2 * column];
  }
  int64_t& text_bytes(int source, int destination, size_t column) {
    return At(source, destination)[2 + 2 * column];
  }
  int64_t rows(int source, int destination) const { return *At(source, destination); }
  int64_t nulls(int source, int destination, size_t column) const {
    return At(source, destination)[1 + 2 * column];
  }
  int64_t text_bytes(int source, int destination, size_t column) const {
    return At(source, destination)[2 + 2 * column];
  }

  // One source's counts, and all of them in order of sources: what AllGather takes.
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(values_)); }

 private:
  int64_t* At(int source, int destination) {
    return values_.data() + (static_cast<size_t>(source) * n_destinations_ + destination) * stride_;
  }
  const int64_t* At(int source, int destination) const {
    return const_cast<Counts*>(this)->At(source, destination);
  }

  int n_sources_;
  int n_destinations_;
  size_t stride_;
  std::vector<int64_t> values_;
};

struct Region {
  uint64_t offset = 0;  // from the start of its block
  uint64_t bytes = 0;   // 0: there is none
};

// The values of a bool column are a bitmap.
struct ColumnPlace {
  Region validity, values, text;
  int64_t nulls = 0;
};

struct ShardLayout {
  int64_t rows = 0;
  std::vector<ColumnPlace> columns;
  uint64_t metadata_bytes = 0;
  uint64_t block_bytes = 0;
};

// The shard of one destination. A column without nulls there has no validity buffer.
ShardLayout LayOutShard(const std::vector<ColumnShape>& shapes, const Counts& counts,
                        int destination, uint64_t metadata_bytes);

// Bits [begin, begin + count) of the bitmap at `offset`. No bitmap when `offset` is 0.
struct BitPiece {
  uint64_t offset = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

// The words of a piece that no other piece has part in.
Region OwnWords(const BitPiece& piece);

// What a source has of the words it shares with others. `head`: of the word with its first bit, 0
// when that word begins with it. `tail`: of the word with the bit after its last, 0 when that word
// begins there or is the head's.
struct BitEdges {
  uint64_t head = 0;
  uint64_t tail = 0;
};

// What one source writes of a column. For text, `values` are the offsets where its values end and
// `text_base` is the offset where the first one begins.
struct ColumnPiece {
  Region values, text;
  BitPiece validity, bools;
  int64_t text_base = 0;
};

std::vector<ColumnPiece> PiecesOf(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                                  const Counts& counts, int source, int destination);

// The most text that 32-bit offsets reach.
inline constexpr int64_t kMaxShortText = std::numeric_limits<int32_t>::max();

// Gives columns whose text would pass `max_text` bytes on some destination 64-bit offsets: in
// `shapes`, and in the schema it returns (string becomes large_string, binary large_binary).
std::shared_ptr<arrow::Schema> WidenLongText(const std::shared_ptr<arrow::Schema>& schema,
                                             const Counts& counts, int64_t max_text,
                                             std::vector<ColumnShape>* shapes);

}  // namespace flightshmem
