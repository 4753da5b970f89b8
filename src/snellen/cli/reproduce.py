"""snellen reproduce"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import to_builtins

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.judge import InlineJudgeOptions, InlineReaderOptions
from snellen.cli.option_parsing import argument, given, only, option
from snellen.cli.options import AgentOptions
from snellen.cli.results import UNANSWERED, ModelOutcome, failure_json, finish
from snellen.cli.run import RunCall, RunOptions, RunOutputOptions, perform_call
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark
    from snellen.engine.run_folder import RunSpec
    from snellen.runs.reproduce import Reproduction
    from snellen.runs.run import Run
    from snellen.types import Metric


def reproduce(
    benchmark: list[str] | None = argument(
        "Benchmarks (`snellen --help reproductions`); none with --run.", None, value="NAME"
    ),
    *,
    run: list[Path] | None = option("Instead of a new run: one that exists; may be repeated.", value="RUN"),
    trust: shared.Trust = False,
    figures: list[str] | None = option(
        "Figures of a model's repository (.eval_results) too: hf:OWNER/MODEL, its folder or one file; may be repeated.",
        value="PLACE",
    ),
    options: Annotated[
        RunOptions,
        only("model", "out", "limit", "repeats", "seed", "id_is", "cache", "strict_data", "dry_run"),
    ],
    data: shared.DataOptions,
    generation: shared.StudyOptions,
    endpoint: shared.EndpointOptions,
    media: shared.MediaOptions,
    local: shared.LocalOptions,
    workers: shared.WorkerOptions,
    budget: shared.BudgetOptions,
    judging: InlineJudgeOptions,
    output: Annotated[RunOutputOptions, only("profile", "as_json", "quiet")],
) -> None:
    """Run benchmarks as their figures were published, and set the published figures beside the measured ones.

    The judge is the published one unless you name another; sampling, tokens and pixels are the published ones where a
    source says them and you do not. Each published setting is the same, differs, or is unknown. The exit status is that of
    `snellen run`, and 9 if there is no figure of your own.
    """
    if run:
        outcome = _opened(run, benchmark, data, trust=trust)
        if unused := given(options, generation, endpoint, media, local, workers, budget, judging):
            raise UsageError(f"{unused[0]} is for a new run, and --run names one that exists", f"Omit {unused[0]}.")
    else:
        if not benchmark:
            raise UsageError(
                "no benchmark is named", "Name one that `snellen --help reproductions` lists, or a run with --run RUN."
            )
        own = (options, data, generation, endpoint, media, local, AgentOptions(), workers, budget, judging)
        call = RunCall(*own, InlineReaderOptions(), output)
        performed = perform_call(benchmark, call, lambda spec, each: _as_published(spec, each, judging))
        if performed is None:
            return
        outcome = performed
        if not output.as_json:
            finish(outcome, profile=output.profile, report=False, as_json=False)
    raise typer.Exit(_show_all(outcome, output.profile, figures or (), as_json=output.as_json))


def _opened(
    folders: Sequence[Path], benchmarks: Sequence[str] | None, data: shared.DataOptions, *, trust: bool
) -> ModelOutcome:
    """Open runs that exist. Raises UsageError for a run of a benchmark that is not named beside it."""
    from snellen.benchmarks.registry import find, is_path
    from snellen.runs.run import load_run

    runs = [load_run(folder, trust=trust).moved(data.data, data.images) for folder in folders]
    wanted = [find(name).name if is_path(name) else name for name in benchmarks or ()]
    for opened in runs:
        if wanted and opened.benchmark.name not in wanted:
            raise UsageError(
                f"{opened.path} is a run of {opened.benchmark.name}, not of {' or '.join(wanted)}",
                f"Omit the name, or write {opened.benchmark.name}.",
            )
    return ModelOutcome(runs)


def _as_published(spec: RunSpec, benchmark: Benchmark, judging: InlineJudgeOptions) -> tuple[RunSpec, Benchmark]:
    """Return a run's settings and benchmark with the published judge and settings in place of those that nobody chose."""
    from snellen.runs.reproduce import published_settings
    from snellen.runs.settings import as_published

    settled = as_published(spec, settings := published_settings(benchmark))
    if settled != spec:
        note(f"note: {benchmark.name}: settings as published, by {settings['source']}")
    if judging.judge is None and benchmark.rubric is not None and benchmark.published_judge:
        note(f"note: {benchmark.name}: judged by {benchmark.published_judge}, as published; --judge names another")
        benchmark = replace(benchmark, judge=f"api:{benchmark.published_judge}")
    return settled, benchmark


