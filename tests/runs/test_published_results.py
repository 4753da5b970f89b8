"""Exports for Every Eval Ever and the Hugging Face hub: valid, the same each time, with intervals, and without gold if wanted."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub._eval_results import parse_eval_result_entries
from msgspec import structs

import snellen
from runs.animals import ANIMALS, GOLD, IDS, PICTURES, Zoologist
from runs.eee_schema import AGGREGATE, INSTANCE
from snellen.benchmarks import registry
from snellen.errors import UsageError
from snellen.models import trace
from snellen.models.trace import Step
from snellen.runs.interchange.source import ExportSettings
from snellen.scoring.metrics import accuracy
from snellen.types import Metric, Prompt, Response

HUB = ExportSettings(dataset="zoo/animals@abc123", task="names")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "animals", "runs.animals:ANIMALS")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run() -> snellen.Run:
    return snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)


def published(run: snellen.Run, out: str = "eee", **settings: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The aggregate and its rows, after the checks that the datastore makes."""
    aggregate_path, rows_path = snellen.export(run, "eee", out=out, **settings).files
    aggregate = json.loads(aggregate_path.read_text(), parse_constant=pytest.fail)
    lines = rows_path.read_text().splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    jsonschema.validate(aggregate, AGGREGATE)
    for row in rows:
        jsonschema.validate(row, INSTANCE)
        assert row["evaluation_id"] == aggregate["evaluation_id"] and row["model_id"] == aggregate["model_info"]["id"]
    details = aggregate["detailed_evaluation_results"]
    assert rows_path == Path(out) / details["file_path"] and details["total_rows"] == len(rows) == sum(map(bool, lines))
    assert details["checksum"] == hashlib.sha256(rows_path.read_bytes()).hexdigest()
    results = {result["evaluation_result_id"] for result in aggregate["evaluation_results"]}
    assert {row["evaluation_result_id"] for row in rows} <= results
    return aggregate, rows


def test_every_eval_ever_gets_each_profile_with_its_interval_and_one_row_per_answer(run: snellen.Run):
    aggregate, rows = published(run)
    assert len(rows) == 2 * len(IDS)
    for result in aggregate["evaluation_results"]:
        metric = run.metric(
            result["metric_config"]["metric_id"], result["metric_config"]["metric_parameters"]["profile"]
        )
        details = result["score_details"]
        assert details["score"] == metric.value and details["uncertainty"]["num_samples"] == metric.n
        ends = details["uncertainty"]["confidence_interval"]
        assert metric.ci95 == (ends["lower"], ends["upper"])
    for profile in ("strict", "lenient"):
        scores = [row["evaluation"]["score"] for row in rows if row["evaluation_result_id"].split("/")[1] == profile]
        assert sum(scores) / len(scores) == pytest.approx(run.metric("accuracy", profile).value)
    first = rows[0]
    assert first["input"]["reference"] == ["Phascolarctos", "koala"] and first["output"]["raw"] == [
        "The Phascolarctos."
    ]
    assert first["token_usage"]["input_tokens"] == 100 and first["token_usage"]["input_tokens_cache_read"] == 60
    assert first["metadata"]["images_sha256"] == hashlib.sha256(PICTURES["plain"]).hexdigest()
    assert any("too long" in row.get("error", "") for row in rows)


def test_the_same_run_has_the_same_uuid_and_bytes(run: snellen.Run):
    first = [path.read_bytes() for path in snellen.export(run, "eee", out="a").files]
    second = [path.read_bytes() for path in snellen.export(run, "eee", out="b").files]
    assert first == second
    names = {snellen.export(run, "eee", out="c", no_gold=no_gold).files[0].name for no_gold in (False, True)}
    assert len(names) == 2


def test_the_layout_and_names_follow_the_model(run: snellen.Run):
    settings = ExportSettings(model_id="Org/Model-7B", organization="A lab", relationship="third_party")
    aggregate, _ = published(run, settings=settings)
    assert aggregate["detailed_evaluation_results"]["file_path"].startswith("data/animals/Org/Model-7B/")
    assert aggregate["model_info"]["id"] == "Org/Model-7B"
    assert aggregate["source_metadata"]["source_organization_name"] == "A lab"
    hostile = ExportSettings(model_id="../../x/..")
    path = snellen.export(run, "eee", out="hostile", settings=hostile).files[0]
    assert Path("hostile").resolve() in path.resolve().parents and ".." not in path.parts
    with pytest.raises(UsageError, match="first_party"):
        snellen.export(run, "eee", settings=ExportSettings(relationship="friend"))


