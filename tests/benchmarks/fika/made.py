"""A synthetic set in the shape of FIKA-Bench: drawn pictures, planted gold that must turn up nowhere, and a judge."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from runs.judge.judge_server import SAYS, JudgeServer
from snellen.errors import BadRequestError
from snellen.models.base import Model
from snellen.types import Prompt, Response, Text

PLANTED = (b"zyxgold", b"qwvalias", b"zyxevidence", b"zyxlabel")
"""What no file of a run, its verdicts, reports and redacted folders may hold, in lower case."""
DOMAINS = ("Product", "Nature", "Transport", "Culture")


def row(i: int, **more: Any) -> dict[str, Any]:
    """One row of a manifest; its answer, aliases, label, evidence and file name hold planted words."""
    return {
        "sample_id": f"s{i:03}",
        "image": f"images/Zyxgold{i}_Zyxlabel.png",
        "question": f"这是什么? 第 {i} 号" if i % 3 == 0 else f"What exactly is thing {i}?",
        "answer": f"Zyxgold {i} Mark II",
        "aliases": [f"Qwvalias-{i}", f"兹金{i}号"],
        "fine_grained_label": f"Zyxlabel {i % 228}",
        "evidence": [f"https://example.org/zyxevidence/{i}"],
        "domain": DOMAINS[i % 4],
        "subcategory": f"kind {i % 17}",
        "source": "real-life" if i % 2 else "Public Source",
        **more,
    }


def picture(i: int) -> bytes:
    """A small PNG, another one for each number."""
    held = BytesIO()
    Image.new("RGB", (64, 48), (i * 37 % 256, i * 11 % 256, 90)).save(held, "PNG")
    return held.getvalue()


def files(rows: list[dict[str, Any]], *, shape: str = "jsonl") -> dict[str, bytes]:
    """Name to content of the data's files: data/manifest.json or .jsonl in one of the known shapes, and pictures."""
    shapes: Mapping[str, Callable[[], bytes]] = {
        "jsonl": lambda: b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in rows),
        "lines": lambda: b"".join(json.dumps(one).encode() + b"\n" for one in rows),
        "list": lambda: json.dumps(rows).encode(),
        **{name: (lambda name=name: json.dumps({"version": 1, name: rows}).encode()) for name in ("samples", "data", "items")},
    }  # fmt: skip
    manifest = "data/manifest.jsonl" if shape == "jsonl" else "data/manifest.json"
    found = {"data/README.md": b"A synthetic set.", manifest: shapes[shape]()}
    for number, one in enumerate(rows):
        name = one.get("image")
        if isinstance(name, str) and not name.startswith(("missing", "..")):
            found[f"data/{name}"] = picture(number)
    return found


def zipped(path: Path, content: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def unpacked(path: Path, content: Mapping[str, bytes]) -> Path:
    for name, data in content.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def whole(path: Path, count: int = 311) -> Path:
    """A zip of so many samples: of 311 with 4 domains, 17 subcategories and 228 targets."""
    return zipped(path, files([row(i) for i in range(count)]))


class Scripted(Model):
    """Answers question i with what `say(i)` gives; None is a failure. Keeps the texts that it was shown."""

    name = "scripted"

    def __init__(self, say: Callable[[int], str | None]) -> None:
        self._say = say
        self.shown: list[str] = []

    async def answer(self, prompt: Prompt) -> Response:
        text = "\n".join(part.text for part in prompt.parts if isinstance(part, Text))
        self.shown.append(text)
        first = text.splitlines()[0]
        number = int("".join(one for one in first if one.isdigit()) or 0)
        said = self._say(number)
        if said is None:
            raise BadRequestError("too long")
        return Response(said)


def answer(mark: str, **more: Any) -> str:
    """A reply as the prompt asks for it, whose answer tells the judge of `FikaJudge` what to say."""
    return json.dumps({"answer": f"A thing [[{mark}]]", "confidence": 0.5, "evidence": [], "reasoning": "why", **more})


class FikaJudge(JudgeServer):
    """The judge of judge_server, who knows this rubric's other classes too, and quotes the reference where asked."""

    def say(self, messages: list[dict[str, Any]]) -> str:
        SAYS.update(
            abstained=('{"verdict": "abstained", "reason": "it cannot tell"}',),
            partly=('{"verdict": "partially_correct", "reason": "the maker alone"}',),
            quoting=('{"verdict": "correct", "reason": "both are Zyxgold 1 Mark II, also 那是兹金1号吗"}',),
        )
        return super().say(messages)
