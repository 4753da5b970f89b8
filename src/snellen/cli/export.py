"""snellen export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as shared
from snellen.cli.console import note, show_json
from snellen.cli.option_groups import expand_options, only
from snellen.cli.option_text import parse_pairs


@expand_options
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    *,
    format: Annotated[
        str | None, typer.Option(metavar="NAME", help="Format to write.", show_default="list the formats of this run")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to.", show_default="RUN/exports/NAME")] = None,
    moved: shared.MovedOptions,
    data: Annotated[shared.DataOptions, only("option")],
    show_gold: Annotated[
        bool, typer.Option("--show-gold", help="Write the gold answers of a restricted benchmark too.")
    ] = False,
    as_json: shared.JsonResult = False,
) -> None:
    """Write a run in another program's result format: that of the benchmark's authors, or plain JSON lines.

    Without --format, list the formats of this run. Files are named after the model and the start time of the run, so the
    same run gives the same files. Omissions are reported on stderr.
    """
    from snellen.runs.export import export as write
    from snellen.runs.export import formats
    from snellen.runs.run import load_run

    loaded = load_run(run, trust=moved.trust)
    if format is None:
        known = {name: format_.about for name, format_ in formats(loaded.benchmark).items()}
        if as_json:
            show_json({"formats": known})
            return
        for name, about in known.items():
            print(f"{name:<12} {about}")
        return
    result = write(
        loaded,
        format,
        out=out,
        data=moved.data,
        images=moved.images,
        benchmark_options=parse_pairs(data.option),
        show_gold=show_gold,
    )
    if as_json:
        show_json({"files": [str(path) for path in result.files]})
    else:
        for path in result.files:
            print(path)
    for line in result.notes:
        note(f"note: {line}")