def test_rows_without_gold_have_no_reference_and_no_reply_that_tells_it(run: snellen.Run):
    aggregate, rows = published(run, no_gold=True)
    for row in rows:
        assert row["input"]["reference"] == []
        del row["input"]["choices"]
    text = json.dumps([aggregate, rows]).lower()
    assert not [gold for gold in GOLD if gold in text]
    assert "vombatus" in text


def test_metrics_without_a_value_are_left_out_and_metrics_without_bounds_say_so():
    metrics = [
        Metric("threshold/gap", 3.5, 10, (2.0, 7.0), "px", lower_is_better=True),
        Metric("threshold/blur", None, 0, None, "px"),
    ]
    measured = replace(ANIMALS, summarize=lambda scores, profile: [accuracy(scores), *metrics])
    run = snellen.evaluate(measured, Zoologist(), out="run", concurrency=1)
    aggregate, _ = published(run)
    results = {result["metric_config"]["metric_id"]: result for result in aggregate["evaluation_results"]}
    assert set(results) == {"accuracy", "threshold/gap"}
    config = results["threshold/gap"]["metric_config"]
    assert (config["min_score"], config["max_score"], config["metric_unit"]) == ("-Infinity", "Infinity", "px")
    assert config["lower_is_better"]
    assert any("2 metrics are left out" in note for note in snellen.export(run, "eee").notes)


def test_an_agents_steps_are_messages_with_their_tool_calls():
    class Agent(Zoologist):
        def identity(self) -> dict[str, Any]:
            return {"kind": "agent", "agent": "zoo", "version": "1", "model": "m"}

        async def answer(self, prompt: Prompt) -> Response:
            steps = [
                Step(0, "user", "Which animal?"),
                Step(1, "assistant", "I look it up."),
                Step(1, "tool", tool="search", arguments={"q": "ears", "n": 3}, result="a koala"),
                Step(2, "assistant", "Phascolarctos"),
            ]
            return Response("Phascolarctos", trace=trace.plain(steps))

    run = snellen.evaluate(ANIMALS, Agent(), out="agent", concurrency=1)
    _, rows = published(run)
    messages = rows[0]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[2]["tool_calls"] == [{"id": "call_3", "name": "search", "arguments": {"q": "ears", "n": "3"}}]
    assert rows[0]["evaluation"]["tool_calls_count"] == 1 and rows[0]["interaction_type"] == "agentic"
    _, hidden = published(run, "hidden", no_gold=True)
    assert hidden[0]["interaction_type"] == "single_turn" and "koala" not in json.dumps(hidden).lower()


def test_the_hub_gets_one_yaml_that_its_own_parser_reads(run: snellen.Run):
    results, card = snellen.export(run, "hf", out="hf", settings=HUB).files
    assert [path.parent.name for path in Path("hf").rglob("*.yaml")] == [".eval_results"]
    (entry,) = parse_eval_result_entries(yaml.safe_load(results.read_text()))
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == ("zoo/animals", "names", "abc123")
    value = run.metric("accuracy").value
    assert value is not None and entry.value == pytest.approx(100 * value)
    assert isinstance(entry.date, str) and "n=8" in str(entry.notes) and "95% CI" in str(entry.notes)
    parsed = ModelCard(card.read_text()).data.eval_results
    assert parsed is not None and [result.metric_value for result in parsed] == pytest.approx(
        [100 * (run.metric("accuracy", profile).value or 0.0) for profile in ("strict", "lenient")]
    )


def test_the_hub_export_needs_a_data_set_and_a_task(run: snellen.Run):
    with pytest.raises(UsageError, match="missing: --dataset, --task") as error:
        snellen.export(run, "hf")
    assert "--dataset OWNER/NAME" in error.value.hint
    with pytest.raises(UsageError, match="no id of the hub"):
        snellen.export(run, "hf", settings=ExportSettings(dataset="just-a-name", task="t"))


@pytest.mark.parametrize(
    ("model", "base_url", "developer"),
    [
        ("anthropic:claude-x", None, "anthropic"),
        ("gemini:gemini-x", None, "google"),
        ("openai:my-own", None, "unknown"),
        ("anthropic:claude-x", "http://127.0.0.1:9/v1", "unknown"),
        ("api:claude-x", None, "unknown"),
        ("openrouter:lab/m", None, "lab"),
    ],
)
def test_a_providers_own_endpoint_tells_the_developer(run, model, base_url, developer):
    """The kind of model alone does not: its protocol is spoken by other servers too."""
    spec = run.meta.spec
    run.meta = structs.replace(
        run.meta, spec=structs.replace(spec, model=model, options=structs.replace(spec.options, base_url=base_url))
    )
    aggregate, _ = published(run)
    assert aggregate["model_info"]["developer"] == developer
