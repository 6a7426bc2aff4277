// SPDX-License-Identifier: Apache-2.0
//
// The PEs that reach each other's memory are a node. A node gets one copy, in the heap of one of
// its PEs: each PE writes its own rows there and puts them to the copies of the other nodes.
#include <algorithm>
#include <utility>

#include "exchange/agree.h"
#include "exchange/checks.h"
#include "exchange/exchange.h"
#include "exchange/plan.h"
#include "exchange/sender.h"
#include "heap/loan.h"

namespace flightshmem {
namespace {

// What PEs tell each other to find where the copies shall lie.
struct Offer {
  int64_t node = 0;  // the first PE that this PE reaches
  uint64_t largest_free_bytes = 0;
};

// The PE that keeps the copy, for every PE: the one of its node with most room in one piece.
arrow::Result<std::vector<int>> ChooseKeepers(SymmetricHeap& heap, uint64_t bytes) {
  Transport& transport = *heap.transport();
  Offer mine;
  while (transport.peer(static_cast<int>(mine.node)) == nullptr) ++mine.node;
  if (heap.stats().largest_free_bytes < bytes) heap.Reclaim();
  mine.largest_free_bytes = heap.stats().largest_free_bytes;
  const int n_pes = transport.n_pes();
  std::vector<Offer> offers(n_pes);
  ARROW_RETURN_NOT_OK(transport.AllGather(std::as_bytes(std::span(&mine, 1)),
                                          std::as_writable_bytes(std::span(offers))));
  std::vector<int> keepers;
  for (int pe = 0; pe < n_pes; ++pe) {
    int keeper = -1;
    for (int other = 0; other < n_pes; ++other) {
      if (offers[other].node != offers[pe].node) continue;
      if (keeper < 0 || offers[other].largest_free_bytes > offers[keeper].largest_free_bytes) {
        keeper = other;
      }
    }
    keepers.push_back(keeper);
  }
  return keepers;
}

class Replication {
 public:
  Replication(const std::shared_ptr<SymmetricHeap>& heap, const RoutedRows& rows,
              const ExchangePlan& plan, const ExchangeOptions& options)
      : heap_(heap),
        transport_(*heap->transport()),
        me_(transport_.my_pe()),
        rows_(rows),
        plan_(plan),
        sender_(transport_, plan.shapes(), *plan.schema(), 1, options) {}

  arrow::Result<Exchanged> Run() {
    transport_.SetPhase("replicate: allocate");
    ARROW_ASSIGN_OR_RAISE(keepers_, ChooseKeepers(*heap_, BlockBytes()));
    ARROW_RETURN_NOT_OK(Agree(transport_, Allocate()));
    const uint64_t offset = block_.where().offset;
    offsets_.resize(transport_.n_pes());
    ARROW_RETURN_NOT_OK(transport_.AllGather(std::as_bytes(std::span(&offset, 1)),
                                             std::as_writable_bytes(std::span(offsets_))));
    transport_.SetPhase("replicate: write");
    ARROW_RETURN_NOT_OK(Agree(transport_, WriteAndPut()));
    transport_.SetPhase("replicate: assemble");
    ARROW_ASSIGN_OR_RAISE(const EdgesBySource edges, GatherEdges());
    Exchanged result;
    result.shard.where = BlockOf(keeper());
    result.shard.rows = layout().rows;
    arrow::Status completed;
    if (keeper() == me_) {
      completed = plan_.Complete(0, edges, block_.data());
      const auto n_sharing = std::count(keepers_.begin(), keepers_.end(), me_);
      // On failure nobody borrows.
      const int64_t n_borrowers = completed.ok() ? n_sharing - 1 : 0;
      result.shard.message = Lend(std::move(block_), layout().block_bytes, n_borrowers);
    }
    ARROW_RETURN_NOT_OK(Agree(transport_, completed));
    if (keeper() != me_) {
      result.shard.message = Borrow(heap_, result.shard.where, layout().block_bytes);
    }
    result.batch = plan_.BatchIn(0, result.shard.message);
    transport_.SetPhase("replicate: done");
    return result;
  }

