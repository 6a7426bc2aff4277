// SPDX-License-Identifier: Apache-2.0
//
// Why our own: Arrow's grouper hashes encoded rows, and a group's states lie wherever they were
// made. Here keys become numbers as in a join, and a state is one array that is added to by number.
// Measured (one core, 5 M rows, sum and count of doubles): 1 M groups of int64 43 ms (Arrow 330),
// when the keys are far apart 140 ms (330); 100 groups of strings 36 ms (55).
#include "kernels/group.h"

#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/key_codes.h"

namespace flightshmem {
namespace {

template <typename T>
arrow::Result<std::pair<std::shared_ptr<arrow::Buffer>, T*>> NewValues(int64_t count) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(count * int64_t{sizeof(T)}));
  T* values = reinterpret_cast<T*>(buffer->mutable_data());
  return std::pair{std::shared_ptr<arrow::Buffer>(std::move(buffer)), values};
}

// The rows of a column with their groups.
struct Rows {
  const uint32_t* numbers;
  int64_t n_groups;
  const arrow::ChunkedArray& values;
  bool nan_is_missing;
};

// Calls visit(group, value) for every value that is not missing.
template <typename T, typename Visit>
void ForEachValue(const Rows& rows, Visit visit) {
  const uint32_t* numbers = rows.numbers;
  for (const auto& chunk : rows.values.chunks()) {
    const T* in = chunk->data()->GetValues<T>(1);
    const uint8_t* valid = chunk->null_count() > 0 ? chunk->null_bitmap_data() : nullptr;
    for (int64_t i = 0; i < chunk->length(); ++i) {
      if (valid != nullptr && !arrow::bit_util::GetBit(valid, chunk->offset() + i)) continue;
      if constexpr (std::is_floating_point_v<T>) {
        if (rows.nan_is_missing && std::isnan(in[i])) continue;
      }
      visit(numbers[i], in[i]);
    }
    numbers += chunk->length();
  }
}

template <typename T>
arrow::Result<std::shared_ptr<arrow::Array>> Sum(const Rows& rows) {
  // Unsigned sums wrap without being undefined.
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  ARROW_ASSIGN_OR_RAISE(const auto made, NewValues<Total>(rows.n_groups));
  const auto& [buffer, totals] = made;
  std::fill_n(totals, rows.n_groups, Total{0});
  ForEachValue<T>(rows, [totals = totals](uint32_t group, T value) {
    totals[group] += static_cast<Total>(value);
  });
  const auto type = std::is_floating_point_v<T> ? arrow::float64()
                    : std::is_signed_v<T>       ? arrow::int64()
                                                : arrow::uint64();
  return arrow::MakeArray(arrow::ArrayData::Make(type, rows.n_groups, {nullptr, buffer}, 0));
}

// Of any type but floats with NaN.
void CountValid(const Rows& rows, int64_t* counts) {
  const uint32_t* numbers = rows.numbers;
  for (const auto& chunk : rows.values.chunks()) {
    const bool has_nulls = chunk->null_count() > 0;
    for (int64_t i = 0; i < chunk->length(); ++i) {
      counts[numbers[i]] += !has_nulls || chunk->IsValid(i);
    }
    numbers += chunk->length();
  }
}

arrow::Result<std::shared_ptr<arrow::Array>> Count(const Rows& rows) {
  ARROW_ASSIGN_OR_RAISE(const auto made, NewValues<int64_t>(rows.n_groups));
  const auto& [buffer, counts] = made;
  std::fill_n(counts, rows.n_groups, 0);
  const auto count = [counts = counts](uint32_t group, auto) { ++counts[group]; };
  const arrow::Type::type id = rows.values.type()->id();
  if (rows.nan_is_missing && id == arrow::Type::DOUBLE) {
    ForEachValue<double>(rows, count);
  } else if (rows.nan_is_missing && id == arrow::Type::FLOAT) {
    ForEachValue<float>(rows, count);
  } else {
    CountValid(rows, counts);
  }
  return std::make_shared<arrow::Int64Array>(rows.n_groups, buffer);
}

