// SPDX-License-Identifier: Apache-2.0
//
// From this PE to one destination: by plain stores where the destination is in reach, else into a
// staged copy that is put column by column.
#pragma once

#include <memory>
#include <vector>

#include "exchange/layout.h"
#include "exchange/rows.h"
#include "transport/transport.h"

namespace flightshmem {

// The blocks of a destination, as offsets into its segment.
struct BlockOffsets {
  uint64_t shard = 0;
  uint64_t scratch = 0;
};

class Route {
 public:
  // `pieces`: what this PE writes to `pe`, whose blocks are `blocks`.
  static arrow::Result<Route> Make(const Transport& transport, int pe, BlockOffsets blocks,
                                   std::vector<ColumnPiece> pieces);

  // Sets entry `destination` of every column's targets to this route's memory.
  void Aim(size_t destination, std::vector<ColumnTargets>* targets) const;
  // Starts the puts of a staged route; does nothing for a direct one. Complete after Quiet; the
  // route must live until then.
  arrow::Status Send(Transport& transport) const;
  // Starts the puts of the same pieces to the same places of another PE's blocks.
  arrow::Status SendTo(Transport& transport, int pe, BlockOffsets blocks) const;

 private:
  arrow::Status PutColumn(Transport& transport, int pe, BlockOffsets blocks, size_t column) const;

  int pe_ = -1;
  BlockOffsets blocks_;
  std::vector<ColumnPiece> remote_;  // places in the destination's blocks
  std::vector<ColumnPiece> local_;   // places behind the two pointers; as remote_ when direct
  std::byte* shard_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::shared_ptr<arrow::Buffer> staged_;  // null when direct
};

}  // namespace flightshmem
