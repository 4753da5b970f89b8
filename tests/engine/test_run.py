"""The run: resume, refuse, retry, stop."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from stubs import ARITHMETIC, Calculator

from snellen import evaluate, load_run, rerun
from snellen.benchmarks.base import Data
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import (
    AuthError,
    BudgetError,
    FingerprintError,
    InputError,
    ModelTimeoutError,
    PreflightError,
    RateLimitError,
    RefusalError,
    RunError,
    RunLockedError,
    ServerError,
    StorageError,
    TooManyFailuresError,
    UsageError,
)
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.types import Generation, Prompt, Response
from stopwatch import seconds_until_end

QUICK = Backoff(attempts=3, base_s=0.001)


def go(model: Any, out: Path, n: int = 50, backoff: Backoff = QUICK, **spec: Any) -> Run:
    options = ModelOptions(concurrency=spec.pop("concurrency", 8), generation=spec.pop("generation", Generation()))
    data = Data(options={"n": str(n)})
    wanted = RunSpec(benchmark="arithmetic", model=model.name, options=options, data=data, **spec)
    return perform(wanted, RunFolder(out), benchmark=ARITHMETIC, model=model, backoff=backoff)


def statuses(run: Run) -> Counter[str]:
    return Counter(record.status for record in run.folder.records())


def test_a_complete_run_is_not_asked_again(tmp_path):
    go(Calculator(), tmp_path / "a")
    before = {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir() if p.is_file()}
    again = Calculator()
    run = go(again, tmp_path / "a")
    assert again.asked == []
    assert run.meta.state == "complete"
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir() if p.is_file()} == before


def test_failed_samples_stay_in_the_denominator_and_are_asked_again_on_resuming(tmp_path):
    model = Calculator(fail={5: [ServerError("500")] * 9, 7: [ModelTimeoutError("slow")] * 9})
    run = go(model, tmp_path / "a")
    assert statuses(run) == {"ok": 48, "error": 1, "timeout": 1}
    metric = run.metric("accuracy")
    assert (metric.n, metric.value) == (50, 43 / 50)
    second = Calculator()
    run = go(second, tmp_path / "a")
    assert sorted(second.asked) == [5, 7]
    assert run.metric("accuracy").value == 45 / 50
    assert run.meta.totals.ok == 50 and run.meta.totals.error == 0


def test_an_error_that_passes_is_retried_and_counted(tmp_path):
    run = go(Calculator(fail={3: [ServerError("500"), RateLimitError("429", retry_after_s=0.001)]}), tmp_path / "a")
    record = next(r for r in run.folder.records() if r.sample_id == "q3")
    assert (record.status, record.attempts) == ("ok", 3)


def test_a_refusal_is_an_outcome_and_not_asked_again(tmp_path):
    go(Calculator(fail={4: [RefusalError("no")]}), tmp_path / "a")
    second = Calculator()
    run = go(second, tmp_path / "a")
    assert second.asked == []
    rows = {row["sample_id"]: row for row in run.scores().to_pylist()}
    assert (rows["q4"]["verdict"], rows["q4"]["reason"], rows["q4"]["value"]) == ("invalid", "refused", 0.0)


def test_a_model_that_raises_anything_costs_one_sample(tmp_path):
    run = go(Calculator(fail={6: [ZeroDivisionError("oops")]}), tmp_path / "a")
    record = next(r for r in run.folder.records() if r.sample_id == "q6")
    assert record.status == "error" and record.error is not None
    what, _, place = record.error.message.partition(" at ")
    assert (record.error.kind, what) == ("model", "ZeroDivisionError: oops") and "engine/stubs.py:" in place


def test_half_a_surrogate_pair_in_a_reply_or_an_error_is_recorded_and_does_not_end_the_run(tmp_path):
    class Cut(Calculator):
        async def answer(self, prompt):
            return structs.replace(await super().answer(prompt), text="3 \ud83d", reasoning="\udcff")

    run = go(Cut(fail={6: [InputError("no picture /data/caf\udce9.png")]}), tmp_path / "a", n=10)
    records = {record.sample_id: record for record in run.folder.records()}
    response, error = records["q3"].response, records["q6"].error
    assert response is not None and (response.text, response.reasoning) == ("3 \\ud83d", "\\udcff")
    assert error is not None and error.message == "no picture /data/caf\\udce9.png"
    assert run.meta.state == "complete"


def test_other_settings_are_refused_line_by_line_with_two_ways_out(tmp_path):
    go(Calculator(), tmp_path / "a", generation=Generation(temperature=0.0))
    with pytest.raises(FingerprintError) as caught:
        go(Calculator(), tmp_path / "a", n=60, generation=Generation(temperature=0.7))
    text = str(caught.value)
    assert "generation.temperature" in text and "0.0  ->  0.7" in text
    assert "data_options.n" in text and "50  ->  60" in text
    assert "snellen rerun" in text and "--out" in text


def test_answers_without_a_meta_are_nobodys_and_are_left_untouched(tmp_path):
    go(Calculator(), tmp_path / "a")
    (tmp_path / "a" / "run_meta.json").unlink()
    results = tmp_path / "a" / "results.jsonl"
    results.write_bytes(before := results.read_bytes() + b'{"without": "a line end"}')
    with pytest.raises(RunError, match=r"without a run_meta\.json"):
        go(Calculator(), tmp_path / "a")
    assert results.read_bytes() == before


def test_a_smoke_test_never_passes_for_a_full_run(tmp_path):
    run = go(Calculator(), tmp_path / "a", limit=10)
    assert run.metric("accuracy").coverage == pytest.approx(0.2)
    assert not run.meta.coverage.full
    rest = Calculator()
    run = go(rest, tmp_path / "a")
    assert len(rest.asked) == 40
    assert run.meta.coverage.full and run.metric("accuracy").coverage == 1.0
    go(narrow := Calculator(), tmp_path / "a", limit=5)
    assert narrow.asked == [] and load_run(tmp_path / "a").meta.coverage.full


def test_an_unfinished_run_asked_with_a_smaller_limit_is_still_unfinished(tmp_path):
    with pytest.raises(BudgetError):
        go(Calculator(), tmp_path / "a", max_tokens_total=220)
    for limit in (5, 30):  # all of them answered; some still to ask
        run = go(Calculator(), tmp_path / "a", limit=limit)
        assert run.meta.state == "partial" and any("incomplete" in line for line in run.notes())
    assert rerun(tmp_path / "a", benchmark=ARITHMETIC, model=Calculator()).meta.totals.ok == 50
    assert go(Calculator(), tmp_path / "a", limit=5).meta.state == "complete"


def test_a_benchmark_without_questions_is_a_run_that_can_be_opened_again(tmp_path):
    for _ in range(2):
        run = go(Calculator(), tmp_path / "a", n=0)
        assert run.meta.state == "complete" and run.metric("accuracy").n == 0


def test_repeats_ask_each_question_so_often_with_other_seeds(tmp_path):
    class Seeded(Calculator):
        async def answer(self, prompt):
            seeds.append(None if prompt.generation is None else prompt.generation.seed)
            return await super().answer(prompt)

    seeds = []
    for _ in range(2):  # the second call asks nothing
        run = go(Seeded(), tmp_path / "a", n=20, repeats=3, generation=Generation(seed=5))
        assert Counter(seeds) == {None: 20, 6: 20, 7: 20}
    assert Counter((r.sample_id, r.repeat) for r in run.folder.records()).most_common(1)[0][1] == 1
    assert run.metric("accuracy").n == 60
    assert run.metric("variance/within_questions").value == 0.0
    assert run.metric("variance/between_questions").value == pytest.approx(18 * 0.1**2 / 19 + 2 * 0.9**2 / 19)


def test_repeats_of_a_model_that_draws_by_a_seed_of_its_own_differ(tmp_path):
    class Drawing(Calculator):
        seed = 40

        async def answer(self, prompt):
            drawn = self.seed if prompt.generation is None else prompt.generation.seed
            return structs.replace(await super().answer(prompt), text=str(drawn))

    def seeds(out: str) -> dict[tuple[str, int], str]:
        run = go(Drawing(), tmp_path / out, n=5, repeats=3)
        return {(r.sample_id, r.repeat): r.response.text for r in run.folder.records() if r.response is not None}

    drawn = seeds("a")
    assert len(drawn) == len(set(drawn.values())) == 15, "each sample and repeat has a seed of its own"
    assert seeds("b") == drawn


def test_a_difference_at_the_end_of_a_long_setting_is_shown(tmp_path):
    class Long(Calculator):
        def __init__(self, end):
            super().__init__()
            self.end = end

        def identity(self):
            return {"weights": "sha256:" + "a" * 64 + self.end}

    go(Long(" revision 1"), tmp_path / "a")
    with pytest.raises(FingerprintError, match=r"\.\.\.a+ revision 1  ->  \.\.\.a+ revision 2\n"):
        go(Long(" revision 2"), tmp_path / "a")


def test_a_second_process_on_the_same_run_is_refused(tmp_path):
    refused = threading.Event()

    class Slow(Calculator):
        async def answer(self, prompt):
            response = await super().answer(prompt)
            await asyncio.to_thread(refused.wait)
            return response

    slow = Slow()
    thread = threading.Thread(target=go, args=(slow, tmp_path / "a", 8))
    thread.start()
    try:
        while not slow.asked:
            time.sleep(0.005)
        with pytest.raises(RunLockedError, match=f"process {os.getpid()}"):
            go(Calculator(), tmp_path / "a", 8)
    finally:
        refused.set()
        thread.join()


def test_a_failing_preflight_leaves_no_run(tmp_path):
    class Locked(Calculator):
        async def preflight(self):
            raise PreflightError("bad key")

    with pytest.raises(PreflightError):
        go(Locked(), tmp_path / "runs/a")
    assert [*tmp_path.iterdir()] == []
    (own := tmp_path / "own").mkdir()
    with pytest.raises(PreflightError):
        go(Locked(), own)
    assert [*tmp_path.iterdir()] == [own] and [*own.iterdir()] == []
    with pytest.raises(BudgetError):
        go(Calculator(), tmp_path / "b", max_tokens_total=110)
    before = load_run(tmp_path / "b").meta
    with pytest.raises(PreflightError):
        go(Locked(), tmp_path / "b")
    assert load_run(tmp_path / "b").meta == before


def test_a_server_on_which_everything_fails_ends_the_run(tmp_path):
    dead = Calculator(fail={i: [AuthError("401")] for i in range(5000)})
    with pytest.raises(TooManyFailuresError, match="auth"):
        go(dead, tmp_path / "a", n=5000)
    assert len(dead.asked) < 150
    assert go(Calculator(), tmp_path / "a", n=5000).meta.totals.ok == 5000


def test_a_budget_ends_the_run_and_asks_nothing_more_until_a_larger_one_goes_on(tmp_path):
    with pytest.raises(BudgetError, match="used up"):
        go(Calculator(), tmp_path / "a", max_tokens_total=110)
    run = load_run(tmp_path / "a")
    assert 10 <= run.meta.totals.ok <= 20 and run.meta.state == "partial"
    with pytest.raises(BudgetError, match="used up"):
        go(again := Calculator(), tmp_path / "a", max_tokens_total=110)
    assert again.asked == [] and load_run(tmp_path / "a").meta.state == "partial"
    assert go(Calculator(), tmp_path / "a", max_tokens_total=10_000).meta.totals.ok == 50


def test_a_budget_that_the_last_answer_uses_up_has_stopped_nothing(tmp_path):
    assert go(Calculator(), tmp_path / "a", max_tokens_total=550).meta.state == "complete"


def test_a_cost_budget_without_a_price_is_refused_rather_than_ignored(tmp_path):
    with pytest.raises(BudgetError, match="no price"):
        go(Calculator(), tmp_path / "a", max_cost=1.0)


def test_rerun_goes_on_with_a_run_or_repeats_it_elsewhere_from_its_meta_alone(tmp_path):
    first = go(Calculator(fail={3: [ServerError("500")] * 9}), tmp_path / "a", n=20, limit=10)
    model = Calculator()
    assert rerun(tmp_path / "a", benchmark=ARITHMETIC, model=model).meta.totals.ok == 10
    assert model.asked == [3]
    again = rerun(tmp_path / "a", out=tmp_path / "b", benchmark=ARITHMETIC, model=Calculator())
    assert again.meta.fingerprint == first.meta.fingerprint
    assert again.meta.totals.ok == 10 and again.meta.coverage == first.meta.coverage
    with pytest.raises(RunError, match="no run_meta"):
        rerun(tmp_path / "nothing")


def test_an_unknown_benchmark_option_is_named(tmp_path):
    with pytest.raises(UsageError, match="colour"):
        evaluate(ARITHMETIC, Calculator(), out=tmp_path / "a", benchmark_options={"colour": "red"})


def test_evaluate_works_inside_a_running_loop(tmp_path):
    async def notebook():
        return evaluate(ARITHMETIC, Calculator(), out=tmp_path / "a", benchmark_options={"n": "20"})

    assert asyncio.run(notebook()).metric("accuracy").n == 20


def test_an_output_folder_that_cannot_be_written_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot write"):
        go(Calculator(), tmp_path / "file" / "a")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a small disk needs root")
def test_a_full_disk_ends_the_run_with_a_whole_journal_and_room_lets_it_go_on(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine does not allow a mount")
    try:
        (disk / "ballast").write_bytes(b"x" * (20 << 20))
        with pytest.raises(PreflightError, match="MB are free"):
            go(Calculator(), disk / "c")
        (disk / "ballast").unlink()
        with pytest.raises(StorageError, match="No space left"):
            go(Filler(disk), disk / "b", n=5_000)
        kept = [record.sample_id for record in RunFolder(disk / "b").records()]
        assert len(kept) == len(set(kept)) > 0
        assert (disk / "b" / "results.jsonl").read_bytes().endswith(b"\n")
        (disk / "ballast").unlink()
        run = go(Calculator(), disk / "b", n=5_000)
        assert run.meta.totals.ok == 5_000
    finally:
        subprocess.run(["umount", str(disk)], check=True)


class Filler(Calculator):
    """Fills the disk while the run goes on."""

    def __init__(self, disk: Path) -> None:
        super().__init__()
        self._disk = disk

    async def answer(self, prompt: Prompt) -> Response:
        if len(self.asked) == 500:
            with (self._disk / "ballast").open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
        return await super().answer(prompt)


STOPPED = """
import sys
sys.path.insert(0, sys.argv[1])
from stubs import ARITHMETIC, Calculator
import snellen
from snellen.engine.stopping import Stop
from snellen.errors import SnellenError