// Null for the groups that have not been found.
arrow::Result<std::shared_ptr<arrow::Array>> WithNulls(const std::shared_ptr<arrow::DataType>& type,
                                                       std::shared_ptr<arrow::Buffer> values,
                                                       const std::vector<uint8_t>& found) {
  const auto n_groups = static_cast<int64_t>(found.size());
  const int64_t nulls = std::count(found.begin(), found.end(), 0);
  std::shared_ptr<arrow::Buffer> valid;
  if (nulls > 0) {
    ARROW_ASSIGN_OR_RAISE(valid, arrow::AllocateBitmap(n_groups));
    for (int64_t g = 0; g < n_groups; ++g) {
      arrow::bit_util::SetBitTo(valid->mutable_data(), g, found[g] != 0);
    }
  }
  return arrow::MakeArray(
      arrow::ArrayData::Make(type, n_groups, {std::move(valid), std::move(values)}, nulls));
}

template <typename T>
arrow::Result<std::shared_ptr<arrow::Array>> Extreme(const Rows& rows, bool least) {
  ARROW_ASSIGN_OR_RAISE(const auto made, NewValues<T>(rows.n_groups));
  const auto& [buffer, extremes] = made;
  std::fill_n(extremes, rows.n_groups, T{0});
  std::vector<uint8_t> found(static_cast<size_t>(rows.n_groups));
  ForEachValue<T>(rows, [&, extremes = extremes](uint32_t group, T value) {
    T& extreme = extremes[group];
    // A NaN that is not missing stays, as in a sum.
    const bool is_beyond = least ? !(value >= extreme) : !(value <= extreme);
    if (!found[group] || is_beyond) extreme = value;
    found[group] = 1;
  });
  return WithNulls(rows.values.type(), buffer, found);
}

template <typename T>
arrow::Result<std::shared_ptr<arrow::Array>> NumberState(GroupState state, const Rows& rows) {
  if (state == GroupState::kSum) return Sum<T>(rows);
  return Extreme<T>(rows, state == GroupState::kMin);
}

}  // namespace

arrow::Result<Groups> GroupRows(const arrow::Table& keys) {
  ARROW_ASSIGN_OR_RAISE(const KeyCodes coded, EncodeKeys(*keys.Slice(0, 0), keys));
  const int64_t rows = keys.num_rows();
  ARROW_ASSIGN_OR_RAISE(const auto made, NewValues<uint32_t>(rows));
  const auto& [buffer, numbers] = made;
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> number_of(static_cast<size_t>(coded.n_codes), kNone);
  std::vector<int64_t> first_rows;
  for (int64_t i = 0; i < rows; ++i) {
    uint32_t& number = number_of[coded.codes[i]];
    if (number == kNone) {
      number = static_cast<uint32_t>(first_rows.size());
      first_rows.push_back(i);
    }
    numbers[i] = number;
  }
  const auto n_groups = static_cast<int64_t>(first_rows.size());
  return Groups{std::make_shared<arrow::UInt32Array>(rows, buffer),
                std::make_shared<arrow::Int64Array>(
                    n_groups, arrow::Buffer::FromVector(std::move(first_rows)))};
}

arrow::Result<std::shared_ptr<arrow::Array>> StateOfGroups(GroupState state,
                                                           const arrow::UInt32Array& numbers,
                                                           int64_t n_groups,
                                                           const arrow::ChunkedArray& values,
                                                           bool nan_is_missing) {
  if (values.length() != numbers.length()) {
    return arrow::Status::Invalid("[group] needs a value for each of ", numbers.length(),
                                  " rows, got ", values.length());
  }
  const Rows rows{numbers.raw_values(), n_groups, values, nan_is_missing};
  if (state == GroupState::kCount) return Count(rows);
  const arrow::Type::type id = values.type()->id();
  if (state == GroupState::kSum && !arrow::is_integer(id) && !arrow::is_floating(id)) {
    return arrow::Status::NotImplemented("[group] no sum of ", values.type()->ToString());
  }
  switch (id) {
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return NumberState<int32_t>(state, rows);
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return NumberState<int64_t>(state, rows);
    case arrow::Type::UINT32:
      return NumberState<uint32_t>(state, rows);
    case arrow::Type::UINT64:
      return NumberState<uint64_t>(state, rows);
    case arrow::Type::FLOAT:
      return NumberState<float>(state, rows);
    case arrow::Type::DOUBLE:
      return NumberState<double>(state, rows);
    default:
      return arrow::Status::NotImplemented("[group] no such state of ", values.type()->ToString());
  }
}

}  // namespace flightshmem
