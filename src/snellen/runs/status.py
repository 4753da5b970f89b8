"""State of a run for lists and queries: state, answers, date, and the settings that differ between similar runs."""

from __future__ import annotations

import contextlib
import datetime
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.progress import GroupProgress
from snellen.engine.resume import read_state
from snellen.engine.run_folder import RunFolder, RunMeta, Totals
from snellen.errors import SnellenError
from snellen.sources.journal_lines import Damage
from snellen.types import Metric

if TYPE_CHECKING:
    from snellen.runs.run import Run

State: TypeAlias = Literal["running", "complete", "limited", "partial", "failed"]
ENDED: tuple[State, ...] = ("complete", "limited")
"""States of a run that has a record of all that was asked for."""
LEFT_OUT = ("benchmark", "benchmark_version", "data", "prompts")
"""Parts of a run's identity that have a column of their own, or that no reader tells apart: digests."""
DIGESTS = ("benchmark_version", "data", "prompts")
"""Those of LEFT_OUT that may distinguish two runs where nothing else does."""
MOST_SETTINGS = 6


class Overview(Struct, frozen=True):
    """State, counts and date of one run.

    Attributes:
        state: `running` where a live process holds the run's lock; else `complete`, `limited` (all that `--limit` or
            `--shard` asks for, a part of the benchmark), `partial` (questions without a record are left), or `failed` (nothing was
            answered).
        totals: counts over the journal.
        questions: samples times repeats of the whole benchmark; None where that is not known.
        requested: those that the run was to answer.
        date: when the first sample was asked, UTC, `2026-11-22 09:25`; empty before that.
        groups: of a benchmark whose questions follow from answers, how many groups of questions have ended; else None.
    """

    state: State
    totals: Totals
    questions: int | None
    requested: int | None
    date: str
    groups: GroupProgress | None = None

    @property
    def coverage(self) -> float | None:
        """Return the share of the benchmark's samples with a record, 0 to 1; None if their number is unknown.

        Of a run in which nothing was answered it is 0, so that such a run never stands among whole ones. Where questions
        follow from answers, it is the share of the groups of questions that have ended.
        """
        if self.groups is not None:
            return self.groups.ended / self.groups.known if self.totals.done else 0.0
        if self.questions and not self.totals.done:
            return 0.0
        return min(1.0, self.totals.recorded / self.questions) if self.questions else None


def score_coverage(recorded: float | None, score: Metric | None) -> float | None:
    """Return the share of a benchmark's samples that a run's score rests on; `recorded` is that with a record.

    It is smaller where samples have a record and no score, such as replies on which a judge gave no verdict. A threshold
    is about one condition alone, and says nothing about the others.
    """
    if score is None or score.unit != "fraction":
        return recorded
    return score.coverage if recorded is None else min(recorded, score.coverage)


def group_progress(run: Run) -> GroupProgress | None:
    """Return how many groups of a run's questions have ended; None where questions do not follow from answers.

    Of a run that is not complete, the metrics tell. None too if they cannot be computed.
    """
    try:
        benchmark = run.benchmark
        if benchmark.groups is None:
            return None
        known = benchmark.groups(run.meta.spec.data)
        if run.meta.state == "complete":
            return GroupProgress(f"{benchmark.cluster}s", known, known)
        profile = next(iter(benchmark.score))
        return ended_groups(benchmark, run.meta.spec.data, run.figures(profile)[profile])
    except SnellenError:
        return None


def ended_groups(benchmark: Benchmark, data: Data, metrics: Iterable[Metric]) -> GroupProgress | None:
    """Return how many groups of questions have ended by their metrics; None where a benchmark has no such groups."""
    if benchmark.groups is None:
        return None
    known = benchmark.groups(data)
    return GroupProgress(f"{benchmark.cluster}s", min(known, sum(each.coverage >= 1.0 for each in metrics)), known)


def overview(folder: RunFolder, meta: RunMeta, groups: GroupProgress | None = None) -> Overview:
    """Read the state of a run. The journal is read if run_meta.json is not that of a complete run."""
    locked = is_locked(folder.path)
    totals = meta.totals
    if meta.state != "complete" and folder.results.exists():
        with contextlib.suppress(SnellenError, OSError):
            totals = structs.replace(read_state(folder, Damage(folder.results))[0], seconds=folder.seconds(meta))
    repeats = meta.spec.repeats
    limit, of = meta.coverage.limit, None if groups is not None else meta.coverage.of
    known = [count for count in (limit, of) if count is not None]
    return Overview(
        state_of(meta, totals, locked=locked),
        totals,
        None if of is None else of * repeats,
        min(known) * repeats if known else None,
        _date(folder),
        groups,
    )


