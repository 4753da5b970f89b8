"""The runs page: order, ranking, filters, history, and what a page of a run in progress shows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from browser_checks import check_page, opened, serving

from snellen.engine.run_folder import EmptyReplies, Totals
from snellen.runs.ranking import RankedPair, RankedRun, Ranking
from snellen.types import Metric
from snellen.viewer.index import FailureCount, RunEntry
from snellen.viewer.pages.runs import history_lines, step_of
from snellen.viewer.run_list import (
    Rankings,
    filter_choices,
    group_runs,
    make_row,
    order_rows,
    place_ranges,
    select,
    with_places,
)
from snellen.viewer.states import RunsState

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")


def entry(key: str, value: float | None = 0.5, *, coverage: float | None = 1.0, **fields) -> RunEntry:
    metric = None if value is None else Metric("accuracy", value, 100, (max(0, value - 0.1), min(1, value + 0.1)))
    return RunEntry(
        **{
            "key": key,
            "path": Path("/somewhere") / key,
            "benchmark": "b",
            "model": "m",
            "state": "complete",
            "coverage": coverage,
            "headline": metric,
            "totals": Totals(ok=100, input_tokens=10, output_tokens=5),
            "verified": True,
            "samples": "ready",
            "started": 1_700_000_000.0,
            **fields,
        }
    )


def keys(rows) -> list[str]:
    return [row.entry.key for row in rows]


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("sort", ["", "score"])
def test_an_incomplete_run_never_stands_above_a_complete_one_in_the_order_by_score(sort, down):
    entries = [
        entry("low", 0.2),
        entry("limited", 1.0, coverage=0.1),
        entry("unknown", 0.99, coverage=None),
        entry("partial", 0.98, state="partial", coverage=0.9),
        entry("running", 0.97, state="running", coverage=0.5),
        entry("torn", None, state="torn", coverage=None),
        entry("high", 0.9),
    ]
    ordered = order_rows([make_row(each) for each in entries], RunsState(sort=sort, down=down))
    assert set(keys(ordered)[:2]) == {"low", "high"}
    assert keys(ordered)[-1] == "torn"
    assert not any(row.whole for row in ordered[2:])
    assert {row.entry.key for row in ordered[2:] if row.state == "complete"} == {"unknown"}  # its size is not declared


def test_other_orders_may_mix_them_and_mark_every_incomplete_run():
    entries = [entry("b", 0.1), entry("a", 0.9, state="partial", coverage=0.4), entry("c", 0.5, coverage=0.2)]
    rows = order_rows([make_row(each) for each in entries], RunsState(sort="run"))
    assert keys(rows) == ["a", "b", "c"]
    assert [row.state for row in rows] == ["partial", "complete", "limited"]
    assert "covers 20.0 % of the benchmark" in rows[2].remarks


def test_replies_that_were_cut_off_are_counted_beside_a_run():
    whole, cut = (make_row(entry(key, totals=Totals(ok=100, cut_off=count))) for key, count in (("a", 0), ("b", 7)))
    assert not any("cut off" in remark for remark in whole.remarks)
    assert "7 replies were cut off at the token limit" in cut.remarks


def test_empty_replies_and_a_cost_that_is_known_in_part_are_marked_beside_a_run():
    totals = Totals(ok=9, cost=1.5, empty=EmptyReplies(4, 0, {"reasoning": 4}), uncounted={"output": 2})
    row = make_row(entry("a", totals=totals))
    assert "4 replies were empty" in row.remarks and row.cost == "≥ $1.50"


def test_runs_of_other_data_are_a_group_of_their_own_and_judges_stand_last():
    entries = [
        entry("one", data="sha256:aaaaaaaaaaaaaaaa"),
        entry("two", data="sha256:bbbbbbbbbbbbbbbb"),
        entry("judge", benchmark="judged", judges="one"),
    ]
    groups = group_runs(entries, RunsState())
    assert [(group.title, group.about, keys(group.rows)) for group in groups] == [
        ("b", "data aaaaaaaaaaaa", ["one"]),
        ("b", "data bbbbbbbbbbbb", ["two"]),
        ("judged", "", ["judge"]),
    ]
    assert [group.ranked for group in groups] == [True, True, False]
    assert not groups[2].whole


def test_filters_count_what_they_would_show_and_toggle():
    entries = [
        entry("x/1", model="A"),
        entry("x/2", model="B", settings="blur=5"),
        entry("y", model="B", state="partial"),
    ]
    assert keys_of(select(entries, RunsState(model=("B",)))) == ["x/2", "y"]
    assert keys_of(select(entries, RunsState(text="BLUR x/"))) == ["x/2"]
    choices = filter_choices(entries, RunsState(model=("B",)))
    assert "benchmark" not in choices  # there is one only
    assert [(choice.value, choice.count, choice.active) for choice in choices["model"]] == [
        ("A", 1, False),
        ("B", 2, True),
    ]
    assert choices["model"][1].state.model == () and choices["model"][0].state.model == ("B", "A")


def keys_of(entries) -> list[str]:
    return [each.key for each in entries]


def test_places_are_ranges_over_the_runs_that_cannot_be_told_apart():
    runs = [RankedRun(place, name, "m", 1 - place / 10, None, None, "a") for place, name in enumerate("abcd", 1)]
    different = {("a", "d"), ("b", "d"), ("c", "d"), ("a", "c")}
    pairs = [
        RankedPair(high, low, 0.1, None, 0.01, 0.01 if (high, low) in different else 0.5, "test")
        for number, high in enumerate("abcd")
        for low in "abcd"[number + 1 :]
    ]
    assert place_ranges(Ranking("strict", 10, 0, 10, 0.05, runs, pairs)) == {
        "a": "1–2",
        "b": "1–3",
        "c": "2–3",
        "d": "4",
    }


def test_too_many_records_are_not_ranked_and_the_page_says_so():
    entries = [entry(f"run{n}", totals=Totals(ok=400_000)) for n in range(2)]
    (group,) = group_runs(entries, RunsState())
    ranked = Rankings().of(group, wait=True)
    assert not ranked.places and "800,000 records" in ranked.note
    assert with_places(group, ranked) == group


def test_a_run_that_cannot_be_scored_gives_a_reason_in_place_of_a_ranking(tmp_path):
    entries = [entry(f"run{n}", path=tmp_path / f"run{n}") for n in range(2)]
    (group,) = group_runs(entries, RunsState())
    assert Rankings().of(group, wait=True).note.startswith("No ranking: ")


@pytest.mark.parametrize(
    ("model", "key", "environment", "step"),
    [
        ("local:out/checkpoint-500", "r", {}, 500),
        ("m", "chart/global_step1200", {}, 1200),
        ("m-7b", "chart/300", {}, 300),
        ("m", "r", {"step": 42}, 42),
        ("m-7b-v2", "results/run", {}, None),
        ("local:epoch_3", "r", {"step": True}, 3),
    ],
)
def test_the_step_of_a_run_is_as_recorded_or_in_the_name_of_its_model_or_folder(model, key, environment, step):
    assert step_of(entry(key, model=model, environment=environment)) == step


def test_checkpoints_of_a_training_are_one_line_and_incomplete_ones_are_not_joined():
    entries = [
        entry("c1", 0.3, model="local:t/checkpoint-100"),
        entry("c3", 0.7, model="local:t/checkpoint-300"),
        entry("c2", 0.9, model="local:t/checkpoint-200", coverage=0.1),
        entry("other", 0.5, model="else"),
    ]
    (line,) = history_lines(entries, "step")
    assert keys_of(point.entry for point in line.points) == ["c1", "c2", "c3"]
    assert [point.whole for point in line.points] == [True, False, True]
    assert len(line.path.split()) == 2
    assert line.points[0].y > line.points[2].y  # a higher score stands higher


def test_what_a_row_says_names_no_folder_of_this_machine():
    row = make_row(
        entry(
            "r",
            state="torn",
            problems=("/somewhere/r/run_meta.json cannot be read", "/somewhere/r is odd"),
            failures=(FailureCount("timeout", 3, "slow"),),
        )
    )
    assert row.problems == ("run_meta.json cannot be read", "the folder is odd")
    assert row.commonest == "timeout: slow"


@pytest.mark.browser
def test_a_run_in_progress_is_followed_without_a_reload(browser, tmp_path):
    from snellen.runs.evaluate import evaluate

    evaluate("chart", model="embedded", limit=6, out=tmp_path / "run")
    with serving(tmp_path) as url, opened(browser, url + "/") as page:
        page.locator("input[name=runs]").first.check()
        page.keyboard.press("j")
        assert page.locator("[data-label=n]").first.inner_text().endswith("6")
        evaluate("chart", model="embedded", limit=9, out=tmp_path / "run")
        page.evaluate(
            "htmx.config.defaultSwapDelay = 0; document.getElementById('runs').setAttribute('hx-trigger', 'every 1s'); htmx.process(document.getElementById('runs'))"
        )
        sync_api.expect(page.locator("[data-label=n]").first).to_have_text("9", timeout=600_000)
        assert page.locator("input[name=runs]").first.is_checked()
        assert page.locator("[data-row][data-current]").count() == 1
        check_page(page)


def test_an_open_page_is_told_that_nothing_has_changed(tmp_path):
    import re
    import urllib.request

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run_meta.json").write_text(json.dumps({"format": 99}))
    with serving(tmp_path) as url:
        html = urllib.request.urlopen(url + "/").read().decode()
        version = re.search(r'data-version="([^"]+)"', html)[1]
        latest = time.monotonic() + 600
        while time.monotonic() < latest:  # the index is read in the background
            request = urllib.request.Request(url + "/", headers={"X-Snellen-Version": version})
            answer = urllib.request.urlopen(request)
            if answer.status == 204:
                break
            version = re.search(r'data-version="([^"]+)"', answer.read().decode())[1]
        assert answer.status == 204


def test_a_complete_run_without_saved_scores_says_so():
    scored = entry("a", metrics={"strict": [Metric("accuracy", 0.5, 10)]})
    assert make_row(entry("a")).remarks == ("no saved scores: run snellen score",)
    assert make_row(scored).remarks == ()
    assert make_row(entry("a", judges="b")).remarks == ("judges b",)
