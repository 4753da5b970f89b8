"""What `snellen easi` shows: a live table on a terminal, plain lines elsewhere, and the table that stays."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from snellen.benchmarks.spatial.tasks import EIGHT
from snellen.easi.log_file import line
from snellen.easi.status import NOT_JUDGED, BenchmarkRow, Board, EasiWatch, State
from snellen.engine.progress import clock
from snellen.scoring.interval_text import legend, mark, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

EVERY_S = 10.0
LOOKS: dict[State, tuple[str, str]] = {
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
"""State to its sign and colour; those without a sign turn a spinner."""


class Watchers:
    """Several watches as one."""

    def __init__(self, watches: Sequence[EasiWatch]) -> None:
        self._watches = watches

    def said(self, text: str) -> None:
        for one in self._watches:
            one.said(text)

    def changed(self, row: BenchmarkRow) -> None:
        for one in self._watches:
            one.changed(row)

    def moved(self, row: BenchmarkRow) -> None:
        for one in self._watches:
            one.moved(row)


class Plain:
    """Lines on stderr: one a change, and one every 10 seconds of a benchmark under way; JSON where asked."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._last = time.monotonic()

    def said(self, text: str) -> None:
        self._print({"event": "note", "text": text} if self._as_json else text)

    def changed(self, row: BenchmarkRow) -> None:
        self._row(row)

    def moved(self, row: BenchmarkRow) -> None:
        now = time.monotonic()
        if now - self._last >= EVERY_S:
            self._last = now
            self._row(row)

    def _row(self, row: BenchmarkRow) -> None:
        event = {"event": "benchmark", "benchmark": row.name, "state": row.state, "done": row.done, "total": row.total}
        self._print({**event, "rate": round(row.rate, 3), "failed": row.lost} if self._as_json else line(row))

    @staticmethod
    def _print(what: Any) -> None:
        text = what if isinstance(what, str) else msgspec.json.encode(what).decode()
        print(text, file=sys.stderr, flush=True)


