"""snellen merge"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_parsing import argument
from snellen.cli.results import UNANSWERED, ModelOutcome, finish, profiles_json
from snellen.errors import SnellenError

if TYPE_CHECKING:
    from snellen.runs.run import Run
    from snellen.types import Metric


class MergedScores(NamedTuple):
    """The merged run and its metrics by profile, or why it cannot be scored here."""

    run: Run | None
    metrics: dict[str, list[Metric]]
    reason: str = ""


def merge(
    out: Path = argument("Folder of the merged run.", value="OUT"),
    shard: list[Path] | None = argument(
        "Folders of parts, or folders that hold parts (shard-K-of-N). Without any: the parts in OUT.",
        None,
        value="PART...",
    ),
    *,
    as_json: shared.JsonResult = False,
) -> None:
    """Merge the parts of a run (`run --shard K/N`) into one run, and score it.

    Each sample counts once: an answer rather than a failure, and of two answers the first. Damaged records are named, and
    parts of another run are refused with the difference. Merging again adds what has come since. The exit status is 0 only
    if every question was answered.
    """
    from snellen.runs.merge import merge_runs
    from snellen.runs.status import ENDED, present_state

    merged = merge_runs(out, shard or [])
    scores = _scored(merged.folder)
    totals = merged.meta.totals
    lost = totals.error + totals.timeout
    state = present_state(merged.folder, merged.meta)
    whole = state in ENDED and not lost
    if as_json:
        show_json(
            {
                "run": str(merged.folder),
                "fingerprint": merged.meta.fingerprint,
                "state": state,
                "records": merged.meta.records,
                "answered": totals.done,
                "failed": lost,
                "missing": list(merged.missing),
                "parts": list(merged.parts),
                **(
                    {"profiles": profiles_json(scores.run, scores.metrics)}
                    if scores.run
                    else {"not_scored": scores.reason}
                ),
            }
        )
        raise typer.Exit(0 if whole else UNANSWERED)
    table = new_table(f"Merged into {merged.folder}", ["part", "folder", "state"], ("records", "damaged"))
    for part in merged.parts:
        table.add_row(part.shard or "all", str(part.path), part.state, f"{part.records:,}", f"{len(part.damage):,}")
    show(table)
    for part in merged.parts:
        for fault in part.damage:
            note(f"note: {part.path}: {fault}")
    if merged.missing:
        named = ", ".join(merged.missing[:12]) + (" …" if len(merged.missing) > 12 else "")
        count = "1 part is" if len(merged.missing) == 1 else f"{len(merged.missing):,} parts are"
        note(f"note: {count} missing: {named}")
    size = merged.meta.coverage.of
    of = "" if size is None else f" of {min(size, merged.meta.coverage.limit or size) * merged.meta.spec.repeats:,}"
    print(f"{totals.done:,}{of} answered, {lost:,} failed ({state})")
    if scores.run is None:
        note(f"note: not scored: {scores.reason}")
        note(f"Next: snellen score {merged.folder} --data FOLDER")
    elif totals.done:
        finish(ModelOutcome([scores.run]), profile=None, report=False, as_json=False)
    raise typer.Exit(0 if whole else UNANSWERED)


def _scored(folder: Path) -> MergedScores:
    """Score a merged run. One whose data is not on this machine is merged all the same."""
    from snellen.runs.run import load_run

    try:
        run = load_run(folder)
        return MergedScores(run, run.figures(None))
    except SnellenError as error:
        return MergedScores(None, {}, error.message)
