// SPDX-License-Identifier: Apache-2.0
//
// The table that an upload is building: validated batches in, shards out.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "flight/put_limits.h"

namespace flightshmem {

// One thread. Shards written before Publish belong to this object: dropping it frees them.
class Upload {
 public:
  // `schema` as the client sent it; the table's has plain string and binary columns for views.
  // `base`: the current version when rows are to be appended to it, else null; schemas must agree
  // (TypeError).
  static arrow::Result<std::unique_ptr<Upload>> Start(std::shared_ptr<Catalog> catalog,
                                                      const std::shared_ptr<arrow::Schema>& schema,
                                                      std::shared_ptr<const TableVersion> base);

  // Validates every value (Invalid names the column), then keeps the batch or writes it to the
  // heap.
  arrow::Status Add(const std::shared_ptr<arrow::RecordBatch>& batch, UploadBudget& budget);
  // Makes everything visible under `name`, atomically. Once.
  arrow::Status Publish(const std::string& name, PublishMode mode);

  int64_t rows() const { return rows_; }

 private:
  Upload(std::shared_ptr<Catalog> catalog, std::shared_ptr<arrow::Schema> schema,
         std::shared_ptr<const TableVersion> base);
  arrow::Status WriteStaged();
  arrow::Status UnifyStaged();

  const std::shared_ptr<Catalog> catalog_;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::shared_ptr<const TableVersion> base_;
  const bool has_dictionaries_;
  std::shared_ptr<TableHeader> header_;  // known once the dictionaries are
  arrow::RecordBatchVector staged_;
  int64_t staged_bytes_ = 0;
  std::vector<Shard> shards_;
  int64_t rows_ = 0;
};

}  // namespace flightshmem
