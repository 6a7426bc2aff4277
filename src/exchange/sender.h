// SPDX-License-Identifier: Apache-2.0
//
// From this PE to all destinations: by plain stores into the blocks that are in reach; for the
// others rows are staged, one run of bytes per destination and column, and put. There are two
// stages: while one is on its way the next rows are written to the other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "exchange/layout.h"
#include "exchange/options.h"
#include "exchange/row_writer.h"
#include "exchange/rows.h"
#include "transport/transport.h"

namespace flightshmem {

class Sender {
 public:
  // The stages together take options.staging_bytes at most, unless a single row takes more.
  Sender(Transport& transport, const std::vector<ColumnShape>& shapes, const arrow::Schema& schema,
         int n_destinations, const ExchangeOptions& options);

  // What this PE writes to destination `d`: `pieces` of the shard block at `block`.
  void Aim(int d, GlobalPtr block, std::vector<ColumnPiece> pieces);

  // Writes all rows. On return they are in place (puts are quiet), but for the edges of bitmaps.
  // REQUIRES: every destination was aimed at.
  arrow::Status Send(const RoutedRows& rows);

  // After Send: two per column, of its validity and of its bools.
  std::span<BitEdges> edges(int d) {
    return std::span(edges_).subspan(2 * d * shapes_.size(), 2 * shapes_.size());
  }

 private:
  // What is put next to one destination: places in its block, which move on.
  struct Remote {
    int d = 0;
    GlobalPtr block;
    std::vector<ColumnPiece> left;  // values and text: what is yet to come
  };
  // Bytes in a stage, and where they go.
  struct Run {
    uint64_t staged = 0;
    GlobalPtr to;
    uint64_t bytes = 0;
  };

  arrow::Status SendInRounds(const RoutedRows& rows);
  std::vector<Run> LayOutRound(const Counts& counts, std::byte* stage);
  int64_t SlackBytes() const;

  Transport& transport_;
  const std::vector<ColumnShape>& shapes_;
  int n_destinations_;
  int64_t staging_bytes_;
  RowWriter writer_;
  std::vector<BitEdges> edges_;
  std::vector<Remote> remotes_;
};

}  // namespace flightshmem