def state_of(meta: RunMeta, totals: Totals, *, locked: bool) -> State:
    """Return the state of a run, in the words that every page, list, query, export and JSON has (`Overview.state`).

    Args:
        meta: as in run_meta.json, whose own word for the state is that of the process that wrote it.
        totals: counts over the journal.
        locked: a live process writes to the run.
    """
    if meta.state != "complete" and locked:
        return "running"
    if not totals.done and (totals.error + totals.timeout or meta.state != "complete"):
        return "failed"
    if meta.state != "complete":
        return "partial"
    return "complete" if meta.coverage.full else "limited"


def present_state(path: Path, meta: RunMeta) -> State:
    """Return the state of a run as it is now."""
    return overview(RunFolder(path), meta).state


def is_locked(path: Path) -> bool:
    """Return True if a live process holds the lock of a run's folder. Nothing is written."""
    if not (path / ".writer").exists():  # a writer leaves its number there as long as it holds the lock
        return False
    try:
        import fcntl
    except ImportError:  # no such locks: the process that is named there
        return _alive(path)
    try:
        # A pipe in its place, in somebody else's folder, would be waited for.
        descriptor = os.open(path / ".lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _alive(path: Path) -> bool:
    try:
        os.kill(int((path / ".writer").read_text()), 0)
    except (OSError, ValueError, OverflowError):
        return False
    return True


class _Started(Struct):
    started_at: float = 0.0


def _date(folder: RunFolder) -> str:
    try:
        with folder.results.open("rb") as file:
            line = file.readline(1 << 24)
        when = msgspec.json.decode(line, type=_Started).started_at
        moment = datetime.datetime.fromtimestamp(when, datetime.UTC)
    except (OSError, ValueError, OverflowError, RecursionError):
        return ""
    return moment.strftime("%Y-%m-%d %H:%M") if when > 0 else ""


def distinguishing(metas: Sequence[RunMeta]) -> list[str]:
    """For each run, list the settings that differ from others of its benchmark and model: `corrupt=blur:5, limit=24`.

    Settings at their default are left out; a run that has only such, beside others that do not, is called `defaults`.
    Digests are listed only where nothing that a reader understands distinguishes two runs.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for place, meta in enumerate(metas):
        groups.setdefault((meta.spec.benchmark, meta.spec.model), []).append(place)
    texts = [""] * len(metas)
    for places in groups.values():
        flat = {place: dict(_settings(metas[place])) for place in places}
        names = sorted({name for settings in flat.values() for name in settings})
        differing = [name for name in names if len({flat[place].get(name) for place in places}) > 1]
        readable = [name for name in differing if name not in DIGESTS]
        alike: dict[tuple[str | None, ...], list[int]] = {}
        for place in places:
            alike.setdefault(tuple(flat[place].get(name) for name in readable), []).append(place)
        for values, peers in alike.items():
            digests = [name for name in DIGESTS if len({flat[peer].get(name) for peer in peers}) > 1]
            known = [f"{name}={value}" for name, value in zip(readable, values, strict=True) if value is not None]
            for place in peers:
                own = known + [f"{name}={flat[place][name]}" for name in digests if name in flat[place]]
                omitted = f", {len(own) - MOST_SETTINGS} more" if len(own) > MOST_SETTINGS else ""
                texts[place] = ", ".join(own[:MOST_SETTINGS]) + omitted or ("defaults" if differing else "")
    return texts


def _settings(meta: RunMeta) -> Iterator[tuple[str, str]]:
    identity = {name: value for name, value in meta.identity.items() if name not in LEFT_OUT}
    yield from _flat(identity, "")
    for name in DIGESTS:
        if name in meta.identity:
            yield name, str(meta.identity[name])[:16]
    if meta.coverage.shards:
        yield "shard", ",".join(meta.coverage.shards[:4])
    if meta.coverage.limit is not None and not meta.coverage.full:
        yield "limit", str(meta.coverage.limit)


def _flat(value: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, name)
        elif inner is not None:
            yield (
                name if not above or above in ("media", "generation", "data_options") else f"{above}.{name}",
                str(inner)[:60],
            )
