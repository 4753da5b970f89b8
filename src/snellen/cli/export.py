"""snellen export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as given
from snellen.cli.console import note, show_json


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    format: Annotated[
        str | None, typer.Option(metavar="NAME", help="The format.", show_default="list those of this run")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to.", show_default="RUN/exports/NAME")] = None,
    data: Annotated[Path | None, typer.Option(help="Where the benchmark's files lie, if they have moved.")] = None,
    images: Annotated[Path | None, typer.Option(help="Where its pictures lie, if they have moved.")] = None,
    option: given.BenchmarkOptions = None,
    show_gold: Annotated[
        bool, typer.Option("--show-gold", help="Write the gold answers of a restricted benchmark too.")
    ] = False,
    trust: given.Trust = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=given.SHOWING)
    ] = False,
) -> None:
    """Write a run in another program's result format: that of the benchmark's authors, or plain JSON lines.

    Without --format it lists what there is for this run. Files are named after the model and the time at which the run
    began, so that the same run gives the same files. What was left out is said on stderr.
    """
    from snellen.runs.export import export as write
    from snellen.runs.export import formats
    from snellen.runs.run import load_run

    opened = load_run(run, trust=trust)
    if format is None:
        known = {name: one.about for name, one in formats(opened.benchmark).items()}
        if as_json:
            show_json({"formats": known})
            return
        for name, about in known.items():
            print(f"{name:<12} {about}")
        return
    done = write(
        opened,
        format,
        out=out,
        data=data,
        images=images,
        benchmark_options=given.pairs(option),
        show_gold=show_gold,
    )
    if as_json:
        show_json({"files": [str(path) for path in done.files]})
    else:
        for path in done.files:
            print(path)
    for line in done.notes:
        note(f"note: {line}")
