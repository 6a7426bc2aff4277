// SPDX-License-Identifier: Apache-2.0
#include "shard/erase.h"

#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace flightshmem {
namespace {

using arrow::ArrayData;
using arrow::DataType;
using arrow::Type;
namespace bit_util = arrow::bit_util;

// Which rows are live: a bitmap, or null when all are.
using Live = const uint8_t*;
using Bitmap = std::vector<uint8_t>;

arrow::Status Erase(const ArrayData& column, const DataType& type, Live parent);

// One pass over the rows of one column (one level of nesting), children by recursion.
class Eraser {
 public:
  Eraser(const ArrayData& column, const DataType& type, Live live)
      : column_(column), type_(type), live_(live) {}

  arrow::Status Run();

 private:
  uint8_t* bytes(size_t buffer) const {
    return const_cast<uint8_t*>(column_.buffers[buffer]->data());
  }
  bool has(size_t buffer) const {
    return column_.buffers[buffer] != nullptr && column_.buffers[buffer]->size() > 0;
  }
  template <typename T>
  const T* values(size_t buffer) const {
    return reinterpret_cast<const T*>(bytes(buffer));
  }

  template <typename Visit>  // Visit(row), for every row that is not live
  void ForDead(Visit&& visit) const {
    if (live_ == nullptr) return;
    for (int64_t row = 0; row < column_.length; ++row) {
      if (row % 8 == 0 && live_[row / 8] == 0xFF) {
        row += 7;
      } else if (!bit_util::GetBit(live_, row)) {
        visit(row);
      }
    }
  }
  // A bitmap over child `child` with the bits that `mark` sets through SetBitsTo.
  template <typename Mark>  // Mark(row, bitmap) for every live row
  arrow::Status Child(size_t child, Mark&& mark) const {
    const ArrayData& values = *column_.child_data[child];
    Bitmap live(bit_util::BytesForBits(values.length), 0);
    for (int64_t row = 0; row < column_.length; ++row) {
      if (live_ == nullptr || bit_util::GetBit(live_, row)) mark(row, live.data());
    }
    return Erase(values, *values.type, live.data());
  }

  void EraseTail(size_t buffer, int64_t used_bytes) const;
  void EraseTailBits(size_t buffer) const;
  void EraseTails() const;
  void EraseBits() const;
  void EraseFixedWidth(int width) const;
  template <typename Float>
  void EraseFloats(Float nan) const;
  template <typename Offset>
  void EraseText() const;
  void EraseViews() const;
  template <typename Offset>
  arrow::Status EraseList() const;
  template <typename Offset>
  arrow::Status EraseListView() const;
  arrow::Status EraseFixedSizeList() const;
  arrow::Status EraseChildren(Live live) const;
  arrow::Status EraseUnion() const;

