"""Status of all benchmarks of a `snellen easi` call: rows, live progress, and easi.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from snellen import exit_signals
from snellen.benchmarks.spatial.tasks import EIGHT
from snellen.easi.judged_scores import PROFILE, Judgement
from snellen.easi.names import COUNTED, HALVES, task_of
from snellen.engine.progress import Progress
from snellen.engine.run_folder import RunFolder
from snellen.errors import FingerprintError, SnellenError
from snellen.runs.run import Run
from snellen.text import pretty_json
from snellen.types import Metric, Score

MANIFEST = "easi.json"
NOT_JUDGED = "not judged"
UNANSWERED = 9
State: TypeAlias = Literal[
    "waiting", "checking", "ready", "running", "answered", "judging", "complete", "partial", "failed"
]


@dataclass
class BenchmarkRow:
    """The status of one benchmark.

    Attributes:
        name, folder: the benchmark and its run.
        data: where its questions lie.
        state: `partial` has questions without an answer; `failed` came to no end.
        done, total, rate, eta_s, lost: answers, questions, answers a second, seconds left, questions that failed.
        seen, unseen: replies of this session that were read and that could not be.
        notes: what a reader must know, one line each.
        error: why it failed.
        run: its run, once it was begun.
        metrics: the figures that count: those of the rule, or of the judge where there is a judgement.
        unread: how many of all replies could not be read.
        wants_judge: whether these are more than the threshold.
        judgement: figures by a judge of Snellen's; None: there is none.
        judging: who judged how many replies, or why nobody did; empty where nothing was for a judge.
        harness_judge: the judge of a harness, its verdicts, the replies for it and the harness's score by it, in percent.
    """

    name: str
    folder: Path
    data: Path | None = None
    state: State = "waiting"
    done: int = 0
    total: int | None = None
    rate: float = 0.0
    eta_s: float | None = None
    lost: int = 0
    seen: int = 0
    unseen: int = 0
    notes: list[str] = field(default_factory=list)
    error: SnellenError | None = None
    run: Run | None = None
    metrics: Sequence[Metric] = ()
    unread: UnparsedReplies | None = None
    wants_judge: bool = False
    judgement: Judgement | None = None
    judging: str = ""
    harness_judge: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """The key in EASI's payload; `site` for both halves of SITE."""
        return task_of(self.name)[0].id

    @property
    def overall(self) -> Metric | None:
        return next((metric for metric in self.metrics if metric.name == "overall"), None)

    @property
    def capped(self) -> bool:
        """True if all requested samples are answered, and --limit requested fewer than the full set."""
        meta = None if self.run is None else self.run.meta
        all_requested = meta is not None and meta.state == "complete" and not meta.coverage.full
        return all_requested and self.error is None and not self.lost

    def take(self, progress: Progress) -> None:
        """Copy the engine's counters."""
        self.done, self.total, self.rate, self.eta_s = progress.done, progress.total, progress.rate, progress.eta_s
        self.lost = sum(count for status, count in progress.status.items() if status not in ("ok", "refused"))
        self.seen, self.unseen = progress.scored, progress.unread

    def fail(self, error: SnellenError) -> None:
        self.error, self.state = error, "failed"


class EasiWatch(Protocol):
    """The observer of a call. `moved` is called a few times a second and must be quick."""

    def said(self, text: str) -> None: ...

    def changed(self, row: BenchmarkRow) -> None: ...

    def moved(self, row: BenchmarkRow) -> None: ...


