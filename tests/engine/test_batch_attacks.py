"""Batch services that reply with nonsense or malice: nothing is paid without end, no key goes elsewhere, memory is bounded."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
from collections import Counter
from functools import partial
from itertools import count
from typing import Any

import pytest
from batch_runs import arithmetic_answer, batch_spec, run_batches
from stubs import ARITHMETIC

from servers import batches_gemini, batches_openai
from servers.batches import KEY, MODEL, Batch, BatchServer, Plan
from servers.loopback import JsonHandler, LoopbackServer
from snellen.engine.batches.log import read_log
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder
from snellen.errors import BatchError, RunError
from snellen.models.api.batches.replies import LARGEST_LINE, LineSplitter
from snellen.models.api.batches.service import BatchStatus, best_match
from snellen.runs.batches import list_batches
from snellen.runs.perform import perform

N = 20
MODELS = {"openai": f"api:{MODEL}", "anthropic": f"anthropic:{MODEL}", "gemini": f"gemini:{MODEL}"}
IDS: list[Any] = ["../../v1/models", "a/b", "x" * 100_000, "batch\n1", "\x1b[31mred", "a b", "..", "", None, 7, ["x"]]


READ = ("GET /v1/batches?limit=100", "POST /v1/chat/completions")  # the latter is the preflight's, and asks nothing


class HostileServer(LoopbackServer):
    """Names one id for every batch, and says `ended` of each that it is asked for; `paths` has what was asked for."""

    def __init__(self, identity, ended=None):
        self.paths = paths = []

        class Handler(JsonHandler):
            def do_GET(self):
                if ended is not None and "/batches/" in self.path:
                    return self._say(ended)
                return self._say({"data": []} if "batches" in self.path else {"data": [{"id": MODEL}], "id": MODEL})

            def do_POST(self):
                self.read()
                self._say({"id": "file-1" if self.path.endswith("/files") else identity, "status": "validating"})

            def _say(self, reply):
                paths.append(f"{self.command} {self.path}")
                self.send(200, reply)

        super().__init__(Handler)


@pytest.mark.parametrize("identity", IDS, ids=lambda identity: repr(identity)[:12])
def test_ids_that_cannot_be_used_end_the_run_after_three_creations(identity, tmp_path):
    with HostileServer(identity) as server, pytest.raises(BatchError, match="does not show it") as failure:
        run_batches(server.url, tmp_path / "run", N)
    calls = Counter(server.paths)
    assert calls["POST /v1/batches"] == 3
    assert set(calls) <= {"POST /v1/batches", "POST /v1/files", "GET /v1/models", *READ}
    assert len(str(failure.value)) < 2000
    assert (tmp_path / "run/batches.jsonl").stat().st_size < 5000


@pytest.mark.parametrize("output", ["../../v1/models", "\x1b[31mred", "file 1?x=1"])
def test_results_under_an_unusable_id_end_the_run_at_once(output, tmp_path):
    """The id does not change when it is read again, so that patience would be lost."""

    ended = {"id": "batch_1", "status": "completed", "output_file_id": output}
    words = "batch_1 has ended, and its results cannot be fetched"
    with HostileServer("batch_1", ended) as server, pytest.raises(BatchError, match=words):
        run_batches(server.url, tmp_path / "run", N)
    assert not any("models" in path for path in server.paths if "content" in path)


@pytest.mark.parametrize("service", MODELS)
def test_a_redirect_is_not_followed(service, tmp_path):
    """The handler that would get the key counts its calls."""
    received: list[str] = []

    class Elsewhere(JsonHandler):
        def do_GET(self):
            received.append(self.headers.get("Authorization", ""))

        do_POST = do_GET

    with LoopbackServer(Elsewhere) as other:
        address = f"{other.origin}/"
        plan = Plan(answer=arithmetic_answer, refuse=lambda call, number: (302, address) if call == "status" else None)
        with BatchServer(plan) as server, pytest.raises(BatchError, match="not sent on to another address"):
            run_batches(server.address(service), tmp_path / "run", N, MODELS[service])
    assert received == []


@pytest.mark.parametrize("service", ["openai", "gemini"])
def test_of_several_batches_with_the_label_one_that_runs_is_taken(service, tmp_path, monkeypatch):
    plan = Plan(seconds=0.1, answer=arithmetic_answer, silent_creates=(1,))
    module = {"openai": batches_openai, "gemini": batches_gemini}[service]
    create = module._create

    def twice(server, http, *arguments):
        create(server, http, *arguments)
        (first,) = server.batches.values()
        name = {"openai": "batch_0", "gemini": "batches/b0"}[service]
        cancelled = Batch(name, first.rows, first.created, first.label, first.input, cancelled=True, outcomes=[])
        cancelled.outcomes = ["cancelled"] * len(first.rows)
        server.batches = {name: cancelled, **server.batches}

    monkeypatch.setattr(module, "_create", twice)
    with BatchServer(plan) as server:
        run_batches(server.address(service), tmp_path / "run", N, MODELS[service])
        assert server.calls["create"] == 1
        assert set(server.paid.values()) == {1}
    records = list(RunFolder(tmp_path / "run").records())
    assert Counter(record.sample_id for record in records) == Counter(f"q{i}" for i in range(N))


@pytest.mark.parametrize("service", ["openai", "gemini"])
def test_a_strange_batch_of_somebody_else_in_the_list_is_passed_over(service, tmp_path, monkeypatch):
    module, name = {"openai": (batches_openai, "_object"), "gemini": (batches_gemini, "_operation")}[service]
    described = getattr(module, name)

    def strange(server, batch):
        described_batch: dict[str, Any] = described(server, batch)
        return {"id": "../x", "name": "../x", "status": "completed"} if batch.id.endswith("0") else described_batch

    monkeypatch.setattr(module, name, strange)
    plan = Plan(seconds=0.1, answer=arithmetic_answer, silent_creates=(1,))
    with BatchServer(plan) as server:
        server.batches["foreign0"] = Batch("foreign0", [], 0.0, outcomes=[])
        run_batches(server.address(service), tmp_path / "run", N, MODELS[service])
        assert server.calls["create"] == 1
        assert set(server.paid.values()) == {1}


def test_a_row_that_comes_twice_is_recorded_once(tmp_path, monkeypatch):
    shuffled = BatchServer.shuffled
    monkeypatch.setattr(BatchServer, "shuffled", lambda self, batch: shuffled(self, batch) * 3)
    for service, model in MODELS.items():
        with BatchServer(Plan(answer=arithmetic_answer)) as server:
            run_batches(server.address(service), tmp_path / service, N, model)
        records = list(RunFolder(tmp_path / service).records())
        assert Counter(record.sample_id for record in records) == Counter(f"q{i}" for i in range(N))


def test_a_line_without_an_end_takes_bounded_memory():
    splitter, chunk = LineSplitter(), b"x" * (1 << 20)
    tracemalloc.start()
    for _ in range(200):
        assert list(splitter.add(chunk)) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * LARGEST_LINE
    assert list(splitter.add(b"tail\nnext\n\n  \nlast")) == [b"", b"next"]
    assert list(splitter.end()) == [b"last"]


def test_a_key_in_a_line_is_struck_out():
    from snellen.redaction import register

    register(KEY)
    (line,) = LineSplitter().add(f'{{"custom_id":"{KEY}"}}\n'.encode())
    assert KEY.encode() not in line


def test_the_best_of_several_batches_is_one_that_may_bring_answers():
    failed = BatchStatus(id="a", state="failed")
    cancelled = BatchStatus(id="b", state="ended", cancelled=True)
    running = BatchStatus(id="c", state="running")
    assert best_match([failed, cancelled, running]) is running
    assert best_match([failed, cancelled]) is cancelled
    assert best_match([]) is None


@pytest.mark.parametrize("name", ["../../outside", "a/b", "x\u0000", "x" * 100, "a.b"])
@pytest.mark.parametrize("member", ["label", "token"])
def test_a_log_whose_names_leave_the_folder_is_refused(member, name, tmp_path):
    (tmp_path / "batches.jsonl").write_text(json.dumps({"event": "made", "at": 1.0, member: name}) + "\n")
    with pytest.raises(RunError, match="a label that Snellen does not write"):
        read_log(tmp_path)


@pytest.mark.parametrize("moment", [1e308, -1e15, 1e11])
def test_a_moment_that_no_calendar_has_is_unknown(moment):
    from snellen.engine.batches.log import local_time

    assert local_time(moment) == "unknown"
    assert local_time(1e9).startswith("2001-09-")


@pytest.mark.parametrize("member", ["rows", "size", "completed", "failed", "answered", "total", "again", "missing"])
def test_a_log_with_negative_counts_is_refused(member, tmp_path):
    line = {"event": "made", "at": 1.0, "label": "snellen-a-1", "rows": 3, member: -5}
    (tmp_path / "batches.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(RunError, match="line 1: not an event"):
        read_log(tmp_path)


def test_no_more_rows_are_finished_than_there_are(tmp_path):
    plan = Plan(seconds=0.1, answer=arithmetic_answer)
    with BatchServer(plan) as server:
        run_batches(server.address("openai"), tmp_path / "run", N)
    log = tmp_path / "run/batches.jsonl"
    log.write_text(re.sub(r'"completed":\d+', '"completed":999', log.read_text()))
    (batch,) = list_batches(tmp_path / "run", recorded=True)
    assert (batch.rows, batch.finished, batch.answered) == (N, N, N)


UNUSABLE: list[Any] = ["batches/../files/1", "batches/", "b1", "batches/a\n", "", None, 7, ["batches/a"]]


def unnamed(monkeypatch: pytest.MonkeyPatch, identity: Any, calls: int | None) -> None:
    """Let Gemini's first replies about batches name an unusable id; None: all of them."""
    described = batches_gemini._operation
    number = count(1)

    def operation(server: BatchServer, batch: Batch) -> dict[str, Any]:
        row = described(server, batch)
        if calls is None or next(number) <= calls:
            row["name"] = row["metadata"]["name"] = identity
        return row

    monkeypatch.setattr(batches_gemini, "_operation", operation)


