"""Stage 4, reviews: candidates as cases of the review page, the append-only journal of opinions, decisions, and inter-annotator agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct, structs

from snellen.curation import evidence
from snellen.curation.evidence import EvidenceCheck
from snellen.curation.leaks import LeakAudit
from snellen.curation.model_filter import Tries
from snellen.curation.workspace import Candidate, StageDecision, Work
from snellen.engine import journal
from snellen.engine.journal import Journal
from snellen.engine.run_folder import RunFolder
from snellen.errors import PreflightError, UsageError
from snellen.redaction import redact
from snellen.runs.reviews.cases import DecisionField, QueuedCase, ReviewQueue, ReviewTexts, SeenDecision, ShownCase
from snellen.runs.reviews.decisions import last_decision, now, stand, standing
from snellen.runs.reviews.status import ReviewAgreement, agreement_of
from snellen.scoring.statistics.agreement import Agreement, cohen, label_pairs
from snellen.sources.blobs import FileBlob
from snellen.types import Image, Text

OpinionKind = Literal["accept", "reject", "edit"]
MAX_CHARACTERS = {"reviewer": 80, "reason": 1000, "question": 2000, "answer": 300, "alias": 300}
MAX_ALIASES = 100


class Opinion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of review/opinions.jsonl; a reviewer's later line on a candidate replaces the earlier one.

    `say` None withdraws it. `question`, `answer` and `aliases` are those of an edit; `at` is seconds since the epoch, UTC;
    `request` is made from the id of the page that sent it, so that one that is sent twice is there once.
    """

    id: str
    reviewer: str
    say: OpinionKind | None
    reason: str = ""
    question: str = ""
    answer: str = ""
    aliases: tuple[str, ...] = ()
    at: float = 0.0
    request: str = ""

    @property
    def key(self) -> str:
        return self.id

    @property
    def decision(self) -> str | None:
        return self.say


def path_of(work: Work) -> Path:
    return work.folder("review") / "opinions.jsonl"


def read_all(work: Work) -> list[Opinion]:
    """Read every opinion, in the order given."""
    return list(journal.read(path_of(work), Opinion))


def checked(opinion: Opinion, candidate: Candidate) -> Opinion:
    """Validate an opinion before it is written.

    Raises:
        UsageError: a rejection without a reason, an edit that changes nothing or empties something, a text too long.
    """
    if opinion.say == "reject" and not opinion.reason:
        raise UsageError("a rejection needs a reason")
    if opinion.say == "edit":
        if not opinion.question or not opinion.answer:
            raise UsageError("question and answer cannot be empty")
        if edited(candidate, opinion) == candidate:
            raise UsageError("nothing was changed; accept it as it is, or edit a field")
    for name in ("reviewer", "reason", "question", "answer"):
        if len(text := getattr(opinion, name)) > MAX_CHARACTERS[name]:
            raise UsageError(f"{name} has {len(text):,} characters; at most {MAX_CHARACTERS[name]:,} are allowed")
    if len(opinion.aliases) > MAX_ALIASES or any(len(alias) > MAX_CHARACTERS["alias"] for alias in opinion.aliases):
        raise UsageError(f"at most {MAX_ALIASES} aliases of {MAX_CHARACTERS['alias']} characters")
    return structs.replace(opinion, reason=redact(opinion.reason))


def edited(candidate: Candidate, opinion: Opinion) -> Candidate:
    """Apply a reviewer's edit to the candidate."""
    if opinion.say != "edit":
        return candidate
    aliases = tuple(dict.fromkeys(alias for alias in opinion.aliases if alias != opinion.answer))
    return structs.replace(candidate, question=opinion.question, answer=opinion.answer, aliases=aliases)


def independent(opinions: Iterable[Opinion], reviewers: int) -> dict[str, dict[str, Opinion]]:
    """Return opinions given before the reviewer could see others', by candidate and reviewer."""
    by_candidate: dict[str, dict[str, Opinion]] = {}
    for opinion in opinions:
        first = by_candidate.get(opinion.id, {})
        if len(first) < reviewers:
            stand(by_candidate, opinion)
    return by_candidate


