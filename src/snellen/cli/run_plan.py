"""`snellen run PLAN.toml`: a plan of models, benchmarks and settings, run as one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.cli.console import new_table, note, print_notes, show, show_json
from snellen.cli.option_parsing import given
from snellen.cli.results import UNANSWERED
from snellen.engine.endpoints import judge_command
from snellen.engine.run_folder import RunFolder
from snellen.errors import FingerprintError, InterruptedRunError, RunLockedError, SnellenError, UsageError
from snellen.runs.caveats import empty_replies, reply_faults
from snellen.runs.status import ENDED, State, present_state
from snellen.scoring.metric_text import bracketed, legend, mark
from snellen.types import Metric

if TYPE_CHECKING:
    from snellen.runs.plan.cells import CellOutcome, PlanCell, PlanOutcome

ALLOWED = ("out", "dry_run", "resume", "as_json", "quiet", "profile", "report")
"""Options of `snellen run` that a plan does not say itself."""


@dataclass(frozen=True)
class PlanCall:
    """What the command line says about a plan."""

    out: Path | None
    dry_run: bool
    as_json: bool
    quiet: bool
    profile: str | None
    report: bool


def run_plan(path: str, call: PlanCall) -> int:
    """Run a plan, or show it; return the exit status.

    Raises:
        SnellenError: the plan cannot be run; no request was sent.
    """
    from snellen.runs.plan.cells import cells_of, changes, execute, require_same_runs, write_record
    from snellen.runs.plan.document import read_plan

    plan = read_plan(path)
    out = call.out or plan.out
    cells = cells_of(plan, out)
    if call.profile is not None:
        from snellen.runs.scoring import profiles_of

        for cell in cells:
            profiles_of(cell.subject, call.profile)
    print_notes(sorted(changes(out, cells)))
    if call.dry_run:
        _show_cells(cells, as_json=call.as_json)
        return 0
    require_same_runs(cells)
    _require_judges(path, cells)
    write_record(out, cells)
    verbose = not (call.quiet or call.as_json)
    if not call.quiet:
        _show_data(cells, verbose=verbose)
    if verbose:
        note(f"{plan.name}: {len(cells):,} runs in {out}")
    outcome = execute(cells, plan.limits, display=_display(call), note=note if verbose else _silent)
    _ask(outcome, call)
    return _finish(plan.name, outcome, call)


def _require_judges(path: str, cells: Sequence[PlanCell]) -> None:
    """Check the judges of a plan as those of a single run are, each once, before anything is sent to a model.

    Raises:
        UsageError: the plan names a judge, and no reply of its benchmarks is for one.
        PreflightError: a server does not take the key of a judge, or does not serve it.
    """
    judged = [
        (cell, cell.asked) for cell in cells if cell.asked is not None and cell.asked.judge and cell.fault is None
    ]
    if not judged:
        return
    from snellen.cli.judge import require_judge
    from snellen.runs.judge.ask import leaves_to_judge, spelled

    if not any(leaves_to_judge(cell.subject, cell.spec.data) for cell, _ in judged):
        names = ", ".join(dict.fromkeys(cell.benchmark for cell, _ in judged))
        raise UsageError(f"{path}: a judge is named, and {names} is scored by rules", "Remove `judge` from the plan.")
    seen: set[str] = set()
    for cell, asked in judged:
        if str(asked.judge) not in seen and cell.subject.rubric is not None:
            seen.add(str(asked.judge))
            require_judge(cell.folder, cell.subject, asked, judge_command(cell.folder, spelled(str(asked.judge))))


def _ask(outcome: PlanOutcome, call: PlanCall) -> None:
    """Ask reader and judge about the runs of a plan, one after the other; an error stays with its cell."""
    for end in outcome.cells:
        if end.run is None or end.cell.asked is None or end.error is not None or end.run.all_failed:
            continue
        try:
            end.cell.asked.about(end.run, _display(call)(end.cell))
        except InterruptedRunError:
            outcome.interrupted = True
            return
        except SnellenError as error:
            end.error = error


def _silent(line: str) -> None: ...


def _display(call: PlanCall) -> Any:
    """Return a maker of displays: plain lines, because several runs write at once."""
    from snellen.engine.progress import Lines, Silent

    def made(cell: PlanCell) -> Any:
        return Silent() if call.quiet else Lines(as_json=call.as_json, every_s=2.0 if call.as_json else 10.0)

    return made


def refuse_other_options(groups: Sequence[Any]) -> None:
    """Refuse options of `snellen run` that a plan says itself.

    Args:
        groups: the command's option groups, as typed.

    Raises:
        UsageError: one of them is not at its default.
    """
    if changed := given(*groups, but=ALLOWED):
        raise UsageError(
            f"{', '.join(changed)}: a plan has its models, data and settings in the file",
            "Write them into the plan; `snellen --help plans` lists its keys.",
        )


def _show_data(cells: Sequence[PlanCell], *, verbose: bool) -> None:
    """Print how each benchmark's data was read, and what is odd about it, once for all of its cells."""
    seen: set[str] = set()
    for cell in cells:
        key = repr((cell.spec.benchmark, cell.spec.data))
        if cell.fault is not None or key in seen:
            continue
        seen.add(key)
        reading = cell.subject.reading(cell.spec.data)
        if reading is not None:
            note(f"{cell.benchmark}: {reading.text}")
        if verbose and (cell.spec.data.path is not None or reading is not None):
            judge = None if cell.asked is None else cell.asked.judge
            is_judged_table = judge is not None and cell.subject.table is not None
            for line in () if is_judged_table else cell.subject.notices(cell.spec.data):
                note(f"note: {cell.benchmark}: {line}")


