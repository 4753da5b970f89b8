"""Figures over scored rows that are no plain means: means of means, chance-adjusted accuracy, F1, groups right together.

Rows without a value are left out of every mean; a mean over nothing is not in the result, instead of a made-up figure.

Source: the aggregation of each benchmark's task in lmms-eval and class in VLMEvalKit, and EASI's pooled score of SITE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct, field, structs

from snellen.benchmarks.spatial.scorers.base import (
    OSI_CHOICE,
    OSI_DIRECTION,
    OSI_NUMBER,
    REVSI_AVERAGED,
    REVSI_NUMBER,
    SPAR_HIGH,
    SPAR_MIDDLE,
    SPAR_NUMBER,
    SPAR_VIEW_CHANGE,
    STREAMING,
    VSI_DIRECTION,
    mean,
)
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.errors import DataError
from snellen.scoring.rules.vlmevalkit import literal_list


class ScoredRow(Struct, frozen=True):
    """A scored sample, as far as figures need it.

    Attributes:
        value: its score, 0 to 1; None where it was not scored.
        groups: what it belongs to, by the name of the grouping: question type, category, source.
        options: how many options the question had; 0 where that is not known.
        qid: the name by which rotated and flipped forms of one question are told to belong together.
    """

    value: float | None
    groups: Mapping[str, str] = field(default_factory=dict)
    options: int = 0
    qid: str = ""


def micro(rows: Sequence[ScoredRow]) -> float | None:
    """Return the mean over scored rows; None where there is none."""
    values = [row.value for row in rows if row.value is not None]
    return mean(values) if values else None


def means(rows: Sequence[ScoredRow], grouping: str) -> dict[str, float]:
    """Return the mean of the scored rows of each group, in order of the groups' first rows; rows without a group are left out."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.value is not None and grouping in row.groups:
            values.setdefault(row.groups[grouping], []).append(row.value)
    return {name: mean(group) for name, group in values.items()}


def macro(rows: Sequence[ScoredRow], grouping: str) -> float | None:
    """Return the plain mean of the groups' means, each group weighing the same (BLINK in lmms-eval, SPAR-Bench)."""
    by_group = means(rows, grouping)
    return mean(list(by_group.values())) if by_group else None


