"""A whole run against a server that misbehaves in every way: nothing hangs, nothing is lost, no key gets out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from servers.hostile import KIND
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import retry
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.scoring.statistics import mean
from snellen.types import Prompt, Sample, Score, Text
from stopwatch import Stopwatch

KEY = "sk-test-0123456789abcdefghijklmnop"
ROUNDS = 1


ENDLESS = tuple(behaviour for behaviour, kind in KIND.items() if kind == "timeout")
ENDING = tuple(behaviour for behaviour, kind in KIND.items() if kind != "timeout")
SHORT_S, PATIENT_S = 0.25, 600.0
"""Limits of a request that never ends, and of one that ends: on a slow machine any reply may take a while.

Were all 37 questions asked three times, one after another, and each ended by the first limit, that would take 28 s.
"""


def worst(behaviours: Sequence[str]) -> Benchmark:
    """A benchmark whose questions meet these behaviours of the server, `ROUNDS` times each."""

    def samples(data: Data) -> Iterator[Sample]:
        for turn in range(ROUNDS):
            for behaviour in behaviours:
                yield Sample(f"{behaviour}/{turn}", Prompt((Text(f"Which letter? [[{behaviour}]]"),)), "A", "choice")

    return Benchmark(
        name="worst",
        version="1",
        samples=samples,
        score={
            "strict": lambda sample, reply: Score(float("A" in reply), reply, "correct" if "A" in reply else "wrong")
        },
        summarize=lambda scores, profile: [mean("accuracy", scores)],
        profiles={"strict": "the reply has an A"},
        size=lambda data: ROUNDS * len(behaviours),
    )


@pytest.fixture(autouse=True)
def _hanging_requests_are_not_a_dead_server(monkeypatch):
    """Six requests that hang look like a dead server when the patience is this small; tests of rate limits see that stop."""
    monkeypatch.setattr(retry, "SILENT_S", 60.0)


def go(url: str, out: Path, behaviours: Sequence[str], timeout_s: float) -> Run:
    options = ModelOptions(base_url=url, key_env="WORST_KEY", timeout_s=timeout_s, concurrency=6)
    spec = RunSpec(benchmark="worst", model="api:stub-vlm", options=options)
    backoff = Backoff(attempts=2, base_s=0.01, patience_s=0.05)
    return perform(spec, RunFolder(out), benchmark=worst(behaviours), backoff=backoff)


def kinds_of(run: Run) -> dict[str, str]:
    return {r.sample_id.partition("/")[0]: "" if r.error is None else r.error.kind for r in run.folder.records()}


def test_a_run_against_a_hostile_server_ends_in_time_with_each_sample_recorded(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("WORST_KEY", KEY)
    watch = Stopwatch()
    run = go(hostile.url("by-question"), tmp_path / "a", tuple(KIND), SHORT_S)
    assert watch.seconds < 30
    kinds = kinds_of(run)
    assert kinds.keys() == KIND.keys()
    assert all(kind in (KIND[behaviour], "timeout") for behaviour, kind in kinds.items())
    assert {kinds[behaviour] for behaviour in ENDLESS} == {"timeout"}


def asked_again(hostile, folder, behaviours, timeout_s):
    """The behaviours that a second call to the run meets again."""
    seen = dict(hostile.seen)
    go(hostile.url("by-question"), folder, behaviours, timeout_s)
    return {behaviour for behaviour in KIND if hostile.seen[behaviour] > seen.get(behaviour, 0)}


def test_each_failure_is_recorded_under_its_kind_and_asked_again_and_the_key_is_nowhere(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("WORST_KEY", KEY)
    run = go(hostile.url("by-question"), tmp_path / "a", ENDING, PATIENT_S)
    assert kinds_of(run) == {behaviour: KIND[behaviour] for behaviour in ENDING}
    right = sum(kind == "" for kind in KIND.values()) - 1  # null_content is an empty answer
    metric = run.metric("accuracy")
    assert (metric.n, metric.value) == (ROUNDS * len(ENDING), pytest.approx(right / len(ENDING)))
    again = asked_again(hostile, tmp_path / "a", ENDING, PATIENT_S)
    assert again == {behaviour for behaviour in ENDING if KIND[behaviour] not in ("", "refusal")}
    written = b"".join(path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert b"[redacted]" in written, "the server echoed the key in an error message"


def test_a_request_that_never_ended_is_asked_again(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("WORST_KEY", KEY)
    go(hostile.url("by-question"), tmp_path / "a", ENDLESS, SHORT_S)
    assert asked_again(hostile, tmp_path / "a", ENDLESS, SHORT_S) == set(ENDLESS)
