"""snellen rerun"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as shared
from snellen.cli.option_parsing import argument, only, option
from snellen.cli.preview import require_rerun
from snellen.cli.results import ModelOutcome, failures_as_json, finish, names


def rerun(
    run: Path = argument("Folder of the run.", value="RUN"),
    out: Path | None = option("Repeat the whole run in this folder.", said="resume RUN: run what is missing or failed"),
    *,
    moved: shared.MovedOptions,
    base_url: str | None = option(
        "Endpoint to use; required if the run is somebody else's and its endpoint is not this environment's."
    ),
    key_env: str | None = option(
        "Variable with the key; required if the run is somebody else's and names an unusual variable.", value="NAME"
    ),
    pace: Annotated[shared.EndpointOptions, only("patience", "rpm", "tpm")],
    prices: shared.PricesOfRun = None,
    profile: shared.Profiles = None,
    report: shared.WriteReport = False,
    output: shared.OutputOptions,
) -> None:
    """Repeat a run with the settings of its run_meta.json; keys are read from the environment again.

    A run folder may come from somebody else. Its endpoint and key variable are used without confirmation only if your
    Snellen wrote them, or if they are the defaults of this environment.
    """
    from snellen.engine.progress import display
    from snellen.runs.evaluate import rerun as rerun_run

    require_rerun(run, profile, prices, trust=moved.trust)
    interactive = sys.stdin.isatty() and sys.stderr.isatty() and not (output.as_json or output.quiet)
    with failures_as_json(out or run, *names(run), wanted=output.as_json):
        repeated = rerun_run(
            run,
            out=out,
            data=moved.data,
            images=moved.images,
            base_url=base_url,
            key_env=key_env,
            trust=moved.trust,
            confirm=_confirm if interactive else None,
            patience_s=pace.patience,
            rpm=pace.rpm,
            tpm=pace.tpm,
            prices=prices,
            display=display(as_json=output.as_json, quiet=output.quiet),
        )
    if prices is not None:
        from snellen.cli.console import note
        from snellen.runs import costs

        note(f"note: {costs.sentence(costs.recorded(repeated.folder, prices))}")
    raise typer.Exit(finish(ModelOutcome([repeated]), profile=profile, report=report, as_json=output.as_json))


def _confirm(question: str) -> bool:
    """Return the user's answer to a question on the terminal; no by default."""
    return typer.confirm(question, default=False, err=True)
