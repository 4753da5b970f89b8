"""snellen features report"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.console import show_json
from snellen.cli.features.shared import group
from snellen.cli.option_parsing import expand_options
from snellen.text import comma_list

JOINED = "Says against sees"


@dataclass(frozen=True)
class JoinOptions:
    """Comparison of answers and features."""

    PANEL: ClassVar[str] = JOINED

    join: Annotated[
        Literal["image", "class"], typer.Option(help="Match answers and features by image or by class.")
    ] = "image"
    sees_from: Annotated[
        float, typer.Option(metavar="SHARE", help="Threshold of seen: 0 is chance, 1 is no error.")
    ] = 0.5
    says_from: Annotated[float, typer.Option(metavar="SHARE", help="Threshold of said.")] = 0.5
    profile: Annotated[
        str | None, typer.Option(help="Scoring profile of the replies.", show_default="the benchmark's first")
    ] = None
    level: Annotated[
        str | None, typer.Option(help="Level of the questions over a taxonomy.", show_default="the finest")
    ] = None


@group.command()
@expand_options
def report(
    stores: Annotated[list[Path], typer.Argument(metavar="STORE", help="Feature stores.")],
    *,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="RUN", help="Run of a model on the same images; may be repeated."),
    ] = None,
    out: Annotated[str, typer.Option(metavar="FILE", help="File to write.")] = "features.html",
    output: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Outputs, separated by commas, or all.", show_default="the first of each store"
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder, zip or tar of the images.", show_default="the one they were extracted from"),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Output of `snellen features attack --json` or `acuity --json`; may be repeated."
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also write figures as SVG and PDF, and tables as CSV and LaTeX, to this folder."
        ),
    ] = None,
    method: Annotated[Literal["logistic", "ridge", "lda"], typer.Option(help="Method of the probe.")] = "logistic",
    similarity: Annotated[Literal["cosine", "l2"], typer.Option(help="Similarity of two features.")] = "cosine",
    joining: JoinOptions,
    trust: shared.Trust = False,
    as_json: shared.JsonResult = False,
) -> None:
    """Write one self-contained HTML page about stores: scores, plots, neighbours, says against sees.

    With --with, each class is a point: accuracy of a probe on its features against the run's accuracy on its images.
    """
    from snellen.engine.output_file import PAGE, require_output_file
    from snellen.reports.features.build import ReportSettings, write_report
    from snellen.runs.run import load_run

    target = require_output_file(out, "--out", PAGE)
    page, summary = write_report(
        stores,
        target,
        runs=[load_run(path, trust=trust) for path in runs or []],
        choices=ReportSettings(
            outputs=comma_list(output),
            similarity=similarity,
            method=method,
            images=images,
            join=joining.join,
            sees_from=joining.sees_from,
            says_from=joining.says_from,
            profile=joining.profile,
            level=joining.level,
            measured=measured or [],
            export=export,
        ),
    )
    if as_json:
        show_json(summary)
        return
    print(page)
    if export is not None:
        print(export)