def _show_all(outcome: ModelOutcome, profile: str | None, figures: Sequence[str], *, as_json: bool) -> int:
    """Print the reproductions of all runs; return the exit status."""
    from snellen.runs.interchange.hub_results import published_about
    from snellen.runs.reproduce import reproductions

    found = [
        (run, reproductions(run, profile, published_about(run.benchmark, figures) if figures else ()))
        for run in outcome.runs
    ]
    if as_json:
        failures = [failure_json(failure) for failure in outcome.failures]
        show_json({"reproductions": [_facts(run, tables) for run, tables in found], "failures": failures})
    for run, tables in () if as_json else found:
        show(*(each for table in tables for each in _tables(run, table)))
        if not tables:
            show(f"{run.benchmark.name}: no published figure is known")
    owned = [list(table.own.values()) for _, tables in found for table in tables]
    lacking = any(not own or any(metric.value is None for metric in own) for own in owned)
    return outcome.status or (UNANSWERED if lacking else 0)


def _part(part: str) -> str:
    return f"a part, and no reproduction: {part}" if part else ""


def _tables(run: Run, found: Reproduction) -> list[Any]:
    title = f"{found.table.title} ({found.table.source})\nown: {run.meta.spec.model_with_adapter} in {run.path}, profile {found.profile}"
    figures = new_table(title, ["published of", "metric"], ["published", "own", "95 % interval", "inside"])
    for each in found.figures:
        metric = found.own.get(each.metric)
        own = "–" if metric is None or metric.value is None else _text(metric, metric.value)
        ends = "–" if metric is None or metric.ci95 is None else " – ".join(_text(metric, end) for end in metric.ci95)
        kind = f" ({each.kind})" if each.kind not in ("model", each.row.lower()) else ""
        inside = {None: each.reason or "–", True: "yes", False: "no"}[each.inside]
        figures.add_row(each.row + kind, each.metric, each.text, own, ends, inside)
    settings = new_table(None, ["setting", "published", "own", ""])
    for setting in found.settings:
        settings.add_row(setting.name, setting.published or "unknown", setting.own, setting.state)
    source = dict(found.table.settings).get("source")
    lines = [f"published settings: {source}" if source else "", _part(found.part)]
    settings.caption = "\n".join(filter(None, lines)) or None
    return [figures, settings]


def _text(metric: Metric, value: float) -> str:
    """Return an own value in the unit of the published one."""
    return f"{100 * value:.2f}" if metric.unit == "fraction" else f"{value:g}"


def _facts(run: Run, tables: Sequence[Reproduction]) -> Mapping[str, Any]:
    from snellen.runs.reproduce import part_of

    published = [
        {
            **{
                "title": found.table.title,
                "source": found.table.source,
                "by": found.table.by,
                "profile": found.profile,
            },
            "own": to_builtins(list(found.own.values())),
            "figures": to_builtins(found.figures),
            "settings": to_builtins(found.settings),
            "settings_source": dict(found.table.settings).get("source"),
            "part": _part(found.part),
        }
        for found in tables
    ]
    facts = {"run": str(run.path), "benchmark": run.benchmark.name, "model": run.meta.spec.model}
    part = next((found.part for found in tables if found.part), part_of(run))
    return {**facts, "is_part": bool(part), "part": _part(part), "published": published}