def _show_cells(cells: Sequence[PlanCell], *, as_json: bool) -> None:
    """Print the cells and the number of requests that are left. Sends nothing, needs no key."""
    from snellen.cli.preview import require_models
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.costs import estimated

    rows = []
    for cell in cells:
        try:
            if cell.fault is not None:
                raise cell.fault
            require_models([cell.spec], here=False)
            rows.append((cell, estimated(cell.spec, cell.subject, RunFolder(cell.folder))))
        except SnellenError as error:
            note(f"{cell.benchmark} × {cell.row} will fail: {error.message}")
    left = sum(estimate.questions - estimate.answered for _, estimate in rows)
    costs = [estimate.cost for _, estimate in rows if estimate.cost is not None]
    if as_json:
        listed = [
            {
                "benchmark": cell.benchmark,
                "model": cell.model,
                "setting": cell.setting or None,
                "endpoint": cell.endpoint,
                "path": str(cell.folder),
                "requests": estimate.questions - estimate.answered,
                "estimate": structs.asdict(estimate),
            }
            for cell, estimate in rows
        ]
        show_json({"dry_run": True, "cells": listed, "requests": left, "cost": sum(costs) if costs else None})
        return
    headings = ("questions", "answered", "requests", "input tokens", "cost")
    table = new_table("Dry run: no request is sent", ["benchmark", "model", "at"], headings)
    for cell, estimate in rows:
        table.add_row(
            cell.benchmark,
            cell.row,
            cell.endpoint,
            f"{estimate.questions:,}",
            f"{estimate.answered:,}",
            f"{estimate.questions - estimate.answered:,}",
            f"~{estimate.input_tokens:,}",
            "no price" if estimate.cost is None else f"~${estimate.cost:,.4f}",
        )
    table.caption = f"{len(rows):,} runs, {left:,} requests" + (f", ~${sum(costs):,.4f}" if costs else "")
    show(table)


def _finish(name: str, outcome: PlanOutcome, call: PlanCall) -> int:
    """Print the table, or the JSON; return the exit status."""
    metrics = {id(end): _metrics(end, call.profile) for end in outcome.cells}
    if call.report:
        from snellen.reports.runs import report

        for end in outcome.cells:
            if end.run is not None:
                report([end.run], end.run.folder.report)
    if call.as_json:
        cells = [_cell_json(end, metrics[id(end)]) for end in outcome.cells]
        show_json({"plan": name, "interrupted": outcome.interrupted, "cells": cells})
    else:
        _show_table(name, outcome, metrics)
    return _status(outcome)


def _metrics(end: CellOutcome, profile: str | None) -> dict[str, list[Metric]]:
    """Return the metrics of a cell by profile; a run that cannot be scored becomes a failure of the cell."""
    if end.run is None:
        return {}
    try:
        return end.run.figures(profile)
    except SnellenError as error:
        end.error = error
        return {}


