"""snellen report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as given
from snellen.cli.easi_reference import REFERENCES, beside
from snellen.errors import UsageError

REFERENCE = "Beside a reference"


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Folders of runs; with --reference also results of lmms-eval and VLMEvalKit."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write.", show_default="report.html in the run, or here if there are several"),
    ] = None,
    data: given.MovedData = None,
    images: given.MovedImages = None,
    trust: given.Trust = False,
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
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="easi",
            help="In place of the page: tables of the runs beside EASI's verification table and published rows.",
            rich_help_panel=REFERENCE,
        ),
    ] = None,
    reference_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which model of the reference answered.",
            show_default="the one of the run's model's name",
            rich_help_panel=REFERENCE,
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Show what EASI would have printed with these of its faults (docs/easi-defects.md).",
            rich_help_panel=REFERENCE,
        ),
    ] = None,
    prices: given.PricesOfRun = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="With --reference: one JSON object on stdout.", rich_help_panel=given.SHOWING),
    ] = False,
) -> None:
    """Write one self-contained HTML page about one or more runs: scores, plots, and every answer with its pictures."""
    from snellen.engine.output_file import PAGE, require_output_file
    from snellen.runs.run import load_run

    if out is not None:
        require_output_file(out, "--out", PAGE)
    if reference is not None:
        if reference not in REFERENCES:
            raise UsageError(f"--reference {reference!r} is not known", f"There is {', '.join(REFERENCES)}.")
        if redact is not None or show_gold or out is not None:
            raise UsageError("--reference prints tables, and goes with none of --out, --redact and --show-gold")
        beside(runs, reference_model, faults, as_json=as_json, trust=trust)
        return
    if reference_model is not None or faults is not None or as_json:
        raise UsageError("--reference-model, --faults and --json of report go with --reference", "--reference easi")
    if redact is not None:
        from snellen.runs.redact import redact as publishable

        if len(runs) != 1 or show_gold or out is not None:
            raise UsageError("--redact takes one run, and goes with neither --show-gold nor --out")
        for path in publishable(load_run(runs[0], trust=trust).moved(data, images), redact):
            print(path)
        return
    from snellen.reports.runs import report

    opened = [load_run(path, trust=trust).moved(data, images) for path in runs]
    target = out or (opened[0].folder.report if len(opened) == 1 else Path("report.html"))
    print(report(opened, target, max_answers=max_answers, show_gold=show_gold, prices=prices))
