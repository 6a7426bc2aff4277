// SPDX-License-Identifier: Apache-2.0
#include "exchange/rows.h"

#include <arrow/util/bit_util.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace flightshmem {
namespace {

// So many rows are routed at once, then written column by column: the slots are computed once for
// all columns, stay in L1, and the stores of a column do not wait for one another.
constexpr int64_t kMorselRows = 1024;

class Validity {
 public:
  explicit Validity(const arrow::ArrayData& column)
      : bits_(column.GetNullCount() > 0 && column.buffers[0] ? column.buffers[0]->data() : nullptr),
        offset_(column.offset) {}
  bool has_nulls() const { return bits_ != nullptr; }
  bool IsNull(int64_t i) const {
    return bits_ != nullptr && !arrow::bit_util::GetBit(bits_, offset_ + i);
  }

 private:
  const uint8_t* bits_;
  int64_t offset_;
};

template <typename Offset>
void CountText(const arrow::ArrayData& column, const uint32_t* pes, int64_t* const* bytes) {
  const Validity validity(column);
  const Offset* offsets = column.GetValues<Offset>(1);
  for (int64_t i = 0; i < column.length; ++i) {
    if (!validity.IsNull(i)) *bytes[pes[i]] += offsets[i + 1] - offsets[i];
  }
}

void CountColumn(const ColumnShape& shape, const arrow::ArrayData& column, const uint32_t* pes,
                 int64_t* const* nulls, int64_t* const* text_bytes) {
  const Validity validity(column);
  if (validity.has_nulls() || shape.kind == ColumnKind::kNull) {
    for (int64_t i = 0; i < column.length; ++i) {
      *nulls[pes[i]] += shape.kind == ColumnKind::kNull || validity.IsNull(i);
    }
  }
  if (shape.kind != ColumnKind::kText) return;
  if (shape.width == 4) {
    CountText<int32_t>(column, pes, text_bytes);
  } else {
    CountText<int64_t>(column, pes, text_bytes);
  }
}

struct Morsel {
  int64_t begin = 0;
  int64_t rows = 0;
  const uint32_t* pes = nullptr;
  std::array<int64_t, kMorselRows> slots;  // which row of its piece each row becomes
};

template <size_t kWords>
struct Wide {
  uint64_t words[kWords];
};

template <typename T>
void WriteFixed(const arrow::ArrayData& column, const Morsel& morsel, T null_value,
                uint8_t* const* values) {
  const Validity validity(column);
  const uint8_t* in = column.buffers[1]->data() + (column.offset + morsel.begin) * sizeof(T);
  for (int64_t i = 0; i < morsel.rows; ++i) {
    T value;  // imported buffers need not be aligned
    std::memcpy(&value, in + i * sizeof(T), sizeof(T));
    if (validity.IsNull(morsel.begin + i)) value = null_value;
    reinterpret_cast<T*>(values[morsel.pes[i]])[morsel.slots[i]] = value;
  }
}

void WriteAnyWidth(const arrow::ArrayData& column, const Morsel& morsel, uint64_t width,
                   uint8_t* const* values) {
  const Validity validity(column);
  const uint8_t* in = column.buffers[1]->data() + (column.offset + morsel.begin) * width;
  for (int64_t i = 0; i < morsel.rows; ++i) {
    uint8_t* out = values[morsel.pes[i]] + morsel.slots[i] * width;
    if (validity.IsNull(morsel.begin + i)) {
      std::memset(out, 0, width);
    } else {
      std::memcpy(out, in + i * width, width);
    }
  }
}

void WriteSlots(const arrow::ArrayData& column, const Morsel& morsel, uint64_t width,
                uint8_t* const* values) {
  const arrow::Type::type id = PhysicalType(*column.type).id();
  switch (width) {
    case 1:
      return WriteFixed<uint8_t>(column, morsel, 0, values);
    case 2:
      return WriteFixed<uint16_t>(column, morsel, id == arrow::Type::HALF_FLOAT ? 0x7E00 : 0,
                                  values);
    case 4:
      return WriteFixed<uint32_t>(column, morsel, id == arrow::Type::FLOAT ? 0x7FC00000 : 0,
                                  values);
    case 8:
      return WriteFixed<uint64_t>(column, morsel,
                                  id == arrow::Type::DOUBLE ? 0x7FF8000000000000 : 0, values);
    case 16:
      return WriteFixed<Wide<2>>(column, morsel, {}, values);
    case 32:
      return WriteFixed<Wide<4>>(column, morsel, {}, values);
    case 0:
      return;
    default:
      return WriteAnyWidth(column, morsel, width, values);
  }
}

template <typename Offset>
void WriteText(const arrow::ArrayData& column, const Morsel& morsel, ColumnTargets* to) {
  const Validity validity(column);
  const Offset* offsets = column.GetValues<Offset>(1) + morsel.begin;
  const uint8_t* bytes = column.buffers[2] ? column.buffers[2]->data() : nullptr;
  for (int64_t i = 0; i < morsel.rows; ++i) {
    const uint32_t pe = morsel.pes[i];
    if (!validity.IsNull(morsel.begin + i)) {
      const auto length = static_cast<size_t>(offsets[i + 1] - offsets[i]);
      if (length > 0) std::memcpy(to->text[pe], bytes + offsets[i], length);
      to->text[pe] += length;
      to->text_end[pe] += static_cast<int64_t>(length);
    }
    reinterpret_cast<Offset*>(to->values[pe])[morsel.slots[i]] =
        static_cast<Offset>(to->text_end[pe]);
  }
}

void WriteBools(const arrow::ArrayData& column, const Morsel& morsel, uint8_t* const* values) {
  const Validity validity(column);
  const uint8_t* bits = column.buffers[1]->data();
  for (int64_t i = 0; i < morsel.rows; ++i) {
    const int64_t row = morsel.begin + i;
    const bool value = !validity.IsNull(row) && arrow::bit_util::GetBit(bits, column.offset + row);
    values[morsel.pes[i]][morsel.slots[i]] = value;
  }
}

void WriteValidity(const arrow::ArrayData& column, const Morsel& morsel, uint8_t* const* maps) {
  const Validity validity(column);
  for (int64_t i = 0; i < morsel.rows; ++i) {
    if (uint8_t* map = maps[morsel.pes[i]]) {
      map[morsel.slots[i]] = !validity.IsNull(morsel.begin + i);
    }
  }
}

void WriteColumn(const ColumnShape& shape, const arrow::ArrayData& column, const Morsel& morsel,
                 ColumnTargets* to) {
  switch (shape.kind) {
    case ColumnKind::kNull:
      return;
    case ColumnKind::kBool:
      WriteBools(column, morsel, to->values.data());
      break;
    case ColumnKind::kFixed:
      WriteSlots(column, morsel, shape.width, to->values.data());
      break;
    case ColumnKind::kText:
      if (shape.width == 4) {
        WriteText<int32_t>(column, morsel, to);
      } else {
        WriteText<int64_t>(column, morsel, to);
      }
  }
  const auto& maps = to->validity;
  if (std::any_of(maps.begin(), maps.end(), [](const uint8_t* map) { return map != nullptr; })) {
    WriteValidity(column, morsel, maps.data());
  }
}

}  // namespace

