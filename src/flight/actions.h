// SPDX-License-Identifier: Apache-2.0
//
// DoAction: small control calls. Bodies are plain text, results JSON.
#pragma once

#include <arrow/flight/types.h>
#include <arrow/result.h>

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"

namespace flightshmem {

std::vector<arrow::flight::ActionType> ListedActions();

// Runs one action and returns its JSON. Unknown type: NotImplemented, listing those there are.
arrow::Result<std::string> RunAction(Catalog& catalog, const std::string& type,
                                     std::string_view body);

// `text` as a JSON string, quotes included. Bytes that are not UTF-8 cannot occur in table names.
std::string JsonString(std::string_view text);

}  // namespace flightshmem
