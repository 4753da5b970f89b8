"""A page about a run that changed its pictures shows what the server received, and the original beside it."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

from media.clips import clip
from servers.scripted import Say, ScriptedServer, pictures_in
from snellen import evaluate
from snellen.benchmarks.base import Benchmark
from snellen.cli import main
from snellen.reports.runs import report
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import PageLimits
from snellen.scoring import metrics
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, MediaSettings, Prompt, Sample, Score, Text, Video


def photo(seed: int, size: tuple[int, int] = (96, 64)) -> bytes:
    """A PNG with edges and colours, so that every corruption changes it."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 255, (4, 6, 3), dtype=np.uint8)
    out = io.BytesIO()
    Picture.fromarray(blocks).resize(size, Picture.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


def benchmark(parts: dict[str, Any]) -> Benchmark:
    samples = [
        Sample(name, Prompt((part, Text("Which?"))), "A", "choice", {"A": "one", "B": "two"})
        for name, part in parts.items()
    ]
    return Benchmark(
        name="sent/pictures",
        version="1",
        samples=lambda data: iter(samples),
        score={"strict": lambda sample, reply: Score(1.0, "A", "correct")},
        profiles={"strict": "every reply is right"},
        summarize=lambda scores, profile: [metrics.accuracy(scores)],
        size=lambda data: len(samples),
        digest=lambda data: "1",
    )


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Run questions with media settings; the pictures that the server got, and the run."""
    monkeypatch.chdir(tmp_path)

    def run(parts, out="run", **media):
        with ScriptedServer({"m": [Say("A")]}) as server:
            done = evaluate(
                benchmark(parts),
                "api:m",
                base_url=server.url,
                out=tmp_path / out,
                media=MediaSettings(**media),
                concurrency=1,
            )
            return [data for body in server.asked for data in pictures_in(body)], done

    return run


def page_data(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    page = path.read_text()

    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)[1]
        )
        return found

    return read("data"), read("pictures")


def pixels(data: bytes | str) -> np.ndarray:
    if isinstance(data, str):
        data = base64.b64decode(data.partition(",")[2])
    return np.asarray(Picture.open(io.BytesIO(data)).convert("RGB")).astype(int)


def far(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).mean()) if one.shape == other.shape else 255.0


@pytest.mark.parametrize(
    "media",
    [
        {"corrupt": "blur:15"},
        {"corrupt": "salt-pepper:30"},
        {"corrupt": "grey,jitter:1"},
        {"blank": True},
        {"max_long_side": 24},
        {"max_pixels": 600},
        {"format": "jpeg", "quality": 3},
    ],
)
def test_the_page_shows_the_picture_that_the_server_received_and_the_original_beside_it(asked, tmp_path, media):
    original = photo(1)
    received, run = asked({"q": Image(BytesBlob("photo", original))}, **media)
    data, pictures = page_data(report([run], tmp_path / "report.html"))
    (part,) = [part for part in data["questions"][0]["parts"] if "t" not in part]
    assert far(pixels(pictures[part["p"]]), pixels(received[0])) < 4
    assert far(pixels(pictures[part["o"]]), pixels(original)) < 4
    assert part["p"] != part["o"] and part["w"]


def test_a_plain_run_shows_each_picture_once(asked, tmp_path):
    received, run = asked({"q": Image(BytesBlob("photo", photo(1)))})
    data, pictures = page_data(report([run], tmp_path / "report.html"))
    (part,) = [part for part in data["questions"][0]["parts"] if "t" not in part]
    assert list(part) == ["p"] and pictures[part["p"]].endswith(base64.b64encode(received[0]).decode())


def test_two_runs_on_one_page_each_show_their_own_picture_of_the_question(asked, tmp_path):
    parts = {"q": Image(BytesBlob("photo", photo(2)))}
    _, plain = asked(parts)
    received, grey = asked(parts, "grey", blank=True)
    data, pictures = page_data(report([plain, grey], tmp_path / "report.html"))
    by_run = {answer["r"]: data["questions"][answer["q"]]["parts"][0] for answer in data["answers"]}
    assert "o" not in by_run[0]
    assert far(pixels(pictures[by_run[1]["p"]]), pixels(received[0])) == 0
    assert by_run[1]["o"] == by_run[0]["p"]


def test_frames_of_a_video_are_those_that_were_sent(asked, tmp_path):
    film = clip(40)
    received, run = asked({"q": Video(blob=BytesBlob("film", film))}, frames=5, corrupt="salt-pepper:40")
    data, pictures = page_data(report([run], tmp_path / "report.html"))
    shown = [part for part in data["questions"][0]["parts"] if "p" in part]
    assert len(shown) == len(received) == 5
    for part, sent in zip(shown, received, strict=True):
        assert far(pixels(pictures[part["p"]]), pixels(sent)) < 6
        assert far(pixels(pictures[part["o"]]), pixels(sent)) > 10


def test_of_many_frames_some_are_shown_and_the_number_that_was_sent_is_said(asked, tmp_path):
    received, run = asked({"q": Video(blob=BytesBlob("film", clip(40)))}, frames=20)
    data, pictures = page_data(report([run], tmp_path / "report.html"))
    parts = data["questions"][0]["parts"]
    shown = [part for part in parts if "p" in part]
    assert len(received) == 20 and len(shown) == 12
    assert {"note": "12 of the 20 frames sent"} in parts
    for part, at in ((shown[0], 0), (shown[-1], 19)):
        assert far(pixels(pictures[part["p"]]), pixels(received[at])) < 4


def test_pages_of_single_answers_show_what_was_sent_too(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ScriptedServer({"m": [Say("none of them")]}) as server:
        words = [
            "run",
            "chart/digits",
            "-m",
            "api:m",
            "--base-url",
            server.url,
            "--limit",
            "2",
            "--blank-images",
            "--out",
            "r",
        ]
        assert main(words) == 0
        received = [data for body in server.asked for data in pictures_in(body)]
    assert main(["failures", "r", "--pages", "pages"]) == 0
    page = next(iter(sorted((tmp_path / "pages" / "pages").glob("*.html")))).read_text()
    shown = re.findall(r'<img src="(data:[^"]+)" alt="([^"]+)"', page)
    assert shown[0][1] == "Image as sent to the model" and "sent: blank control" in page
    assert any(far(pixels(shown[0][0]), pixels(sent)) == 0 for sent in received)
    assert shown[1][1] == "Original image, not sent" and len(set(pixels(shown[1][0]).ravel())) > 1


def test_what_a_picture_went_through_leaves_no_path_on_the_page(tmp_path):
    album = ThumbnailAlbum(PageLimits())
    (part,) = album.add(
        Image(BytesBlob("/home/someone/secret.png", b"\x89PNG\r\n\x1a\n" + bytes(20))), MediaSettings(blank=True)
    )
    assert "note" in part and "someone" not in part["note"]
