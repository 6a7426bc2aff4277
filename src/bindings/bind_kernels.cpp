// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrow_bridge.h"
#include "bindings/status.h"
#include "kernels/gather.h"
#include "kernels/group.h"
#include "kernels/join.h"
#include "kernels/partition.h"
#include "kernels/sort.h"
#include "kernels/true_rows.h"

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

std::shared_ptr<JoinTable> PyJoinTable(nb::handle right_keys) {
  auto right = ToTable(right_keys);
  return CheckUnlocked([&] { return JoinTable::Make(std::move(right)); });
}

std::pair<nb::object, nb::object> PyProbe(const JoinTable& table, nb::handle left_keys,
                                          const std::string& how) {
  const JoinKind kind = Check(ParseJoinKind(how));
  const auto left = ToTable(left_keys);
  const JoinRows rows = CheckUnlocked([&] { return table.Probe(*left, kind); });
  return {rows.left ? FromArray(rows.left) : nb::none(), FromArray(rows.right)};
}

nb::object PyJoinImage(const JoinTable& table) {
  const auto image = CheckUnlocked([&] { return table.Image(); });
  if (image == nullptr) return nb::none();
  return FromArray(std::make_shared<arrow::UInt8Array>(image->size(), image));
}

std::shared_ptr<JoinTable> PyJoinView(nb::handle keys, nb::handle image) {
  const auto type = ToTable(keys);
  const auto bytes = ToArray(image);
  return Check(
      JoinTable::View(type->column(0)->type(), type->num_rows(), bytes->data()->buffers[1]));
}

std::vector<bool> PyGatherable(nb::handle schema) {
  const auto columns = ToSchema(schema);
  std::vector<bool> can;
  for (const auto& field : columns->fields()) can.push_back(CanGather(*field->type()));
  return can;
}

nb::object PyGather(nb::handle batch, nb::handle rows) {
  const auto table = ToBatch(batch);
  const auto numbers = ToArray(rows);
  return FromBatch(CheckUnlocked([&] { return Gather(*table, *numbers); }));
}

nb::object PyTrueRows(nb::handle mask) {
  const auto rows = ToArray(mask);
  if (rows->type_id() != arrow::Type::BOOL) {
    Check(arrow::Status::TypeError("[filter] a mask must be bool, got ", rows->type()->ToString()));
  }
  return FromArray(
      CheckUnlocked([&] { return TrueRows(static_cast<const arrow::BooleanArray&>(*rows)); }));
}

nb::object PySortRows(nb::handle keys, const std::vector<bool>& ascending, bool missing_last) {
  const auto table = ToTable(keys);
  return FromArray(CheckUnlocked([&] { return SortRows(*table, ascending, missing_last); }));
}

nb::object PyFindRanges(nb::handle key, nb::handle cuts, std::vector<int64_t> ties, bool ascending,
                        bool missing_last) {
  const auto table = ToTable(key);
  const RangeCuts at{ToArray(cuts), std::move(ties)};
  return FromArray(
      CheckUnlocked([&] { return FindRanges(*table->column(0), at, ascending, missing_last); }));
}

std::pair<nb::object, nb::object> PyGroupRows(nb::handle keys) {
  const auto table = ToTable(keys);
  const Groups groups = CheckUnlocked([&] { return GroupRows(*table); });
  return {FromArray(groups.numbers), FromArray(groups.first_rows)};
}

arrow::Result<GroupState> ParseGroupState(const std::string& state) {
  if (state == "sum") return GroupState::kSum;
  if (state == "count") return GroupState::kCount;
  if (state == "min") return GroupState::kMin;
  if (state == "max") return GroupState::kMax;
  return arrow::Status::Invalid("[group] state must be sum, count, min or max, got '", state, "'");
}

nb::object PyStateOfGroups(const std::string& state, nb::handle numbers, int64_t n_groups,
                           nb::handle values, bool nan_is_missing) {
  const GroupState wanted = Check(ParseGroupState(state));
  const auto of = ToArray(numbers);
  if (of->type_id() != arrow::Type::UINT32) {
    Check(arrow::Status::TypeError("[group] numbers must be uint32, got ", of->type()->ToString()));
  }
  const auto table = ToTable(values);
  if (table->num_columns() != 1) {
    Check(arrow::Status::Invalid("[group] one column at a time, got ", table->num_columns()));
  }
  return FromArray(CheckUnlocked([&] {
    return StateOfGroups(wanted, static_cast<const arrow::UInt32Array&>(*of), n_groups,
                         *table->column(0), nan_is_missing);
  }));
}

}  // namespace

