"""Stage 4, reviews: an append-only journal of opinions, decisions, and inter-annotator agreement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from snellen.curation.candidates import Candidate
from snellen.curation.workspace import StageDecision, Work
from snellen.engine import journal
from snellen.errors import UsageError
from snellen.redaction import redact
from snellen.runs.reviews.decisions import stand
from snellen.scoring.statistics.agreement import Agreement, cohen, label_pairs

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
