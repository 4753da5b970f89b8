"""Typed tables: parquet, Arrow and Feather give the same rows and pictures, and damage is an error that names the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.errors import DataError
from snellen.sources import rows
from snellen.sources.parquet_images import rows_with_images

STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
N = 5


def stream(table: Any, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def whole(table: Any, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS: dict[str, tuple[str, Callable[[Any, Path], None]]] = {
    "parquet": (".parquet", lambda table, path: pq.write_table(table, path, row_group_size=2)),
    "a stream": (".arrow", stream),
    "a file": (".arrow", whole),
    "feather": (".feather", lambda table, path: feather.write_feather(table, path, chunksize=2)),
}


def image(row: int, item: int = 0) -> bytes:
    return bytes([row, item]) * 40


def structs(row: int) -> list[Any]:
    """One of each kind: held, named, both, neither."""
    held, named = image(row), f"img/{row}.png"
    return [{"bytes": held, "path": None}, {"bytes": None, "path": named}, {"bytes": held, "path": named}, None][
        row % 4
    ]


COLUMNS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "decimals": (pa.decimal128(10, 2), [Decimal(f"{n}.50") for n in range(N)], [f"{n}.50" for n in range(N)]),
    "dates": (pa.date32(), [date(2024, 3, n + 1) for n in range(N)], [f"2024-03-0{n + 1}" for n in range(N)]),
    "moments": (pa.timestamp("ns"), [datetime(2024, 3, 1, n, 30) for n in range(N)], [f"2024-03-01 0{n}:30" for n in range(N)]),
    "lists of decimals": (pa.list_(pa.decimal128(4, 1)), [[Decimal("1.0")]] * N, [["1.0"]] * N),
    "a dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None, "b"], ["a", "b", "a", None, "b"]),
    "string views": (pa.string_view(), ["short", "longer than twelve bytes", "", None, "x"], ["short", "longer than twelve bytes", "", None, "x"]),
    "fixed lists": (pa.list_(pa.string(), 2), [["a", "b"]] * N, [["a", "b"]] * N),
    "bytes": (pa.binary(), [image(n) for n in range(N)], [[image(n)] for n in range(N)]),
    "byte views": (pa.binary_view(), [image(n) for n in range(N)], [[image(n)] for n in range(N)]),
    "bytes by number": (pa.dictionary(pa.int8(), pa.binary()), [image(n % 2) for n in range(N)], [[image(n % 2)] for n in range(N)]),
    "fixed lists of bytes": (pa.list_(pa.binary(), 2), [[image(n), image(n, 1)] for n in range(N)], [[image(n), image(n, 1)] for n in range(N)]),
    "structs": (STRUCT, [structs(n) for n in range(N)], [[image(0)], {"path": "img/1.png"}, [image(2)], None, [image(4)]]),
    "only names": (STRUCT, [{"bytes": None, "path": "a.png"}] * N, [{"path": "a.png"}] * N),
    "lists of structs": (pa.large_list(STRUCT), [[structs(1), structs(2)], [], None, [structs(4)], [structs(3)]], [[{"path": "img/1.png"}, image(2)], None, None, [image(4)], None]),
}  # fmt: skip


def cell(value: Any, path: Path, row: int, name: str, counts: dict[str, int]) -> Any:
    """The cell as a table's reader makes it, with the bytes in place of references to them."""
    from snellen.sources.parquet_images import ParquetCell

    if name in counts:
        items = [-1] if counts[name] < 0 else range(counts[name])
        return [ParquetCell(path, row, name, item).read() for item in items]
    if isinstance(value, list):
        return [part.read() if hasattr(part, "read") else part for part in value] or None
    return value


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_typed_table_is_the_same_in_parquet_arrow_and_feather(writer: str, column: str, tmp_path: Path) -> None:
    kind, values, expected = COLUMNS[column]
    suffix, write = WRITERS[writer]
    path = tmp_path / f"t{suffix}"
    write(pa.table({"id": list(range(N)), "x": pa.array(values, kind)}), path)
    found = [cell(row.get("x"), path, row["id"], "x", counts) for _, row, counts in rows_with_images(path)]
    assert found == expected
    assert [row["id"] for row in rows(path)] == list(range(N)) == [row["id"] for row in rows(path, columns=["id"])]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["a stream", "a file", "feather"]), st.data())
def test_a_damaged_arrow_file_gives_rows_or_an_error_that_names_it(
    tmp_path_factory: pytest.TempPathFactory, writer: str, drawn: Any
) -> None:
    suffix, write = WRITERS[writer]
    path = tmp_path_factory.mktemp("arrow") / f"t{suffix}"
    names = ["string views", "lists of structs", "a dictionary", "fixed lists"]
    write(pa.table({name: pa.array(COLUMNS[name][1], COLUMNS[name][0]) for name in names}), path)
    content = bytearray(path.read_bytes())
    for _ in range(drawn.draw(st.integers(1, 4))):
        at = drawn.draw(st.integers(0, len(content) - 1))
        content[at] ^= drawn.draw(st.integers(1, 255))
    path.write_bytes(bytes(content[: drawn.draw(st.integers(1, len(content)) | st.just(len(content)))]))
    try:
        for _, row, counts in rows_with_images(path):
            for name in counts:
                cell(None, path, 0, name, {name: counts[name]} if counts[name] < 0 else {})
            assert isinstance(row, dict)
    except DataError as error:
        assert path.name in error.message


def test_a_folder_of_save_to_disk_is_a_table_by_its_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    features = {"info": {"features": {"answer": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    for split, first in (("train", 0), ("hard", 100)):
        folder = tmp_path / "saved" / split
        folder.mkdir(parents=True)
        for shard in range(2):
            numbers = range(first + shard * N, first + shard * N + N)
            table = pa.table({"question": [f"What is {n}?" for n in numbers], "answer": [n % 2 for n in numbers]})
            stream(
                table.replace_schema_metadata({"huggingface": json.dumps(features)}),
                folder / f"data-0000{shard}-of-00002.arrow",
            )
            os.link(folder / "data-00000-of-00002.arrow", folder / f"cache-{shard}abc.arrow")
        for name in ("dataset_info.json", "state.json"):
            (folder / name).write_text("{}")
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "hard"]}')
    for name, options in ((tmp_path / "saved" / "hard", {}), (tmp_path / "saved", {"split": "hard"})):
        samples = list(registry.find(str(name)).samples(Data(options=options)))
        assert [sample.prompt.parts[0].text.partition("\n")[0] for sample in samples] == [
            f"What is {n}?" for n in range(100, 110)
        ]  # type: ignore[union-attr]
        assert [sample.target for sample in samples] == ["cat", "dog"] * N
