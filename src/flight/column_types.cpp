// SPDX-License-Identifier: Apache-2.0
#include "flight/column_types.h"

#include <arrow/compute/cast.h>
#include <arrow/extension_type.h>

#include <algorithm>

namespace flightshmem {
namespace {

std::shared_ptr<arrow::DataType> PlainType(const std::shared_ptr<arrow::DataType>& type);

std::shared_ptr<arrow::Field> PlainField(const std::shared_ptr<arrow::Field>& field) {
  return field->WithType(PlainType(field->type()));
}

std::shared_ptr<arrow::DataType> PlainType(const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
    case arrow::Type::STRING_VIEW:
      return arrow::utf8();
    case arrow::Type::BINARY_VIEW:
      return arrow::binary();
    case arrow::Type::LIST:
      return arrow::list(PlainField(type->field(0)));
    case arrow::Type::LARGE_LIST:
      return arrow::large_list(PlainField(type->field(0)));
    case arrow::Type::FIXED_SIZE_LIST:
      return arrow::fixed_size_list(
          PlainField(type->field(0)),
          static_cast<const arrow::FixedSizeListType&>(*type).list_size());
    case arrow::Type::STRUCT: {
      arrow::FieldVector fields;
      for (const auto& field : type->fields()) fields.push_back(PlainField(field));
      return arrow::struct_(std::move(fields));
    }
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryType&>(*type);
      return arrow::dictionary(dictionary.index_type(), PlainType(dictionary.value_type()),
                               dictionary.ordered());
    }
    default:
      return type;
  }
}

}  // namespace

bool HasDictionary(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) return true;
  if (type.id() == arrow::Type::EXTENSION) {
    return HasDictionary(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  return std::any_of(type.fields().begin(), type.fields().end(),
                     [](const auto& field) { return HasDictionary(*field->type()); });
}

bool HasDictionary(const arrow::Schema& schema) {
  return std::any_of(schema.fields().begin(), schema.fields().end(),
                     [](const auto& field) { return HasDictionary(*field->type()); });
}

std::shared_ptr<arrow::Schema> PlainSchema(const arrow::Schema& schema) {
  arrow::FieldVector fields;
  for (const auto& field : schema.fields()) fields.push_back(PlainField(field));
  return arrow::schema(std::move(fields), schema.metadata());
}

arrow::Result<std::shared_ptr<arrow::Array>> CastToPlain(
    const std::shared_ptr<arrow::Array>& array, const std::shared_ptr<arrow::DataType>& type) {
  if (array->type()->Equals(*type)) return array;
  if (type->id() == arrow::Type::DICTIONARY) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(*array);
    const auto& value_type = static_cast<const arrow::DictionaryType&>(*type).value_type();
    ARROW_ASSIGN_OR_RAISE(auto values, CastToPlain(coded.dictionary(), value_type));
    return arrow::DictionaryArray::FromArrays(type, coded.indices(), values);
  }
  return arrow::compute::Cast(*array, type);
}

}  // namespace flightshmem
