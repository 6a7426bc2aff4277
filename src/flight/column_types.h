// SPDX-License-Identifier: Apache-2.0
//
// Questions about column types that the Flight verbs ask. Pure functions.
#pragma once

#include <arrow/array.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <memory>

namespace flightshmem {

// Whether `type` is a dictionary or holds one somewhere inside.
bool HasDictionary(const arrow::DataType& type);
bool HasDictionary(const arrow::Schema& schema);

// The same schema with string and binary for string_view and binary_view, also inside nested types.
std::shared_ptr<arrow::Schema> PlainSchema(const arrow::Schema& schema);

// `array` as `type`, which differs from its own in views only. No copy when it does not differ.
arrow::Result<std::shared_ptr<arrow::Array>> CastToPlain(
    const std::shared_ptr<arrow::Array>& array, const std::shared_ptr<arrow::DataType>& type);

}  // namespace flightshmem
