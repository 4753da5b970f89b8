"""snellen failures"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.errors import UsageError


def failures(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")],
    review: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A person's decisions (JSONL), which override the rules; one run only."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, every answer's label too.")] = False,
) -> None:
    """Label what was not answered correctly, by rules over trace and verdict, and count the labels by run."""
    import msgspec

    from snellen import failures as room
    from snellen.evaluation import load_run

    if review is not None and len(runs) != 1:
        raise UsageError("--review is about one run", "Give one run.")
    decided = None if review is None else room.read_review(review)
    opened = [load_run(path) for path in runs]
    found = [list(room.label_run(run, decided)) for run in opened]
    if as_json:
        shown = [
            {"path": str(run.path), "model": run.meta.spec.model, "counts": room.counts(one), "answers": one}
            for run, one in zip(opened, found, strict=True)
        ]
        print(msgspec.json.encode({"runs": shown}).decode())
        return
    for run, one in zip(opened, found, strict=True):
        print(f"{run.path} · {run.meta.spec.model}: {len(one):,} not correct")
        for label, by in room.counts(one).items():
            total = sum(by.values())
            if total:
                person = f", {by['person']:,} by a person" if by["person"] else ""
                print(f"  {label:24}{total:7,}{total / len(one):8.1%}{person}")
