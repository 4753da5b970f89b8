"""An index folder from elsewhere whose folders are links: nothing outside of the index is written or removed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import filelock
import pytest
from run_folders import right_reply, samples_of, write_meta, write_run
from starlette.testclient import TestClient

from snellen.viewer.app import view_app
from snellen.viewer.index import SampleQuery, open_index
from snellen.viewer.site import ViewSettings

RIGHT = {sample.id: right_reply(sample) for sample in samples_of("chart/digits", 8)}


@pytest.mark.parametrize(
    "level", ["", "index.duckdb", "index.duckdb.wal", "seal.json", "seal.json.part", "access", "spill"]
)
def test_a_link_within_an_index_leads_to_no_write_and_no_removal(level: str, tmp_path: Path) -> None:
    root, victim = tmp_path / "root", tmp_path / "victim"
    write_run(root / "run", "chart/digits", RIGHT, limit=8)
    victim.mkdir()
    (victim / "thesis.txt").write_text("three years of work")
    link = open_index(root).database.path / level
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim / "thesis.txt" if level else victim)
    index = open_index(root)
    index.refresh()
    assert sorted(path.name for path in victim.iterdir()) == ["thesis.txt"]
    assert (victim / "thesis.txt").read_text() == "three years of work"
    assert index.samples(SampleQuery("chart/digits", ("run",))).total == 8


@pytest.mark.parametrize("damage", ["cut", "other bytes", "no seal", "a log of changes", "a table is gone"])
def test_a_damaged_or_foreign_index_is_made_anew(damage: str, tmp_path: Path) -> None:
    write_run(tmp_path / "run", "chart/digits", RIGHT, limit=8)
    index = open_index(tmp_path)
    index.refresh()
    file = index.database.file
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:5_000])
    elif damage == "other bytes":
        file.write_bytes(b"x" * file.stat().st_size)
    elif damage == "no seal":
        (file.parent / "seal.json").unlink()
    elif damage == "a log of changes":
        file.with_name("index.duckdb.wal").write_bytes(b"x" * 100)
    else:
        with duckdb.connect(str(file)) as database:
            database.execute("DROP TABLE reply_rows CASCADE")
    other = open_index(tmp_path)
    assert other.refresh(samples=False).waiting == ("run",)
    assert other.refresh().waiting == ()
    assert other.samples(SampleQuery("chart/digits", ("run",))).total == 8
    assert other.sql("SELECT count(text) FROM results").rows == ((8,),)


def test_an_index_of_version_0_2_is_left_alone(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "chart/digits", RIGHT, limit=8)
    old = tmp_path / ".snellen-index" / "plain-2" / "runs" / "run-0123"
    old.mkdir(parents=True)
    (old / "state.json").write_text('{"body": {"key": "run"}, "mark": ""}')
    index = open_index(tmp_path)
    index.refresh()
    assert index.samples(SampleQuery("chart/digits", ("run",))).total == 8
    assert (old / "state.json").exists()


def test_pages_answer_before_any_run_is_in_the_index(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "chart/digits", RIGHT, limit=8)
    write_meta(tmp_path / "other", "chart/digits", limit=8)
    place = open_index(tmp_path).database.path
    place.mkdir(parents=True)
    with filelock.FileLock(place / "lock"):  # another viewer writes the index and has not got far
        client = TestClient(view_app(ViewSettings(tmp_path, reviewer="ada")), base_url="http://127.0.0.1")
        for page in ("samples", "matrix", "compare", "review", "case"):
            for query in ("", "&runs=run&runs=other", "&step=queue", "&sql=SELECT+1", "&sample=x"):
                address = f"/{page}?benchmark=chart%2Fdigits{query}"
                assert client.get(address).status_code in (200, 202, 400, 404), address
