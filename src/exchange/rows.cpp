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
  std::array<uint8_t, kMorselRows> valid;  // of the column that is being written; see WriteColumn
};

// The bits of the morsel's rows, one byte each.
void Unpack(const uint8_t* bits, int64_t offset, const Morsel& morsel, uint8_t* out) {
  for (int64_t i = 0; i < morsel.rows; ++i) {
    out[i] = arrow::bit_util::GetBit(bits, offset + morsel.begin + i);
  }
}

template <size_t kWords>
struct Wide {
  uint64_t words[kWords];
};

// `valid` (1 or 0) chooses, without a branch: where nulls fall is not predictable.
template <typename T>
T Choose(uint8_t valid, T value, T null_value) {
  const auto mask = static_cast<T>(-static_cast<T>(valid));
  return static_cast<T>((value & mask) | (null_value & static_cast<T>(~mask)));
}
template <size_t kWords>
Wide<kWords> Choose(uint8_t valid, Wide<kWords> value, Wide<kWords> null_value) {
  for (size_t w = 0; w < kWords; ++w) {
    value.words[w] = Choose(valid, value.words[w], null_value.words[w]);
  }
  return value;
}

// `valid` is null when the column has no nulls; here and below.
template <typename T>
void WriteFixed(const arrow::ArrayData& column, const Morsel& morsel, const uint8_t* valid,
                T null_value, uint8_t* const* values) {
  const uint8_t* in = column.buffers[1]->data() + (column.offset + morsel.begin) * sizeof(T);
  const auto write = [&](int64_t i, T value) {
    reinterpret_cast<T*>(values[morsel.pes[i]])[morsel.slots[i]] = value;
  };
  const auto read = [&](int64_t i) {
    T value;  // imported buffers need not be aligned
    std::memcpy(&value, in + i * sizeof(T), sizeof(T));
    return value;
  };
  if (valid == nullptr) {
    for (int64_t i = 0; i < morsel.rows; ++i) write(i, read(i));
  } else {
    for (int64_t i = 0; i < morsel.rows; ++i) write(i, Choose(valid[i], read(i), null_value));
  }
}

void WriteAnyWidth(const arrow::ArrayData& column, const Morsel& morsel, const uint8_t* valid,
                   uint64_t width, uint8_t* const* values) {
  const uint8_t* in = column.buffers[1]->data() + (column.offset + morsel.begin) * width;
  for (int64_t i = 0; i < morsel.rows; ++i) {
    uint8_t* out = values[morsel.pes[i]] + morsel.slots[i] * width;
    if (valid != nullptr && !valid[i]) {
      std::memset(out, 0, width);
    } else {
      std::memcpy(out, in + i * width, width);
    }
  }
}

void WriteSlots(const arrow::ArrayData& column, const Morsel& morsel, const uint8_t* valid,
                uint64_t width, uint8_t* const* values) {
  const arrow::Type::type id = PhysicalType(*column.type).id();
  switch (width) {
    case 0:
      return;
    case 1:
      return WriteFixed<uint8_t>(column, morsel, valid, 0, values);
    case 2:
      return WriteFixed<uint16_t>(column, morsel, valid, id == arrow::Type::HALF_FLOAT ? 0x7E00 : 0,
                                  values);
    case 4:
      return WriteFixed<uint32_t>(column, morsel, valid, id == arrow::Type::FLOAT ? 0x7FC00000 : 0,
                                  values);
    case 8:
      return WriteFixed<uint64_t>(column, morsel, valid,
                                  id == arrow::Type::DOUBLE ? 0x7FF8000000000000 : 0, values);
    case 16:
      return WriteFixed<Wide<2>>(column, morsel, valid, {}, values);
    case 32:
      return WriteFixed<Wide<4>>(column, morsel, valid, {}, values);
    default:
      return WriteAnyWidth(column, morsel, valid, width, values);
  }
}

template <typename Offset>
void WriteText(const arrow::ArrayData& column, const Morsel& morsel, const uint8_t* valid,
               ColumnTargets* to) {
  const Offset* offsets = column.GetValues<Offset>(1) + morsel.begin;
  const uint8_t* bytes = column.buffers[2] ? column.buffers[2]->data() : nullptr;
  for (int64_t i = 0; i < morsel.rows; ++i) {
    const uint32_t pe = morsel.pes[i];
    if (valid == nullptr || valid[i]) {
      const auto length = static_cast<size_t>(offsets[i + 1] - offsets[i]);
      if (length > 0) std::memcpy(to->text[pe], bytes + offsets[i], length);
      to->text[pe] += length;
      to->text_end[pe] += static_cast<int64_t>(length);
    }
    reinterpret_cast<Offset*>(to->values[pe])[morsel.slots[i]] =
        static_cast<Offset>(to->text_end[pe]);
  }
}

void WriteBools(const arrow::ArrayData& column, const Morsel& morsel, const uint8_t* valid,
                uint8_t* const* values) {
  std::array<uint8_t, kMorselRows> bytes;
  Unpack(column.buffers[1]->data(), column.offset, morsel, bytes.data());
  for (int64_t i = 0; i < morsel.rows; ++i) {
    values[morsel.pes[i]][morsel.slots[i]] = bytes[i] & (valid == nullptr ? 1 : valid[i]);
  }
}

void WriteValidity(const Morsel& morsel, const uint8_t* valid, uint8_t* const* maps) {
  for (int64_t i = 0; i < morsel.rows; ++i) {
    if (uint8_t* map = maps[morsel.pes[i]]) map[morsel.slots[i]] = valid == nullptr ? 1 : valid[i];
  }
}

void WriteColumn(const ColumnShape& shape, const arrow::ArrayData& column, Morsel* morsel,
                 ColumnTargets* to) {
  if (shape.kind == ColumnKind::kNull) return;
  const uint8_t* valid = nullptr;
  if (column.GetNullCount() > 0) {
    Unpack(column.buffers[0]->data(), column.offset, *morsel, morsel->valid.data());
    valid = morsel->valid.data();
  }
  if (shape.kind == ColumnKind::kBool) {
    WriteBools(column, *morsel, valid, to->values.data());
  } else if (shape.kind == ColumnKind::kFixed) {
    WriteSlots(column, *morsel, valid, shape.width, to->values.data());
  } else if (shape.width == 4) {
    WriteText<int32_t>(column, *morsel, valid, to);
  } else {
    WriteText<int64_t>(column, *morsel, valid, to);
  }
  if (to->has_nulls()) WriteValidity(*morsel, valid, to->validity.data());
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
        WriteColumn(shapes[c], *batch.column_data(static_cast<int>(c)), &morsel, &(*targets)[c]);
      }
    }
  }
}

}  // namespace flightshmem
