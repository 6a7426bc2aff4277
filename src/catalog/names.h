// SPDX-License-Identifier: Apache-2.0
//
// What a table may be called, and how to show a name that came from outside. Pure functions.
#pragma once

#include <arrow/status.h>

#include <string>
#include <string_view>

namespace flightshmem {

constexpr size_t kMaxTableNameBytes = 200;

// OK when a table may be called so: 1 to 200 bytes of UTF-8 without control characters or '/', not
// starting with a dot (a name must never look like a path). Else Invalid, "[operation] bad ...".
arrow::Status CheckTableName(std::string_view operation, std::string_view name);

// A name from outside, safe to show in an error text: quoted, cut, control characters escaped.
std::string Quoted(std::string_view name);

bool IsUtf8(std::string_view text);
// Cuts at `size` bytes or a little earlier, never inside a UTF-8 sequence.
std::string_view CutUtf8(std::string_view text, size_t size);

}  // namespace flightshmem
