"""Connections of several threads to one index."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pyarrow as pa

from snellen.viewer.index.database import connected


def test_threads_that_open_an_index_at_once_all_read_it(tmp_path: Path) -> None:
    """Without a lock about one try in thirty fails: the file is in use, or its catalogue lacks `python_arrow_scan`."""
    found: list[object] = []

    def read(place: str, begin: threading.Barrier) -> None:
        begin.wait()
        try:
            with connected(place) as connection:
                connection.register("rows", pa.table({"a": [1]}))
                found.append(connection.execute("SELECT a FROM rows").fetchone())
        except duckdb.Error as error:
            found.append(error)

    for number in range(60):
        place, begin = str(tmp_path / f"{number}.duckdb"), threading.Barrier(8)
        with connected(place) as connection:
            connection.execute("CREATE TABLE t (a INTEGER)")
        threads = [threading.Thread(target=read, args=(place, begin)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [(1,)] * 480
