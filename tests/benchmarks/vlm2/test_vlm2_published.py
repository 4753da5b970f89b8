"""The published tables of VLM2-Bench: every average follows from its cells, and every column has its metric."""

from __future__ import annotations

import pytest

from snellen.benchmarks.vlm2 import published_column, published_tables
from snellen.benchmarks.vlm2.layout import SUBTASKS

NEWER, OLDER, _ = published_tables()


def half_a_unit(mean: float, printed: float) -> bool:
    """Whether a mean rounds to what is printed with two decimals of a percent."""
    return abs(mean - printed) <= 0.00005 + 1e-9


@pytest.mark.parametrize("row", NEWER.rows, ids=lambda row: row.name)
def test_the_newer_average_is_the_mean_of_the_eight_image_subtasks(row):
    *cells, _video, average = row.values
    assert len(cells) == 8 and None not in cells
    assert half_a_unit(sum(cells) / 8, average)


@pytest.mark.parametrize("row", OLDER.rows, ids=lambda row: row.name)
def test_the_older_average_is_the_mean_of_all_nine_but_for_chance_which_has_no_video(row):
    *cells, average = row.values
    known = [value for value in cells if value is not None]
    assert len(known) == (8 if row.kind == "chance" else 9)
    assert half_a_unit(sum(known) / len(known), average)


def test_both_tables_have_their_rows_and_agree_but_for_one_human_score():
    kinds = [[row.kind for row in table.rows] for table in (NEWER, OLDER)]
    assert kinds == [["chance", "human", *["model"] * 12], ["chance", "human", *["model"] * 9]]
    newer = {row.name: row.values[:9] for row in NEWER.rows}
    older = {row.name.replace("GPT-4o", "GPT-4o-2024-08-06"): row.values[:9] for row in OLDER.rows}
    differ = [(name, at) for name, cells in older.items() for at in range(9) if cells[at] != newer[name][at]]
    assert differ == [("human", NEWER.columns.index("OC-Grp"))]


def test_a_share_of_right_units_is_a_fraction_of_the_known_counts_but_for_two_cells_that_a_note_names():
    odd = [
        (row.name, NEWER.columns[at])
        for at, subtask in enumerate(SUBTASKS)
        if subtask.family in ("pair", "group")
        for row in NEWER.rows[2:]
        if abs(round(row.values[at] * subtask.units) / subtask.units - row.values[at]) > 0.00006
    ]
    assert odd == [("Claude-3.7-sonnet", "Mat"), ("Claude-3.7-sonnet", "Trk")]
    assert any(note.startswith("Mat, Trk: 33.72 and 36.41 of Claude-3.7-sonnet") for note in NEWER.notes)


def test_every_column_but_the_average_is_of_the_subtask_in_its_place():
    for table, average in ((NEWER, "overall_8"), (OLDER, "overall_9")):
        assert [metric.partition("/")[0] for metric in table.metrics] == [*(one.name for one in SUBTASKS), average]
        assert table.profile == "official"


def test_a_subtask_has_its_own_column_under_the_name_that_its_own_run_gives():
    table = published_column("oc-cnt")
    assert (table.columns, table.metrics) == (("OC-Cnt",), ("count_score_usable",))
    assert dict(zip([row.name for row in table.rows], table.rows, strict=True))["human"].values == (0.9423,)
    assert len(table.notes) == 2 and all("OC-Cnt" in note for note in table.notes)
    video = published_column("pc-vid")
    assert {"chance", "Gemini-2.0-flash"}.isdisjoint(row.name for row in video.rows) and len(video.rows) == 12


def test_the_metrics_are_among_those_that_the_summaries_give():
    from snellen.benchmarks.vlm2.metrics import figures
    from snellen.scoring.scores import ScoreBuilder
    from snellen.types import Prompt, Sample, Score, Text

    for subtask, metric in zip(SUBTASKS, NEWER.metrics, strict=False):
        builder = ScoreBuilder()
        meta = {"pair": "1", "half": "p", "images": 2, "form": "AB"}
        one = Sample("1", Prompt((Text("?"),)), target=None, kind="open", group="", meta=meta)
        builder.add(one, Score(1.0, "x", "correct"))
        names = list(figures(subtask, builder.build(1), "official"))
        names += ["video_score"] if subtask.family == "video" else []
        assert metric.partition("/")[2] in names
