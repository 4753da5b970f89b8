"""snellen acuity"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.acuity_tables import show_comparisons
from snellen.cli.agent_options import AgentOptions
from snellen.cli.console import note
from snellen.cli.inline_judge import InlineJudgeOptions, InlineReaderOptions
from snellen.cli.option_parsing import expand_options, only
from snellen.cli.run import RunOptions, RunOutputOptions, run_benchmarks
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Data
    from snellen.runs.run import Run

EMBEDDED = "embedded"


@dataclass(frozen=True)
class AcuityOptions:
    """What is measured, and how precisely."""

    PANEL: ClassVar[str] = "What is measured"

    attributes: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Conditions by comma: gap, contrast@8, colour@a+; a name alone means all its variants; default, all; chart.",
            show_default="default; chart for the embedded model",
        ),
    ] = None
    sides: shared.AcuitySides = None
    width: Annotated[
        float | None,
        typer.Option(
            metavar="DECADES",
            help="A condition stops when its 95 % interval is no wider; 0.2 is a factor of 1.58.",
            show_default="0.2",
        ),
    ] = None
    most: Annotated[
        int | None,
        typer.Option(
            help="Questions of a condition at most; more where there are two options. In a constant design: all.",
            show_default="96",
        ),
    ] = None
    design: Annotated[
        Literal["adaptive", "constant"] | None,
        typer.Option(help="Ask the levels that tell most, or 12 levels equally often.", show_default="adaptive"),
    ] = None
    survey: Annotated[
        bool, typer.Option("--survey", help="The same as --design constant: 12 levels, 16 questions each.")
    ] = False
    shape: Annotated[
        Literal["logistic", "normal", "weibull"] | None,
        typer.Option(help="Shape of the curve.", show_default="logistic"),
    ] = None
    wording: Annotated[
        int | None, typer.Option(min=1, max=2, help="One of two wordings of each question.", show_default="1")
    ] = None
    through: Annotated[
        bool,
        typer.Option(
            "--through",
            help="Measure through --image-format, --corrupt, --max-long-side, --max-pixels or --blank-images, which are else "
            "refused; each condition's name says so.",
        ),
    ] = False
    like: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Ask the very questions of this run (a folder, or a model that has a run), and compare."
        ),
    ] = None
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare the thresholds of recorded runs; send no request.")
    ] = False

    def settings(self) -> dict[str, str]:
        """Return the benchmark's settings; raise UsageError for options that exclude each other."""
        if self.survey and self.design == "adaptive":
            raise UsageError("--survey and --design adaptive exclude each other", "Omit one of them.")
        values = {
            "attributes": self.attributes,
            "sides": self.sides,
            "width": None if self.width is None else f"{self.width:g}",
            "most": None if self.most is None else str(self.most),
            "design": "constant" if self.survey else self.design,
            "shape": self.shape,
            "wording": None if self.wording is None else str(self.wording),
            "through": "yes" if self.through else None,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class ExplainOptions:
    """What else thresholds tell, from recorded runs."""

    PANEL: ClassVar[str] = "Beyond acuity"

    explain: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Test whether thresholds of the first RUN explain right answers of this run of a benchmark.",
        ),
    ] = None
    blank: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Compare guesses with this run of --blank-images, alone or beside the first RUN, and show tokens by side.",
        ),
    ] = None
    geometry: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|pairs|cub:FOLDER|cub-head:FOLDER",
            help="Size of the part that decides each answer: a file with sample_id, attribute, level; the region in which two "
            "pictures differ; CUB's boxes or heads.",
        ),
    ] = None


@expand_options
def acuity(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN RUN…",
            help="With --compare and --explain: run folders, or models that have a run in results/acuity-MODEL.",
        ),
    ] = None,
    *,
    acuity_options: AcuityOptions,
    beyond: ExplainOptions,
    options: Annotated[RunOptions, only("model", "out", "limit", "seed", "serve", "resume", "dry_run")],
    generation: shared.StudyOptions,
    endpoint: shared.EndpointOptions,
    media: Annotated[
        shared.MediaOptions, only("max_long_side", "max_pixels", "image_format", "quality", "blank_images", "corrupt")
    ],
    local: shared.LocalOptions,
    workers: shared.WorkerOptions,
    budget: shared.BudgetOptions,
    output: RunOutputOptions,
) -> None:
    """Measure at which size, contrast or difference a model stops seeing.

    Draws pictures for this run, harder after right answers and easier after wrong ones, and prints a threshold with a
    95 % interval for each condition (docs/acuity.md). The run is resumed by the same command, as with `snellen run`.

    `snellen acuity A B --compare` prints the ratio of the thresholds of runs A and B, with an interval.
    `snellen acuity A --explain RUN --geometry FILE` tests whether they explain the answers of another run.
    """
    if beyond.explain is not None or beyond.geometry is not None:
        _require_only_compare(acuity_options, options, "--explain")
        _explain(list(runs or ()), beyond, compare=acuity_options.compare, as_json=output.as_json)
        return
    if beyond.blank is not None:
        _require_only_compare(acuity_options, options, "--blank")
        _show_blank(list(runs or ()), beyond.blank, compare=acuity_options.compare, as_json=output.as_json)
        return
    if acuity_options.compare:
        _require_only_compare(acuity_options, options)
        show_comparisons([recorded_run(name) for name in runs or ()], as_json=output.as_json)
        return
    if runs:
        raise UsageError(
            f"{' '.join(runs)}: arguments without --compare",
            "To measure a model: --model KIND:NAME. To compare runs: snellen acuity A B --compare",
        )
    data, options = _like(acuity_options, options)
    if data is None:
        settings = acuity_options.settings()
        if default := default_attributes(options.model or ()):
            settings.setdefault("attributes", default)
        data = shared.DataOptions(option=[f"{name}={value}" for name, value in settings.items()])
    run_benchmarks(
        ["acuity"],
        options,
        data,
        generation,
        endpoint,
        media,
        local,
        AgentOptions(),
        workers,
        budget,
        InlineJudgeOptions(),
        InlineReaderOptions(),
        output,
    )


