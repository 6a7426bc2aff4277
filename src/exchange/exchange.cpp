// SPDX-License-Identifier: Apache-2.0
#include "exchange/exchange.h"

#include <algorithm>
#include <utility>

#include "exchange/agree.h"
#include "exchange/assemble.h"
#include "exchange/checks.h"
#include "exchange/layout.h"
#include "exchange/route.h"
#include "exchange/rows.h"

namespace flightshmem {
namespace {

using Exchanged = std::pair<Shard, std::shared_ptr<arrow::RecordBatch>>;

// One collective. A PE must not return between two collective calls while others go on: so each
// step is local work with a status, which Agree turns into the same status everywhere.
class Exchange {
 public:
  Exchange(const std::shared_ptr<SymmetricHeap>& heap, const std::shared_ptr<arrow::Schema>& schema,
           RoutedRows rows, bool replicates)
      : heap_(heap),
        transport_(*heap->transport()),
        schema_(schema),
        rows_(std::move(rows)),
        replicates_(replicates),
        n_destinations_(replicates ? 1 : transport_.n_pes()),
        own_(replicates ? 0 : transport_.my_pe()),
        columns_(static_cast<size_t>(schema->num_fields())),
        counts_(transport_.n_pes(), n_destinations_, columns_) {}

  arrow::Result<Exchanged> Run() {
    ARROW_RETURN_NOT_OK(CheckSchemasAgree(transport_, *schema_));
    ARROW_ASSIGN_OR_RAISE(shapes_, ShapesOf(*schema_));
    ARROW_RETURN_NOT_OK(Count());
    LayOut();
    ARROW_RETURN_NOT_OK(Agree(transport_, AllocateBlocks()));
    ARROW_RETURN_NOT_OK(ShareOffsets());
    ARROW_RETURN_NOT_OK(Agree(transport_, WriteEverything()));  // a barrier: all rows are here
    auto shard = Assemble();
    ARROW_RETURN_NOT_OK(Agree(transport_, shard.status()));
    return shard;
  }

 private:
  arrow::Status Count() {
    Counts mine(1, n_destinations_, columns_);
    CountRows(shapes_, rows_, 0, &mine);
    ARROW_RETURN_NOT_OK(transport_.AllGather(mine.bytes(), counts_.bytes()));
    return CheckTextFits(*schema_, shapes_, counts_);  // of all PEs' counts: the same everywhere
  }

  void LayOut() {
    const uint64_t metadata_bytes = ShardMetadataBytes(*schema_);
    for (int d = 0; d < n_destinations_; ++d) {
      layouts_.push_back(LayOutShard(shapes_, counts_, d, metadata_bytes));
    }
  }

  arrow::Status AllocateBlocks() {
    const ShardLayout& layout = layouts_[own_];
    ARROW_ASSIGN_OR_RAISE(shard_block_, heap_->Allocate(layout.block_bytes));
    if (layout.scratch_bytes > 0) {
      ARROW_ASSIGN_OR_RAISE(scratch_block_, heap_->Allocate(layout.scratch_bytes));
    }
    return arrow::Status::OK();
  }

  arrow::Status ShareOffsets() {
    const BlockOffsets mine{shard_block_.where().offset, scratch_block_.where().offset};
    blocks_.resize(transport_.n_pes());
    return transport_.AllGather(std::as_bytes(std::span(&mine, 1)),
                                std::as_writable_bytes(std::span(blocks_)));
  }

  // Local and one-sided.
  arrow::Status WriteEverything() {
    const int me = transport_.my_pe();
    WriteMargins(shapes_, layouts_[own_], shard_block_.data());
    std::vector<ColumnTargets> targets(columns_, ColumnTargets(n_destinations_));
    std::vector<Route> routes;
    for (int d = 0; d < n_destinations_; ++d) {
      const int pe = replicates_ ? me : d;
      ARROW_ASSIGN_OR_RAISE(
          Route route,
          Route::Make(transport_, pe, blocks_[pe], PiecesOf(shapes_, layouts_[d], counts_, me, d)));
      route.Aim(d, &targets);
      routes.push_back(std::move(route));
    }
    WriteRows(shapes_, rows_, &targets);
    for (const Route& route : routes) ARROW_RETURN_NOT_OK(route.Send(transport_));
    // My pieces now lie in my own blocks as the others want them in theirs.
    for (int step = 1; replicates_ && step < transport_.n_pes(); ++step) {
      const int pe = (me + step) % transport_.n_pes();
      ARROW_RETURN_NOT_OK(routes[0].SendTo(transport_, pe, blocks_[pe]));
    }
    return transport_.Quiet();
  }

  arrow::Result<Exchanged> Assemble() {
    const ShardLayout& layout = layouts_[own_];
    std::byte* block = shard_block_.data();
    PackBitmaps(shapes_, layout, scratch_block_.data(), block);
    scratch_block_ = Block();
    Shard shard;
    shard.where = shard_block_.where();
    shard.rows = layout.rows;
    shard.message = SymmetricHeap::ToBuffer(std::move(shard_block_), layout.block_bytes);
    auto batch = BatchOver(schema_, shapes_, layout, shard.message,
                           rows_.batches.empty() ? nullptr : rows_.batches[0].get());
    ARROW_RETURN_NOT_OK(WriteShardMetadata(block, layout.metadata_bytes, *batch));
    return Exchanged{std::move(shard), std::move(batch)};
  }

  std::shared_ptr<SymmetricHeap> heap_;
  Transport& transport_;
  std::shared_ptr<arrow::Schema> schema_;
  RoutedRows rows_;
  bool replicates_;
  int n_destinations_;  // with different contents: one when replicating
  int own_;             // which of them this PE gets
  size_t columns_;
  std::vector<ColumnShape> shapes_;
  Counts counts_;
  std::vector<ShardLayout> layouts_;
  Block shard_block_, scratch_block_;
  std::vector<BlockOffsets> blocks_;  // of every PE
};

}  // namespace

arrow::Result<Exchanged> Scatter(const std::shared_ptr<SymmetricHeap>& heap,
                                 const std::shared_ptr<arrow::Schema>& schema,
                                 const arrow::RecordBatchVector& batches,
                                 const std::vector<std::shared_ptr<arrow::UInt32Array>>& pes) {
  Transport& transport = *heap->transport();
  ARROW_RETURN_NOT_OK(Agree(transport, CheckRows(transport, *schema, batches, pes)));
  RoutedRows rows{batches, {}};
  for (const auto& numbers : pes) rows.pes.push_back(numbers->raw_values());
  return Exchange(heap, schema, std::move(rows), /*replicates=*/false).Run();
}

arrow::Result<Exchanged> Replicate(const std::shared_ptr<SymmetricHeap>& heap,
                                   const std::shared_ptr<arrow::Schema>& schema,
                                   const arrow::RecordBatchVector& batches) {
  Transport& transport = *heap->transport();
  ARROW_RETURN_NOT_OK(Agree(transport, CheckBatches(transport, *schema, batches)));
  int64_t longest = 0;
  for (const auto& batch : batches) longest = std::max(longest, batch->num_rows());
  const std::vector<uint32_t> zeros(static_cast<size_t>(longest));  // all rows to destination 0
  RoutedRows rows{batches, std::vector<const uint32_t*>(batches.size(), zeros.data())};
  return Exchange(heap, schema, std::move(rows), /*replicates=*/true).Run();
}

}  // namespace flightshmem