@pytest.mark.parametrize("identity", UNUSABLE, ids=repr)
def test_a_gemini_batch_without_a_usable_id_is_found_by_its_label(identity, tmp_path, monkeypatch):
    unnamed(monkeypatch, identity, 1)
    with BatchServer(Plan(seconds=0.1, answer=arithmetic_answer)) as server:
        run_batches(server.address("gemini"), tmp_path / "run", N, MODELS["gemini"])
        assert server.calls["create"] == 1
        assert set(server.paid.values()) == {1}
        assert server.faults == []
    assert Counter(record.sample_id for record in RunFolder(tmp_path / "run").records()) == Counter(
        f"q{i}" for i in range(N)
    )


@pytest.mark.parametrize("identity", ["batches/../files/1", None], ids=repr)
def test_a_gemini_batch_that_never_has_a_usable_id_is_not_paid_again(identity, tmp_path, monkeypatch):
    unnamed(monkeypatch, identity, None)
    folder = tmp_path / "run"
    with BatchServer(Plan(answer=arithmetic_answer)) as server:
        run_batches_briefly = partial(perform, backoff=Backoff(base_s=0.01, patience_s=0.5), benchmark=ARITHMETIC)
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        for _ in range(2):
            with pytest.raises(BatchError, match="no usable id"):
                run_batches_briefly(batch_spec(server.address("gemini"), N, MODELS["gemini"]), RunFolder(folder))
        assert server.calls["create"] == 1
        assert (folder / "batches.jsonl").stat().st_size < 5000


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "endless line"])
def test_a_log_that_is_no_regular_file_or_has_an_endless_line_is_refused(kind, tmp_path):
    log = tmp_path / "batches.jsonl"
    if kind == "link":
        log.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(log)
    elif kind == "folder":
        log.mkdir()
    else:
        with log.open("wb") as file:
            file.truncate(3 << 30)
    tracemalloc.start()
    with pytest.raises(RunError, match=r"batches\.jsonl"):
        read_log(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()
