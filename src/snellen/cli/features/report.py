"""snellen features report"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from snellen.cli import options as shared
from snellen.cli.console import show_json
from snellen.cli.features.shared import Outputs, Similarity, group
from snellen.cli.option_parsing import argument, option, values
from snellen.text import comma_list


@dataclass(frozen=True)
class JoinOptions:
    """Comparison of answers and features."""

    PANEL: ClassVar[str] = "Says against sees"

    join: Literal["image", "class"] = option("Match answers and features by image or by class.", "image")
    sees_from: float = option("Threshold of seen: 0 is chance, 1 is no error.", 0.5, value="SHARE")
    says_from: float = option("Threshold of said.", 0.5, value="SHARE")
    profile: str | None = option("Scoring profile of the replies.", said="the benchmark's first")
    level: str | None = option("Level of the questions over a taxonomy.", said="the finest")


@group.command()
def report(
    stores: list[Path] = argument("Feature stores.", value="STORE"),
    *,
    runs: list[Path] | None = option(
        "Run of a model on the same images; may be repeated.", names=("--with",), value="RUN"
    ),
    out: str = option("File to write.", "features.html", value="FILE"),
    output: Outputs = None,
    images: Path | None = option("Folder, zip or tar of the images.", said="the one they were extracted from"),
    measured: list[Path] | None = option(
        "Output of `snellen features attack --json` or `acuity --json`; may be repeated.", value="FILE"
    ),
    export: Path | None = option(
        "Also write figures as SVG and PDF, and tables as CSV and LaTeX, to this folder.", value="FOLDER"
    ),
    method: Literal["logistic", "ridge", "lda"] = option("Method of the probe.", "logistic"),
    similarity: Similarity = "cosine",
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
            **values(joining),
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
