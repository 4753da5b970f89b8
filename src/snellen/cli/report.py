"""snellen report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.errors import UsageError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write.", show_default="report.html in the run, or here if there are several"),
    ] = None,
    max_answers: Annotated[
        int, typer.Option(min=1, help="Answers in the gallery; unusable and wrong ones come first.")
    ] = 2000,
    show_gold: Annotated[
        bool, typer.Option("--show-gold", help="Show the gold answers of a restricted benchmark too.")
    ] = False,
    redact: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="In place of the page: the run's results without gold answers, evidence and pictures, to be published.",
        ),
    ] = None,
) -> None:
    """Write one self-contained HTML page about one or more runs: scores, plots, and every answer with its pictures."""
    from snellen.evaluation import load_run

    if redact is not None:
        from snellen.redacting import redact as publishable

        if len(runs) != 1 or show_gold or out is not None:
            raise UsageError("--redact takes one run, and goes with neither --show-gold nor --out")
        for path in publishable(load_run(runs[0]), redact):
            print(path)
        return
    from snellen.reporting import write

    opened = [load_run(path) for path in runs]
    target = out or (opened[0].folder.report if len(opened) == 1 else Path("report.html"))
    print(write(opened, target, max_answers=max_answers, show_gold=show_gold))