class Screen:
    """The live table, gone when the table that stays is printed. What is said goes above it."""

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

        wide = self._console.width >= 100
        table = _bare(Table)
        table.add_column("benchmark", no_wrap=True)
        table.add_column("", no_wrap=True)
        if wide:
            table.add_column("", width=16)
        for name in ("samples", "rate", "left", "unread"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self._board.rows:
            style = LOOKS[row.state][1]
            cells: list[RenderableType] = [
                Text(row.name, style="bold" if not LOOKS[row.state][0] else ""),
                self._sign(row),
            ]
            if wide:
                begun = row.done > 0 or row.state in ("running", "judging")
                bar = ProgressBar(total=row.total or 1, completed=row.done, width=16, complete_style=style)
                cells.append(bar if begun else "")
            busy = row.state in ("running", "judging")
            cells += [
                samples(row),
                f"{row.rate:.1f}/s" if busy and row.rate > 0 else "",
                clock(row.eta_s) if busy and row.eta_s is not None else "",
                f"{row.unseen / row.seen:.1%}" if row.seen and row.state != "judging" else "",
            ]
            table.add_row(*cells)
        over = sum(row.state in ("complete", "partial", "failed") for row in self._board.rows)
        spent = clock(time.monotonic() - self._began)
        head = Text.assemble((self._title, "bold"))
        foot = Text(f"{over} of {len(self._board.rows)} benchmarks at their end · {spent}", style="dim")
        return Group(head, table, foot)

    def _sign(self, row: BenchmarkRow) -> RenderableType:
        from rich.text import Text

        sign, style = LOOKS[row.state]
        shown = Text(sign) if sign else self._spinner.render(time.monotonic())
        return Text.assemble(shown if isinstance(shown, Text) else Text("…"), " ", row.state, style=style)


def samples(row: BenchmarkRow) -> str:
    """`3/10`; empty before anything is known."""
    if row.total is None:
        return f"{row.done:,}" if row.done else ""
    return f"{row.done:,}/{row.total:,}"


def final(board: Board, title: str, width: int) -> Table:
    """The table that stays: scores in points, their intervals, and what they rest on; fewer columns where it is narrow."""
    from rich.table import Table
    from rich.text import Text

    average, known = board.average()
    last: dict[str, RenderableType] = {
        "benchmark": "EASI-8 average",
        "score": Text(points(average), style="bold"),
        "coverage": f"{known} of 8",
    }
    columns: list[tuple[str, Callable[[BenchmarkRow], RenderableType], int]] = [
        ("benchmark", lambda row: row.name, 0),
        ("", lambda row: Text(f"{LOOKS[row.state][0] or '…'} {row.state}", style=LOOKS[row.state][1]), 0),
        ("samples", samples, 0),
        ("score", lambda row: Text("" if row.overall is None else points(row.overall.value), style="bold"), 0),
        (
            "95 % interval",
            lambda row: "" if row.overall is None else interval(row.overall.ci95) + mark(row.overall.interval),
            0,
        ),
        ("n", lambda row: f"{row.overall.n:,}" if _scored(row) and row.overall else "", 110),
        ("coverage", lambda row: f"{row.overall.coverage:.1%}" if _scored(row) and row.overall else "", 0),
        ("unread", lambda row: _unread(board, row), 90),
        ("read by", _reader, 110),
    ]
    shown = {name: cell for name, cell, least in columns if width >= least}
    table = _bare(Table)
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    for name in shown:
        left = name in ("benchmark", "", "read by")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for row in board.rows:
        table.add_row(*[cell(row) for cell in shown.values()])
    table.caption = legend(row.overall for row in board.rows if row.overall is not None) or None
    table.caption_justify = "left"
    table.add_section()
    table.add_row(*[last.get(name, "") for name in shown])
    return table


def _scored(row: BenchmarkRow) -> bool:
    return row.overall is not None and row.overall.value is not None


def remarks(board: Board) -> list[tuple[str, str, str]]:
    """What the table cannot hold: whose it is, what, and its colour; failures with what to do about them."""
    found = [(row.name, note, "") for row in board.rows for note in row.notes]
    for row in board.failed:
        if row.error is not None:
            found.append((row.name, f"{row.error.message}\n{row.error.hint}".rstrip(), "red"))
    average, known = board.average()
    parts = [row.name for row in board.rows if row.name in EIGHT and _scored(row) and row.state != "complete"]
    if average is not None and parts:
        found.append(
            ("EASI-8", f"{len(parts)} of the {known} in the average in part only: {', '.join(parts)}", "yellow")
        )
    wanting = [row.name for row in board.rows if row.wants_judge and row.judgement is None and row.error is None]
    if wanting and board.judge is None:
        over = f"more than {board.threshold:.1%} of the replies cannot be read by rule, and count as wrong:"
        found.append(("judge", f"{over} {', '.join(wanting)}. --judge api:NAME lets a model read them.", "yellow"))
    return found


def listed(found: Sequence[tuple[str, str, str]]) -> Table:
    """Remarks in two columns."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text, style in found:
        grid.add_row(f" {name}", Text(text, style=style))
    return grid


def points(value: float | None) -> str:
    """A fraction in points, as EASI prints them."""
    return "–" if value is None else f"{100 * value:.2f}"


def interval(ends: tuple[float, float] | None) -> str:
    """Both ends in points."""
    return span(ends, ".1f", scale=100.0)


def _unread(board: Board, row: BenchmarkRow) -> RenderableType:
    from rich.text import Text

    if row.unread is None:
        return ""
    share = f"{row.unread.all.share:.1%}"
    over = row.unread.over(board.threshold)
    return Text(f"{share} !" if over and row.judgement is None else share, style="yellow" if over else "")


def _reader(row: BenchmarkRow) -> str:
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
