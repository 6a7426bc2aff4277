// SPDX-License-Identifier: Apache-2.0
#include "flight/ipc_peek.h"

#include <arrow/status.h>

#include <cstring>

namespace flightshmem {
namespace {

using Bytes = std::span<const uint8_t>;

arrow::Status Malformed() { return arrow::Status::Invalid("[do_put] malformed IPC metadata"); }

template <typename T>
arrow::Result<T> Load(Bytes bytes, uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return Malformed();
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// A flatbuffer table: at `at` lies the distance back to its vtable; the vtable holds its own size,
// the table's size, then one 16-bit field position per field (0: absent).
class Table {
 public:
  static arrow::Result<Table> At(Bytes bytes, uint64_t at) {
    ARROW_ASSIGN_OR_RAISE(const int32_t back, Load<int32_t>(bytes, at));
    const int64_t vtable = static_cast<int64_t>(at) - back;
    if (vtable < 0) return Malformed();
    ARROW_ASSIGN_OR_RAISE(const uint16_t size, Load<uint16_t>(bytes, vtable));
    return Table(bytes, at, static_cast<uint64_t>(vtable), size);
  }

  // Where field `number` lies; 0 when it is absent.
  arrow::Result<uint64_t> Field(int number) const {
    const uint64_t entry = 4 + 2 * static_cast<uint64_t>(number);
    if (entry + 2 > vtable_size_) return 0;
    ARROW_ASSIGN_OR_RAISE(const uint16_t position, Load<uint16_t>(bytes_, vtable_ + entry));
    return position == 0 ? 0 : at_ + position;
  }

  template <typename T>
  arrow::Result<T> Scalar(int number, T absent) const {
    ARROW_ASSIGN_OR_RAISE(const uint64_t at, Field(number));
    return at == 0 ? absent : Load<T>(bytes_, at);
  }

  // The target of an offset field; 0 when it is absent.
  arrow::Result<uint64_t> Target(int number) const {
    ARROW_ASSIGN_OR_RAISE(const uint64_t at, Field(number));
    if (at == 0) return 0;
    ARROW_ASSIGN_OR_RAISE(const uint32_t distance, Load<uint32_t>(bytes_, at));
    return at + distance;
  }

 private:
  Table(Bytes bytes, uint64_t at, uint64_t vtable, uint16_t vtable_size)
      : bytes_(bytes), at_(at), vtable_(vtable), vtable_size_(vtable_size) {}

  Bytes bytes_;
  uint64_t at_, vtable_;
  uint16_t vtable_size_;
};

// Fields by number, as Message.fbs lists them.
constexpr int kMessageHeaderType = 1, kMessageHeader = 2;
constexpr uint8_t kDictionaryBatch = 2, kRecordBatch = 3;
constexpr int kDictionaryBatchRows = 1;
constexpr int kBatchLength = 0, kBatchBuffers = 2, kBatchCompression = 3;

// A compressed buffer begins with its decoded size; -1 there means it is stored as it is.
arrow::Result<int64_t> DecodedBytes(Bytes body, int64_t offset, int64_t length, bool compressed) {
  if (offset < 0 || length < 0) return Malformed();
  if (!compressed || length == 0) return length;
  ARROW_ASSIGN_OR_RAISE(const int64_t claimed, Load<int64_t>(body, static_cast<uint64_t>(offset)));
  if (claimed < -1) return Malformed();
  return claimed == -1 ? length : claimed;
}

arrow::Result<IpcClaim> PeekBatch(Bytes metadata, const Table& batch, Bytes body) {
  IpcClaim claim;
  ARROW_ASSIGN_OR_RAISE(claim.rows, batch.Scalar<int64_t>(kBatchLength, 0));
  ARROW_ASSIGN_OR_RAISE(const uint64_t compression, batch.Target(kBatchCompression));
  ARROW_ASSIGN_OR_RAISE(const uint64_t buffers, batch.Target(kBatchBuffers));
  if (claim.rows < 0) return Malformed();
  if (buffers == 0) return claim;
  ARROW_ASSIGN_OR_RAISE(const uint32_t count, Load<uint32_t>(metadata, buffers));
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t entry = buffers + 4 + 16 * static_cast<uint64_t>(i);
    ARROW_ASSIGN_OR_RAISE(const int64_t offset, Load<int64_t>(metadata, entry));
    ARROW_ASSIGN_OR_RAISE(const int64_t length, Load<int64_t>(metadata, entry + 8));
    ARROW_ASSIGN_OR_RAISE(const int64_t bytes,
                          DecodedBytes(body, offset, length, compression != 0));
    if (__builtin_add_overflow(claim.decoded_bytes, bytes, &claim.decoded_bytes)) {
      return Malformed();
    }
  }
  return claim;
}

arrow::Result<uint64_t> ReadVarint(Bytes bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    ARROW_ASSIGN_OR_RAISE(const uint8_t byte, Load<uint8_t>(bytes, at));
    ++at;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return Malformed();
}

}  // namespace

arrow::Result<IpcClaim> PeekIpcMessage(Bytes metadata, Bytes body) {
  ARROW_ASSIGN_OR_RAISE(const uint32_t root, Load<uint32_t>(metadata, 0));
  ARROW_ASSIGN_OR_RAISE(const Table message, Table::At(metadata, root));
  ARROW_ASSIGN_OR_RAISE(const uint8_t type, message.Scalar<uint8_t>(kMessageHeaderType, 0));
  if (type != kDictionaryBatch && type != kRecordBatch) return IpcClaim{};
  ARROW_ASSIGN_OR_RAISE(uint64_t at, message.Target(kMessageHeader));
  if (at == 0) return Malformed();
  if (type == kDictionaryBatch) {
    ARROW_ASSIGN_OR_RAISE(const Table dictionary, Table::At(metadata, at));
    ARROW_ASSIGN_OR_RAISE(at, dictionary.Target(kDictionaryBatchRows));
    if (at == 0) return Malformed();
  }
  ARROW_ASSIGN_OR_RAISE(const Table batch, Table::At(metadata, at));
  return PeekBatch(metadata, batch, body);
}

arrow::Result<Bytes> FindFlightMetadata(Bytes flight_data) {
  constexpr uint64_t kDataHeaderField = 2, kLengthDelimited = 2;
  Bytes found;
  size_t at = 0;
  while (at < flight_data.size()) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t tag, ReadVarint(flight_data, at));
    if ((tag & 7) != kLengthDelimited) return Malformed();
    ARROW_ASSIGN_OR_RAISE(const uint64_t length, ReadVarint(flight_data, at));
    if (length > flight_data.size() - at) return Malformed();
    if (tag >> 3 == kDataHeaderField) found = flight_data.subspan(at, length);  // the last one wins
    at += length;
  }
  return found;
}

}  // namespace flightshmem
