"""snellen features report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from snellen.cli import options as given
from snellen.cli.console import show_json
from snellen.cli.features.shared import AsJson, group
from snellen.text import comma_list

JOINED = "Says against sees"


@group.command()
def report(
    stores: Annotated[list[Path], typer.Argument(metavar="STORE", help="Folders of features.")],
    runs: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="RUN", help="A question run over the same pictures; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("features.html"),
    output: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Outputs by comma, or all.", show_default="the first of each store"),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Where the pictures lie.", show_default="where they were extracted from")
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="What `snellen features attack --json` printed; may be repeated."),
    ] = None,
    method: Annotated[Literal["logistic", "ridge", "lda"], typer.Option(help="Of the probe.")] = "logistic",
    similarity: Annotated[Literal["cosine", "l2"], typer.Option(help="How near two features are.")] = "cosine",
    join: Annotated[
        Literal["image", "class"],
        typer.Option(help="Same pictures, or pictures of the same class.", rich_help_panel=JOINED),
    ] = "image",
    sees_from: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Seen from here on: 0 is guessing, 1 no error.", rich_help_panel=JOINED),
    ] = 0.5,
    says_from: Annotated[float, typer.Option(metavar="SHARE", help="Said from here on.", rich_help_panel=JOINED)] = 0.5,
    profile: Annotated[
        str | None,
        typer.Option(help="How replies are scored.", show_default="the benchmark's first", rich_help_panel=JOINED),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(help="Of the questions over a taxonomy.", show_default="the finest", rich_help_panel=JOINED),
    ] = None,
    trust: given.Trust = False,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page about stores: scores side by side, plots, neighbours, says against sees.

    With --with, each class is a point: what a probe reads from its features, what the run answers about its pictures.
    """
    from snellen.engine.output_file import PAGE, require_output_file
    from snellen.reports.features.build import ReportSettings, write_report
    from snellen.runs.run import load_run

    require_output_file(out, "--out", PAGE)
    page, told = write_report(
        stores,
        out,
        runs=[load_run(path, trust=trust) for path in runs or []],
        choices=ReportSettings(
            outputs=comma_list(output),
            similarity=similarity,
            method=method,
            images=images,
            join=join,
            sees_from=sees_from,
            says_from=says_from,
            profile=profile,
            level=level,
            measured=measured or [],
        ),
    )
    if as_json:
        show_json(told)
        return
    print(page)