def settled(candidate: Candidate, opinions: Mapping[str, Opinion], reviewers: int) -> Candidate | None:
    """Return the candidate as all reviewers want it; None if they are too few, disagree, or reject it."""
    wanted = [edited(candidate, opinion) for opinion in opinions.values() if opinion.say != "reject"]
    if len(wanted) < max(reviewers, 1) or len(wanted) < len(opinions):
        return None
    first = wanted[0]
    same = all(
        (candidate_.question, candidate_.answer, set(candidate_.aliases))
        == (first.question, first.answer, set(first.aliases))
        for candidate_ in wanted
    )
    return first if same else None


def disputed(candidate: Candidate, opinions: Mapping[str, Opinion], reviewers: int) -> bool:
    """Return True if enough reviewers have judged and do not agree."""
    rejected = all(opinion.say == "reject" for opinion in opinions.values())
    return len(opinions) >= reviewers and not rejected and settled(candidate, opinions, reviewers) is None


def decide(candidate: Candidate, opinions: Mapping[str, Opinion], reviewers: int) -> StageDecision:
    """Keep what all accept alike, drop what all reject; anything else is undecided."""
    told = [structs.replace(opinion, request="") for opinion in opinions.values()]
    detail = {"opinions": msgspec.to_builtins(told), "reviewers": reviewers}
    if len(opinions) < reviewers:
        return StageDecision(
            candidate.id, "undecided", f"{len(opinions)} of {reviewers} reviewers have judged it", detail
        )
    wanted = settled(candidate, opinions, reviewers)
    if wanted is not None:
        if wanted != candidate:
            now = {"question": wanted.question, "answer": wanted.answer, "aliases": list(wanted.aliases)}
            return StageDecision(candidate.id, "keep", "edited", {**detail, "edited": now})
        return StageDecision(candidate.id, "keep", "", detail)
    if disputed(candidate, opinions, reviewers):
        return StageDecision(candidate.id, "undecided", "the reviewers disagree", detail)
    reasons = "; ".join(dict.fromkeys(opinion.reason for opinion in opinions.values() if opinion.reason))
    return StageDecision(candidate.id, "drop", f"rejected: {reasons}", detail)


def agreement(opinions: Sequence[Opinion], ids: Iterable[str], reviewers: int) -> list[Agreement]:
    """Compute Cohen's kappa for each pair of reviewers, over independent opinions: accept, edit or reject."""
    first, among = independent(opinions, reviewers), set(ids)
    units = [{name: str(one.say) for name, one in given.items()} for id_, given in first.items() if id_ in among]
    return [cohen(names, *zip(*pairs, strict=True)) for names, pairs in label_pairs(units).items()]


REASONS = (
    "the answer is wrong",
    "the picture does not show enough to tell",
    "several answers are right",
    "the picture names the answer",
    "the evidence does not support the answer",
    "found too easily by its picture",
    "private or offensive",
)


@contextmanager
def open_review(work: Work, reviewers: int, skip: Collection[str] = ()) -> Iterator[CandidateCases]:
    """Open the review of the candidates that every earlier stage kept.

    Args:
        reviewers: how many people have to judge each.
        skip: stages that were not run.

    Raises:
        PreflightError: no candidate has reached the review.
        RunLockedError: another process is serving this review.
    """
    candidates = work.entering("review", skip)
    if not candidates:
        raise PreflightError(
            "no candidate has reached the review", "The reports of the earlier stages give the reasons."
        )
    with RunFolder(work.folder("review")).locked():
        journal = Journal(path_of(work))
        try:
            yield CandidateCases(work, candidates, reviewers, journal)
        finally:
            journal.close()


