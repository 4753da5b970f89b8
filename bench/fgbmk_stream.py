"""What FG-BMK's questions cost: a million of them as samples beside a bare loop over the same JSON lines, and a run.

Each step runs in a process of its own; its CPU seconds and peak memory are read from the operating system. Rows are made
up in the released form, 1,000,000 to a file unless another number is given. With a folder of released question files
those are asked too, by a model that answers at once and sees no image. Usage: python bench/fgbmk_stream.py [N] [FOLDER]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snellen.models.base import Model
from snellen.types import Prompt, Response, Text

TREE = "human-oriented/hierarchical_granularity_recognition/cub/species"
BIRDS = (
    "american crow",
    "fish crow",
    "common raven",
    "herring gull",
    "ivory gull",
    "rock wren",
    "house wren",
    "gadwall",
)
FILES = {"choice": "species_question_choice.jsonl", "truth": "species_question_true_false.jsonl"}
ANSWERS = ("Yes", "no.", "yes and no", "I am not sure", "Herring Gull", "It is a dress.")


def rows(n: int, folder: Path) -> None:
    """Write n choice and n true/false questions over n / 2 images."""
    (folder / TREE).mkdir(parents=True)
    for kind, name in FILES.items():
        with (folder / TREE / name).open("w") as file:
            for i in range(n):
                own, other = BIRDS[i % 8], BIRDS[(i + 1 + i // 8 % 7) % 8]
                image = f"images/{i % 8 + 1:03}.{own.title().replace(' ', '_')}/{own.title()}_{i // 2:07}.jpg"
                if kind == "choice":
                    listed = ", ".join(f'"{BIRDS[(i + k) % 8]}"' for k in range(4))
                    text, gold = f"Can you identify the species of this aves? Choose one answer from: {listed}.", own
                else:
                    asked = own if i % 2 else other
                    text = f"Does this aves belong to the species known as {asked}? Answer with yes or no."
                    gold = "yes" if asked == own else "no"
                row = {"question_id": i + 1, "image": image, "text": text, "class": gold, "category": "generic"}
                file.write(json.dumps(row) + "\n")


def floor(kind: str, folder: Path) -> dict[str, Any]:
    """Decode every line and do nothing with it."""
    import msgspec

    decode = msgspec.json.Decoder().decode
    with (folder / TREE / FILES[kind]).open("rb") as lines:
        return {"rows": sum(1 for line in lines if decode(line))}


def stream(kind: str, folder: Path) -> dict[str, Any]:
    """Make every sample."""
    from snellen.benchmarks.base import Data
    from snellen.benchmarks.registry import find

    return {"rows": sum(1 for _ in find(f"fgbmk/cub/species/{kind}").samples(Data(folder)))}


def score(kind: str, folder: Path) -> dict[str, Any]:
    """Make every sample, and score a reply to it under both profiles."""
    from snellen.benchmarks.base import Data
    from snellen.benchmarks.registry import find

    benchmark = find(f"fgbmk/cub/species/{kind}")
    replies = ("Yes", "no.") if kind == "truth" else BIRDS
    value = 0.0
    for number, sample in enumerate(benchmark.samples(Data(folder))):
        for scorer in benchmark.score.values():
            value += scorer(sample, replies[number % len(replies)]).value or 0.0
    return {"rows": number + 1}


class Instant(Model):
    """Answers at once, and looks at no image."""

    name = "instant"

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name}

    async def preflight(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        text = next(part.text for part in prompt.parts if isinstance(part, Text))
        return Response(ANSWERS[len(text) % len(ANSWERS)])

    async def close(self) -> None: ...


def run(data: str, folder: Path) -> dict[str, Any]:
    """Ask everything in a folder of released files, and sum it up. One image is there, so that the run may start."""
    from snellen import evaluate
    from snellen.benchmarks.base import Data
    from snellen.benchmarks.registry import find
    from snellen.types import Image

    first = next(iter(find("fgbmk").samples(Data(Path(data)))))
    part = first.prompt.parts[0]
    assert isinstance(part, Image)
    image = folder / "images" / first.meta["dataset"] / part.blob.name
    image.parent.mkdir(parents=True)
    image.write_bytes(b"no picture: nothing may decode it")
    done = evaluate("fgbmk", Instant(), data=data, images=folder / "images", out=folder / "run")
    return {"rows": done.meta.totals.ok, "failed": done.meta.totals.error}


STEPS = {"floor": floor, "stream": stream, "score": score, "run": run}


def measure(step: str, what: str, folder: Path) -> None:
    """Run one step in a process of its own, and print what it took."""
    command = [sys.executable, __file__, step, what, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    told = ", ".join(f"{found[key]:,} {key}" for key in ("rows", "failed") if key in found)
    print(
        f"{step:<7} {what:<8.40} {told:>24}  {found['cpu_s']:7.1f} s CPU  {found['peak_mb']:7.0f} MB peak", flush=True
    )


def main() -> None:
    if len(sys.argv) == 4:
        result = STEPS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
        use = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({**result, "cpu_s": use.ru_utime + use.ru_stime, "peak_mb": use.ru_maxrss / 1024}))
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        rows(n, Path(folder))
        for kind in FILES:
            for step in ("floor", "stream", "score"):
                measure(step, kind, Path(folder))
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as folder:
            measure("run", sys.argv[2], Path(folder))


if __name__ == "__main__":
    main()
