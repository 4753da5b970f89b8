"""Runs by batches: every sample once, nothing paid twice, whatever the service does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from batch_runs import arithmetic_answer, batch_spec, run_batches
from msgspec import structs
from stubs import ARITHMETIC

from servers.batches import KEY, MODEL, BatchServer, Plan
from snellen.engine import fingerprint
from snellen.engine.batches.log import read_log
from snellen.engine.batches.submit import row_id
from snellen.engine.run_folder import RunFolder
from snellen.errors import BatchError, BudgetError, InterruptedRunError, RunError, UsageError
from snellen.models.api.batches.replies import BatchLimits, learned_limits, queue_is_full
from snellen.models.base import Model
from snellen.models.registry import open_model
from snellen.runs.perform import perform
from snellen.types import Record

N = 90


def number(question: str) -> int:
    return int(question.split()[2])


def records(folder: Path) -> list[Record]:
    return list(RunFolder(folder).records())


def assert_each_once(folder: Path, server: BatchServer, n: int = N) -> None:
    """Every sample has one right answer, was paid once, and every call was as the reference has it."""
    assert server.faults == []
    answers = Counter(record.sample_id for record in records(folder) if record.status == "ok")
    assert set(answers.values()) == {1}
    assert len(answers) == n
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == n
    truth = {f"q{i}": str(i % 7) for i in range(n)}
    assert all(record.response.text == truth[record.sample_id] for record in records(folder) if record.response)


def test_a_run_by_batches_answers_each_sample_once_and_a_finished_run_uploads_nothing(tmp_path):
    plan = Plan(seconds=0.2, answer=arithmetic_answer)
    with BatchServer(plan) as server:
        run = run_batches(server.url, tmp_path / "run", N)
        assert run.meta.state == "complete"
        assert_each_once(tmp_path / "run", server)
        assert server.calls["direct"] <= 1  # the preflight's, which asks nothing
        before = Counter(server.calls)
        run_batches(server.url, tmp_path / "run", N)
        assert server.calls == before


def test_a_batch_whose_answers_were_recorded_before_a_kill_is_taken_up_without_a_request(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with BatchServer(Plan(answer=arithmetic_answer)) as server:
        expected = run_batches(server.url, folder.path, N).meta.environment["batches"]
        lines = folder.batches.read_bytes().splitlines(keepends=True)
        assert b'"taken"' in lines[-1]
        folder.batches.write_bytes(b"".join(lines[:-1]))
        before = Counter(server.calls)
        assert run_batches(server.url, folder.path, N).meta.environment["batches"] == expected
        assert server.calls == before and not read_log(folder.path).open()


def test_rows_that_fail_or_expire_are_asked_again_in_a_further_batch(tmp_path):
    def outcome(question, before):
        kinds = {0: "error500", 1: "expired", 2: "error500"}
        return kinds.get(number(question) % 10, "ok") if before == 0 else "ok"

    with BatchServer(Plan(answer=arithmetic_answer, outcome=outcome)) as server:
        run = run_batches(server.url, tmp_path / "run", N)
        assert run.meta.totals.ok == N
        assert_each_once(tmp_path / "run", server)
        assert [len(batch.rows) for batch in server.batches.values()] == [N, 27]
    assert {record.attempts for record in records(tmp_path / "run")} == {1, 2}


@pytest.mark.parametrize(("outcome", "asked", "kind"), [("error400", 1, "bad_request"), ("error500", 3, "server")])
def test_a_row_that_fails_is_recorded_once_the_service_refuses_it_for_good_or_three_times(
    tmp_path, outcome, asked, kind
):
    plan = Plan(answer=arithmetic_answer, outcome=lambda question, before: outcome if number(question) == 5 else "ok")
    with BatchServer(plan) as server:
        os.environ["OPENAI_API_KEY"] = KEY
        run = perform(batch_spec(server.url, N, max_attempts=3), RunFolder(tmp_path / "run"), benchmark=ARITHMETIC)
        assert server.asked["What is 5 mod 7?"] == asked
    assert (run.meta.totals.ok, run.meta.totals.error) == (N - 1, 1)
    (failed,) = [record for record in records(tmp_path / "run") if record.status == "error"]
    assert (failed.sample_id, failed.error.kind) == ("q5", kind)
    assert asked > 1 or "Invalid image." in failed.error.message


@pytest.mark.parametrize(
    "limits", [{"most_rows": 25}, {"most_bytes": 6000}], ids=["rows by validation", "bytes by 413"]
)
def test_limits_are_learned_from_refusals(tmp_path, limits):
    with BatchServer(Plan(answer=arithmetic_answer, **limits)) as server:  # type: ignore[arg-type]
        run = run_batches(server.url, tmp_path / "run", N)
        assert run.meta.totals.ok == N
        assert_each_once(tmp_path / "run", server)
        assert len(server.batches) > 2
    assert read_log(tmp_path / "run").limits is not None


def test_a_service_that_takes_one_batch_at_a_time_gets_one_at_a_time(tmp_path):
    with BatchServer(Plan(seconds=0.3, answer=arithmetic_answer, most_rows=40, most_open=1)) as server:
        run_batches(server.url, tmp_path / "run", N)
        assert_each_once(tmp_path / "run", server)


@pytest.mark.parametrize("keep_labels", [True, False], ids=["by label", "by the uploaded file"])
def test_a_create_call_without_a_reply_is_looked_for_in_the_services_list(tmp_path, keep_labels):
    plan = Plan(seconds=0.2, answer=arithmetic_answer, silent_creates=(1,), keep_labels=keep_labels)
    with BatchServer(plan) as server:
        run_batches(server.url, tmp_path / "run", N)
        assert_each_once(tmp_path / "run", server)
        assert server.calls["create"] == 1
        assert server.calls["list"] >= 1


def test_a_create_call_that_never_arrived_is_made_again_after_two_looks(tmp_path):
    plan = Plan(
        answer=arithmetic_answer, refuse=lambda call, number: (0, "") if (call, number) == ("create", 1) else None
    )
    with BatchServer(plan) as server:
        run_batches(server.url, tmp_path / "run", N)
        assert_each_once(tmp_path / "run", server)
        assert (server.calls["create"], server.calls["upload"]) == (2, 1)


def test_replies_of_5xx_and_429_are_waited_for(tmp_path):
    def refuse(call, number):
        if call in ("upload", "status", "download", "list") and number <= 2:
            return 503, "overloaded"
        return (429, "slow down") if (call, number) == ("create", 1) else None

    with BatchServer(Plan(answer=arithmetic_answer, refuse=refuse)) as server:
        run_batches(server.url, tmp_path / "run", N)
        assert_each_once(tmp_path / "run", server)


def test_lines_that_are_no_rows_and_rows_that_nobody_asked_are_passed_over(tmp_path):
    extra = (
        b"<html>not json</html>",
        b"",
        b'{"custom_id":"row-of-another","response":{"status_code":200,"body":{"choices":[]}}}',
        b'{"custom_id":7,"response":null,"error":"x"}',
        b'["a list"]',
        b'{"custom_id":"' + b"x" * (17 << 20) + b'"}',
    )
    with BatchServer(Plan(answer=arithmetic_answer, extra_lines=extra)) as server:
        run_batches(server.url, tmp_path / "run", N)
        assert_each_once(tmp_path / "run", server)


def test_a_row_that_the_results_lack_is_asked_again(tmp_path):
    def outcome(question, before):
        return "lost" if number(question) == 3 and not before else "ok"

    with BatchServer(Plan(answer=arithmetic_answer, outcome=outcome)) as server:
        assert run_batches(server.url, tmp_path / "run", N).meta.totals.ok == N
        assert server.asked["What is 3 mod 7?"] == 2


def test_rows_that_make_validation_fail_are_recorded_and_the_others_asked_again(tmp_path):
    def invalid(rows):
        return [(place, "Invalid body") for place, row in enumerate(rows, 1) if number(str(row["question"])) == 4]

    with BatchServer(Plan(answer=arithmetic_answer, invalid_lines=invalid)) as server:
        run = run_batches(server.url, tmp_path / "run", N)
        assert (run.meta.totals.ok, run.meta.totals.error) == (N - 1, 1)
        assert [len(batch.rows) for batch in server.batches.values()] == [N, N - 1]


def test_a_batch_that_fails_for_another_reason_ends_the_run_in_the_services_words(tmp_path):
    plan = Plan(refuse=lambda call, number: (400, "The model test-vlm has no batches") if call == "create" else None)
    with BatchServer(plan) as server, pytest.raises(BatchError, match="The model test-vlm has no batches"):
        run_batches(server.url, tmp_path / "run", N)


def test_the_id_is_on_disk_a_quarter_of_a_second_after_the_reply(tmp_path):
    with BatchServer(Plan(seconds=0.2, answer=arithmetic_answer, most_rows=40)) as server:
        run_batches(server.url, tmp_path / "run", N)
        log = [json.loads(line) for line in (tmp_path / "run/batches.jsonl").read_text().splitlines()]
        written = {line["id"]: line["at"] for line in log if line["event"] == "created"}
        assert written.keys() == server.replied.keys()
        assert max(written[identity] - server.replied[identity] for identity in written) < 0.25


def test_row_ids_fit_every_service_and_are_deterministic():
    identity = row_id("snellen-0123456789-100000", "a sample/with ünusual\ud800 signs" * 50, 12)
    assert identity == row_id("snellen-0123456789-100000", "a sample/with ünusual\ud800 signs" * 50, 12)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", identity)
    assert row_id("a", "q1", 11) != row_id("a", "q11", 1)


def test_an_interrupted_run_leaves_its_batches_running_and_takes_them_up_later(tmp_path):
    with BatchServer(Plan(seconds=3600.0, answer=arithmetic_answer)) as server:
        command = [
            sys.executable,
            str(Path(__file__).with_name("batch_runs.py")),
            server.url,
            str(tmp_path / "run"),
            str(N),
        ]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        process = subprocess.Popen([*command, f"api:{MODEL}"], stderr=subprocess.PIPE, text=True, env=environment)
        _wait_until(lambda: server.calls["status"] > 0)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=600)
        assert process.returncode != 0
        assert "InterruptedRunError" in words
        assert "go on at the service" in words.replace("goes on", "go on")
        assert "snellen batch cancel" in words
        with pytest.raises(UsageError, match="pay for them twice"):
            spec = structs.replace(batch_spec(server.url, N), batch=False)
            perform(spec, RunFolder(tmp_path / "run"), benchmark=ARITHMETIC)
        server.plan.seconds = 0.1
        run_batches(server.url, tmp_path / "run", N)
        assert_each_once(tmp_path / "run", server)
        assert server.calls["create"] == 1


def test_a_batch_that_is_cancelled_meanwhile_ends_the_run_and_the_next_call_asks_its_samples_again(tmp_path):
    with BatchServer(Plan(seconds=2.0, answer=arithmetic_answer)) as server:

        def cancel():
            _wait_until(lambda: server.calls["status"] > 2)
            next(iter(server.batches.values())).cancelled = True

        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(BatchError, match="were cancelled while the run waited"):
            run_batches(server.url, tmp_path / "run", N)
        answered = len(records(tmp_path / "run"))
        assert answered < N
        server.plan.seconds = 0.1
        run_batches(server.url, tmp_path / "run", N)
        assert_each_once(tmp_path / "run", server)
        assert len(list(server.batches.values())[1].rows) == N - answered


def test_a_budget_is_kept_by_batches_of_as_many_rows_as_it_pays_for(tmp_path):
    with BatchServer(Plan(answer=arithmetic_answer)) as server:
        with pytest.raises(BudgetError):
            run_batches(server.url, tmp_path / "run", 300, max_tokens_total=104 * 120)
        assert 115 <= sum(server.paid.values()) <= 121
        run_batches(server.url, tmp_path / "run", 300)
        assert_each_once(tmp_path / "run", server, 300)


def test_repeats_are_rows_of_their_own(tmp_path):
    with BatchServer(Plan(answer=arithmetic_answer)) as server:
        run = run_batches(server.url, tmp_path / "run", 10, repeats=3)
        assert run.meta.totals.ok == 30
        assert {(record.sample_id, record.repeat) for record in records(tmp_path / "run")} == {
            (f"q{i}", repeat) for i in range(10) for repeat in range(3)
        }


def test_no_key_is_in_any_file_of_the_run(tmp_path):
    plan = Plan(answer=lambda question: f"the key is {KEY}")
    with BatchServer(plan) as server:
        run_batches(server.url, tmp_path / "run", 5)
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_the_record_names_the_batch_and_the_cost_is_that_of_a_batch(tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text(f'["{MODEL}"]\ninput = 10.0\noutput = 20.0\nbatch = 0.5\n')
    with BatchServer(Plan(answer=arithmetic_answer)) as server:
        os.environ["OPENAI_API_KEY"] = KEY
        spec = batch_spec(server.url, 4)
        spec = structs.replace(spec, options=structs.replace(spec.options, prices=str(prices)))
        run = perform(spec, RunFolder(tmp_path / "run"), benchmark=ARITHMETIC)
    (first, *_) = records(tmp_path / "run")
    assert first.response.batch == "batch_1"
    assert first.response.usage.cost == pytest.approx(0.5 * (100 * 10 + 4 * 20) / 1e6)
    assert run.meta.totals.cost == pytest.approx(4 * 0.5 * (100 * 10 + 4 * 20) / 1e6)


def test_the_fingerprint_is_that_of_the_run_without_batches(tmp_path):
    spec = batch_spec("http://127.0.0.1:1/v1", 5)
    model = open_model(spec.model, spec.options)
    alone = structs.replace(spec, batch=False, poll_s=None)
    assert fingerprint.identity(spec, ARITHMETIC, model) == fingerprint.identity(alone, ARITHMETIC, model)


@pytest.mark.parametrize("model", ["embedded", "replay:x.jsonl", "local:tiny"])
def test_models_without_a_batch_service_are_refused_with_the_reason(tmp_path, model):
    class Plain(Model):
        name = model

    spec = batch_spec("http://127.0.0.1:1/v1", 5)
    with pytest.raises(UsageError, match="--batch sends the questions to a service"):
        perform(spec, RunFolder(tmp_path / "run"), benchmark=ARITHMETIC, model=Plain())


def test_a_log_of_another_service_is_refused(tmp_path):
    with BatchServer(Plan(seconds=30.0)) as first, BatchServer(Plan()) as second:
        stopped = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        stopped.start()
        with pytest.raises(InterruptedRunError):
            run_batches(first.url, tmp_path / "run", 5)
        meta = tmp_path / "run/run_meta.json"
        meta.write_bytes(meta.read_bytes().replace(first.url.encode(), second.url.encode()))
        with pytest.raises(RunError, match="lie at"):
            run_batches(second.url, tmp_path / "run", 5)


LIMITS = BatchLimits(50_000, 200_000_000, 0)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("This batch exceeds the maximum of 500 requests.", BatchLimits(500, 200_000_000)),
        ("The file has 2,000 lines; at most 1,000 lines are accepted", BatchLimits(1000, 200_000_000)),
        ("File is too large: 90 MB, the limit is 50 MB", BatchLimits(50_000, 50_000_000)),
        ("HTTP 413: Request Entity Too Large", BatchLimits(1000, 50_000_000)),
        ("Maximum file size is 1048576 bytes", BatchLimits(50_000, 1_048_576)),
        ("The model `x` does not exist", None),
    ],
)
def test_limits_are_read_from_the_words_of_a_refusal(message, expected):
    assert learned_limits(message, rows=2000, size=100_000_000, limits=LIMITS) == expected


def test_a_full_queue_is_told_from_a_batch_that_is_too_large():
    assert queue_is_full("Enqueued token limit reached for gpt-6 in organization org-1.")
    assert not queue_is_full("This batch exceeds the maximum of 500 requests.")


def test_a_run_killed_at_random_moments_pays_for_no_row_twice(tmp_path):
    script = Path(__file__).parents[2] / "bench" / "batch_kills.py"
    command = [sys.executable, str(script), "4", "7", "--questions", "60", "--services", "openai"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert sum(json.loads(done.stdout.splitlines()[-1])["kills"].values()) == 4


def _wait_until(condition, seconds: float = 600.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("api", lambda body: body["response_format"]["json_schema"]["schema"]),
        ("anthropic", lambda body: body["output_config"]["format"]["schema"]),
        ("gemini", lambda body: body["generationConfig"]["responseJsonSchema"]),
    ],
)
def test_the_rows_of_a_batch_carry_the_schema_of_their_question(tmp_path, kind, place):
    plan = Plan(seconds=0.2, answer=lambda question: json.dumps({"answer": arithmetic_answer(question)}))
    with BatchServer(plan) as server:
        address = server.address("gemini") if kind == "gemini" else server.url
        run = run_batches(address, tmp_path / "run", 5, f"{kind}:{MODEL}", schema="auto")
        bodies = [row["body"] for batch in server.batches.values() for row in batch.rows]
        assert server.faults == []
    assert len(bodies) == 5 and run.meta.totals.ok == 5
    assert all(place(body)["required"] == ["answer"] for body in bodies)
