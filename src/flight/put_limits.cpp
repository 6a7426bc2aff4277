// SPDX-License-Identifier: Apache-2.0
#include "flight/put_limits.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "catalog/names.h"
#include "flight/errors.h"
#include "flight/ipc_peek.h"

namespace flightshmem {
namespace {

constexpr int kMaxFields = 20'000;
constexpr int kMaxDepth = 32;
constexpr int64_t kFar = INT64_MAX / 4;  // beyond any limit, and the sum of two does not overflow

thread_local UploadBudget* current_budget = nullptr;

std::span<const uint8_t> Span(const arrow::Buffer& buffer) {
  return {buffer.data(), static_cast<size_t>(buffer.size())};
}

arrow::Status Admit(const arrow::Buffer& body) {
  UploadBudget* budget = UploadBudget::Current();
  // Only the schema message comes before a budget exists, and that has no body.
  if (budget == nullptr || body.size() == 0) return arrow::Status::OK();
  if (budget->closed()) return arrow::Status::Cancelled("[do_put] the upload has failed already");
  // Flight cuts metadata and body out of one buffer, the FlightData message as it came.
  if (!body.parent()) return budget->Charge(body.size());
  ARROW_ASSIGN_OR_RAISE(const auto metadata, FindFlightMetadata(Span(*body.parent())));
  ARROW_ASSIGN_OR_RAISE(const IpcClaim claim, PeekIpcMessage(metadata, Span(body)));
  return budget->Charge(std::max(claim.decoded_bytes, body.size()));
}

class UploadGate : public arrow::MemoryManager {
 public:
  UploadGate() : arrow::MemoryManager(arrow::CPUDevice::Instance()) {}

  arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> GetBufferReader(
      std::shared_ptr<arrow::Buffer> buffer) override {
    return Cpu()->GetBufferReader(std::move(buffer));
  }
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> GetBufferWriter(
      std::shared_ptr<arrow::Buffer> buffer) override {
    return Cpu()->GetBufferWriter(std::move(buffer));
  }
  arrow::Result<std::unique_ptr<arrow::Buffer>> AllocateBuffer(int64_t size) override {
    return Cpu()->AllocateBuffer(size);
  }

 protected:
  arrow::Result<std::shared_ptr<arrow::Buffer>> ViewBufferFrom(
      const std::shared_ptr<arrow::Buffer>& buffer,
      const std::shared_ptr<arrow::MemoryManager>&) override {
    return Pass(buffer);
  }
  // Arrow tries a copy when the view failed: what was refused there is refused again here.
  arrow::Result<std::shared_ptr<arrow::Buffer>> CopyBufferFrom(
      const std::shared_ptr<arrow::Buffer>& buffer,
      const std::shared_ptr<arrow::MemoryManager>&) override {
    return Pass(buffer);
  }

