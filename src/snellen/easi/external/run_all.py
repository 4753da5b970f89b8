"""`snellen easi` with an external harness, lmms-eval or VLMEvalKit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from snellen.benchmarks.spatial.tasks import MORE
from snellen.easi.external import HarnessOutcome, HarnessSettings, run_backend
from snellen.easi.external.run import checked_backend, folder_of
from snellen.easi.status import BenchmarkRow, Board, EasiWatch
from snellen.errors import InterruptedRunError, SnellenError, UsageError
from snellen.runs.run import load_run

TOGETHER = "vlmevalkit"
"""The harness that asks all benchmarks in one command, having loaded the model once; the other one has a command each."""
PAYLOAD_NAMES: Mapping[str, str] = {"lmms-eval": "lmmseval", "vlmevalkit": "vlmevalkit"}
"""What EASI's payload calls them."""


def plan(name: str, settings: HarnessSettings, benchmarks: tuple[str, ...]) -> Board:
    """Build the board after all checks that do not start the harness.

    Raises:
        UsageError, JudgeError: settings that make no sense.
    """
    if further := [benchmark for benchmark in benchmarks if benchmark in MORE]:
        raise UsageError(
            f"{', '.join(further)}: another harness is started for the benchmarks of EASI's payload only",
            "Omit --backend: Snellen asks and scores these itself, by either harness's rules.",
        )
    backend = checked_backend(name, settings)
    folder = folder_of(name, settings)
    rows = [BenchmarkRow(benchmark, folder / benchmark.replace("/", "-"), state="ready") for benchmark in benchmarks]
    judge = settings.judge_model or None
    return Board(f"{name}: {settings.model}", folder, rows, judge, settings.threshold, profile=backend.PROFILE)


def work(name: str, settings: HarnessSettings, board: Board, watch: EasiWatch, log: Path) -> None:
    """Run pending benchmarks with the harness. Errors are recorded in their rows; easi.json is updated.

    Raises:
        MissingExtraError, PreflightError: the harness is not there, or cannot be asked for its version.
    """
    checked_backend(name, settings).version(settings)
    together = [board.rows] if name == TOGETHER else [[row] for row in board.rows]
    try:
        for rows in together:
            for row in rows:
                row.state = "running"
                watch.changed(row)
            try:
                outcomes = run_backend(name, settings, [row.name for row in rows], tell=watch.said, log=log)
            except InterruptedRunError:
                raise
            except SnellenError as error:
                for row in rows:
                    row.fail(error)
                    watch.changed(row)
            else:
                for row in rows:
                    _take(row, outcomes[row.name], watch)
            board.write()
    except InterruptedRunError:
        board.interrupted = True
    finally:
        for row in board.rows:
            if row.state in ("ready", "running"):
                row.state = "waiting"
        board.write()


def _take(row: BenchmarkRow, outcome: HarnessOutcome, watch: EasiWatch) -> None:
    """Copy an outcome to its row: Snellen's scores of the harness's replies, and the harness's own."""
    row.done, row.total = outcome.rows, outcome.expected
    row.notes += outcome.notes
    if outcome.theirs is not None and outcome.ours is not None:
        row.notes.append(f"the harness says {outcome.theirs:.4f}, we {outcome.ours:.4f} ({outcome.difference:+.4f})")
        row.notes += outcome.differences[:4]
    row.judging = outcome.judging
    if outcome.judging:
        figure = "" if outcome.judged is None else f"; the harness then says {outcome.judged:.4f}"
        row.notes.append(f"{outcome.judging}{figure}")
    if outcome.judge:
        row.harness_judge = {
            "model": outcome.judge,
            "verdicts": outcome.verdicts,
            "replies": outcome.for_judge,
            "score_percent": outcome.judged,
        }
    if outcome.folder is not None:
        row.run = load_run(outcome.folder)
        row.metrics = row.run.figures(outcome.profile)[outcome.profile]
    if outcome.state == "failed":
        why = "; ".join(outcome.errors) or "no answers were written"
        row.fail(SnellenError(why, f"The harness's output is in {outcome.log}."))
    else:
        row.notes += outcome.errors
        row.state = outcome.state
    watch.changed(row)