@dataclass
class Board:
    """The status of all benchmarks, in order.

    Attributes:
        model: as the user named it.
        folder: of the model, with a run in it for each row.
        judge: who is asked where too much cannot be read; None: nobody.
        threshold: the share of unread replies above which a judge is wanted.
        profile: whose rules the figures are by.
        interrupted: whether somebody ended it.
    """

    model: str
    folder: Path
    rows: list[BenchmarkRow]
    judge: str | None = None
    threshold: float = 0.025
    profile: str = PROFILE
    interrupted: bool = False

    @property
    def failed(self) -> list[BenchmarkRow]:
        return [row for row in self.rows if row.error is not None]

    @property
    def unfinished(self) -> list[BenchmarkRow]:
        """Rows that the same command would continue."""
        return [row for row in self.rows if row.state != "complete"]

    @property
    def status(self) -> int:
        """Exit status: 130 if interrupted (SIGTERM 143), else the first failure's, 9 for answers missing or mostly empty, 0."""
        if self.interrupted:
            return exit_signals.exit_status()
        if self.failed:
            error = self.failed[0].error
            return error.exit_code if error is not None else 1
        hollow = any(row.run is not None and row.run.meta.mostly_empty for row in self.rows)
        return UNANSWERED if self.unfinished or hollow else 0

    def average(self) -> tuple[float | None, int]:
        """Return the mean over scored benchmarks of the eight, and their number; halves of SITE are excluded."""
        return _mean(row.overall.value for row in self.rows if row.name in EIGHT and row.overall is not None)

    def write(self) -> None:
        """Write easi.json; entries of other benchmarks, and of runs that are not this call's, are preserved."""
        rows = [row for row in self.rows if not isinstance(row.error, FingerprintError)]
        if not rows:
            return  # each run that is there is another model's, or was made with other settings
        path = self.folder / MANIFEST
        try:
            before = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]).get("benchmarks", {})
        except (OSError, msgspec.DecodeError, RecursionError):
            before = {}
        entries = {**before, **{row.name: entry(row) for row in rows}}
        average, known = _average(entries)
        content = {
            "model": self.model,
            "profile": self.profile,
            "threshold": self.threshold,
            "benchmarks": entries,
            "average": {"value": average, "benchmarks": known, "of": len(EIGHT)},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        RunFolder(self.folder).write(path, pretty_json(content))


def _average(entries: Mapping[str, Mapping[str, Any]]) -> tuple[float | None, int]:
    """Return `Board.average` over all entries of a manifest, including those of earlier calls."""
    metrics = [metric for name in EIGHT for metric in entries.get(name, {}).get("metrics", ())]
    return _mean(metric["value"] for metric in metrics if metric["name"] == "overall")


def _mean(scores: Iterable[float | None]) -> tuple[float | None, int]:
    """Return the mean of the known scores, None if there are none, and their number."""
    known = [score for score in scores if score is not None]
    return (sum(known) / len(known) if known else None), len(known)


def whole_runs(folder: Path) -> list[Path]:
    """Return the runs in a model's folder that form a submission; a half of SITE only without the whole, and no further
    benchmark.
    """
    paths = {name: folder / name.replace("/", "-") for name in COUNTED}
    runs = {name: path for name, path in paths.items() if RunFolder(path).exists()}
    return [path for name, path in runs.items() if name not in HALVES or "site" not in runs]


def entry(row: BenchmarkRow) -> dict[str, Any]:
    """Build a benchmark's entry in easi.json and `--json`. Scores are fractions, as in summary.json."""
    error, judged = row.error, row.judgement
    return {
        "id": row.id,
        "folder": row.folder.name,
        "state": row.state,
        "fingerprint": None if row.run is None else row.run.meta.fingerprint,
        "answered": row.done,
        "questions": row.total,
        "metrics": [msgspec.to_builtins(metric) for metric in row.metrics],
        "unread": None if row.unread is None else row.unread.as_json(),
        "judge_wanted": row.wants_judge,
        "judge": None
        if judged is None
        else {
            "model": judged.model,
            "folder": judged.folder.name,
            "fingerprint": judged.fingerprint,
            "rubric": judged.rubric,
            "replies": judged.replies,
            "verdicts": judged.replies - judged.without,
            "without_verdict": judged.without,
            "grades": judged.grades,
        },
        "judging": row.judging or NOT_JUDGED,
        "harness_judge": row.harness_judge,
        "failures": None if row.run is None else row.run.request_errors().as_json(),
        "notes": row.notes,
        "error": None
        if error is None
        else {"message": error.message, "hint": error.hint, "exit_code": error.exit_code},
    }


WHOLE = ""


class ReplyCounts(Struct, frozen=True):
    """The number of replies, and of unparseable ones."""

    replies: int
    failed: int

    @property
    def share(self) -> float:
        return self.failed / self.replies if self.replies else 0.0


class UnparsedReplies(Struct, frozen=True):
    """Counts by part: the halves of SITE, or the whole benchmark."""

    parts: Mapping[str, ReplyCounts]

    @property
    def all(self) -> ReplyCounts:
        return ReplyCounts(
            sum(part.replies for part in self.parts.values()), sum(part.failed for part in self.parts.values())
        )

    def over(self, threshold: float) -> bool:
        """Return True if one part exceeds the threshold; both halves of SITE are then judged."""
        return any(part.share > threshold for part in self.parts.values())

    def as_json(self) -> dict[str, Any]:
        """Return the counts as `easi.json` has them, by part."""
        return {
            name or "all": {"replies": part.replies, "failed": part.failed, "share": round(part.share, 4)}
            for name, part in self.parts.items()
        }


def count_unparsed(run: Run) -> UnparsedReplies:
    """Count unparseable replies of a run; failed and refused requests have no reply and are excluded."""
    rule = run.benchmark.score[PROFILE]
    counts: dict[str, list[int]] = {}
    for sample, record in run.answers():
        if record.status == "ok" and record.response is not None:
            half = str(sample.meta["task"]) if run.benchmark.members else WHOLE
            count = counts.setdefault(half, [0, 0])
            count[0] += 1
            count[1] += is_unparsed(rule(sample, record.response.text))
    return UnparsedReplies({name: ReplyCounts(*count) for name, count in sorted(counts.items())})


def is_unparsed(score: Score) -> bool:
    """Return True if the rule found no answer. An answer of 0 is one; a missing number is none.

    Where VLMEvalKit can read neither the reply nor the gold answer it counts a hit; the reply is unread all the same.
    """
    return score.verdict == "invalid" or score.detail.get("gold_unread") is True
