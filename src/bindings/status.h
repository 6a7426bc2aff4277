// SPDX-License-Identifier: Apache-2.0
//
// The one place where arrow::Status becomes a Python exception (flightshmem.errors).
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

namespace flightshmem::bindings {

// Raises (as nanobind::python_error) when `status` is not OK. REQUIRES: the GIL.
void Check(const arrow::Status& status);

template <typename T>
T Check(arrow::Result<T> result) {
  Check(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace flightshmem::bindings
