// SPDX-License-Identifier: Apache-2.0
//
// Which Python exception a Status becomes, where its code alone does not say (bindings/status.h has
// the rule by code). The lowest layer has this so that every layer can use it.
#pragma once

#include <arrow/status.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace flightshmem {

// Names a class of flightshmem.errors, e.g. "PeerLost".
class ErrorDetail : public arrow::StatusDetail {
 public:
  static constexpr const char* kTypeId = "flightshmem::Error";

  explicit ErrorDetail(std::string error_class) : error_class(std::move(error_class)) {}
  const char* type_id() const override { return kTypeId; }
  std::string ToString() const override { return error_class; }

  const std::string error_class;
};

// The name a Status carries, or null. By type_id, since the provider modules have RTTI of their
// own.
inline const char* ErrorClassOf(const arrow::Status& status) {
  const auto& detail = status.detail();
  if (detail == nullptr || std::strcmp(detail->type_id(), ErrorDetail::kTypeId) != 0)
    return nullptr;
  return static_cast<const ErrorDetail&>(*detail).error_class.c_str();
}

// MakeError(StatusCode::IOError, "PeerLost", "[barrier] PE ", pe, " has ended").
template <typename... Args>
arrow::Status MakeError(arrow::StatusCode code, const char* error_class, Args&&... message) {
  return arrow::Status::FromDetailAndArgs(code, std::make_shared<ErrorDetail>(error_class),
                                          std::forward<Args>(message)...);
}

}  // namespace flightshmem
