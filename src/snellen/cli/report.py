"""snellen report"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from snellen.cli import options as shared
from snellen.cli.console import note
from snellen.cli.easi_reference import REFERENCES, show_comparison
from snellen.cli.option_parsing import argument, option
from snellen.errors import UsageError


@dataclass(frozen=True)
class ReferenceOptions:
    """Comparison of the runs with a reference."""

    PANEL: ClassVar[str] = "Comparison with a reference"

    reference: str | None = option(
        "Instead of the page: compare the runs with EASI's verification table and published rows.", value="easi"
    )
    reference_model: str | None = option(
        "Model of the reference to compare with.", value="NAME", said="the one with the run's model name"
    )
    leaderboard: str | None = option(
        "Leaderboard to read: a base URL, or a file with its answer.",
        value="URL|FILE",
        said="EASI_LEADERBOARD_URL, else https://easi.lmms-lab.com",
    )
    faults: str | None = option("Reproduce these faults of EASI's scoring (docs/easi-defects.md).", value="NAME,...")


def report(
    runs: list[Path] = argument("Run folders; with --reference also results of lmms-eval and VLMEvalKit.", value="RUN"),
    *,
    out: str | None = option(
        "File to write.", value="FILE", said="report.html in the run, or here if there are several"
    ),
    moved: shared.MovedOptions,
    max_answers: int = option("Maximum answers in the gallery; unusable and incorrect ones come first.", 2000, least=1),
    show_gold: shared.ShowGold = False,
    redact: Path | None = option(
        "Instead of the page: write the run's results without gold answers, evidence and images, for publication.",
        value="DIR",
    ),
    figures: Path | None = option(
        "Also write every plot as SVG and PDF to this folder, with an index; with --reference the six capabilities.",
        value="FOLDER",
    ),
    comparison: ReferenceOptions,
    prices: shared.PricesOfRun = None,
    as_json: bool = option(
        "With --reference: one JSON object on stdout.", False, names=("--json",), panel=shared.OUTPUT
    ),
) -> None:
    """Write one self-contained HTML page about one or more runs: scores, plots, and every answer with its images."""
    from snellen.engine.output_file import PAGE, require_output_file
    from snellen.runs.run import load_run

    target = None if out is None else require_output_file(out, "--out", PAGE)
    if comparison.reference is not None:
        if comparison.reference not in REFERENCES:
            raise UsageError(f"--reference {comparison.reference!r} is unknown", f"Use {', '.join(REFERENCES)}.")
        if redact is not None or show_gold or out is not None:
            raise UsageError(
                "--reference prints tables and excludes --out, --redact and --show-gold",
                "Omit the other options.",
            )
        show_comparison(
            runs,
            comparison.reference_model,
            comparison.faults,
            comparison.leaderboard,
            as_json=as_json,
            trust=moved.trust,
            figures=figures,
        )
        return
    if any((comparison.reference_model, comparison.faults, comparison.leaderboard, as_json)):
        raise UsageError(
            "--reference-model, --leaderboard, --faults and --json of report require --reference",
            "Add --reference easi.",
        )
    if redact is not None:
        from snellen.runs.redact import redact as redact_run

        if len(runs) != 1 or show_gold or out is not None or figures is not None:
            raise UsageError(
                "--redact takes one run, and excludes --show-gold, --out and --figures", "Omit the other options."
            )
        for path in redact_run(load_run(runs[0], trust=moved.trust).moved(moved.data, moved.images), redact):
            print(path)
        return
    from snellen.reports.runs import report as write_report
    from snellen.runs.tables.collect import open_runs

    opened, notes = open_runs(runs, trust=moved.trust)
    loaded = [run.moved(moved.data, moved.images) for run in opened]
    target = target or (loaded[0].folder.report if len(loaded) == 1 else Path("report.html"))
    page = write_report(loaded, target, max_answers=max_answers, show_gold=show_gold, prices=prices, figures=figures)
    print(page)
    if figures is not None:
        print(figures)
    for line in notes:
        note(f"note: {line}")
    for run in loaded:
        if not run.request_errors().answered:
            note(f"note: no sample of {run.path} has an answer")
