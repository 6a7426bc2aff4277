// SPDX-License-Identifier: Apache-2.0
//
// How much one upload may bring, checked before its bytes are decoded.
//
// Flight decodes a message inside FlightMessageReader::Next, and the only place of ours on the way
// is the memory manager that receives the raw body. UploadGate sits there; what it may let through
// is the UploadBudget of the upload that this thread is reading.
#pragma once

#include <arrow/device.h>
#include <arrow/record_batch.h>

#include <memory>

namespace flightshmem {

// While it lives, bodies read by this thread are charged to it. One per thread at a time.
class UploadBudget {
 public:
  explicit UploadBudget(int64_t max_bytes);
  ~UploadBudget();
  UploadBudget(const UploadBudget&) = delete;
  UploadBudget& operator=(const UploadBudget&) = delete;

  // CapacityError when the sum passes max_bytes.
  arrow::Status Charge(int64_t bytes);
  // From here on bodies are refused undecoded: the rest of the stream is only read away.
  void Close() { closed_ = true; }
  bool closed() const { return closed_; }

  // This thread's, or null.
  static UploadBudget* Current();

 private:
  const int64_t max_bytes_;
  int64_t charged_bytes_ = 0;
  bool closed_ = false;
};

// For FlightServerOptions.memory_manager. Bodies pass through uncopied, or are refused.
std::shared_ptr<arrow::MemoryManager> MakeUploadGate();

// Number of columns (nested ones counted), nesting depth, names in UTF-8. Invalid names the limit.
arrow::Status CheckUploadSchema(const arrow::Schema& schema);

// Bytes that `batch` may grow by where its rows have none of their own: a row of a widthless type
// (null, struct of nothing) counts as one byte, run-end encoded ones as if every row were written
// out, views that share bytes as if none did. REQUIRES: batch is valid (ValidateFull).
int64_t ExpandedBytes(const arrow::RecordBatch& batch);

}  // namespace flightshmem
