"""Runs over other samples: another seed or other options make another group, another default, and no ranking in common."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from snellen.engine.run_folder import Totals
from snellen.types import Metric
from snellen.viewer.app import view_app
from snellen.viewer.cases.opened_runs import OpenedRuns
from snellen.viewer.index import RunEntry, SampleQuery, open_index
from snellen.viewer.index.entries import with_commonest_samples
from snellen.viewer.run_list import filter_choices, group_runs, select
from snellen.viewer.sample_columns import choose_columns
from snellen.viewer.score_matrix import benchmark_cells
from snellen.viewer.site import ViewSettings
from snellen.viewer.states import RunsState, SamplesState


def run(key: str, *, seed: int = 0, questions: str = "20", data: str = "", value: float = 0.5) -> RunEntry:
    return RunEntry(
        key, Path("results") / key, benchmark="chart", model="embedded", state="complete", coverage=1.0,
        version="1", data=data, options=f'[{{"questions":"{questions}"}},{seed}]', seed=seed, samples="ready",
        headline=Metric("accuracy", value, 20), totals=Totals(ok=20), ended=float(seed),
    )  # fmt: skip


def test_runs_of_another_seed_or_other_options_are_groups_of_their_own_that_say_so():
    groups = group_runs([run("a"), run("b"), run("c", seed=1), run("d", questions="40")], RunsState())
    assert [[row.entry.key for row in group.rows] for group in groups] == [["a", "b"], ["c"], ["d"]]
    assert [group.about for group in groups] == ["questions=20, seed=0", "questions=20, seed=1", "questions=40, seed=0"]


def test_the_seed_does_not_part_runs_over_data_with_a_digest():
    (group,) = group_runs([run("a", data="sha256:1"), run("b", data="sha256:1", seed=7)], RunsState())
    assert len(group.rows) == 2 and group.about == ""


def test_a_torn_run_without_options_has_samples_of_its_own():
    torn = RunEntry("torn", Path("torn"), benchmark="chart")
    assert with_commonest_samples([torn, run("a"), run("b")]) == [run("a"), run("b")]


def test_a_limited_run_is_counted_and_selected_as_limited():
    limited = replace(run("few"), coverage=0.2)
    entries = [run("a"), limited]
    choices = {choice.value: choice.count for choice in filter_choices(entries, RunsState())["state"]}
    assert choices == {"complete": 1, "limited": 1}
    assert select(entries, RunsState(state=("complete",))) == [entries[0]]
    assert select(entries, RunsState(state=("limited",))) == [limited]


def test_the_samples_page_begins_with_the_runs_over_the_samples_of_most_runs():
    columns = choose_columns([run("a"), run("b"), run("c", seed=1)], SamplesState(benchmark="chart"))
    assert [entry.key for entry in columns.shown] == ["a", "b"]
    assert [entry.key for entry in columns.others] == ["c"]
    assert "1 run over other samples is not shown" in columns.notes[0]


def test_a_cell_of_the_matrix_shows_neither_a_degraded_run_nor_other_samples_where_there_is_another():
    entries = [run("plain"), replace(run("blank", value=0.1), degraded=True, ended=9.0), run("other", seed=5)]
    ((_, cells),) = benchmark_cells(entries, "", by_settings=False).items()
    assert cells["chart"].key == "plain"
    assert set(cells["chart"].others) == {"blank", "other"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the embedded model, and one whose images were grey."""
    from snellen.runs.evaluate import evaluate
    from snellen.types import MediaSettings

    root = tmp_path_factory.mktemp("same-samples")
    evaluate("chart/digits", model="embedded", limit=4, out=root / "seen")
    evaluate("chart/digits", model="embedded", limit=4, out=root / "blind", media=MediaSettings(blank=True))
    return root


def test_a_page_of_samples_that_are_not_indexed_has_a_count_for_every_run(results):
    index = open_index(results)
    index.refresh(samples=False)
    page = index.samples(SampleQuery("chart/digits", ("seen", "blind")))
    assert page.rows == () and len(page.verdicts) == 2


def test_the_index_knows_which_runs_were_degraded(results):
    index = open_index(results)
    index.refresh(samples=False)
    assert {entry.key: entry.degraded for entry in index.runs()} == {"seen": False, "blind": True}


@pytest.mark.parametrize("trust", [False, True])
def test_the_code_that_a_run_names_is_imported_only_with_trust(results, tmp_path, monkeypatch, trust):
    name = f"coins_{'trusted' if trust else 'refused'}"
    (tmp_path / f"{name}.py").write_text(
        "from pathlib import Path\n"
        "from snellen.benchmarks.chart.digits import DIGITS\n"
        "Path(__file__).with_suffix('.imported').touch()\n"
        "COINS = DIGITS\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    root = tmp_path / "results"
    shutil.copytree(results / "seen", root / "seen")
    meta = root / "seen" / "run_meta.json"
    text = meta.read_text("utf-8")
    meta.write_text(text.replace('"benchmark": "chart/digits"', f'"benchmark": "{name}:COINS"'), encoding="utf-8")
    site = view_app(ViewSettings(root, trust=trust))
    assert site.routes
    index = open_index(root, trust=trust)
    index.refresh()
    opened = OpenedRuns(trust=trust).open("seen", root / "seen")
    assert (tmp_path / f"{name}.imported").exists() is trust
    assert bool(opened.problem) is not trust
    assert index.run("seen").samples == ("ready" if trust else "unscored")


def test_the_review_queue_compares_only_replies_to_the_same_samples(results):
    from snellen.viewer.reviews.desk import ReviewDesk

    index = open_index(results)
    index.refresh()
    entries = index.runs()
    together = ReviewDesk().doubtful(index, entries, "")
    apart = ReviewDesk().doubtful(index, [entries[0], replace(entries[1], options="[{},5]")], "")
    reasons = {reason for case in together.cases for reason in case.doubts}
    assert any("models" in reason for reason in reasons)
    assert not any("models" in reason for case in apart.cases for reason in case.doubts)
    assert together.total == apart.total == 8
