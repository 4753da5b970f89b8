"""Each answer is read once for each profile, and no long reply keeps the event loop from the other questions."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from stubs import ARITHMETIC, Calculator
from stubs import score as right_or_wrong

import snellen
from servers import fast
from snellen import event_loop
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import progress, traces
from snellen.engine.progress import LiveScores
from snellen.errors import ModelTimeoutError
from snellen.event_loop import off_loop
from snellen.models.api import ApiModel, transport
from snellen.models.base import ModelOptions
from snellen.redaction import redact_bytes
from snellen.runs.scoring import SummaryBuilder, live_builder
from snellen.types import Prompt, Record, Response, Sample, Score, Text


class Counting:
    """A scorer that counts its calls, by the thread that made them."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def __call__(self, sample: Sample, reply: str) -> Score:
        self.threads.append(threading.current_thread().name)
        return right_or_wrong(sample, reply)


class Wordy(Calculator):
    """Answers after so many characters of talk."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = characters

    async def answer(self, prompt: Prompt) -> Response:
        return Response("a" * self.characters)


def counted(**profiles: Counting) -> Benchmark:
    return replace(ARITHMETIC, score=profiles, profiles=dict.fromkeys(profiles, "counts"))


def test_every_answer_of_a_run_is_read_once_for_each_profile(tmp_path):
    first, second = Counting(), Counting()
    run = snellen.evaluate(counted(strict=first, same=first, other=second), Calculator(), out=tmp_path / "run")
    assert (len(first.threads), len(second.threads)) == (100, 100)
    assert run.metric("accuracy").value == pytest.approx(0.9)


def test_scores_of_a_run_are_those_that_scoring_it_again_gives(tmp_path):
    run = snellen.evaluate(ARITHMETIC, Calculator(), out=tmp_path / "run")
    saved = run.folder.summary.read_bytes()
    run.summarize("all")
    assert run.folder.summary.read_bytes() == saved


def starts(benchmark: Benchmark) -> tuple[Benchmark, list[int]]:
    """The benchmark, and a list that grows by one each time its generator of samples is started."""
    started: list[int] = []

    def samples(data: Data) -> Iterator[Sample]:
        started.append(1)
        yield from benchmark.samples(data)

    return replace(benchmark, samples=samples, digest=lambda data: ""), started


def test_samples_are_generated_once_for_the_fingerprint_and_once_for_the_run(tmp_path):
    benchmark, started = starts(ARITHMETIC)
    run = snellen.evaluate(benchmark, Calculator(), out=tmp_path / "run")
    assert len(started) == 2
    assert run.metric("accuracy").n == 100


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_run_that_was_resumed_has_the_summary_of_one_that_was_not(tmp_path, repeats):
    for limit in (40, None):
        run = snellen.evaluate(ARITHMETIC, Calculator(), out=tmp_path / "run", limit=limit, repeats=repeats)
    whole = snellen.evaluate(ARITHMETIC, Calculator(), out=tmp_path / "whole", repeats=repeats)
    assert run.folder.summary.read_bytes() == whole.folder.summary.read_bytes()


def test_a_run_that_was_cut_between_the_repeats_of_a_question_ends_as_one_that_was_not(tmp_path):
    whole = snellen.evaluate(ARITHMETIC, Calculator(), out=tmp_path / "whole", repeats=3)
    snellen.evaluate(ARITHMETIC, Calculator(), out=tmp_path / "run", repeats=3)
    journal = tmp_path / "run" / "results.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:100]) + lines[100][:20])
    model = Calculator()
    run = snellen.evaluate(ARITHMETIC, model, out=tmp_path / "run", repeats=3)
    assert run.folder.summary.read_bytes() == whole.folder.summary.read_bytes()
    assert len(model.asked) == 200


def test_a_question_answered_in_the_last_pass_is_scored_by_its_answer(tmp_path):
    model = Calculator(fail={i: [ModelTimeoutError("not now") for _ in range(2)] for i in (3, 20, 41)})
    run = snellen.evaluate(ARITHMETIC, model, out=tmp_path / "run", max_attempts=2)
    assert run.meta.totals.ok == 100
    saved = run.folder.summary.read_bytes()
    run.summarize("all")
    assert run.folder.summary.read_bytes() == saved


def test_a_recovered_row_has_the_score_and_the_detail_of_its_answer():
    builder = SummaryBuilder(ARITHMETIC, ARITHMETIC.score)
    sample = next(iter(ARITHMETIC.samples(Data())))
    answer = Record(sample.id, "ok", response=Response(str(sample.target)))

    async def both():
        with LiveScores(builder) as scores:
            failed = await scores.score(sample, Record(sample.id, "error"))
            return failed, await scores.score(sample, answer)

    before, after = asyncio.run(both())
    assert (before and before.value, after and after.value) == (0.0, 1.0)
    assert builder.rows == 1
    assert builder.build(1).metrics["strict"][0].value == 1.0


@pytest.mark.parametrize(
    ("characters", "on_the_way"),
    [(progress.AT_ONCE, "loop"), (progress.AT_ONCE + 1, "thread"), (progress.LONGEST + 1, "never")],
)
def test_a_long_reply_is_read_in_a_thread_and_a_very_long_one_at_the_end(characters, on_the_way):
    scorer = Counting()
    sample = Sample("q1", Prompt((Text("What is 1 mod 7?"),)), 1, "count")
    record = Record("q1", "ok", response=Response("a" * characters))

    async def scored():
        with LiveScores(live_builder(counted(strict=scorer))) as scores:
            return await scores.score(sample, record)

    score = asyncio.run(scored())
    assert (score is None) == (on_the_way == "never")
    own = threading.current_thread().name
    assert [name == own for name in scorer.threads] == {"loop": [True], "thread": [False], "never": []}[on_the_way]


def test_the_loop_goes_on_while_a_long_reply_is_read():
    """The reader waits for the loop: were it on the loop itself, neither would ever end."""
    ticked = threading.Event()

    def waits(sample, reply):
        return Score(float(ticked.wait(600)), None, "correct")

    sample = Sample("q1", Prompt((Text("What is 1 mod 7?"),)), 1, "count")
    record = Record("q1", "ok", response=Response("a" * 30_000))

    async def both():
        with LiveScores(live_builder(replace(ARITHMETIC, score={"strict": waits}))) as scores:
            reading = asyncio.create_task(scores.score(sample, record))
            await asyncio.sleep(0)
            ticked.set()
            return await reading

    score = asyncio.run(both())
    assert score.value == 1.0


def test_a_run_of_long_replies_ends_with_all_of_them_scored(tmp_path):
    run = snellen.evaluate(ARITHMETIC, Wordy(progress.LONGEST + 5), out=tmp_path / "run")
    assert run.metric("accuracy").n == 100


async def test_keys_are_struck_from_a_long_reply_off_the_event_loop(tmp_path, monkeypatch):
    """Escapes make a text slow to search; a reply and the request in its trace are searched, each in the reading thread."""
    threads: list[str] = []

    def noted(data):
        threads.append(threading.current_thread().name)
        return redact_bytes(data)

    for module in (transport, traces):
        monkeypatch.setattr(module, "redact_bytes", noted)
    long = 'He said: "a\\b" %41%20 &amp; <b>' * 2_000
    recorded = traces.Traces(tmp_path)
    with fast.running(texts=(long,)) as server:
        model = ApiModel(fast.MODEL, ModelOptions(base_url=server.url))
        response = await model.answer(Prompt((Text(long),)))
        await recorded.add("1", 0, 1, response.trace)
        await model.close()
    recorded.close()
    assert response.text == long
    assert [name.startswith("snellen-reading") for name in threads] == [True, True]


async def test_a_reply_is_not_searched_for_keys_again_when_its_trace_is_written(tmp_path, monkeypatch):
    searched: list[bytes] = []

    def noted(data):
        searched.append(data)
        return redact_bytes(data)

    for module in (transport, traces):
        monkeypatch.setattr(module, "redact_bytes", noted)
    recorded = traces.Traces(tmp_path)
    with fast.running(texts=("It is a wren. Bearer 7e4b1c0d-f00d",)) as server:
        model = ApiModel(fast.MODEL, ModelOptions(base_url=server.url))
        response = await model.answer(Prompt((Text("Which? Bearer 8f5c2d1e-beef"),)))
        await recorded.add("1", 0, 1, response.trace)
        await model.close()
    recorded.close()
    assert [b"wren" in data for data in searched] == [True, False]
    line = (tmp_path / "00000.jsonl").read_bytes()
    trace = json.loads(line)["trace"]
    assert trace["reply"]["choices"][0]["message"]["content"] == "It is a wren. Bearer [redacted]"
    assert trace["request"]["messages"][0]["content"] == "Which? Bearer [redacted]"


async def test_a_short_text_is_read_at_once_and_a_failure_in_the_thread_is_raised():
    assert await off_loop(event_loop.AT_ONCE, lambda: threading.current_thread().name) == "MainThread"
    assert (await off_loop(event_loop.AT_ONCE + 1, lambda: threading.current_thread().name)).startswith("snellen-")
    with pytest.raises(ValueError, match="base 10"):
        await off_loop(event_loop.AT_ONCE + 1, int, "no number")
