"""The review page: one case at a time for reviewers who do not see each other, and how they agree.

Its cases are the replies of runs, without the names of their models, or those that `ViewSettings.cases` brings.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from unicodedata import normalize

from snellen.engine.run_folder import JUDGE_RUNS
from snellen.errors import SnellenError, UsageError
from snellen.runs.reviews.cases import CaseSource, ReviewQueue, ReviewTexts, ShownCase
from snellen.runs.reviews.decisions import reviewer_name
from snellen.text import comma_list
from snellen.types import Image, MediaSettings, Part, Text
from snellen.viewer.cases.case_view import CaseView, QuestionView
from snellen.viewer.cases.pictures import Sender, shown_pictures
from snellen.viewer.index import RunEntry
from snellen.viewer.labels import benchmark_label
from snellen.viewer.reviews.agreement_view import agreement_view
from snellen.viewer.reviews.run_cases import STEPS, RunCases
from snellen.viewer.site import MissingPageError, Site, ViewPage
from snellen.viewer.states import ReviewState

CLIENT_ID_CHARACTERS = 100
Cases: TypeAlias = RunCases | CaseSource


def reviewers_of(site: Site) -> tuple[str, ...]:
    """Return the names that `--review` allows to decide. Raises UsageError for a name that cannot be one."""
    return tuple(dict.fromkeys(reviewer_name(name) for name in comma_list(site.settings.reviewer)))


def current_reviewer(site: Site, state: ReviewState) -> str:
    """Return the reviewer of the address, or the only one; empty where nobody is named or one must be chosen.

    Raises:
        UsageError: the address names somebody whom --review does not, or what cannot be a name.
    """
    if site.settings.cases is not None:  # its reviewers give their names themselves
        name = normalize("NFC", " ".join(state.reviewer.split()))
        return reviewer_name(name, "the form") if name else ""
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
    cases = site.settings.cases
    reviewer = current_reviewer(site, state) if site.live else ""
    reviewers = reviewers_of(site) if site.live else ()
    shared: dict[str, Any] = {
        "reviewer": reviewer,
        "reviewers": reviewers,
        "steps": STEPS if cases is None else cases.steps,
        "kept": RunCases.kept if cases is None else cases.kept,
        "texts": ReviewTexts() if cases is None else cases.texts,
    }
    if cases is None and not state.step:
        return {**shared, "shape": "overview", "rows": _overview(site, state, reviewer)}
    source, state = _source(site, state)
    tabs = [(name, text, site.links.to(_step(state, name))) for name, text in source.steps.items()]
    start = site.links.to(ReviewState(reviewer=state.reviewer))
    shared |= {"source": source, "tabs": tabs if site.live else [], "start": start}
    if not reviewer and cases is not None:
        return {**shared, "shape": "name", "tabs": []}
    if cases is not None and not state.step:
        first = _step(state, "queue")
        rows = [(row[1:], site.links.to(first.changed(case=row[0]))) for row in cases.rows(reviewer)]
        total, done = len(cases.queue("queue", reviewer).cases), len(cases.decided("queue", reviewer))
        counts = {"total": total, "open": total - done}
        return {**shared, "shape": "list", "rows": rows, **counts, "begin": site.links.to(first)}
    if state.step == "agreement":
        agreement, further = source.agreement(reviewer)
        return {**shared, "shape": "agreement", **agreement_view(agreement, source.words), **further}
    if not site.live:
        raise MissingPageError("an export holds no cases to review", "Start snellen view --review NAME.")
    if len(reviewers) > 1 and not reviewer:
        choices = [(name, site.links.to(state.changed(reviewer=name))) for name in reviewers]
        return {**shared, "shape": "choose", "choices": choices}
    return {**shared, **_cases(site, state, source, reviewer)}


def _source(site: Site, state: ReviewState) -> tuple[Cases, ReviewState]:
    """Return the cases that an address is about, and the address with the name of their benchmark.

    Raises:
        UsageError: their review has no such step.
    """
    if (cases := site.settings.cases) is not None:
        if state.step and state.step not in cases.steps:
            raise UsageError(f"this review has no step {state.step}", f"Steps: {', '.join(cases.steps)}.")
        return cases, state
    entries = reviewed_runs(site, state)
    state = state.changed(benchmark=entries[0].benchmark)
    return RunCases(site, state, entries), state


def _step(state: ReviewState, name: str) -> ReviewState:
    return state.changed(step=name, case="", after="", sample="", repeat=0)


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


def _cases(site: Site, state: ReviewState, source: Cases, reviewer: str) -> dict[str, Any]:
    """Return the case of an address or the next one of its step, with the reviewer's progress."""
    queue = source.queue(state.step, reviewer)
    if state.sample and isinstance(source, RunCases):
        found = source.find(queue, state.sample, state.repeat)
        state = state.changed(case=source.token(found), sample="", repeat=0)
    done = source.decided(state.step, reviewer)
    place, position = _current(state, source, queue, done)
    last = source.last(reviewer)
    progress = {
        "decided": sum(case.place in done for case in queue.cases),
        "queued": len(queue.cases),
        "population": queue.total,
        "notes": queue.notes,
        "last": "" if last is None else source.token(last),
        "position": position,
        "client_id": secrets.token_hex(16),
    }
    if place is None:
        runs = source.entries if isinstance(source, RunCases) else ()
        waiting = not queue.cases and any(entry.samples in ("waiting", "behind") for entry in runs)
        return {**progress, "shape": "done", "action": site.links.to(state), "waiting": waiting}
    shown = source.show(place, state.step, reviewer)
    token = source.token(place)
    here = state.changed(case=token, after="")

    def to(number: int) -> str:
        return site.links.to(here.changed(case=source.token(queue.cases[number - 1].place)))

    return {
        **progress,
        "shape": "case",
        "shown": shown,
        **({"case": _case_view(site, shown)} if shown.parts else {}),
        **shown.view,
        "doubts": queue.cases[position - 1].doubts if position else (),
        "action": site.links.to(here),
        "before": to(position - 1) if position > 1 else "",
        "after": to(position + 1) if 0 < position < len(queue.cases) else "",
        "skip": site.links.to(here.changed(case="", after=token)) if len(queue.cases) > 1 else "",
    }


