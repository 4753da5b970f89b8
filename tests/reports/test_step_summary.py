"""The Markdown for the page of a CI step: escaped, bounded, and complete where it matters."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from snellen.reports.ci_pages import (
    MOST_BYTES,
    append_summary,
    checks_markdown,
    escaped,
    metrics_markdown,
    ranking_markdown,
)
from snellen.runs.ranking import RankedRun, Ranking
from snellen.runs.threshold_check import CheckCase
from snellen.types import Metric

RENDERER = MarkdownIt("commonmark", {"html": True}).enable("table")


def cells(markdown: str) -> list[list[str]]:
    """The text of each row's cells, as a Markdown reader shows it."""
    page = RENDERER.render(markdown)
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.S)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in rows]


def test_names_with_marks_of_markdown_and_html_stay_text():
    name = "a|b*c*_d_<script>alert(1)</script>`e`[f](g)\nh"
    rows = cells(metrics_markdown("run", [Metric(name, 0.5, 10, (0.2, 0.8))]))
    assert rows[1][0] == "a|b*c*_d_&lt;script&gt;alert(1)&lt;/script&gt;`e`[f](g)\\nh"
    assert rows[1][1:5] == ["0.5000", "0.2000 – 0.8000", "10", "100.0%"]


def test_a_metric_without_a_value_has_a_dash_and_many_metrics_are_counted():
    metrics = [Metric(f"m{i}", None, 0, None) for i in range(50)]
    markdown = metrics_markdown("run", metrics)
    assert cells(markdown)[1][1] == "–" and len(cells(markdown)) == 41 and "10 more metrics are omitted." in markdown


def test_checks_are_a_list_with_their_sentences():
    markdown = checks_markdown([CheckCase("x", "passed", "fine."), CheckCase("y_z", "failed", "too low < 1.")])
    assert markdown.splitlines() == ["- ✅ **x**: fine.", "- ❌ **y\\_z**: too low \\< 1."]
    assert checks_markdown([]) == ""


def test_a_ranking_is_a_table_in_its_order():
    runs = [RankedRun(1, "results/a", "m", 0.9, (0.8, 0.95), None, "a"), RankedRun(2, "b", "m", 0.5, None, None, "b")]
    rows = cells(ranking_markdown(Ranking("strict", 100, 0, 100, 0.05, runs, [])))
    assert rows[1:] == [["1", "results/a", "0.9000", "0.8000 – 0.9500", "a"], ["2", "b", "0.5000", "", "b"]]


def test_a_summary_is_appended_and_never_larger_than_the_service_takes(tmp_path):
    path = tmp_path / "new" / "summary.md"
    append_summary(path, "first\n")
    append_summary(path, "é" * MOST_BYTES)
    data = path.read_bytes()
    assert data.startswith(b"first\n") and data.endswith(b"(cut off)\n")
    assert len(data) < MOST_BYTES + 100 and data.decode()


def test_control_characters_are_no_part_of_a_summary():
    assert "\x1b" not in escaped("\x1b[31mred\x07")
