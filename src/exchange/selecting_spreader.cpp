// SPDX-License-Identifier: Apache-2.0
//
// Column after column over a run of rows whose selections, one per destination, stay in the cache:
// so a column is read as one stream and written as one stream per destination.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "exchange/line_writer.h"
#include "exchange/selections.h"
#include "exchange/slots.h"
#include "exchange/spreader.h"
#include "exchange/text.h"
#include "kernels/select.h"

namespace flightshmem {
namespace {

// Taken out of a column at once: what is taken stays in L1 until it is written.
constexpr int64_t kStepRows = 256;
constexpr int64_t kStepWords = kStepRows / 64;
constexpr uint64_t kMostWidth = 32;

// More than this would push everything else out of the caches.
constexpr int64_t kStreamedBytes = 8 << 20;

class SelectedColumn {
 public:
  SelectedColumn(const ColumnShape& shape, const arrow::DataType& type, int index,
                 ColumnTargets* to)
      : shape_(shape),
        id_(PhysicalType(type).id()),
        index_(index),
        to_(to),
        has_lines_(shape.width > 0 &&
                   (shape.kind == ColumnKind::kText || shape.kind == ColumnKind::kFixed)),
        lines_(to->n_destinations()) {
    const uint64_t width = std::max(shape.width, kMostWidth);
    scratch_.resize(kStepRows * width + 4 * LineWriter::kLine);
    cleaned_.resize(kStepRows * width);
  }

  void Start(bool streams) {
    has_bitmap_ = std::any_of(to_->validity.begin(), to_->validity.end(),
                              [](const BitWriter& bits) { return bits.is_open(); });
    for (size_t d = 0; has_lines_ && d < lines_.size(); ++d) {
      lines_[d] = LineWriter(to_->values[d], streams);
    }
  }
  void Stop() {
    for (size_t d = 0; has_lines_ && d < lines_.size(); ++d) to_->values[d] = lines_[d].Finish();
  }

  void Spread(const arrow::RecordBatch& batch, const Selections& selections) {
    if (shape_.kind == ColumnKind::kNull) return;
    column_ = batch.column_data(index_).get();
    const Bits validity = Validity(*column_, selections.begin);
    if (has_bitmap_) SpreadBits(selections, validity, {}, &to_->validity);
    if (shape_.kind == ColumnKind::kBool) {
      const Bits values{column_->buffers[1]->data(), column_->offset + selections.begin};
      SpreadBits(selections, values, validity, &to_->bools);
    } else if (shape_.kind == ColumnKind::kText) {
      SpreadText(selections, validity);
    } else if (has_lines_) {
      SpreadSlots(selections, validity);
    }
  }

 private:
  uint8_t* scratch() {
    auto* begin = scratch_.data();
    const auto beyond = reinterpret_cast<uintptr_t>(begin) % LineWriter::kLine;
    return beyond == 0 ? begin : begin + (LineWriter::kLine - beyond);
  }

  // The bits of `values` where `and_also` has ones, too.
  static void SpreadBits(const Selections& selections, const Bits& values, const Bits& and_also,
                         std::vector<BitWriter>* to) {
    for (int64_t row = 0; row < selections.rows; row += 64) {
      const uint64_t word = values.Word(row, selections.rows) & and_also.Word(row, selections.rows);
      for (size_t d = 0; d < to->size(); ++d) {
        const uint64_t selection = selections.words[d][row / 64];
        if ((*to)[d].is_open()) {
          (*to)[d].PushWord(SelectBits(word, selection), std::popcount(selection));
        }
      }
    }
  }

  void SpreadSlots(const Selections& selections, const Bits& validity) {
    const uint64_t width = shape_.width;
    const uint8_t* in = column_->buffers[1]->data() + (column_->offset + selections.begin) * width;
    for (int64_t row = 0; row < selections.rows; row += kStepRows) {
      const int64_t rows = std::min(kStepRows, selections.rows - row);
      const uint8_t* slots = in + row * width;
      if (validity.bits != nullptr) {
        Clean(slots, validity, row, rows, selections.rows);
        slots = cleaned_.data();
      }
      for (size_t d = 0; d < lines_.size(); ++d) {
        const uint64_t* selection = selections.words[d].data() + row / 64;
        const int64_t count = CountSelected(selection, rows);
        TakeSlots(slots, selection, rows, lines_[d].Begin(scratch()));
        lines_[d].End(scratch(), count * static_cast<int64_t>(width));
      }
    }
  }

  static int64_t CountSelected(const uint64_t* selection, int64_t rows) {
    int64_t count = 0;
    for (int64_t w = 0; w < SelectionWords(rows); ++w) count += std::popcount(selection[w]);
    return count;
  }