def _current(state: ReviewState, source: Cases, queue: ReviewQueue, decided: Any) -> tuple[Any, int]:
    """Return the case to show and its place in the queue, from 1 (0: not in it); None if all are decided."""
    places = {case.place: number for number, case in enumerate(queue.cases)}
    if state.case:
        place = source.place(state.case)
        return place, places.get(place, -1) + 1
    start = places.get(source.place(state.after), -1) + 1 if state.after else 0
    for number in (*range(start, len(queue.cases)), *range(start)):
        if state.step == "adjudicate" or queue.cases[number].place not in decided:
            return queue.cases[number].place, number + 1
    return None, 0


def _case_view(site: Site, shown: ShownCase) -> CaseView:
    """Return question and images of a case that is no reply of a run."""
    question = QuestionView(tuple(_texts(shown.parts)), "", (), None, (), False, (), "", "")
    pictures = shown_pictures(shown.parts, (Sender("", MediaSettings(frames=shown.frames)),), site.images)
    return CaseView("", 0, question, "", tuple(pictures), ())


def _texts(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the texts of a question; where one stands before a picture, also each picture's label, in its place."""
    kinds = [isinstance(part, Text) for part in parts]
    mixed, number = True in kinds and not all(kinds[kinds.index(True) :]), 0
    for part in parts:
        if isinstance(part, Text):
            yield part.text
            continue
        number += 1
        if mixed:
            yield f"[{'image' if isinstance(part, Image) else 'video'} {number}]"


def submit(site: Site, state: ReviewState, fields: Mapping[str, str]) -> ReviewState:
    """Record a decision, or withdraw the last one, and return the address of what comes next.

    A form that arrives again is recorded once: its id is made from the id of the page and what was decided.

    Raises:
        UsageError: nobody reviews here, or the form names no decision or no case.
    """
    reviewer = current_reviewer(site, state)
    if not reviewer:
        raise UsageError(
            "the address names no reviewer" if reviewers_of(site) or site.settings.cases else "nobody reviews here",
            "Start snellen view --review NAME, and open its review page.",
        )
    client_id, word = fields.get("id", "")[:CLIENT_ID_CHARACTERS], fields.get("decision", "")
    source, _ = _source(site, state)
    if word == "undo":
        undone = fields.get("last", "")
        _undo(source, undone, reviewer, client_id)
        return state.changed(case=undone, after="")
    if (source.words and word not in source.words) or not word or not state.case:
        raise UsageError(f"the form names no decision: {word[:40]!r}", f"Decisions: {', '.join(source.words)}.")
    source.decide(source.place(state.case), state.step, reviewer, fields, client_id)
    return state.changed(case="", after=state.case)


def _undo(source: Cases, token: str, reviewer: str, client_id: str) -> None:
    """Withdraw the decision on the case that was the reviewer's last when the page was made, unless that is done already."""
    if not token:
        raise UsageError("there is no decision to undo", "Go back to the review page.")
    place = source.place(token)
    if place == source.last(reviewer):
        source.undo(place, reviewer, client_id)
    elif place in source.decided("queue", reviewer):
        raise UsageError("another decision has been made since, so nothing was undone", "Go back to the review page.")


PAGE = ViewPage(state=ReviewState, view=view, title="Review", submit=submit)
