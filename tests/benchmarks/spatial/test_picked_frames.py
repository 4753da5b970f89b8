"""Frames by a benchmark's own formula, from a real MP4 to the model: named in the record, taken once, by number or by rate."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import snellen
from benchmarks.spatial import official_drawn as drawn
from media.clips import Counted, clip, numbers
from servers.fast import Running
from snellen.benchmarks.spatial.prompts import frames
from snellen.cli import main
from snellen.errors import MediaError
from snellen.media import MediaCache
from snellen.sources import BytesBlob
from snellen.types import Generation, Image, MediaSettings, Pick, Video


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def meta(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run_meta.json").read_text())
    return found


def requests(run: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted((run / "traces").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line)["trace"]["request"] for line in lines]


def asked(url: str, path: Path, out: Path, *more: str) -> int:
    command = ["run", "vsi-bench", "--data", str(path), "--model", "api:stub-vlm", "--base-url", url]
    return main([*command, "--out", str(out), "--quiet", *more])


def test_a_run_names_its_formula_and_decodes_each_video_once(stub: Running, tmp_path: Path, cache: Path) -> None:
    path = drawn.draw("vsi-bench", tmp_path)
    assert asked(stub.url, path, tmp_path / "run", "--sample-frames", "8") == 0
    assert meta(tmp_path / "run")["identity"]["frames"] == ["vlmevalkit-tail:8"]
    kept = [one for one in (cache / "frames").iterdir() if one.is_file()]
    assert len(kept) == len(drawn.SCENES) < drawn.count("vsi-bench")
    times = [one.stat().st_ino for one in kept]
    assert asked(stub.url, path, tmp_path / "again", "--sample-frames", "8") == 0
    assert sorted(one.stat().st_ino for one in (cache / "frames").iterdir() if one.is_file()) == sorted(times)
    for request in requests(tmp_path / "run"):
        content = request["messages"][-1]["content"]
        assert [part["type"] for part in content] == ["image_url"] * 8 + ["text"]


def test_formulas_are_part_of_what_a_run_is(stub: Running, tmp_path: Path) -> None:
    path = drawn.draw("vsi-bench", tmp_path)
    seen = []
    for at, more in enumerate(
        ([], ["--sample-frames", "64"], ["--prompting", "lmms-eval"], ["--sample-frames", "2fps"])
    ):
        assert asked(stub.url, path, tmp_path / str(at), "--limit", "1", *more) == 0
        seen.append(meta(tmp_path / str(at)))
    assert len({one["fingerprint"] for one in seen}) == 4
    rules = ["vlmevalkit-tail:32", "vlmevalkit-tail:64", "lmms-eval:32", "vlmevalkit-rate-tail:2fps"]
    assert [one["identity"]["frames"] for one in seen] == [[rule] for rule in rules]


@pytest.mark.parametrize("setting", [["--frames", "16"], ["--fps", "1"]])
def test_settings_that_ask_for_other_frames_are_refused_before_anything_is_asked(
    setting: list[str], stub: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = drawn.draw("vsi-bench", tmp_path)
    assert asked(stub.url, path, tmp_path / "run", *setting) == 2
    assert f"(vlmevalkit-tail:32), which {' '.join(setting)} contradicts" in capsys.readouterr().err
    assert not (tmp_path / "run" / "results.jsonl").exists()


def test_a_users_own_limits_win_over_those_of_lmms_eval(stub: Running, tmp_path: Path) -> None:
    path = drawn.draw("blink", tmp_path)
    options = {"prompting": "lmms-eval"}
    for own, expected in ((Generation(), (1024, 0.0)), (Generation(max_tokens=5, temperature=0.7), (5, 0.7))):
        out = tmp_path / str(own.max_tokens)
        snellen.evaluate(
            "blink",
            "api:stub-vlm",
            data=path,
            out=out,
            base_url=stub.url,
            benchmark_options=options,
            generation=own,
            limit=2,
        )
        assert {(one["max_tokens"], one["temperature"]) for one in requests(out)} == {expected}


@pytest.mark.parametrize(("fps", "tail"), [(2.0, True), (2.0, False), (1.0, True), (0.7, False)])
def test_frames_by_rate_are_those_of_the_formula_at_the_files_own_rate(fps: float, tail: bool) -> None:
    pick = Pick("rate", partial(frames.by_rate, fps=fps, tail=tail), 100, by_rate=True)
    film = Counted(clip(27, rate=10))
    with_cache = MediaCache(MediaSettings())
    expected = frames.by_rate(27, 10.0, fps, tail=tail)
    assert numbers(with_cache.frames(Video(film, pick=pick))) == expected
    assert numbers(with_cache.frames(Video(film, pick=pick))) == expected
    assert film.reads == 1


def test_a_drawn_clip_is_taken_by_the_rate_that_it_says_it_has() -> None:
    shown = tuple(Image(BytesBlob(str(at), b"")) for at in range(20))
    pick = Pick("rate", partial(frames.by_rate, fps=1.0), 100, by_rate=True)
    found = MediaCache(MediaSettings()).frames(Video(frames=shown, fps=5.0, pick=pick))
    assert [image.blob.key for image in found] == ["0", "5", "10", "15"]
    with pytest.raises(MediaError, match="no frame rate"):
        MediaCache(MediaSettings()).frames(Video(frames=shown, fps=0.0, pick=pick))


def test_more_frames_than_a_rule_may_name_are_refused() -> None:
    pick = Pick("rate", partial(frames.by_rate, fps=10.0), 15, by_rate=True)
    with pytest.raises(MediaError, match="picks 20; 15 may be sent"):
        MediaCache(MediaSettings()).frames(Video(BytesBlob("film", clip(20)), pick=pick))


def test_one_frame_of_all_clips_together_is_the_first() -> None:
    assert frames.mmsi_video_lmms_eval([3, 2], 1) == [[0], [0]]
    assert frames.mmsi_video_vlmevalkit([3, 2], 1) == [[0], []]
