"""Display of `snellen easi`: a live table on a terminal, plain lines elsewhere, and the final table."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from snellen.benchmarks.spatial.prompts.words import OWN
from snellen.benchmarks.spatial.tasks import EIGHT
from snellen.cli.console import show, show_json
from snellen.cli.results import protocol
from snellen.easi.log_file import line
from snellen.easi.score import words_of
from snellen.easi.status import NOT_JUDGED, BenchmarkRow, Board, EasiWatch, State, entry
from snellen.engine.progress import clock
from snellen.errors import FingerprintError
from snellen.scoring.metric_text import counted, legend, mark, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from snellen.cli.easi import Submission
    from snellen.easi.log_file import LogFile
    from snellen.easi.result_files import ResultFiles
    from snellen.types import Metric

LINE_INTERVAL_S = 10.0
SIGNS: dict[State, tuple[str, str]] = {
    "waiting": ("·", "dim"),
    "checking": ("", "cyan"),
    "ready": ("○", "dim"),
    "running": ("", "cyan"),
    "answered": ("○", "cyan"),
    "judging": ("", "magenta"),
    "complete": ("✓", "green"),
    "partial": ("◐", "yellow"),
    "failed": ("✗", "red"),
}
"""State to its sign and colour; states without a sign show a spinner."""


class Watchers:
    """Several watches behind one."""

    def __init__(self, watches: Sequence[EasiWatch]) -> None:
        self._watches = watches

    def said(self, text: str) -> None:
        for watch in self._watches:
            watch.said(text)

    def changed(self, row: BenchmarkRow) -> None:
        for watch in self._watches:
            watch.changed(row)

    def moved(self, row: BenchmarkRow) -> None:
        for watch in self._watches:
            watch.moved(row)


class Plain:
    """Lines on stderr, as text or JSON: one per change of state, and one every 10 seconds of a running benchmark."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._last = time.monotonic()

    def said(self, text: str) -> None:
        self._print({"event": "note", "text": text} if self._as_json else text)

    def changed(self, row: BenchmarkRow) -> None:
        self._row(row)

    def moved(self, row: BenchmarkRow) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_INTERVAL_S:
            self._last = now
            self._row(row)

    def _row(self, row: BenchmarkRow) -> None:
        event = {"event": "benchmark", "benchmark": row.name, "state": row.state, "done": row.done, "total": row.total}
        self._print({**event, "rate": round(row.rate, 3), "failed": row.lost} if self._as_json else line(row))

    @staticmethod
    def _print(line: str | dict[str, Any]) -> None:
        text = line if isinstance(line, str) else msgspec.json.encode(line).decode()
        print(text, file=sys.stderr, flush=True)


