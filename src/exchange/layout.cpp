// SPDX-License-Identifier: Apache-2.0
#include "exchange/layout.h"

#include <arrow/extension_type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include <limits>
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

uint64_t BitmapBytes(int64_t rows) {
  return static_cast<uint64_t>(arrow::bit_util::BytesForBits(rows));
}

ColumnPlace Place(const ColumnShape& shape, const Totals& totals, Placer* block, Placer* scratch) {
  const auto rows = static_cast<uint64_t>(totals.rows);
  ColumnPlace place;
  place.nulls = totals.nulls;
  if (shape.kind == ColumnKind::kNull) return place;
  if (totals.nulls > 0) {
    place.validity = block->Take(BitmapBytes(totals.rows));
    place.validity_map = scratch->Take(rows);
  }
  switch (shape.kind) {
    case ColumnKind::kBool:
      place.values = block->Take(BitmapBytes(totals.rows));
      place.bool_map = scratch->Take(rows);
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
  if (type.id() == arrow::Type::NA) return ColumnShape{ColumnKind::kNull, 0};
  if (type.id() == arrow::Type::BOOL) return ColumnShape{ColumnKind::kBool, 1};
  if (arrow::is_binary_like(type.id())) return ColumnShape{ColumnKind::kText, 4};
  if (arrow::is_large_binary_like(type.id())) return ColumnShape{ColumnKind::kText, 8};
  if (arrow::is_primitive(type.id()) || arrow::is_fixed_size_binary(type.id())) {
    return ColumnShape{ColumnKind::kFixed, static_cast<uint64_t>(type.byte_width())};
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

ShardLayout LayOutShard(const std::vector<ColumnShape>& shapes, const Counts& counts,
                        int destination, uint64_t metadata_bytes) {
  ShardLayout layout;
  layout.metadata_bytes = metadata_bytes;
  Placer block(metadata_bytes);
  Placer scratch(0);
  for (int source = 0; source < counts.n_sources(); ++source) {
    layout.rows += counts.rows(source, destination);
  }
  for (size_t c = 0; c < shapes.size(); ++c) {
    const Totals totals = Sum(counts, counts.n_sources(), destination, c);
    layout.columns.push_back(Place(shapes[c], totals, &block, &scratch));
  }
  layout.block_bytes = block.end();
  layout.scratch_bytes = scratch.end();
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
    ColumnPiece& piece = pieces[c];
    if (place.validity_map.bytes > 0) {
      piece.validity_map = {place.validity_map.offset + first_row, rows};
    }
    if (shapes[c].kind == ColumnKind::kBool) {
      piece.bool_map = {place.bool_map.offset + first_row, rows};
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

arrow::Status CheckTextFits(const arrow::Schema& schema, const std::vector<ColumnShape>& shapes,
                            const Counts& counts) {
  for (size_t c = 0; c < shapes.size(); ++c) {
    if (shapes[c].kind != ColumnKind::kText || shapes[c].width != 4) continue;
    for (int d = 0; d < counts.n_destinations(); ++d) {
      const int64_t bytes = Sum(counts, counts.n_sources(), d, c).text_bytes;
      if (bytes <= std::numeric_limits<int32_t>::max()) continue;
      const arrow::Field& field = *schema.field(static_cast<int>(c));
      const bool is_string = field.type()->id() == arrow::Type::STRING;
      return arrow::Status::CapacityError(
          "[exchange] column '", field.name(),
          "' would hold more text than 32-bit offsets reach, got ", bytes, " bytes, PE ", d, "/",
          counts.n_sources(), ": cast it to ", is_string ? "large_string" : "large_binary");
    }
  }
  return arrow::Status::OK();
}

}  // namespace flightshmem
