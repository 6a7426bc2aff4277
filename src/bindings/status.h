// SPDX-License-Identifier: Apache-2.0
//
// The one place where arrow::Status becomes a Python exception (flightshmem.errors).
//
// A HeapExhaustedDetail becomes HeapExhausted with its fields; an ErrorDetail (error_detail.h)
// names its class itself; otherwise the code decides:
//
//   KeyError TableNotFound · AlreadyExists TableExists · TypeError SchemaError
//   Invalid, IndexError, CapacityError InvalidArgument · NotImplemented UnsupportedError
//   SerializationError DataError · IOError TransportError · OutOfMemory MemoryError
//   anything else FlightShmemError
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>
#include <nanobind/nanobind.h>

#include <utility>

namespace flightshmem::bindings {

// Raises (as nanobind::python_error) when `status` is not OK; an exception that is set already, by
// a signal handler during the call, goes first. REQUIRES: the GIL.
void Check(const arrow::Status& status);

template <typename T>
T Check(arrow::Result<T> result) {
  Check(result.status());
  return std::move(result).ValueUnsafe();
}

// Check(call()), with the call made without the GIL.
template <typename Call>
auto CheckUnlocked(Call call) {
  auto outcome = [&] {
    nanobind::gil_scoped_release release;
    return call();
  }();
  return Check(std::move(outcome));
}

}  // namespace flightshmem::bindings
