"""Stage 4, what people say: an append-only journal of opinions, and the decisions and agreement that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from snellen.curation.candidates import Candidate
from snellen.curation.workspace import Decision, Work
from snellen.engine import journal
from snellen.errors import UsageError
from snellen.scoring.statistics.agreement import Agreement, cohen

Say = Literal["accept", "reject", "edit"]
LONGEST = {"reviewer": 80, "reason": 1000, "question": 2000, "answer": 300, "alias": 300}
MOST_ALIASES = 100


class Opinion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of review/opinions.jsonl; a reviewer's later line on a candidate replaces the earlier one.

    `question`, `answer` and `aliases` are those of an edit; `at` is seconds since the epoch, UTC.
    """

    id: str
    reviewer: str
    say: Say
    reason: str = ""
    question: str = ""
    answer: str = ""
    aliases: tuple[str, ...] = ()
    at: float = 0.0


def path_of(work: Work) -> Any:
    return work.folder("review") / "opinions.jsonl"


def read_all(work: Work) -> list[Opinion]:
    """Every opinion, in the order in which they were given."""
    return list(journal.read(path_of(work), Opinion))


def checked(opinion: Opinion, candidate: Candidate) -> Opinion:
    """The opinion, as it may be written down.

    Raises:
        UsageError: a rejection without a reason, an edit that changes nothing or empties something, a text too long.
    """
    if opinion.say == "reject" and not opinion.reason:
        raise UsageError("a rejection needs a reason")
    if opinion.say == "edit":
        if not opinion.question or not opinion.answer:
            raise UsageError("question and answer cannot be empty")
        if edited(candidate, opinion) == candidate:
            raise UsageError("nothing was changed: accept it as it is, or edit something")
    texts = {"reviewer": opinion.reviewer, "reason": opinion.reason, "question": opinion.question}
    for name, text in {**texts, "answer": opinion.answer}.items():
        if len(text) > LONGEST[name]:
            raise UsageError(f"{name} has {len(text):,} characters; {LONGEST[name]:,} are the most")
    if len(opinion.aliases) > MOST_ALIASES or any(len(alias) > LONGEST["alias"] for alias in opinion.aliases):
        raise UsageError(f"at most {MOST_ALIASES} aliases of {LONGEST['alias']} characters")
    return opinion


def edited(candidate: Candidate, opinion: Opinion) -> Candidate:
    """The candidate as a reviewer would have it."""
    if opinion.say != "edit":
        return candidate
    aliases = tuple(dict.fromkeys(alias for alias in opinion.aliases if alias != opinion.answer))
    return structs.replace(candidate, question=opinion.question, answer=opinion.answer, aliases=aliases)


def latest(opinions: Iterable[Opinion]) -> dict[str, dict[str, Opinion]]:
    """{candidate: {reviewer: last opinion}}."""
    found: dict[str, dict[str, Opinion]] = {}
    for one in opinions:
        found.setdefault(one.id, {})[one.reviewer] = one
    return found


def independent(opinions: Iterable[Opinion], reviewers: int) -> dict[str, dict[str, Opinion]]:
    """The same, as it stood when the last needed reviewer had spoken: until then nobody sees what others said."""
    found: dict[str, dict[str, Opinion]] = {}
    for one in opinions:
        mine = found.setdefault(one.id, {})
        if len(mine) < reviewers:
            mine[one.reviewer] = one
    return found


def settled(candidate: Candidate, said: Mapping[str, Opinion], reviewers: int) -> Candidate | None:
    """The candidate as all its reviewers want it; None where they are too few, disagree, or reject it."""
    wanted = [edited(candidate, one) for one in said.values() if one.say != "reject"]
    if len(wanted) < max(reviewers, 1) or len(wanted) < len(said):
        return None
    first = wanted[0]
    same = all(
        (one.question, one.answer, set(one.aliases)) == (first.question, first.answer, set(first.aliases))
        for one in wanted
    )
    return first if same else None


def disputed(candidate: Candidate, said: Mapping[str, Opinion], reviewers: int) -> bool:
    """Whether enough people have spoken and do not want the same."""
    rejected = all(one.say == "reject" for one in said.values())
    return len(said) >= reviewers and not rejected and settled(candidate, said, reviewers) is None


def decide(candidate: Candidate, said: Mapping[str, Opinion], reviewers: int) -> Decision:
    """Keep what all accept alike, drop what all reject; anything else is undecided."""
    detail = {"opinions": [msgspec.to_builtins(one) for one in said.values()], "reviewers": reviewers}
    if len(said) < reviewers:
        return Decision(candidate.id, "undecided", f"{len(said)} of {reviewers} reviewers have judged it", detail)
    wanted = settled(candidate, said, reviewers)
    if wanted is not None:
        if wanted != candidate:
            now = {"question": wanted.question, "answer": wanted.answer, "aliases": list(wanted.aliases)}
            return Decision(candidate.id, "keep", "edited", {**detail, "edited": now})
        return Decision(candidate.id, "keep", "", detail)
    if disputed(candidate, said, reviewers):
        return Decision(candidate.id, "undecided", "the reviewers disagree", detail)
    reasons = "; ".join(dict.fromkeys(one.reason for one in said.values() if one.reason))
    return Decision(candidate.id, "drop", f"rejected: {reasons}", detail)


def agreement(opinions: Sequence[Opinion], ids: Iterable[str], reviewers: int) -> list[Agreement]:
    """Cohen's kappa for each two reviewers, over what each said before seeing the other: accept, edit or reject."""
    among = set(ids)
    first = {id_: said for id_, said in independent(opinions, reviewers).items() if id_ in among}
    names = sorted({name for said in first.values() for name in said})
    found = []
    for left, right in combinations(names, 2):
        both = [said for said in first.values() if left in said and right in said]
        if both:
            found.append(cohen((left, right), [said[left].say for said in both], [said[right].say for said in both]))
    return found
