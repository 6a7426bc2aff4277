# SPDX-License-Identifier: Apache-2.0
"""How a frame shows itself."""

from __future__ import annotations

import html as escape

import pandas as pd
import pyarrow as pa


def summary(schema: pa.Schema) -> str:
    """List columns and types; computes nothing."""
    width = max((len(name) for name in schema.names), default=0)
    lines = [f"  {field.name:<{width}}  {field.type}" for field in schema]
    hint = "lazy: .head().to_pandas() shows rows, .explain() the plan"
    return "\n".join([f"DataFrame, {len(schema)} columns ({hint})", *lines])


def html(schema: pa.Schema, rows: pd.DataFrame) -> str:
    """Render the first rows with the columns' types."""
    head = "".join(
        f"<th>{escape.escape(field.name)}<br><small>{escape.escape(str(field.type))}</small></th>"
        for field in schema
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{escape.escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows.itertuples(index=False)
    )
    note = f"first {len(rows)} rows, {len(schema)} columns"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{note}</small>"
