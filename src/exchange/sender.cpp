// SPDX-License-Identifier: Apache-2.0
#include "exchange/sender.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <array>
#include <utility>

#include "exchange/rounds.h"

namespace flightshmem {
namespace {

constexpr uint64_t kRunAlignment = 16;

uint64_t* Words(std::byte* base, uint64_t offset) {
  return reinterpret_cast<uint64_t*>(base + offset);
}

}  // namespace

Sender::Sender(Transport& transport, const std::vector<ColumnShape>& shapes,
               const arrow::Schema& schema, int n_destinations, const ExchangeOptions& options)
    : transport_(transport),
      shapes_(shapes),
      n_destinations_(n_destinations),
      staging_bytes_(options.staging_bytes),
      writer_(shapes, schema, n_destinations, options.is_portable),
      edges_(2 * shapes.size() * static_cast<size_t>(n_destinations)) {}

void Sender::Aim(int d, GlobalPtr block, std::vector<ColumnPiece> pieces) {
  std::byte* segment = transport_.peer(block.pe);
  std::byte* base = segment == nullptr ? nullptr : segment + block.offset;
  for (size_t c = 0; c < pieces.size(); ++c) {
    const ColumnPiece& piece = pieces[c];
    ColumnTargets& target = writer_.targets()[c];
    const auto writer_of = [&](const BitPiece& bits, BitEdges* edges) {
      if (bits.offset == 0) return BitWriter();
      BitWriter writer(bits, edges);
      if (base != nullptr) writer.Aim(Words(base, bits.offset) + writer.own_word());
      return writer;
    };
    target.validity[d] = writer_of(piece.validity, &edges(d)[2 * c]);
    target.bools[d] = writer_of(piece.bools, &edges(d)[2 * c + 1]);
    target.text_end[d] = piece.text_base;
    if (base == nullptr) continue;
    target.values[d] = reinterpret_cast<uint8_t*>(base + piece.values.offset);
    target.text[d] = reinterpret_cast<uint8_t*>(base + piece.text.offset);
    target.text_limit[d] = target.text[d] + piece.text.bytes;
  }
  if (base == nullptr) remotes_.push_back({d, block, std::move(pieces)});
}

arrow::Status Sender::Send(const RoutedRows& rows) {
  if (remotes_.empty()) {
    writer_.Write(rows);
  } else {
    ARROW_RETURN_NOT_OK(SendInRounds(rows));
  }
  writer_.Finish();
  return transport_.Quiet();
}

// What the alignment of the runs of one stage may cost.
int64_t Sender::SlackBytes() const {
  return static_cast<int64_t>(remotes_.size() * shapes_.size() * 4 * kRunAlignment);
}

arrow::Status Sender::SendInRounds(const RoutedRows& rows) {
  const int64_t slack = SlackBytes();
  const Rounds rounds = SplitRounds(shapes_, rows, std::max(staging_bytes_ / 2 - slack, slack));
  std::array<std::unique_ptr<arrow::Buffer>, 2> stages;
  for (auto& stage : stages) {
    ARROW_ASSIGN_OR_RAISE(stage, arrow::AllocateBuffer(rounds.largest_bytes + slack));
    if (rounds.rows.size() < 2) break;
  }
  for (size_t r = 0; r < rounds.rows.size(); ++r) {
    auto* stage = reinterpret_cast<std::byte*>(stages[r % 2]->mutable_data());
    Counts counts(1, n_destinations_, shapes_.size());
    CountRows(shapes_, rounds.rows[r], &counts);
    const std::vector<Run> runs = LayOutRound(counts, stage);
    writer_.Write(rounds.rows[r]);
    // The other stage has been on its way meanwhile; now it may be written again.
    ARROW_RETURN_NOT_OK(transport_.Quiet());
    for (const Run& run : runs) {
      ARROW_RETURN_NOT_OK(transport_.PutNbi(run.to, stage + run.staged, run.bytes));
    }
  }
  return transport_.Quiet();
}

// Aims the writer at places in the stage, one run per remote destination and buffer.
std::vector<Sender::Run> Sender::LayOutRound(const Counts& counts, std::byte* stage) {
  std::vector<Run> runs;
  uint64_t end = 0;
  for (Remote& remote : remotes_) {
    const int d = remote.d;
    const auto take = [&](uint64_t offset, uint64_t bytes) {
      std::byte* at = stage + end;
      if (bytes > 0) runs.push_back({end, remote.block + offset, bytes});
      end += (bytes + kRunAlignment - 1) / kRunAlignment * kRunAlignment;
      return at;
    };
    const int64_t rows = counts.rows(0, d);
    for (size_t c = 0; c < shapes_.size(); ++c) {
      ColumnPiece& left = remote.left[c];
      ColumnTargets& target = writer_.targets()[c];
      const auto take_next = [&](Region* region, uint64_t bytes) {
        std::byte* at = take(region->offset, bytes);
        region->offset += bytes;
        return reinterpret_cast<uint8_t*>(at);
      };
      const auto take_bits = [&](const BitPiece& bits, BitWriter* writer) {
        if (!writer->is_open()) return;
        const uint64_t first = bits.offset + static_cast<uint64_t>(writer->own_word()) * 8;
        const auto bytes = static_cast<uint64_t>(writer->WordsIn(rows)) * 8;
        writer->Aim(reinterpret_cast<uint64_t*>(take(first, bytes)));
      };
      const bool has_slots = left.values.bytes > 0;
      target.values[d] = take_next(&left.values, has_slots ? rows * shapes_[c].width : 0);
      const auto text_bytes = static_cast<uint64_t>(counts.text_bytes(0, d, c));
      target.text[d] = take_next(&left.text, text_bytes);
      target.text_limit[d] = target.text[d] + text_bytes;
      take_bits(left.validity, &target.validity[d]);
      take_bits(left.bools, &target.bools[d]);
    }
  }
  return runs;
}

}  // namespace flightshmem
