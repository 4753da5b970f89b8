"""Whole runs against a real server that refuses, goes away, comes back or is too slow: no sample is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from simulated_limits import Bucket, FixedWindow, Slots
from stubs import ARITHMETIC, Calculator

from servers.fast import MODEL
from servers.limited import (
    LimitedServer,
    openai_reset,
    refuses_for,
    retry_after_date,
    retry_after_seconds,
)
from snellen import rerun
from snellen.benchmarks.base import Data
from snellen.engine.progress import Progress
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import (
    ModelTimeoutError,
    NetworkError,
    NoCreditError,
    RateLimitError,
    ServerError,
    TooManyFailuresError,
    UsageError,
)
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import Run
from stopwatch import Stopwatch, seconds_until_end

ONE_ATTEMPT = Backoff(attempts=1, base_s=0.05, cap_s=1.0, patience_s=60.0)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def go(url: str, out: Path, n: int, *, backoff: Backoff = ONE_ATTEMPT, display: Any = None, **options: Any) -> Run:
    settings = ModelOptions(base_url=url, **{"concurrency": 16, **options})
    spec = RunSpec(benchmark="arithmetic", model=f"api:{MODEL}", options=settings, data=Data(options={"n": str(n)}))
    return perform(spec, RunFolder(out), benchmark=ARITHMETIC, backoff=backoff, display=display)


def ask(model: Calculator, out: Path, n: int, backoff: Backoff = ONE_ATTEMPT, **spec: Any) -> Run:
    options = ModelOptions(concurrency=spec.pop("concurrency", 4))
    wanted = RunSpec(
        benchmark="arithmetic", model="calculator", options=options, data=Data(options={"n": str(n)}), **spec
    )
    return perform(wanted, RunFolder(out), benchmark=ARITHMETIC, model=model, backoff=backoff)


def test_a_server_that_is_down_for_a_while_loses_nothing_with_a_single_attempt(tmp_path):
    with LimitedServer(latency_s=0.01) as server:
        server.go_down(1.5, after=60)
        run = go(server.url, tmp_path / "a", 200)
    assert run.meta.totals.ok == 200 and run.meta.state == "complete"
    assert server.received < 240, "nobody hammers a port that is closed"


@pytest.mark.parametrize(
    ("headers", "status"), [(retry_after_seconds, 429), (retry_after_date, 503), (openai_reset, 429)]
)
def test_a_time_of_refusals_loses_nothing_and_is_waited_for_and_told_while_it_lasts(tmp_path, headers, status):
    lines = []
    screen = SimpleNamespace(update=lambda progress: lines.append(progress.line()))
    screen.close = screen.update
    with LimitedServer(refuses_for(2.5, after=40), headers=headers, latency_s=0.01, status=status) as server:
        run = go(server.url, tmp_path / "a", 120, display=screen)
    assert run.meta.totals.ok == 120
    assert server.refused <= 30, "those that were in flight, and a few probes"
    assert any("waiting" in line and "for the server's rate limit" in line for line in lines) or status == 503
    assert "waiting" not in lines[-1]


@pytest.mark.parametrize(
    "limit",
    [lambda: Bucket(60, 20), lambda: FixedWindow(60, 1), lambda: Slots(3, 0.05)],
    ids=["bucket", "window", "slots"],
)
def test_a_limit_of_any_shape_loses_nothing_and_refuses_little(tmp_path, limit):
    with LimitedServer(limit().take, latency_s=0.05) as server:
        run = go(server.url, tmp_path / "a", 150, concurrency=32)
    assert run.meta.totals.ok == 150
    assert server.refused < 60, "before, more than every second request was refused"
    assert max(server.answered.values()) == 1


def test_waits_use_up_no_attempt_and_failures_of_the_request_do(tmp_path):
    model = Calculator(
        fail={
            1: [RateLimitError("429")] * 6,
            2: [NetworkError("refused", unavailable=True)] * 3,
            3: [ServerError("500")] * 3,
            4: [ServerError("503", unavailable=True), ServerError("500")],
        }
    )
    run = ask(model, tmp_path / "a", 6, Backoff(attempts=2, base_s=0.001, cap_s=0.01))
    records = {record.sample_id: record for record in run.folder.records()}
    assert {name: record.status for name, record in records.items()} == {f"q{i}": "ok" for i in range(6)} | {
        "q3": "error"
    }
    assert (records["q1"].attempts, records["q4"].attempts) == (7, 3)


def test_what_failed_is_asked_once_more_at_the_end_and_counted_as_answered(tmp_path):
    shown: list[Progress] = []

    class Screen:
        def update(self, progress): ...

        def close(self, progress):
            shown.append(progress)

    model = Calculator(fail={7: [ModelTimeoutError("slow")] * 2, 9: [ServerError("500")] * 9})
    spec = RunSpec(
        benchmark="arithmetic", model="calculator", options=ModelOptions(concurrency=4), data=Data(options={"n": "30"})
    )
    run = perform(
        spec, RunFolder(tmp_path / "a"), benchmark=ARITHMETIC, model=model, display=Screen(),
        backoff=Backoff(attempts=2, base_s=0.001),
    )  # fmt: skip
    assert (run.meta.totals.ok, run.meta.totals.error, run.meta.totals.timeout) == (29, 1, 0)
    assert model.asked[-2:] in ([7, 9], [9, 7]), "after all others, and once"
    assert model.asked.count(9) == 3
    lines = [record for record in run.folder.records() if record.sample_id in ("q7", "q9")]
    assert {record.sample_id: (record.status, record.attempts) for record in lines} == {
        "q7": ("ok", 3),
        "q9": ("error", 2),
    }
    progress = shown[0]
    assert progress.scored == 30 and f"score {run.metric('accuracy').value:.3f}" in progress.line()
    assert (progress.done, progress.status, progress.failures) == (
        30,
        {"ok": 29, "error": 1, "timeout": 0},
        {"server": 1},
    )


@pytest.mark.parametrize("error", [ServerError("500"), NoCreditError("402")])
def test_a_single_attempt_is_a_single_request_and_one_without_credit_among_others_ends_nothing(tmp_path, error):
    model = Calculator(fail={number: [error] for number in (5, 20, 40)})
    run = ask(model, tmp_path / "a", 60)
    assert (run.meta.totals.ok, run.meta.totals.error) == (57, 3)
    assert model.asked.count(5) == 1


def test_a_server_that_takes_nothing_ends_the_run_when_patience_is_over(tmp_path):
    with LimitedServer(refuses_for(3600.0), latency_s=0.01) as server:
        watch = Stopwatch()
        with pytest.raises(
            TooManyFailuresError, match=r"took no request for 3 s \(--patience\).*rate_limit: HTTP 429"
        ) as caught:
            go(server.url, tmp_path / "a", 5000, backoff=structs.replace(ONE_ATTEMPT, patience_s=3.0))
        assert watch.seconds < 15
    assert "--patience" in caught.value.hint
    assert server.received < 60
    records = list(RunFolder(tmp_path / "a").records())
    assert 0 < len(records) <= 16 and all(record.status == "error" for record in records)


def test_a_sample_that_is_always_refused_keeps_nobody_waiting(tmp_path):
    class Poisoned(Calculator):
        async def answer(self, prompt):
            part = prompt.parts[0]
            if part.text.split()[2] == "3":
                raise RateLimitError("Request too large for this limit")
            return await super().answer(prompt)

    watch = Stopwatch()
    run = ask(Poisoned(delay_s=0.01), tmp_path / "a", 300, structs.replace(ONE_ATTEMPT, patience_s=2.0))
    assert watch.seconds < 20
    assert (run.meta.totals.ok, run.meta.totals.error) == (299, 1)
    failure = next(record.error for record in run.folder.records() if record.error is not None)
    assert "Request too large for this limit (still failing after 2 s of --patience)" in failure.message


def test_an_account_without_credit_ends_the_run_at_once_and_says_so(tmp_path):
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    with LimitedServer(refuses_for(3600.0, after=30), latency_s=0.01, body=body) as server:
        watch = Stopwatch()
        with pytest.raises(TooManyFailuresError, match=r"no credit or quota left.*You exceeded your current quota"):
            go(server.url, tmp_path / "a", 5000, backoff=Backoff())
        assert watch.seconds < 10
    assert server.received < 30 + 3 + 2 * 16
    assert sum(record.status == "ok" for record in RunFolder(tmp_path / "a").records()) == 30


CLIENT = """
import sys
sys.path[:0] = sys.argv[1].split(":")
from stubs import ARITHMETIC
import snellen
from snellen.errors import SnellenError
try:
    snellen.evaluate(ARITHMETIC, "api:stub-vlm", out=sys.argv[2], base_url=sys.argv[3], concurrency=4)
