"""Pictures in parquet cells: the same bytes whatever the column looks like, read again from their place, few at a time."""

from __future__ import annotations

import base64
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snellen.errors import DataError
from snellen.sources.parquet_images import KEPT_ROWS, ParquetCell, rows_with_images

STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
ROWS = 30


def data(row: int, item: int = 0, size: int = 500) -> bytes:
    return random.Random(row * 10 + item).randbytes(size)


def written(path: Path, kind: Any, cells: list[Any], group: int = 7) -> Path:
    table = pa.table({"id": list(range(len(cells))), "image": pa.array(cells, kind)})
    pq.write_table(table, path, row_group_size=group)
    return path


def as_struct(row: int, item: int = 0) -> dict[str, Any]:
    return {"bytes": data(row, item), "path": None}


SHAPES: dict[str, tuple[Any, Any]] = {
    "a struct": (STRUCT, as_struct),
    "bytes": (pa.binary(), data),
    "large bytes": (pa.large_binary(), data),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("many", [False, True])
def test_a_picture_is_the_same_in_every_shape_of_column_and_asked_for_in_any_order(shape, many, tmp_path) -> None:
    kind, made = SHAPES[shape]
    cells = [
        [made(row, item) for item in range(row % 4)] if many else made(row) if row % 5 else None for row in range(ROWS)
    ]
    path = written(tmp_path / "t.parquet", pa.list_(kind) if many else kind, cells)
    found = {number - 1: (row, counts) for number, row, counts in rows_with_images(path)}
    assert [row["id"] for row, _ in found.values()] == list(range(ROWS))
    assert all("image" not in row for row, _ in found.values())
    wanted = {
        row: (row % 4 or None) if many else (-1 if row % 5 else None) for row in range(ROWS)
    }  # a list may be empty, a cell too
    assert {row: counts.get("image") for row, (_, counts) in found.items()} == wanted
    asked = [(row, item) for row, count in wanted.items() if count for item in (range(count) if many else (-1,))]
    random.Random(1).shuffle(asked)
    for row, item in asked:
        assert ParquetCell(path, row, "image", item).read() == data(row, max(item, 0))


def test_base64_in_a_cell_is_read_as_the_picture_that_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", pa.string(), [base64.b64encode(data(row)).decode() for row in range(3)])
    assert ParquetCell(path, 2, "image").read() == data(2)


def test_rows_come_without_a_picture_being_read_so_that_a_damaged_one_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rows = [as_struct(row) for row in range(4)]
    table = pa.table({"id": [0, 1, 2, 3], "image": pa.array(rows, STRUCT)})
    pq.write_table(table, path, row_group_size=2, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    at = pq.read_metadata(path).row_group(0).column(1).data_page_offset  # of the page that the first two lie in
    path.write_bytes(whole[:at] + bytes(20) + whole[at + 20 :])
    assert [number for number, _, counts in rows_with_images(path) if counts == {"image": -1}] == [1, 2, 3, 4]
    with pytest.raises(DataError, match=r"t\.parquet: cannot be read as parquet"):
        ParquetCell(path, 1, "image").read()
    assert ParquetCell(path, 3, "image").read() == data(3)


def test_a_cell_without_bytes_says_where_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", STRUCT, [{"bytes": None, "path": "lost.png"}])
    with pytest.raises(DataError, match=r"row 1, image: it holds no image bytes"):
        ParquetCell(path, 0, "image").read()


def test_what_is_held_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Forty row groups of 64 kB pictures: what Arrow holds after each is a group and the rows kept, never the file."""
    size, group, groups = 64 << 10, 8, 40
    cells = [{"bytes": data(row, size=size), "path": None} for row in range(group * groups)]
    path = written(tmp_path / "t.parquet", STRUCT, cells, group)
    del cells
    before = pa.total_allocated_bytes()
    held = []
    for row in range(group * groups):
        assert ParquetCell(path, row, "image").read() == data(row, size=size)
        held.append(pa.total_allocated_bytes() - before)
    most = size * (KEPT_ROWS + 64 + 3 * group)
    assert 0 < max(held) < most < size * group * groups
    assert max(held[len(held) // 2 :]) <= 1.1 * max(held[: len(held) // 2])


def test_threads_that_ask_at_once_each_get_their_own_picture(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", STRUCT, [as_struct(row) for row in range(200)], 50)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda row: ParquetCell(path, row, "image").read(), range(200)))
    assert found == [data(row) for row in range(200)]
