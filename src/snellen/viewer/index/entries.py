"""What the index says of the folders below its root: runs, with their state and metrics, and folders that are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from snellen.engine.run_folder import Totals
from snellen.types import Metric

RunState: TypeAlias = Literal["complete", "partial", "running", "failed", "redacted", "torn"]
Origin: TypeAlias = Literal["own", "imported", "foreign"]
SampleState: TypeAlias = Literal["ready", "behind", "unscored", "waiting", "unreadable"]


@dataclass(frozen=True)
class Skipped:
    """A folder or file below the root that is no run, or a run that is not read.

    Attributes:
        path: relative to the root, with `/` on every system. Untrusted text.
        reason: the problem in one line, for people.
    """

    path: str
    reason: str


@dataclass(frozen=True)
class FailureCount:
    """Samples without an answer, of one kind.

    Attributes:
        kind: an error kind of docs/errors.md.
        count: how many samples.
        message: the commonest message of that kind; untrusted text.
    """

    kind: str
    count: int
    message: str


@dataclass(frozen=True)
class RunEntry:
    """One run of the catalogue. All text of it is untrusted.

    Attributes:
        key: the folder relative to the root, with `/` on every system; `.` where the root itself is the run.
        path: the folder.
        benchmark, model: as in run_meta.json; empty for a torn run without a readable one.
        settings: what distinguishes it from other runs of its benchmark and model; empty: nothing.
        state: `complete`; `partial` (samples without a record); `running` (a live process writes it); `failed` (nothing was
            answered); `redacted` (a copy without answers); `torn` (a file of it is damaged: `problems` says which).
        origin: `own` (this user's Snellen asked), `imported` (answers of another program), `foreign` (a folder that
            another user's Snellen wrote, or that was changed by hand).
        totals: counts over the journal.
        expected: records of a complete run of the whole benchmark; None where that is not known.
        requested: records that this run was to make (with `--limit`); None where that is not known.
        coverage: share of the whole benchmark with a record, 0 to 1; None where that is not known.
        headline: the first metric of the first profile, with ci95 and chance; None where there is none.
        metrics: profile to its metrics, the default profile first.
        remarks: metric to words on it, where its value alone says too little: that a threshold was not seen at any level.
        verified: False where the metrics are those that another user's folder says, or older than its answers.
        failures: samples without an answer by kind, the commonest first.
        repeats: how often each sample is asked.
        started, ended: of the first and the last record, seconds since the epoch, UTC; None where that is not known.
        version, data, options: version, data digest and data options (with the seed) of the benchmark; where they and
            `benchmark` are equal, so are the samples.
        seed, fingerprint: as in run_meta.json.
        judges: key of the run that this one judges or labels; empty: it is no judge's run.
        judged: key of the run that judges this one; empty: there is none.
        read: key of the run whose reader quotes its replies; empty: there is none.
        restricted: True if the gold answers must not be shown.
        samples: `ready` (all its records are in the index), `behind` (records were added since), `unscored` (in the
            index, with unknown verdicts: `problems` says why), `waiting` (not in the index yet), `unreadable`.
        indexed: how many records are in the index.
        problems: what is wrong with it or with its data, one line each.
        environment: step or epoch of a training and the like, as recorded; for the history of a model.
        degraded: True if its images were made worse on purpose, or replaced by grey ones.
    """

    key: str
    path: Path
    benchmark: str = ""
    model: str = ""
    settings: str = ""
    state: RunState = "torn"
    origin: Origin = "own"
    totals: Totals = field(default_factory=Totals)
    expected: int | None = None
    requested: int | None = None
    coverage: float | None = None
    headline: Metric | None = None
    metrics: Mapping[str, Sequence[Metric]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    verified: bool = False
    failures: tuple[FailureCount, ...] = ()
    repeats: int = 1
    started: float | None = None
    ended: float | None = None
    version: str = ""
    data: str = ""
    options: str = ""
    seed: int = 0
    fingerprint: str = ""
    judges: str = ""
    judged: str = ""
    read: str = ""
    restricted: bool = False
    samples: SampleState = "waiting"
    indexed: int = 0
    problems: tuple[str, ...] = ()
    environment: Mapping[str, object] = field(default_factory=dict)
    degraded: bool = False
    full: bool = True

    @property
    def complete(self) -> bool:
        """Return True if every sample of the whole benchmark has a record and one was answered."""
        return self.state == "complete" and self.coverage is not None and self.coverage >= 1.0

    @property
    def shown_state(self) -> str:
        """Return the state in the words of `runs.status.state_of`, which tells `limited` from `complete`."""
        part = not self.full or (self.coverage is not None and self.coverage < 1.0)
        return "limited" if self.state == "complete" and part else self.state

    @property
    def sample_source(self) -> tuple[str, str, str, str]:
        """Return benchmark, version, data and data options; equal ones have the same samples.

        Data without a digest is drawn by seed, so that the seed counts there, as in a comparison.
        """
        options = read_options(self.options)
        if self.data:
            options.pop("seed", None)
        return self.benchmark, self.version, self.data, msgspec.json.encode(options, order="sorted").decode()

    @property
    def measures_acuity(self) -> bool:
        """Return True for a run whose metrics are thresholds, and whose samples follow from its answers."""
        return self.benchmark.partition("/")[0] == "acuity" and not self.judges

    @property
    def profiles(self) -> tuple[str, ...]:
        """Return the profiles that it has metrics of, the default one first."""
        return tuple(self.metrics)


def with_commonest_samples(entries: Sequence[RunEntry]) -> list[RunEntry]:
    """Return the runs of one benchmark over the samples that most of them answered; of several such, the first one's."""
    counts = Counter(entry.sample_source for entry in entries)
    most = max(counts.values(), default=0)
    source = next((entry.sample_source for entry in entries if counts[entry.sample_source] == most), None)
    return [entry for entry in entries if entry.sample_source == source]


def read_options(text: str) -> dict[str, str]:
    """Return the data options of an entry with the seed among them, as text by name."""
    if not text:
        return {}
    options, seed = msgspec.json.decode(text)
    named = options.items() if isinstance(options, dict) else [("options", options)]
    return {**{str(name): str(value) for name, value in named if value}, "seed": str(seed)}


@dataclass(frozen=True)
class Refresh:
    """Result of looking at the root again.

    Attributes:
        runs: how many runs there are.
        changed: keys of runs that are new, grew, or were changed since the last time.
        removed: keys of runs that are gone.
        skipped: folders and files that are no run, or not read, each with a reason.
        waiting: keys of runs whose samples are not, or not all, in the index.
        seconds: how long it took.
    """

    runs: int
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    waiting: tuple[str, ...] = ()
    seconds: float = 0.0