class Asked(Calculator):
    async def answer(self, prompt):
        print("asked", flush=True)
        return await super().answer(prompt)

interrupt = Stop.interrupt

def reported(stop):
    interrupt(stop)
    print("stopping", flush=True)

Stop.interrupt = reported
try:
    snellen.evaluate(ARITHMETIC, Asked(delay_s=float(sys.argv[3])), out=sys.argv[2], concurrency=4)
except SnellenError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize(("signals", "delay_s"), [(1, 0.5), (2, 600.0)])
def test_ctrl_c_once_drains_and_twice_stops(tmp_path, signals, delay_s):
    out = tmp_path / "a"
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(Path(__file__).parent), str(out), str(delay_s)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(4):  # all that may be in flight is
        assert process.stdout.readline() == "asked\n"
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        for line in process.stdout:  # two signals at once are one
            if line == "stopping\n":
                break
    took_s = seconds_until_end(process)
    output = process.stdout.read()
    assert process.returncode == 130
    assert "Run the same command again to resume" in output
    answered = len(list(RunFolder(out).records()))
    if signals == 1:
        assert answered % 4 == 0 and answered > 0, "what was in flight was answered and recorded"
    else:
        assert answered == 0 and took_s < 10


def test_a_rate_limited_server_sees_less_concurrency_and_every_sample_is_answered(tmp_path):
    class Busy(Calculator):
        async def answer(self, prompt):
            if self._now >= 4:
                raise RateLimitError("429", retry_after_s=0.01)
            return await super().answer(prompt)

    model = Busy(delay_s=0.005)
    run = go(model, tmp_path / "a", n=120, backoff=Backoff(attempts=50, base_s=0.005), concurrency=32)
    assert run.meta.totals.ok == 120
    assert model.most <= 4


def test_the_same_answers_in_another_order_give_the_same_summary(tmp_path):
    class Jittery(Calculator):
        async def answer(self, prompt):
            await asyncio.sleep(len(self.asked) * 5 % 7 / 1000)
            return await super().answer(prompt)

    go(Calculator(), tmp_path / "a", n=60)
    go(Jittery(), tmp_path / "b", n=60)
    assert [r.sample_id for r in RunFolder(tmp_path / "a").records()] != [
        r.sample_id for r in RunFolder(tmp_path / "b").records()
    ]
    assert RunFolder(tmp_path / "a").summary.read_bytes() == RunFolder(tmp_path / "b").summary.read_bytes()
