// SPDX-License-Identifier: Apache-2.0
//
// What a Flight ticket says. Opaque to clients; a table's bare name is a ticket too.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "catalog/catalog.h"

namespace flightshmem {

struct TableTicket {
  static constexpr uint32_t kAllShards = UINT32_MAX;

  std::string name;
  std::optional<EntryId> version;  // nothing: whichever is current (a bare name)
  uint32_t shard = kAllShards;

  std::string Serialize() const;  // REQUIRES: version
  // Anything may come in: what does not look like a ticket of ours is taken for a name. Invalid
  // when it is cut short.
  static arrow::Result<TableTicket> Parse(std::string_view bytes);
};

// The version the ticket names, pinned. KeyError: no such table, the table was replaced since, or
// no such shard.
arrow::Result<std::shared_ptr<const TableVersion>> Redeem(Catalog& catalog,
                                                          const TableTicket& ticket);

}  // namespace flightshmem
