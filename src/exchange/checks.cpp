// SPDX-License-Identifier: Apache-2.0
#include "exchange/checks.h"

#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "exchange/layout.h"

namespace flightshmem {
namespace {

std::string Here(const Transport& transport) {
  return "PE " + std::to_string(transport.my_pe()) + "/" + std::to_string(transport.n_pes());
}

arrow::Status CheckDictionaries(const Transport& transport, const arrow::Schema& schema,
                                const arrow::RecordBatchVector& batches) {
  for (int c = 0; c < schema.num_fields(); ++c) {
    if (schema.field(c)->type()->id() != arrow::Type::DICTIONARY) continue;
    if (batches.empty()) {
      return arrow::Status::Invalid("[exchange] no batch to take the dictionary of column '",
                                    schema.field(c)->name(), "' from, ", Here(transport),
                                    ": pass one, it may be empty");
    }
    const auto dictionary_of = [c](const arrow::RecordBatch& batch) {
      return batch.column_data(c)->dictionary;
    };
    const auto first = arrow::MakeArray(dictionary_of(*batches[0]));
    for (const auto& batch : batches) {
      if (dictionary_of(*batch) == first->data()) continue;
      if (!arrow::MakeArray(dictionary_of(*batch))->Equals(*first)) {
        return arrow::Status::Invalid("[exchange] column '", schema.field(c)->name(),
                                      "' has several dictionaries, ", Here(transport),
                                      ": unify them first");
      }
    }
  }
  return arrow::Status::OK();
}

std::shared_ptr<arrow::Schema> WithoutMetadata(const arrow::Schema& schema) {
  arrow::FieldVector fields;
  for (const auto& field : schema.fields()) fields.push_back(field->RemoveMetadata());
  return arrow::schema(std::move(fields));
}

arrow::Result<std::shared_ptr<arrow::Schema>> ParseSchema(const std::vector<std::byte>& bytes) {
  arrow::io::BufferReader reader(arrow::Buffer::Wrap(bytes.data(), bytes.size()));
  arrow::ipc::DictionaryMemo memo;
  return arrow::ipc::ReadSchema(&reader, &memo);
}

// All rows are looked at: that vectorises, and bad numbers are rare.
uint16_t Highest(const uint16_t* begin, const uint16_t* end) {
  uint16_t highest = 0;
  for (; begin != end; ++begin) highest = std::max(highest, *begin);
  return highest;
}

std::string Describe(const arrow::Field& field) {
  return "'" + field.name() + "' " + field.type()->ToString() +
         (field.nullable() ? "" : " not null");
}

arrow::Status Difference(const arrow::Schema& first, const arrow::Schema& other, int pe,
                         int n_pes) {
  const std::string where = ", PE " + std::to_string(pe) + "/" + std::to_string(n_pes) +
                            ": give every PE the same columns (cast or select them first)";
  for (int c = 0; c < std::min(first.num_fields(), other.num_fields()); ++c) {
    if (first.field(c)->Equals(other.field(c))) continue;
    return arrow::Status::TypeError("[exchange] column ", c, " differs from PE 0's ",
                                    Describe(*first.field(c)), ", got ", Describe(*other.field(c)),
                                    where);
  }
  return arrow::Status::TypeError("[exchange] the number of columns differs from PE 0's ",
                                  first.num_fields(), ", got ", other.num_fields(), where);
}

}  // namespace

arrow::Status CheckBatches(const Transport& transport, const arrow::Schema& schema,
                           const arrow::RecordBatchVector& batches) {
  ARROW_RETURN_NOT_OK(ShapesOf(schema).status());
  for (const auto& batch : batches) {
    if (!batch->schema()->Equals(schema, /*check_metadata=*/false)) {
      return arrow::Status::TypeError("[exchange] a batch is not of the table's schema, got ",
                                      batch->schema()->ToString(), ", ", Here(transport));
    }
  }
  return CheckDictionaries(transport, schema, batches);
}

arrow::Status CheckRows(const Transport& transport, const arrow::Schema& schema,
                        const arrow::RecordBatchVector& batches,
                        const std::vector<std::shared_ptr<arrow::UInt16Array>>& pes) {
  ARROW_RETURN_NOT_OK(CheckBatches(transport, schema, batches));
  if (pes.size() != batches.size()) {
    return arrow::Status::Invalid("[exchange] needs PE numbers for ", batches.size(),
                                  " batches, got ", pes.size(), ", ", Here(transport));
  }
  const auto n_pes = static_cast<uint32_t>(transport.n_pes());
  for (size_t b = 0; b < batches.size(); ++b) {
    const arrow::UInt16Array& numbers = *pes[b];
    if (numbers.length() != batches[b]->num_rows() || numbers.null_count() > 0) {
      return arrow::Status::Invalid("[exchange] needs one PE number for each of ",
                                    batches[b]->num_rows(), " rows, got ",
                                    numbers.length() - numbers.null_count(), ", ", Here(transport));
    }
    const uint16_t* begin = numbers.raw_values();
    const uint16_t* end = begin + numbers.length();
    const uint16_t highest = Highest(begin, end);
    if (highest >= n_pes) {
      return arrow::Status::Invalid("[exchange] PE numbers must be below ", n_pes, ", got ",
                                    highest, ", ", Here(transport));
    }
  }
  return arrow::Status::OK();
}

arrow::Status CheckSchemasAgree(Transport& transport, const arrow::Schema& schema) {
  if (transport.n_pes() == 1) return arrow::Status::OK();
  // What can be serialized is decided by types alone, and they were found movable: no PE fails here
  // without the others.
  ARROW_ASSIGN_OR_RAISE(auto bytes, arrow::ipc::SerializeSchema(*WithoutMetadata(schema)));
  ARROW_ASSIGN_OR_RAISE(const auto all,
                        transport.AllGatherV({reinterpret_cast<const std::byte*>(bytes->data()),
                                              static_cast<size_t>(bytes->size())}));
  for (size_t pe = 1; pe < all.size(); ++pe) {
    if (all[pe] == all[0]) continue;
    ARROW_ASSIGN_OR_RAISE(auto first, ParseSchema(all[0]));
    ARROW_ASSIGN_OR_RAISE(auto other, ParseSchema(all[pe]));
    return Difference(*first, *other, static_cast<int>(pe), transport.n_pes());
  }
  return arrow::Status::OK();
}

}  // namespace flightshmem
