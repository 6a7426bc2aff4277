# SPDX-License-Identifier: Apache-2.0
"""Series: one lazy column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd
import pyarrow as pa
import pyarrow.types as pt

from flightshmem.errors import InvalidArgument
from flightshmem.frame.accessors import Accessors
from flightshmem.frame.align import common_base
from flightshmem.frame.reductions import Reductions
from flightshmem.plan import operators
from flightshmem.plan.expr import Expr, call, cast, literal, substitute
from flightshmem.plan.nodes import Node, Project
from flightshmem.plan.types import parse_dtype, value_type

if TYPE_CHECKING:
    from flightshmem.frame.frame import DataFrame

Builder = Callable[[str, Expr, Expr], Expr]


class Series(Reductions, Accessors):
    """A column of a frame, or an expression over its columns. Nothing runs until a result is asked for.

    Missing values (null; NaN in float columns) follow pandas' default types: they equal nothing, so
    comparisons with them are False and ``!=`` is True; arithmetic with them is missing; reductions skip
    them. Integer columns keep their type when values are missing. ``a // b`` and ``a % b`` of integer
    columns are float64, because division by zero gives inf or NaN; by a constant they stay integers.
    """

    # NumPy scalars on the left must leave the operation to us.
    __array_ufunc__ = None

    def __init__(self, plan: Node, expr: Expr, name: str) -> None:
        self._plan = plan
        self._expr = expr
        self._name = name

    # -- what it is

    @property
    def name(self) -> str:
        """The column's name."""
        return self._name

    @property
    def dtype(self) -> pa.DataType:
        """The Arrow type."""
        return self._expr.type

    def __repr__(self) -> str:
        return f"Series {self._name!r}: {self.dtype} = {self._expr}  (lazy: .to_pandas() computes it)"

    def _refuse(self, *_: Any) -> NoReturn:
        raise InvalidArgument(
            "[Series] a column has no single truth value and is not iterable: combine masks with & | ~, "
            "reduce with .any() or .all(), or fetch it with .to_pandas()"
        )

    __bool__ = _refuse
    __iter__ = _refuse
    __hash__ = None  # type: ignore[assignment]

    def rename(self, name: str) -> Series:
        """Give it another name."""
        return Series(self._plan, self._expr, name)

    def to_frame(self, name: str | None = None) -> DataFrame:
        """Make a frame of this column alone."""
        from flightshmem.frame.frame import DataFrame

        return DataFrame(self._as_plan(name))

    def _as_plan(self, name: str | None = None) -> Node:
        return Project(self._plan, ((name or self._name, self._expr),))

    # -- building expressions

    def _apply(self, function: str, *args: Any, **options: Any) -> Series:
        return self._with(call(function, self._expr, *map(literal, args), **options))

    def _with(self, expr: Expr) -> Series:
        return Series(self._plan, expr, self._name)

    def _combine(self, build: Builder, function: str, other: Any, is_reflected: bool = False) -> Series:
        plan, (mine, theirs) = self._together([other], function)
        operands = (theirs, mine) if is_reflected else (mine, theirs)
        return Series(plan, build(function, *operands), self._name)

    def _together(self, others: list[Any], operation: str) -> tuple[Node, list[Expr]]:
        """Return this column and the others (Series or scalars) as expressions over one plan."""
        plan, exprs = self._plan, [self._expr]
        for other in others:
            if not isinstance(other, Series):
                exprs.append(literal(other))
                continue
            theirs = other._expr
            if other._plan is not plan:
                plan, my_columns, their_columns = common_base(plan, other._plan, operation)
                exprs = [substitute(expr, my_columns) for expr in exprs]
                theirs = substitute(theirs, their_columns)
            exprs.append(theirs)
        return plan, exprs

    def __add__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "add", other)

    def __radd__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "add", other, is_reflected=True)

    def __sub__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "subtract", other)

    def __rsub__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "subtract", other, is_reflected=True)

    def __mul__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "multiply", other)

    def __rmul__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "multiply", other, is_reflected=True)

    def __truediv__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "divide", other)

    def __rtruediv__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "divide", other, is_reflected=True)

    def __floordiv__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "floor_divide", other, is_reflected=True)

    def __mod__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "modulo", other)

    def __rmod__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "modulo", other, is_reflected=True)

    def __pow__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "power", other)

    def __rpow__(self, other: Any) -> Series:
        return self._combine(operators.arithmetic, "power", other, is_reflected=True)

    def __eq__(self, other: Any) -> Series:  # type: ignore[override]
        return self._combine(operators.comparison, "eq", other)

    def __ne__(self, other: Any) -> Series:  # type: ignore[override]
        return self._combine(operators.comparison, "ne", other)

    def __lt__(self, other: Any) -> Series:
        return self._combine(operators.comparison, "lt", other)

    def __le__(self, other: Any) -> Series:
        return self._combine(operators.comparison, "le", other)

    def __gt__(self, other: Any) -> Series:
        return self._combine(operators.comparison, "gt", other)

    def __ge__(self, other: Any) -> Series:
        return self._combine(operators.comparison, "ge", other)

    def __and__(self, other: Any) -> Series:
        return self._combine(operators.logical, "and", other)

    def __rand__(self, other: Any) -> Series:
        return self._combine(operators.logical, "and", other, is_reflected=True)

    def __or__(self, other: Any) -> Series:
        return self._combine(operators.logical, "or", other)

    def __ror__(self, other: Any) -> Series:
        return self._combine(operators.logical, "or", other, is_reflected=True)

    def __xor__(self, other: Any) -> Series:
        return self._combine(operators.logical, "xor", other)

    def __rxor__(self, other: Any) -> Series:
        return self._combine(operators.logical, "xor", other, is_reflected=True)

    def __invert__(self) -> Series:
        return self._with(operators.invert(self._expr))

    def __neg__(self) -> Series:
        return self._with(call("negate", operators.require_number(self._expr, "-")))

    def __pos__(self) -> Series:
        return self

    def __abs__(self) -> Series:
        return self.abs()

    def abs(self) -> Series:
        """Drop the sign."""
        return self._with(call("abs", operators.require_number(self._expr, "abs")))

    def round(self, decimals: int = 0) -> Series:
        """Round half to even, as NumPy."""
        return self._with(call("round", operators.require_number(self._expr, "round"), decimals=decimals))

    def clip(self, lower: Any = None, upper: Any = None) -> Series:
        """Bound the values; missing ones stay missing."""
        bounds = [None if bound is None else literal(bound) for bound in (lower, upper)]
        return self._with(operators.clip(self._expr, *bounds))

    def between(self, left: Any, right: Any, inclusive: str = "both") -> Series:
        """Test ``left <= x <= right``; ``inclusive``: both, neither, left or right."""
        if inclusive not in ("both", "neither", "left", "right"):
            raise InvalidArgument(f"[between] inclusive is both, neither, left or right, got {inclusive!r}")
        above = self >= left if inclusive in ("both", "left") else self > left
        below = self <= right if inclusive in ("both", "right") else self < right
        both: Series = above & below
        return both

    def isin(self, values: Iterable[Any]) -> Series:
        """Test membership in a list-like of values; a missing value is only in a list that holds one."""
        return self._with(operators.is_in(self._expr, values))

    def isna(self) -> Series:
        """Test for missing values: null, and NaN in float columns."""
        return self._apply("is_missing")

    isnull = isna

    def notna(self) -> Series:
        """Test for values that are present."""
        return ~self.isna()

    notnull = notna

    def fillna(self, value: Any) -> Series:
        """Replace missing values by a scalar or by another column's values of the same row."""
        return self._combine(lambda _, mine, theirs: operators.fill_missing(mine, theirs), "fillna", value)

    def where(self, condition: Series, other: Any = None) -> Series:
        """Keep values where the condition holds, else take ``other`` (missing by default)."""
        plan, (mine, test, theirs) = self._together([condition, other], "where")
        return Series(plan, operators.choose(test, mine, theirs), self._name)

    def mask(self, condition: Series, other: Any = None) -> Series:
        """Replace values where the condition holds by ``other`` (missing by default)."""
        return self.where(~condition, other)

    def astype(self, dtype: Any) -> Series:
        """Convert to a Python, NumPy, pandas or Arrow type; ``"category"`` gives sorted categories.

        A value that cannot be converted raises ``DataError`` when the column is computed.
        """
        target = parse_dtype(dtype)
        if dtype == "category" and not pt.is_dictionary(self.dtype):
            target = pa.dictionary(pa.int32(), value_type(self.dtype))
        elif dtype == "category":
            target = self.dtype
        return self._with(cast(self._expr, target))

    # -- results

    def local(self) -> pa.ChunkedArray:
        """Return the values of this PE's rows. Collective."""
        return self.to_frame().local().column(0)

    def to_arrow(self) -> pa.ChunkedArray:
        """Return all values on every PE. Collective."""
        return self.to_frame().to_arrow().column(0)

    def to_pandas(self) -> pd.Series[Any]:
        """Return all values on every PE as a pandas Series. Collective."""
        return self.to_frame().to_pandas()[self._name]

    def head(self, n: int = 5) -> DataFrame:
        """Return a frame of the first n values, in PE order."""
        return self.to_frame().head(n)

    def value_counts(
        self, normalize: bool = False, ascending: bool = False, dropna: bool = True
    ) -> DataFrame:
        """Count each value: a frame of the value and ``count`` (``proportion`` if normalized).

        Most frequent first; ties in order of value, so the result does not depend on row order.
        """
        from flightshmem.frame.groupby import value_counts

        return value_counts(self, normalize, ascending, dropna)
