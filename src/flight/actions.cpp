// SPDX-License-Identifier: Apache-2.0
#include "flight/actions.h"

#include <sstream>

#include "catalog/names.h"
#include "flight/errors.h"

namespace flightshmem {
namespace {

void WriteHeap(const HeapStats& stats, std::ostream& out) {
  out << "{\"capacity_bytes\": " << stats.capacity_bytes << ", \"used_bytes\": " << stats.used_bytes
      << ", \"peak_bytes\": " << stats.peak_bytes
      << ", \"largest_free_bytes\": " << stats.largest_free_bytes
      << ", \"blocks\": " << stats.blocks << "}";
}

void WriteTable(const TableVersion& table, std::ostream& out) {
  out << "{\"name\": " << JsonString(table.name()) << ", \"version\": " << table.version()
      << ", \"rows\": " << table.rows() << ", \"size_bytes\": " << table.size_bytes()
      << ", \"shard_pes\": [";
  const char* separator = "";
  for (const ShardRef& shard : table.shards()) {
    out << separator << shard.where.pe;
    separator = ", ";
  }
  out << "]}";
}

void WritePlace(Catalog& catalog, std::ostream& out) {
  const auto& transport = catalog.heap()->transport();
  out << "\"pe\": " << transport->my_pe() << ", \"n_pes\": " << transport->n_pes();
}

std::string Health(Catalog& catalog) {
  std::ostringstream out;
  out << "{\"status\": \"ok\", ";
  WritePlace(catalog, out);
  out << "}";
  return out.str();
}

arrow::Result<std::string> Stats(Catalog& catalog) {
  // Versions that were dropped while somebody read them go when they are next looked for: now, so
  // that the figures say what is really in use.
  catalog.Reclaim();
  std::ostringstream out;
  out << "{";
  WritePlace(catalog, out);
  out << ", \"heap\": ";
  WriteHeap(catalog.heap()->stats(), out);
  out << ", \"tables\": [";
  ARROW_ASSIGN_OR_RAISE(const auto names, catalog.Names());
  const char* separator = "";
  for (const std::string& name : names) {
    const auto table = catalog.Lookup(name);
    if (!table.ok()) continue;  // dropped since
    out << separator;
    WriteTable(**table, out);
    separator = ", ";
  }
  out << "]}";
  return out.str();
}

arrow::Result<std::string> Drop(Catalog& catalog, std::string_view name) {
  ARROW_RETURN_NOT_OK(catalog.Drop(std::string(name)));
  return "{\"dropped\": " + JsonString(name) + "}";
}

}  // namespace

std::vector<arrow::flight::ActionType> ListedActions() {
  return {{"health", "Whether this PE's server answers; JSON with pe and n_pes"},
          {"drop", "Drop the table whose name is the body"},
          {"stats", "Heap of this PE and all published tables, as JSON"}};
}

arrow::Result<std::string> RunAction(Catalog& catalog, const std::string& type,
                                     std::string_view body) {
  if (type == "health") return Health(catalog);
  if (type == "stats") return Stats(catalog);
  if (type == "drop") return Drop(catalog, body);
  return arrow::Status::NotImplemented("[do_action] no action ", Quoted(type),
                                       ": there are health, drop and stats");
}

std::string JsonString(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace flightshmem
