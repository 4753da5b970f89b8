"""What does one question cost the client? CPU time of ways to ask a server that answers at once.

    python bench/client_cost.py [--questions 2000] [--rounds 3] [--json FILE]

One stub server in a process of its own (its CPU is not counted), 64 questions in flight, 10 questions to each JPEG of
about 60 KB. The ways take turns, round by round, so that whatever else the machine does falls on all of them alike;
the figure is the best round of each, in microseconds of CPU (user + system, all threads) per question. The last part
asks again with 200 ms of latency and counts questions per second. Whole runs read every reply with the strict extractor:
once with replies of nine characters, once with replies of 1.1 KB that argue before they answer. Ideal is 320; the last, unfilled wave of 2,000 questions
leaves 312.5 of it to a client that costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import snellen
from servers import fast
from snellen.benchmarks.base import Benchmark
from snellen.models.api import ApiModel
from snellen.models.api.request import BodyWriter
from snellen.models.base import ModelOptions
from snellen.scoring.extract import read
from snellen.sources.blobs import FileBlob
from snellen.types import Generation, Image, Metric, Prompt, Sample, Score, Text

IN_FLIGHT = 64
PER_IMAGE = 10
WHOLE, WHOLE_LONG = "snellen.evaluate", "snellen.evaluate, 1.1 KB"
ARGUED = (
    "Looking at the image carefully, I can see a small bird on a branch. Its breast is orange and its back is brown. "
    "The bill is short and thin, which speaks against a finch, whose bill is thick and conical. "
) * 5 + "The belly is pale, and the legs are dark. There is no other bird in the picture.\n\n**Answer: A. a sparrow**"
QUESTION = (
    "Which of these is shown?\nA. a sparrow\nB. a wren\nC. a robin\nD. a finch\nAnswer with one letter, number {}."
)
GENERATION = Generation(max_tokens=16, temperature=0.0)


class Way(NamedTuple):
    """One way to ask: `open` prepares (not timed) and gives a coroutine function of the question's number, and a close."""

    name: str
    open: Callable[[str, list[Path]], Awaitable[tuple[Callable[[int], Awaitable[str]], Callable[[], Awaitable[None]]]]]
    share: float = 1.0


