"""snellen demo: the embedded model on the chart and on a short acuity test, with their reports, offline"""

from __future__ import annotations

import webbrowser
from pathlib import Path

import typer

from snellen.cli import options as shared
from snellen.cli.acuity import EMBEDDED
from snellen.cli.console import note
from snellen.cli.judge import InlineJudgeOptions, InlineReaderOptions
from snellen.cli.option_parsing import option
from snellen.cli.results import ModelOutcome, finish
from snellen.cli.run import RunCall, RunOptions, RunOutputOptions, perform_call
from snellen.cli.view import browser_wanted

STEPS = {"chart": ("questions=40",), "acuity": ("attributes=chart/digit-blur,chart/digit-noise",)}
"""Benchmarks and their settings: half of the chart's questions and two thresholds, which take some seconds."""


def demo(
    out: Path = option("Folder of the two runs.", Path("results/demo"), value="FOLDER"),
    open_browser: bool | None = option(
        "Open the chart's report.", names=("--open/--no-open",), said="open on a desktop, not over SSH or in CI"
    ),
    as_json: bool = option("One JSON object on stdout, progress as JSON lines on stderr.", False, names=("--json",)),
) -> None:
    """Try Snellen without a model, a key or a network: run the embedded model and write its reports.

    Runs half of the embedded chart and a short acuity test, as `snellen run` and `snellen acuity` do. The same command
    continues what is unfinished there, and writes the reports again. The exit status is that of `snellen run`.
    """
    outcome = ModelOutcome()
    for benchmark, settings in STEPS.items():
        made = perform_call([benchmark], _call(out / benchmark, settings, as_json=as_json))
        if made is not None:
            outcome.runs += made.runs
    status = finish(outcome, profile=None, report=True, as_json=as_json)
    page = outcome.runs[0].folder.report.resolve()
    if not as_json:
        print(f"\nReport: {page}\n\nNext:")
        for command, purpose in _next(out):
            print(f"  {command:<62} {purpose}")
    wanted = (browser_wanted() and not as_json) if open_browser is None else open_browser
    if wanted and not webbrowser.open(page.as_uri()):
        note(f"no browser could be opened; open {page} yourself")
    raise typer.Exit(status)


def _call(folder: Path, settings: tuple[str, ...], *, as_json: bool) -> RunCall:
    return RunCall(
        RunOptions(model=[EMBEDDED], out=folder),
        shared.DataOptions(pairs=list(settings)),
        shared.StudyOptions(),
        shared.EndpointOptions(),
        shared.MediaOptions(),
        shared.LocalOptions(),
        shared.AgentOptions(),
        shared.WorkerOptions(),
        shared.BudgetOptions(),
        InlineJudgeOptions(),
        InlineReaderOptions(),
        RunOutputOptions(as_json=as_json),
    )


def _next(out: Path) -> list[tuple[str, str]]:
    """Return commands to go on with, and what each is for."""
    return [
        (f"snellen view {out}", "every answer, in the browser"),
        ("snellen run chart --model api:NAME --base-url http://HOST/v1", "your own model on the same chart"),
        ("snellen run my.csv --model api:NAME --base-url http://HOST/v1", "your own questions"),
    ]
