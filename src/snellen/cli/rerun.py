"""snellen rerun"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as given
from snellen.cli.outcome import Outcome, failures_as_json, finish, names


def rerun(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Do it all again in this folder.", show_default="go on in RUN with what is missing or failed"
        ),
    ] = None,
    profile: given.Profiles = None,
    report: given.WriteReport = False,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Repeat a run with the settings of its run_meta.json; keys are read from the environment again."""
    from snellen.engine.progress import display
    from snellen.evaluation import rerun as again

    with failures_as_json(out or run, *names(run), wanted=as_json):
        done = again(run, out=out, display=display(as_json=as_json, quiet=quiet))
    raise typer.Exit(finish(Outcome([done]), profile=profile, report=report, as_json=as_json))
