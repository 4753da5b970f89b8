"""Batches of questions with images, at every service: inline, by uploaded files, refused ones, and by files of rows."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from batch_runs import arithmetic_answer
from msgspec import structs
from pictured import IMAGES, PICTURED, PICTURES, N
from PIL import Image as Pillow

from servers.batches import KEY, MODEL, BatchServer, Plan
from servers.file_store import FileStore, references
from snellen.benchmarks.base import Data
from snellen.engine.journal import Journal
from snellen.engine.resume import read_state
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import BatchError
from snellen.models.api.services import OVERRIDES_VARIABLE
from snellen.models.base import ModelOptions
from snellen.runs.caveats import caveats
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.sources import BytesBlob
from snellen.sources.journal_lines import Damage
from snellen.types import Image, Prompt, Record, Response, Sample, Text

MODELS = {"responses": f"openai:{MODEL}", "messages": f"anthropic:{MODEL}", "gemini": f"gemini:{MODEL}"}
SMALL = """
[openai-responses]
image_inline_bytes = 1000
[anthropic]
image_inline_bytes = 1000
[gemini]
image_inline_bytes = 1000
"""


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    for name in ("OPENAI_API_VERSION", "AZURE_OPENAI_ENDPOINT", OVERRIDES_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def small_limits(tmp_path_factory, monkeypatch):
    path = tmp_path_factory.mktemp("services") / "services.toml"
    path.write_text(SMALL)
    monkeypatch.setenv(OVERRIDES_VARIABLE, str(path))


def run_pictured(url: str, folder: Path, model: str, *, responses: bool = False, patience_s: float = 30.0) -> Run:
    spec = RunSpec(
        benchmark="pictured",
        model=model,
        options=ModelOptions(base_url=url, patience_s=patience_s, responses=responses),
        batch=True,
        poll_s=0.05,
    )
    return perform(spec, RunFolder(folder), benchmark=PICTURED, backoff=Backoff(base_s=0.01, patience_s=patience_s))


def records(folder: Path) -> list[Record]:
    return list(RunFolder(folder).records())


def assert_each_once(folder: Path, server: BatchServer) -> None:
    assert server.faults == []
    answers = Counter(record.sample_id for record in records(folder) if record.status == "ok")
    assert answers == Counter(f"q{i}" for i in range(N))
    assert set(server.paid.values()) == {1}
    assert all(
        record.response.text == str(int(record.sample_id[1:]) % 7) for record in records(folder) if record.response
    )


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("protocol", MODELS)
def test_rows_of_a_batch_name_images_that_were_uploaded_once(protocol, tmp_path):
    store = FileStore(protocol)
    with BatchServer(Plan(answer=arithmetic_answer), uploads=store) as server:
        url, folder = server.address(protocol), tmp_path / "run"
        run_pictured(url, folder, MODELS[protocol], responses=protocol == "responses")
        assert_each_once(folder, server)
        assert store.faults == []
        assert sorted(store.uploads.values()) == [1] * IMAGES
        (batch,) = server.batches.values()
        assert all(len(references(row["body"])) == 1 for row in batch.rows)
        before = Counter(server.calls)
        run_pictured(url, folder, MODELS[protocol], responses=protocol == "responses")
        assert server.calls == before
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("protocol", MODELS)
def test_rows_whose_image_was_lost_are_asked_again_with_a_new_one(protocol, tmp_path):
    store = FileStore(protocol)
    losses = [1]

    def outcome(question, before):
        if losses and losses.pop():
            store.lose()  # while the batch waits, before its first row is answered
        return "ok"

    with BatchServer(Plan(answer=arithmetic_answer, outcome=outcome), uploads=store) as server:
        run_pictured(server.address(protocol), tmp_path, MODELS[protocol], responses=protocol == "responses")
        assert_each_once(tmp_path, server)
        assert sorted(store.uploads.values()) == [2] * IMAGES
        assert [len(batch.rows) for batch in server.batches.values()] == [N, N]


@pytest.mark.usefixtures("small_limits")
def test_files_of_a_short_life_are_uploaded_once_for_a_batch(tmp_path):
    store = FileStore("messages", life_s=7200.0)
    with BatchServer(Plan(answer=arithmetic_answer), uploads=store) as server:
        run_pictured(server.address("messages"), tmp_path, MODELS["messages"])
        assert_each_once(tmp_path, server)
        assert sorted(store.uploads.values()) == [1] * IMAGES


@pytest.mark.usefixtures("small_limits")
def test_an_image_whose_upload_is_refused_fails_its_rows_alone(tmp_path):
    bad = PICTURES[2].blob.read()
    store = FileStore("messages", refuse=lambda number, data: (400, "unsupported image") if data == bad else None)
    with BatchServer(Plan(answer=arithmetic_answer), uploads=store) as server:
        run = run_pictured(server.address("messages"), tmp_path, MODELS["messages"])
        assert (run.meta.totals.ok, run.meta.totals.error) == (N - N // IMAGES, N // IMAGES)
        assert store.tries == IMAGES
    failed = [record for record in records(tmp_path) if record.error is not None]
    assert {int(record.sample_id[1:]) % IMAGES for record in failed} == {2}
    assert all(record.error and "unsupported image" in record.error.message for record in failed)


@pytest.mark.usefixtures("small_limits")
def test_uploads_that_are_throttled_are_waited_for(tmp_path):
    store = FileStore("messages", refuse=lambda number, data: (429, "slow down") if number % 2 else None)
    with BatchServer(Plan(answer=arithmetic_answer), uploads=store) as server:
        run_pictured(server.address("messages"), tmp_path, MODELS["messages"])
        assert_each_once(tmp_path, server)


@pytest.mark.usefixtures("small_limits")
def test_a_key_that_may_not_upload_ends_the_run_before_any_sample_fails(tmp_path):
    store = FileStore("messages", refuse=lambda number, data: (401, "invalid x-api-key"))
    with BatchServer(Plan(answer=arithmetic_answer), uploads=store) as server:
        with pytest.raises(BatchError, match="took no image"):
            run_pictured(server.address("messages"), tmp_path, MODELS["messages"])
        assert (store.tries, server.batches, records(tmp_path)) == (1, {}, [])
        store.refuse = lambda number, data: None
        run_pictured(server.address("messages"), tmp_path, MODELS["messages"])
        assert_each_once(tmp_path, server)


@pytest.mark.parametrize("service", ["responses", "messages", "gemini", "chat"])
def test_a_picture_that_the_service_refuses_fails_its_row_alone(service, tmp_path):
    def outcome(question, before):
        return "error400" if int(question.split()[2]) == 5 else "ok"

    model = MODELS.get(service, f"openai:{MODEL}")
    with BatchServer(Plan(answer=arithmetic_answer, outcome=outcome)) as server:
        run = run_pictured(server.address(service), tmp_path, model, responses=service == "responses")
        assert server.faults == []
        assert (run.meta.totals.ok, run.meta.totals.error) == (N - 1, 1)
        assert max(server.asked.values()) == 1
    (failed,) = [record for record in records(tmp_path) if record.error is not None]
    assert (failed.sample_id, failed.error.kind) == ("q5", "bad_request")


def test_images_stand_inline_below_the_limit(tmp_path):
    with BatchServer(Plan(answer=arithmetic_answer)) as server:
        run_pictured(server.address("responses"), tmp_path, MODELS["responses"], responses=True)
        assert_each_once(tmp_path, server)
        (batch,) = server.batches.values()
        for row in batch.rows:
            part = next(part for part in row["body"]["input"][0]["content"] if part["type"] == "input_image")
            data = base64.b64decode(part["image_url"].partition("base64,")[2])
            assert data == PICTURES[int(row["question"].split()[2]) % IMAGES].blob.read()


@pytest.mark.parametrize("outcomes", ["ok", "mixed"])
def test_gemini_takes_the_rows_as_a_file_and_returns_one(outcomes, tmp_path, monkeypatch):
    from snellen.models.api.batches import service as batch_service

    limits = batch_service.BatchLimits(50_000, 2_000_000_000, inline_bytes=100)
    monkeypatch.setattr(batch_service, "documented_limits", lambda protocol, host: limits)

    def outcome(question, before):
        kinds = {1: "error500", 2: "expired", 3: "lost"}
        return kinds.get(int(question.split()[2]), "ok") if outcomes == "mixed" and not before else "ok"

    extra = (b"no json", b'{"key":"another","response":{}}', b'{"key":7}', b'{"response":{}}')
    with BatchServer(Plan(answer=arithmetic_answer, outcome=outcome, extra_lines=extra)) as server:
        run_pictured(server.address("gemini"), tmp_path, MODELS["gemini"])
        if outcomes == "ok":
            assert_each_once(tmp_path, server)
        assert server.faults == []
        assert {record.sample_id for record in records(tmp_path) if record.status == "ok"} == {
            f"q{i}" for i in range(N)
        }
        assert server.calls["inline"] == 0
        assert server.calls["upload"] == len(server.batches) == (1 if outcomes == "ok" else 2)
        lines = [json.loads(line) for line in server.files["files/in1"].splitlines()]
        assert [len(line["key"]) <= 64 for line in lines] == [True] * N


@pytest.mark.parametrize("service", ["azure", "azure-dated"])
def test_azure_takes_batches_at_both_of_its_addresses(service, tmp_path):
    plan = Plan(answer=arithmetic_answer, silent_creates=(1,))
    with BatchServer(plan) as server:
        run_pictured(server.address(service), tmp_path, f"azure:{MODEL}")
        assert_each_once(tmp_path, server)
        assert (server.calls["create"], server.calls["upload"]) == (1, 1)


def test_the_responses_endpoint_is_named_in_rows_and_batch(tmp_path):
    with BatchServer(Plan(answer=arithmetic_answer)) as server:
        run_pictured(server.address("responses"), tmp_path, MODELS["responses"], responses=True)
        (content,) = server.files.values()
    assert {json.loads(line)["url"] for line in content.splitlines()} == {"/v1/responses"}
    assert os.environ["OPENAI_API_KEY"] == KEY


def wide(number: int) -> Image:
    """Return a picture of 2000 x 10 pixels for even numbers, which is above OpenAI's and Anthropic's limits, else a small one."""
    out = BytesIO()
    Pillow.new("RGB", (2000 if number % 2 == 0 else 20, 10), (number, 0, 0)).save(out, "PNG")
    return Image(BytesBlob(f"wide {number}", out.getvalue()))


def wide_samples(data: Data) -> Iterator[Sample]:
    for i in range(10):
        yield Sample(f"q{i}", Prompt((wide(i), Text(f"What is {i} mod 7?"))), i % 7, "count")


@pytest.mark.parametrize("service", ["messages", "responses"])
def test_images_above_the_limit_are_counted_once_each_though_a_row_is_asked_twice(service, tmp_path):
    def outcome(question, before):
        return "error500" if before == 0 and " 4 " in question else "ok"

    spec = RunSpec(
        benchmark="wide",
        model=MODELS[service],
        options=ModelOptions(patience_s=30.0, responses=service == "responses"),
        batch=True,
        poll_s=0.05,
    )
    benchmark = dataclasses.replace(PICTURED, name="wide", samples=wide_samples, size=lambda data: 10)
    with BatchServer(Plan(answer=arithmetic_answer, outcome=outcome)) as server:
        spec = structs.replace(spec, options=structs.replace(spec.options, base_url=server.address(service)))
        run = perform(spec, RunFolder(tmp_path), benchmark=benchmark, backoff=Backoff(base_s=0.01, patience_s=30.0))
        assert server.faults == []
    assert {r.sample_id: r.response.oversized_images for r in records(tmp_path) if r.response} == {
        f"q{i}": int(i % 2 == 0) for i in range(10)
    }
    assert run.meta.totals.oversized_images == 5
    (caveat,) = [each.text for each in caveats(run.meta, state="complete") if each.about == "pictures"]
    assert "may have scaled 5 images that were larger than its limit down" in caveat


def test_batches_of_an_older_version_have_no_count(tmp_path):
    run_with = Record("q0", "ok", response=Response("1", batch="b1", oversized_images=2))
    without = Record("q1", "ok", response=Response("1", batch="b1"))
    for rows, count in (([run_with], 2), ([run_with, without], None)):
        (tmp_path / "results.jsonl").unlink(missing_ok=True)
        journal = Journal(tmp_path / "results.jsonl")
        for row in rows:
            journal.append(row)
        journal.close()
        totals, _ = read_state(RunFolder(tmp_path), Damage(tmp_path / "results.jsonl"))
        assert totals.oversized_images == count
