"""Data named as `hf:...`: the hub's real client against a stand-in on loopback, which counts what it is asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.spatial import kit_drawn
from benchmarks.spatial import official_drawn as drawn
from servers.hub import HubHandler, standing_in
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import SPATIAL
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.sources.locator import on_disk
from snellen.types import Image, Video

COMMIT = "c" * 40


class Hub(HubHandler):
    """One commit of any repository: the files of the folder that bears its owner's name under `root`."""

    root: Path
    fetched: list[str]

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        found = re.fullmatch(
            r"/(?:api/)?datasets/([\w.-]+)/[\w.-]+(?:/(revision|tree|resolve)/(\w+)(?:/(\S+))?)?", path
        )
        home = self.root / found[1] if found else self.root / "nothing"
        if found is None or not home.is_dir():
            self.reply(401, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            return
        files = {path.relative_to(home).as_posix(): path for path in sorted(home.rglob("*")) if path.is_file()}
        kind, name = found[2], found[4]
        if kind == "tree":
            listing = [
                {"type": "file", "path": each, "size": file.stat().st_size, "oid": "0" * 40}
                for each, file in files.items()
            ]
            self.reply_json(listing)
        elif kind == "resolve":
            data = files[name].read_bytes()
            if self.command == "GET":
                self.fetched.append(name)
            tag = f'"{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"'
            self.reply(200, data, ETag=tag, X_Repo_Commit=COMMIT, Accept_Ranges="bytes")
        else:
            self.reply_about(path[14:], COMMIT, files)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """The names of files that were fetched, in order; the repositories lie in tmp_path."""
    names: list[str] = []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with standing_in(Hub, {"root": tmp_path, "fetched": names}, monkeypatch, tmp_path):
        on_disk.cache_clear()
        yield names
        on_disk.cache_clear()


def lost(name: str, data: Data) -> tuple[int, int]:
    """(questions, those that show what is not there)."""
    samples = list(SPATIAL[name].samples(data))
    shown = [[part.blob for part in one.prompt.parts if isinstance(part, Image | Video)] for one in samples]
    return len(samples), sum(any(isinstance(blob, Unreadable) for blob in blobs) for blobs in shown)


@pytest.mark.parametrize("name", drawn.DRAWN)
def test_every_benchmark_is_fetched_from_the_hub_and_nothing_of_it_that_is_not_asked(
    name: str, tmp_path: Path, fetched: list[str]
) -> None:
    folder = drawn.draw(name, tmp_path)
    (folder / "README.md").write_text("A card.", encoding="utf-8")
    (folder / "videos_for_training.tar").write_bytes(b"large")
    data = Data(Path(f"hf:{name}/data"))
    assert lost(name, data) == (drawn.count(name), 0)
    assert not {"README.md", "videos_for_training.tar"} & set(fetched)
    assert len(fetched) == len(set(fetched))


def test_of_vsi_bench_the_questions_come_first_then_the_videos_and_no_other_table(
    tmp_path: Path, fetched: list[str]
) -> None:
    drawn.draw("vsi-bench", tmp_path)
    assert lost("vsi-bench", Data(Path("hf:vsi-bench/data"))) == (10, 0)
    assert set(fetched[:2]) == {"test.jsonl", "test.parquet"}
    assert set(fetched[2:]) == {"arkitscenes.zip", "scannet.zip", "scannetpp.zip"}


def test_of_blink_and_3dsrbench_the_other_split_and_configuration_are_left_there(
    tmp_path: Path, fetched: list[str]
) -> None:
    for name in ("blink", "3dsrbench"):
        drawn.draw(name, tmp_path)
        lost(name, Data(Path(f"hf:{name}/data")))
    assert all(name.endswith("/val-00000-of-00001.parquet") for name in fetched[:14])
    assert fetched[14:] == ["3dsr_circular/test-00000-of-00001.parquet"]


def test_a_repository_of_something_else_costs_no_archive(tmp_path: Path, fetched: list[str]) -> None:
    drawn.draw("viewspatial", tmp_path)
    with pytest.raises(DataError, match="no file matches"):
        list(SPATIAL["site"].members[0].samples(Data(Path("hf:viewspatial/data"))))
    assert not [name for name in fetched if name.endswith(".zip")]


def test_media_may_come_from_another_repository_than_the_questions(tmp_path: Path, fetched: list[str]) -> None:
    folder = drawn.draw("site", tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    for half in ("image", "video"):
        (folder / f"{half}_test").rename(own / f"{half}_test")
    assert lost("site", Data(own))[1] == 12
    assert lost("site", Data(own, Path("hf:site/data"))) == (12, 0)
    assert sorted(fetched) == ["data_chunked_00.zip", "data_chunked_01.zip"]


def test_a_kits_table_comes_alone_from_its_repository_and_media_from_the_authors(
    tmp_path: Path, fetched: list[str]
) -> None:
    (tmp_path / "tables").mkdir()
    for name in ("vsi-bench", "site", "blink"):
        folder = kit_drawn.draw(name, tmp_path / "drawn")
        for path in folder.glob("*.tsv"):
            path.rename(tmp_path / "tables" / path.name)
        folder.rename(tmp_path / name)
    table = Path("hf:tables/EASI-Leaderboard-Data")
    assert lost("blink", Data(table)) == (14, 0)
    assert lost("vsi-bench", Data(table, Path("hf:vsi-bench/VSI-Bench"))) == (10, 0)
    zips = {"arkitscenes.zip", "scannet.zip", "scannetpp.zip"}
    assert set(fetched) == {"BLINK.tsv", "VSI-Bench.tsv", *zips}
    assert lost("site", Data(table, Path("hf:site/SITE-Bench"))) == (12, 0)
