"""Whether acuity explains the answers of a run, and the control by blank pictures, as tables and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.cli.console import new_table, note, show, show_json
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.runs.acuity_margin import CountedAnswers, MarginResult, ScoredItems, ShareRight
    from snellen.runs.geometry.items import ItemGeometry
    from snellen.runs.run import Run
    from snellen.scoring.statistics.roc import RocArea

PAIRS, BIRD, HEAD = "pairs", "cub:", "cub-head:"
NO_CLAIM = "No claim: the interval includes .5, the area of a margin that says nothing."


def show_margins(acuity: Run, run: Run, geometry: str, *, as_json: bool) -> None:
    """Set the margins of a run's items against its answers, and print what follows.

    Raises:
        SnellenError: a run or the geometry cannot be read, or they have nothing in common.
    """
    from snellen.runs.acuity_margin import explain, scored_items
    from snellen.runs.acuity_results import measured_run

    items = scored_items(run)
    item_geometry = _geometry(geometry, items)
    result = explain(items, measured_run(acuity), item_geometry)
    if as_json:
        show_json(_json(acuity, items, item_geometry, result))
        return
    _show(items, item_geometry, result)


def _geometry(text: str, items: ScoredItems) -> ItemGeometry:
    """Read the geometry that `--geometry` names."""
    if text == PAIRS:
        from snellen.runs.acuity_margin import pair_geometry

        return pair_geometry(items)
    for prefix in (HEAD, BIRD):
        if text.startswith(prefix):
            from snellen.runs.geometry.cub import read_cub

            folder = text.removeprefix(prefix)
            if not folder:
                raise UsageError(f"--geometry {text}: no folder is named", f"Example: --geometry {prefix}CUB_200_2011")
            return read_cub(Path(folder), "head" if prefix == HEAD else "bird", items.image_names())
    from snellen.runs.geometry.items import read_items

    return read_items(Path(text))


def _show(items: ScoredItems, geometry: ItemGeometry, result: MarginResult) -> None:
    title = f"margin above the threshold against right answers · {items.run.path}"
    table = new_table(title, ["conditions"], ["area under\nthe ROC curve", "95 % interval", "right", "wrong"])
    names = [f"{name}: {words}" for name, words in result.conditions.items()]
    table.add_row("\n".join(names), *_area(result.area))
    for name, area in result.by_condition.items():
        table.add_row(f"{name} alone", *_area(area))
    table.caption = "\n".join([
        f"above the threshold {_share(result.seen)}; below it {_share(result.unseen)}",
        result.sentence or (NO_CLAIM if result.area.ci95 is not None else "No claim: there is no interval."),
    ])  # fmt: skip
    show(table)
    interval_text = "" if result.area.method is None else f"; interval: {result.area.method.text}"
    note(f"{result.items:,} items; profile {items.profile}; geometry: {geometry.source}{interval_text}")
    for line in result.notes:
        note(f"note: {line}")


def _area(area: RocArea) -> list[str]:
    value = "–" if area.value is None else f"{area.value:.3f}"
    ends = "–" if area.ci95 is None else f"{area.ci95[0]:.3f} – {area.ci95[1]:.3f}"
    return [value, ends, f"{area.right:,}", f"{area.wrong:,}"]


def _share(share: ShareRight) -> str:
    if not share.answers:
        return "there is no answer"
    ends = "" if share.ci95 is None else f" [{100 * share.ci95[0]:.0f}, {100 * share.ci95[1]:.0f}]"
    return f"{100 * share.right / share.answers:.0f} % of {share.answers:,} answers are right{ends}"


def _json(acuity: Run, items: ScoredItems, geometry: ItemGeometry, result: MarginResult) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "run": str(items.run.path),
        "acuity": str(acuity.path),
        "models": {"run": items.run.meta.spec.model, "acuity": acuity.meta.spec.model},
        "profile": items.profile,
        "geometry": geometry.source,
        **to_builtins(result),
    }


def show_blank(blank: Run, sighted: Run | None, *, as_json: bool) -> None:
    """Print the answers about blank pictures beside the guess rate and the lowest levels of another run; tokens by side."""
    from msgspec import to_builtins

    from snellen.runs.acuity_margin import blank_control
    from snellen.runs.acuity_results import measured_run

    control = blank_control(blank, None if sighted is None else measured_run(sighted))
    if as_json:
        paths = {"blank": str(blank.path), "run": None if sighted is None else str(sighted.path)}
        show_json({**paths, **to_builtins(control)})
        return
    numbers = ["assumed", "right, blank pictures", *(["right, under 5 % seen"] if sighted is not None else [])]
    table = new_table(f"blank pictures · {blank.path}", ["condition"], numbers)
    for each in control.conditions:
        cells = [each.name, f"{100 * each.guess:.0f} %", _counted(each.blank)]
        table.add_row(*cells, *([_counted(each.unseen)] if sighted is not None else []))
    table.caption = "\n".join(f"{each.name}: {line}" for each in control.conditions for line in each.remarks)
    show(table)
    if control.tokens:
        sides = new_table("input tokens of a question", ["side in px"], ["mean", "answers"])
        for row in control.tokens:
            sides.add_row(str(row.side), f"{row.tokens:,.1f}", f"{row.answers:,}")
        sides.caption = control.usage
        show(sides)


def _counted(counts: CountedAnswers | None) -> str:
    if counts is None or counts.ci95 is None:
        return "–"
    low, high = counts.ci95
    return f"{100 * counts.right / counts.answers:.0f} % of {counts.answers:,} [{100 * low:.0f}, {100 * high:.0f}]"
