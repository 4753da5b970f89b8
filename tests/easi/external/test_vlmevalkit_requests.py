"""Requests with VLMEvalKit's imported words, part by part beside those that the kit's own client sends for the same rows."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import subprocess
import zipfile
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from benchmarks.spatial import kit_drawn
from easi.external.real_harnesses import checkout, python
from servers.loopback import JsonHandler, LoopbackServer
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.cli import main

pytestmark = pytest.mark.external

KIT_NAMES: dict[str, tuple[str, ...]] = {
    "vsi-bench": ("VSI-Bench_32frame",),
    "vsi-debiased": ("VSI-Bench-Debiased_32frame",),
    "mmsi-bench": ("MMSIBench_wo_circular",),
    "mindcube-tiny": ("MindCubeBench_tiny_raw_qa",),
    "viewspatial": ("ViewSpatialBench",),
    "site": ("SiteBenchImage", "SiteBenchVideo_32frame"),
    "blink": ("BLINK",),
    "3dsrbench": ("3DSRBench",),
    "embspatial": ("EmbSpatialBench",),
    "mmsi-video-bench": ("MMSIVideoBench_50frame",),
    "omnispatial": ("OmniSpatialBench_manual_cot",),
    "spar-bench": ("SparBench",),
}
REPLY = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}]}
Pixels = NDArray[np.uint8]
Part = str | Pixels


class Listener(JsonHandler):
    """Keeps the requests, and always says A."""

    kept: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.kept.append(json.loads(self.read()))
        self.send(200, REPLY)

    def do_GET(self) -> None:
        self.send(200, {"object": "list", "data": [{"id": "stub-vlm", "object": "model"}]})


@pytest.fixture
def listened() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server's address and the requests that it received."""
    requests: list[dict[str, Any]] = []
    with LoopbackServer(type("Kept", (Listener,), {"kept": requests}), seconds=600) as server:
        yield server.url, requests


def parts(request: dict[str, Any]) -> list[tuple[str, list[Part]]]:
    """Roles with their texts and the pixels of their images, in order."""
    read: list[tuple[str, list[Part]]] = []
    for message in request["messages"]:
        content = message["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        read.append((message["role"], [part["text"] if part["type"] == "text" else pixels(part) for part in listed]))
    return read


def pixels(part: dict[str, Any]) -> Pixels:
    _, _, data = part["image_url"]["url"].partition("base64,")
    return np.asarray(Image.open(io.BytesIO(b64decode(data))).convert("RGB"))


def as_kit_encodes(picture: Pixels, times: int) -> Pixels:
    """Pixels after Pillow's JPEG, in which the kit sends an image; it has kept a frame of a video as such a file before."""
    for _ in range(times):
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, format="JPEG")
        picture = np.asarray(Image.open(buffer).convert("RGB"))
    return picture


def words(request: list[tuple[str, list[Part]]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What a request says, images by a mark where they stand."""
    return tuple((role, tuple(p if isinstance(p, str) else "(image)" for p in own)) for role, own in request)


def same_pictures(ours: list[tuple[str, list[Part]]], kits: list[tuple[str, list[Part]]]) -> bool:
    """Whether images at the same places have the same pixels, but for the kit's JPEG."""
    pairs = [
        (mine, theirs)
        for (_, own), (_, of_kit) in zip(ours, kits, strict=True)
        for mine, theirs in zip(own, of_kit, strict=True)
        if not isinstance(mine, str) and not isinstance(theirs, str)
    ]
    return any(all(np.array_equal(as_kit_encodes(mine, times), theirs) for mine, theirs in pairs) for times in (1, 2))


def for_the_kit(name: str, folder: Path) -> Path:
    """Draw a set as the kit's classes demand: where media lie, and columns that the drawn table lacks or has as a list."""
    where = kit_drawn.draw(name, folder)
    links = {"mindcube-tiny": ("other_all_image", "data/other_all_image")}
    links |= {"omnispatial": ("OmniSpatial-test/OmniSpatial-test", ".")}
    if name in links:
        for archive in where.glob("*.zip"):
            zipfile.ZipFile(archive).extractall(where)
        link, target = links[name]
        (where / link).symlink_to(target)
    if name in ("mmsi-video-bench", "omnispatial"):
        (table,) = where.glob("*.tsv")
        with table.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        for row in rows:
            options = ast.literal_eval(row["options"])
            more = {letter: dict(zip("ABCD", options, strict=False)).get(letter) for letter in "ABCD"}
            row |= more if name == "omnispatial" else {"question": "-", "video": "-"}
        kit_drawn.tsv(table, rows)
    return where


@pytest.mark.parametrize("name", TASKS)
def test_the_kits_request_and_ours_are_one(name, tmp_path, monkeypatch, listened, capsys):
    url, received = listened
    folder = kit_drawn.draw(name, tmp_path / "drawn")
    for_kit = for_the_kit(name, tmp_path / "kit")
    (tmp_path / "LMUData").mkdir()
    kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    kept |= {"LMUData": str(tmp_path / "LMUData"), "HF_HUB_OFFLINE": "1", "VLMEVAL_MIN_IMAGE_EDGE": "1"}
    script = Path(__file__).with_name("kit_requests.py")
    sets = [f"{kit_name}={for_kit}" for kit_name in KIT_NAMES[name]]
    done = subprocess.run(
        [python("vlmevalkit"), script, checkout(), url, *sets],
        cwd=tmp_path,
        env=kept,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    kits, received[:] = received[:], []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "stub-key-0001")
    assert main(["prompts", "import", "--from", "vlmevalkit", "--path", str(checkout()), "--out", "words.toml"]) == 0
    asked = [
        "easi",
        "--benchmarks",
        name,
        "--include-extra",
        "--dataset-dir",
        str(folder.parent),
        "--prompts",
        "words.toml",
    ]
    asked += ["--model", "api:stub-vlm", "--base-url", url, "-c", "1"]
    assert main(asked) == 0, capsys.readouterr().err
    ours = [request for request in received if request.get("messages")]

    by_words: dict[Any, list[Any]] = defaultdict(list)
    for request in map(parts, ours):
        by_words[words(request)].append(request)
    assert len(ours) == len(kits) >= 3
    for request in map(parts, kits):
        matching = by_words[words(request)]
        assert matching, words(request)
        assert same_pictures(matching.pop(0), request), words(request)
    settings = [{key: value for key, value in one[0].items() if key != "messages"} for one in (kits, ours)]
    pictures = sum(not isinstance(part, str) for request in map(parts, kits) for _, own in request for part in own)
    kit_alone = json.loads(done.stdout.splitlines()[-1])
    print(
        f"\n{name}: {len(kits)} requests with {pictures} images alike; beside messages the kit sends {settings[0]}, Snellen {settings[1]}; {kit_alone}"
    )