void CountRows(const std::vector<ColumnShape>& shapes, const RoutedRows& rows, int source,
               Counts* counts) {
  const int n_destinations = counts->n_destinations();
  std::vector<int64_t*> row_counts, nulls(n_destinations), text_bytes(n_destinations);
  for (int d = 0; d < n_destinations; ++d) row_counts.push_back(&counts->rows(source, d));
  for (size_t b = 0; b < rows.batches.size(); ++b) {
    const int64_t length = rows.batches[b]->num_rows();
    for (int64_t i = 0; i < length; ++i) ++*row_counts[rows.pes[b][i]];
  }
  for (size_t c = 0; c < shapes.size(); ++c) {
    for (int d = 0; d < n_destinations; ++d) {
      nulls[d] = &counts->nulls(source, d, c);
      text_bytes[d] = &counts->text_bytes(source, d, c);
    }
    for (size_t b = 0; b < rows.batches.size(); ++b) {
      const arrow::ArrayData& column = *rows.batches[b]->column_data(static_cast<int>(c));
      CountColumn(shapes[c], column, rows.pes[b], nulls.data(), text_bytes.data());
    }
  }
}

void WriteRows(const std::vector<ColumnShape>& shapes, const RoutedRows& rows,
               std::vector<ColumnTargets>* targets) {
  if (shapes.empty()) return;
  std::vector<int64_t> next_slot(targets->front().values.size());
  Morsel morsel;
  for (size_t b = 0; b < rows.batches.size(); ++b) {
    const arrow::RecordBatch& batch = *rows.batches[b];
    for (morsel.begin = 0; morsel.begin < batch.num_rows(); morsel.begin += kMorselRows) {
      morsel.rows = std::min(kMorselRows, batch.num_rows() - morsel.begin);
      morsel.pes = rows.pes[b] + morsel.begin;
      for (int64_t i = 0; i < morsel.rows; ++i) morsel.slots[i] = next_slot[morsel.pes[i]]++;
      for (size_t c = 0; c < shapes.size(); ++c) {
        WriteColumn(shapes[c], *batch.column_data(static_cast<int>(c)), morsel, &(*targets)[c]);
      }
    }
  }
}

}  // namespace flightshmem
