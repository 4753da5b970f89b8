"""snellen leakage"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from msgspec import to_builtins

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, print_notes, show, show_json
from snellen.cli.option_parsing import argument, only, option
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark
    from snellen.engine.run_folder import RunSpec
    from snellen.runs.leakage.panel import Panel
    from snellen.runs.run import Run

PAGE = "leakage.html"
LISTED = 10
"""Questions answered blind that the terminal shows; the page and --json have more."""


@dataclass(frozen=True)
class LeakageOptions:
    """Model, conditions and folders of a panel."""

    PANEL: ClassVar[str] = "Panel"

    model: str | None = option("Model to ask.", names=("--model", "-m"), value="KIND:NAME")
    conditions: str | None = option(
        "Conditions beside full, by comma: text, options, grey, other, patches, shuffle.", value="NAMES", said="all"
    )
    shuffles: int = option("Drawn orders of the options.", 3, least=0, most=16)
    runs: list[Path] | None = option(
        "Folders of panels, or of runs without pictures, by other models; further ones may follow.", value="RUN"
    )
    out: Path | None = option("Folder of the runs and the page.", said="results/leakage-BENCHMARK-MODEL")
    limit: int | None = option("Look at the first N samples only.", least=1)
    seed: shared.Seed = 0
    dry_run: bool = option("Show questions, images, estimated tokens and cost. Sends nothing, needs no key.", False)
    trust: shared.Trust = False


@dataclass(frozen=True)
class LeakageOutputOptions(shared.OutputOptions):
    """Profile and form of the panel."""

    profile: str | None = option("Scoring profile.", said="the benchmark's first", panel=shared.OUTPUT)


def leakage(
    benchmark: list[str] = argument(
        "Benchmark, as for `snellen run`; behind it further folders of --runs.", value="BENCHMARK"
    ),
    *,
    options: LeakageOptions,
    data: shared.DataOptions,
    generation: Annotated[shared.StudyOptions, only("max_tokens", "temperature", "top_p", "stop", "system")],
    endpoint: shared.EndpointOptions,
    media: shared.MediaOptions,
    local: shared.LocalOptions,
    budget: Annotated[shared.BudgetOptions, only("max_cost", "prices")],
    output: LeakageOutputOptions,
) -> None:
    """Measure how much of a model's accuracy on a benchmark needs no picture, and what gives answers away.

    The same samples are asked with their picture, as text alone, as options alone, with a grey, another or a shuffled
    picture, and with the options in other orders. Each condition is an ordinary run in one folder, and is resumed by the
    same command. A leak is named only if its test holds after Holm's correction. --max-cost bounds all runs together.

    Without --model, the samples alone are looked at, and the blind runs of --runs.
    """
    from snellen.benchmarks.registry import find, lasting_name
    from snellen.cli.preview import require_profile, require_run_folder, require_used_data
    from snellen.runs.leakage.panel import panel
    from snellen.runs.perform import default_folder
    from snellen.runs.settings import run_spec

    name, others = benchmark[0], [*(options.runs or ()), *map(Path, benchmark[1:])]
    if others and not options.runs:
        raise UsageError(
            f"{others[0]} is named behind the benchmark; one benchmark was expected", "Name runs behind --runs."
        )
    subject = find(lasting_name(name))
    settings: Any = {
        **shared.run_settings(options, data, generation, endpoint, media, local, budget),
        "limit": options.limit,
        "seed": options.seed,
    }
    spec = run_spec(lasting_name(name), options.model or "", settings)
    require_used_data(spec.data, [subject])
    runs: dict[str, Run] = {}
    folder = options.out
    if options.model is not None:
        require_profile(spec, subject, output.profile)
        usual = default_folder(run_spec(name, options.model, {}), Path())
        folder = folder or Path("results") / f"leakage-{usual.name}"
        require_run_folder(folder)
        made = _ask(spec, subject, folder, options, output)
        if made is None:
            return
        runs = made
    found = panel(
        subject,
        spec.data,
        runs,
        profile=output.profile,
        limit=options.limit,
        others=others,
        trust=options.trust,
    )
    page = None
    if folder is not None:
        from snellen.reports.leakage_page import write_leakage_page

        page = write_leakage_page(found, runs, folder / PAGE)
    if output.as_json:
        show_json({**to_builtins(found), "found": [test.name for test in found.found], "page": page and str(page)})
    else:
        _show(found)
        if page is not None:
            print(page)
    lacking = any(run.meta.totals.error or run.meta.totals.timeout for run in runs.values())
    raise typer.Exit(9 if lacking else 0)


def _ask(
    spec: RunSpec, subject: Benchmark, folder: Path, options: LeakageOptions, output: LeakageOutputOptions
) -> dict[str, Run] | None:
    """Ask all conditions; None for --dry-run, which shows what they would take."""
    from snellen.engine.progress import Lines, Silent
    from snellen.runs.leakage.panel import cells_of, chosen_conditions, measure

    cells = cells_of(spec, subject, folder, chosen_conditions(options.conditions, options.shuffles))
    if options.dry_run:
        from snellen.cli.preview import require_models, show_estimates

        require_models([spec], here=False)
        specs, subjects = [cell.spec for cell in cells], [cell.subject for cell in cells]
        show_estimates(specs, subjects, [cell.folder for cell in cells], as_json=output.as_json)
        return None
    verbose = not (output.quiet or output.as_json)
    if verbose:
        note(f"{subject.name} with {spec.model_with_adapter}: {len(cells)} conditions in {folder}")
    return measure(
        cells,
        display=lambda cell: Silent() if output.quiet else Lines(as_json=output.as_json),
        note=note if verbose else lambda line: None,
    )


def _show(found: Panel) -> None:
    """Print the panel; of questions answered blind, the first ones."""
    from snellen.runs.leakage.tables import tables

    for title, each in tables(found, LISTED).items():
        is_blind = "question" in each.texts
        table = new_table(title, each.texts[:1] + each.texts[-1:] if is_blind else each.texts, each.numbers)
        for row in each.rows:
            table.add_row(*(row[:1] + row[-2:] if is_blind else row))
        table.caption = "\n".join(each.notes) or None
        show(table)
    print_notes(found.notes)