 private:
  int keeper() const { return keepers_[me_]; }
  const ShardLayout& layout() const { return plan_.layout(0); }
  uint64_t BlockBytes() const { return LoanBytes(layout().block_bytes); }
  GlobalPtr BlockOf(int pe) const { return {pe, offsets_[pe]}; }

  arrow::Status Allocate() {
    if (keeper() != me_) return arrow::Status::OK();
    return heap_->Allocate(BlockBytes()).Value(&block_);
  }

  // Local and one-sided.
  arrow::Status WriteAndPut() {
    std::vector<ColumnPiece> pieces = plan_.PiecesOf(me_, 0);
    sender_.Aim(0, BlockOf(keeper()), pieces);
    ARROW_RETURN_NOT_OK(sender_.Send(rows_));
    for (int pe = 0; pe < transport_.n_pes(); ++pe) {
      if (keepers_[pe] != pe || pe == keeper()) continue;
      for (const ColumnPiece& piece : pieces) ARROW_RETURN_NOT_OK(PutPiece(piece, pe));
    }
    return transport_.Quiet();
  }

  arrow::Status PutPiece(const ColumnPiece& piece, int pe) {
    ARROW_RETURN_NOT_OK(PutBytes(piece.values, pe));
    ARROW_RETURN_NOT_OK(PutBytes(piece.text, pe));
    ARROW_RETURN_NOT_OK(PutBytes(OwnWords(piece.validity), pe));
    return PutBytes(OwnWords(piece.bools), pe);
  }
  arrow::Status PutBytes(const Region& region, int pe) {
    if (region.bytes == 0) return arrow::Status::OK();
    const std::byte* copy = transport_.peer(keeper()) + offsets_[keeper()];
    return transport_.PutNbi(BlockOf(pe) + region.offset, copy + region.offset, region.bytes);
  }

  // Has the effect of a barrier.
  arrow::Result<EdgesBySource> GatherEdges() {
    const auto mine = sender_.edges(0);
    std::vector<BitEdges> all(mine.size() * transport_.n_pes());
    ARROW_RETURN_NOT_OK(
        transport_.AllGather(std::as_bytes(mine), std::as_writable_bytes(std::span(all))));
    EdgesBySource edges;
    for (int pe = 0; pe < transport_.n_pes(); ++pe) {
      const auto begin = all.begin() + pe * static_cast<int64_t>(mine.size());
      edges.emplace_back(begin, begin + static_cast<int64_t>(mine.size()));
    }
    return edges;
  }

  std::shared_ptr<SymmetricHeap> heap_;
  Transport& transport_;
  int me_;
  const RoutedRows& rows_;
  const ExchangePlan& plan_;
  Sender sender_;
  std::vector<int> keepers_;
  Block block_;
  std::vector<uint64_t> offsets_;
};

}  // namespace

arrow::Result<Exchanged> Replicate(const std::shared_ptr<SymmetricHeap>& heap,
                                   const std::shared_ptr<arrow::Schema>& schema,
                                   const arrow::RecordBatchVector& batches,
                                   const ExchangeOptions& options) {
  Transport& transport = *heap->transport();
  ARROW_RETURN_NOT_OK(Agree(transport, CheckBatches(transport, *schema, batches)));
  int64_t longest = 0;
  for (const auto& batch : batches) longest = std::max(longest, batch->num_rows());
  const std::vector<uint16_t> zeros(static_cast<size_t>(longest));  // all rows to destination 0
  const RoutedRows rows{batches, std::vector<const uint16_t*>(batches.size(), zeros.data())};
  transport.SetPhase("replicate: counts");
  ARROW_ASSIGN_OR_RAISE(const ExchangePlan plan,
                        ExchangePlan::Make(transport, schema, rows, 1, options.max_short_text));
  return Replication(heap, rows, plan, options).Run();
}

}  // namespace flightshmem
