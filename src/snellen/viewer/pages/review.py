"""The review page: one verdict at a time for reviewers who see neither the model nor each other, and how they agree."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from snellen.engine.run_folder import JUDGE_RUNS
from snellen.errors import DataError, SnellenError, UsageError
from snellen.redaction import redact
from snellen.runs.reviews.cases import shown_digest
from snellen.runs.reviews.decisions import (
    DECISION_TEXTS,
    DECISIONS,
    DecisionWord,
    VerdictReview,
    checked,
    now,
    reviewer_name,
)
from snellen.text import comma_list
from snellen.viewer.cases.case_view import CaseColumn, case_view
from snellen.viewer.index import MOST_ROWS, RunEntry
from snellen.viewer.labels import benchmark_label
from snellen.viewer.reviews.agreement_view import agreement_view
from snellen.viewer.reviews.blind import blinded
from snellen.viewer.reviews.case_token import CasePlace, case_token, read_token
from snellen.viewer.reviews.desk import ReviewQueue
from snellen.viewer.site import MissingPageError, Site, ViewPage
from snellen.viewer.states import ReviewState

SCORE_VERDICTS = {"right": "correct", "unparseable": "invalid", "failed": "error"}
"""Verdicts of the pages that reviews.jsonl names as scores do; the others have one name."""
STEPS = {
    "queue": "Doubtful first",
    "audit": "Audit sample",
    "adjudicate": "Adjudicate",
    "agreement": "Agreement",
}
CLIENT_ID_CHARACTERS = 100


def reviewers_of(site: Site) -> tuple[str, ...]:
    """Return the names that `--review` allows to decide. Raises UsageError for a name that cannot be one."""
    return tuple(dict.fromkeys(reviewer_name(name) for name in comma_list(site.settings.reviewer)))


def current_reviewer(site: Site, state: ReviewState) -> str:
    """Return the reviewer of the address, or the only one; empty where nobody is named or one must be chosen.

    Raises:
        UsageError: the address names somebody whom --review does not.
    """
    names = reviewers_of(site)
    if state.reviewer and state.reviewer not in names:
        raise UsageError(
            f"{state.reviewer[:80]!r} is none of the reviewers of this server",
            f"Reviewers: {', '.join(names) or 'none'}. Start another: snellen view --review NAME",
        )
    return state.reviewer or (names[0] if len(names) == 1 else "")


def reviewed_runs(site: Site, state: ReviewState) -> list[RunEntry]:
    """Return the runs that the address is about, without those of judges, by key.

    Raises:
        UsageError: there is no such run. MissingPageError: no run of the benchmark is there.
    """
    if state.run:
        return [site.index.run(state.run)]
    entries = [
        entry
        for entry in site.index.runs()
        if not entry.judges and entry.benchmark not in JUDGE_RUNS and entry.benchmark == state.benchmark
    ]
    if not entries:
        raise MissingPageError(
            f"there is no run of the benchmark {state.benchmark[:100]!r}", "Choose one on the review page."
        )
    return sorted(entries, key=lambda entry: entry.key)


def view(site: Site, state: ReviewState) -> Mapping[str, Any]:
    """Show the overview, the agreement, or a case of a queue.

    Raises:
        UsageError: the address names a reviewer, a run or a case that there is not.
    """
    reviewer = current_reviewer(site, state) if site.live else ""
    shared: dict[str, Any] = {
        "reviewer": reviewer,
        "reviewers": reviewers_of(site) if site.live else (),
        "steps": STEPS,
    }
    if not state.step:
        return {**shared, "shape": "overview", "rows": _overview(site, state, reviewer)}
    entries = reviewed_runs(site, state)
    state = state.changed(benchmark=entries[0].benchmark)
    tabs = [(name, text, site.links.to(_step(state, name))) for name, text in STEPS.items()] if site.live else []
    shared |= {
        "tabs": tabs,
        "benchmark": benchmark_label(entries[0].benchmark),
        "runs": entries,
        "start": site.links.to(ReviewState()),
    }
    if state.step == "agreement":
        return {**shared, "shape": "agreement", **agreement_view(site.reviews, entries)}
    if not site.live:
        raise MissingPageError("an export holds no cases to review", "Start snellen view --review NAME.")
    choices = [(name, site.links.to(state.changed(reviewer=name))) for name in reviewers_of(site)]
    if len(choices) > 1 and not reviewer:
        return {**shared, "shape": "choose", "choices": choices}
    queue = _queue(site, state, entries)
    done = _decided(site, state, entries, reviewer)
    place, position = _current(state, entries, queue, done)
    if place is None and state.step == "queue" and queue.total > len(queue.cases):
        queue = site.reviews.doubtful(site.index, entries, state.profile, MOST_ROWS)
        place, position = _current(state, entries, queue, done)
    counts = {
        "decided": sum(case.place in done for case in queue.cases),
        "queued": len(queue.cases),
        "population": queue.total,
        "notes": queue.notes,
    }
    undone = _last_decision(site, entries, reviewer)
    shared |= {**counts, "can_undo": undone is not None, "position": position, "client_id": secrets.token_hex(16)}
    if place is None:
        waiting = not queue.cases and any(entry.samples in ("waiting", "behind") for entry in entries)
        return {**shared, "shape": "done", "action": site.links.to(state), "waiting": waiting}
    return {**shared, "shape": "case", **_case(site, state, entries, queue, place, reviewer)}


def _step(state: ReviewState, name: str) -> ReviewState:
    changed: ReviewState = state.changed(step=name, case="", after="", sample="", repeat=0)
    return changed


def _overview(site: Site, state: ReviewState, reviewer: str) -> list[dict[str, Any]]:
    """Return a row for each benchmark: how many replies, and how far their review is."""
    groups: dict[str, list[RunEntry]] = {}
    for entry in site.index.runs():
        if not entry.judges and entry.benchmark and entry.benchmark not in JUDGE_RUNS:
            groups.setdefault(entry.benchmark, []).append(entry)
    rows = []
    for benchmark, entries in sorted(groups.items()):
        mine = reviewed = 0
        broken, problems = False, []
        for entry in entries:
            problems += site.reviews.faults(entry, 1)
            try:
                journal = site.reviews.journal(entry.path)
            except SnellenError:  # named by `faults`
                broken = True
                continue
            reviewed += len(journal.standing)
            mine += sum(reviewer in reviewers for reviewers in journal.standing.values())
        audit = site.reviews.audited(entries)
        own = ReviewState(benchmark=benchmark, reviewer=state.reviewer)
        rows.append(
            {
                "benchmark": benchmark_label(benchmark),
                "runs": len(entries),
                "replies": sum(entry.indexed for entry in entries),
                "reviewed": reviewed,
                "mine": mine,
                "audit": len(audit.cases),
                "disputed": None if broken else len(site.reviews.disputes(entries).cases),
                "problems": [*problems, *audit.notes],
                "links": {
                    name: site.links.to(own.changed(step=name)) for name in STEPS if site.live or name == "agreement"
                },
            }
        )
    return rows


def _queue(site: Site, state: ReviewState, entries: Sequence[RunEntry]) -> ReviewQueue:
    if state.step == "audit":
        return site.reviews.audited(entries)
    if state.step == "adjudicate":
        return site.reviews.disputes(entries)
    return site.reviews.doubtful(site.index, entries, state.profile)


def _decided(site: Site, state: ReviewState, entries: Sequence[RunEntry], reviewer: str) -> set[CasePlace]:
    """Return the replies that the reviewer has decided; for the audit only those that were decided as part of it."""
    return {
        CasePlace(entry.key, *key)
        for entry in entries
        for key, reviewers in site.reviews.journal(entry.path).standing.items()
        if reviewer in reviewers and (state.step != "audit" or reviewers[reviewer].design == "audit")
    }


def _current(
    state: ReviewState, entries: Sequence[RunEntry], queue: ReviewQueue, decided: set[CasePlace]
) -> tuple[CasePlace | None, int]:
    """Return the case to show and its place in the queue, from 1 (0: not in it); None if all are decided."""
    places = {case.place: number for number, case in enumerate(queue.cases)}
    if state.case:
        place = read_token(state.case)
        return place, places.get(place, -1) + 1
    if state.sample:
        wanted = (state.sample, state.repeat)
        place = next((p for p in places if (p.sample_id, p.repeat) == wanted), CasePlace(entries[0].key, *wanted))
        return place, places.get(place, -1) + 1
    start = places.get(read_token(state.after), -1) + 1 if state.after else 0
    order = [*range(start, len(queue.cases)), *range(start)]
    for number in order:
        if state.step == "adjudicate" or queue.cases[number].place not in decided:
            return queue.cases[number].place, number + 1
    return None, 0


class _ReviewedVerdict(NamedTuple):
    """Digest, verdict and profile of a case beyond its view, as the decision records them."""

    digest: str
    verdict: str
    profile: str


def _case(
    site: Site, state: ReviewState, entries: Sequence[RunEntry], queue: ReviewQueue, place: CasePlace, reviewer: str
) -> dict[str, Any]:
    entry = site.index.run(place.run)
    opened = site.opened.open(entry.key, entry.path)
    opened.indexed = partial(site.index.record, entry.key)
    case = case_view(
        [CaseColumn("", opened)],
        place.sample_id,
        place.repeat,
        site.images,
        profile=state.profile,
        show_gold=site.settings.show_gold,
    )
    sample, _ = opened.sample(place.sample_id)
    record = opened.record(place.sample_id, place.repeat)
    if case is None or record is None:
        raise MissingPageError("the reply of this case is no longer there", "Go back to the review page.")
    models = {run.model for run in site.index.runs() if run.benchmark == entry.benchmark}
    if record.response is not None and record.response.model:
        models.add(record.response.model)
    reply, hidden = blinded(case, models)
    judged = opened.judge_record(place.sample_id, place.repeat, record.finished_at)
    judge_text = judged.response.text if judged is not None and judged.response is not None else ""
    digest = "" if sample is None else shown_digest(sample, record, judge_text)
    token = case_token(place)
    here = state.changed(case=token, after="", sample="", repeat=0)
    places = [queued.place for queued in queue.cases]
    number = places.index(place) if place in places else -1
    journal = site.reviews.journal(entry.path)
    reviewers = journal.standing.get((place.sample_id, place.repeat), {})
    mine = reviewers.get(reviewer)
    verdict = SCORE_VERDICTS.get(reply.reply.verdict, reply.reply.verdict)
    doubts = next((queued.doubts for queued in queue.cases if queued.place == place), ())

    def to(other: int) -> str:
        return site.links.to(here.changed(case=case_token(places[other])))

    return {
        "case": case,
        "item": reply,
        "hidden_names": hidden,
        "doubts": doubts if state.step != "audit" else (),
        "action": site.links.to(here),
        "before": to(number - 1) if number > 0 else "",
        "after": to(number + 1) if 0 <= number < len(places) - 1 else "",
        "skip": site.links.to(here.changed(case="", after=token)) if len(places) > 1 else "",
        "mine": mine,
        "stale": bool(mine is not None and mine.digest and mine.digest != digest),
        "others": list(reviewers.values()) if state.step == "adjudicate" else [],
        "decisions": list(DECISION_TEXTS.items()),
        "shown": _ReviewedVerdict(digest, verdict, case.profile),
        "known_run": bool(state.run) or len(entries) == 1,
    }


def _last_decision(site: Site, entries: Sequence[RunEntry], reviewer: str) -> tuple[RunEntry, VerdictReview] | None:
    """Return the reviewer's last decision that stands; None without one."""
    last: tuple[RunEntry, VerdictReview] | None = None
    for entry in entries:
        journal = site.reviews.journal(entry.path)
        for review in reversed(journal.reviews):
            if review.reviewer == reviewer and journal.standing.get(review.key, {}).get(reviewer) is review:
                if last is None or review.seconds > last[1].seconds:
                    last = (entry, review)
                break
    return last


