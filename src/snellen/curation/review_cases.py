"""Candidates as cases of the review page: what people see of one, and the journal of their opinions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from threading import Lock
from typing import Any, cast

import msgspec
from msgspec import structs

from snellen.curation import evidence
from snellen.curation.candidates import Candidate
from snellen.curation.evidence import EvidenceCheck
from snellen.curation.leaks import LeakAudit
from snellen.curation.model_filter import Tries
from snellen.curation.reviews import (
    MAX_CHARACTERS,
    Opinion,
    OpinionKind,
    checked,
    disputed,
    edited,
    independent,
    path_of,
    read_all,
    settled,
)
from snellen.curation.workspace import Work
from snellen.engine.journal import Journal
from snellen.engine.run_folder import RunFolder
from snellen.errors import PreflightError, UsageError
from snellen.runs.reviews.agreement import ReviewAgreement, agreement_of
from snellen.runs.reviews.case_source import (
    DecisionField,
    QueuedCase,
    ReviewQueue,
    ReviewTexts,
    SeenDecision,
    ShownCase,
)
from snellen.runs.reviews.decisions import last_decision, now, standing
from snellen.sources.blobs import FileBlob
from snellen.types import Image, Text

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
