// SPDX-License-Identifier: Apache-2.0
#include "exchange/agree.h"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "heap/symmetric_heap.h"
#include "transport/error_detail.h"

namespace flightshmem {
namespace {

enum class DetailKind : int32_t { kNone, kErrorClass, kHeapExhausted };

// A status on its way to another PE: this head, then error class and message.
struct StatusHead {
  int32_t code = 0;
  DetailKind detail = DetailKind::kNone;
  uint64_t class_bytes = 0;
  uint64_t requested_bytes = 0;
  HeapStats stats;
  int32_t pe = -1;
};
static_assert(std::is_trivially_copyable_v<StatusHead>);

std::vector<std::byte> Encode(const arrow::Status& status) {
  StatusHead head;
  head.code = static_cast<int32_t>(status.code());
  std::string text;
  if (const char* error_class = ErrorClassOf(status)) {
    head.detail = DetailKind::kErrorClass;
    text = error_class;
    head.class_bytes = text.size();
  } else if (const auto& detail = status.detail();
             detail != nullptr &&
             std::strcmp(detail->type_id(), HeapExhaustedDetail::kTypeId) == 0) {
    const auto& full = static_cast<const HeapExhaustedDetail&>(*detail);
    head.detail = DetailKind::kHeapExhausted;
    head.requested_bytes = full.requested_bytes;
    head.stats = full.stats;
    head.pe = full.pe;
  }
  text += status.message();
  std::vector<std::byte> bytes(sizeof(head) + text.size());
  std::memcpy(bytes.data(), &head, sizeof(head));
  std::memcpy(bytes.data() + sizeof(head), text.data(), text.size());
  return bytes;
}

arrow::Status Decode(const std::vector<std::byte>& bytes) {
  StatusHead head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof(head),
                         bytes.size() - sizeof(head));
  std::shared_ptr<arrow::StatusDetail> detail;
  if (head.detail == DetailKind::kErrorClass) {
    detail = std::make_shared<ErrorDetail>(text.substr(0, head.class_bytes));
  } else if (head.detail == DetailKind::kHeapExhausted) {
    detail = std::make_shared<HeapExhaustedDetail>(head.requested_bytes, head.stats, head.pe);
  }
  return arrow::Status(static_cast<arrow::StatusCode>(head.code), text.substr(head.class_bytes),
                       std::move(detail));
}

}  // namespace

arrow::Status Agree(Transport& transport, const arrow::Status& local) {
  const std::vector<std::byte> mine = local.ok() ? std::vector<std::byte>() : Encode(local);
  ARROW_ASSIGN_OR_RAISE(const auto all, transport.AllGatherV(mine));
  for (const std::vector<std::byte>& bytes : all) {
    if (!bytes.empty()) return Decode(bytes);
  }
  return arrow::Status::OK();
}

}  // namespace flightshmem