 private:
  static arrow::Result<std::shared_ptr<arrow::Buffer>> Pass(
      const std::shared_ptr<arrow::Buffer>& buffer) {
    ARROW_RETURN_NOT_OK(Admit(*buffer));
    return buffer;
  }
  static std::shared_ptr<arrow::MemoryManager> Cpu() { return arrow::default_cpu_memory_manager(); }
};

struct SchemaSize {
  int fields = 0;
  int depth = 0;
  bool is_text = true;  // all names are UTF-8
};

void Measure(const arrow::DataType& type, int depth, SchemaSize& size) {
  size.depth = std::max(size.depth, depth);
  ++size.fields;
  if (size.depth > kMaxDepth || size.fields > kMaxFields) return;
  if (type.id() == arrow::Type::DICTIONARY) {
    Measure(*static_cast<const arrow::DictionaryType&>(type).value_type(), depth + 1, size);
  }
  if (type.id() == arrow::Type::TIMESTAMP) {
    size.is_text &= IsUtf8(static_cast<const arrow::TimestampType&>(type).timezone());
  }
  for (const auto& child : type.fields()) {
    size.is_text &= IsUtf8(child->name());
    Measure(*child->type(), depth + 1, size);
  }
}

std::shared_ptr<arrow::DataType> StorageType(const std::shared_ptr<arrow::DataType>& type) {
  if (type->id() != arrow::Type::EXTENSION) return type;
  return static_cast<const arrow::ExtensionType&>(*type).storage_type();
}

// Many views may point at the same bytes.
int64_t SharedViewBytes(const arrow::ArrayData& column) {
  auto storage = std::make_shared<arrow::ArrayData>(column);
  storage->type = StorageType(column.type);
  const auto array = arrow::MakeArray(storage);
  const auto& views = static_cast<const arrow::BinaryViewArray&>(*array);
  int64_t bytes = -arrow::util::TotalBufferSize(column);
  for (int64_t i = 0; i < views.length(); ++i) {
    if (views.IsValid(i)) bytes += static_cast<int64_t>(views.GetView(i).size());
  }
  return std::max<int64_t>(bytes, 0);
}

// Rows of these types exist without a single byte of their own.
bool IsWidthless(const arrow::DataType& type) {
  switch (type.storage_id()) {
    case arrow::Type::NA:
      return true;
    case arrow::Type::STRUCT:
      return type.num_fields() == 0;
    case arrow::Type::FIXED_SIZE_BINARY:
      return static_cast<const arrow::FixedSizeBinaryType&>(type).byte_width() == 0;
    case arrow::Type::FIXED_SIZE_LIST:
      return static_cast<const arrow::FixedSizeListType&>(type).list_size() == 0;
    default:
      return false;
  }
}

// Saturates: sums of it are compared with a limit only.
int64_t Multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kFar : product;
}

int64_t Expanded(const arrow::ArrayData& column) {
  const std::shared_ptr<arrow::DataType> type = StorageType(column.type);
  if (IsWidthless(*type)) return column.length;
  switch (type->id()) {
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return SharedViewBytes(column);
    case arrow::Type::DICTIONARY:
      return Expanded(*column.dictionary);
    case arrow::Type::RUN_END_ENCODED: {
      const arrow::ArrayData& values = *column.child_data[1];
      const int64_t value_bytes =
          arrow::util::TotalBufferSize(values) / std::max<int64_t>(values.length, 1);
      return Multiply(column.length, value_bytes + 1);
    }
    default:
      break;
  }
  int64_t bytes = 0;
  for (const auto& child : column.child_data) bytes = std::min(bytes + Expanded(*child), kFar);
  return bytes;
}

}  // namespace

UploadBudget::UploadBudget(int64_t max_bytes) : max_bytes_(max_bytes) { current_budget = this; }

UploadBudget::~UploadBudget() { current_budget = nullptr; }

UploadBudget* UploadBudget::Current() { return current_budget; }

arrow::Status UploadBudget::Charge(int64_t bytes) {
  if (__builtin_add_overflow(charged_bytes_, bytes, &charged_bytes_)) charged_bytes_ = INT64_MAX;
  if (charged_bytes_ <= max_bytes_) return arrow::Status::OK();
  return arrow::Status::CapacityError("[do_put] the upload decodes to ", charged_bytes_,
                                      " bytes or more, the limit is ", max_bytes_,
                                      ": put less at a time (mode append), or start the server "
                                      "with a larger max_put_bytes and --heap");
}

std::shared_ptr<arrow::MemoryManager> MakeUploadGate() { return std::make_shared<UploadGate>(); }

arrow::Status CheckUploadSchema(const arrow::Schema& schema) {
  SchemaSize size;
  for (const auto& field : schema.fields()) {
    size.is_text &= IsUtf8(field->name());
    Measure(*field->type(), 1, size);
    if (!size.is_text) {
      return arrow::Status::Invalid(
          "[do_put] the schema holds a name that is not UTF-8, in column ", Quoted(field->name()));
    }
    if (size.depth > kMaxDepth) {
      return arrow::Status::Invalid("[do_put] a column is nested deeper than ", kMaxDepth,
                                    " levels");
    }
    if (size.fields > kMaxFields) {
      return arrow::Status::Invalid("[do_put] more than ", kMaxFields,
                                    " columns, those inside nested ones counted");
    }
  }
  return arrow::Status::OK();
}

int64_t ExpandedBytes(const arrow::RecordBatch& batch) {
  if (batch.num_columns() == 0) return batch.num_rows();
  int64_t bytes = 0;
  for (int i = 0; i < batch.num_columns(); ++i) {
    bytes = std::min(bytes + Expanded(*batch.column_data(i)), kFar);
  }
  return bytes;
}

}  // namespace flightshmem
