"""Cases of the review page, whatever they are: replies of runs, candidates of a benchmark, or questions that people answer; and how doubtful a verdict about a reply is.

A source says which cases there are and what is seen of one, and keeps the decisions. The page does the rest: queue, keys, undo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct

from snellen.errors import SnellenError, UsageError
from snellen.runs.reviews.audit_sample import draw_place, stratum_name
from snellen.runs.reviews.decisions import CaseKey
from snellen.runs.reviews.status import ReviewAgreement
from snellen.runs.scoring import Scored, differing, profiles_of, rubric_for
from snellen.scoring.readings import READER, STAGE
from snellen.types import Blob, Image, Part, Record, Sample, Score, Text, Video

if TYPE_CHECKING:
    from snellen.runs.run import Run


@dataclass(frozen=True)
class ReviewTexts:
    """What the page calls what people do with cases; `columns` are the headings of its list of cases."""

    title: str = "Review"
    doing: str = "Reviewing"
    who: str = "Who reviews in this browser?"
    about: str = (
        "Decisions are kept under this name. Nobody sees the decisions of others on a case before having decided it."
    )
    people: str = "reviewers"
    noun: str = "decision"
    done: str = "decided"
    columns: tuple[str, ...] = ("no.", "question", "answer", "your decision", "state")
    overview: str = ""
    end: str = "End the command with Ctrl-C when the others have decided too"


@dataclass(frozen=True)
class QueuedCase:
    """A case that waits for reviewers; `place` is the source's own name for it, `doubts` why it is in the queue."""

    place: Any
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReviewQueue:
    """Cases in the order of a review; `total` is how many there are, queued or not."""

    cases: tuple[QueuedCase, ...]
    total: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecisionField:
    """A text that goes along with a decision: of one row or more, offered `choices`, folded below a heading or not."""

    name: str
    label: str
    value: str = ""
    rows: int = 1
    longest: int = 2_000
    key: str = ""
    choices: tuple[str, ...] = ()
    folded: str = ""