class CandidateCases:
    """The candidates under review by their numbers. Each opinion is on the disk before `decide` returns."""

    template: str = "review_candidate.html.jinja"
    steps: Mapping[str, str] = {"queue": "To judge", "adjudicate": "Disputed", "agreement": "Agreement"}
    words: Mapping[str, str] = {"accept": "Accept", "reject": "Reject", "edit": "Accept with the edits"}
    texts: ReviewTexts = ReviewTexts()
    nouns: tuple[str, str] = ("candidate", "candidates")
    kept: str = "review/opinions.jsonl of the working folder"

    def __init__(self, work: Work, candidates: Sequence[Candidate], reviewers: int, journal: Journal) -> None:
        """Take the candidates, with the findings of the earlier stages and the opinions so far."""
        self.work, self.reviewers, self._journal, self._lock = work, reviewers, journal, Lock()
        self.about = f"{work.state.name}, {len(candidates):,} candidates"
        self._candidates = {candidate.number: candidate for candidate in candidates}
        self._numbers = {candidate.id: candidate.number for candidate in candidates}
        self._found = {name: work.decisions(name) for name in ("evidence", "leaks", "hard")}
        self._take(read_all(work))

    def _take(self, opinions: Sequence[Opinion]) -> None:
        # Replaced as a whole: other threads read what was there before.
        self._opinions, self._standing = opinions, standing(opinions)

    def _of(self, candidate: Candidate) -> Mapping[str, Opinion]:
        return self._standing.get(candidate.id, {})

    def _seen_dispute(self, candidate: Candidate, reviewer: str) -> bool:
        """Return True if reviewers disagree and this one has judged: others' opinions are hidden before."""
        opinions = self._of(candidate)
        return reviewer in opinions and disputed(candidate, opinions, self.reviewers)

    def place(self, token: str) -> int:
        """Return the number of a candidate."""
        number = int(token) if token.isascii() and token.isdigit() and len(token) < 19 else 0
        if number not in self._candidates:
            raise UsageError("there is no such candidate in this review", "Choose one from the list of all.")
        return number

    def token(self, place: int) -> str:
        """Return the number as text."""
        return str(place)

    def queue(self, step: str, reviewer: str) -> ReviewQueue:
        """Return all candidates, or those about which the reviewer and others disagree."""
        cases = tuple(
            QueuedCase(number)
            for number, candidate in self._candidates.items()
            if step != "adjudicate" or self._seen_dispute(candidate, reviewer)
        )
        return ReviewQueue(cases, len(cases))

    def decided(self, step: str, reviewer: str) -> set[int]:
        """Return the candidates that the reviewer has judged."""
        return {number for number, candidate in self._candidates.items() if reviewer in self._of(candidate)}

    def rows(self, reviewer: str) -> list[tuple[str, ...]]:
        """Return a row for each candidate; its state stays hidden until the reviewer has judged it."""
        return [
            (str(number), str(number), one.question, one.answer, self._said(one, reviewer), self._state(one, reviewer))
            for number, one in self._candidates.items()
        ]

    def _said(self, candidate: Candidate, reviewer: str) -> str:
        own = self._of(candidate).get(reviewer)
        return "" if own is None else str(own.say)

    def _state(self, candidate: Candidate, reviewer: str) -> str:
        opinions = self._of(candidate)
        if reviewer not in opinions:
            return "open"
        if len(opinions) < self.reviewers:
            return "waits for others"
        if disputed(candidate, opinions, self.reviewers):
            return "disputed"
        return "dropped" if settled(candidate, opinions, self.reviewers) is None else "kept"

    def show(self, place: int, step: str, reviewer: str) -> ShownCase:
        """Return a candidate with the findings of the earlier stages."""
        candidate = self._candidates[place]
        own = self._of(candidate).get(reviewer)
        others = self._of(candidate).values() if self._seen_dispute(candidate, reviewer) else ()
        details = {name: known[candidate.id].detail for name, known in self._found.items() if candidate.id in known}
        links = msgspec.convert(details.get("evidence", {}).get("links", []), list[EvidenceCheck])
        leaks = details.get("leaks")
        return ShownCase(
            ask="Is the candidate good?",
            fields=_fields(candidate, own),
            blind="Hidden until you have judged the candidate: the opinions of other reviewers. They are shown then where "
            "they differ.",
            view={
                "candidate": candidate,
                "evidence": links or [EvidenceCheck(url) for url in candidate.evidence],
                "audit": msgspec.convert(leaks, LeakAudit) if leaks else None,
                "tries": msgspec.convert(details.get("hard", {}).get("models", []), list[Tries]),
            },
            parts=(Image(FileBlob(self.work.image(candidate))), Text(candidate.question)),
            mine=self._said(candidate, reviewer),
            others=tuple(_seen(opinion) for opinion in others if opinion.reviewer != reviewer),
        )

    def saved(self, name: str) -> tuple[bytes, str]:
        """Return the text of a snapshot, never the page itself: it is untrusted."""
        line = next((page for page in evidence.fetched(self.work).values() if page.sha256 == name), None)
        if line is None:
            raise UsageError("there is no such snapshot")
        return evidence.text_of(self.work, line).encode(), "text/plain"

    def decide(self, place: int, step: str, reviewer: str, fields: Mapping[str, str], client_id: str) -> None:
        """Write an opinion on a candidate."""
        say, wanted = fields["decision"], dict[str, Any]()
        if say == "edit":
            aliases = (" ".join(line.split()) for line in fields.get("aliases", "").split("\n"))
            wanted = {
                "question": fields.get("question", "").strip(),
                "answer": " ".join(fields.get("answer", "").split()),
                "aliases": tuple(filter(None, aliases)),
            }
        candidate = self._candidates[place]
        reason = "" if say == "accept" else fields.get("note", "").strip()
        opinion = Opinion(id=candidate.id, reviewer=reviewer, say=cast(OpinionKind, say), reason=reason, **wanted)
        self._append(checked(opinion, candidate), client_id)

    def last(self, reviewer: str) -> int | None:
        """Return the candidate of the reviewer's last opinion that stands."""
        last = last_decision([one for one in self._opinions if one.id in self._numbers], self._standing, reviewer)
        return None if last is None else self._numbers[last.id]

    def undo(self, place: int, reviewer: str, client_id: str) -> None:
        """Withdraw the reviewer's opinion on a candidate by a new line."""
        self._append(Opinion(id=self._candidates[place].id, reviewer=reviewer, say=None), client_id)

    def _append(self, opinion: Opinion, client_id: str) -> None:
        """Write an opinion; one that arrives again from the same page is there already."""
        if client_id:
            sent = blake2b(msgspec.json.encode((client_id, opinion)), digest_size=12).hexdigest()
            opinion = structs.replace(opinion, request=sent)
        with self._lock:
            if opinion.request and any(one.request == opinion.request for one in self._opinions):
                return
            opinion = structs.replace(opinion, at=now())
            self._journal.append(opinion)
            self._journal.sync()
            self._take([*self._opinions, opinion])

    def agreement(self, reviewer: str) -> tuple[ReviewAgreement, dict[str, Any]]:
        """Compute the agreement over the opinions that reviewers gave before they could see each other's.

        Candidates that the reader or too few others have judged are left out: their opinions are hidden still.
        """
        given = {one.id: (one, self._of(one)) for one in self._candidates.values()}
        seen = {id_: it for id_, it in given.items() if reviewer in it[1] and len(it[1]) >= self.reviewers}
        first = independent([one for one in self._opinions if one.id in seen], self.reviewers)
        units = [{name: str(one.say) for name, one in opinions.items()} for opinions in first.values()]
        disputes = [("", (id_, 0)) for id_, it in seen.items() if disputed(*it, self.reviewers)]
        counts = Counter(str(one.say) for _, opinions in seen.values() for one in opinions.values())
        note = (
            f"Of {len(seen):,} candidates that you and enough others have judged, {len(disputes):,} are disputed. "
            "Opinions count as they were before anybody could see others'."
        )
        nothing = "You and enough others have judged no candidate yet."
        return agreement_of(units, disputes, 0, counts), {"note": note, "nothing": nothing}


def _fields(candidate: Candidate, own: Opinion | None) -> tuple[DecisionField, ...]:
    """Return the texts that go along with an opinion: the reason, and the candidate as the reviewer wants it."""
    wanted, longest = candidate if own is None else edited(candidate, own), MAX_CHARACTERS
    reason, aliases = "" if own is None else own.reason, "\n".join(wanted.aliases)
    return (
        DecisionField("note", "Reason to reject or edit", reason, 1, longest["reason"], "w", REASONS),
        DecisionField("question", "Question", wanted.question, 2, longest["question"], folded="Edit"),
        DecisionField("answer", "Answer", wanted.answer, 1, longest["answer"], folded="Edit"),
        DecisionField("aliases", "Aliases, one per line", aliases, 4, 100 * longest["alias"], folded="Edit"),
    )


def _seen(opinion: Opinion) -> SeenDecision:
    texts = (("question", opinion.question), ("answer", opinion.answer), ("aliases", "; ".join(opinion.aliases)))
    return SeenDecision(opinion.reviewer, str(opinion.say), texts if opinion.say == "edit" else (), opinion.reason)
