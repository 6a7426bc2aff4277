// SPDX-License-Identifier: Apache-2.0
#include "flight/errors.h"

#include <arrow/flight/types.h>

#include <algorithm>

#include "catalog/names.h"

namespace flightshmem {
namespace {

constexpr std::string_view kSchemaTag = "[schema] ";
constexpr size_t kMaxTextBytes = 3400;

bool IsNotAscii(char c) { return static_cast<unsigned char>(c) >= 0x80; }

}  // namespace

arrow::Status ToClient(const arrow::Status& status) {
  if (status.ok()) return status;
  std::shared_ptr<arrow::StatusDetail> detail =
      arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  arrow::StatusCode code = status.code();
  std::string text = status.message();
  switch (code) {
    case arrow::StatusCode::TypeError:
      if (!text.starts_with(kSchemaTag)) text.insert(0, kSchemaTag);
      [[fallthrough]];
    case arrow::StatusCode::CapacityError:
    case arrow::StatusCode::IndexError:
    case arrow::StatusCode::SerializationError:
      code = arrow::StatusCode::Invalid;
      break;
    case arrow::StatusCode::OutOfMemory:
      detail = std::make_shared<arrow::flight::FlightStatusDetail>(
          arrow::flight::FlightStatusCode::Unavailable);
      break;
    default:
      break;
  }
  if (text.size() > kMaxTextBytes) text = std::string(CutUtf8(text, kMaxTextBytes)) + " ...";
  if (!IsUtf8(text)) {  // it quotes what the client sent
    std::replace_if(text.begin(), text.end(), IsNotAscii, '?');
  }
  return arrow::Status(code, std::move(text), std::move(detail));
}

}  // namespace flightshmem
