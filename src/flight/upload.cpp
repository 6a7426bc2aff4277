// SPDX-License-Identifier: Apache-2.0
#include "flight/upload.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/table.h>
#include <arrow/util/byte_size.h>

#include <set>

#include "catalog/names.h"
#include "flight/column_types.h"
#include "flight/errors.h"

namespace flightshmem {
namespace {

// Batches gather in private memory up to this size, then become a shard.
constexpr int64_t kShardBytes = 64 << 20;

arrow::Status CheckColumnNames(const arrow::Schema& schema) {
  std::set<std::string_view> seen;
  for (const auto& field : schema.fields()) {
    if (!seen.insert(field->name()).second) {
      return arrow::Status::Invalid("[do_put] two columns are named ", Quoted(field->name()),
                                    ": column names must differ");
    }
  }
  return arrow::Status::OK();
}

arrow::Status ValidateColumns(const arrow::RecordBatch& batch) {
  ARROW_RETURN_NOT_OK(batch.Validate());
  for (int i = 0; i < batch.num_columns(); ++i) {
    const auto status = batch.column(i)->ValidateFull();
    if (!status.ok()) {
      return arrow::Status::Invalid("[do_put] column ", Quoted(batch.column_name(i)),
                                    " holds invalid values: ", status.message());
    }
    if (!batch.schema()->field(i)->nullable() && batch.column(i)->null_count() > 0) {
      return arrow::Status::Invalid("[do_put] column ", Quoted(batch.column_name(i)),
                                    " is declared not null, got ", batch.column(i)->null_count(),
                                    " nulls");
    }
  }
  return arrow::Status::OK();
}

// The shards there are keep the table's dictionary: what is appended must get by with its values.
arrow::Status CheckNoNewValues(const TableVersion& base, const arrow::Table& unified) {
  for (int i = 0; i < unified.num_columns(); ++i) {
    if (unified.column(i)->type()->id() != arrow::Type::DICTIONARY) continue;
    const auto dictionary_size = [](const arrow::Array& column) {
      return static_cast<const arrow::DictionaryArray&>(column).dictionary()->length();
    };
    const int64_t before = dictionary_size(*base.header()->empty()->column(i));
    const int64_t now = dictionary_size(*unified.column(i)->chunk(0));
    if (now == before) continue;
    return arrow::Status::TypeError("cannot append to table ", Quoted(base.name()),
                                    ": dictionary column ", Quoted(unified.field(i)->name()),
                                    " brings ", now - before,
                                    " values that its dictionary lacks: replace the table, or keep "
                                    "such columns as plain values");
  }
  return arrow::Status::OK();
}

}  // namespace

Upload::Upload(std::shared_ptr<Catalog> catalog, std::shared_ptr<arrow::Schema> schema,
               std::shared_ptr<const TableVersion> base)
    : catalog_(std::move(catalog)),
      schema_(std::move(schema)),
      base_(std::move(base)),
      has_dictionaries_(HasDictionary(*schema_)) {}

arrow::Result<std::unique_ptr<Upload>> Upload::Start(std::shared_ptr<Catalog> catalog,
                                                     const std::shared_ptr<arrow::Schema>& schema,
                                                     std::shared_ptr<const TableVersion> base) {
  ARROW_RETURN_NOT_OK(CheckUploadSchema(*schema));
  ARROW_RETURN_NOT_OK(CheckColumnNames(*schema));
  auto plain = PlainSchema(*schema);
  if (base && !base->header()->schema()->Equals(*plain, /*check_metadata=*/false)) {
    return arrow::Status::TypeError("cannot append to table ", Quoted(base->name()),
                                    ": its schema is\n", base->header()->schema()->ToString(),
                                    "\ngot\n", plain->ToString());
  }
  return std::unique_ptr<Upload>(new Upload(std::move(catalog), std::move(plain), std::move(base)));
}

arrow::Status Upload::Add(const std::shared_ptr<arrow::RecordBatch>& batch, UploadBudget& budget) {
  ARROW_RETURN_NOT_OK(ValidateColumns(*batch));
  ARROW_RETURN_NOT_OK(budget.Charge(ExpandedBytes(*batch)));
  if (batch->num_rows() == 0) return arrow::Status::OK();
  arrow::ArrayVector columns;
  for (int i = 0; i < batch->num_columns(); ++i) {
    auto column = CastToPlain(batch->column(i), schema_->field(i)->type());
    if (!column.ok()) {
      return column.status().WithMessage("[do_put] column ", Quoted(batch->column_name(i)), ": ",
                                         column.status().message());
    }
    columns.push_back(std::move(column).ValueUnsafe());
  }
  staged_.push_back(arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(columns)));
  staged_bytes_ += arrow::util::TotalBufferSize(*staged_.back());
  rows_ += batch->num_rows();
  // Dictionaries may still change: such tables wait for the end.
  if (has_dictionaries_ || staged_bytes_ < kShardBytes) return arrow::Status::OK();
  return WriteStaged();
}

arrow::Status Upload::WriteStaged() {
  if (staged_.empty()) return arrow::Status::OK();
  std::shared_ptr<arrow::RecordBatch> batch = staged_.front();
  if (staged_.size() > 1) {
    ARROW_ASSIGN_OR_RAISE(batch, arrow::ConcatenateRecordBatches(staged_));
  }
  staged_.clear();
  staged_bytes_ = 0;
  ARROW_ASSIGN_OR_RAISE(auto shard, WriteShard(*catalog_->heap(), *batch));
  shards_.push_back(std::move(shard));
  return arrow::Status::OK();
}

// A table has one dictionary per column. The base's come first, so its codes keep their meaning.
arrow::Status Upload::UnifyStaged() {
  arrow::RecordBatchVector all;
  if (base_) all.push_back(base_->header()->empty());
  all.insert(all.end(), staged_.begin(), staged_.end());
  if (all.empty()) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto table, arrow::Table::FromRecordBatches(schema_, all));
  ARROW_ASSIGN_OR_RAISE(table, arrow::DictionaryUnifier::UnifyTable(*table));
  if (base_) ARROW_RETURN_NOT_OK(CheckNoNewValues(*base_, *table));
  return arrow::TableBatchReader(*table).ToRecordBatches().Value(&staged_);
}

arrow::Status Upload::Publish(const std::string& name, PublishMode mode) {
  if (has_dictionaries_) ARROW_RETURN_NOT_OK(UnifyStaged());
  std::shared_ptr<arrow::RecordBatch> sample;
  if (!staged_.empty()) {
    sample = staged_.front();
  } else {
    ARROW_ASSIGN_OR_RAISE(sample, arrow::RecordBatch::MakeEmpty(schema_));
  }
  ARROW_ASSIGN_OR_RAISE(header_, TableHeader::FromBatch(*sample));
  ARROW_RETURN_NOT_OK(WriteStaged());
  if (shards_.empty()) {
    ARROW_ASSIGN_OR_RAISE(auto empty, WriteShard(*catalog_->heap(), *header_->empty()));
    shards_.push_back(std::move(empty));
  }
  std::vector<ShardRef> refs;
  for (const Shard& shard : shards_) {
    refs.push_back({shard.where, static_cast<uint64_t>(shard.message->size()), shard.rows});
  }
  ARROW_ASSIGN_OR_RAISE(const EntryId id, catalog_->Publish(name, mode, *header_, refs, ""));
  for (Shard& shard : shards_) catalog_->Own(id, std::move(shard.message));
  shards_.clear();
  return arrow::Status::OK();
}

}  // namespace flightshmem
