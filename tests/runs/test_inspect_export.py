"""`snellen export --format inspect`: one log that Inspect's own layout describes, and that gives the same figures when read."""

from __future__ import annotations

import base64
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import snellen
from engine.stubs import ARITHMETIC, Calculator
from runs.animals import ANIMALS, GOLD, IDS, PICTURES, Zoologist
from snellen.benchmarks import registry
from snellen.errors import BadRequestError, UsageError
from snellen.formats.inspect_log import safe_id
from snellen.redaction import register
from snellen.runs.interchange.source import ExportSettings
from snellen.types import Prompt, Response


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, benchmark in {"animals": "ANIMALS", "arithmetic": "ARITHMETIC"}.items():
        monkeypatch.setitem(registry.BUILT_IN, name, f"{__name__}:{benchmark}")
    monkeypatch.chdir(tmp_path)


def members(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def exported(run: snellen.Run, out: str = "out", **settings: Any) -> Path:
    (path,) = snellen.export(run, "inspect", out=out, **settings).files
    assert path.suffix == ".eval"
    return path


def logged(log: dict[str, Any]) -> list[dict[str, Any]]:
    return [content for name, content in log.items() if name.startswith("samples/")]


def test_a_log_has_the_members_of_inspect_and_a_scorer_for_each_profile():
    run = snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)
    log = members(exported(run))
    assert {"_journal/start.json", "summaries.json", "header.json"} < log.keys()
    header = log["header.json"]
    assert header["version"] == 2 and header["status"] == "success"
    assert {"created", "task", "dataset", "model", "config"} <= header["eval"].keys()
    assert [score["name"] for score in header["results"]["scores"]] == ["strict", "lenient"]
    for score in header["results"]["scores"]:
        metric = run.metric("accuracy", score["name"])
        assert score["metrics"]["accuracy"]["value"] == metric.value
        assert metric.ci95 is not None
        ends = [score["metrics"][name]["value"] for name in ("ci_lower", "ci_upper")]
        assert ends == list(metric.ci95)
    assert header["results"]["total_samples"] == len(IDS) == len(log["summaries.json"])
    assert header["stats"]["model_usage"]["snellen/zoologist"]["input_tokens"] == 40 * 6


def test_a_sample_holds_question_image_choices_target_reply_usage_and_scores():
    run = snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)
    first, second = logged(members(exported(run)))[:2]
    assert [message["role"] for message in first["input"]] == ["system", "user", "assistant", "user"]
    image, text = first["input"][-1]["content"]
    assert image["image"] == "data:image/png;base64," + base64.b64encode(PICTURES["plain"]).decode()
    assert text["text"] == "Which animal is on image 0?"
    assert first["choices"] == ["Phascolarctos", "Vombatus", "Macropus"]
    assert first["target"] == ["Phascolarctos", "koala"] and first["epoch"] == 1
    (choice,) = first["output"]["choices"]
    assert choice["message"]["content"] == [
        {"type": "reasoning", "reasoning": "I saw ears"},
        {"type": "text", "text": "The Phascolarctos."},
    ]
    assert choice["stop_reason"] == "stop" and first["output"]["completion"] == "The Phascolarctos."
    assert second["output"]["choices"][0]["stop_reason"] == "max_tokens"
    assert first["output"]["usage"] == {
        "input_tokens": 40,
        "output_tokens": 20,
        "total_tokens": 120,
        "input_tokens_cache_read": 60,
        "reasoning_tokens": 5,
    }
    assert first["scores"]["strict"]["value"] == "C" and second["scores"]["strict"]["value"] == "I"
    assert first["scores"]["strict"]["explanation"] == "the target is Phascolarctos"


def test_failures_are_errors_of_their_samples_and_refusals_end_by_a_filter():
    run = snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)
    log = members(exported(run))
    errors = [sample["error"]["message"] for sample in logged(log) if "error" in sample]
    assert any("too long" in message for message in errors)
    assert all(sample["scores"]["strict"]["value"] == "I" for sample in logged(log) if "error" in sample)
    assert sum("error" in line for line in log["summaries.json"]) == len(errors)


def test_no_member_leads_out_of_a_folder_and_every_id_finds_its_member():
    run = snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)
    log = members(exported(run))
    for name in log:
        assert not name.startswith("/") and ".." not in name.split("/") and "\\" not in name and len(name) < 250
    originals = set()
    for line in log["summaries.json"]:
        sample = log[f"samples/{line['id']}_epoch_{line['epoch']}.json"]
        assert sample["id"] == line["id"]
        originals.add(sample["metadata"]["snellen"]["sample_id"])
    assert originals == set(IDS)
    assert safe_id("a/b") == "a/b" and safe_id("a//b") != "a//b" and safe_id("") != safe_id(" ")


