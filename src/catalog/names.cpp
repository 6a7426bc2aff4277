// SPDX-License-Identifier: Apache-2.0
#include "catalog/names.h"

#include <arrow/util/utf8.h>

#include <algorithm>

namespace flightshmem {
namespace {

constexpr size_t kMaxQuotedBytes = 80;

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string_view CutUtf8(std::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

bool IsUtf8(std::string_view text) {
  arrow::util::InitializeUTF8();
  return arrow::util::ValidateUTF8(text);
}

arrow::Status CheckTableName(std::string_view operation, std::string_view name) {
  std::string_view problem;
  if (name.empty()) {
    problem = "it is empty";
  } else if (name.size() > kMaxTableNameBytes) {
    problem = "it is longer than 200 bytes";
  } else if (name.front() == '.') {
    problem = "it starts with a dot";
  } else if (name.find('/') != std::string_view::npos) {
    problem = "it contains '/'";
  } else if (std::any_of(name.begin(), name.end(), IsControl)) {
    problem = "it contains a control character";
  } else if (!IsUtf8(name)) {
    problem = "it is not UTF-8";
  } else {
    return arrow::Status::OK();
  }
  return arrow::Status::Invalid("[", operation, "] bad table name ", Quoted(name), ": ", problem);
}

std::string Quoted(std::string_view name) {
  constexpr char kHex[] = "0123456789abcdef";
  const std::string_view shown = CutUtf8(name, kMaxQuotedBytes);
  const bool readable = IsUtf8(shown);
  std::string out = "'";
  for (char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsControl(c) || (!readable && byte >= 0x80)) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + (shown.size() < name.size() ? "...'" : "'");
}

}  // namespace flightshmem
