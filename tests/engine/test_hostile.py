"""A whole run against a server that misbehaves in every way: nothing hangs, nothing is lost, no key gets out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.hostile import KIND, HostileServer
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import retry
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.models.base import ModelOptions
from snellen.runs.evaluate import perform
from snellen.runs.run import Run
from snellen.scoring.statistics import mean
from snellen.types import Prompt, Sample, Score, Text
from stopwatch import Stopwatch

KEY = "sk-test-0123456789abcdefghijklmnop"
ROUNDS = 1


def samples(data: Data) -> Iterator[Sample]:
    for turn in range(ROUNDS):
        for behaviour in KIND:
            yield Sample(f"{behaviour}/{turn}", Prompt((Text(f"Which letter? [[{behaviour}]]"),)), "A", "choice")


WORST = Benchmark(
    name="worst",
    version="1",
    samples=samples,
    score={"strict": lambda sample, reply: Score(float("A" in reply), reply, "correct" if "A" in reply else "wrong")},
    summarize=lambda scores, profile: [mean("accuracy", scores)],
    profiles={"strict": "the reply has an A"},
    size=lambda data: ROUNDS * len(KIND),
)


@pytest.fixture(autouse=True)
def _hanging_requests_are_not_a_dead_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six requests that hang look like a dead server when the patience is this small; tests of rate limits see that stop."""
    monkeypatch.setattr(retry, "SILENT_S", 60.0)


def go(url: str, out: Path, timeout_s: float) -> Run:
    options = ModelOptions(base_url=url, key_env="WORST_KEY", timeout_s=timeout_s, concurrency=6)
    spec = RunSpec(benchmark="worst", model="api:stub-vlm", options=options)
    return perform(spec, RunFolder(out), benchmark=WORST, backoff=Backoff(attempts=2, base_s=0.01, patience_s=0.05))


def test_a_run_against_a_hostile_server_ends_in_time_with_each_failure_under_its_kind(
    hostile: HostileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORST_KEY", KEY)
    watch = Stopwatch()
    run = go(hostile.url("by-question"), tmp_path / "a", timeout_s=3.0)
    assert watch.seconds < 30
    kinds = {r.sample_id: "" if r.error is None else r.error.kind for r in run.folder.records()}
    assert kinds == {f"{behaviour}/{turn}": kind for behaviour, kind in KIND.items() for turn in range(ROUNDS)}
    right = sum(kind == "" for kind in KIND.values()) - 1  # null_content is an empty answer
    metric = run.metric("accuracy")
    assert (metric.n, metric.value) == (ROUNDS * len(KIND), pytest.approx(right / len(KIND)))
    written = b"".join(path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert b"[redacted]" in written, "the server echoed the key in an error message"


def test_what_failed_is_asked_again_and_what_was_answered_is_not(
    hostile: HostileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORST_KEY", KEY)
    go(hostile.url("by-question"), tmp_path / "a", timeout_s=3.0)
    seen = dict(hostile.seen)
    go(hostile.url("by-question"), tmp_path / "a", timeout_s=3.0)
    again = {behaviour for behaviour in KIND if hostile.seen[behaviour] > seen[behaviour]}
    assert again == {behaviour for behaviour, kind in KIND.items() if kind not in ("", "refusal")}
