"""Figures of a declaration as functions of sums over rows: point estimate, chance and bootstrap by one mechanism.

A figure registers columns of numbers, one a row, and returns a function of their sums. Sums over all rows give the figure,
sums of chances its chance level, and sums over drawn clusters its interval (`snellen.scoring.statistics.of_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.benchmarks.table.declaration import Report
from snellen.benchmarks.table.score_columns import GOLD, READ, Mask, ScoreColumns
from snellen.scoring.grounding import CENTRE, IOU
from snellen.scoring.rules.generalised import NOT_ANSWERABLE
from snellen.scoring.rules.page_parse import CDM, WORST
from snellen.scoring.rules.short_answers import WORD_RECALL
from snellen.scoring.rules.video import group_score

Floats: TypeAlias = NDArray[np.float64]
Formula: TypeAlias = Callable[[Floats], Floats]
"""Sums of the registered columns, [draws, columns], to the figure in each draw; NaN where it is not defined."""

MOST_PARTS = 500
"""A column of more values is an id: there are no slices by it, and no sums over it."""
BESIDE: Mapping[str, tuple[str, float]] = {
    "iou": (IOU, 0.0),
    **{f"accuracy@{least:g}": (IOU, least) for least in (0.25, 0.3, 0.5, 0.7, 0.75, 0.9)},
    **dict.fromkeys(("centre-in-box", "centre_in_box"), (CENTRE, 0.0)),
    "token-recall": (WORD_RECALL, 0.0),
}
"""Metrics of boxes and words: the number beside each score, and the least that counts; 0: the number itself does."""
OF_COCO = ("coco-map", "coco-ap50", "coco_map", "coco_ap50")
MEANS = ("accuracy", "anls", "vqa-score", "relaxed", *BESIDE, *WORST)
"""Metrics that are the mean of the rows' scores; the scoring rule decides what a score is."""
OF_ATTEMPTS = ("attempted", "correct-if-attempted", "attempted-f")
OF_ANSWERABLE = ("answerable-f1", "answerable-f1-of-all")
NOT_ATTEMPTED = "not attempted"
"""The label of the rubric `attempted` for a reply that names no answer."""
OF_YES_NO = ("f1", "precision", "recall", "yes-ratio")


