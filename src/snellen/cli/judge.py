"""snellen judge"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as shared
from snellen.cli.judge_options import JudgeEndpointOptions
from snellen.cli.option_parsing import expand_options, only
from snellen.cli.results import ModelOutcome, failures_as_json, finish


@dataclass(frozen=True)
class JudgeOptions:
    """Judge model, rubric and replies of a judged run."""

    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="KIND:NAME", help="The judge model.", show_default="JUDGE_MODEL"),
    ] = None
    rubric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="match, graded, or a rubric file (.toml).",
            show_default="the benchmark's own, else match",
        ),
    ] = None
    out: Annotated[Path | None, typer.Option(help="Folder of the verdicts.", show_default="RUN_judged")] = None
    with_images: Annotated[bool, typer.Option("--with-images", help="Send the images to the judge too.")] = False
    rule: Annotated[
        bool,
        typer.Option("--rule", help="Do not judge replies that the benchmark's rule scores as correct; mark them."),
    ] = False
    limit: Annotated[int | None, typer.Option(min=1, help="Judge only the first N replies.")] = None
    seed: Annotated[
        int, typer.Option(help="Seed of the delimiters around replies and of a local judge's sampling.")
    ] = 0
    id_is: shared.IdIs = "id"
    resume: shared.Resume = False


@expand_options
def judge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run whose replies are judged.")],
    options: JudgeOptions,
    moved: shared.MovedOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens", "temperature", "top_p")],
    endpoint: JudgeEndpointOptions,
    budget: shared.BudgetOptions,
    output: shared.OutputOptions,
) -> None:
    """Judge the replies of a run with a model, or resume an unfinished judged run.

    JUDGE_MODEL, JUDGE_BASE_URL and JUDGE_API_KEY are the defaults. Without a key no request is sent, and no rule
    replaces the judge. The last line is SUMMARY_JSON and one JSON object (on stderr with --json).
    """
    from snellen.cli.inline_judge import print_summary
    from snellen.engine.progress import display
    from snellen.engine.run_folder import JUDGED, derived_folder
    from snellen.runs.judge.ask import MODEL, setting
    from snellen.runs.judge.ask import judge as judge_run

    folder, model = options.out or derived_folder(run, JUDGED), options.model or setting(MODEL)
    with failures_as_json(folder, JUDGED, model, wanted=output.as_json):
        judged = judge_run(
            run,
            options.model,
            rubric=options.rubric,
            out=options.out,
            data=moved.data,
            images=moved.images,
            trust=moved.trust,
            with_images=options.with_images,
            rule=options.rule,
            display=display(as_json=output.as_json, quiet=output.quiet),
            **shared.run_settings(options, generation, endpoint, budget),
        )
    status = finish(ModelOutcome([judged]), profile=None, report=False, as_json=output.as_json)
    print_summary(judged, as_json=output.as_json)
    raise typer.Exit(status)
