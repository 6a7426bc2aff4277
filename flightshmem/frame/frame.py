# SPDX-License-Identifier: Apache-2.0
"""DataFrame: a lazy table over all PEs, with pandas' verbs and meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy.typing as npt
import pyarrow as pa

from flightshmem.errors import InvalidArgument, SchemaError
from flightshmem.frame import collect
from flightshmem.frame.align import all_columns, common_base
from flightshmem.frame.display import html, summary
from flightshmem.frame.matrix import Layout, Matrix, matrix_of
from flightshmem.frame.merge import Keys, MergeOptions, merge
from flightshmem.frame.names import find, find_all
from flightshmem.frame.output import Output
from flightshmem.frame.series import Series
from flightshmem.plan.explain import explain
from flightshmem.plan.expr import Expr, call, literal, substitute
from flightshmem.plan.nodes import Filter, Limit, Node, Project, Sort, SortKey, SortOrder
from flightshmem.plan.operators import fill_missing
from flightshmem.plan.types import check_names

if TYPE_CHECKING:
    from flightshmem.frame.groupby import GroupBy


class DataFrame(Output):
    """A lazy table whose rows lie on all PEs.

    Methods that return a frame or a Series only build a plan. Methods that return values compute it:
    they are collective, and every PE gets the whole answer (``local()``: its own rows).

    There is no index: group keys are columns. Column types are Arrow's; an integer column with missing
    values stays an integer column. Rows keep their order through row-wise steps and broadcast joins;
    after an exchange the order is deterministic, but another.
    """

    def __init__(self, plan: Node) -> None:
        self._plan = plan

    # -- what it is

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns."""
        return self._plan.schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    @property
    def dtypes(self) -> dict[str, pa.DataType]:
        """Arrow type of every column."""
        return {field.name: field.type for field in self.schema}

    @property
    def shape(self) -> tuple[int, int]:
        """Rows on all PEs and columns. Collective."""
        return len(self), len(self.columns)

    def __len__(self) -> int:
        return collect.count_rows(self._plan)

    def __bool__(self) -> bool:
        raise InvalidArgument("[DataFrame] a frame has no truth value: test len(df) > 0")

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __repr__(self) -> str:
        return summary(self.schema)

    def _repr_html_(self) -> str:
        return html(self.schema, self.head(10).to_pandas())

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(name for name in self.columns if name.isidentifier())]

    def explain(self, optimized: bool = True) -> str:
        """Describe the plan with estimated rows and bytes; ``optimized=False``: as it was written."""
        return explain(collect.optimized(self._plan) if optimized else self._plan)

    # -- selecting

    @overload
    def __getitem__(self, key: str) -> Series: ...

    @overload
    def __getitem__(self, key: Series | list[str] | tuple[str, ...]) -> DataFrame: ...

    def __getitem__(self, key: Any) -> Series | DataFrame:
        if isinstance(key, str):
            find(self.schema, key, "getitem")
            return Series(self._plan, all_columns(self._plan)[key], key)
        if isinstance(key, Series):
            return self._filter(key)
        if isinstance(key, Sequence):
            return self._select(list(key))
        raise InvalidArgument(
            "[getitem] a column name, a list of names or a boolean Series is needed, "
            f"got {type(key).__name__}: rows are selected by masks (df[df.x > 1]) and head(n)"
        )

    def __getattr__(self, name: str) -> Series:
        # Only reached when there is no such attribute.
        if name.startswith("_") or name not in self.schema.names:
            raise AttributeError(f"DataFrame has no attribute or column {name!r}; columns: {self.columns}")
        return self[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Add or replace a column of this handle; other handles of the same frame do not change."""
        self._plan = self.assign(**{name: value})._plan

    def _select(self, names: list[str]) -> DataFrame:
        names = find_all(self.schema, names, "getitem")
        check_names(names, "getitem")
        if not names:
            raise InvalidArgument("[getitem] at least one column is needed, got an empty list")
        columns = all_columns(self._plan)
        return DataFrame(Project(self._plan, tuple((name, columns[name]) for name in names)))

    def _filter(self, mask: Series) -> DataFrame:
        if not pa.types.is_boolean(mask.dtype):
            raise SchemaError(
                f"[getitem] a mask must be boolean, got {mask.dtype}: compare first, e.g. df.x > 0"
            )
        base, mine, theirs = common_base(self._plan, mask._plan, "getitem")
        kept = Filter(base, substitute(mask._expr, theirs))
        return DataFrame(kept if base is self._plan else Project(kept, tuple(mine.items())))

    # -- changing columns

    def assign(self, **columns: Any) -> DataFrame:
        """Add or replace columns: Series of this frame, scalars, or functions of the frame so far."""
        frame, pending = self, dict[str, Expr]()
        for name, value in columns.items():
            if callable(value) and not isinstance(value, Series):
                frame, pending = frame._with(pending), {}
                value = value(frame)
            if isinstance(value, Series) and value._plan is not frame._plan:
                frame, pending = frame._with(pending)._with_column_of(value, name), {}
                continue
            pending[name] = value._expr if isinstance(value, Series) else literal(value)
        return frame._with(pending)

    def _with(self, columns: Mapping[str, Expr]) -> DataFrame:
        if not columns:
            return self
        return DataFrame(Project(self._plan, tuple({**all_columns(self._plan), **columns}.items())))

    def _with_column_of(self, value: Series, name: str) -> DataFrame:
        base, mine, theirs = common_base(self._plan, value._plan, "assign")
        return DataFrame(Project(base, tuple({**mine, name: substitute(value._expr, theirs)}.items())))

    def rename(self, *, columns: Mapping[str, str] | Callable[[str], str]) -> DataFrame:
        """Rename columns by a mapping (names not in the frame are ignored, as in pandas) or a function."""
        change = columns if callable(columns) else lambda name: columns.get(name, name)
        names = [change(name) for name in self.columns]
        check_names(names, "rename")
        old = all_columns(self._plan)
        return DataFrame(Project(self._plan, tuple(zip(names, old.values(), strict=True))))

    def drop(self, columns: str | Sequence[str]) -> DataFrame:
        """Leave columns out."""
        dropped = find_all(self.schema, [columns] if isinstance(columns, str) else list(columns), "drop")
        return self._select([name for name in self.columns if name not in dropped])

    def astype(self, dtype: Any) -> DataFrame:
        """Convert all columns to one type, or those of a mapping; see ``Series.astype``."""
        wanted = dtype if isinstance(dtype, Mapping) else dict.fromkeys(self.columns, dtype)
        find_all(self.schema, list(wanted), "astype")
        return self._with({name: self[name].astype(target)._expr for name, target in wanted.items()})

    def fillna(self, value: Any) -> DataFrame:
        """Replace missing values by a scalar in all columns, or by a mapping column -> scalar."""
        if isinstance(value, Mapping):
            value = {name: replacement for name, replacement in value.items() if name in self.schema.names}
        wanted = value if isinstance(value, Mapping) else dict.fromkeys(self.columns, value)
        columns = all_columns(self._plan)
        return self._with({name: fill_missing(columns[name], literal(v)) for name, v in wanted.items()})

    def isna(self) -> DataFrame:
        """Test every value: missing is null, and NaN in float columns."""
        return self._with({name: self[name].isna()._expr for name in self.columns})

    isnull = isna

    def notna(self) -> DataFrame:
        """Test every value for being present."""
        return self._with({name: self[name].notna()._expr for name in self.columns})

    notnull = notna

    # -- changing rows

    def dropna(self, *, subset: str | Sequence[str] | None = None, how: str = "any") -> DataFrame:
        """Drop rows with missing values in any (or, ``how="all"``, in all) of the columns."""
        if how not in ("any", "all"):
            raise InvalidArgument(f"[dropna] how is 'any' or 'all', got {how!r}")
        names = self.columns if subset is None else [subset] if isinstance(subset, str) else list(subset)
        find_all(self.schema, names, "dropna")
        present = [self[name].notna()._expr for name in names]
        if not present:
            return self
        predicate = present[0]
        for expr in present[1:]:
            predicate = call("and" if how == "any" else "or", predicate, expr)
        return DataFrame(Filter(self._plan, predicate))

    def sort_values(
        self,
        by: str | Sequence[str],
        *,
        ascending: bool | Sequence[bool] = True,
        na_position: str = "last",
    ) -> DataFrame:
        """Sort rows over all PEs, stably: PE 0 gets the first rows. Categories sort by their value.

        PEs get even shares, also of rows with one key: equal keys may lie on neighbouring PEs.
        """
        names = find_all(self.schema, [by] if isinstance(by, str) else list(by), "sort_values")
        orders = [bool(ascending)] * len(names) if isinstance(ascending, (bool, int)) else list(ascending)
        if not names or len(orders) != len(names):
            raise InvalidArgument(
                f"[sort_values] one direction per key is needed, got {len(names)} keys "
                f"and {len(orders)} directions"
            )
        if na_position not in ("first", "last"):
            raise InvalidArgument(f"[sort_values] na_position is 'first' or 'last', got {na_position!r}")
        for name in names:
            if pa.types.is_nested(self.schema.field(name).type):
                raise SchemaError(f"[sort_values] lists and structs have no order, got column {name!r}")
        keys = tuple(SortKey(name, bool(order)) for name, order in zip(names, orders, strict=True))
        return DataFrame(Sort(self._plan, SortOrder(keys, missing_last=na_position == "last")))

    def head(self, n: int = 5) -> DataFrame:
        """Keep the first n rows in PE order, as a lazy frame."""
        if n < 0:
            raise InvalidArgument(f"[head] a number of rows is needed, got {n}")
        return DataFrame(Limit(self._plan, n))

    # -- hand-over

    def to_matrix(
        self,
        columns: Sequence[str] | None = None,
        dtype: npt.DTypeLike = "float32",
        layout: Layout = "columns",
    ) -> Matrix:
        """Compute the frame into one matrix in the heap: this PE's rows of it. Collective.

        Numbers, booleans (0 and 1) and categories (codes of their sorted words) become ``dtype``,
        missing values NaN. ``layout``: "columns" (Fortran order, which XGBoost, pandas and Arrow read
        in place) or "rows" (C order). One copy; every view of the matrix is free. Raises
        ``SchemaError`` for a column that is not numbers, ``HeapExhausted`` on all PEs before anything
        is written.
        """
        frame = self if columns is None else self._select(list(columns))
        return matrix_of(frame, dtype, layout)

    # -- several frames, groups

    def merge(
        self,
        right: DataFrame,
        how: str = "inner",
        on: Keys = None,
        left_on: Keys = None,
        right_on: Keys = None,
        suffixes: tuple[str | None, str | None] = ("_x", "_y"),
        strategy: str = "auto",
    ) -> DataFrame:
        """Join with another frame on equal keys, as pandas: missing keys match missing keys.

        ``left_on``/``right_on`` name keys that differ; ``suffixes=("_x", "_y")`` tell columns of both
        sides apart. ``how``: inner or left. ``strategy``: "auto" chooses by estimated size,
        "broadcast" copies the right side to every PE (the left rows stay where they are, in order),
        "shuffle" moves both sides by key. Row order: by left row, then right row, on each PE.
        """
        return DataFrame(merge(self, right, MergeOptions(how, on, left_on, right_on, suffixes, strategy)))

    def groupby(
        self, by: str | Sequence[str], *, sort: bool = True, dropna: bool = True, as_index: bool = False
    ) -> GroupBy:
        """Group rows by columns; the result's keys are columns, sorted over all PEs unless ``sort=False``.

        ``dropna``: leave out rows with a missing key. There is no index, so ``as_index`` must be False.
        """
        from flightshmem.frame.groupby import GroupBy

        if as_index:
            raise InvalidArgument(
                "[groupby] frames have no index, got as_index=True: the keys come as columns"
            )
        keys = find_all(self.schema, [by] if isinstance(by, str) else list(by), "groupby")
        check_names(keys, "groupby")
        return GroupBy(self._plan, tuple(keys), sort, dropna)
