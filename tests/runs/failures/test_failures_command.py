"""Why answers were not correct: rules over traces made by hand, and a person's decisions over the rules."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from snellen.cli import main
from snellen.errors import DataError
from snellen.models import trace
from snellen.models.trace import Step
from snellen.runs.failures import answers, review, rules
from snellen.types import Failure, Prompt, Record, Response, Sample, Score, Text

pytestmark = pytest.mark.usefixtures("printed_as_schema")

GOLD = Sample("a", Prompt((Text("Which camera?"),)), "Canon EOS R5", "short", meta={"aliases": ["Canon R5"]})
WRONG = Score(0.0, "Nikon Z9", "wrong")


def label(
    answer: str | None,
    *steps: Step,
    finish: str = "stop",
    score: Score = WRONG,
    status: str = "ok",
    tools: tuple[str, ...] = ("web_search", "fetch_url"),
) -> str:
    response = Response(answer or "", finish_reason=finish) if status == "ok" else None
    record = Record("a", status, response=response)  # type: ignore[arg-type]
    return rules.proposed(rules.signals(GOLD, record, score, list(steps) or None, answer, tools))


def search(result: str, *, error: bool = False) -> Step:
    return Step(1, "tool", tool="web_search", arguments={"query": "camera"}, result=result, error=error)


SAID = Step(2, "assistant", "It is a Nikon Z9")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (label(None, status="timeout"), "timeout"),
        (label("Nikon Z9", SAID, finish="image_never_seen"), "image_never_seen"),
        (label(None, score=Score(0.0, None, "invalid", "it is empty")), "format"),
        (label("Canon", SAID), "too_coarse"),
        (label("Nikon Z9", SAID), "no_search"),
        (label("Nikon Z9", SAID, tools=()), "unknown"),
        (label("Nikon Z9", SAID, tools=("crop_zoom", "python")), "unknown"),  # it could not have searched
        (label("Nikon Z9", Step(1, "tool", tool="exec", arguments={"command": "./web_search --query it"})), "unknown"),
        (label("Nikon Z9", search("The Canon EOS-R5 is a camera"), SAID), "evidence_ignored"),
        (label("Nikon Z9", search("The Nikon Z9 is a camera"), SAID), "wrong_entity_retrieved"),
        (label("Nikon Z9", search("The Nikon Z9 and the Canon EOS R5"), SAID), "unknown"),
        (label("Nikon Z9", search("no Nikon Z9 here", error=True), SAID), "unknown"),
        (label("Nikon Z9", search("Nikon Z90"), SAID), "unknown"),
        (label("Nikon Z9"), "unknown"),  # no trace of steps: nothing is known of searches
    ],
)
def test_signals_lead_to_the_label_of_the_table(found, expected):
    assert found == expected


def test_every_rule_gives_a_label_of_the_list():
    table = rules.table()
    assert {rule.label for rule in table.rule} < set(table.labels)


def test_a_label_or_a_line_that_is_none_is_refused_with_its_place(tmp_path: Path):
    path = tmp_path / "review.jsonl"
    path.write_text('{"sample_id": "a", "label": "no_search"}\n\n{"sample_id": "b", "label": "lazy"}\n')
    with pytest.raises(DataError, match="line 3: no such label: 'lazy'"):
        review.read_review(path)
    path.write_text('{"sample_id": "a", "label": "no_search"}\n{"sample_id": "a", "label": "timeout", "by": "me"}\n')
    assert review.read_review(path)["a", 0].label == "timeout"


def test_a_run_is_labelled_from_its_traces_and_a_person_overrides_the_rules(tmp_path, monkeypatch, capsys):
    from snellen.benchmarks.base import Data
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.run import load_run

    monkeypatch.chdir(tmp_path)
    assert main(["run", "chart/creatures", "-m", "embedded", "--limit", "4", "--out", "run", "-q"]) == 0
    folder = RunFolder(Path("run"))
    records = sorted(folder.records(), key=lambda one: one.sample_id)
    empty = [msgspec.structs.replace(one, response=Response("?")) for one in records]
    folder.results.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in empty))
    assert isinstance(load_run("run").meta.spec.data, Data)
    review = Path("review.jsonl")
    review.write_text(json.dumps({"sample_id": records[0].sample_id, "label": "poor_visual_judgement"}) + "\n")
    capsys.readouterr()
    assert main(["failures", "run", "--review", "review.jsonl", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    held = {one["sample_id"]: (one["label"], one["source"]) for one in run["answers"]}
    assert held.pop(records[0].sample_id) == ("poor_visual_judgement", "person")
    assert set(held.values()) == {("format", "rule")} and len(held) == 3
    assert run["counts"]["format"] == {"rule": 3, "person": 0, "none": 0}


def test_samples_without_an_answer_are_counted_apart_from_incorrect_ones(tmp_path, monkeypatch, capsys):
    from snellen.engine.run_folder import RunFolder

    monkeypatch.chdir(tmp_path)
    assert main(["run", "chart/creatures", "-m", "embedded", "--limit", "4", "--out", "run", "-q"]) == 0
    folder = RunFolder(Path("run"))
    records = sorted(folder.records(), key=lambda record: record.sample_id)
    error = Failure("server", "HTTP 500: boom")
    for lost, heading in ((1, "3 incorrect, 1 without an answer"), (4, "4 without an answer")):
        rows = [
            structs.replace(record, status="error", response=None, error=error)
            if number < lost
            else structs.replace(record, response=Response("?"))
            for number, record in enumerate(records)
        ]
        folder.results.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        capsys.readouterr()
        assert main(["failures", "run"]) == 0
        assert capsys.readouterr().out.splitlines()[0].endswith(f": {heading}")


def test_the_last_trace_of_an_answer_is_read_and_an_exchange_with_a_server_is_none(tmp_path):
    first = {"sample_id": "a", "repeat": 0, "attempt": 1, "trace": {"request": {}}}
    steps = trace.plain([search("x")])
    second = {"sample_id": "a", "repeat": 0, "attempt": 2, "trace": steps}
    (tmp_path / "00000.jsonl").write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n" + '{"sample')
    places = answers.places(tmp_path)
    assert answers.read_steps(places["a", 0]) == [search("x")]
    (tmp_path / "00001.jsonl").write_text(json.dumps(first) + "\n")
    assert answers.read_steps(answers.places(tmp_path)["a", 0]) is None


def test_the_answer_of_a_judged_benchmark_is_what_the_judge_saw_and_not_its_verdict():
    from snellen.benchmarks.registry import find

    judged = Score(0.0, "incorrect", "wrong")
    said = Record("a", "ok", response=Response('{"answer": "Nikon Z9", "reasoning": "its grip"}'))
    assert answers.answer_of(find("fika"), GOLD, said, judged) == "Nikon Z9"
    assert answers.answer_of(find("fika"), GOLD, Record("a", "timeout"), judged) is None
