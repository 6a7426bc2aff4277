// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings/arrow_bridge.h"
#include "bindings/status.h"
#include "exchange/exchange.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

using HeapPtr = std::shared_ptr<SymmetricHeap>;
using ShardAndBatch = std::pair<Shard, nb::object>;

arrow::RecordBatchVector ToBatches(const std::vector<nb::object>& objects) {
  arrow::RecordBatchVector batches;
  for (const nb::object& object : objects) batches.push_back(ToBatch(object));
  return batches;
}

arrow::Result<std::shared_ptr<arrow::UInt32Array>> ToPeNumbers(nb::handle object) {
  auto array = ToArray(object);
  if (array->type_id() != arrow::Type::UINT32) {
    return arrow::Status::TypeError("[scatter] PE numbers must be uint32, got ",
                                    array->type()->ToString());
  }
  return std::static_pointer_cast<arrow::UInt32Array>(array);
}

ShardAndBatch PyScatter(const HeapPtr& heap, nb::handle schema,
                        const std::vector<nb::object>& batches,
                        const std::vector<nb::object>& pes) {
  const auto fields = ToSchema(schema);
  const auto rows = ToBatches(batches);
  std::vector<std::shared_ptr<arrow::UInt32Array>> numbers;
  for (const nb::object& object : pes) numbers.push_back(Check(ToPeNumbers(object)));
  auto [shard, batch] = CheckUnlocked([&] { return Scatter(heap, fields, rows, numbers); });
  return {std::move(shard), FromBatch(batch)};
}

ShardAndBatch PyReplicate(const HeapPtr& heap, nb::handle schema,
                          const std::vector<nb::object>& batches) {
  const auto fields = ToSchema(schema);
  const auto rows = ToBatches(batches);
  auto [shard, batch] = CheckUnlocked([&] { return Replicate(heap, fields, rows); });
  return {std::move(shard), FromBatch(batch)};
}

}  // namespace

void bind_exchange(nb::module_& m) {
  m.def("scatter", PyScatter, nb::arg("heap"), nb::arg("schema"), nb::arg("batches"),
        nb::arg("pes"), "Every row goes to the PE its uint32 number says. Collective.",
        nb::sig("def scatter(heap: Heap, schema: pyarrow.Schema, "
                "batches: Sequence[pyarrow.RecordBatch], pes: Sequence[pyarrow.Array]) "
                "-> tuple[Shard, pyarrow.RecordBatch]"));
  m.def("replicate", PyReplicate, nb::arg("heap"), nb::arg("schema"), nb::arg("batches"),
        "Every PE gets all rows of all PEs. Collective.",
        nb::sig("def replicate(heap: Heap, schema: pyarrow.Schema, "
                "batches: Sequence[pyarrow.RecordBatch]) -> tuple[Shard, pyarrow.RecordBatch]"));
}

}  // namespace flightshmem::bindings
