"""SITE: images and videos, questions with a varying number of options, accuracy adjusted for chance.

Source: the tasks `site_bench_image` and `site_bench_video*` of lmms-eval, `SiteBenchImage` and `SiteBenchVideo*` of VLMEvalKit,
and EASI's pooled score.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from snellen.benchmarks.spatial.scorers import constants
from snellen.benchmarks.spatial.scorers.letters import compared
from snellen.benchmarks.spatial.scorers.rows import Row
from snellen.benchmarks.spatial.scorers.vlmevalkit_option import hit as vlmevalkit
from snellen.types import Score

__all__ = ["chance_adjusted", "count_options", "letter", "lmms_eval", "summary", "vlmevalkit"]


def letter(reply: str, options: int) -> str | None:
    """lmms-eval: the letter of one of the options, upper case, by the first of four forms that finds any.

    `(X)`; X between spaces; `X.`; a colon by X. Of several letters the one whose last place between spaces is furthest
    behind, and the first in the alphabet where none has such a place. None where no form finds any.
    """
    text = f" {reply.strip()} "
    letters = ascii_uppercase[:options]
    forms: tuple[tuple[str, ...], ...] = (("({})",), (" {} ",), ("{}.",), ("{}:", ":{}", ": {}"))
    for shapes in forms:
        there = [one for one in letters if any(shape.format(one) in text for shape in shapes)]
        if there:
            return max(there, key=lambda one: text.rfind(f" {one} "))
    return None


def lmms_eval(reply: str, gold: str, options: int) -> Score:
    """lmms-eval: the letter against the gold one.

    Where there is none the harness draws an option at random, without a seed. Here such a row gets what the draw is worth
    on average, 1/n, so that its chance-adjusted score is 0; `detail` says `random_fallback`.
    """
    found = letter(reply, options)
    if found is None and options > 0:
        why = f"no letter: lmms-eval draws one of {options} options at random"
        return Score(1 / options, None, "invalid", why, {"random_fallback": True})
    return compared(found, gold)


def count_options(listed: str) -> int | None:
    """How many options a list in a cell of text has; None where it is no list of at least one.

    EASI leaves such rows out; VLMEvalKit's own table takes four (`site.options_when_unknown` of constants.toml).
    """
    found = constants.listed(listed)
    return len(found) if found else None


def chance_adjusted(rows: Sequence[Row], *, options_when_unknown: int | None = None) -> float | None:
    """Chance-adjusted accuracy: sum of (score - 1/n) over sum of (1 - 1/n); 1 is perfect, 0 chance, below 0 worse.

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
    most = sum(1 - 1 / n for _, n in known if n)
    return won / most if most > 0 else 0.0


def summary(rows: Sequence[Row], *, options_when_unknown: int | None = None) -> dict[str, float]:
    """`overall` and `<category>_caa` over the pooled rows, as fractions."""
    whole = chance_adjusted(rows, options_when_unknown=options_when_unknown)
    if whole is None:
        return {}
    found = {"overall": whole}
    by_category: dict[str, list[Row]] = {}
    for row in rows:
        if "category" in row.groups:
            by_category.setdefault(row.groups["category"], []).append(row)
    for category, some in by_category.items():
        value = chance_adjusted(some, options_when_unknown=options_when_unknown)
        if value is not None:
            found[f"{category}_caa"] = value
    return found
