// SPDX-License-Identifier: Apache-2.0
#include "exchange/rows.h"

#include <algorithm>
#include <array>
#include <bit>

#include "exchange/selections.h"
#include "exchange/slots.h"
#include "kernels/tally.h"

namespace flightshmem {
namespace {

// Lengths in bytes; 0 for nulls.
template <typename Offset>
void TextLengths(const arrow::ArrayData& column, int64_t begin, int64_t rows, const uint8_t* valid,
                 int64_t* lengths) {
  const Offset* offsets = column.GetValues<Offset>(1) + begin;
  for (int64_t i = 0; i < rows; ++i) lengths[i] = offsets[i + 1] - offsets[i];
  for (int64_t i = 0; valid != nullptr && i < rows; ++i) lengths[i] *= valid[i];
}

// Counts one run of rows after the other, all columns of each.
class RowCounter {
 public:
  RowCounter(const std::vector<ColumnShape>& shapes, int n_destinations)
      : shapes_(shapes),
        n_destinations_(n_destinations),
        selects_(CanSelect() && n_destinations <= kMostSelected),
        rows_(n_destinations),
        nulls_(shapes.size(), std::vector<int64_t>(n_destinations)),
        text_bytes_(nulls_) {
    const auto words = static_cast<size_t>(SelectionWords(kRunRows));
    if (selects_) selections_.words.assign(n_destinations, std::vector<uint64_t>(words));
  }

  void Count(const arrow::RecordBatch& batch, int64_t begin, int64_t rows, const uint16_t* pes) {
    Tally(pes, rows, n_destinations_, rows_.data());
    bool is_selected = false;
    for (size_t c = 0; c < shapes_.size(); ++c) {
      const arrow::ArrayData& column = *batch.column_data(static_cast<int>(c));
      const bool has_nulls = HasNulls(column);
      if (shapes_[c].kind == ColumnKind::kNull) {
        Tally(pes, rows, n_destinations_, nulls_[c].data());
      } else if (has_nulls && selects_) {
        if (!is_selected) selections_.Select(pes, begin, rows);
        is_selected = true;
        CountSelectedNulls(Validity(column, begin), nulls_[c].data());
      } else if (has_nulls) {
        CountNulls(column, begin, rows, pes, nulls_[c].data());
      }
      if (shapes_[c].kind == ColumnKind::kText) {
        CountText(shapes_[c], column, begin, rows, pes, text_bytes_[c].data());
      }
    }
  }

  void AddTo(Counts* counts) const {
    for (int d = 0; d < n_destinations_; ++d) {
      counts->rows(0, d) += rows_[d];
      for (size_t c = 0; c < shapes_.size(); ++c) {
        counts->nulls(0, d, c) += nulls_[c][d];
        counts->text_bytes(0, d, c) += text_bytes_[c][d];
      }
    }
  }

 private:
  void CountSelectedNulls(const Bits& validity, int64_t* nulls) const {
    for (int64_t row = 0; row < selections_.rows; row += 64) {
      const uint64_t valid = validity.Word(row, selections_.rows);
      for (int d = 0; d < n_destinations_; ++d) {
        nulls[d] += std::popcount(selections_.words[d][row / 64] & ~valid);
      }
    }
  }

  void CountNulls(const arrow::ArrayData& column, int64_t begin, int64_t rows, const uint16_t* pes,
                  int64_t* nulls) const {
    std::array<uint8_t, kMorselRows> valid;
    std::array<int64_t, kMorselRows> weights;
    for (int64_t at = 0; at < rows; at += kMorselRows) {
      const int64_t count = std::min(kMorselRows, rows - at);
      UnpackBits(column.buffers[0]->data(), column.offset + begin + at, count, valid.data());
      for (int64_t i = 0; i < count; ++i) weights[i] = 1 - valid[i];
      TallyWeights(pes + at, weights.data(), count, n_destinations_, nulls);
    }
  }

  void CountText(const ColumnShape& shape, const arrow::ArrayData& column, int64_t begin,
                 int64_t rows, const uint16_t* pes, int64_t* bytes) const {
    std::array<uint8_t, kMorselRows> valid;
    std::array<int64_t, kMorselRows> lengths;
    const bool has_nulls = HasNulls(column);
    for (int64_t at = 0; at < rows; at += kMorselRows) {
      const int64_t count = std::min(kMorselRows, rows - at);
      if (has_nulls) {
        UnpackBits(column.buffers[0]->data(), column.offset + begin + at, count, valid.data());
      }
      const uint8_t* flags = has_nulls ? valid.data() : nullptr;
      if (shape.source_width == 4) {
        TextLengths<int32_t>(column, begin + at, count, flags, lengths.data());
      } else {
        TextLengths<int64_t>(column, begin + at, count, flags, lengths.data());
      }
      TallyWeights(pes + at, lengths.data(), count, n_destinations_, bytes);
    }
  }

  const std::vector<ColumnShape>& shapes_;
  int n_destinations_;
  bool selects_;
  Selections selections_;
  std::vector<int64_t> rows_;
  std::vector<std::vector<int64_t>> nulls_, text_bytes_;  // per column
};

}  // namespace

void CountRows(const std::vector<ColumnShape>& shapes, const RoutedRows& rows, Counts* counts) {
  RowCounter counter(shapes, counts->n_destinations());
  for (size_t b = 0; b < rows.batches.size(); ++b) {
    const arrow::RecordBatch& batch = *rows.batches[b];
    for (int64_t begin = 0; begin < batch.num_rows(); begin += kRunRows) {
      const int64_t run = std::min(kRunRows, batch.num_rows() - begin);
      counter.Count(batch, begin, run, rows.pes[b] + begin);
    }
  }
  counter.AddTo(counts);
}

}  // namespace flightshmem