class Screen:
    """The live table, removed before the final table is printed. Messages go above it."""

    def __init__(self, board: Board, title: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        self._board, self._title = board, title
        self._began = time.monotonic()
        self._spinner = Spinner("dots")
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True, get_renderable=self._draw)

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def said(self, text: str) -> None:
        self._console.print(text, style="dim", markup=False)

    def changed(self, row: BenchmarkRow) -> None: ...

    def moved(self, row: BenchmarkRow) -> None: ...

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        has_bars = self._console.width >= 100
        table = _bare(Table)
        table.add_column("benchmark", no_wrap=True)
        table.add_column("", no_wrap=True)
        if has_bars:
            table.add_column("", width=16)
        for name in ("samples", "rate", "left", "unparsed"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self._board.rows:
            sign, style = SIGNS[row.state]
            busy = row.state in ("running", "judging")
            cells: list[RenderableType] = [Text(row.name, style="" if sign else "bold"), self._sign(row)]
            if has_bars:
                bar = ProgressBar(total=row.total or 1, completed=row.done, width=16, complete_style=style)
                cells.append(bar if row.done > 0 or busy else "")
            cells += [
                samples(row),
                f"{row.rate:.1f}/s" if busy and row.rate > 0 else "",
                clock(row.eta_s) if busy and row.eta_s is not None else "",
                f"{row.unseen / row.seen:.1%}" if row.seen and row.state != "judging" else "",
            ]
            table.add_row(*cells)
        finished = sum(row.state in ("complete", "partial", "failed") for row in self._board.rows)
        spent = clock(time.monotonic() - self._began)
        footer = Text(f"{finished} of {len(self._board.rows)} benchmarks finished · {spent}", style="dim")
        return Group(Text(self._title, "bold"), table, footer)

    def _sign(self, row: BenchmarkRow) -> RenderableType:
        from rich.text import Text

        sign, style = SIGNS[row.state]
        drawn = Text(sign) if sign else self._spinner.render(time.monotonic())
        return Text.assemble(drawn if isinstance(drawn, Text) else Text("…"), " ", row.state, style=style)


def samples(row: BenchmarkRow) -> str:
    """Return `3/10`, or an empty text before the counts are known."""
    if row.total is None:
        return f"{row.done:,}" if row.done else ""
    return f"{row.done:,}/{row.total:,}"


def final(board: Board, title: str, width: int) -> Table:
    """Build the final table: scores in points, with interval, n and coverage; narrow terminals get fewer columns."""
    from rich.table import Table
    from rich.text import Text

    def scored(row: BenchmarkRow, text: Callable[[Metric], str]) -> str:
        return text(row.overall) if row.overall is not None and _scored(row) else ""

    average, known = board.average()
    last: dict[str, RenderableType] = {
        "benchmark": "EASI-8 average",
        "score": Text(points(average), style="bold"),
        "coverage": f"{known} of 8",
    }
    columns: list[tuple[str, Callable[[BenchmarkRow], RenderableType], int]] = [
        ("benchmark", lambda row: row.name, 0),
        ("", lambda row: Text(f"{SIGNS[row.state][0] or '…'} {row.state}", style=SIGNS[row.state][1]), 0),
        ("samples", samples, 0),
        ("score", lambda row: Text("" if row.overall is None else points(row.overall.value), style="bold"), 0),
        (
            "95 % interval",
            lambda row: "" if row.overall is None else interval(row.overall.ci95) + mark(row.overall.interval),
            0,
        ),
        ("n", lambda row: scored(row, lambda metric: counted(metric.n, metric.interval)), 110),
        ("coverage", lambda row: scored(row, lambda metric: f"{metric.coverage:.1%}"), 0),
        ("unparsed", lambda row: _unparsed(board, row), 90),
        ("parsed by", _parser, 110),
    ]
    cell_of = {name: cell for name, cell, least in columns if width >= least}
    table = _bare(Table)
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    for name in cell_of:
        left = name in ("benchmark", "", "parsed by")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for row in board.rows:
        table.add_row(*[cell(row) for cell in cell_of.values()])
    table.caption = legend(row.overall for row in board.rows if row.overall is not None) or None
    table.caption_justify = "left"
    table.add_section()
    table.add_row(*[last.get(name, "") for name in cell_of])
    return table


def _scored(row: BenchmarkRow) -> bool:
    return row.overall is not None and row.overall.value is not None


def board_remarks(board: Board) -> list[tuple[str, str, str]]:
    """Return the remarks below the table as (subject, text, colour): notes, failures with their remedy, the judge."""
    remarks = [(row.name, note, "") for row in board.rows for note in row.notes]
    asked = {words_of(row.run.meta) + protocol(row.run.meta) for row in board.rows if row.run is not None}
    if asked:
        other = " --prompts FILE sends those of VLMEvalKit or lmms-eval (snellen prompts import)" * (asked == {OWN})
        remarks.append(("words", f"the questions were asked in the words of {', '.join(sorted(asked))}.{other}", ""))
    for row in board.failed:
        if row.error is not None:
            remarks.append((row.name, f"{row.error.message}\n{row.error.hint}".rstrip(), "red"))
    average, known = board.average()
    parts = [row.name for row in board.rows if row.name in EIGHT and _scored(row) and row.state != "complete"]
    if average is not None and parts:
        remarks.append(
            ("EASI-8", f"{len(parts)} of the {known} in the average are incomplete: {', '.join(parts)}", "yellow")
        )
    unjudged = [row.name for row in board.rows if row.wants_judge and row.judgement is None and row.error is None]
    if unjudged and board.judge is None:
        reason = f"more than {board.threshold:.1%} of the replies cannot be parsed by rule, and count as incorrect:"
        remarks.append(
            ("judge", f"{reason} {', '.join(unjudged)}. Add --judge api:NAME to let a model grade them.", "yellow")
        )
    return remarks


def remark_table(remarks: Sequence[tuple[str, str, str]]) -> Table:
    """Build the table of remarks, in two columns."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text, style in remarks:
        grid.add_row(f" {name}", Text(text, style=style))
    return grid


def points(value: float | None) -> str:
    """Format a fraction in points, as EASI does."""
    return "–" if value is None else f"{100 * value:.2f}"


def interval(ends: tuple[float, float] | None) -> str:
    """Format both ends of an interval in points."""
    return span(ends, ".1f", scale=100.0)


def _unparsed(board: Board, row: BenchmarkRow) -> RenderableType:
    from rich.text import Text

    if row.unread is None:
        return ""
    share = f"{row.unread.all.share:.1%}"
    too_many = row.unread.over(board.threshold)
    return Text(f"{share} !" if too_many and row.judgement is None else share, style="yellow" if too_many else "")


def _parser(row: BenchmarkRow) -> str:
    judge = row.judgement
    if judge is not None and not judge.verdicts:
        return NOT_JUDGED
    if judge is not None:
        part = f" ({judge.verdicts:,} of {judge.replies:,})" if judge.without else ""
        return f"{judge.model}{part}"
    if row.judging.startswith(NOT_JUDGED) or row.wants_judge:
        return f"rules, {NOT_JUDGED}"
    return "rules" if row.metrics else ""


def _bare(make: type[Table]) -> Table:
    from rich import box

    return make(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")


@contextlib.contextmanager
def display(board: Board, log: LogFile, *, plain: bool, as_json: bool) -> Iterator[EasiWatch]:
    """Show progress in this block and write it to the log: a live table on a terminal, else plain lines."""
    if as_json or plain or not sys.stderr.isatty():
        yield Watchers([log, Plain(as_json=as_json)])
        return
    with Screen(board, _title(board)) as screen:
        yield Watchers([log, screen])


def show_end(
    board: Board,
    log: LogFile,
    submission: Submission | None,
    files: ResultFiles | None,
    status: int,
    unfinished: Sequence[BenchmarkRow],
    command: str,
    *,
    as_json: bool,
) -> None:
    """Print the final table, its remarks and the command that resumes, or one JSON object."""
    # Runs with other settings refuse the same command; their errors name the remedy.
    refused = all(isinstance(row.error, FingerprintError) for row in unfinished)
    if as_json:
        average, known = board.average()
        show_json(
            {
                "model": board.model,
                "folder": str(board.folder),
                "benchmarks": {row.name: entry(row) for row in board.rows},
                "average": {"value": average, "benchmarks": known, "of": 8},
                "log": str(log.path),
                "easi_results": None if files is None else {"json": files.payload, "zip": files.archive},
                "exit_code": status,
                **({} if refused else {"go_on": command}),
                **(
                    {} if submission is None else {"submission": {"text": submission.text, "folder": submission.folder}}
                ),
            }
        )
        return
    show(final(board, _title(board), _width()))
    if remarks := board_remarks(board):
        show(remark_table(remarks), "")
    print(f" results      {board.folder}\n log          {log.path}")
    if files is not None:
        null = f"; null there, because incomplete: {', '.join(files.missing)}" if files.missing else ""
        print(f" for EASI     {files.payload} and {files.archive.name}{null}")
    if submission is not None:
        print(
            f" leaderboard  {submission.text}" + (f"\n              {submission.folder}" if submission.folder else "")
        )
    if unfinished:
        text = f"\n{len(unfinished)} of {len(board.rows)} benchmarks are not complete."
        print(text if refused else f"{text} To resume:\n  {command}")


def _width() -> int:
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else 160


def _title(board: Board) -> str:
    return f"EASI · {board.model}"
