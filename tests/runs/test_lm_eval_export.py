"""`snellen export --format lm-eval` and `lmms-eval`: results of every profile as filters, and samples that come back."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

import snellen
from formats.logs import write_lines
from runs.animals import ANIMALS, GOLD, IDS, Zoologist
from snellen.benchmarks import registry
from snellen.errors import DataError
from snellen.formats import Problems, open_answers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "animals", "runs.animals:ANIMALS")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run() -> snellen.Run:
    return snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)


def written(run: snellen.Run, out: str = "out", **settings: Any) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    results, samples = snellen.export(run, "lm-eval", out=out, **settings).files
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    return samples, json.loads(results.read_text()), rows


def test_each_profile_is_a_filter_with_its_accuracy_and_standard_error(run: snellen.Run):
    samples, results, rows = written(run)
    assert samples.parent.name == "zoologist" and samples.name.startswith("samples_animals_")
    figures = results["results"]["animals"]
    for profile in ("strict", "lenient"):
        metric = run.metric("accuracy", profile)
        values = [row["acc"] for row in rows if row["filter"] == profile]
        assert figures[f"acc,{profile}"] == metric.value == pytest.approx(sum(values) / len(values))
        assert figures[f"acc_stderr,{profile}"] == pytest.approx(statistics.stdev(values) / len(values) ** 0.5)
        assert metric.ci95 == (figures[f"acc_ci95_low,{profile}"], figures[f"acc_ci95_high,{profile}"])
    assert results["n-samples"] == {"animals": {"original": len(IDS), "effective": len(IDS)}}
    assert results["n-shot"] == {"animals": 1} and results["higher_is_better"] == {"animals": {"acc": True}}
    assert {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"} <= rows[0].keys()
    assert rows[0]["resps"] == [["The Phascolarctos."]] and rows[0]["metrics"] == ["acc"]


def test_samples_of_both_profiles_come_back_as_one_answer_each(run: snellen.Run):
    samples, _, rows = written(run)
    assert len(rows) == 2 * len(IDS)
    again = snellen.import_run(samples, "animals", out="again")
    assert again.figures("all") == run.figures("all")
    assert not [remark for remark in again.remarks if "left out" in remark]


def test_lm_eval_files_without_gold_name_no_gold_answer(run: snellen.Run):
    _, results, rows = written(run, no_gold=True)
    for row in rows:
        assert row["target"] == ""
        del row["doc"]["A"]
    text = json.dumps([results, rows]).lower()
    assert not [gold for gold in GOLD if gold in text]


def test_lmms_eval_gets_a_file_of_results_beside_its_samples(run: snellen.Run):
    files = {path.suffix: path for path in snellen.export(run, "lmms-eval", out="out").files}
    assert files[".json"].name.endswith("_results.json")
    figures = json.loads(files[".json"].read_text())["results"]["animals"]
    assert figures["acc,strict"] == run.metric("accuracy", "strict").value
    rows = [json.loads(line) for line in files[".jsonl"].read_text().splitlines()]
    assert statistics.mean(row["score"] for row in rows) == figures["acc,strict"], "what its --baseline reads"
    assert all(row["input"] == row["doc"]["question"] for row in rows)
    again = snellen.import_run(files[".jsonl"], "animals", out="again")
    assert again.figures("all") == run.figures("all")


def lm_eval_row(number: int, filter_: str, resps: Any, continuation: Any) -> dict[str, Any]:
    """One line as lm-eval 0.4.13 writes it: every reply is a text."""
    return {
        "doc_id": number,
        "doc": {"question": "?"},
        "target": "1",
        "arguments": {"gen_args_0": {"arg_0": "What is 1 mod 7?", "arg_1": continuation}},
        "resps": resps,
        "filtered_resps": ["1"],
        "filter": filter_,
        "metrics": ["exact_match"],
        "exact_match": 1.0,
    }


def test_rows_of_further_filters_are_not_second_answers(tmp_path: Path):
    rows = [
        lm_eval_row(number, filter_, [["the answer is 1"]], {"until": ["\n"]})
        for filter_ in ("strict-match", "flexible-extract")
        for number in range(3)
    ]
    answers = list(open_answers(write_lines(tmp_path / "samples_sums_2026.jsonl", rows)).read(Problems()))
    assert [(answer.sample_id, answer.repeat, answer.text) for answer in answers] == [
        (str(number), 0, "the answer is 1") for number in range(3)
    ]


def test_numbers_of_a_likelihood_task_are_no_replies(tmp_path: Path):
    rows = [lm_eval_row(0, "none", [[["-1.5", "False"]]], " Paris")]
    problems = Problems()
    (answer,) = open_answers(write_lines(tmp_path / "samples_sums_2026.jsonl", rows)).read(problems)
    assert answer.text is None and answer.failure is not None and "log-likelihood" in answer.failure.message


def test_the_file_of_results_names_the_file_of_samples(tmp_path: Path):
    path = tmp_path / "results_2026.json"
    path.write_text(json.dumps({"results": {}, "configs": {}, "n-samples": {}}))
    with pytest.raises(DataError) as error:
        open_answers(path)
    assert "samples_*.jsonl" in error.value.hint