@dataclass(frozen=True)
class SeenDecision:
    """Another reviewer's decision where it may be seen, with what it says beside its word."""

    reviewer: str
    word: str
    texts: tuple[tuple[str, str], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class ShownCase:
    """What a reviewer sees of a case.

    Attributes:
        ask: the question that the decision answers.
        blind: a sentence on what is hidden.
        view: variables of the source's template.
        parts: the question, where `view` has no `case` with it.
        frames: how many frames of a video are shown.
        words: the decisions on this case, where the source has none for all; the key of the last one is 0.
        enter: Enter in a field takes the first decision.
        hidden: fields that the form sends back unchanged.
        mine: the reviewer's own decision; empty: none, or it does not count here.
        stale: the case has changed since.
        others: decisions of others, where they may be seen.
    """

    ask: str
    fields: tuple[DecisionField, ...]
    blind: str
    view: Mapping[str, Any]
    parts: tuple[Part, ...] = ()
    frames: int | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    enter: bool = False
    hidden: Mapping[str, str] = field(default_factory=dict)
    mine: str = ""
    stale: bool = False
    others: tuple[SeenDecision, ...] = ()


class CaseSource(Protocol):
    """Cases that are no replies of runs. Reviewers name themselves; threads may call it; a bad address or form is a UsageError.

    A `token` names a `place` in addresses. A decision is on the disk before `decide` returns; one that arrives again from the
    same page (`client_id`) is there once. `last` is the case of the reviewer's last decision that stands, None without one.
    `rows` are the token of a case and a text for each of `texts.columns`; `saved` is a saved text with its media type.

    Attributes:
        about: what is reviewed, in words.
        template: of what is known about a case; empty: nothing is.
        steps: the ways into the review, by the words `queue`, `audit`, `adjudicate` and `agreement`.
        words: decisions, each with the text of its button; empty: each case has its own, which `decide` checks.
        texts: what the page calls all this.
        nouns: what a case is called, one and several.
        kept: where the decisions are written to, in words.
    """

    about: str
    template: str
    steps: Mapping[str, str]
    words: Mapping[str, str]
    texts: ReviewTexts
    nouns: tuple[str, str]
    kept: str

    def place(self, token: str) -> Any: ...
    def token(self, place: Any) -> str: ...
    def queue(self, step: str, reviewer: str) -> ReviewQueue: ...
    def decided(self, step: str, reviewer: str) -> Collection[Any]: ...
    def show(self, place: Any, step: str, reviewer: str) -> ShownCase: ...
    def decide(self, place: Any, step: str, reviewer: str, fields: Mapping[str, str], client_id: str) -> None: ...
    def last(self, reviewer: str) -> Any: ...
    def undo(self, place: Any, reviewer: str, client_id: str) -> None: ...
    def agreement(self, reviewer: str) -> tuple[ReviewAgreement, Mapping[str, Any]]:
        """Return the agreement as this reviewer may see it, and variables of its page: a `note`, and what else is shown."""

    def rows(self, reviewer: str) -> Sequence[tuple[str, ...]]: ...
    def saved(self, name: str) -> tuple[bytes, str]: ...


UNPARSEABLE, PROFILES, READING, JUDGE, MODELS, MARGIN = (
    "unparseable",
    "profiles disagree",
    "read by a model",
    "judge unsure",
    "models disagree",
    "margin",
)
WEIGHTS: Mapping[str, float] = {UNPARSEABLE: 32.0, PROFILES: 16.0, READING: 8.0, JUDGE: 4.0, MODELS: 2.0, MARGIN: 1.0}
"""Order of the doubts: each weighs more than all after it together, so that the strongest comes first."""
VERDICT_FIELD = "verdict"
"""Name in `--by` for the automatic verdict; `stage` tells whether a model read the reply, other names are fields of the
samples' meta."""


class ReviewCase(Struct, frozen=True, kw_only=True, gc=False):
    """One reply with its automatic verdict under the profile that is reviewed.

    `doubts` names the reasons to doubt the verdict, each with its strength from 0 to 1. `stratum` is empty unless strata
    were requested. `excluded` says why a reply without a verdict is no case; empty: it is one.
    """

    sample_id: str
    repeat: int
    verdict: str
    value: float | None
    doubts: tuple[tuple[str, float], ...] = ()
    stratum: str = ""
    excluded: str = ""

    @property
    def key(self) -> CaseKey:
        return (self.sample_id, self.repeat)

    @property
    def doubt(self) -> float:
        """Return how doubtful the verdict is; 0 without a reason."""
        return sum(WEIGHTS[name] * strength for name, strength in self.doubts)


def reviewed_profile(run: Run, wanted: str | None = None, option: str = "--profile") -> str:
    """Return the profile whose verdicts are reviewed: the benchmark's first unless one is named.

    Raises:
        UsageError: the benchmark has no such profile, or several were named.
    """
    names = list(profiles_of(run.benchmark, wanted))
    if len(names) != 1:
        raise UsageError(f"{option} names {len(names)} profiles; reviews are about the verdicts of one", "Name one.")
    return names[0]


def read_cases(run: Run, profile: str | None = None, by: Sequence[str] = ()) -> list[ReviewCase]:
    """Score a run and return a case for each reply, in the order of the records; memory is some 200 bytes a case.

    Args:
        run: the run; its judge's verdicts are read from the judged run beside it.
        profile: whose verdicts are reviewed; None: the benchmark's first.
        by: fields of the samples' meta that make the strata, `verdict` or `stage`.

    Raises:
        UsageError: no sample has one of the fields.
        SnellenError: the samples cannot be read again.
    """
    name = reviewed_profile(run, profile)
    cases: list[ReviewCase] = []
    known: set[str] = {VERDICT_FIELD, STAGE}

    def add(scored: Scored) -> None:
        score, meta = scored.scores[name], scored.sample.meta
        known.update(field for field in by if field in meta)
        values = stratum_values(by, scored.sample, score)
        cases.append(
            ReviewCase(
                sample_id=scored.sample.id,
                repeat=scored.record.repeat,
                verdict=score.verdict,
                value=score.value,
                doubts=tuple(_doubts(run, scored, score)),
                stratum=stratum_name(values) if by else "",
                excluded=_excluded(scored.record, score),
            )
        )

    run.summarize("all", each=add, save=False)
    unknown = [field for field in by if field not in known]
    if unknown and cases:
        fields = ", ".join(sorted({name for sample, _ in islice(run.answers(), 100) for name in sample.meta})) or "none"
        raise UsageError(
            f"no sample has the meta field {unknown[0]!r}", f"--by takes verdict, stage, and here: {fields}."
        )
    return cases


def stratum_values(by: Sequence[str], sample: Sample, score: Score) -> list[object]:
    """Return what makes the stratum of a reply: its verdict, its stage (`reader`, else `rules`), or fields of its meta."""
    own = {VERDICT_FIELD: score.verdict, STAGE: READER if is_read(score) else "rules"}
    return [own[field] if field in own else sample.meta.get(field) for field in by]


def is_read(score: Score) -> bool:
    """Return True if a model read the answer that was scored."""
    return score.detail.get(STAGE) == READER


def _excluded(record: Record, score: Score) -> str:
    if record.response is None:
        return f"no reply ({record.status})"
    if score.verdict == "unscored" and not (score.reason or "").startswith("no verdict"):
        return "not scored"
    return ""


def _doubts(run: Run, scored: Scored, score: Score) -> Iterator[tuple[str, float]]:
    if scored.record.response is None:
        return
    if score.verdict == "invalid":
        yield UNPARSEABLE, 1.0
    if len(scored.scores) > 1 and differing(scored.scores):
        yield PROFILES, 1.0
    if is_read(score):
        yield READING, 1.0
    judged = run.benchmark.rubric is not None and rubric_for(run.benchmark, scored.sample, scored.record) is not None
    if judged and (score.verdict == "partial" or (score.verdict == "unscored" and score.value is None)):
        yield JUDGE, 1.0
    if score.value is not None and 0.0 < score.value < 1.0:
        yield MARGIN, 1.0 - abs(2.0 * score.value - 1.0)


def doubtful_first(cases: Iterable[ReviewCase], seed: int = 0) -> list[ReviewCase]:
    """Order the cases for a queue: the most doubtful first, equal ones in an order that depends on the seed alone."""
    return sorted(
        (case for case in cases if not case.excluded), key=lambda case: (-case.doubt, draw_place(seed, case.key))
    )


def drawable(cases: Iterable[ReviewCase]) -> tuple[dict[CaseKey, str], dict[str, int]]:
    """Return the stratum of each reply that can be drawn for an audit, and how many cannot, by reason."""
    population: dict[CaseKey, str] = {}
    excluded: Counter[str] = Counter()
    for case in cases:
        if case.excluded:
            excluded[case.excluded] += 1
        else:
            population[case.key] = case.stratum
    return population, dict(excluded)


def shown_digest(sample: Sample, record: Record, judge: str = "") -> str:
    """Return the digest of what a reviewer sees of a case: question, images, options, gold answer, reply and judge.

    The verdict is not part of it: it stands in the decision itself, and the decision stays about the same reply when
    another profile is scored.
    """
    content = (
        sample.prompt.system,
        [_part_digest(part) for part in sample.prompt.parts],
        dict(sample.options),
        sample.target,
        None if record.response is None else (record.response.text, record.response.reasoning),
        judge,
    )
    encoded = msgspec.json.encode(content, enc_hook=str, order="deterministic")
    return "blake2b:" + blake2b(encoded, digest_size=16).hexdigest()


def _part_digest(part: object) -> object:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Image):
        return _blob_digest(part.blob)
    if isinstance(part, Video):
        return [*([] if part.blob is None else [_blob_digest(part.blob)]), *(_part_digest(f) for f in part.frames)]
    return repr(type(part))


def _blob_digest(blob: Blob) -> str:
    return _bytes_digest(_Keyed(blob))


class _Keyed:
    """A blob that is equal to others of its key, so that its digest is computed once."""

    def __init__(self, blob: Blob) -> None:
        self.blob = blob

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and other.blob.key == self.blob.key

    def __hash__(self) -> int:
        return hash(self.blob.key)


@lru_cache(maxsize=4096)
def _bytes_digest(keyed: _Keyed) -> str:
    try:
        return blake2b(keyed.blob.read(), digest_size=16).hexdigest()
    except (SnellenError, OSError):
        return "unreadable"