def test_repeats_are_epochs():
    run = snellen.evaluate(ARITHMETIC, Calculator(), out="run", repeats=3, limit=4)
    samples = logged(members(exported(run)))
    assert [(sample["id"], sample["epoch"]) for sample in samples] == [
        (f"q{i}", epoch) for i in range(4) for epoch in (1, 2, 3)
    ]


def test_the_status_of_a_log_is_that_of_the_run():
    run = snellen.evaluate(ARITHMETIC, Calculator(), out="run", limit=4)
    lines = run.folder.results.read_bytes().splitlines(keepends=True)
    run.folder.results.write_bytes(b"".join(lines[:2]))
    run.folder.write_meta(structs.replace(run.meta, state="running", records=2))
    unfinished = snellen.load_run("run")
    log = members(exported(unfinished, "partial"))
    assert log["header.json"]["status"] == "cancelled" and len(logged(log)) == 2
    with unfinished.folder.locked():
        assert members(exported(unfinished, "running"))["header.json"]["status"] == "started"
    failing = Calculator(fail={number: [BadRequestError("no")] for number in range(3)})
    failed = snellen.evaluate(ARITHMETIC, failing, out="failed", limit=3, max_attempts=1)
    header = members(exported(failed, "nothing"))["header.json"]
    assert header["status"] == "error" and header["error"]["message"]
    assert "accuracy" not in header["results"]["scores"][0]["metrics"]


def test_without_gold_no_byte_of_the_log_tells_a_gold_answer():
    run = snellen.evaluate(replace(ANIMALS, name="animals"), Zoologist(), out="run", concurrency=1)
    path = exported(run, no_gold=True)
    log = members(path)
    text = json.dumps(log).lower()
    for samples_of in logged(log):
        assert samples_of["target"] == "" and "evidence" not in samples_of["metadata"]
        del samples_of["choices"]  # all options, as the question has them
        samples_of["input"] = [message for message in samples_of["input"] if message["role"] == "user"]
    text = json.dumps(log).lower()
    for gold in GOLD:
        assert gold not in text
    assert "vombatus" in text and "brno" in text
    assert members(exported(run, "with"))["header.json"]["results"] == log["header.json"]["results"]


def test_a_form_that_cannot_withhold_gold_is_refused_without_it():
    run = snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)
    for form in ("lmms-eval", "vlmevalkit", "atif"):
        with pytest.raises(UsageError, match="replies that tell them"):
            snellen.export(run, form, no_gold=True)


def test_the_system_text_of_a_run_is_part_of_the_question():
    run = snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1, system="You are a zoologist.")
    for no_gold in (False, True):
        first = logged(members(exported(run, f"out-{no_gold}", no_gold=no_gold)))[0]
        assert first["input"][0] == {"role": "system", "content": "You are a zoologist.\n\nBe brief."}


def test_a_restricted_benchmark_is_exported_without_gold_unless_it_is_asked_for():
    run = snellen.evaluate(RESTRICTED, Zoologist(), out="run", concurrency=1)
    outcome = snellen.export(run, "inspect", out="hidden")
    assert any("withheld" in note for note in outcome.notes)
    assert all(sample["target"] == "" for sample in logged(members(outcome.files[0])))
    outcome = snellen.export(run, "inspect", out="shown", show_gold=True)
    assert logged(members(outcome.files[0]))[0]["target"]
    with pytest.raises(UsageError, match="exclude each other"):
        snellen.export(run, "inspect", show_gold=True, no_gold=True)


RESTRICTED = replace(ANIMALS, restricted=True)


def test_a_log_holds_no_image_if_none_is_wanted():
    run = snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)
    assert "data:image" not in json.dumps(members(exported(run, settings=ExportSettings(images=False))))


def test_the_same_run_gives_the_same_bytes_and_no_key_or_path_of_the_machine(tmp_path: Path):
    register("correct-horse-battery-7731")

    class Talkative(Zoologist):
        async def answer(self, prompt: Prompt) -> Response:
            return Response("my key is correct-horse-battery-7731")

    run = snellen.evaluate(ANIMALS, Talkative(), out="run", concurrency=1)
    first, second = exported(run, "first"), exported(run, "second")
    assert first.read_bytes() == second.read_bytes() and first.name == second.name
    text = json.dumps(members(first))
    assert "correct-horse" not in text and str(tmp_path) not in text
