"""SITE: images and videos, questions with a varying number of options, accuracy adjusted for chance.

Source: the tasks `site_bench_image` and `site_bench_video*` of lmms-eval, `SiteBenchImage` and `SiteBenchVideo*` of VLMEvalKit,
and EASI's pooled score.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from snellen.benchmarks.spatial.scorers.lmms_eval import score_letter
from snellen.benchmarks.spatial.scorers.rows import ScoredRow
from snellen.scoring.rules.literals import literal_list
from snellen.types import Score


def site_letter(reply: str, options: int) -> str | None:
    """Return the letter of one of the options as lmms-eval reads it, upper case, by the first of four forms that finds any.

    `(X)`; X between spaces; `X.`; a colon by X. Of several letters the one whose last place between spaces is furthest
    behind, and the first in the alphabet where none has such a place. None where no form finds any.
    """
    text = f" {reply.strip()} "
    letters = ascii_uppercase[:options]
    forms: tuple[tuple[str, ...], ...] = (("({})",), (" {} ",), ("{}.",), ("{}:", ":{}", ": {}"))
    for shapes in forms:
        matches = [letter for letter in letters if any(shape.format(letter) in text for shape in shapes)]
        if matches:
            return max(matches, key=lambda letter: text.rfind(f" {letter} "))
    return None


def lmms_eval(reply: str, gold: str, options: int) -> Score:
    """Score as lmms-eval: the letter against the gold one.

    Where there is none the harness draws an option at random, without a seed. Here such a row gets what the draw is worth
    on average, 1/n, so that its chance-adjusted score is 0; `detail` says `random_fallback`.
    """
    letter = site_letter(reply, options)
    if letter is None and options > 0:
        why = f"no letter: lmms-eval draws one of {options} options at random"
        return Score(1 / options, None, "invalid", why, {"random_fallback": True})
    return score_letter(letter, gold)


def count_options(text: str) -> int | None:
    """Count the options of a list in a cell of text; None where it is no list of at least one.

    EASI leaves such rows out; VLMEvalKit's own table takes four (`site.options_when_unknown` of constants.toml).
    """
    options = literal_list(text)
    return len(options) if options else None


def chance_adjusted(rows: Sequence[ScoredRow], *, options_when_unknown: int | None = None) -> float | None:
    """Return the chance-adjusted accuracy: sum of (score - 1/n) over sum of (1 - 1/n); 1 is perfect, 0 chance, below 0 worse.

    Args:
        rows: of images and videos together: EASI pools the samples of both, it does not average two figures.
        options_when_unknown: n of rows that do not say theirs; None leaves them out.

    Returns:
        None where no row counts; 0 where the rows leave nothing to win (one option each).
    """
    known = [
        (row.value, row.options or options_when_unknown)
        for row in rows
        if row.value is not None and (row.options or options_when_unknown)
    ]
    if not known:
        return None
    won = sum(value - 1 / n for value, n in known if n)
    possible = sum(1 - 1 / n for _, n in known if n)
    return won / possible if possible > 0 else 0.0


def summary(rows: Sequence[ScoredRow], *, options_when_unknown: int | None = None) -> dict[str, float]:
    """Return `overall` and `<category>_caa` over the pooled rows, as fractions."""
    overall = chance_adjusted(rows, options_when_unknown=options_when_unknown)
    if overall is None:
        return {}
    figures = {"overall": overall}
    by_category: dict[str, list[ScoredRow]] = {}
    for row in rows:
        if "category" in row.groups:
            by_category.setdefault(row.groups["category"], []).append(row)
    for category, category_rows in by_category.items():
        value = chance_adjusted(category_rows, options_when_unknown=options_when_unknown)
        if value is not None:
            figures[f"{category}_caa"] = value
    return figures
