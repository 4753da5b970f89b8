"""Replies of the runs of one benchmark as cases of the review page, without the names of models and other reviewers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from msgspec import structs

from snellen.errors import DataError, SnellenError, UsageError
from snellen.redaction import redact
from snellen.runs.reviews.cases import DecisionField, ReviewQueue, ReviewTexts, SeenDecision, ShownCase, shown_digest
from snellen.runs.reviews.decisions import (
    DECISION_TEXTS,
    LONGEST,
    DecisionWord,
    VerdictReview,
    checked,
    last_decision,
    now,
    standing,
)
from snellen.runs.reviews.status import ReviewAgreement, review_agreement
from snellen.types import Record
from snellen.viewer.cases.case_view import CaseColumn, case_view
from snellen.viewer.cases.opened_runs import OpenedRun
from snellen.viewer.cases.pictures import drawn_regions
from snellen.viewer.index import MOST_ROWS, RunEntry
from snellen.viewer.labels import benchmark_label
from snellen.viewer.reviews.blind import blinded
from snellen.viewer.reviews.case_token import CasePlace, case_token, read_token
from snellen.viewer.site import MissingPageError, Site
from snellen.viewer.states import ReviewState

SCORE_VERDICTS = {"right": "correct", "unparseable": "invalid", "failed": "error"}
"""Verdicts of the pages that reviews.jsonl names as scores do; the others have one name."""
STEPS = {
    "queue": "Doubtful first",
    "audit": "Audit sample",
    "adjudicate": "Adjudicate",
    "agreement": "Agreement",
}


class RunCases:
    """The replies of some runs of one benchmark, and the reviews.jsonl of each run."""

    template: str = "review_reply.html.jinja"
    steps: Mapping[str, str] = STEPS
    words: Mapping[str, str] = DECISION_TEXTS
    texts: ReviewTexts = ReviewTexts()
    nouns: tuple[str, str] = ("reply", "replies")
    kept: str = "reviews.jsonl of the run"

    def __init__(self, site: Site, state: ReviewState, entries: Sequence[RunEntry]) -> None:
        """Take the runs `entries`, all of one benchmark; `state` names the profile of the verdicts."""
        self.site, self.state, self.entries, self.desk = site, state, entries, site.reviews
        runs = f"{len(entries)} run{'' if len(entries) == 1 else 's'}"
        self.about = f"{benchmark_label(entries[0].benchmark)}, {runs}"

    place = staticmethod(read_token)
    token = staticmethod(case_token)

    def queue(self, step: str, reviewer: str) -> ReviewQueue:
        """Return the cases of a step; of the doubtful ones more when the first are decided."""
        if step == "audit":
            return self.desk.audited(self.entries)
        if step == "adjudicate":
            return self.desk.disputes(self.entries)
        queue = self.desk.doubtful(self.site.index, self.entries, self.state.profile)
        if queue.total > len(queue.cases) and {case.place for case in queue.cases} <= self.decided(step, reviewer):
            return self.desk.doubtful(self.site.index, self.entries, self.state.profile, MOST_ROWS)
        return queue

    def decided(self, step: str, reviewer: str) -> set[CasePlace]:
        """Return the replies that the reviewer has decided; for the audit only those that were decided as part of it."""
        return {
            CasePlace(entry.key, *key)
            for entry in self.entries
            for key, reviewers in self.desk.journal(entry.path).standing.items()
            if reviewer in reviewers and (step != "audit" or reviewers[reviewer].design == "audit")
        }

    def find(self, queue: ReviewQueue, sample: str, repeat: int) -> CasePlace:
        """Return the case of a sample: the first in the queue, else that of the first run."""
        places = (case.place for case in queue.cases)
        own = CasePlace(self.entries[0].key, sample, repeat)
        return next((place for place in places if (place.sample_id, place.repeat) == (sample, repeat)), own)

    def _opened(self, place: CasePlace) -> tuple[RunEntry, OpenedRun, Record]:
        entry = self.site.index.run(place.run)
        opened = self.site.opened.open(entry.key, entry.path)
        opened.indexed = partial(self.site.index.record, entry.key)
        if (record := opened.record(place.sample_id, place.repeat)) is None:
            raise _missing()
        return entry, opened, record

    def show(self, place: CasePlace, step: str, reviewer: str) -> ShownCase:
        """Return a reply with its verdict, blind."""
        entry, opened, record = self._opened(place)
        case = case_view(
            [CaseColumn("", opened)],
            place.sample_id,
            place.repeat,
            self.site.images,
            profile=self.state.profile,
            show_gold=self.site.settings.show_gold,
        )
        if case is None:
            raise _missing()
        models = {run.model for run in self.site.index.runs() if run.benchmark == entry.benchmark}
        if record.response is not None and record.response.model:
            models.add(record.response.model)
        item, hidden_names = blinded(case, models)
        reviewers = self.desk.journal(entry.path).standing.get((place.sample_id, place.repeat), {})
        mine, adjudicating = reviewers.get(reviewer), step == "adjudicate"
        digest = _digest(opened, place, record)
        drawing = drawn_regions(case.pictures, item.reply.shapes, self.site, blind=True)
        return ShownCase(
            ask="What counts?" if adjudicating else "Is the verdict right?",
            fields=(
                DecisionField("note", "Note", "" if mine is None else mine.note, 2, LONGEST["note"], "w"),
                DecisionField(
                    "correction",
                    "Right gold answer, with “The gold answer is wrong”",
                    "" if mine is None else mine.correction,
                ),
            ),
            hidden={
                "digest": digest,
                "verdict": SCORE_VERDICTS.get(item.reply.verdict, item.reply.verdict),
                "profile": case.profile,
            },
            blind=self._blind(adjudicating, hidden_names),
            mine="" if mine is None or adjudicating else str(mine.decision),
            stale=bool(mine is not None and mine.digest and mine.digest != digest),
            others=tuple(map(_seen, reviewers.values())) if adjudicating else (),
            view={"case": case, "item": item, "drawing": drawing},
        )

    def _blind(self, adjudicating: bool, names: int) -> str:
        """Say what is hidden, in a few sentences."""
        known = "There is one run of this benchmark. " if len(self.entries) == 1 else ""
        known = "You chose one run, so you know its model. " if self.state.run else known
        judge = "and the judge’s name" if adjudicating else "the judge’s name and the decisions of other reviewers"
        removed = f" {names} name{' of models is' if names == 1 else 's of models are'} removed from the texts."
        hidden = f"Hidden: the model and its run, time, tokens, cost{' ' if adjudicating else ', '}{judge}."
        return known + hidden + (removed if names else "")

    def decide(self, place: CasePlace, step: str, reviewer: str, fields: Mapping[str, str], client_id: str) -> None:
        """Write a decision on a reply to the journal of its run."""
        entry, _, _ = self._opened(place)
        audit, word = self.desk.audit(entry.path), fields["decision"]
        review = VerdictReview(
            sample_id=place.sample_id,
            repeat=place.repeat,
            reviewer=reviewer,
            decision=cast(DecisionWord, word),
            at=now(),
            design="audit"
            if audit is not None and (place.sample_id, place.repeat) in audit.probabilities()
            else "queue",
            note=redact(fields.get("note", "").strip()),
            digest=fields.get("digest", ""),
            profile=fields.get("profile", ""),
            verdict=fields.get("verdict", ""),
            correction=fields.get("correction", "").strip() if word == "gold-wrong" else "",
            adjudicates=step == "adjudicate",
        )
        try:
            self.desk.append(entry.path, checked(review, "the form"), client_id)
        except DataError as error:  # the form is the reader's
            raise UsageError(error.message, error.hint) from error

    def _last(self, reviewer: str) -> tuple[RunEntry, VerdictReview] | None:
        journals = [(entry, self.desk.journal(entry.path)) for entry in self.entries]
        last = [(entry, last_decision(journal.reviews, journal.standing, reviewer)) for entry, journal in journals]
        found = [(entry, review) for entry, review in last if review is not None]
        return max(found, key=lambda item: item[1].seconds, default=None)

    def last(self, reviewer: str) -> CasePlace | None:
        """Return the reply of the reviewer's last decision that stands."""
        last = self._last(reviewer)
        return None if last is None else CasePlace(last[0].key, *last[1].key)

    def undo(self, place: CasePlace, reviewer: str, client_id: str) -> None:
        """Withdraw the reviewer's decision on a reply by a new line."""
        path = self.site.index.run(place.run).path
        review = self.desk.journal(path).standing.get((place.sample_id, place.repeat), {}).get(reviewer)
        if review is not None:  # another process may have withdrawn it
            told = {"note": "", "digest": "", "profile": "", "verdict": "", "correction": "", "id": ""}
            self.desk.append(path, structs.replace(review, decision=None, at=now(), **told), client_id)

    def agreement(self, reviewer: str) -> tuple[ReviewAgreement, dict[str, Any]]:
        """Compute the agreement over the decisions on all runs, the same for every reader; runs are not named."""
        journals: dict[str, list[VerdictReview]] = {}
        problems: list[str] = []
        for entry in self.entries:
            problems += self.desk.faults(entry, 5)
            with suppress(SnellenError):  # named by `faults`
                journals[entry.key] = list(self.desk.journal(entry.path).reviews)
        agreement = review_agreement(journals)
        by_run = {run: standing(reviews) for run, reviews in journals.items()}
        audit = [case.place for case in self.desk.audited(self.entries).cases]
        audited = Counter(
            name
            for place in audit
            for name, review in by_run.get(place.run, {}).get((place.sample_id, place.repeat), {}).items()
            if review.design == "audit"
        )
        note = (
            f"{len(agreement.disputed):,} replies are disputed, {agreement.adjudicated:,} are adjudicated. "
            "Adjudications do not count for the agreement."
        )
        return agreement, {"note": note, "audited": audited, "audit_size": len(audit), "problems": problems}


def _missing() -> MissingPageError:
    return MissingPageError("the reply of this case is no longer there", "Go back to the review page.")


def _digest(opened: OpenedRun, place: CasePlace, record: Record) -> str:
    """Return the digest of what the reviewer sees of a reply; empty without its sample."""
    sample, _ = opened.sample(place.sample_id)
    judged = opened.judge_record(place.sample_id, place.repeat, record.finished_at)
    told = "" if judged is None or judged.response is None else judged.response.text
    return "" if sample is None else shown_digest(sample, record, told)


def _seen(review: VerdictReview) -> SeenDecision:
    correction = (("the right answer is", review.correction),) if review.correction else ()
    return SeenDecision(review.reviewer, str(review.decision), correction, review.note)
