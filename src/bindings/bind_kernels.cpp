// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "bindings/arrow_bridge.h"
#include "bindings/status.h"
#include "kernels/join.h"
#include "kernels/partition.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

nb::object PyHashPartition(nb::handle keys, int n_pes) {
  const auto batch = ToBatch(keys);
  return FromArray(CheckUnlocked([&] { return HashPartition(*batch, n_pes); }));
}

arrow::Result<JoinKind> ParseJoinKind(const std::string& how) {
  if (how == "inner") return JoinKind::kInner;
  if (how == "left") return JoinKind::kLeft;
  return arrow::Status::Invalid("[join] how must be 'inner' or 'left', got '", how, "'");
}

std::pair<nb::object, nb::object> PyJoin(nb::handle left_keys, nb::handle right_keys,
                                         const std::string& how) {
  const JoinKind kind = Check(ParseJoinKind(how));
  const auto left = ToTable(left_keys);
  const auto right = ToTable(right_keys);
  const JoinIndices pairs = CheckUnlocked([&] { return Join(left, right, kind); });
  return {FromArray(pairs.left), FromArray(pairs.right)};
}

}  // namespace

void bind_kernels(nb::module_& m) {
  m.def("hash_partition", PyHashPartition, nb::arg("keys"), nb::arg("n_pes"),
        nb::sig("def hash_partition(keys: pyarrow.RecordBatch, n_pes: int) -> pyarrow.UInt32Array"),
        "The PE number of each row of a batch of key columns.");
  m.def("join", PyJoin, nb::arg("left_keys"), nb::arg("right_keys"), nb::arg("how"),
        nb::sig("def join(left_keys: pyarrow.Table, right_keys: pyarrow.Table, how: str) "
                "-> tuple[pyarrow.Int64Array, pyarrow.Int64Array]"),
        "Row numbers of the pairs with equal keys, in order; right is null without a partner.");
}

}  // namespace flightshmem::bindings
