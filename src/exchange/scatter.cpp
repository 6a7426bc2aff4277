// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "exchange/agree.h"
#include "exchange/checks.h"
#include "exchange/exchange.h"
#include "exchange/plan.h"
#include "exchange/sender.h"

namespace flightshmem {
namespace {

// Piece d of every PE's edges goes to PE d. Has the effect of a barrier.
arrow::Result<EdgesBySource> SwapEdges(Transport& transport, Sender* sender) {
  std::vector<BitEdges> mine;
  const auto n_pes = static_cast<size_t>(transport.n_pes());
  for (size_t d = 0; d < n_pes; ++d) {
    const auto edges = sender->edges(static_cast<int>(d));
    mine.insert(mine.end(), edges.begin(), edges.end());
  }
  std::vector<BitEdges> all(mine.size());
  ARROW_RETURN_NOT_OK(
      transport.AllToAll(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all))));
  const size_t each = all.size() / n_pes;
  EdgesBySource edges;
  for (size_t source = 0; source < n_pes; ++source) {
    edges.emplace_back(all.begin() + source * each, all.begin() + (source + 1) * each);
  }
  return edges;
}

// Local and one-sided.
arrow::Status SendAll(const Transport& transport, const ExchangePlan& plan, const RoutedRows& rows,
                      const std::vector<uint64_t>& offsets, Sender* sender) {
  for (int pe = 0; pe < transport.n_pes(); ++pe) {
    sender->Aim(pe, {pe, offsets[pe]}, plan.PiecesOf(transport.my_pe(), pe));
  }
  return sender->Send(rows);
}

arrow::Result<Exchanged> ScatterChecked(const std::shared_ptr<SymmetricHeap>& heap,
                                        const std::shared_ptr<arrow::Schema>& schema,
                                        const RoutedRows& rows, const ExchangeOptions& options) {
  Transport& transport = *heap->transport();
  const int me = transport.my_pe();
  transport.SetPhase("scatter: counts");
  ARROW_ASSIGN_OR_RAISE(
      const ExchangePlan plan,
      ExchangePlan::Make(transport, schema, rows, transport.n_pes(), options.max_short_text));
  const ShardLayout& layout = plan.layout(me);
  transport.SetPhase("scatter: allocate");
  auto block = heap->Allocate(layout.block_bytes);
  ARROW_RETURN_NOT_OK(Agree(transport, block.status()));
  std::vector<uint64_t> offsets(transport.n_pes());
  const uint64_t offset = block->where().offset;
  ARROW_RETURN_NOT_OK(transport.AllGather(std::as_bytes(std::span(&offset, 1)),
                                          std::as_writable_bytes(std::span(offsets))));
  transport.SetPhase("scatter: write");
  Sender sender(transport, plan.shapes(), *plan.schema(), transport.n_pes(), options);
  ARROW_RETURN_NOT_OK(Agree(transport, SendAll(transport, plan, rows, offsets, &sender)));
  transport.SetPhase("scatter: assemble");
  EdgesBySource edges;
  if (plan.has_bitmaps()) {
    ARROW_ASSIGN_OR_RAISE(edges, SwapEdges(transport, &sender));
  }
  ARROW_RETURN_NOT_OK(Agree(transport, plan.Complete(me, edges, block->data())));
  Exchanged result;
  result.shard.where = block->where();
  result.shard.rows = layout.rows;
  result.shard.message = SymmetricHeap::ToBuffer(std::move(*block), layout.block_bytes);
  result.batch = plan.BatchIn(me, result.shard.message);
  transport.SetPhase("scatter: done");
  return result;
}

}  // namespace

arrow::Result<Exchanged> Scatter(const std::shared_ptr<SymmetricHeap>& heap,
                                 const std::shared_ptr<arrow::Schema>& schema,
                                 const arrow::RecordBatchVector& batches,
                                 const std::vector<std::shared_ptr<arrow::UInt16Array>>& pes,
                                 const ExchangeOptions& options) {
  Transport& transport = *heap->transport();
  ARROW_RETURN_NOT_OK(Agree(transport, CheckRows(transport, *schema, batches, pes)));
  RoutedRows rows{batches, {}};
  for (const auto& numbers : pes) rows.pes.push_back(numbers->raw_values());
  return ScatterChecked(heap, schema, rows, options);
}

}  // namespace flightshmem
