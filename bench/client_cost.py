"""What does one question cost the client? CPU time of ways to ask a server that answers at once.

    python bench/client_cost.py [--questions 2000] [--rounds 3] [--inspect PYTHON] [--lmms PYTHON] [--no-rates] [--json FILE]

One stub server in a process of its own (its CPU is not counted), 64 questions in flight, 10 questions to each JPEG of
about 60 KB. The ways take turns, round by round and every other round in reverse, so that whatever else the machine does
falls on all of them alike;
the figure is the best round of each, in microseconds of CPU (user + system, all threads) per question. The last part
asks again with 200 ms of latency and counts questions per second. Whole runs read every reply with the strict extractor:
once with replies of nine characters, once with replies of 1.1 KB that argue before they answer, each with a key of 48
characters. Ideal is 320; the last, unfilled wave of 2,000 questions
leaves 312.5 of it to a client that costs nothing. `--inspect` names a Python with inspect-ai and openai, whose `eval` asks
the same questions of the same server in the same rounds, with a scorer that reads the letter; imports are not counted.
`--lmms` names one with lmms-eval, whose `simple_evaluate` does so with its backend `async_openai`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import string
import subprocess
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
KEY = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=48))
"""As long as the keys of the usual services: each text on its way to the disk is searched for it in all its forms."""


INSPECT = """
import sys, time
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, GenerateConfig, get_model
from inspect_ai.scorer import pattern
from inspect_ai.solver import generate
url, folder, name, question, in_flight, per_image, questions, *paths = sys.argv[1:]
samples = [
    Sample(id=f"q{n:05}", target="A", input=[ChatMessageUser(content=[
        ContentImage(image=paths[n // int(per_image) % len(paths)]), ContentText(text=question.format(n))])])
    for n in range(int(questions))
]
task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=pattern("ANSWER: ([A-D])"))
config = GenerateConfig(max_tokens=16, temperature=0.0, max_connections=int(in_flight))
model = get_model("openai-api/stub/" + name, base_url=url, api_key="none", config=config)
cpu = time.process_time()
(log,) = eval(task, model=model, display="none", log_dir=folder, max_samples=int(in_flight), log_level="error")
cpu = time.process_time() - cpu
assert log.status == "success" and log.results.scores[0].metrics["accuracy"].value == 1.0
print("CPU", cpu)
"""


LMMS_TASK = """
dataset_path: parquet
dataset_kwargs: {{data_files: {{test: {data}}}}}
task: stub
test_split: test
output_type: generate_until
doc_to_visual: !function stub_utils.images
doc_to_text: !function stub_utils.question
doc_to_target: answer
generation_kwargs: {{max_new_tokens: 16, temperature: 0}}
process_results: !function stub_utils.score
metric_list: [{{metric: right, aggregation: mean, higher_is_better: true}}]
metadata: [{{version: 0.0}}]
"""
LMMS_FUNCTIONS = """
import re
def images(row):
    return [row["image"].convert("RGB")]
def question(row, lmms_eval_specific_kwargs=None):
    return row["question"]
def score(row, results):
    letter = re.search("ANSWER: ([A-D])", results[0], re.IGNORECASE)
    return {"right": float(letter is not None and letter[1] == row["answer"])}
"""
LMMS = """
import sys, time
from pathlib import Path
import datasets
from lmms_eval import evaluator
from lmms_eval.tasks import TaskManager
url, folder, name, question, in_flight, per_image, questions, *paths = sys.argv[1:]
folder = Path(folder)
rows = [
    {"image": {"path": None, "bytes": Path(paths[n // int(per_image) % len(paths)]).read_bytes()},
     "question": question.format(n), "answer": "A"}
    for n in range(int(questions))
]
features = datasets.Features(
    {"image": datasets.Image(), "question": datasets.Value("string"), "answer": datasets.Value("string")})
datasets.Dataset.from_list(rows, features=features).to_parquet(str(folder / "rows.parquet"))
tasks = TaskManager("ERROR", include_path=str(folder), include_defaults=False)
cpu = time.process_time()
results = evaluator.simple_evaluate(
    model="async_openai", tasks=["stub"], task_manager=tasks, batch_size=1, verbosity="ERROR", bootstrap_iters=0,
    model_args=f"model_version={name},base_url={url},api_key=none,num_cpus={in_flight}")
cpu = time.process_time() - cpu
assert results["results"]["stub"]["right,none"] == 1.0, results["results"]
print("CPU", cpu)
"""


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


def native_model(kind: str, responses: bool = False) -> Callable[[str, list[Path]], Awaitable[Any]]:
    """ApiModel.answer in a provider's own protocol, as `api_model`."""

    async def opened(url: str, paths: list[Path]) -> Any:
        options = ModelOptions(base_url=url, concurrency=IN_FLIGHT, responses=responses, key_env="OPENAI_API_KEY")
        model = ApiModel(fast.MODEL, options, kind)

        async def ask(number: int) -> str:
            return (await model.answer(prompt(number, paths))).text

        return ask, model.close

    return opened


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
    snellen.evaluate(asked, f"api:{fast.MODEL}", out=out, base_url=url, concurrency=IN_FLIGHT, key_env="OPENAI_API_KEY")
    cpu = time.process_time() - cpu
    records = [msgspec.json.decode(line) for line in (out / "results.jsonl").read_bytes().splitlines()]
    assert len(records) == questions
    seconds = max(record["finished_at"] for record in records) - min(record["started_at"] for record in records)
    return cpu / questions * 1e6, questions / seconds


def inspect_run(python: str, url: str, paths: list[Path], questions: int, folder: Path) -> float:
    """Return CPU microseconds per question of inspect-ai's `eval`, in a process of its own."""
    words = [url, folder, fast.MODEL, QUESTION, IN_FLIGHT, PER_IMAGE, questions, *paths]
    done = subprocess.run(
        [python, "-c", INSPECT, *map(str, words)], capture_output=True, text=True, check=False, cwd=folder.parent
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout.rpartition("CPU ")[2]) / questions * 1e6


def lmms_run(python: str, url: str, paths: list[Path], questions: int, folder: Path) -> float:
    """Return CPU microseconds per question of lmms-eval's `simple_evaluate` on a task of the same questions."""
    folder.mkdir(exist_ok=True)
    (folder / "stub.yaml").write_text(LMMS_TASK.format(data=folder / "rows.parquet"))
    (folder / "stub_utils.py").write_text(LMMS_FUNCTIONS)
    words = [url, folder, fast.MODEL, QUESTION, IN_FLIGHT, PER_IMAGE, questions, *paths]
    quiet = {**os.environ, "HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    done = subprocess.run(
        [python, "-c", LMMS, *map(str, words)], capture_output=True, text=True, check=False, cwd=folder, env=quiet
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout.rpartition("CPU ")[2]) / questions * 1e6


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
    found += [
        Way("openai:", native_model("openai")),
        Way("openai: --responses", native_model("openai", responses=True)),
        Way("anthropic:", native_model("anthropic")),
        Way("gemini:", native_model("gemini")),
    ]
    try:
        import openai  # noqa: F401
    except ImportError:
        print("openai is not installed: left out", file=sys.stderr)
    else:
        # Ten times slower: a quarter of the questions gives as good a figure.
        found.append(Way("openai SDK", openai_sdk, 0.25))
    return found


def measure(
    questions: int,
    rounds: int,
    folder: Path,
    *,
    inspect: str | None = None,
    lmms: str | None = None,
    with_rates: bool = True,
) -> dict[str, Any]:
    """CPU per question of each way, best of the rounds, and questions per second at 200 ms."""
    os.environ["OPENAI_API_KEY"] = KEY
    paths = photographs(folder, max(1, questions // PER_IMAGE))
    size = sum(path.stat().st_size for path in paths) / len(paths)
    cpu: dict[str, list[float]] = {name: [] for name in (*(way.name for way in ways()), WHOLE, WHOLE_LONG)}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        with fast.running() as server, fast.running(texts=(ARGUED,)) as arguing:
            for number in count(1):
                for way in ways()[:: 1 if number % 2 else -1]:
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
                if inspect is not None and number > 1:
                    theirs = inspect_run(inspect, server.url, paths, max(IN_FLIGHT, questions // 4), folder / "logs")
                    cpu.setdefault("inspect-ai eval", []).append(theirs)
                if lmms is not None and number > 1:
                    theirs = lmms_run(lmms, server.url, paths, max(IN_FLIGHT, questions // 4), folder / "lmms")
                    cpu.setdefault("lmms-eval", []).append(theirs)
                if number > rounds:
                    break
        rates: dict[str, float] = {}
        with fast.running(latency_s=0.2) as server:
            for number in range(rounds if with_rates else 0):
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
    parser.add_argument("--inspect", metavar="PYTHON", help="interpreter with inspect-ai and openai")
    parser.add_argument("--lmms", metavar="PYTHON", help="interpreter with lmms-eval and openai")
    parser.add_argument("--no-rates", action="store_true", help="skip the part with 200 ms of latency")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            given.questions,
            given.rounds,
            Path(folder),
            inspect=given.inspect,
            lmms=given.lmms,
            with_rates=not given.no_rates,
        )
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
