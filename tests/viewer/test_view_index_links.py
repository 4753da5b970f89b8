"""An index folder from elsewhere whose folders are links: nothing outside of the index is written or removed."""

from __future__ import annotations

from pathlib import Path

import filelock
import pytest
from run_folders import right_reply, samples_of, write_meta, write_run
from starlette.testclient import TestClient

from snellen.viewer.app import view_app
from snellen.viewer.index import SampleQuery, open_index
from snellen.viewer.index.storage import IndexStorage
from snellen.viewer.site import ViewSettings

RIGHT = {sample.id: right_reply(sample) for sample in samples_of("chart/digits", 8)}


@pytest.mark.parametrize("level", ["index", "runs", "sets", "run", "set"])
def test_a_link_within_an_index_leads_to_no_write_and_no_removal(level: str, tmp_path: Path) -> None:
    root, victim = tmp_path / "root", tmp_path / "victim"
    write_run(root / "run", "chart/digits", RIGHT, limit=8)
    victim.mkdir()
    (victim / "thesis.txt").write_text("three years of work")
    storage = open_index(root).storage
    place = storage.path
    if level == "index":
        link = place
    elif level in ("runs", "sets"):
        link = place / level
    elif level == "run":
        link = storage.run_folder("run")
    else:
        index = open_index(root)
        index.refresh()
        link = next(path for path in (place / "sets").iterdir() if path.is_dir())
        for path in sorted(place.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim, target_is_directory=True)
    index = open_index(root)
    index.refresh()
    assert sorted(path.name for path in victim.iterdir()) == ["thesis.txt"]
    assert (victim / "thesis.txt").read_text() == "three years of work"
    assert index.samples(SampleQuery("chart/digits", ("run",))).total == 8


def test_pages_answer_before_any_run_is_in_the_index(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "chart/digits", RIGHT, limit=8)
    write_meta(tmp_path / "other", "chart/digits", limit=8)
    storage: IndexStorage = open_index(tmp_path).storage
    storage.path.mkdir(parents=True)
    with filelock.FileLock(storage.path / "lock"):  # another viewer writes the index and has not got far
        client = TestClient(view_app(ViewSettings(tmp_path, reviewer="ada")), base_url="http://127.0.0.1")
        for page in ("samples", "matrix", "compare", "review", "case"):
            for query in ("", "&runs=run&runs=other", "&step=queue", "&sql=SELECT+1", "&sample=x"):
                address = f"/{page}?benchmark=chart%2Fdigits{query}"
                assert client.get(address).status_code in (200, 202, 400, 404), address
