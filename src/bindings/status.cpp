// SPDX-License-Identifier: Apache-2.0
#include "bindings/status.h"

#include <nanobind/nanobind.h>

#include <cstring>
#include <string>

#include "heap/symmetric_heap.h"
#include "transport/error_detail.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

const char* ClassByCode(arrow::StatusCode code) {
  switch (code) {
    case arrow::StatusCode::KeyError:
      return "TableNotFound";
    case arrow::StatusCode::AlreadyExists:
      return "TableExists";
    case arrow::StatusCode::TypeError:
      return "SchemaError";
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::IndexError:
    case arrow::StatusCode::CapacityError:
      return "InvalidArgument";
    case arrow::StatusCode::NotImplemented:
      return "UnsupportedError";
    case arrow::StatusCode::SerializationError:
      return "DataError";
    case arrow::StatusCode::IOError:
      return "TransportError";
    default:
      return "FlightShmemError";
  }
}

// nb::str throws on text that is not UTF-8, and a message may quote a client's bytes.
nb::object Text(const std::string& message) {
  PyObject* text = PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()),
                                        "backslashreplace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal(text);
}

[[noreturn]] void Raise(const nb::object& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

const HeapExhaustedDetail* ExhaustedOf(const arrow::Status& status) {
  const auto& detail = status.detail();
  if (detail == nullptr || std::strcmp(detail->type_id(), HeapExhaustedDetail::kTypeId) != 0) {
    return nullptr;
  }
  return static_cast<const HeapExhaustedDetail*>(detail.get());
}

}  // namespace

void Check(const arrow::Status& status) {
  if (status.ok()) return;
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  const nb::object message = Text(status.message());
  const nb::module_ errors = nb::module_::import_("flightshmem.errors");
  if (const HeapExhaustedDetail* full = ExhaustedOf(status)) {
    const HeapStats& stats = full->stats;
    Raise(errors.attr("HeapExhausted")(message, full->requested_bytes,
                                       stats.capacity_bytes - stats.used_bytes,
                                       stats.largest_free_bytes, full->pe));
  }
  const char* named = ErrorClassOf(status);
  if (named == nullptr && status.IsOutOfMemory()) {
    Raise(nb::borrow(PyExc_MemoryError)(message));
  }
  Raise(errors.attr(named != nullptr ? named : ClassByCode(status.code()))(message));
}

}  // namespace flightshmem::bindings
