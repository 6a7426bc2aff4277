// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <utility>

#include "bindings/arrow_bridge.h"
#include "bindings/status.h"
#include "catalog/catalog.h"
#include "heap/symmetric_heap.h"
#include "shard/shard.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

using HeapPtr = std::shared_ptr<SymmetricHeap>;

// A heap block as Python sees it: a writable buffer; every view of it keeps the block.
struct HeapBuffer {
  std::shared_ptr<arrow::Buffer> block;
  GlobalPtr where;
};

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& block = nb::inst_ptr<HeapBuffer>(self)->block;
  return PyBuffer_FillInfo(view, self, block->mutable_data(), block->size(), /*readonly=*/0, flags);
}

PyType_Slot heap_buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
                                   {0, nullptr}};

HeapBuffer ToHeapBuffer(Block block, uint64_t nbytes) {
  const GlobalPtr where = block.where();
  return {SymmetricHeap::ToBuffer(std::move(block), nbytes), where};
}

HeapBuffer Allocate(const HeapPtr& self, uint64_t nbytes) {
  return ToHeapBuffer(CheckUnlocked([&] { return self->Allocate(nbytes); }), nbytes);
}

HeapBuffer AllocateSymmetric(const HeapPtr& self, uint64_t nbytes) {
  return ToHeapBuffer(CheckUnlocked([&] { return self->AllocateSymmetric(nbytes); }), nbytes);
}

nb::dict Stats(const HeapPtr& self) {
  const HeapStats stats = self->stats();
  nb::dict out;
  out["capacity_bytes"] = stats.capacity_bytes;
  out["used_bytes"] = stats.used_bytes;
  out["peak_bytes"] = stats.peak_bytes;
  out["largest_free_bytes"] = stats.largest_free_bytes;
  out["blocks"] = stats.blocks;
  return out;
}

Shard PyWriteShard(const HeapPtr& heap, nb::handle batch) {
  const auto rows = ToBatch(batch);
  return CheckUnlocked([&] { return WriteShard(*heap, *rows); });
}

nb::object PyReadShard(const TableHeader& header, const Shard& shard) {
  return FromBatch(CheckUnlocked([&] { return ReadShard(header, shard.message); }));
}

uint64_t PyShardBytes(nb::handle batch) { return Check(ShardBytes(*ToBatch(batch))); }

nb::bytes HeaderBytes(const TableHeader& self) {
  return nb::bytes(self.bytes()->data(), static_cast<size_t>(self.bytes()->size()));
}

std::shared_ptr<TableHeader> ParseHeader(nb::bytes content) {
  // Copied: a Python object must not be released by whichever thread drops the last dictionary.
  std::string copy(content.c_str(), content.size());
  return Check(TableHeader::Parse(arrow::Buffer::FromString(std::move(copy))));
}

void BindHeap(nb::module_& m) {
  nb::class_<HeapBuffer>(m, "HeapBuffer", nb::type_slots(heap_buffer_slots))
      .def_prop_ro("offset", [](const HeapBuffer& self) { return self.where.offset; })
      .def_prop_ro("nbytes", [](const HeapBuffer& self) { return self.block->size(); })
      .def_prop_ro("address", [](const HeapBuffer& self) { return self.block->address(); });
  nb::class_<SymmetricHeap>(m, "Heap")
      .def(nb::new_([](std::shared_ptr<Transport> transport, uint64_t begin, uint64_t warm_bytes) {
             return Check(SymmetricHeap::Make(std::move(transport), begin, warm_bytes));
           }),
           nb::arg("transport"), nb::arg("begin") = Catalog::kEndOffset, nb::arg("warm_bytes") = 0)
      .def("allocate", Allocate, nb::arg("nbytes"))
      .def("allocate_symmetric", AllocateSymmetric, nb::arg("nbytes"),
           "A block at the same offset on every PE. Collective.")
      .def("stats", Stats, nb::sig("def stats(self) -> dict[str, int]"))
      .def("close", &SymmetricHeap::Close);
}

void BindShard(nb::module_& m) {
  nb::class_<TableHeader>(m, "Header")
      .def_static(
          "from_batch",
          [](nb::handle batch) { return Check(TableHeader::FromBatch(*ToBatch(batch))); },
          nb::arg("batch"), nb::sig("def from_batch(batch: pyarrow.RecordBatch) -> Header"))
      .def_static("from_bytes", ParseHeader, nb::arg("content"))
      .def("to_bytes", HeaderBytes)
      .def_prop_ro(
          "schema", [](const TableHeader& self) { return FromSchema(self.schema()); },
          nb::sig("def schema(self, /) -> pyarrow.Schema"))
      .def(
          "check_equals",
          [](const TableHeader& self, const TableHeader& other) { Check(self.CheckEquals(other)); },
          nb::arg("other"), "Raises SchemaError when schemas or dictionaries differ.");
  nb::class_<Shard>(m, "Shard")
      .def_prop_ro("where",
                   [](const Shard& self) { return std::pair(self.where.pe, self.where.offset); })
      .def_prop_ro("size_bytes", [](const Shard& self) { return self.message->size(); })
      .def_ro("rows", &Shard::rows);
  m.def("write_shard", PyWriteShard, nb::arg("heap"), nb::arg("batch"),
        nb::sig("def write_shard(heap: Heap, batch: pyarrow.RecordBatch) -> Shard"));
  m.def("read_shard", PyReadShard, nb::arg("header"), nb::arg("shard"),
        nb::sig("def read_shard(header: Header, shard: Shard) -> pyarrow.RecordBatch"));
  m.def("shard_bytes", PyShardBytes, nb::arg("batch"),
        nb::sig("def shard_bytes(batch: pyarrow.RecordBatch) -> int"));
}

}  // namespace

void bind_heap(nb::module_& m) {
  BindHeap(m);
  BindShard(m);
}

}  // namespace flightshmem::bindings
