"""Requests in a file and results from one, as `vllm run-batch` reads and writes them: each sample once, whatever the files hold."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictured import PICTURED, PICTURES
from stubs import ARITHMETIC

from servers.provider_schemas import BODIES
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.batches.log import read_log
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import BatchError, DataError, RunError, UsageError
from snellen.models.api.batches import files
from snellen.models.api.model import OFFLINE_URL
from snellen.models.base import ModelOptions
from snellen.runs import batches
from snellen.runs.batches import ReadResults, WrittenRequests, cancel_batches, drop_batch, list_batches
from snellen.runs.perform import perform
from snellen.sources.blobs import FileBlob
from snellen.types import Image, Prompt, Record, Sample, Text

N = 20
MODEL = "Qwen/Qwen3-VL-8B"


@pytest.fixture(autouse=True)
def without_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")  # nobody is there, and nobody is asked


def use(monkeypatch: pytest.MonkeyPatch, benchmark: Benchmark) -> None:
    """Let a benchmark be found by its name, as an installed one is."""
    from snellen.runs import evaluate, perform

    for module in (evaluate, perform):
        monkeypatch.setattr(module, "find_benchmark", lambda spec, folder, trust: benchmark)
    monkeypatch.setattr(perform.benchmarks, "lasting_name", lambda name: name)


@pytest.fixture(autouse=True)
def arithmetic(monkeypatch):
    use(monkeypatch, ARITHMETIC)


def spec(n: int = N, **options: Any) -> RunSpec:
    model = f"api:{MODEL}"
    return RunSpec(
        benchmark="arithmetic", model=model, data=Data(options={"n": str(n)}), options=ModelOptions(**options)
    )


def write(folder: Path, name: str = "requests.jsonl", n: int = N, **options: Any) -> WrittenRequests:
    return batches.write_requests(spec(n), RunFolder(folder / "run"), folder / name, trust=True, **options)


def read(folder: Path, *names: str, ended: bool = False) -> ReadResults:
    return batches.read_results(folder / "run", [folder / name for name in names], ended=ended, trust=True)


def requests(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def number(row: dict[str, Any]) -> int:
    content = row["body"]["messages"][0]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return int(text.split()[2])


def result(row: dict[str, Any], kind: str = "ok") -> dict[str, Any]:
    """Return the line that vLLM writes for a request: answered, or refused with a status beside an empty body."""
    line: dict[str, Any] = {"id": "vllm-1", "custom_id": row["custom_id"], "response": None, "error": None}
    if kind == "ok":
        message = {"role": "assistant", "content": str(number(row) % 7), "refusal": None, "reasoning": None}
        body = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 4, "total_tokens": 104},
        }
        line["response"] = {"status_code": 200, "request_id": "vllm-batch-1", "body": body}
        return line
    error = {"message": f"it is {kind}", "type": "BadRequestError", "param": None, "code": int(kind)}
    line["response"] = {"status_code": int(kind), "request_id": "vllm-batch-1", "body": None}
    line["error"] = {"error": error}
    return line


def answer(
    folder: Path,
    source: str = "requests.jsonl",
    target: str = "results.jsonl",
    kind: Callable[[int], str] = lambda number: "ok",
) -> list[str]:
    """Write a file of results, in another order; return its lines. A kind of "" leaves the row out."""
    rows = [(row, kind(number(row))) for row in requests(folder / source)]
    lines = [json.dumps(result(row, word)) for row, word in rows if word]
    random.Random(4).shuffle(lines)
    (folder / target).write_text("".join(f"{line}\n" for line in lines))
    return lines


def records(folder: Path) -> list[Record]:
    return list(RunFolder(folder / "run").records())


def assert_each_once(folder: Path, n: int = N) -> None:
    answers = Counter(record.sample_id for record in records(folder) if record.status == "ok")
    assert answers == Counter(f"q{i}" for i in range(n))
    for record in records(folder):
        assert record.response is None or record.response.text == str(int(record.sample_id[1:]) % 7)


def test_requests_are_in_the_form_of_openais_batches_and_nothing_is_sent(tmp_path):
    written = write(tmp_path)
    assert (written.requests, written.waiting, written.meta.state) == (N, 0, "partial")
    rows = requests(tmp_path / "requests.jsonl")
    assert len({row["custom_id"] for row in rows}) == N
    for row in rows:
        assert set(row) == {"custom_id", "method", "url", "body"}
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", row["custom_id"])
        assert (row["method"], row["url"], row["body"]["model"]) == ("POST", "/v1/chat/completions", MODEL)
        msgspec.convert(row["body"], BODIES["chat"])
    assert written.meta.identity["model"]["base_url"] == OFFLINE_URL
    assert records(tmp_path) == []


def test_results_in_any_order_end_the_run_and_a_second_reading_changes_nothing(tmp_path):
    write(tmp_path)
    answer(tmp_path)
    counts = read(tmp_path, "results.jsonl")
    assert (counts.answered, counts.failed, counts.again, counts.missing, counts.strange) == (N, 0, 0, 0, 0)
    assert counts.run.meta.state == "complete"
    assert_each_once(tmp_path)
    journal = (tmp_path / "run/results.jsonl").read_bytes()
    again = read(tmp_path, "results.jsonl")
    assert (again.answered, again.missing) == (0, 0)
    assert (tmp_path / "run/results.jsonl").read_bytes() == journal
    assert write(tmp_path, "more.jsonl").requests == 0
    assert not (tmp_path / "more.jsonl").exists()
    assert counts.run.meta.environment["batches"] == {"service": "file", "batches": 1, "answers": N}
    assert (tmp_path / "run/summary.json").exists()


def test_a_file_of_requests_is_not_read_as_results(tmp_path):
    write(tmp_path)
    with pytest.raises(UsageError, match="a file of requests"):
        read(tmp_path, "requests.jsonl")
    assert not records(tmp_path)


def test_a_partial_file_is_recorded_and_the_rest_is_waited_for(tmp_path):
    write(tmp_path)
    lines = answer(tmp_path)
    (tmp_path / "part.jsonl").write_text("\n".join(lines[:7]) + "\n" + lines[7][:40])  # the last line is torn
    counts = read(tmp_path, "part.jsonl")
    assert (counts.answered, counts.missing, counts.strange) == (7, N - 7, 1)
    assert counts.run.meta.state == "partial"
    later = write(tmp_path, "later.jsonl")
    assert (later.requests, later.waiting) == (0, N - 7)  # they may still be answered
    assert read(tmp_path, "results.jsonl", "part.jsonl").answered == N - 7
    assert_each_once(tmp_path)


def test_requests_without_a_result_are_written_again_once_the_program_has_ended(tmp_path):
    write(tmp_path)
    answer(tmp_path, kind=lambda i: "" if i < 5 else "ok")
    counts = read(tmp_path, "results.jsonl", ended=True)
    assert (counts.answered, counts.again, counts.missing) == (N - 5, 5, 0)
    assert write(tmp_path, "second.jsonl").requests == 5
    assert sorted(map(number, requests(tmp_path / "second.jsonl"))) == [0, 1, 2, 3, 4]
    answer(tmp_path, "second.jsonl", "second-results.jsonl")
    assert read(tmp_path, "second-results.jsonl", "results.jsonl").answered == 5
    assert_each_once(tmp_path)
    assert {record.sample_id for record in records(tmp_path) if record.attempts == 2} == {f"q{i}" for i in range(5)}


def test_a_file_that_was_given_up_may_still_be_read(tmp_path):
    write(tmp_path)
    (label,) = read_log(tmp_path / "run").shards
    drop_batch(tmp_path / "run", label)
    assert write(tmp_path, "second.jsonl").requests == N
    answer(tmp_path, kind=lambda i: "ok" if i < 12 else "")
    answer(tmp_path, "second.jsonl", "second-results.jsonl")
    assert read(tmp_path, "results.jsonl", "second-results.jsonl").answered == N
    assert_each_once(tmp_path)


def test_failed_rows_are_asked_again_and_recorded_once(tmp_path):
    write(tmp_path)
    answer(tmp_path, kind=lambda i: {3: "400", 4: "500"}.get(i, "ok"))
    counts = read(tmp_path, "results.jsonl")
    assert (counts.answered, counts.failed, counts.again, counts.missing) == (N - 2, 1, 1, 0)
    read(tmp_path, "results.jsonl")
    (failed,) = [record for record in records(tmp_path) if record.status != "ok"]
    assert (failed.sample_id, failed.error.kind) == ("q3", "bad_request")
    assert "it is 400" in failed.error.message
    assert write(tmp_path, "second.jsonl").requests == 2
    answer(tmp_path, "second.jsonl", "second-results.jsonl")
    assert read(tmp_path, "second-results.jsonl").answered == 2
    assert_each_once(tmp_path)


def test_lines_that_are_of_no_request_are_passed_over(tmp_path):
    write(tmp_path)
    lines = answer(tmp_path)
    other = json.loads(lines[0]) | {"custom_id": "../../another"}
    strange = [
        "<html>", "7", '["a"]', '{"custom_id":7}', '{"custom_id":null}', json.dumps(other), "\x00\x1b[31m",
        '{"custom_id":"' + "x" * (17 << 20) + '"}', '{"custom_id":"\\ud800"}', "[" * 3000,
    ]  # fmt: skip
    (tmp_path / "results.jsonl").write_text("\n".join([*strange[:5], *lines, *lines[:6], *strange[5:]]) + "\n")
    counts = read(tmp_path, "results.jsonl")
    assert (counts.answered, counts.strange) == (N, len(strange))
    assert_each_once(tmp_path)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_parts_in_any_order_give_each_sample_once(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    write(folder, n=6)
    kinds = data.draw(st.lists(st.sampled_from(["ok", "400", "500", ""]), min_size=6, max_size=6))
    lines = answer(folder, kind=lambda i: kinds[i])
    for place, part in enumerate(data.draw(st.lists(st.lists(st.sampled_from(lines or [""])), max_size=3))):
        (folder / f"part{place}.jsonl").write_text("\n".join(part) + "\n")
        read(folder, f"part{place}.jsonl")
    read(folder, "results.jsonl", ended=True)
    if write(folder, "last.jsonl", n=6).requests:
        answer(folder, "last.jsonl", "last-results.jsonl")
        read(folder, "last-results.jsonl", "results.jsonl")
    assert_each_once(folder, 6)
    failures = Counter(record.sample_id for record in records(folder) if record.status != "ok")
    assert failures == Counter(f"q{i}" for i, kind in enumerate(kinds) if kind == "400")


def test_a_file_is_not_overwritten(tmp_path):
    (tmp_path / "requests.jsonl").write_text("mine")
    with pytest.raises(UsageError, match="not overwritten"):
        write(tmp_path)
    assert (tmp_path / "requests.jsonl").read_text() == "mine"
    assert not (tmp_path / "run").exists()
    with pytest.raises(UsageError, match="is no folder"):
        write(tmp_path, "nowhere/requests.jsonl")


def test_a_link_to_nothing_is_not_written_through_and_leaves_no_open_batch(tmp_path):
    (tmp_path / "requests.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(UsageError, match="not overwritten"):
        write(tmp_path)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "elsewhere.jsonl").exists()


@pytest.mark.parametrize("linkable", [True, False])
def test_a_file_that_cannot_be_put_in_its_place_leaves_its_samples_free(linkable, tmp_path, monkeypatch):
    """Somebody else takes the name while the requests are written; links work on this disk, or do not."""
    link = files.os.link

    def late(source, target):
        target.symlink_to(tmp_path / "elsewhere.jsonl")
        if not linkable:
            raise PermissionError(1, "Operation not permitted")
        link(source, target)

    monkeypatch.setattr(files.os, "link", late)
    with pytest.raises(BatchError, match="not overwritten"):
        write(tmp_path)
    monkeypatch.undo()
    assert not (tmp_path / "elsewhere.jsonl").exists()
    assert list(tmp_path.glob(".*.part")) == []
    assert read_log(tmp_path / "run").open() == []
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    use(monkeypatch, ARITHMETIC)
    assert write(tmp_path, "second.jsonl").requests == N


def test_a_kill_before_the_file_was_noted_writes_it_once(tmp_path):
    """The log ends at `creating`, with and without the file in its place."""
    write(tmp_path)
    log = tmp_path / "run/batches.jsonl"
    events = log.read_text().splitlines(keepends=True)
    cut = next(place for place, line in enumerate(events) if '"created"' in line)
    log.write_text("".join(events[:cut]))
    content = (tmp_path / "requests.jsonl").read_bytes()
    written = write(tmp_path, "second.jsonl")
    assert (written.requests, written.waiting) == (0, N)
    assert (tmp_path / "requests.jsonl").read_bytes() == content
    assert not (tmp_path / "second.jsonl").exists()
    log.write_text("".join(events[:cut]))
    (tmp_path / "run/batches" / f"{next(iter(read_log(tmp_path / 'run').shards))}.jsonl").write_bytes(content)
    (tmp_path / "requests.jsonl").unlink()
    with pytest.raises(BatchError, match="were meant for"):
        write(tmp_path, "second.jsonl")
    write(tmp_path)
    assert (tmp_path / "requests.jsonl").read_bytes() == content
    answer(tmp_path)
    read(tmp_path, "results.jsonl")
    assert_each_once(tmp_path)


def test_a_run_is_not_asked_otherwise_while_its_requests_are_in_a_file(tmp_path):
    write(tmp_path)
    offline = spec(base_url=OFFLINE_URL)
    with pytest.raises(UsageError, match="may still be answered by another program"):
        perform(offline, RunFolder(tmp_path / "run"), benchmark=ARITHMETIC)
    with pytest.raises(UsageError, match="nothing to cancel"):
        cancel_batches(tmp_path / "run")
    (listed,) = list_batches(tmp_path / "run")
    assert (listed.state, listed.rows, listed.open) == ("written", N, True)


def test_only_a_run_whose_requests_are_in_a_file_reads_results(tmp_path):
    write(tmp_path)
    with pytest.raises(UsageError, match="is no file"):
        read(tmp_path, "missing.jsonl")
    with pytest.raises(RunError):
        batches.read_results(tmp_path / "other", [tmp_path / "requests.jsonl"])
    (tmp_path / "unreadable.jsonl").touch(mode=0)
    if not _readable(tmp_path / "unreadable.jsonl"):
        with pytest.raises(DataError):
            read(tmp_path, "unreadable.jsonl")


def _readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


HOSTILE_ERRORS = [
    '"code":"%s"' % ("4" * 5000),
    '"code":%s' % ("4" * 4000),
    '"code":"\u00b2"',
    '"code":{"a":["\\u001b[2J"]}',
]
"""Codes of errors that no service sends: more digits than Python reads, no digit, an object with an escape sequence."""


@pytest.mark.parametrize("code", HOSTILE_ERRORS, ids=["digits", "number", "superscript", "object"])
def test_a_strange_code_of_an_error_is_a_failed_row(code, tmp_path):
    write(tmp_path, n=1)
    row = requests(tmp_path / "requests.jsonl")[0]
    line = f'{{"custom_id":"{row["custom_id"]}","error":{{"message":"no",{code}}}}}\n'
    (tmp_path / "results.jsonl").write_text(line)
    counts = read(tmp_path, "results.jsonl")
    assert (counts.answered, counts.failed + counts.again, counts.strange) == (0, 1, 0)
    journal = (tmp_path / "run/results.jsonl").read_text() if counts.failed else ""
    assert "4" * 200 not in journal and "u001b" not in journal


@pytest.mark.parametrize("model", ["anthropic:m", "openai:m", "embedded", "local:tiny"])
def test_other_kinds_of_models_are_refused(model, tmp_path):
    from msgspec import structs

    with pytest.raises(UsageError, match="for api:NAME"):
        batches.write_requests(
            structs.replace(spec(), model=model), RunFolder(tmp_path / "run"), tmp_path / "requests.jsonl"
        )


def test_images_stand_inline_or_by_their_paths(tmp_path, monkeypatch):
    path = tmp_path / "a picture.png"
    path.write_bytes(PICTURES[0].blob.read())
    samples = [
        Sample("q0", Prompt((Image(FileBlob(path)), PICTURES[1], Text("What is 0 mod 7?"))), 0, "count"),
    ]
    use(monkeypatch, dataclasses.replace(PICTURED, samples=lambda data: iter(samples), size=lambda data: 1))
    write(tmp_path, "paths.jsonl", image_paths=True)
    urls = [
        part["image_url"]["url"] for part in requests(tmp_path / "paths.jsonl")[0]["body"]["messages"][0]["content"][:2]
    ]
    assert urls[0] == path.as_uri()
    assert urls[1].startswith("data:image/png;base64,")
    (rows,) = (tmp_path / "run/batches").glob("*.rows.jsonl")
    assert json.loads(rows.read_text())["request"]["messages"][0]["content"][0]["image_url"]["url"].startswith(
        "sha256:"
    )


def test_the_commands_write_and_read_files(tmp_path):
    def snellen(*words):
        command = [sys.executable, "-m", "snellen", "batch", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)

    model = ("-m", f"api:{MODEL}", "--run", "run", "--limit", "3")
    wrote = snellen("write", "chart/digits", *model, "--out", "requests.jsonl")
    assert wrote.returncode == 0, wrote.stderr
    assert f"vllm run-batch -i requests.jsonl -o RESULTS.jsonl --model {MODEL}" in " ".join(wrote.stderr.split())
    rows = requests(tmp_path / "requests.jsonl")
    lines = [json.loads(json.dumps(result({**rows[0], "body": {"messages": [{"content": "What is 3 mod 7?"}]}})))] * 3
    for row, line in zip(rows, lines, strict=True):
        lines[rows.index(row)] = {**line, "custom_id": row["custom_id"]}
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = snellen("read", "run", "results.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["answered"], shown["missing"], shown["state"], shown["ok"]) == (3, 0, "limited", 3)