def submit(site: Site, state: ReviewState, fields: Mapping[str, str]) -> ReviewState:
    """Record a decision, or withdraw the last one, and return the address of what comes next.

    A form that arrives again is recorded once: its id is made from the id of the page and what was decided.

    Raises:
        UsageError: nobody reviews here, or the form names no decision or no case.
    """
    reviewer = current_reviewer(site, state)
    if not reviewer:
        raise UsageError(
            "nobody reviews here" if not reviewers_of(site) else "the address names no reviewer",
            "Start snellen view --review NAME, and open its review page.",
        )
    client_id = fields.get("id", "")[:CLIENT_ID_CHARACTERS]
    if fields.get("decision") == "undo":
        return _undo(site, state, reviewer, client_id)
    word = fields.get("decision", "")
    if word not in DECISIONS or not state.case:
        raise UsageError(f"the form names no decision: {word[:40]!r}", f"Decisions: {', '.join(DECISIONS)}.")
    place = read_token(state.case)
    entry = site.index.run(place.run)
    if site.opened.open(entry.key, entry.path).record(place.sample_id, place.repeat) is None:
        raise MissingPageError("the reply of this case is no longer there", "Go back to the review page.")
    audit = site.reviews.audit(entry.path)
    review = VerdictReview(
        sample_id=place.sample_id,
        repeat=place.repeat,
        reviewer=reviewer,
        decision=cast(DecisionWord, word),
        at=now(),
        design="audit" if audit is not None and (place.sample_id, place.repeat) in audit.probabilities() else "queue",
        note=redact(fields.get("note", "").strip()),
        digest=fields.get("digest", ""),
        profile=fields.get("profile", ""),
        verdict=fields.get("verdict", ""),
        correction=fields.get("correction", "").strip() if word == "gold-wrong" else "",
        adjudicates=state.step == "adjudicate",
    )
    try:
        site.reviews.append(entry.path, checked(review, "the form"), client_id)
    except DataError as error:  # the form is the reader's
        raise UsageError(error.message, error.hint) from error
    following: ReviewState = state.changed(case="", after=state.case)
    return following


def _undo(site: Site, state: ReviewState, reviewer: str, client_id: str) -> ReviewState:
    last = _last_decision(site, reviewed_runs(site, state), reviewer)
    if last is None:
        raise UsageError("there is no decision to undo", "Go back to the review page.")
    entry, review = last
    withdrawal = VerdictReview(
        sample_id=review.sample_id,
        repeat=review.repeat,
        reviewer=reviewer,
        decision=None,
        at=now(),
        design=review.design,
        adjudicates=review.adjudicates,
    )
    site.reviews.append(entry.path, withdrawal, client_id)
    back: ReviewState = state.changed(case=case_token(CasePlace(entry.key, *review.key)), after="")
    return back


PAGE = ViewPage(state=ReviewState, view=view, title="Review", submit=submit)