  void TakeSlots(const uint8_t* slots, const uint64_t* selection, int64_t rows, uint8_t* out) {
    if (HasSelectableWidth(shape_.width)) {
      SelectSlots(slots, shape_.width, selection, rows, out);
      return;
    }
    for (int64_t w = 0; w < SelectionWords(rows); ++w) {
      for (uint64_t word = selection[w]; word != 0; word &= word - 1) {
        std::memcpy(out, slots + (w * 64 + std::countr_zero(word)) * shape_.width, shape_.width);
        out += shape_.width;
      }
    }
  }

  void Clean(const uint8_t* slots, const Bits& validity, int64_t row, int64_t rows,
             int64_t run_rows) {
    std::array<uint64_t, kStepWords> valid{};
    for (int64_t i = 0; i < rows; i += 64) valid[i / 64] = validity.Word(row + i, run_rows);
    if (shape_.width == 8) {
      const uint64_t null_slot = id_ == arrow::Type::DOUBLE ? 0x7FF8000000000000 : 0;
      BlendSlots8(slots, valid.data(), rows, null_slot, cleaned_.data());
    } else if (shape_.width == 4) {
      const uint32_t null_slot = id_ == arrow::Type::FLOAT ? 0x7FC00000 : 0;
      BlendSlots4(slots, valid.data(), rows, null_slot, cleaned_.data());
    } else {
      std::array<uint8_t, kStepRows> bytes;
      UnpackBits(reinterpret_cast<const uint8_t*>(valid.data()), 0, rows, bytes.data());
      CleanSlots(slots, bytes.data(), rows, shape_.width, id_, cleaned_.data());
    }
  }

  void SpreadText(const Selections& selections, const Bits& validity) {
    std::array<uint8_t, kStepRows> valid;
    std::array<uint16_t, kStepRows + 64> numbers;  // SelectNumbers may write beyond
    for (int64_t row = 0; row < selections.rows; row += kStepRows) {
      const int64_t rows = std::min(kStepRows, selections.rows - row);
      TextRows text{column_, selections.begin + row, nullptr};
      if (validity.bits != nullptr) {
        UnpackBits(validity.bits, validity.offset + row, rows, valid.data());
        text.valid = valid.data();
      }
      for (size_t d = 0; d < lines_.size(); ++d) {
        const uint64_t* selection = selections.words[d].data() + row / 64;
        const int64_t count = CountSelected(selection, rows);
        SelectNumbers(selection, rows, numbers.data());
        WriteText(shape_, text, numbers.data(), count, d, to_, lines_[d].Begin(scratch()));
        lines_[d].End(scratch(), count * static_cast<int64_t>(shape_.width));
      }
    }
  }

  ColumnShape shape_;
  arrow::Type::type id_;
  int index_;
  ColumnTargets* to_;
  bool has_lines_;
  bool has_bitmap_ = false;
  const arrow::ArrayData* column_ = nullptr;
  std::vector<LineWriter> lines_;  // of the slots or text offsets, per destination
  std::vector<uint8_t> scratch_, cleaned_;
};

class SelectingSpreader : public Spreader {
 public:
  SelectingSpreader(const std::vector<ColumnShape>& shapes, const arrow::Schema& schema,
                    std::vector<ColumnTargets>* targets) {
    for (size_t c = 0; c < shapes.size(); ++c) {
      const int index = static_cast<int>(c);
      const arrow::DataType& type = *schema.field(index)->type();
      columns_.emplace_back(shapes[c], type, index, &(*targets)[c]);
    }
    const size_t n_destinations = targets->empty() ? 0 : targets->front().n_destinations();
    selections_.words.assign(n_destinations, std::vector<uint64_t>(SelectionWords(kRunRows)));
  }

  void Start(int64_t bytes) override {
    for (SelectedColumn& column : columns_) column.Start(bytes > kStreamedBytes);
  }
  void Spread(const arrow::RecordBatch& batch, int64_t begin, int64_t rows,
              const uint16_t* pes) override {
    selections_.Select(pes, begin, rows);
    for (SelectedColumn& column : columns_) column.Spread(batch, selections_);
  }
  void Stop() override {
    for (SelectedColumn& column : columns_) column.Stop();
    StreamFence();
  }

 private:
  std::vector<SelectedColumn> columns_;
  Selections selections_;
};

}  // namespace

std::unique_ptr<Spreader> MakeSelectingSpreader(const std::vector<ColumnShape>& shapes,
                                                const arrow::Schema& schema,
                                                std::vector<ColumnTargets>* targets) {
  return std::make_unique<SelectingSpreader>(shapes, schema, targets);
}

}  // namespace flightshmem