def default_attributes(models: Sequence[str]) -> str | None:
    """Return the family of conditions that the embedded model can answer; None for other models.

    Raises:
        UsageError: the embedded model stands among others, which are measured otherwise.
    """
    if EMBEDDED not in models:
        return None
    if any(model != EMBEDDED for model in models):
        raise UsageError(
            "the embedded model answers the conditions of the chart only, and other models are measured by others",
            "Measure them one by one, or name conditions for all: --attributes chart.",
        )
    return "chart"


def _explain(runs: Sequence[str], beyond: ExplainOptions, *, compare: bool, as_json: bool) -> None:
    """Print whether the thresholds of a run explain the answers of another; raise UsageError for what is missing."""
    from snellen.cli.acuity_margins import show_margins
    from snellen.runs.run import load_run

    example = "snellen acuity ACUITY_RUN --explain RUN --geometry sizes.csv"
    if compare:
        raise UsageError("--explain and --compare exclude each other", "Omit one of them.")
    if beyond.blank is not None:
        raise UsageError("--explain and --blank exclude each other", "Omit one of them.")
    if beyond.explain is None or beyond.geometry is None:
        raise UsageError("--explain and --geometry belong together", f"Example: {example}")
    if len(runs) != 1:
        raise UsageError(f"--explain takes one run of acuity; {len(runs)} were named", f"Example: {example}")
    show_margins(recorded_run(runs[0]), load_run(beyond.explain), beyond.geometry, as_json=as_json)


def _show_blank(runs: Sequence[str], blank: str, *, compare: bool, as_json: bool) -> None:
    """Print the control by blank pictures; raise UsageError for more than one other run."""
    from snellen.cli.acuity_margins import show_blank

    if compare or len(runs) > 1:
        raise UsageError("--blank takes one other run at most", "Example: snellen acuity ACUITY_RUN --blank BLANK_RUN")
    show_blank(recorded_run(blank), recorded_run(runs[0]) if runs else None, as_json=as_json)


def _require_only_compare(acuity_options: AcuityOptions, options: RunOptions, option: str = "--compare") -> None:
    measuring_options = [
        *acuity_options.settings(),
        *(["like"] if acuity_options.like else []),
        *(["model"] if options.model else []),
    ]
    if measuring_options:
        raise UsageError(
            f"{option} reads recorded runs, and --{measuring_options[0]} measures a model",
            f"Omit --{measuring_options[0]}.",
        )


def recorded_run(name: str) -> Run:
    """Open a run by its folder, or the run of a model in results/acuity-MODEL.

    Raises:
        UsageError: there is neither.
    """
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.run import load_run

    folder = Path(name)
    if not RunFolder(folder).exists():
        folder = model_folder(name)
        if not RunFolder(folder).exists():
            raise UsageError(
                f"{name} is no run folder, and no model with a run: {folder} does not exist",
                "Name a run folder; `snellen list --runs` shows them.",
            )
    return load_run(folder)


def model_folder(model: str) -> Path:
    """Return the folder of a model's run."""
    from snellen.engine.run_folder import RunSpec
    from snellen.runs.perform import default_folder

    return default_folder(RunSpec(benchmark="acuity", model=model))


def _like(acuity_options: AcuityOptions, options: RunOptions) -> tuple[shared.DataOptions | None, RunOptions]:
    """Return data and options of a run that asks another run's questions; None for the data of any other run."""
    if acuity_options.like is None:
        return None, options
    settings = acuity_options.settings()
    chosen_settings = [name for name in settings if name != "shape"] + (["seed"] if options.seed else [])
    if chosen_settings:
        raise UsageError(
            f"--like brings the other run's questions along, and --{chosen_settings[0]} chooses others",
            f"Omit --{chosen_settings[0]}.",
        )
    from dataclasses import replace

    from snellen.runs.acuity_results import run_name

    other = recorded_run(acuity_options.like)
    spec = other.meta.spec
    if spec.benchmark != "acuity":
        raise UsageError(f"--like {acuity_options.like} is a run of {spec.benchmark}", "Name a run of acuity.")
    if other.meta.state != "complete":
        note(f"note: {other.path} is not complete: its {other.meta.totals.done:,} questions are asked")
    source: Data = spec.data
    place = other.path if source.options.get("design") != "like" or source.path is None else source.path
    merged = {**source.options, **settings, "design": "like"}
    data = shared.DataOptions(data=place, option=[f"{name}={value}" for name, value in merged.items()])
    out = options.out
    if out is None and options.model is not None and len(options.model) == 1:
        out = model_folder(options.model[0])
        out = out.with_name(f"{out.name}-like-{run_name(other.path)}")
    return data, replace(options, out=out, seed=source.seed)
