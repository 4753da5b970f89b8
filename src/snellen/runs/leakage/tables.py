"""The panel as tables, which the terminal and the page show alike; shares in per cent."""

from __future__ import annotations

from snellen.benchmarks.base import DetailTable
from snellen.runs.leakage.panel import Panel
from snellen.scoring.metric_text import bracketed, percent, span
from snellen.types import Metric

INTERVAL = "95 % interval"


def tables(found: Panel, listed: int) -> dict[str, DetailTable]:
    """Return the tables of a panel by title; `listed` questions answered blind at most."""
    made = {"Tests for leaks": _tests(found)}
    if found.rows:
        made = {"Conditions": _conditions(found)} | made
    if found.positions:
        made["Positions of the options, over shuffled orders"] = _positions(found)
    if found.blind:
        made["Answered right without the picture"] = _blind(found, listed)
    return made


def _share(metric: Metric | None, form: str = ".1f") -> tuple[str, str]:
    if metric is None or metric.value is None:
        return "", ""
    value = percent(metric.value) if 0.0 <= metric.value <= 1.0 else f"{100 * metric.value:.1f}"
    return value, span(metric.ci95, form, scale=100.0)


def _chance(metric: Metric) -> str:
    return "–" if metric.chance is None else percent(metric.chance)


def _conditions(found: Panel) -> DetailTable:
    headings = ("n", "accuracy", INTERVAL, "chance", "unread", "difference", INTERVAL, "unseen share", INTERVAL)
    rows = []
    for row in found.rows:
        lost = ("", "")
        if row is not found.rows[0]:
            lost = f"{100 * row.paired.difference:+.1f}", span(row.paired.ci95, "+.1f", scale=100.0)
        counts = (f"{row.score.n:,}", *_share(row.score), _chance(row.score), percent(row.unread))
        rows.append((row.title, *counts, *lost, *_share(row.explained)))
    note = (
        "difference: to the first row, in points, paired by question; unseen share: of the accuracy above chance, what is "
        "left without the picture"
    )
    reasons = {row.score.interval.text for row in found.rows if row.score.interval and row.score.interval.is_none}
    return DetailTable(("condition",), headings, tuple(rows), (note, *sorted(reasons)))


def _tests(found: Panel) -> DetailTable:
    rows = []
    for test in found.tests:
        where = f"in the {test.about}" if test.found else "no" if test.reaches else "not sent"
        p_values = (f"{test.p_value:.2g}", f"{test.p_adjusted:.2g}")
        rows.append((test.name, where, *_share(test.share), _chance(test.share), f"{test.share.n:,}", *p_values))
    headings = ("share", INTERVAL, "chance", "n", "p", "Holm")
    return DetailTable(("test", "found"), headings, tuple(rows), tuple(lines(found)))


def lines(found: Panel) -> list[str]:
    """Return what was found, one line each, and names that give answers away and are not sent."""
    texts = []
    for test in found.tests:
        if test.found or (not test.reaches and test.p_adjusted < 0.05):
            value, _ = _share(test.share)
            ends = bracketed(test.share.ci95, ".1f", scale=100.0)
            where = f"found in the {test.about}" if test.found else "no leak of a run"
            note = f" ({test.note})" if test.note else ""
            texts.append(f"{where}: {test.what}: {value} %{ends}, {_chance(test.share)} % by chance{note}")
    if found.found:
        return texts
    if not any(test.about == "benchmark" for test in found.tests):
        return ["No test for leaks could be made: each needs 10 questions, of known chance or with answers in names."]
    return ["No leak was found.", *texts]


def _positions(found: Panel) -> DetailTable:
    rows = tuple(
        (row.position, percent(row.gold), _chance(row.chosen), *_share(row.chosen), *_share(row.recall))
        for row in found.positions
    )
    headings = ("gold as given", "uniform", "chosen", INTERVAL, "recall", INTERVAL)
    notes: tuple[str, ...] = ()
    if found.consistency is not None:
        value, _ = _share(found.consistency)
        ends = bracketed(found.consistency.ci95, ".1f", scale=100.0)
        notes = (f"the same option in every order: {value} % of {found.consistency.n:,} questions{ends}",)
    if found.positions:
        notes += (f"chosen: of {found.positions[0].chosen.n:,} replies that name an option",)
    return DetailTable(("position",), headings, rows, notes)


def _blind(found: Panel, listed: int) -> DetailTable:
    rows = tuple(
        (each.sample_id, each.question, each.gold, ", ".join(each.conditions), f"{each.models} of {each.asked}")
        for each in found.blind[:listed]
    )
    notes = [f"{len(rows):,} of {len(found.blind):,}; guessing gives some of them"]
    if (most := found.agreement) is not None:
        notes.append(
            f"most of {most.models} models are right on {most.questions:,} of {most.of:,} questions; guessing gives "
            f"{most.by_guessing:.1f}"
        )
    return DetailTable(("sample", "question", "gold", "right under"), ("models",), rows, tuple(notes))
