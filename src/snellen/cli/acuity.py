"""snellen acuity: measuring thresholds, comparing them, and what they explain of other runs"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, print_notes, show, show_json
from snellen.cli.judge import InlineJudgeOptions, InlineReaderOptions
from snellen.cli.option_parsing import argument, only, option
from snellen.cli.run import RunOptions, RunOutputOptions
from snellen.cli.run import run as run_benchmarks
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.acuity.comparison import ThresholdComparison
    from snellen.benchmarks.base import Data
    from snellen.runs.acuity_margin import CountedAnswers, MarginResult, ScoredItems, ShareRight
    from snellen.runs.acuity_results import MeasuredRun
    from snellen.runs.geometry import ItemGeometry
    from snellen.runs.run import Run
    from snellen.scoring.statistics.roc import RocArea

EMBEDDED = "embedded"


@dataclass(frozen=True)
class AcuityOptions:
    """What is measured, and how precisely."""

    PANEL: ClassVar[str] = "What is measured"

    attributes: str | None = option(
        "Conditions by comma: gap, contrast@8, colour@a+; a name alone means all its variants; default, all; chart.",
        value="NAMES",
        said="default; chart for the embedded model",
    )
    sides: shared.AcuitySides = None
    width: float | None = option(
        "A condition stops when its 95 % interval is no wider; 0.2 is a factor of 1.58.", value="DECADES", said="0.2"
    )
    most: int | None = option(
        "Questions of a condition at most; more where there are two options. In a constant design: all.", said="96"
    )
    design: Literal["adaptive", "constant"] | None = option(
        "Ask the levels that tell most, or 12 levels equally often.", said="adaptive"
    )
    survey: bool = option("The same as --design constant: 12 levels, 16 questions each.", False)
    shape: Literal["logistic", "normal", "weibull"] | None = option("Shape of the curve.", said="logistic")
    wording: int | None = option("One of two wordings of each question.", said="1", least=1, most=2)
    through: bool = option(
        "Measure through --image-format, --corrupt, --max-long-side, --max-pixels or --blank-images, which are else "
        "refused; each condition's name says so.",
        False,
    )
    like: str | None = option(
        "Ask the very questions of this run (a folder, or a model that has a run), and compare.", value="RUN"
    )
    compare: bool = option("Compare the thresholds of recorded runs; send no request.", False)

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

    explain: str | None = option(
        "Test whether thresholds of the first RUN explain right answers of this run of a benchmark.", value="RUN"
    )
    blank: str | None = option(
        "Compare guesses with this run of --blank-images, alone or beside the first RUN, and show tokens by side.",
        value="RUN",
    )
    geometry: str | None = option(
        "Size of the part that decides each answer: a file with sample_id, attribute, level; the region in which two "
        "pictures differ; CUB's boxes or heads.",
        value="FILE|pairs|cub:FOLDER|cub-head:FOLDER",
    )


def acuity(
    runs: list[str] | None = argument(
        "With --compare and --explain: run folders, or models that have a run in results/acuity-MODEL.",
        None,
        value="RUN RUN…",
    ),
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
    95 % interval for each condition (`snellen --help acuity`). The run is resumed by the same command, as with `snellen run`.

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
        data = shared.DataOptions(pairs=[f"{name}={value}" for name, value in settings.items()])
    run_benchmarks(
        ["acuity"],
        options=options,
        data=data,
        generation=generation,
        endpoint=endpoint,
        media=media,
        local=local,
        agents=shared.AgentOptions(),
        workers=workers,
        budget=budget,
        judging=InlineJudgeOptions(),
        readers=InlineReaderOptions(),
        output=output,
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
    data = shared.DataOptions(data=place, pairs=[f"{name}={value}" for name, value in merged.items()])
    out = options.out
    if out is None and options.model is not None and len(options.model) == 1:
        out = model_folder(options.model[0])
        out = out.with_name(f"{out.name}-like-{run_name(other.path)}")
    return data, replace(options, out=out, seed=source.seed)


def show_comparisons(runs: Sequence[Run], *, as_json: bool) -> None:
    """Compare each further run with the first, and print the ratios of their thresholds.

    Raises:
        UsageError: fewer than two runs, one of them twice, or runs that have nothing in common.
    """
    from snellen.runs.acuity_results import compare_thresholds, measured_run

    if len(runs) < 2:
        raise UsageError(f"--compare needs two runs; {len(runs)} was named", "Type: snellen acuity A B --compare")
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise UsageError("--compare: one run is named twice", "Name two runs.")
    first, *others = (measured_run(run) for run in runs)
    pairs = [(other, *compare_thresholds(first, other)) for other in others]
    if as_json:
        show_json({"comparisons": [_thresholds_json(first, other, rows, notes) for other, rows, notes in pairs]})
        return
    for other, rows, notes in pairs:
        _show_thresholds(first, other, rows)
        print_notes(notes)


def _names(first: MeasuredRun, other: MeasuredRun) -> tuple[str, str]:
    """Return the models' names, or the folders' where both runs are of one model."""
    models = first.run.meta.spec.model, other.run.meta.spec.model
    return models if models[0] != models[1] else (str(first.run.path), str(other.run.path))


def _show_thresholds(first: MeasuredRun, other: MeasuredRun, rows: Sequence[ThresholdComparison]) -> None:
    names = _names(first, other)
    paired = any(row.paired is not None for row in rows)
    numbers = ["ratio", "95 % interval", "smallest ratio\nthat could show", *(["McNemar p"] if paired else [])]
    table = new_table(f"acuity · {names[1]} against {names[0]}", ["condition", *names, "better"], numbers)
    for row in rows:
        better = {"first": names[0], "second": names[1], None: "cannot tell" if row.ratio is not None else "–"}
        cells = ["–", "", ""]
        if row.ratio is not None and row.ci95 is not None and row.smallest_ratio is not None:
            cells = [f"{row.ratio:.2f}", f"{row.ci95[0]:.2f} – {row.ci95[1]:.2f}", f"{row.smallest_ratio:.2f}"]
        if paired:
            cells.append("" if row.paired is None else f"{row.paired.p_value:.2g}")
        table.add_row(row.name, row.first, row.second, better[row.better], *cells)
    table.caption = (
        f"ratio: how many times finer {names[1]} sees, or how many times more it tolerates; "
        "its interval comes from both posteriors."
    ) + (f"\nMcNemar: the same questions, {names[1]} right or wrong against {names[0]}." if paired else "")
    show(table)


def _thresholds_json(
    first: MeasuredRun, other: MeasuredRun, rows: Sequence[ThresholdComparison], notes: Sequence[str]
) -> dict[str, Any]:
    from msgspec import to_builtins

    names = _names(first, other)
    sides = [
        {"name": name, "path": str(each.run.path), "model": each.run.meta.spec.model}
        for name, each in zip(names, (first, other), strict=True)
    ]
    return {"first": sides[0], "second": sides[1], "conditions": to_builtins(rows), "notes": list(notes)}


PAIRS, BIRD, HEAD = "pairs", "cub:", "cub-head:"
NO_CLAIM = "No claim: the interval includes .5, the area of a margin that says nothing."


def show_margins(acuity: Run, run: Run, geometry: str, *, as_json: bool) -> None:
    """Set the margins of a run's items against its answers, and print what follows.

    Raises:
        SnellenError: a run or the geometry cannot be read, or they have nothing in common.
    """
    from snellen.runs.acuity_margin import explain, scored_items
    from snellen.runs.acuity_results import measured_run

    items = scored_items(run)
    item_geometry = _geometry(geometry, items)
    result = explain(items, measured_run(acuity), item_geometry)
    if as_json:
        show_json(_margins_json(acuity, items, item_geometry, result))
        return
    _show_margins(items, item_geometry, result)


def _geometry(text: str, items: ScoredItems) -> ItemGeometry:
    """Read the geometry that `--geometry` names."""
    if text == PAIRS:
        from snellen.runs.acuity_margin import pair_geometry

        return pair_geometry(items)
    for prefix in (HEAD, BIRD):
        if text.startswith(prefix):
            from snellen.runs.geometry import read_cub

            folder = text.removeprefix(prefix)
            if not folder:
                raise UsageError(f"--geometry {text}: no folder is named", f"Example: --geometry {prefix}CUB_200_2011")
            return read_cub(Path(folder), "head" if prefix == HEAD else "bird", items.image_names())
    from snellen.runs.geometry import read_items

    return read_items(Path(text))


def _show_margins(items: ScoredItems, geometry: ItemGeometry, result: MarginResult) -> None:
    title = f"margin above the threshold against right answers · {items.run.path}"
    table = new_table(title, ["conditions"], ["area under\nthe ROC curve", "95 % interval", "right", "wrong"])
    names = [f"{name}: {words}" for name, words in result.conditions.items()]
    table.add_row("\n".join(names), *_area(result.area))
    for name, area in result.by_condition.items():
        table.add_row(f"{name} alone", *_area(area))
    table.caption = "\n".join([
        f"above the threshold {_share(result.seen)}; below it {_share(result.unseen)}",
        result.sentence or (NO_CLAIM if result.area.ci95 is not None else "No claim: there is no interval."),
    ])  # fmt: skip
    show(table)
    interval_text = "" if result.area.method is None else f"; interval: {result.area.method.text}"
    note(f"{result.items:,} items; profile {items.profile}; geometry: {geometry.source}{interval_text}")
    print_notes(result.notes)


def _area(area: RocArea) -> list[str]:
    value = "–" if area.value is None else f"{area.value:.3f}"
    ends = "–" if area.ci95 is None else f"{area.ci95[0]:.3f} – {area.ci95[1]:.3f}"
    return [value, ends, f"{area.right:,}", f"{area.wrong:,}"]


def _share(share: ShareRight) -> str:
    if not share.answers:
        return "there is no answer"
    ends = "" if share.ci95 is None else f" [{100 * share.ci95[0]:.0f}, {100 * share.ci95[1]:.0f}]"
    return f"{100 * share.right / share.answers:.0f} % of {share.answers:,} answers are right{ends}"


def _margins_json(acuity: Run, items: ScoredItems, geometry: ItemGeometry, result: MarginResult) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "run": str(items.run.path),
        "acuity": str(acuity.path),
        "models": {"run": items.run.meta.spec.model, "acuity": acuity.meta.spec.model},
        "profile": items.profile,
        "geometry": geometry.source,
        **to_builtins(result),
    }


def show_blank(blank: Run, sighted: Run | None, *, as_json: bool) -> None:
    """Print the answers about blank pictures beside the guess rate and the lowest levels of another run; tokens by side."""
    from msgspec import to_builtins

    from snellen.runs.acuity_margin import blank_control
    from snellen.runs.acuity_results import measured_run

    control = blank_control(blank, None if sighted is None else measured_run(sighted))
    if as_json:
        paths = {"blank": str(blank.path), "run": None if sighted is None else str(sighted.path)}
        show_json({**paths, **to_builtins(control)})
        return
    numbers = ["assumed", "right, blank pictures", *(["right, under 5 % seen"] if sighted is not None else [])]
    table = new_table(f"blank pictures · {blank.path}", ["condition"], numbers)
    for each in control.conditions:
        cells = [each.name, f"{100 * each.guess:.0f} %", _counted(each.blank)]
        table.add_row(*cells, *([_counted(each.unseen)] if sighted is not None else []))
    table.caption = "\n".join(f"{each.name}: {line}" for each in control.conditions for line in each.remarks)
    show(table)
    if control.tokens:
        sides = new_table("input tokens of a question", ["side in px"], ["mean", "answers"])
        for row in control.tokens:
            sides.add_row(str(row.side), f"{row.tokens:,.1f}", f"{row.answers:,}")
        sides.caption = control.usage
        show(sides)


def _counted(counts: CountedAnswers | None) -> str:
    if counts is None or counts.ci95 is None:
        return "–"
    low, high = counts.ci95
    return f"{100 * counts.right / counts.answers:.0f} % of {counts.answers:,} [{100 * low:.0f}, {100 * high:.0f}]"
