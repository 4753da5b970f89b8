"""Gold answers of the data as a whole: their shares, and whether a fixed reply would score well."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import erfc, sqrt
from typing import Any

from msgspec import Struct

from snellen.runs.check.finding import CheckedRow, Findings
from snellen.runs.check.options import RowOptions
from snellen.scoring.statistics.guessing import GoodnessOfFit, uniform_fit

FEWEST = 20
"""Rows below which shares say nothing."""
ALPHA = 0.01
LEAST_GAIN = 0.05
"""A fixed reply must score that much above chance for shares to be a finding: many rows make any difference significant."""
LONGEST_RATIO = 1.5


class AnswerShare(Struct, frozen=True):
    """How often an answer is the gold one, and how often it would be if all of a row's options were equally likely."""

    answer: str
    count: int
    expected: float


class GoldAnswers:
    """Counts of gold answers, row by row.

    Args:
        shuffled: the options were shuffled, since the file's first option is always right.
    """

    def __init__(self, *, shuffled: bool = False) -> None:
        self._shuffled = shuffled
        self._positions: defaultdict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
        self._truths: Counter[str] = Counter()
        self._open_answer: tuple[str, Any] = ("", None)
        self._open_rows = 0
        self._open_same = True
        self._longest = self._compared = 0
        self._longest_expected = self._longest_variance = 0.0

    def add(self, row: CheckedRow, about: RowOptions) -> None:
        """Count one row; `about` says how long its options are."""
        if row.kind == "choice" and len(row.options) > 1 and row.answer in row.options:
            self._add_choice(row, about)
        elif row.kind == "truth":
            self._truths["yes" if row.answer else "no"] += 1
        elif row.kind not in ("choice", "open"):
            answer = row.kind, row.answer
            self._open_same = self._open_same and (not self._open_rows or answer == self._open_answer)
            self._open_answer = answer
            self._open_rows += 1

    def _add_choice(self, row: CheckedRow, about: RowOptions) -> None:
        letters = tuple(row.options)
        position = letters.index(row.answer)
        self._positions[letters][position] += 1
        lengths = about.lengths
        longest = max(lengths)
        if lengths.count(longest) == 1:
            chance = 1.0 / len(letters)
            self._compared += 1
            self._longest += lengths[position] == longest
            self._longest_expected += chance
            self._longest_variance += chance * (1.0 - chance)

    @property
    def _choices(self) -> int:
        return sum(counts.total() for counts in self._positions.values())

    def _first(self) -> int:
        return sum(counts[0] for counts in self._positions.values())

    def _letters(self) -> Counter[str]:
        """Return how often each letter is the gold answer."""
        letters: Counter[str] = Counter()
        for names, counts in self._positions.items():
            for position, count in counts.items():
                letters[names[position]] += count
        return letters

    def _expected(self) -> dict[str, float]:
        """Return how often each letter would be the gold answer if all of a row's options were equally likely."""
        expected: dict[str, float] = {}
        for names, counts in self._positions.items():
            for letter in names:
                expected[letter] = expected.get(letter, 0.0) + counts.total() / len(names)
        return expected

    def shares(self) -> list[AnswerShare]:
        """Return the share of each letter, and of yes and no."""
        counted, expected = self._letters(), self._expected()
        letters = [AnswerShare(letter, counted[letter], expected[letter]) for letter in sorted(expected)]
        half = self._truths.total() / 2
        return letters + [AnswerShare(word, self._truths[word], half) for word in ("yes", "no") if half]

    def report(self, findings: Findings) -> None:
        """Add the findings about the data as a whole."""
        if self._shuffled:
            findings.add_whole(
                "always-first", self._choices, "options are shuffled with a fixed seed before they are sent"
            )
        elif self._choices >= FEWEST and self._first() == self._choices:
            findings.add_whole("always-first", self._choices, "a model that always says A scores 100 %")
        elif self._choices >= FEWEST:
            self._report_letters(findings)
        truths = self._truths.total()
        if truths >= FEWEST:
            self._report_truths(findings, truths)
        if self._open_rows >= FEWEST and self._open_same:
            findings.add_whole("constant-answer", self._open_rows, repr(self._open_answer[1])[:80])
        self._report_longest(findings)

    def _report_letters(self, findings: Findings) -> None:
        letter, count = self._letters().most_common(1)[0]
        if count == self._choices:
            findings.add_whole("constant-answer", count, f"always {letter}")
            return
        by_size: dict[int, Counter[int]] = {}
        for names, counts in self._positions.items():
            by_size.setdefault(len(names), Counter()).update(counts)
        strata = [[counts[at] for at in range(size)] for size, counts in by_size.items()]
        expected_counts = self._expected()
        shares = ", ".join(
            f"{share.answer} {share.count / self._choices:.0%}" for share in self.shares()[: len(expected_counts)]
        )
        expected = ", ".join(f"{expected_counts[name] / self._choices:.0%}" for name in sorted(expected_counts))
        chance = sum(counts.total() / size for size, counts in by_size.items()) / self._choices
        self._report_unbalanced(findings, uniform_fit(strata), self._choices, shares, expected, letter, chance)

    def _report_truths(self, findings: Findings, rows: int) -> None:
        word, count = self._truths.most_common(1)[0]
        if count == rows:
            findings.add_whole("constant-answer", rows, f"always {word}")
            return
        if self._choices >= FEWEST:
            return  # one finding a file: choices come first
        counts = [self._truths["yes"], self._truths["no"]]
        shares = f"yes {counts[0] / rows:.0%}, no {counts[1] / rows:.0%}"
        self._report_unbalanced(findings, uniform_fit([counts]), rows, shares, "50%, 50%", word, 0.5)

    def _report_unbalanced(
        self, findings: Findings, fit: GoodnessOfFit, rows: int, shares: str, expected: str, most: str, chance: float
    ) -> None:
        best = (self._letters()[most] or self._truths[most]) / rows
        if fit.p_value >= ALPHA or best < chance + LEAST_GAIN:
            return
        findings.add_whole(
            "unbalanced-answers",
            rows,
            f"{shares} (equal shares: {expected}; {fit.test} {fit.statistic:.1f}, {fit.degrees} degrees of freedom, "
            f"{_p_text(fit.p_value)}); a model that always says {most} scores {best:.0%}, chance is {chance:.0%}",
        )

    def _report_longest(self, findings: Findings) -> None:
        if self._compared < FEWEST or self._longest < LONGEST_RATIO * self._longest_expected:
            return
        z = (self._longest - self._longest_expected) / sqrt(self._longest_variance)
        p_value = 0.5 * erfc(z / sqrt(2.0))
        if p_value < ALPHA:
            findings.add_whole(
                "longest-option",
                self._longest,
                f"{self._longest / self._compared:.0%} of {self._compared:,} rows with one longest option, by chance "
                f"{self._longest_expected / self._compared:.0%} ({_p_text(p_value)})",
            )


def _p_text(p_value: float) -> str:
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}"
