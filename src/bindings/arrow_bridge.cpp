// SPDX-License-Identifier: Apache-2.0
#include "bindings/arrow_bridge.h"

#include <arrow/c/abi.h>
#include <arrow/c/bridge.h>

#include <utility>

#include "bindings/status.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

constexpr const char* kSchemaCapsule = "arrow_schema";
constexpr const char* kArrayCapsule = "arrow_array";
constexpr const char* kStreamCapsule = "arrow_array_stream";

// A C Data struct in a capsule of its standard name; what nobody imported is released with it.
template <typename Struct>
nb::capsule NewCapsule(const char* name, Struct** content) {
  *content = new Struct{};
  return nb::capsule(*content, name, [](void* pointer) noexcept {
    auto* held = static_cast<Struct*>(pointer);
    if (held->release != nullptr) held->release(held);
    delete held;
  });
}

template <typename Struct>
Struct* Open(nb::handle capsule, const char* name) {
  void* pointer = PyCapsule_GetPointer(capsule.ptr(), name);
  if (pointer == nullptr) throw nb::python_error();
  return static_cast<Struct*>(pointer);
}

nb::object CallProtocol(nb::handle object, const char* protocol) {
  if (!nb::hasattr(object, protocol)) {
    Check(arrow::Status::TypeError("[arrow] an object with ", protocol, " is needed, got ",
                                   Py_TYPE(object.ptr())->tp_name, ": pass a pyarrow object"));
  }
  return object.attr(protocol)();
}

struct CDataArray {
  nb::object owner;  // keeps both capsules
  ArrowSchema* schema;
  ArrowArray* array;
};

CDataArray OpenArray(nb::handle object) {
  nb::object pair = CallProtocol(object, "__arrow_c_array__");
  return {pair, Open<ArrowSchema>(pair[0], kSchemaCapsule),
          Open<ArrowArray>(pair[1], kArrayCapsule)};
}

nb::object Pyarrow(const char* cls) { return nb::module_::import_("pyarrow").attr(cls); }

}  // namespace

std::shared_ptr<arrow::Schema> ToSchema(nb::handle object) {
  nb::object capsule = CallProtocol(object, "__arrow_c_schema__");
  return Check(arrow::ImportSchema(Open<ArrowSchema>(capsule, kSchemaCapsule)));
}

std::shared_ptr<arrow::Array> ToArray(nb::handle object) {
  CDataArray from = OpenArray(object);
  return Check(arrow::ImportArray(from.array, from.schema));
}

std::shared_ptr<arrow::RecordBatch> ToBatch(nb::handle object) {
  CDataArray from = OpenArray(object);
  return Check(arrow::ImportRecordBatch(from.array, from.schema));
}

std::shared_ptr<arrow::Table> ToTable(nb::handle object) {
  nb::object capsule = CallProtocol(object, "__arrow_c_stream__");
  std::shared_ptr<arrow::RecordBatchReader> reader =
      Check(arrow::ImportRecordBatchReader(Open<ArrowArrayStream>(capsule, kStreamCapsule)));
  arrow::Result<std::shared_ptr<arrow::Table>> table;
  {
    nb::gil_scoped_release released;  // the stream may be a Python one that takes the GIL itself
    table = reader->ToTable();
    reader.reset();
  }
  return Check(std::move(table));
}

nb::object FromSchema(const std::shared_ptr<arrow::Schema>& schema) {
  ArrowSchema* to;
  nb::capsule capsule = NewCapsule(kSchemaCapsule, &to);
  Check(arrow::ExportSchema(*schema, to));
  return Pyarrow("Schema").attr("_import_from_c_capsule")(capsule);
}

nb::object FromArray(const std::shared_ptr<arrow::Array>& array) {
  ArrowSchema* schema;
  ArrowArray* values;
  nb::capsule schema_capsule = NewCapsule(kSchemaCapsule, &schema);
  nb::capsule array_capsule = NewCapsule(kArrayCapsule, &values);
  Check(arrow::ExportArray(*array, values, schema));
  return Pyarrow("Array").attr("_import_from_c_capsule")(schema_capsule, array_capsule);
}

nb::object FromBatch(const std::shared_ptr<arrow::RecordBatch>& batch) {
  ArrowSchema* schema;
  ArrowArray* columns;
  nb::capsule schema_capsule = NewCapsule(kSchemaCapsule, &schema);
  nb::capsule array_capsule = NewCapsule(kArrayCapsule, &columns);
  Check(arrow::ExportRecordBatch(*batch, columns, schema));
  return Pyarrow("RecordBatch").attr("_import_from_c_capsule")(schema_capsule, array_capsule);
}

}  // namespace flightshmem::bindings
