// SPDX-License-Identifier: Apache-2.0
//
// DoPut: a client's stream becomes a table, all or nothing.
//
//   descriptor   path [name] replaces the table or makes it; path [name, mode] with mode "create",
//                "replace" or "append" says which (create fails when the name is taken, append
//                makes the table when it is not)
//   batches      read into private memory, size limits first, then every value validated; written
//                to this PE's heap in shards; dictionaries are made one for the whole table
//   end          only a stream that the client ended properly is published, in one atomic step
//   answer       one PutResult whose app_metadata is {"rows": n}: everything arrived; the call's
//                own status says whether it was published
//
// A client that must give up sends a message with app_metadata "abort": nothing is published.
#pragma once

#include <arrow/flight/server.h>

#include <memory>
#include <string>

#include "catalog/catalog.h"

namespace flightshmem {

struct PutTarget {
  std::string name;
  PublishMode mode = PublishMode::kReplace;
};

// Invalid: a command instead of a path, a bad name or mode.
arrow::Result<PutTarget> ParsePutDescriptor(const arrow::flight::FlightDescriptor& descriptor);

// Runs one upload to its end. On failure nothing is visible and all memory is given back; what the
// client still sends is read away for a while, so that it sees this error and not a broken pipe.
arrow::Status ReceivePut(const std::shared_ptr<Catalog>& catalog, int64_t max_put_bytes,
                         const arrow::flight::ServerCallContext& context,
                         arrow::flight::FlightMessageReader& reader,
                         arrow::flight::FlightMetadataWriter& writer);

}  // namespace flightshmem
