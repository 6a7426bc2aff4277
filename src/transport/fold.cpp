// SPDX-License-Identifier: Apache-2.0
#include "transport/fold.h"

#include <cstring>
#include <type_traits>

namespace flightshmem {
namespace {

template <typename T, ReduceOp op>
T Combine(T a, T b) {
  if constexpr (op == ReduceOp::kMin) return a <= b || a != a ? a : b;  // a != a: NaN stays
  if constexpr (op == ReduceOp::kMax) return a >= b || a != a ? a : b;
  if constexpr (std::is_floating_point_v<T>) {
    if constexpr (op == ReduceOp::kSum) return a + b;
    if constexpr (op == ReduceOp::kProd) return a * b;
  } else {
    // Unsigned and at least as wide as int: signed overflow, also that of promoted shorts, would be
    // undefined.
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    const Wide x = static_cast<Wide>(a), y = static_cast<Wide>(b);
    if constexpr (op == ReduceOp::kSum) return static_cast<T>(x + y);
    if constexpr (op == ReduceOp::kProd) return static_cast<T>(x * y);
    if constexpr (op == ReduceOp::kAnd) return static_cast<T>(x & y);
    if constexpr (op == ReduceOp::kOr) return static_cast<T>(x | y);
    if constexpr (op == ReduceOp::kXor) return static_cast<T>(x ^ y);
  }
}

template <typename T, ReduceOp op>
void FoldAll(std::byte* total, const std::byte* other, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, total + i * sizeof(T), sizeof(T));
    std::memcpy(&b, other + i * sizeof(T), sizeof(T));
    a = Combine<T, op>(a, b);
    std::memcpy(total + i * sizeof(T), &a, sizeof(T));
  }
}

template <typename T>
arrow::Result<Fold> FoldOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return FoldAll<T, ReduceOp::kSum>;
    case ReduceOp::kProd:
      return FoldAll<T, ReduceOp::kProd>;
    case ReduceOp::kMin:
      return FoldAll<T, ReduceOp::kMin>;
    case ReduceOp::kMax:
      return FoldAll<T, ReduceOp::kMax>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ReduceOp::kAnd:
        return FoldAll<T, ReduceOp::kAnd>;
      case ReduceOp::kOr:
        return FoldAll<T, ReduceOp::kOr>;
      case ReduceOp::kXor:
        return FoldAll<T, ReduceOp::kXor>;
      default:
        break;
    }
  }
  return arrow::Status::TypeError("[reduce] and, or, xor need an integer type, got a float type");
}

// Calls `visit` with a value of the type.
template <typename Visitor>
auto WithType(NumericType type, Visitor visit) {
  switch (type) {
    case NumericType::kInt8:
      return visit(int8_t{});
    case NumericType::kInt16:
      return visit(int16_t{});
    case NumericType::kInt32:
      return visit(int32_t{});
    case NumericType::kInt64:
      return visit(int64_t{});
    case NumericType::kUInt8:
      return visit(uint8_t{});
    case NumericType::kUInt16:
      return visit(uint16_t{});
    case NumericType::kUInt32:
      return visit(uint32_t{});
    case NumericType::kUInt64:
      return visit(uint64_t{});
    case NumericType::kFloat:
      return visit(float{});
    case NumericType::kDouble:
      break;
  }
  return visit(double{});
}

}  // namespace

arrow::Result<Fold> FindFold(NumericType type, ReduceOp op) {
  return WithType(type, [op](auto example) { return FoldOf<decltype(example)>(op); });
}

uint64_t WidthOf(NumericType type) {
  return WithType(type, [](auto example) -> uint64_t { return sizeof(example); });
}

}  // namespace flightshmem