def vsi(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return the mean score by question type, and `overall`, the plain mean of the eight: the three directions count as one.

    The directions are `object_rel_direction`, the plain mean of the three difficulties. Where one of the three is missing
    lmms-eval stops, and VLMEvalKit takes each that is there for a type of its own, which is done here.

    Returns:
        Fractions by name, 0 to 1; empty for no rows.
    """
    return _folded(rows, {"object_rel_direction": VSI_DIRECTION}, whole=True)


def _folded(rows: Sequence[ScoredRow], averaged: Mapping[str, Sequence[str]], *, whole: bool) -> dict[str, float]:
    """Return the means by question type, some of them folded into one, if all of these or any are there, and their mean."""
    by_type = means(rows, "question_type")
    for name, parts in averaged.items():
        known = [part for part in parts if part in by_type]
        if known and (not whole or len(known) == len(parts)):
            by_type[name] = mean([by_type.pop(part) for part in known])
    return {"overall": mean(list(by_type.values())), **by_type} if by_type else {}


def spar(rows: Sequence[ScoredRow], *, grouping: str = "task", view_change_in_middle: bool = True) -> dict[str, float]:
    """Return the mean score by task, `overall`, their plain mean, and `low`, `middle` and `high`, the means by difficulty.

    Args:
        rows: with the grouping that says each row's task.
        view_change_in_middle: False as in lmms-eval, where a slip in a name leaves it out of `middle` (not of `overall`).
    """
    by_task = means(rows, grouping)
    if not by_task:
        return {}
    middle = [task for task in SPAR_MIDDLE if view_change_in_middle or task not in SPAR_VIEW_CHANGE]
    figures = {"overall": mean(list(by_task.values()))}
    for difficulty, tasks in (("low", SPAR_NUMBER), ("middle", middle), ("high", SPAR_HIGH)):
        values = [by_task[task] for task in tasks if task in by_task]
        if values:
            figures[difficulty] = mean(values)
    return figures | by_task


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


def site(rows: Sequence[ScoredRow], *, options_when_unknown: int | None = None) -> dict[str, float]:
    """Return `overall` and the figure of each category over the pooled rows, as fractions."""
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
            figures[category] = value
    return figures


STARE_TERMS: tuple[tuple[str, ...], ...] = (
    ("2d_trans", "2d_trans_vsim"),
    ("3d_trans", "3d_trans_vsim"),
    ("folding_nets", "folding_nets_vsim"),
    ("tangram_puzzle", "tangram_puzzle_vsim"),
    ("temporal",),
    ("perspective",),
)
"""The six terms of the macro figure, each the mean of its categories."""


STARE_YES_NO = (*STARE_TERMS[2], *STARE_TERMS[3])
"""The categories whose figure in the macro mean is F1."""


def f1(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return F1 of yes over (predicted, gold); 0 where no yes was right, None for no pair."""
    if not pairs:
        return None
    hits = sum(pair == ("yes", "yes") for pair in pairs)
    if not hits:
        return 0.0
    precision = hits / sum(predicted == "yes" for predicted, _ in pairs)
    recall = hits / sum(gold == "yes" for _, gold in pairs)
    return 2 * precision * recall / (precision + recall)


def stare(rows: Sequence[ScoredRow], *, misses_count: bool = False) -> dict[str, float]:
    """Return `<category>_f1` of the yes-or-no categories, and `macro`, the mean of the six terms that there are.

    Args:
        rows: with the groups `category`, `f1_predicted` and `f1_gold`.
        misses_count: False as in the kit: rows whose letter is not read are left out of F1, and a category without any row
            counts as 0 in the macro mean if it is answered by other letters. True: unread replies count as the wrong
            answer, and categories without rows are left out.
    """
    by_category = means(rows, "category")
    if not by_category:
        return {}
    figures: dict[str, float] = {}
    for category in STARE_YES_NO:
        value = f1(
            [pair for row in rows if row.groups.get("category") == category and (pair := _pair(row, misses_count))]
        )
        if value is not None:
            figures[f"{category}_f1"] = value
    terms = []
    for term in STARE_TERMS:
        if term[0] in STARE_YES_NO:
            values = [figures[f"{category}_f1"] for category in term if f"{category}_f1" in figures]
        elif misses_count:
            values = [by_category[category] for category in term if category in by_category]
        else:
            values = [by_category.get(category, 0.0) for category in term]
        if values:
            terms.append(mean(values))
    return {**figures, "macro": mean(terms)} if terms else figures


def _pair(row: ScoredRow, misses_count: bool) -> tuple[str, str] | None:
    predicted, gold = row.groups.get("f1_predicted"), row.groups.get("f1_gold")
    if predicted and gold:
        return predicted, gold
    if misses_count and gold:
        return ("no" if gold == "yes" else "yes"), gold
    return None


def osi(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `mcq_accuracy`, `na_mra` and `relative_direction_avg`, each a mean over its rows, where there are any."""
    figures = {}
    for name, categories in (
        ("mcq_accuracy", OSI_CHOICE),
        ("na_mra", OSI_NUMBER),
        ("relative_direction_avg", OSI_DIRECTION),
    ):
        value = micro([row for row in rows if row.groups.get("category") in categories])
        if value is not None:
            figures[name] = value
    return figures


def revsi(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return the mean of each question type, four of them averaged over their parts, and `overall`, the plain mean of these."""
    return _folded(rows, REVSI_AVERAGED, whole=False)


def revsi_figures(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return the same, each under the name of its kind."""
    numbers = {*REVSI_NUMBER, *(name for name, parts in REVSI_AVERAGED.items() if parts[0] in REVSI_NUMBER)}
    by_type = revsi(rows)
    overall = {"overall": by_type.pop("overall")} if by_type else {}
    return overall | {f"{name}_{'mra' if name in numbers else 'accuracy'}": value for name, value in by_type.items()}


def by_repeat(rows: Sequence[ScoredRow]) -> list[list[ScoredRow]]:
    """Return the rows of each repeat of a run."""
    parts: dict[str, list[ScoredRow]] = {}
    for row in rows:
        parts.setdefault(row.groups.get("repeat", ""), []).append(row)
    return list(parts.values())


def circular_rows(rows: Sequence[ScoredRow]) -> list[ScoredRow]:
    """Return one row a group of rotated forms, worth 1 if all of them are right, and every other row as it is."""
    groups: dict[str, list[ScoredRow]] = {}
    plain = []
    for row in rows:
        if "circle" in row.groups:
            groups.setdefault(row.groups["circle"], []).append(row)
        else:
            plain.append(row)
    return plain + [
        ScoredRow(float(all(row.value == 1 for row in group)), group[0].groups, group[0].options, circle)
        for circle, group in groups.items()
        if any(row.value is not None for row in group)
    ]


def cv_bench(rows: Sequence[ScoredRow], *, halves: bool) -> dict[str, float]:
    """Return `2d`, `3d` and `overall`.

    Args:
        rows: with the groups `split` and `source`.
        halves: True as in the paper and VLMEvalKit: `2d` is the mean of its two sources' means, `overall` the mean of both
            halves. False as in lmms-eval: all three are means over rows.
    """
    flat = [row for row in rows if row.groups.get("split", "").upper() == "2D"]
    deep = [row for row in rows if row.groups.get("split", "").upper() == "3D"]
    both = {"2d": macro(flat, "source") if halves else micro(flat), "3d": micro(deep)}
    known = {name: value for name, value in both.items() if value is not None}
    overall = (mean(list(known.values())) if known else None) if halves else micro(rows)
    return {} if overall is None else {"overall": overall, **known}


def vsi_super_count(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `overall`, the plain mean of the durations' means; streaming questions count where there are no others."""
    by_type = means(rows, "question_type")
    plain = [value for name, value in by_type.items() if STREAMING not in name]
    values = plain or list(by_type.values())
    return {"overall": mean(values)} if values else {}


def circular(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `overall` and each category's figure, rotated forms of one question counting as one; none without such forms."""
    if not any("circle" in row.groups for row in rows):
        return {}
    counted = [row for part in by_repeat(rows) for row in circular_rows(part)]
    overall = micro(counted)
    parts = {f"{category}_accuracy": value for category, value in means(counted, "category").items()}
    return {} if overall is None else {"overall": overall, **parts}


BASE = 8


FLIP = "-flip"


KEYS: dict[str, Callable[[str], str]] = {
    "vanilla": lambda qid: qid,
    "flip": lambda qid: qid.replace(FLIP, ""),
    "circular": lambda qid: qid[: BASE + len(FLIP)] if FLIP in qid else qid[:BASE],
    "flip_circular": lambda qid: qid[:BASE],
}
"""Key that the rows of one unit share, by setting."""


SETTINGS = {"vanilla": "vanilla", "flip": "flip_eval", "circular": "circ_eval", "flip_circular": "flip_circ_eval"}
"""Setting to VLMEvalKit's name of it."""


def units(rows: Sequence[ScoredRow], setting: str) -> dict[str, float]:
    """Return 1 for each key whose rows are all right, else 0, in order of first rows (lmms-eval). `vanilla`: see `settings`."""
    key = KEYS[setting]
    right: dict[str, float] = {}
    for row in rows:
        if row.value is not None:
            right[key(row.qid)] = min(right.get(key(row.qid), 1.0), float(row.value == 1))
    return right


def settings(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `<setting>_accuracy` of lmms-eval: the mean over rows (vanilla) or over keys; empty for no rows."""
    vanilla = micro(rows)
    if vanilla is None:
        return {}
    figures = {"vanilla_accuracy": vanilla}
    for setting in ("flip", "circular", "flip_circular"):
        right = units(rows, setting)
        figures[f"{setting}_accuracy"] = sum(right.values()) / len(right)
    return figures


def main_rows(rows: Sequence[ScoredRow], setting: str) -> list[ScoredRow]:
    """Return VLMEvalKit's rows of a setting: those whose name is their key, worth 1 if all rows of the key are right.

    Raises:
        DataError: if a key has no row of its own name, where VLMEvalKit stops too.
    """
    if setting == "vanilla":
        return list(rows)
    right = units(rows, setting)
    scored = [structs.replace(row, value=right[row.qid]) for row in rows if row.qid in right]
    orphans = sorted(set(right) - {row.qid for row in scored})
    if orphans:
        raise DataError(
            f"3DSRBench, {setting}: {len(orphans)} of {len(right)} questions lack the row of their own name, "
            f"the first is {orphans[0]!r}. Score the whole file, or take lmms-eval's rule, which does without."
        )
    return scored


def with_main_row(rows: Sequence[ScoredRow], setting: str) -> list[ScoredRow]:
    """Return the rows whose key has the row of its own name, without which VLMEvalKit stops."""
    names, key = {row.qid for row in rows}, KEYS[setting]
    return [row for row in rows if setting == "vanilla" or key(row.qid) in names]


MAIN: dict[str, str] = CONSTANTS["three_dsr"]["main"]
"""The main category (height, location, orientation, multi_object) of each of the twelve."""


def groups_mean(rows: Sequence[ScoredRow], grouping: str, *, groups: bool) -> dict[str, float]:
    """Return `overall`, the plain mean of the means of groups, and these if `groups` is True."""
    overall = macro(rows, grouping)
    return {} if overall is None else {"overall": overall, **(means(rows, grouping) if groups else {})}


COMPOSITES: Mapping[str, Callable[[Sequence[ScoredRow]], dict[str, float]]] = {
    "vsi": vsi,
    "spar": partial(spar, grouping="question_type"),
    "spar_lmms_eval": partial(spar, grouping="question_type", view_change_in_middle=False),
    "site": site,
    "site_vlmevalkit": partial(site, options_when_unknown=CONSTANTS["site"]["options_when_unknown"]),
    "mean_of_categories": partial(groups_mean, grouping="category", groups=True),
    "mean_of_types": partial(groups_mean, grouping="question_type", groups=False),
    "stare": partial(stare, misses_count=True),
    "stare_kit": stare,
    "cv_bench": partial(cv_bench, halves=True),
    "cv_bench_lmms_eval": partial(cv_bench, halves=False),
    "vsi_super_count": vsi_super_count,
    "lego_puzzles": circular,
    "circular": circular,
    "osi": osi,
    "revsi": revsi_figures,
}
"""By the name that `composite` of [summary] has."""
