// SPDX-License-Identifier: Apache-2.0
//
// The one place where Arrow crosses between C++ and Python: C Data capsules, no copy, the receiver
// keeps the producer's memory alive through the release callback.
#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <nanobind/nanobind.h>

#include <memory>

namespace flightshmem::bindings {

// In: any object with __arrow_c_schema__ / __arrow_c_array__ / __arrow_c_stream__ (TypeError else).
std::shared_ptr<arrow::Schema> ToSchema(nanobind::handle object);
std::shared_ptr<arrow::Array> ToArray(nanobind::handle object);
std::shared_ptr<arrow::RecordBatch> ToBatch(nanobind::handle object);
std::shared_ptr<arrow::Table> ToTable(nanobind::handle object);

// Out: pyarrow objects.
nanobind::object FromSchema(const std::shared_ptr<arrow::Schema>& schema);
nanobind::object FromArray(const std::shared_ptr<arrow::Array>& array);
nanobind::object FromBatch(const std::shared_ptr<arrow::RecordBatch>& batch);

}  // namespace flightshmem::bindings
