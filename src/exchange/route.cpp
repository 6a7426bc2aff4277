// SPDX-License-Identifier: Apache-2.0
#include "exchange/route.h"

#include <arrow/buffer.h>

#include <utility>

namespace flightshmem {
namespace {

// Renumbers the regions so that they lie side by side; returns their end.
uint64_t Compact(std::vector<ColumnPiece>* pieces) {
  uint64_t end = 0;
  for (ColumnPiece& piece : *pieces) {
    for (Region* region : {&piece.values, &piece.text, &piece.validity_map, &piece.bool_map}) {
      region->offset = end;
      end += (region->bytes + 63) / 64 * 64;
    }
  }
  return end;
}

uint8_t* Bytes(std::byte* base, const Region& region) {
  return region.bytes == 0 ? nullptr : reinterpret_cast<uint8_t*>(base + region.offset);
}

}  // namespace

arrow::Result<Route> Route::Make(const Transport& transport, int pe, BlockOffsets blocks,
                                 std::vector<ColumnPiece> pieces) {
  Route route;
  route.pe_ = pe;
  route.blocks_ = blocks;
  route.remote_ = std::move(pieces);
  route.local_ = route.remote_;
  if (std::byte* segment = transport.peer(pe)) {
    route.shard_ = segment + blocks.shard;
    route.scratch_ = segment + blocks.scratch;
    return route;
  }
  const uint64_t bytes = Compact(&route.local_);
  ARROW_ASSIGN_OR_RAISE(route.staged_, arrow::AllocateBuffer(static_cast<int64_t>(bytes)));
  route.shard_ = reinterpret_cast<std::byte*>(route.staged_->mutable_data());
  route.scratch_ = route.shard_;
  return route;
}

void Route::Aim(size_t destination, std::vector<ColumnTargets>* targets) const {
  for (size_t c = 0; c < local_.size(); ++c) {
    const ColumnPiece& piece = local_[c];
    ColumnTargets& target = (*targets)[c];
    target.values[destination] =
        piece.bool_map.bytes > 0 ? Bytes(scratch_, piece.bool_map) : Bytes(shard_, piece.values);
    target.validity[destination] = Bytes(scratch_, piece.validity_map);
    target.text[destination] = Bytes(shard_, piece.text);
    target.text_end[destination] = piece.text_base;
  }
}

arrow::Status Route::Send(Transport& transport) const {
  return staged_ ? SendTo(transport, pe_, blocks_) : arrow::Status::OK();
}

arrow::Status Route::SendTo(Transport& transport, int pe, BlockOffsets blocks) const {
  for (size_t c = 0; c < local_.size(); ++c) {
    ARROW_RETURN_NOT_OK(PutColumn(transport, pe, blocks, c));
  }
  return arrow::Status::OK();
}

arrow::Status Route::PutColumn(Transport& transport, int pe, BlockOffsets blocks,
                               size_t column) const {
  const ColumnPiece& from = local_[column];
  const ColumnPiece& to = remote_[column];
  const auto put = [&](const std::byte* base, const Region& source, uint64_t block,
                       const Region& target) {
    if (source.bytes == 0) return arrow::Status::OK();
    return transport.PutNbi({pe, block + target.offset}, base + source.offset, source.bytes);
  };
  ARROW_RETURN_NOT_OK(put(shard_, from.values, blocks.shard, to.values));
  ARROW_RETURN_NOT_OK(put(shard_, from.text, blocks.shard, to.text));
  ARROW_RETURN_NOT_OK(put(scratch_, from.validity_map, blocks.scratch, to.validity_map));
  return put(scratch_, from.bool_map, blocks.scratch, to.bool_map);
}

}  // namespace flightshmem