def _status(outcome: PlanOutcome) -> int:
    """Return the exit status: the signal's, else the first failed cell's, else 9 where answers are missing or mostly empty."""
    if outcome.interrupted:
        return InterruptedRunError("the plan was stopped").exit_code
    failed = next((end.error for end in outcome.cells if end.error is not None), None)
    if failed is not None:
        return failed.exit_code
    metas = [end.run.meta for end in outcome.cells if end.run is not None]
    return UNANSWERED if any(each.totals.error or each.totals.timeout or each.mostly_empty for each in metas) else 0


def _first(metrics: dict[str, list[Metric]]) -> Metric | None:
    return next((rows[0] for rows in metrics.values() if rows), None)


def _cell_json(end: CellOutcome, metrics: dict[str, list[Metric]]) -> dict[str, Any]:
    cell, run = end.cell, end.run
    first = _first(metrics)
    return {
        "benchmark": cell.benchmark,
        "model": cell.model,
        "setting": cell.setting or None,
        "path": str(cell.folder),
        "state": _state(end),
        "metric": None if first is None else structs.asdict(first),
        "totals": None if run is None else structs.asdict(run.meta.totals),
        "empty": None if run is None else empty_replies(run.meta) or None,
        "profiles": [
            {"profile": profile, "metrics": [structs.asdict(metric) for metric in rows]}
            for profile, rows in metrics.items()
        ],
        "error": None
        if end.error is None
        else {"message": end.error.message, "hint": end.error.hint, "exit_code": end.error.exit_code},
    }


def _state(end: CellOutcome) -> State | None:
    """Return the state of a cell's run; `failed` if it could not begin, None if the plan ended before it."""
    if end.run is not None:
        return end.run.state
    folder = RunFolder(end.cell.folder)
    try:
        if folder.exists() and not isinstance(end.error, FingerprintError | RunLockedError | UsageError):
            return present_state(folder.path, folder.meta())
    except SnellenError:  # damaged: the cell's error says so
        pass
    return None if end.error is None else "failed"


def _show_table(name: str, outcome: PlanOutcome, metrics: dict[int, dict[str, list[Metric]]]) -> None:
    """Print one table: a row a model (and setting), a column a benchmark with its first metric; then the failures."""
    columns: dict[str, str] = {}
    rows: dict[str, dict[str, str]] = {}
    for end in outcome.cells:
        first = _first(metrics[id(end)])
        heading = f"{end.cell.benchmark}\n{first.name}" if first is not None else end.cell.benchmark
        if first is not None or end.cell.benchmark not in columns:
            columns[end.cell.benchmark] = heading
        rows.setdefault(end.cell.row, {})[end.cell.benchmark] = _cell_text(end, first)
    table = new_table(name, ["model"], columns.values())
    for row, cells in rows.items():
        table.add_row(row, *(cells.get(benchmark, "") for benchmark in columns))
    firsts = [first for end in outcome.cells if (first := _first(metrics[id(end)])) is not None]
    table.caption = legend(firsts) or None
    show(table)
    for end in outcome.cells:
        where = f"{end.cell.benchmark} × {end.cell.row}"
        if end.error is not None and not isinstance(end.error, InterruptedRunError):
            note(f"{where}: {end.error.message}")
            if end.error.hint:
                note(f"  {end.error.hint}")
        for line in () if end.run is None else end.run.remarks:
            note(f"note: {where}: {line}")
        if end.run is not None and (failed := end.run.request_errors()).failed:
            note(f"{where}: {failed.text}")
        for line in () if end.run is None else reply_faults(end.run.meta, with_remedy=False):
            note(f"{where}: {line}")
    if outcome.interrupted:
        note("The plan was stopped. Run the same command to go on with it.")


def _cell_text(end: CellOutcome, metric: Metric | None) -> str:
    if end.error is not None or metric is None:
        state = _state(end) or "–"
        return f"{state}, no score" if end.error is not None and state in ENDED else state
    value = "–" if metric.value is None else f"{metric.value:.3f}"
    value += "" if metric.unit == "fraction" else f" {metric.unit}"
    partly = "" if metric.coverage >= 1.0 else f" ({metric.coverage:.1%})"
    return f"{value}{bracketed(metric.ci95)}{mark(metric.interval)}{partly}"
