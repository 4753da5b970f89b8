"""The zip: the same bytes each time, no name that would be refused, replies cut to their ends where they are too long."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from snellen.easi.submit.package import KEPT_CHARACTERS, slim


def rows(path: Path, replies: list[str]) -> Path:
    path.write_text(
        "".join(json.dumps({"id": str(n), "reply": one, "hit": 1.0}) + "\n" for n, one in enumerate(replies))
    )
    return path


def noise(characters: int, seed: int) -> str:
    return "".join(map(chr, np.random.default_rng(seed).integers(33, 127, characters)))


def read(content: bytes, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in zipfile.ZipFile(io.BytesIO(content)).read(name).splitlines()]


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    files = {"b_samples.jsonl": rows(tmp_path / "b", ["x"]), "a_samples.jsonl": rows(tmp_path / "a", ["y"])}
    first = slim(files, {"p.json": b"{}"}, "model", 10_000)
    (tmp_path / "a").touch()
    again = slim(dict(reversed(files.items())), {"p.json": b"{}"}, "model", 10_000)
    assert first is not None and first == again and first.kept is None
    assert first.content.startswith(b"PK\x03\x04")
    with zipfile.ZipFile(io.BytesIO(first.content)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["model/a_samples.jsonl", "model/b_samples.jsonl", "model/p.json"]
        assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_DEFLATED}


@pytest.mark.parametrize("limit", [250_000, 120_000, 40_000, 9_000])
def test_replies_that_are_too_long_are_cut_to_their_ends_and_say_so(tmp_path: Path, limit: int) -> None:
    replies = [noise(3_000, seed) + f" so {seed} is the answer" for seed in range(100)]
    files = {"r_samples.jsonl": rows(tmp_path / "r", [*replies, "short"])}
    found = slim(files, {}, "m", limit)
    assert found is not None and len(found.content) <= limit
    assert found.kept is not None
    for row, whole in zip(read(found.content, "m/r_samples.jsonl"), [*replies, "short"], strict=True):
        kept = str(row["reply"])
        assert whole.endswith(kept) and len(kept) <= found.kept
        assert row.get("reply_characters") == (len(whole) if len(whole) > found.kept else None)
        assert row["hit"] == 1.0
    assert json.loads((tmp_path / "r").read_text().splitlines()[0])["reply"] == replies[0]


def test_the_longest_replies_that_fit_are_kept(tmp_path: Path) -> None:
    files = {"r_samples.jsonl": rows(tmp_path / "r", [noise(5_000, seed) for seed in range(20)])}
    kept = [found.kept for limit in (200_000, 80_000, 45_000, 25_000) if (found := slim(files, {}, "m", limit))]
    assert kept == [None, 4000, 2000, 1000]
    for limit, longest in ((80_000, 4000), (45_000, 2000), (25_000, 1000)):
        next_one = KEPT_CHARACTERS[KEPT_CHARACTERS.index(longest) - 1]
        cut = {"r_samples.jsonl": rows(tmp_path / "cut", [noise(5_000, seed)[-next_one:] for seed in range(20)])}
        fits = slim(cut, {}, "m", limit)
        assert fits is None or fits.kept is not None, "more of each reply would have fitted"


def test_what_is_too_large_without_replies_is_none(tmp_path: Path) -> None:
    assert slim({"r_samples.jsonl": rows(tmp_path / "r", ["x"] * 2_000)}, {}, "m", 500) is None


@pytest.mark.parametrize("name", ["a.xls", "a.mp4", "a", "../a.json", "b..json", "deep/a.json"])
def test_no_member_has_a_name_that_the_leaderboard_refuses(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a member"):
        slim({}, {name: b"{}"}, "model", 10_000)


def test_a_workbook_is_among_what_the_leaderboard_takes() -> None:
    found = slim({}, {"model_BLINK.xlsx": b"PK"}, "model", 10_000)
    assert found is not None
    with zipfile.ZipFile(io.BytesIO(found.content)) as archive:
        assert archive.namelist() == ["model/model_BLINK.xlsx"]
