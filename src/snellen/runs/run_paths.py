"""Run folders that a user's paths name: runs, folders of runs, and what lies beside them in `results/*`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from snellen.engine.run_folder import RunFolder, runs_in
from snellen.errors import RedactedCopyError, RunError

NAMED = 3
"""Paths left out for one reason that are named before the rest is counted."""


def find_runs(
    paths: Sequence[str | Path],
    *,
    verdicts: bool = False,
    least: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Return the run folders that paths name, in their order: each is a run, or a folder with runs at any depth.

    Several paths, or a folder of runs, may hold more than runs: `say` is told what is left out.

    Args:
        paths: what the user named, often by `results/*`.
        verdicts: keep a judge's run whose subject is there too; it is left out otherwise, since it answers other questions.
        least: how many runs the command needs; of fewer nothing is left out, so that what opens them says what is missing.
        say: receives one line for each kind of thing that is left out.

    Raises:
        RunError: a path does not exist, or none of them holds a run.
    """
    found: list[Path] = []
    without: list[Path] = []
    named: set[Path] = set()
    for path in map(Path, paths):
        inside = [] if RunFolder(path).exists() else runs_in(path)
        if not inside and not RunFolder(path).exists() and len(paths) > 1 and path.exists():
            without.append(path)
            continue
        # A run that was named twice stays twice: the command says so. One that its folder holds as well counts once.
        found += [run for run in inside or [path] if run not in found or (run == path and path in named)]
        named.add(path)
    if not found:
        raise RunError(
            f"none of {len(paths):,} paths holds a run, such as {paths[0]}",
            "Pass folders that `snellen run --out FOLDER` wrote.",
        )
    kept, judging, copies = _sorted_out(found, verdicts=verdicts)
    if len(kept) < least:
        return [*found, *without]
    left_out(say, without, "holds no run")
    left_out(say, copies, "is a redacted copy")
    left_out(say, judging, "holds verdicts about another of the runs")
    return kept


def _sorted_out(found: Sequence[Path], *, verdicts: bool) -> tuple[list[Path], list[Path], list[Path]]:
    """Return the runs that are kept, judges' runs about one of them, and redacted copies; one alone is kept."""
    if len(found) == 1:
        return list(found), [], []
    places = {path.resolve() for path in found}
    kept: list[Path] = []
    judging: list[Path] = []
    copies: list[Path] = []
    for path in found:
        try:
            meta = RunFolder(path).meta()
        except RedactedCopyError:
            copies.append(path)
            continue
        except RunError:  # what opens the run says what is wrong with it
            kept.append(path)
            continue
        source = meta.spec.data.path
        about = source is not None and meta.judges and source.resolve() in places
        (judging if about and not verdicts else kept).append(path)
    return (kept, judging, copies) if kept else (list(found), [], [])


def left_out(say: Callable[[str], None], paths: Sequence[Path], reason: str) -> None:
    """Say which paths are left out, and why; the first few by name."""
    for path in paths[:NAMED]:
        say(f"{path} {reason} and is left out")
    if len(paths) > NAMED:
        say(f"{len(paths) - NAMED:,} more were left out for the same reason")