def photographs(folder: Path, number: int) -> list[Path]:
    """JPEGs of 640 x 480 and about 60 KB each, the same on every run."""
    import numpy as np
    from PIL import Image as Pillow

    random = np.random.default_rng(7)
    paths = []
    for index in range(number):
        coarse = Pillow.fromarray(random.integers(0, 255, (60, 80, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((640, 480), Pillow.Resampling.BICUBIC), dtype=np.int16)
        grain = random.integers(-14, 15, pixels.shape, dtype=np.int16)
        out = BytesIO()
        Pillow.fromarray(np.clip(pixels + grain, 0, 255).astype(np.uint8)).save(out, "JPEG", quality=72)
        paths.append(folder / f"{index:04}.jpg")
        paths[-1].write_bytes(out.getvalue())
    return paths


def prompt(number: int, paths: list[Path]) -> Prompt:
    image = Image(FileBlob(paths[number // PER_IMAGE % len(paths)]))
    return Prompt((image, Text(QUESTION.format(number))), generation=GENERATION)


async def bodies(paths: list[Path]) -> list[bytes]:
    """One ready request body per picture, for the ways that are timed without making bodies."""
    writer = BodyWriter(fast.MODEL, ModelOptions())
    return [(await writer.write(prompt(index * PER_IMAGE, paths))).sent for index in range(len(paths))]


async def raw_sockets(url: str, paths: list[Path]) -> Any:
    """The floor: ready bytes into an open socket, the reply's text out of it. No HTTP library, nothing checked."""
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    ready = [head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in await bodies(paths)]
    idle = [await asyncio.open_connection(host, int(port)) for _ in range(IN_FLIGHT)]

    async def ask(number: int) -> str:
        reader, writer = idle.pop()
        writer.write(ready[number // PER_IMAGE % len(ready)])
        headers = await reader.readuntil(b"\r\n\r\n")
        length = int(headers.lower().partition(b"content-length:")[2].split(b"\r", 1)[0])
        reply = msgspec.json.decode(await reader.readexactly(length))
        idle.append((reader, writer))
        text: str = reply["choices"][0]["message"]["content"]
        return text

    async def close() -> None:
        for _, writer in idle:
            writer.close()

    return ask, close


async def bare_aiohttp(url: str, paths: list[Path]) -> Any:
    """aiohttp as one would write it for a benchmark: ready bodies, whole reply, parsed."""
    import aiohttp

    ready = await bodies(paths)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}

    async def ask(number: int) -> str:
        body = ready[number // PER_IMAGE % len(ready)]
        async with session.post(f"{url}/chat/completions", data=body, headers=headers) as response:
            text: str = msgspec.json.decode(await response.read())["choices"][0]["message"]["content"]
            return text

    return ask, session.close


async def api_model(url: str, paths: list[Path]) -> Any:
    """ApiModel.answer: reads and encodes the pictures, makes the bodies, asks, checks and reads the replies."""
    model = ApiModel(fast.MODEL, ModelOptions(base_url=url, concurrency=IN_FLIGHT))

    async def ask(number: int) -> str:
        return (await model.answer(prompt(number, paths))).text

    return ask, model.close


async def openai_sdk(url: str, paths: list[Path]) -> Any:
    """The openai SDK with data URIs that are ready."""
    from base64 import b64encode

    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    uris = [f"data:image/jpeg;base64,{b64encode(path.read_bytes()).decode()}" for path in paths]

    async def ask(number: int) -> str:
        uri = uris[number // PER_IMAGE % len(uris)]
        content: Any = [
            {"type": "image_url", "image_url": {"url": uri}},
            {"type": "text", "text": QUESTION.format(number)},
        ]
        reply = await client.chat.completions.create(
            model=fast.MODEL, messages=[{"role": "user", "content": content}], max_tokens=16, temperature=0.0
        )
        return reply.choices[0].message.content or ""

    return ask, client.close


async def timed(way: Way, url: str, paths: list[Path], questions: int) -> tuple[float, float]:
    """(CPU microseconds per question, questions per second)."""
    ask, close = await way.open(url, paths)
    numbers: Iterator[int] = iter(range(questions))

    async def worker() -> None:
        for number in numbers:
            assert await ask(number) == "ANSWER: A"

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    await close()
    return cpu / questions * 1e6, questions / wall


def whole_run(url: str, paths: list[Path], questions: int, out: Path) -> tuple[float, float]:
    """`snellen.evaluate` from beginning to end: preflight, questions, journal, traces, progress, scores, summary.

    Returns (CPU microseconds per question, questions per second from the first question to the last answer).
    """
    asked = Benchmark(
        name="bench/photographs",
        version="1",
        samples=lambda data: (sample(number, paths) for number in range(questions)),
        score={"strict": strict},
        summarize=lambda scores, profile: [Metric("accuracy", float(scores.value.mean()), len(scores))],
        profiles={"strict": "the one option that the reply names"},
        size=lambda data: questions,
    )
    cpu = time.process_time()
    snellen.evaluate(asked, f"api:{fast.MODEL}", out=out, base_url=url, concurrency=IN_FLIGHT)
    cpu = time.process_time() - cpu
    records = [msgspec.json.decode(line) for line in (out / "results.jsonl").read_bytes().splitlines()]
    assert len(records) == questions
    seconds = max(record["finished_at"] for record in records) - min(record["started_at"] for record in records)
    return cpu / questions * 1e6, questions / seconds


def sample(number: int, paths: list[Path]) -> Sample:
    options = {"A": "a sparrow", "B": "a wren", "C": "a robin", "D": "a finch"}
    group = str(number // PER_IMAGE)
    return Sample(f"q{number:05}", prompt(number, paths), "A", "choice", options, group, {"level": "species"})


def strict(asked: Sample, reply: str) -> Score:
    part = asked.prompt.parts[-1]
    assert isinstance(part, Text)
    reading = read("choice", reply, question=part.text, options=asked.options)
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = reading.value == asked.target
    return Score(float(right), reading.value, "correct" if right else "wrong")


def ways() -> list[Way]:
    """All ways that can be tried here; the openai SDK only where it is installed."""
    found = [Way("raw sockets", raw_sockets), Way("bare aiohttp", bare_aiohttp), Way("ApiModel.answer", api_model)]
    try:
        import openai  # noqa: F401
    except ImportError:
        print("openai is not installed: left out", file=sys.stderr)
    else:
        # Ten times slower: a quarter of the questions gives as good a figure.
        found.append(Way("openai SDK", openai_sdk, 0.25))
    return found


def measure(questions: int, rounds: int, folder: Path) -> dict[str, Any]:
    """CPU per question of each way, best of the rounds, and questions per second at 200 ms."""
    os.environ["OPENAI_API_KEY"] = "none"
    paths = photographs(folder, max(1, questions // PER_IMAGE))
    size = sum(path.stat().st_size for path in paths) / len(paths)
    cpu: dict[str, list[float]] = {name: [] for name in (*(way.name for way in ways()), WHOLE, WHOLE_LONG)}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        with fast.running() as server, fast.running(texts=(ARGUED,)) as arguing:
            for number in count(1):
                for way in ways():
                    asked = max(IN_FLIGHT, int(questions * way.share))
                    cost, _ = runner.run(timed(way, server.url, paths, asked))
                    # The first round only warms up.
                    if number > 1:
                        cpu[way.name].append(cost)
                cost, _ = whole_run(server.url, paths, questions, folder / f"run{number}")
                argued, _ = whole_run(arguing.url, paths, questions, folder / f"run-argued{number}")
                if number > 1:
                    cpu[WHOLE].append(cost)
                    cpu[WHOLE_LONG].append(argued)
                if number > rounds:
                    break
        rates: dict[str, float] = {}
        with fast.running(latency_s=0.2) as server:
            for number in range(rounds):
                for way in (Way("bare aiohttp", bare_aiohttp), Way("ApiModel.answer", api_model)):
                    rate = runner.run(timed(way, server.url, paths, questions))[1]
                    rates[way.name] = max(rate, rates.get(way.name, 0.0))
                rate = whole_run(server.url, paths, questions, folder / f"run-slow{number}")[1]
                rates[WHOLE] = max(rate, rates.get(WHOLE, 0.0))
    return {"questions": questions, "image_kb": size / 1000, "cpu_us": cpu, "rate_at_200ms": rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.questions, given.rounds, Path(folder))
    print(f"{given.questions} questions, {PER_IMAGE} per JPEG of {found['image_kb']:.0f} KB, {IN_FLIGHT} in flight")
    print(f"{'':24}{'CPU us/question':>18}{'all rounds':>30}")
    for name, costs in found["cpu_us"].items():
        print(f"{name:24}{min(costs):18.0f}{'  '.join(f'{cost:.0f}' for cost in costs):>30}")
    for name, rate in found["rate_at_200ms"].items():
        ideal = IN_FLIGHT / 0.2
        print(f"{name:24}{rate:10.0f} questions/s at 200 ms, {rate / ideal:.1%} of the ideal {ideal:.0f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