except SnellenError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_wait_for_a_rate_limit_is_ended_by_a_signal(tmp_path, number):
    def hour(wait_s):
        return {"Retry-After": "3600"}

    with LimitedServer(refuses_for(3600.0, after=20), headers=hour, latency_s=0.01) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(Path(__file__).parent), str(tmp_path / "a"), server.url],
            stdout=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 600
        while server.refused == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(number)
        assert seconds_until_end(process) < 30
        output = process.stdout.read()
    assert process.returncode == 128 + number
    assert "Run the same command again to resume" in output
    assert sum(record.status == "ok" for record in RunFolder(tmp_path / "a").records()) == 20
    with LimitedServer(latency_s=0.0) as server:
        run = rerun_at(tmp_path / "a", server.url)
    assert run.meta.totals.ok == 100


def rerun_at(folder, url):
    """Resume a run of the subprocess at another port; the address is part of the fingerprint, so both are changed."""
    meta = RunFolder(folder).meta()
    options = structs.replace(meta.spec.options, base_url=url)
    identity = {**meta.identity, "model": {**meta.identity["model"], "base_url": url}}
    spec = structs.replace(meta.spec, options=options)
    RunFolder(folder).write_meta(structs.replace(meta, spec=spec, identity=identity))
    return rerun(folder, benchmark=ARITHMETIC, base_url=url)