void bind_kernels(nb::module_& m) {
  m.def("hash_partition", PyHashPartition, nb::arg("keys"), nb::arg("n_pes"),
        nb::sig("def hash_partition(keys: pyarrow.RecordBatch, n_pes: int) -> pyarrow.UInt16Array"),
        "The PE number of each row of a batch of key columns.");
  nb::class_<JoinTable>(m, "JoinTable")
      .def("probe", PyProbe, nb::arg("left_keys"), nb::arg("how"),
           nb::sig("def probe(self, left_keys: pyarrow.Table, how: str) "
                   "-> tuple[pyarrow.UInt32Array | None, pyarrow.UInt32Array]"),
           "Row numbers of the pairs with equal keys, in order; left is None for every row once, "
           "right is null without a partner.")
      .def("image", PyJoinImage, nb::sig("def image(self) -> pyarrow.UInt8Array | None"),
           "The table as bytes to share; None for keys that are not one number or time.");
  m.def("view_join_table", PyJoinView, nb::arg("right_keys"), nb::arg("image"),
        nb::sig("def view_join_table(right_keys: pyarrow.Table, image: pyarrow.UInt8Array) "
                "-> JoinTable"),
        "A table over the image of another one of the same keys. No copy.");
  m.def("join_table", PyJoinTable, nb::arg("right_keys"),
        nb::sig("def join_table(right_keys: pyarrow.Table) -> JoinTable"),
        "The right side of a join, made once and probed by batches of the left.");
  m.def("gather", PyGather, nb::arg("batch"), nb::arg("rows"),
        nb::sig("def gather(batch: pyarrow.RecordBatch, "
                "rows: pyarrow.UInt32Array | pyarrow.Int64Array) -> pyarrow.RecordBatch"),
        "Rows by number; a null number gives a row of nulls.");
  m.def("gatherable", PyGatherable, nb::arg("schema"),
        nb::sig("def gatherable(schema: pyarrow.Schema) -> list[bool]"),
        "Which columns gather moves.");
  m.def("true_rows", PyTrueRows, nb::arg("mask"),
        nb::sig("def true_rows(mask: pyarrow.Array) -> pyarrow.UInt32Array"),
        "Numbers of the rows that are true; null counts as false.");
  m.def("sort_rows", PySortRows, nb::arg("keys"), nb::arg("ascending"), nb::arg("missing_last"),
        nb::sig("def sort_rows(keys: pyarrow.Table, ascending: Sequence[bool], missing_last: bool) "
                "-> pyarrow.UInt32Array"),
        "Row numbers in sorted order, stably; all columns are keys.");
  m.def("find_ranges", PyFindRanges, nb::arg("key"), nb::arg("cuts"), nb::arg("ties"),
        nb::arg("ascending"), nb::arg("missing_last"),
        nb::sig("def find_ranges(key: pyarrow.Table, cuts: pyarrow.Array, ties: Sequence[int], "
                "ascending: bool, missing_last: bool) -> pyarrow.UInt16Array"),
        "How many cuts lie before each row of the one column of `key`.");
  m.def("group_rows", PyGroupRows, nb::arg("keys"),
        nb::sig("def group_rows(keys: pyarrow.Table) -> tuple[pyarrow.UInt32Array, "
                "pyarrow.Int64Array]"),
        "The group number of each row of a table of key columns, and each group's first row.");
  m.def("state_of_groups", PyStateOfGroups, nb::arg("state"), nb::arg("numbers"),
        nb::arg("n_groups"), nb::arg("values"), nb::arg("nan_is_missing") = false,
        nb::sig("def state_of_groups(state: str, numbers: pyarrow.Array, n_groups: int, "
                "values: pyarrow.Table, nan_is_missing: bool = False) -> pyarrow.Array"),
        "Sum, count, min or max of one column's values in each group. numbers < n_groups is "
        "trusted.");
}

}  // namespace flightshmem::bindings
