"""How much memory does the client need for the bodies in flight?

    python bench/client_memory.py [--megabytes 3] [--in-flight 32] [--json FILE]

A server in a process of its own takes a second for each answer. All requests go out at once, first each with a picture of
its own, then all with the same one. `peak` is what was allocated beyond the state before (tracemalloc), `resident` the
growth of the process; both are given as a multiple of the bodies' size, of which each picture counts once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from servers import fast
from snellen.models.api import ApiModel
from snellen.models.base import ModelOptions
from snellen.sources.blobs import FileBlob
from snellen.types import Image, Prompt, Text


def pictures(folder: Path, number: int, size: int) -> list[Path]:
    """JPEGs of 16 x 16 with random bytes behind their end; they are sent as they are."""
    from io import BytesIO

    from PIL import Image as Pillow

    out = BytesIO()
    Pillow.new("RGB", (16, 16)).save(out, "JPEG")
    paths = []
    for index in range(number):
        paths.append(folder / f"{index}.jpg")
        paths[-1].write_bytes(out.getvalue() + os.urandom(size - len(out.getvalue())))
    return paths


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def measure(url: str, paths: list[Path], in_flight: int, *, traced: bool) -> dict[str, float]:
    """Ask once with each path in turn, all at the same time."""
    model = ApiModel(fast.MODEL, ModelOptions(base_url=url))
    await model.answer(Prompt((Text("warm up"),)))
    bodies = sum(path.stat().st_size for path in paths) * 4 / 3
    before = resident()
    if traced:
        tracemalloc.start()
    peaks = [resident()]

    async def watch() -> None:
        while True:
            peaks.append(resident())
            await asyncio.sleep(0.01)

    watcher = asyncio.create_task(watch())
    prompts = [Prompt((Image(FileBlob(paths[n % len(paths)])), Text(f"{n}?"))) for n in range(in_flight)]
    await asyncio.gather(*(model.answer(prompt) for prompt in prompts))
    watcher.cancel()
    peak = tracemalloc.get_traced_memory()[1] if traced else 0
    tracemalloc.stop()
    await model.close()
    return {"bodies_mb": bodies / 1e6, "peak": peak / bodies, "resident": (max(peaks) - before) / bodies}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=3.0)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "none"
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, fast.running(latency_s=1.0) as server:
        paths = pictures(Path(folder), arguments.in_flight, int(arguments.megabytes * 1e6))
        for name, chosen in (("each its own picture", paths), ("all the same picture", paths[:1])):
            for traced in (False, True):
                row = uvloop.run(measure(server.url, chosen, arguments.in_flight, traced=traced))
                figures.setdefault(name, {"bodies_mb": row["bodies_mb"]})
                figures[name]["peak" if traced else "resident"] = row["peak" if traced else "resident"]
            row = figures[name]
            print(
                f"{name:24}{arguments.in_flight} in flight, {row['bodies_mb']:7.1f} MB of bodies: "
                f"allocated {row['peak']:.2f} x, resident {row['resident']:.2f} x"
            )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
