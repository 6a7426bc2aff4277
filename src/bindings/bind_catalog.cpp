// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/arrow_bridge.h"
#include "bindings/status.h"
#include "catalog/catalog.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

using CatalogPtr = std::shared_ptr<Catalog>;
using PyEntryId = std::tuple<int32_t, uint32_t, uint32_t>;            // home PE, index, generation
using PyShardRef = std::tuple<int32_t, uint64_t, uint64_t, int64_t>;  // PE, offset, bytes, rows

// Held by its own pointer: what is read from a version must not depend on Python's object.
struct PyVersion {
  std::shared_ptr<const TableVersion> version;
};

PublishMode ModeOf(const std::string& mode) {
  if (mode == "create") return PublishMode::kCreate;
  if (mode == "replace") return PublishMode::kReplace;
  if (mode != "append") {
    Check(arrow::Status::Invalid("[publish] mode is 'create', 'replace' or 'append', got '", mode,
                                 "'"));
  }
  return PublishMode::kAppend;
}

PyEntryId Publish(const CatalogPtr& self, const std::string& name, const std::string& mode,
                  const TableHeader& header, const std::vector<PyShardRef>& shards,
                  const std::string& partitioning) {
  const PublishMode publish_mode = ModeOf(mode);
  std::vector<ShardRef> refs;
  for (const auto& [pe, offset, size_bytes, rows] : shards) {
    refs.push_back({{pe, offset}, size_bytes, rows});
  }
  const EntryId id =
      CheckUnlocked([&] { return self->Publish(name, publish_mode, header, refs, partitioning); });
  return {id.home_pe, id.index, id.generation};
}

void Own(const CatalogPtr& self, const PyEntryId& id, const Shard& shard) {
  self->Own({std::get<0>(id), std::get<1>(id), std::get<2>(id)}, shard.message);
}

PyVersion Lookup(const CatalogPtr& self, const std::string& name) {
  return {CheckUnlocked([&] { return self->Lookup(name); })};
}

nb::object Read(const CatalogPtr& self, const PyVersion& version, size_t shard) {
  return FromBatch(CheckUnlocked([&] { return self->Read(version.version, shard); }));
}

std::vector<PyShardRef> Shards(const PyVersion& self) {
  std::vector<PyShardRef> shards;
  for (const ShardRef& shard : self.version->shards()) {
    shards.emplace_back(shard.where.pe, shard.where.offset, shard.size_bytes, shard.rows);
  }
  return shards;
}

void BindVersion(nb::module_& m) {
  nb::class_<PyVersion>(m, "TableVersion", "A pinned version: its shards stay while it lives.")
      .def_prop_ro("name", [](const PyVersion& self) { return self.version->name(); })
      .def_prop_ro(
          "id",
          [](const PyVersion& self) {
            const EntryId id = self.version->id();
            return PyEntryId{id.home_pe, id.index, id.generation};
          },
          "(home PE, index, generation): unique within the job.")
      .def_prop_ro("version", [](const PyVersion& self) { return self.version->version(); })
      .def_prop_ro(
          "schema",
          [](const PyVersion& self) { return FromSchema(self.version->header()->schema()); },
          nb::sig("def schema(self, /) -> pyarrow.Schema"))
      .def_prop_ro(
          "empty", [](const PyVersion& self) { return FromBatch(self.version->header()->empty()); },
          nb::sig("def empty(self, /) -> pyarrow.RecordBatch"),
          "A batch without rows that carries the dictionaries.")
      .def_prop_ro("shards", Shards, "(PE, offset, bytes, rows) of each.")
      .def_prop_ro("partitioning",
                   [](const PyVersion& self) { return self.version->partitioning(); })
      .def_prop_ro("rows", [](const PyVersion& self) { return self.version->rows(); })
      .def_prop_ro("size_bytes", [](const PyVersion& self) { return self.version->size_bytes(); });
}

}  // namespace

void bind_catalog(nb::module_& m) {
  BindVersion(m);
  nb::class_<Catalog>(m, "Catalog")
      .def(nb::new_([](std::shared_ptr<SymmetricHeap> heap) {
             return CheckUnlocked([&] { return Catalog::Make(std::move(heap)); });
           }),
           nb::arg("heap"), "Collective.")
      .def("publish", Publish, nb::arg("name"), nb::arg("mode"), nb::arg("header"),
           nb::arg("shards"), nb::arg("partitioning"))
      .def("own", Own, nb::arg("entry_id"), nb::arg("shard"))
      .def("lookup", Lookup, nb::arg("name"))
      .def("read", Read, nb::arg("version"), nb::arg("shard"),
           nb::sig("def read(self, version: TableVersion, shard: int) -> pyarrow.RecordBatch"))
      .def(
          "drop",
          [](const CatalogPtr& self, const std::string& name) {
            CheckUnlocked([&] { return self->Drop(name); });
          },
          nb::arg("name"))
      .def("names",
           [](const CatalogPtr& self) { return CheckUnlocked([&] { return self->Names(); }); })
      .def("reclaim", [](const CatalogPtr& self) {
        nb::gil_scoped_release release;
        self->Reclaim();
      });
}

}  // namespace flightshmem::bindings
