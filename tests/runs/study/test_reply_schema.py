"""Replies by a JSON Schema: what is sent, who refuses it, and how each profile reads what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from runs.study.conftest import NotingModel, row
from snellen.benchmarks.structured import MOST_BYTES, automatic_schema, checked_schema
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import FingerprintError, MissingExtraError, UsageError
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.runs.perform import perform
from snellen.runs.scoring import by_reader
from snellen.scoring.scorers import by_kind, reading_of
from snellen.scoring.scores import score_record
from snellen.scoring.structured import MOST_CHECKS, answer_in, reading_answers
from snellen.types import Generation, Prompt, Record, Response, Sample, Text

OWN = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "answer": {"$ref": "#/$defs/letter"}},
    "required": ["reasoning", "answer"],
    "$defs": {"letter": {"enum": ["A", "B"]}},
}


class Structured(NotingModel):
    supports = NotingModel.supports | {"schema"}


def schemas(model: NotingModel) -> list[object]:
    return [prompt.generation and prompt.generation.reply_schema for prompt in model.prompts]


def test_each_question_carries_the_letters_of_its_own_options(table: Callable[..., Path], tmp_path: Path):
    three = {**row("t2", "2.png"), "C": "hen"}
    path = table("t.jsonl", [row("t1", "1.png"), three])
    model = Structured('{"answer": "C"}')
    run = snellen.evaluate(str(path), model, schema="auto+reasoning", out=tmp_path / "run")
    sent = [schema["properties"] for schema in schemas(model)]
    assert [list(properties) for properties in sent] == [["reasoning", "answer"]] * 2
    assert sorted(properties["answer"]["enum"] for properties in sent) == [list("AB"), list("ABC")]
    model.prompts.clear()
    run = snellen.evaluate(str(path), model, schema="auto", out=tmp_path / "run2")
    assert sorted(schema["properties"]["answer"]["enum"] for schema in schemas(model)) == [list("AB"), list("ABC")]
    assert run.meta.identity["schema"] == run.meta.spec.schema == "auto"
    rows = {
        each["id"]: each for each in map(json.loads, (tmp_path / "run2" / "predictions.jsonl").read_text().splitlines())
    }
    assert [rows[name]["extracted"] for name in ("t1", "t2")] == [None, "C"]
    assert rows["t1"]["reason"] == "outside the schema: answer: 'C' is not one of ['A', 'B']"


def test_without_a_schema_a_run_keeps_its_fingerprint_and_with_one_it_is_another_run(tested: Path, tmp_path: Path):
    plain = snellen.evaluate(str(tested), Structured(), out=tmp_path / "run")
    assert "schema" not in plain.meta.identity
    with pytest.raises(FingerprintError, match="schema"):
        snellen.evaluate(str(tested), Structured(), schema="auto", out=tmp_path / "run")
    file = tmp_path / "own.json"
    file.write_text(json.dumps(OWN))
    first = snellen.evaluate(str(tested), Structured("{}"), schema=str(file), out=tmp_path / "own")
    file.unlink()  # its content is part of the run
    assert first.meta.spec.schema == OWN
    assert snellen.evaluate(str(tested), Structured("{}"), schema=OWN, out=tmp_path / "own").meta.fingerprint == (
        first.meta.fingerprint
    )


def test_the_strict_profile_reads_the_field_and_others_the_reply_as_it_stands(tested: Path, tmp_path: Path):
    reply = '{"reasoning": "It is no A.", "answer": "B"}'
    run = snellen.evaluate(str(tested), Structured(reply), schema=OWN, out=tmp_path / "run")
    again = snellen.load_run(tmp_path / "run")
    assert (again.metric("accuracy", "strict").value, again.metric("invalid", "strict").value) == (0.5, 0.0)
    plain = snellen.evaluate(str(tested), Structured(reply), out=tmp_path / "plain")
    for profile in [name for name in run.benchmark.score if name != "strict"]:
        assert run.figures(profile) == plain.figures(profile)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("agent:opencode", "cannot use a schema of its reply. An agent decides"),
        ("replay:{}", "A file of answers was written already"),
        ("tools:m", "several replies"),
    ],
)
def test_a_model_that_has_no_schema_is_refused_by_name(tested: Path, tmp_path: Path, model: str, words: str):
    (answers := tmp_path / "answers.jsonl").write_text('{"id": "t0", "reply": "A"}\n')
    address = None if model.startswith("replay") else "http://127.0.0.1:9/v1"
    options = ModelOptions(base_url=address, agent_model="x/m" if model.startswith("agent") else None)
    spec = RunSpec(benchmark=str(tested), model=model.format(answers), options=options, schema="auto")
    with pytest.raises(UsageError, match=words):
        perform(spec, RunFolder(tmp_path / "run"), trust=True)
    assert not (tmp_path / "run").exists()


def test_a_local_model_without_the_extra_is_refused_by_name(tested: Path, tmp_path: Path, monkeypatch):
    from snellen.models.local import model as local

    find = local.find_spec
    monkeypatch.setattr(local, "find_spec", lambda name: None if name == "llguidance" else find(name))
    assert "schema" not in open_model("embedded", ModelOptions()).supports
    spec = RunSpec(benchmark=str(tested), model="embedded", schema="auto")
    with pytest.raises(MissingExtraError, match="llguidance, which is not installed"):
        perform(spec, RunFolder(tmp_path / "run"), trust=True)


def test_a_body_with_a_form_of_its_own_and_a_schema_exclude_each_other(tested: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="response_format"):
        snellen.evaluate(
            str(tested),
            "api:m",
            base_url="http://127.0.0.1:9/v1",
            extra_body={"response_format": {"type": "json_object"}},
            schema="auto",
            out=tmp_path / "run",
        )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]", "an object, was expected"),
        ("{", "not JSON"),
        ('{"minimum": NaN}', "not JSON"),
        ('{"title": "\\ud800"}', "not JSON"),
        ('{"$schema": 7}', "an address was expected"),
        ('\ufeff{"type": "any"}', "no JSON Schema: type"),
        ('{"type": "strnig"}', "no JSON Schema: type"),
        ('{"$ref": "https://example.org/s.json"}', "refers to 'https://example.org/s.json'"),
        ('{"properties": {"a": {"$ref": "file:///etc/passwd"}}}', "itself alone"),
        ('{"$ref": "#/$defs/none"}', "which it does not hold"),
        ('{"a": "' + "x" * MOST_BYTES + '"}', "more than 65,536 bytes"),
        ('{"a":' * 9000 + "1" + "}" * 9000, "not JSON|nested"),
    ],
)
def test_what_is_no_schema_of_its_own_is_refused_before_a_request(tmp_path: Path, content: str, words: str):
    (path := tmp_path / "s.json").write_text(content)
    with pytest.raises(UsageError, match=words):
        checked_schema(str(path))


def test_a_name_that_is_no_file_is_answered_with_the_nearest_word():
    with pytest.raises(UsageError, match="no such file") as fault:
        checked_schema("atuo")
    assert "auto" in f"{fault.value.hint}"


def shown(kind: str, target: object, schema: object, options: object = (), **meta: object) -> Sample:
    return Sample(
        "1",
        Prompt((Text("Which?"),), generation=Generation(reply_schema=schema)),
        target,
        kind,
        dict(options),
        meta=meta,
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"answer": "B"}', None),
        ('<think>{"answer": "A"}</think>\n```json\n{"answer": "B"}\n```', None),
        ('\ufeff{"answer": "B"}', None),
        ('```JSON\n{"answer": "B"}\n```', None),
        ('{"answer": "B", "answer": "A"}', "invalid JSON: a field occurs twice, so that there are two answers"),
        ("B", "invalid JSON: expecting value"),
        ('{"answer": "B"', "invalid JSON: it ends too early"),
        ('{"answer": "D"}', "outside the schema: answer: 'D' is not one of ['A', 'B']"),
        ('{"answer": NaN}', "invalid JSON: a number or its nesting is out of bounds"),
        ("[" * 100_000, "invalid JSON: a number or its nesting is out of bounds"),
        ("<think>hm", "reasoning not finished"),
        ("", "empty reply"),
    ],
)
def test_a_reply_is_its_field_or_unparseable_with_the_reason(reply: str, reason: str | None):
    options = {"A": "robin", "B": "wren"}
    schema = automatic_schema(Sample("1", Prompt((Text("Which?"),)), "B", "choice", options))
    sample = shown("choice", "B", schema, options)
    score, reading = reading_answers(by_kind)(sample, reply), reading_of(sample, reply)
    assert reading is not None and score.reason == reading.reason == reason
    assert score.verdict == ("correct" if reason is None else "invalid")
    assert reason or (reading.stage, reply[slice(*reading.places[0])]) == ("declared", "B")


@pytest.mark.parametrize("steps", ["<think>hm", "A?</think>", "```", "<answer>A</answer>"])
def test_marks_of_thinking_inside_of_the_json_are_text(steps: str):
    sample = shown("choice", "B", OWN, {"A": "robin", "B": "wren"})
    reply = json.dumps({"reasoning": steps, "answer": "B"})
    assert reading_answers(by_kind)(sample, reply).verdict == "correct"


@pytest.mark.parametrize(
    ("kind", "target", "reply"),
    [
        ("text", "x", '{"answer": "\\ud800"}'),
        ("json", '{"a": "x"}', '{"\\ud83d": ["\\ud800"]}'),
        ("list", "a, b", '{"answer": ["\\ud800"]}'),
    ],
)
def test_half_a_surrogate_pair_in_a_reply_is_wrong_and_can_be_written(kind: str, target: str, reply: str):
    schema = automatic_schema(shown(kind, target, None)) if kind != "json" else None
    record = Record("1", "ok", 0, Response(reply))
    score = score_record(shown(kind, target, schema), record, reading_answers(by_kind))
    assert score.value == 0.0
    assert "\\\\ud8" in msgspec.json.encode(score).decode()


def test_a_readers_quote_of_a_reply_that_broke_its_schema_is_read_as_text():
    options = {"A": "robin", "B": "wren"}
    sample = shown("choice", "B", OWN, options)
    record = Record("1", "ok", 0, Response("Surely the wren, sir."))
    scorer = reading_answers(by_kind)
    unread = score_record(sample, record, scorer)
    assert unread.verdict == "invalid"
    score = by_reader(sample, record, '{"quote": "wren", "option": "B"}', scorer, unread)
    assert (score.verdict, score.extracted, score.detail["stage"]) == ("correct", "B", "reader")


KINDS = st.sampled_from(
    [
        ("choice", "B", "B", {"A": "robin", "B": "wren"}),
        ("multi-choice", ("A", "B"), ["B", "A"], {"A": "robin", "B": "wren"}),
        ("choice_text", "wren", "wren", {"A": "robin", "B": "wren"}),
        ("truth", False, "no", {}),
        ("count", 3, 3, {}),
        ("number", 2.5, 2.5, {}),
        ("text", 'No "Smoking"', 'No "Smoking"', {}),
        ("name", "red kite", "Red Kite", {}),
        ("list", '["b, c", "a"]', ["a", "b, c"], {}),
        ("date", "2024-03-01", "1 March 2024", {}),
        ("quantity", "3 kg", "3 kg", {}),
        ("box", "[1, 2, 30, 40]", {"x1": 1, "y1": 2, "x2": 30, "y2": 40}, {}),
        ("point", "[1, 2, 30, 40]", {"x": 9, "y": 9.5}, {}),
        ("boxes", "[[1, 2, 30, 40]]", [{"x1": 1, "y1": 2, "x2": 30, "y2": 40}], {}),
        ("formula", "x^2", "x^2", {}),
    ]
)


@given(case=KINDS, reasoning=st.none() | st.text(max_size=60), indent=st.sampled_from([None, 2]))
def test_the_gold_answer_by_its_automatic_schema_is_right_whatever_the_reasoning_says(case, reasoning, indent):
    kind, target, value, options = case
    schema = automatic_schema(shown(kind, target, None, options), reasoning=reasoning is not None)
    reply = ({} if reasoning is None else {"reasoning": reasoning}) | {"answer": value}
    score = reading_answers(by_kind)(shown(kind, target, schema, options), json.dumps(reply, indent=indent))
    assert (score.verdict, score.value) == ("correct", 1.0), score


def test_a_schema_and_a_reply_that_multiply_each_other_end_with_a_reason():
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)} | {"d60": {}}
    answer = answer_in({"$ref": "#/$defs/d0", "$defs": doubled}, "{}")
    assert answer.fault == f"outside the schema: it takes more than {MOST_CHECKS:,} checks"
    backtracking = {"type": "object", "properties": {"answer": {"type": "string", "pattern": "^(a+)+$"}}}
    assert not answer_in(backtracking, json.dumps({"answer": "a" * 60 + "!"})).fault


@pytest.mark.parametrize(
    ("schema", "answer", "reason"),
    [
        ({"multipleOf": 0.01}, "19.99", ""),
        ({"multipleOf": 0.01}, "19.995", "not a multiple"),
        ({"multipleOf": 3}, "1e999", "not a multiple"),
        ({"uniqueItems": True}, '[1, true, "1", [1], {"a": 1}, {"a": true}]', ""),
        ({"uniqueItems": True}, '[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]', "equal items"),
        ({"uniqueItems": True}, json.dumps([{"a": number} for number in range(15_000)]), ""),  # minutes in pairs
        ({}, '"A", "answer": "B"', "a field occurs twice"),
    ],
)
def test_what_a_schema_says_of_numbers_lists_and_fields_is_checked_as_json_means_it(schema, answer, reason):
    fault = answer_in({"properties": {"answer": schema}}, f'{{"answer": {answer}}}').fault
    assert reason in fault and bool(reason) == bool(fault)


def test_half_an_emoji_in_a_reply_is_scored_and_written(tmp_path: Path):
    (tmp_path / "t.jsonl").write_text(
        '{"id": "t", "question": "?", "answer": "x"}\n{"id": "j", "question": "?", "answer": {"a": "x"}, "kind": "json"}\n'
    )
    model = Structured('{"a": "\\ud83d", "answer": "\\uD83D"}')
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    for name, by in (("plain", None), ("by schema", schema)):
        run = snellen.evaluate(str(tmp_path / "t.jsonl"), model, schema=by, out=tmp_path / name)
        assert len((run.path / "predictions.jsonl").read_text().splitlines()) == 2
        assert run.scores().num_rows == 2


def test_a_kind_whose_fields_are_gold_has_no_automatic_schema(table: Callable[..., Path], tmp_path: Path):
    sample = Sample("q7", Prompt((Text("Describe it."),)), '{"colour": "red"}', "json")
    with pytest.raises(UsageError, match="q7 asks for a JSON object"):
        automatic_schema(sample)
