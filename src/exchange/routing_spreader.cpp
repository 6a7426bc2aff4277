// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "exchange/morsel.h"
#include "exchange/slots.h"
#include "exchange/spreader.h"
#include "exchange/text.h"

namespace flightshmem {
namespace {

// One column of the rows, and what it needs while a morsel is written.
class RoutedColumn {
 public:
  RoutedColumn(const ColumnShape& shape, const arrow::DataType& type, int index, ColumnTargets* to)
      : shape_(shape), id_(PhysicalType(type).id()), index_(index), to_(to) {
    if (shape.kind == ColumnKind::kFixed) slots_.resize(kMorselRows * shape.width);
  }

  const ColumnShape& shape() const { return shape_; }
  bool is_fixed() const { return shape_.kind == ColumnKind::kFixed && shape_.width > 0; }
  // Whether some destination has a bitmap or text of this column.
  bool needs_groups() const {
    return shape_.kind == ColumnKind::kText || shape_.kind == ColumnKind::kBool || has_bitmap_;
  }
  void Start() {
    has_bitmap_ = std::any_of(to_->validity.begin(), to_->validity.end(),
                              [](const BitWriter& bits) { return bits.is_open(); });
  }

  // Looks at the morsel's rows, before anything is written.
  void Read(const arrow::RecordBatch& batch, const Morsel& morsel) {
    column_ = batch.column_data(index_).get();
    if (shape_.kind == ColumnKind::kNull) return;
    has_nulls_ = HasNulls(*column_);
    if (has_nulls_) {
      UnpackBits(column_->buffers[0]->data(), column_->offset + morsel.begin, morsel.rows,
                 valid_.data());
    }
    if (shape_.kind != ColumnKind::kFixed) return;
    in_ = column_->buffers[1]->data() + (column_->offset + morsel.begin) * shape_.width;
    if (has_nulls_) {
      CleanSlots(in_, valid_.data(), morsel.rows, shape_.width, id_, slots_.data());
      in_ = slots_.data();
    }
  }
  Lane lane() const { return {in_, to_->values.data()}; }
  void Advance(const Morsel& morsel) {
    for (size_t d = 0; d < morsel.counts.size(); ++d) {
      to_->values[d] += morsel.counts[d] * shape_.width;
    }
  }

  // What is written one destination at a time.
  void WriteGroups(const Morsel& morsel) {
    if (shape_.kind == ColumnKind::kBool) WriteBools(morsel);
    if (has_bitmap_) WriteBits(morsel, has_nulls_ ? valid_.data() : nullptr, &to_->validity);
    if (shape_.kind != ColumnKind::kText) return;
    const TextRows text{column_, morsel.begin, has_nulls_ ? valid_.data() : nullptr};
    for (size_t d = 0; d < morsel.counts.size(); ++d) {
      WriteText(shape_, text, morsel.rows_to(d), morsel.counts[d], d, to_, to_->values[d]);
    }
    Advance(morsel);
  }

 private:
  // `bytes` null: all ones.
  static void WriteBits(const Morsel& morsel, const uint8_t* bytes, std::vector<BitWriter>* to) {
    for (size_t d = 0; d < to->size(); ++d) {
      BitWriter& bits = (*to)[d];
      if (!bits.is_open() || morsel.counts[d] == 0) continue;
      const uint16_t* rows = morsel.rows_to(d);
      if (bytes == nullptr) {
        bits.Push(morsel.counts[d], [](int64_t) { return 1; });
      } else {
        bits.Push(morsel.counts[d], [=](int64_t i) { return bytes[rows[i]]; });
      }
    }
  }

  void WriteBools(const Morsel& morsel) {
    std::array<uint8_t, kMorselRows> bytes;
    UnpackBits(column_->buffers[1]->data(), column_->offset + morsel.begin, morsel.rows,
               bytes.data());
    for (int64_t i = 0; has_nulls_ && i < morsel.rows; ++i) bytes[i] &= valid_[i];
    WriteBits(morsel, bytes.data(), &to_->bools);
  }

  ColumnShape shape_;
  arrow::Type::type id_;
  int index_;
  ColumnTargets* to_;
  bool has_bitmap_ = false;
  // Of the morsel.
  const arrow::ArrayData* column_ = nullptr;
  bool has_nulls_ = false;
  const uint8_t* in_ = nullptr;
  std::array<uint8_t, kMorselRows> valid_;
  std::vector<uint8_t> slots_;
};

class RoutingSpreader : public Spreader {
 public:
  RoutingSpreader(const std::vector<ColumnShape>& shapes, const arrow::Schema& schema,
                  std::vector<ColumnTargets>* targets)
      : morsel_(targets->empty() ? 0 : static_cast<int>(targets->front().n_destinations())) {
    for (size_t c = 0; c < shapes.size(); ++c) {
      const int index = static_cast<int>(c);
      const arrow::DataType& type = *schema.field(index)->type();
      columns_.push_back(std::make_unique<RoutedColumn>(shapes[c], type, index, &(*targets)[c]));
      if (columns_[c]->is_fixed()) by_width_.push_back(columns_[c].get());
    }
    std::stable_sort(by_width_.begin(), by_width_.end(),
                     [](const RoutedColumn* a, const RoutedColumn* b) {
                       return a->shape().width > b->shape().width;
                     });
  }

  void Start(int64_t) override {
    for (auto& column : columns_) column->Start();
  }

  void Spread(const arrow::RecordBatch& batch, int64_t begin, int64_t rows,
              const uint16_t* pes) override {
    for (int64_t at = 0; at < rows; at += kMorselRows) {
      morsel_.Route(pes + at, begin + at, std::min(kMorselRows, rows - at));
      WriteMorsel(batch);
    }
  }

  void Stop() override {}

 private:
  void WriteMorsel(const arrow::RecordBatch& batch) {
    for (auto& column : columns_) column->Read(batch, morsel_);
    WriteSlots();
    bool is_grouped = false;
    for (auto& column : columns_) {
      if (!column->needs_groups()) continue;
      if (!is_grouped) morsel_.Group();
      is_grouped = true;
      column->WriteGroups(morsel_);
    }
    for (RoutedColumn* column : by_width_) column->Advance(morsel_);
  }

  void WriteSlots() {
    for (size_t i = 0; i < by_width_.size();) {
      const uint64_t width = by_width_[i]->shape().width;
      const bool has_twin = i + 1 < by_width_.size() && by_width_[i + 1]->shape().width == width;
      const Lane second = has_twin ? by_width_[i + 1]->lane() : Lane{};
      ScatterSlots(width, by_width_[i]->lane(), has_twin ? &second : nullptr, &morsel_);
      i += has_twin ? 2 : 1;
    }
  }

  std::vector<std::unique_ptr<RoutedColumn>> columns_;
  std::vector<RoutedColumn*> by_width_;  // those of fixed width, widest first
  Morsel morsel_;
};

}  // namespace

std::unique_ptr<Spreader> MakeRoutingSpreader(const std::vector<ColumnShape>& shapes,
                                              const arrow::Schema& schema,
                                              std::vector<ColumnTargets>* targets) {
  return std::make_unique<RoutingSpreader>(shapes, schema, targets);
}

}  // namespace flightshmem
