"""snellen rerun"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as given
from snellen.cli.preview import require_rerun
from snellen.cli.results import Outcome, failures_as_json, finish, names


def rerun(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Do it all again in this folder.", show_default="go on in RUN with what is missing or failed"
        ),
    ] = None,
    data: given.MovedData = None,
    images: given.MovedImages = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="The endpoint to ask; needed where the run is somebody else's and its endpoint not that of this environment."
        ),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The variable with the key; needed where the run is somebody else's and names another than the usual one.",
        ),
    ] = None,
    trust: given.Trust = False,
    patience: Annotated[float | None, given.PATIENCE_OPTION] = None,
    rpm: given.Rpm = None,
    tpm: given.Tpm = None,
    prices: given.PricesOfRun = None,
    profile: given.Profiles = None,
    report: given.WriteReport = False,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Repeat a run with the settings of its run_meta.json; keys are read from the environment again.

    A run folder may come from somebody else. Its endpoint and key variable are used without a question only if your Snellen
    wrote them, or if they are those that a run without --base-url and --key-env uses here.
    """
    from snellen.engine.progress import display
    from snellen.runs.evaluate import rerun as again

    require_rerun(run, profile, prices, trust=trust)
    with failures_as_json(out or run, *names(run), wanted=as_json):
        done = again(
            run,
            out=out,
            data=data,
            images=images,
            base_url=base_url,
            key_env=key_env,
            trust=trust,
            confirm=_confirmed if sys.stdin.isatty() and sys.stderr.isatty() and not (as_json or quiet) else None,
            patience_s=patience,
            rpm=rpm,
            tpm=tpm,
            prices=prices,
            display=display(as_json=as_json, quiet=quiet),
        )
    if prices is not None:
        from snellen.cli.console import note
        from snellen.runs import costs

        note(f"note: {costs.sentence(costs.recorded(done.folder, prices))}")
    raise typer.Exit(finish(Outcome([done]), profile=profile, report=report, as_json=as_json))


def _confirmed(question: str) -> bool:
    """The answer of the person at the terminal; no by default."""
    return typer.confirm(question, default=False, err=True)
