// SPDX-License-Identifier: Apache-2.0
#include "exchange/layout.h"

#include <arrow/extension_type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include <string>

namespace flightshmem {
namespace {

constexpr uint64_t kAlignment = 64;

// Hands out consecutive aligned regions.
class Placer {
 public:
  explicit Placer(uint64_t begin) : end_(begin) {}
  Region Take(uint64_t bytes) {
    const Region region{end_, bytes};
    end_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return region;
  }
  uint64_t end() const { return end_; }

 private:
  uint64_t end_;
};

struct Totals {
  int64_t rows = 0;
  int64_t nulls = 0;
  int64_t text_bytes = 0;
};

// Of the sources before `end`.
Totals Sum(const Counts& counts, int end, int destination, size_t column) {
  Totals totals;
  for (int source = 0; source < end; ++source) {
    totals.rows += counts.rows(source, destination);
    totals.nulls += counts.nulls(source, destination, column);
    totals.text_bytes += counts.text_bytes(source, destination, column);
  }
  return totals;
}

bool HasLongText(const Counts& counts, size_t column, int64_t max_text) {
  for (int d = 0; d < counts.n_destinations(); ++d) {
    if (Sum(counts, counts.n_sources(), d, column).text_bytes > max_text) return true;
  }
  return false;
}

uint64_t BitmapBytes(int64_t rows) {
  return static_cast<uint64_t>(arrow::bit_util::BytesForBits(rows));
}

ColumnPlace Place(const ColumnShape& shape, const Totals& totals, Placer* block) {
  const auto rows = static_cast<uint64_t>(totals.rows);
  ColumnPlace place;
  place.nulls = totals.nulls;
  if (shape.kind == ColumnKind::kNull) return place;
  if (totals.nulls > 0) place.validity = block->Take(BitmapBytes(totals.rows));
  switch (shape.kind) {
    case ColumnKind::kBool:
      place.values = block->Take(BitmapBytes(totals.rows));
      break;
    case ColumnKind::kText:
      place.values = block->Take((rows + 1) * shape.width);
      place.text = block->Take(static_cast<uint64_t>(totals.text_bytes));
      break;
    default:
      place.values = block->Take(rows * shape.width);
  }
  return place;
}

arrow::Result<ColumnShape> ShapeOf(const arrow::Field& field) {
  const arrow::DataType& type = PhysicalType(*field.type());
  if (type.id() == arrow::Type::NA) return ColumnShape{ColumnKind::kNull, 0, 0};
  if (type.id() == arrow::Type::BOOL) return ColumnShape{ColumnKind::kBool, 1, 1};
  if (arrow::is_binary_like(type.id())) return ColumnShape{ColumnKind::kText, 4, 4};
  if (arrow::is_large_binary_like(type.id())) return ColumnShape{ColumnKind::kText, 8, 8};
  if (arrow::is_primitive(type.id()) || arrow::is_fixed_size_binary(type.id())) {
    const auto width = static_cast<uint64_t>(type.byte_width());
    return ColumnShape{ColumnKind::kFixed, width, width};
  }
  return arrow::Status::NotImplemented("[exchange] column '", field.name(),
                                       "' cannot move between PEs, got type ",
                                       field.type()->ToString(), ": drop it or cast it first");
}

}  // namespace

const arrow::DataType& PhysicalType(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return *static_cast<const arrow::DictionaryType&>(type).index_type();
  }
  if (type.id() == arrow::Type::EXTENSION) {
    return PhysicalType(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  return type;
}

arrow::Result<std::vector<ColumnShape>> ShapesOf(const arrow::Schema& schema) {
  std::vector<ColumnShape> shapes;
  for (const auto& field : schema.fields()) {
    ARROW_ASSIGN_OR_RAISE(ColumnShape shape, ShapeOf(*field));
    shapes.push_back(shape);
  }
  return shapes;
}

Counts::Counts(int n_sources, int n_destinations, size_t n_columns)
    : n_sources_(n_sources),
      n_destinations_(n_destinations),
      stride_(1 + 2 * n_columns),
      values_(static_cast<size_t>(n_sources) * n_destinations * stride_) {}

Region OwnWords(const BitPiece& piece) {
  const int64_t first = (piece.begin + 63) / 64;
  const int64_t end = (piece.begin + piece.count) / 64;
  if (piece.offset == 0 || end <= first) return {};
  return {piece.offset + static_cast<uint64_t>(first) * 8, static_cast<uint64_t>(end - first) * 8};
}

ShardLayout LayOutShard(const std::vector<ColumnShape>& shapes, const Counts& counts,
                        int destination, uint64_t metadata_bytes) {
  ShardLayout layout;
  layout.metadata_bytes = metadata_bytes;
  Placer block(metadata_bytes);
  for (int source = 0; source < counts.n_sources(); ++source) {
    layout.rows += counts.rows(source, destination);
  }
  for (size_t c = 0; c < shapes.size(); ++c) {
    const Totals totals = Sum(counts, counts.n_sources(), destination, c);
    layout.columns.push_back(Place(shapes[c], totals, &block));
  }
  layout.block_bytes = block.end();
  return layout;
}

std::vector<ColumnPiece> PiecesOf(const std::vector<ColumnShape>& shapes, const ShardLayout& layout,
                                  const Counts& counts, int source, int destination) {
  const auto rows = static_cast<uint64_t>(counts.rows(source, destination));
  std::vector<ColumnPiece> pieces(shapes.size());
  for (size_t c = 0; c < shapes.size(); ++c) {
    const ColumnPlace& place = layout.columns[c];
    const Totals before = Sum(counts, source, destination, c);
    const auto first_row = static_cast<uint64_t>(before.rows);
    const auto bits_of = [&](const Region& bitmap) {
      return BitPiece{bitmap.offset, before.rows, static_cast<int64_t>(rows)};
    };
    ColumnPiece& piece = pieces[c];
    if (place.validity.bytes > 0) piece.validity = bits_of(place.validity);
    if (shapes[c].kind == ColumnKind::kBool) {
      if (place.values.bytes > 0) piece.bools = bits_of(place.values);
    } else if (shapes[c].kind == ColumnKind::kText) {
      const auto bytes = static_cast<uint64_t>(counts.text_bytes(source, destination, c));
      piece.values = {place.values.offset + (first_row + 1) * shapes[c].width,
                      rows * shapes[c].width};
      piece.text = {place.text.offset + static_cast<uint64_t>(before.text_bytes), bytes};
      piece.text_base = before.text_bytes;
    } else if (shapes[c].kind == ColumnKind::kFixed) {
      piece.values = {place.values.offset + first_row * shapes[c].width, rows * shapes[c].width};
    }
  }
  return pieces;
}

std::shared_ptr<arrow::Schema> WidenLongText(const std::shared_ptr<arrow::Schema>& schema,
                                             const Counts& counts, int64_t max_text,
                                             std::vector<ColumnShape>* shapes) {
  arrow::FieldVector fields = schema->fields();
  for (size_t c = 0; c < shapes->size(); ++c) {
    ColumnShape& shape = (*shapes)[c];
    if (shape.kind != ColumnKind::kText || shape.width != 4) continue;
    if (!HasLongText(counts, c, max_text)) continue;
    shape.width = 8;
    const bool is_string = PhysicalType(*fields[c]->type()).id() == arrow::Type::STRING;
    fields[c] = fields[c]->WithType(is_string ? arrow::large_utf8() : arrow::large_binary());
  }
  return arrow::schema(std::move(fields), schema->metadata());
}

}  // namespace flightshmem