def test_the_progress_line_says_what_is_waited_for():
    progress = Progress("run", 100, 0, 4)
    progress.waiting_s, progress.waiting_for = 11.2, "the server's rate limit"
    assert "waiting 12 s for the server's rate limit" in progress.line()
    assert progress.event()["waiting_s"] == 11.2
    progress.waiting_s, progress.paced_per_s = None, 19.84
    assert "paced to 19.8/s by the server's rate limit" in progress.line()
    assert progress.event()["waiting_for"] is None


def test_rpm_spaces_requests_and_changes_neither_fingerprint_nor_answers(tmp_path):
    with LimitedServer(latency_s=0.01) as server:
        free = go(server.url, tmp_path / "a", 25)
        server.arrivals.clear()
        paced = go(server.url, tmp_path / "b", 25, rpm=600.0)
    gaps = [after - before for before, after in zip(server.arrivals, server.arrivals[1:], strict=False)]
    assert server.arrivals[-1] - server.arrivals[0] >= 2.3, "24 gaps of 0.1 s, less what a timer is late by"
    assert len(gaps) == 24
    assert free.meta.fingerprint == paced.meta.fingerprint
    replies = [
        sorted(
            (record.sample_id, record.response.text) for record in run.folder.records() if record.response is not None
        )
        for run in (free, paced)
    ]
    assert replies[0] == replies[1]


def test_a_run_may_go_on_with_another_pace(tmp_path):
    with LimitedServer(latency_s=0.0) as server:
        go(server.url, tmp_path / "a", 20, rpm=6000.0, tpm=1e6, patience_s=10.0)
        run = rerun(
            tmp_path / "a",
            out=tmp_path / "b",
            benchmark=ARITHMETIC,
            base_url=server.url,
            rpm=3000.0,
            tpm=2e6,
            patience_s=20.0,
        )
    options = run.meta.spec.options
    assert (options.rpm, options.tpm, options.patience_s) == (3000.0, 2e6, 20.0)


@pytest.mark.parametrize("options", [{"rpm": float("nan")}, {"tpm": 0.0}, {"patience_s": float("inf")}, {"rpm": -1.0}])
def test_a_pace_that_cannot_be_kept_is_refused(tmp_path, options):
    with pytest.raises(UsageError, match="must be a number of at least"):
        go("http://127.0.0.1:9/v1", tmp_path / "a", 5, **options)
    assert not (tmp_path / "a" / "run_meta.json").exists()


def test_an_overloaded_server_is_given_less_to_do(tmp_path):
    """4 at a time, 0.2 s each: 32 at once are queued for 1.6 s, which is longer than the client waits."""
    with LimitedServer(latency_s=0.2, slots=4) as server:
        run = go(
            server.url,
            tmp_path / "a",
            150,
            backoff=structs.replace(ONE_ATTEMPT, attempts=6),
            concurrency=32,
            timeout_s=1.0,
        )
    assert run.meta.totals.ok == 150
    twice = sum(server.answered.values()) - len(server.answered)
    assert twice < 75, "before, the server answered most of them twice or more often"
