// SPDX-License-Identifier: Apache-2.0
#include "flight/ticket.h"

#include <cstring>

#include "catalog/names.h"
#include "flight/errors.h"

namespace flightshmem {
namespace {

// No table name begins with a control character, so names and tickets cannot be confused.
constexpr std::string_view kMagic(
    "\x01"
    "fst1",
    5);

struct Fixed {
  int32_t home_pe;
  uint32_t index;
  uint32_t generation;
  uint32_t shard;
};

}  // namespace

std::string TableTicket::Serialize() const {
  const Fixed fixed{version->home_pe, version->index, version->generation, shard};
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  return bytes + name;
}

arrow::Result<TableTicket> TableTicket::Parse(std::string_view bytes) {
  TableTicket ticket;
  if (!bytes.starts_with(kMagic)) {
    ticket.name = bytes;
    return ticket;
  }
  bytes.remove_prefix(kMagic.size());
  Fixed fixed;
  if (bytes.size() <= sizeof(fixed)) {
    return arrow::Status::Invalid("[do_get] the ticket is cut short: call get_flight_info again");
  }
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  ticket.name = bytes.substr(sizeof(fixed));
  ticket.version = EntryId{fixed.home_pe, fixed.index, fixed.generation};
  ticket.shard = fixed.shard;
  return ticket;
}

arrow::Result<std::shared_ptr<const TableVersion>> Redeem(Catalog& catalog,
                                                          const TableTicket& ticket) {
  ARROW_ASSIGN_OR_RAISE(auto version, catalog.Lookup(ticket.name));
  if (ticket.version && *ticket.version != version->id()) {
    return arrow::Status::KeyError("[do_get] table ", Quoted(ticket.name),
                                   " was replaced since the ticket was made (now version ",
                                   version->version(), "): call get_flight_info again");
  }
  if (ticket.shard != TableTicket::kAllShards && ticket.shard >= version->shards().size()) {
    return arrow::Status::KeyError("[do_get] table ", Quoted(ticket.name), " has ",
                                   version->shards().size(), " shards, got shard ", ticket.shard);
  }
  return version;
}

}  // namespace flightshmem