@dataclass
class FigureBuilder:
    """Formulas over the rows of a table; `value` are the rows' scores, or their chances.

    Attributes:
        table: the rows.
        reports: the declared reports that have a name, for sums and means of named figures.
        value: [n] what counts as the score of each row.
        positive: the positive answer of yes/no questions.
        profile: the profile of the scores.
        columns: the registered columns.
        groups: the groups that were used.
    """

    table: ScoreColumns
    reports: Mapping[str, Report]
    value: Floats
    positive: str = "Yes"
    profile: str = ""
    columns: list[Floats] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)

    def formula(self, report: Report, metric: str, rows: Mask) -> Formula:
        """Return the formula of a report's metric over some rows."""
        table, plain = self.table, self.of_report(report)._plain
        rows = rows & table.where(report.only_where)
        column = report.sum_over or report.mean_of
        if not column:
            return _scaled(plain(report, metric, rows), report.scale)
        values = report.only or table.values_of(column, rows)
        if len(values) > MOST_PARTS:
            return lambda sums: np.full(len(sums), np.nan)
        parts = [plain(report, metric, rows & table.equals(column, value)) for value in values]
        return _scaled(_sum(parts) if report.sum_over else _mean(parts), report.scale)

    def of_report(self, report: Report) -> FigureBuilder:
        """Return the builder, of the same columns, in which replies that were not read are worth what a report says."""
        worth = report.unread.get(self.profile)  # type: ignore[call-overload]
        if worth is None:
            return self
        scores, is_score = self.table.scores, self.value is self.table.value
        unread = scores.has("invalid") | scores.has("error")
        omitted = unread if worth == "omitted" else np.zeros_like(unread)
        value = np.where(unread & ~omitted, 0.0 if worth == "omitted" else worth, self.table.value)
        table = replace(self.table, value=value, counted=self.table.counted & ~omitted)
        return replace(self, table=table, value=value if is_score else self.value)

    def _plain(self, report: Report, metric: str, rows: Mask) -> Formula:
        if report.parts:
            parts = [self._named(name, rows) for name in report.parts]
            if report.gain:
                self.groups.update(self.table.groups)
                return _gain(*parts)
            if report.add:
                return _sum(parts)
            apart = [WORST.get(self._metric_of(name)) == 1.0 for name in report.average]
            mixed = any(apart) and not all(apart)
            return _mean(
                [_less(part) if mixed and far else part for part, far in zip(parts, apart, strict=True)], every=True
            )
        if report.all_in:
            right, first = self.values_in_groups(report, rows)
            return self._ratio(right, first.astype(np.float64))
        counted = rows & self.counted(metric)
        if metric in OF_YES_NO:
            return self._yes_no(metric, report.positive or self.positive, counted)
        if metric in OF_ANSWERABLE:
            return self._answerable(report.negative, counted, of_all=metric.endswith("of-all"))
        if metric in OF_ATTEMPTS:
            return self._attempts(metric, counted)
        value = np.where(counted, self.of(metric), 0.0)
        if metric == "count":
            at = self._add(value)
            return lambda sums: sums[:, at]
        return self._ratio(value, counted.astype(np.float64))

    def counted(self, metric: str) -> Mask:
        """Return a mask of the rows that count: of a part of pages those that have it, and those without a reply."""
        if metric not in WORST:
            return self.table.counted
        if metric == CDM and np.any(self.table.filled("formula-edit") & ~self.table.filled(metric)):
            return np.zeros_like(self.table.counted)  # TeX was missing, for all pages or for some
        without = ~np.any([self.table.filled(name) for name in WORST], axis=0)
        mask: Mask = self.table.counted & (self.table.filled(metric) | without)
        return mask

    def of(self, metric: str) -> Floats:
        """Return the value of each row for a metric."""
        if metric in WORST:
            return self.table.numbers(metric, WORST[metric])
        column, least = BESIDE.get(metric, ("", 0.0))
        if not column:
            return self.value
        numbers = self.table.numbers(column)
        return (numbers >= least).astype(np.float64) if least else numbers

    def _named(self, name: str, rows: Mask) -> Formula:
        return self.formula(self.reports[name], self._metric_of(name), rows)

    def _metric_of(self, name: str) -> str:
        report = self.reports[name]
        return dict(zip(report.names, report.metrics, strict=False)).get(name, "accuracy")

    def values_in_groups(self, report: Report, rows: Mask) -> tuple[Floats, Mask]:
        """Return the value of each group of a report at its first row, 0 elsewhere, and a mask of the first rows.

        With `steps` a group has a composite question and its steps, and its value is that of its class (We-Math, section 3.3).
        """
        if not report.steps:
            return self.group_values(report.all_in, rows)
        if report.steps == "consecutive":
            return self._consecutive(report.all_in, rows)
        whole = self.table.where(report.whole)
        composite, at_whole = self.group_values(report.all_in, rows & whole)
        all_steps, at_steps = self.group_values(report.all_in, rows & ~whole)
        number = self.table.groups[report.all_in]
        any_step = np.zeros(len(number))
        right = rows & ~whole & self.table.counted & (number >= 0) & (self.value >= 1.0)
        any_step[at_steps] = np.isin(number[at_steps], number[right])
        order = np.argsort(number[at_steps]), np.argsort(number[at_whole])
        every, some = all_steps[at_steps][order[0]], any_step[at_steps][order[0]]
        both = composite[at_whole][order[1]]
        inadequate, enough = every * (1 - both), some if report.steps == "mastery-loose" else every
        value = np.zeros(len(number))
        value[np.flatnonzero(at_whole)[order[1]]] = {
            "complete": every * both,
            "inadequate": inadequate,
            "rote": (1 - every) * both,
            "insufficient": (1 - every) * (1 - both),
        }.get(report.steps, enough * both + inadequate / 2)
        return value, at_whole

    def _consecutive(self, name: str, rows: Mask) -> tuple[Floats, Mask]:
        """Return the scores of groups whose questions build on each other, as `values_in_groups`.

        A group is among the rows if its last question is, whatever slices its others are in (Video-MME-v2's script).
        """
        self.groups.add(name)
        number, order = self.table.groups[name], self.table.numbers("number")
        structures = self.table.scores.column("structure")
        values, last = np.zeros(len(number)), np.zeros(len(number), dtype=bool)
        by_group = np.lexsort((order, number))
        for members in np.split(by_group, np.flatnonzero(np.diff(number[by_group])) + 1):
            if not len(members) or number[members[0]] < 0 or not rows[members[-1]]:
                continue
            at = members[-1]
            last[at] = True
            worth = [1.0 if self.value[member] >= 1.0 else min(self.value[member], 0.0) for member in members]
            values[at] = group_score(worth, structures.names[structures.codes[at]])
        return values, last

    def group_values(self, name: str, rows: Mask) -> tuple[Floats, Mask]:
        """Return the product of the scores of a group at its first row, 0 elsewhere, and a mask of the first rows.

        A score below 1 is not right; chances are multiplied as they are.
        """
        self.groups.add(name)
        number = self.table.groups[name]
        inside = rows & self.table.counted & (number >= 0)
        value, first = np.zeros(len(number)), np.zeros(len(number), dtype=bool)
        if not inside.any():
            return value, first
        _, start, index = np.unique(number[inside], return_index=True, return_inverse=True)
        score = self.value[inside]
        if self.value is self.table.value:
            score = (score >= 1.0).astype(np.float64)
        product = np.ones(len(start))
        np.multiply.at(product, index.reshape(-1), score)
        at = np.flatnonzero(inside)[start]
        value[at], first[at] = product, True
        return value, first

    def _attempts(self, metric: str, rows: Mask) -> Formula:
        """Return the share of attempted replies, that of right ones among them, or its harmonic mean with accuracy (SimpleQA)."""
        tried = rows & ~self.table.equals("judge_verdict", NOT_ATTEMPTED)
        if metric == "attempted":
            return self._ratio(tried.astype(np.float64), rows.astype(np.float64))
        right = np.where(rows, self.value, 0.0)
        if metric == "correct-if-attempted":
            return self._ratio(right, tried.astype(np.float64))
        return self._ratio(2.0 * right, rows.astype(np.float64) + tried)

    def _answerable(self, negative: Mapping[str, str], rows: Mask, *, of_all: bool) -> Formula:
        """Return the harmonic mean of the score by questions with an answer and by replies that give one; 0 without either."""
        with_answer, answered = rows & ~self.table.where(negative), rows & ~self.table.equals(READ, NOT_ANSWERABLE)
        tops = [
            self._add(np.where(part, self.value, 0.0)) for part in (with_answer, answered if of_all else with_answer)
        ]
        sizes = [self._add(part.astype(np.float64)) for part in (with_answer, answered)]

        def f1(sums: Floats) -> Floats:
            recall, precision = (sums[:, a] / np.maximum(sums[:, b], 1.0) for a, b in zip(tops, sizes, strict=True))
            return 2.0 * recall * precision / np.maximum(recall + precision, np.finfo(np.float64).tiny)

        return f1

    def _yes_no(self, metric: str, positive: str, rows: Mask) -> Formula:
        gold, read = rows & self.table.equals(GOLD, positive.lower()), rows & self.table.equals(READ, positive.lower())
        if metric == "yes-ratio":
            return self._ratio(read.astype(np.float64), rows.astype(np.float64))
        both, golds, reads = (self._add(part.astype(np.float64)) for part in (gold & read, gold, read))

        def precision(sums: Floats) -> Floats:
            return sums[:, both] / np.maximum(sums[:, reads], 1.0)

        def recall(sums: Floats) -> Floats:
            return sums[:, both] / np.maximum(sums[:, golds], 1.0)

        def f1(sums: Floats) -> Floats:
            total = sums[:, reads] + sums[:, golds]
            return 2.0 * sums[:, both] / np.maximum(total, 1.0)

        return {"precision": precision, "recall": recall, "f1": f1}[metric]

    def _add(self, column: Floats) -> int:
        self.columns.append(column)
        return len(self.columns) - 1

    def _ratio(self, numerator: Floats, denominator: Floats) -> Formula:
        top, bottom = self._add(numerator), self._add(denominator)

        def ratio(sums: Floats) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(sums[:, bottom] > 0, sums[:, top] / sums[:, bottom], np.nan)

        return ratio

    def stacked(self) -> Floats:
        """Return the registered columns, [n, columns]."""
        return np.stack(self.columns, axis=1) if self.columns else np.zeros((len(self.table), 1))


def _scaled(formula: Formula, scale: float) -> Formula:
    return formula if scale == 1.0 else lambda sums: scale * formula(sums)


def _sum(parts: Sequence[Formula]) -> Formula:
    def total(sums: Floats) -> Floats:
        return np.sum([part(sums) for part in parts], axis=0) if parts else np.full(len(sums), np.nan)

    return total


def _less(part: Formula) -> Formula:
    """Return 1 less a figure."""
    return lambda sums: 1 - part(sums)


def _gain(after: Formula, before: Formula) -> Formula:
    """Return the share of what was missing before that was gained; not defined where nothing was missing."""

    def gain(sums: Floats) -> Floats:
        first = before(sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(first < 1.0, (after(sums) - first) / (1.0 - first), np.nan)

    return gain


def _mean(parts: Sequence[Formula], *, every: bool = False) -> Formula:
    """Return the mean of formulas; those without a value are left out, unless `every` one is needed."""

    def mean(sums: Floats) -> Floats:
        if not parts:
            return np.full(len(sums), np.nan)
        values = np.stack([part(sums) for part in parts])
        known = np.isfinite(values)
        count = known.sum(axis=0)
        average = np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1)
        return np.where(count == len(parts) if every else count > 0, average, np.nan)

    return mean
