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
#include "exchange/share.h"

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

arrow::Result<std::shared_ptr<arrow::UInt16Array>> ToPeNumbers(nb::handle object) {
  auto array = ToArray(object);
  if (array->type_id() != arrow::Type::UINT16) {
    return arrow::Status::TypeError("[scatter] PE numbers must be uint16, got ",
                                    array->type()->ToString());
  }
  return std::static_pointer_cast<arrow::UInt16Array>(array);
}

ShardAndBatch PyScatter(const HeapPtr& heap, nb::handle schema,
                        const std::vector<nb::object>& batches, const std::vector<nb::object>& pes,
                        int64_t staging_bytes, int64_t max_short_text, bool is_portable) {
  const ExchangeOptions options{staging_bytes, max_short_text, is_portable};
  const auto fields = ToSchema(schema);
  const auto rows = ToBatches(batches);
  std::vector<std::shared_ptr<arrow::UInt16Array>> numbers;
  for (const nb::object& object : pes) numbers.push_back(Check(ToPeNumbers(object)));
  auto [shard, batch] =
      CheckUnlocked([&] { return Scatter(heap, fields, rows, numbers, options); });
  return {std::move(shard), FromBatch(batch)};
}

ShardAndBatch PyReplicate(const HeapPtr& heap, nb::handle schema,
                          const std::vector<nb::object>& batches, int64_t staging_bytes,
                          int64_t max_short_text, bool is_portable) {
  const ExchangeOptions options{staging_bytes, max_short_text, is_portable};
  const auto fields = ToSchema(schema);
  const auto rows = ToBatches(batches);
  auto [shard, batch] = CheckUnlocked([&] { return Replicate(heap, fields, rows, options); });
  return {std::move(shard), FromBatch(batch)};
}

std::shared_ptr<arrow::Array> AsBytes(const std::shared_ptr<arrow::Buffer>& buffer) {
  return std::make_shared<arrow::UInt8Array>(buffer->size(), buffer);
}

nb::object PyShareBytes(const HeapPtr& heap, int keeper, nb::object bytes) {
  std::shared_ptr<arrow::Array> mine;
  if (!bytes.is_none()) mine = ToArray(bytes);
  const auto buffer = mine == nullptr ? nullptr : mine->data()->buffers[1];
  const auto shared = CheckUnlocked([&] { return ShareBytes(heap, keeper, buffer); });
  return shared == nullptr ? nb::none() : FromArray(AsBytes(shared));
}

}  // namespace

void bind_exchange(nb::module_& m) {
  const ExchangeOptions defaults;
  m.attr("MAX_SHORT_TEXT") = defaults.max_short_text;
  m.def("scatter", PyScatter, nb::arg("heap"), nb::arg("schema"), nb::arg("batches"),
        nb::arg("pes"), nb::arg("staging_bytes") = defaults.staging_bytes,
        nb::arg("max_short_text") = defaults.max_short_text,
        nb::arg("is_portable") = defaults.is_portable,
        "Every row goes to the PE its uint16 number says. Collective.",
        nb::sig("def scatter(heap: Heap, schema: pyarrow.Schema, "
                "batches: Sequence[pyarrow.RecordBatch], pes: Sequence[pyarrow.Array], "
                "staging_bytes: int = ..., max_short_text: int = ..., is_portable: bool = ...) "
                "-> tuple[Shard, pyarrow.RecordBatch]"));
  m.def("replicate", PyReplicate, nb::arg("heap"), nb::arg("schema"), nb::arg("batches"),
        nb::arg("staging_bytes") = defaults.staging_bytes,
        nb::arg("max_short_text") = defaults.max_short_text,
        nb::arg("is_portable") = defaults.is_portable,
        "Every PE gets all rows of all PEs. Collective.",
        nb::sig("def replicate(heap: Heap, schema: pyarrow.Schema, "
                "batches: Sequence[pyarrow.RecordBatch], staging_bytes: int = ..., "
                "max_short_text: int = ..., is_portable: bool = ...) "
                "-> tuple[Shard, pyarrow.RecordBatch]"));
  m.def("share_bytes", PyShareBytes, nb::arg("heap"), nb::arg("keeper"), nb::arg("bytes").none(),
        "One PE's bytes for all PEs of the node to read in place; None when there is no room. "
        "Collective.",
        nb::sig("def share_bytes(heap: Heap, keeper: int, bytes: pyarrow.UInt8Array | None) "
                "-> pyarrow.UInt8Array | None"));
}

}  // namespace flightshmem::bindings