  const ArrayData& column_;
  const DataType& type_;
  const Live live_;
};

void Eraser::EraseTail(size_t buffer, int64_t used_bytes) const {
  const int64_t size = column_.buffers[buffer]->size();
  if (used_bytes < size) std::memset(bytes(buffer) + used_bytes, 0, size - used_bytes);
}

void Eraser::EraseTailBits(size_t buffer) const {
  EraseTail(buffer, bit_util::BytesForBits(column_.length));
  for (int64_t bit = column_.length; bit % 8 != 0; ++bit) bit_util::ClearBit(bytes(buffer), bit);
}

void Eraser::EraseTails() const {
  const auto layout = type_.layout();
  const bool has_end_offset =
      arrow::is_base_binary_like(type_.id()) || arrow::is_var_length_list(type_.id());
  for (size_t i = 0; i < layout.buffers.size() && i < column_.buffers.size(); ++i) {
    if (!has(i)) continue;
    const auto& spec = layout.buffers[i];
    if (spec.kind == arrow::DataTypeLayout::BITMAP) {
      EraseTailBits(i);
    } else if (spec.kind == arrow::DataTypeLayout::FIXED_WIDTH) {
      EraseTail(i, (column_.length + (has_end_offset && i == 1 ? 1 : 0)) * spec.byte_width);
    }
  }
}

void Eraser::EraseBits() const {
  ForDead([this](int64_t row) { bit_util::ClearBit(bytes(1), row); });
}

void Eraser::EraseFixedWidth(int width) const {
  ForDead([this, width](int64_t row) { std::memset(bytes(1) + row * width, 0, width); });
}

template <typename Float>
void Eraser::EraseFloats(Float nan) const {
  auto* slots = reinterpret_cast<Float*>(bytes(1));
  ForDead([slots, nan](int64_t row) { slots[row] = nan; });
}

template <typename Offset>
void Eraser::EraseText() const {
  if (!has(2)) return;
  const Offset* offsets = values<Offset>(1);
  ForDead([&](int64_t row) {
    std::memset(bytes(2) + offsets[row], 0, offsets[row + 1] - offsets[row]);
  });
  EraseTail(2, offsets[column_.length]);
}

// A view names its bytes anywhere in the variadic buffers, so what no live view names is found by
// keeping a copy and putting back what the views name.
void Eraser::EraseViews() const {
  EraseFixedWidth(arrow::BinaryViewType::kSize);
  std::vector<Bitmap> copies;
  for (size_t i = 2; i < column_.buffers.size(); ++i) {
    copies.emplace_back(bytes(i), bytes(i) + column_.buffers[i]->size());
    EraseTail(i, 0);
  }
  const auto* views = values<arrow::BinaryViewType::c_type>(1);
  for (int64_t row = 0; row < column_.length; ++row) {
    if (views[row].is_inline()) continue;
    const auto& view = views[row].ref;
    std::memcpy(bytes(view.buffer_index + 2) + view.offset,
                copies[view.buffer_index].data() + view.offset, view.size);
  }
}

template <typename Offset>
arrow::Status Eraser::EraseList() const {
  if (live_ == nullptr || !has(1)) return EraseChildren(nullptr);
  const Offset* offsets = values<Offset>(1);
  return Child(0, [offsets](int64_t row, uint8_t* live) {
    bit_util::SetBitsTo(live, offsets[row], offsets[row + 1] - offsets[row], true);
  });
}

template <typename Offset>
arrow::Status Eraser::EraseListView() const {
  if (!has(1)) return EraseChildren(nullptr);
  auto* offsets = reinterpret_cast<Offset*>(bytes(1));
  auto* sizes = reinterpret_cast<Offset*>(bytes(2));
  ForDead([=](int64_t row) { offsets[row] = sizes[row] = 0; });
  return Child(0, [=](int64_t row, uint8_t* live) {
    bit_util::SetBitsTo(live, offsets[row], sizes[row], true);
  });
}

arrow::Status Eraser::EraseFixedSizeList() const {
  if (live_ == nullptr) return EraseChildren(nullptr);
  const int64_t size = static_cast<const arrow::FixedSizeListType&>(type_).list_size();
  return Child(
      0, [size](int64_t row, uint8_t* live) { bit_util::SetBitsTo(live, row * size, size, true); });
}

arrow::Status Eraser::EraseChildren(Live live) const {
  for (const auto& child : column_.child_data) {
    ARROW_RETURN_NOT_OK(Erase(*child, *child->type, live));
  }
  return arrow::Status::OK();
}

arrow::Status Eraser::EraseUnion() const {
  if (!has(1)) return arrow::Status::OK();
  const auto& type = static_cast<const arrow::UnionType&>(type_);
  const auto* codes = values<int8_t>(1);
  const auto* places = type_.id() == Type::DENSE_UNION ? values<int32_t>(2) : nullptr;
  for (size_t child = 0; child < column_.child_data.size(); ++child) {
    const int8_t code = type.type_codes()[child];
    ARROW_RETURN_NOT_OK(Child(child, [=](int64_t row, uint8_t* live) {
      if (codes[row] == code) bit_util::SetBit(live, places == nullptr ? row : places[row]);
    }));
  }
  return arrow::Status::OK();
}

arrow::Status Eraser::Run() {
  EraseTails();
  switch (type_.id()) {
    case Type::STRUCT:
      return EraseChildren(live_);
    case Type::RUN_END_ENCODED:  // its rows are runs of children's rows, all of them in use
      return EraseChildren(nullptr);
    case Type::SPARSE_UNION:
    case Type::DENSE_UNION:
      return EraseUnion();
    case Type::LIST:
    case Type::MAP:
      return EraseList<int32_t>();
    case Type::LARGE_LIST:
      return EraseList<int64_t>();
    case Type::FIXED_SIZE_LIST:
      return EraseFixedSizeList();
    case Type::LIST_VIEW:
      return EraseListView<int32_t>();
    case Type::LARGE_LIST_VIEW:
      return EraseListView<int64_t>();
    default:
      break;
  }
  if (type_.id() == Type::NA || !has(1)) return arrow::Status::OK();
  switch (type_.id()) {
    case Type::BOOL:
      EraseBits();
      break;
    case Type::FLOAT:
      EraseFloats(std::numeric_limits<float>::quiet_NaN());
      break;
    case Type::DOUBLE:
      EraseFloats(std::numeric_limits<double>::quiet_NaN());
      break;
    case Type::HALF_FLOAT:
      EraseFloats<uint16_t>(0x7E00);
      break;
    case Type::STRING:
    case Type::BINARY:
      EraseText<int32_t>();
      break;
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      EraseText<int64_t>();
      break;
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      EraseViews();
      break;
    default:
      EraseFixedWidth(type_.byte_width());
  }
  return arrow::Status::OK();
}

arrow::Status Erase(const ArrayData& column, const DataType& type, Live parent) {
  if (type.id() == Type::EXTENSION) {
    return Erase(column, *static_cast<const arrow::ExtensionType&>(type).storage_type(), parent);
  }
  if (type.id() == Type::DICTIONARY) {
    return Erase(column, *static_cast<const arrow::DictionaryType&>(type).index_type(), parent);
  }
  const bool has_bitmap =
      !column.buffers.empty() && column.buffers[0] != nullptr && column.buffers[0]->size() > 0;
  Live live = has_bitmap ? column.buffers[0]->data() : parent;
  Bitmap both;
  if (has_bitmap && parent != nullptr) {
    both.resize(bit_util::BytesForBits(column.length));
    arrow::internal::BitmapAnd(parent, 0, live, 0, column.length, 0, both.data());
    live = both.data();
  }
  return Eraser(column, type, live).Run();
}

}  // namespace

arrow::Status EraseDeadBytes(const ArrayData& column) {
  return Erase(column, *column.type, nullptr);
}

}  // namespace flightshmem
