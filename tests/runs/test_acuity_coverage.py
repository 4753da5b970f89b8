"""Coverage of a run whose questions follow from answers: the share of conditions that have ended."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

import snellen
from keyed_observers import KeyedObserver, observed_run
from snellen.benchmarks.acuity import ACUITY
from snellen.benchmarks.base import Data
from snellen.errors import UsageError
from snellen.formats.detect import open_answers
from snellen.runs.external_answers import score_file
from snellen.runs.run import load_run
from snellen.runs.status import group_progress, overview
from snellen.viewer.index.catalogue import make_entries, read_files

OPTIONS = {"attributes": "gap,contrast@8", "sides": "64"}


def killed(folder, records):
    """Make the folder of a run that was killed after so many records."""
    observed_run(folder, KeyedObserver(Data(options=OPTIONS), {"gap": 0.4}))
    journal = folder / "results.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) > records
    journal.write_text("".join(lines[:records]))
    meta = json.loads((folder / "run_meta.json").read_text())
    meta |= {"state": "running", "totals": {}}
    del meta["records"]
    (folder / "run_meta.json").write_text(json.dumps(meta))
    (folder / "summary.json").unlink()
    return load_run(folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return killed(tmp_path_factory.mktemp("runs") / "stopped", 60)


def test_a_killed_run_is_partial_and_covers_what_has_ended(stopped):
    groups = group_progress(stopped)
    standing = overview(stopped.folder, stopped.sized_meta, groups)
    stopped_conditions = sum(metric.coverage >= 1 for metric in stopped.figures("strict")["strict"])
    assert standing.state == "partial"
    assert groups.noun == "conditions"
    assert (groups.ended, groups.known) == (stopped_conditions, 2) == (1, 2)
    assert standing.coverage == 0.5


def test_a_complete_run_that_has_lost_records_covers_what_has_ended(tmp_path):
    folder = tmp_path / "run"
    observed_run(folder, KeyedObserver(Data(options=OPTIONS), {"gap": 0.4}))
    journal = folder / "results.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:60]))
    run = load_run(folder)
    standing = overview(run.folder, run.sized_meta, group_progress(run))
    assert (standing.state, standing.coverage, standing.totals.done) == ("partial", 0.5, 60)


def test_a_run_without_answers_covers_nothing(stopped):
    standing = overview(stopped.folder, stopped.sized_meta, group_progress(stopped))
    assert structs.replace(standing, totals=type(standing.totals)()).coverage == 0.0


def test_a_complete_run_covers_everything(tmp_path):
    run = observed_run(tmp_path / "run", KeyedObserver(Data(options=OPTIONS), {"gap": 0.4}))
    assert overview(run.folder, run.sized_meta, group_progress(run)).coverage == 1.0


def test_queries_have_coverage_and_unit_of_thresholds(stopped):
    with snellen.query("SELECT state, coverage, value > 0, unit, headline FROM runs", [stopped]) as answer:
        assert list(answer.rows) == [("partial", 0.5, True, "px", "threshold/gap")]
    with snellen.query("SELECT name, unit FROM metrics ORDER BY name", [stopped]) as answer:
        assert list(answer.rows) == [("threshold/contrast@8", "contrast"), ("threshold/gap", "px")]


def test_a_benchmark_with_a_known_size_has_no_groups(tmp_path):
    run = snellen.evaluate("chart/digits", "embedded", limit=3, out=tmp_path / "run")
    assert group_progress(run) is None


def test_the_viewer_lists_a_whole_run_with_its_coverage(tmp_path):
    observed_run(tmp_path / "run", KeyedObserver(Data(options={**OPTIONS, "attributes": "gap"}), {"gap": 0.4}))
    (entry,) = make_entries([read_files("run", tmp_path / "run")], {})
    assert entry.coverage == 1.0


def test_a_file_of_answers_is_scored_with_all_of_its_rounds(stopped, tmp_path):
    rows = [json.loads(line) for line in stopped.folder.results.read_text().splitlines()]
    file = tmp_path / "answers.jsonl"
    answers = [{"id": row["sample_id"], "prediction": row["response"]["text"]} for row in rows]
    file.write_text("".join(json.dumps(each) + "\n" for each in [*answers, {"id": "no-such", "prediction": "A"}]))
    summary, tally = score_file(open_answers(file), ACUITY, Data(options=OPTIONS), ACUITY.score)
    assert (tally.rows, tally.matched, tally.unknown.count) == (61, 60, 1)
    values = {metric.name: metric.value for metric in summary.metrics["strict"]}
    assert values == {metric.name: metric.value for metric in stopped.figures("strict")["strict"]}


def test_a_judge_is_refused_before_it_is_asked(stopped):
    with pytest.raises(UsageError, match="a judge would change none"):
        snellen.judge(stopped.path, "embedded")
