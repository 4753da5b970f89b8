"""The label of each answer that is not correct: proposed by rules and by a judge, settled by people."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

import msgspec
from msgspec import Struct, structs

from snellen.engine import journal
from snellen.engine.journal import record_name
from snellen.engine.ownership import NOT_OWN, is_own
from snellen.engine.run_folder import JUDGE_RUNS
from snellen.errors import DataError, RunError, UsageError
from snellen.redaction.gold import strike
from snellen.runs.failures import answers as failed
from snellen.runs.failures.answers import Answered, Key
from snellen.runs.failures.review import LONGEST, Decision, disputed
from snellen.runs.failures.rules import UNKNOWN, labels, proposed, signals
from snellen.runs.run import Run
from snellen.scoring.rubric import gold_forms
from snellen.scoring.statistics.agreement import Agreement, cohen

Source = Literal["rule", "judge", "person", "none"]
NAME = "failures.jsonl"
log = logging.getLogger(__name__)
RULE_AND_JUDGE, PEOPLE = "rule and judge differ", "people differ"


class Labelled(Struct, frozen=True):
    """One answer that was not correct: its label and whose that is.

    Attributes:
        sample_id, repeat: which answer.
        label: the person's, else the rule's, else the judge's, else `unknown`; of several people the last one's.
        source: whose it is.
        signals: what held of the answer.
        rule, judge: what each proposes; `judge` is None where none was asked or no label came.
        people, why: what each person says, the last one at the end, and what they wrote beside it.
        verdict: how the answer counts.
        review: why a person should look at it; empty: nobody needs to.
    """

    sample_id: str
    repeat: int
    label: str
    source: Source
    signals: tuple[str, ...]
    rule: str = UNKNOWN
    judge: str | None = None
    people: Mapping[str, str] = {}
    why: Mapping[str, str] = {}
    verdict: str = "wrong"
    review: str = ""


def settle(
    which: Key,
    found: frozenset[str] | tuple[str, ...],
    rule: str,
    judge: str | None,
    said: Sequence[Decision] = (),
    verdict: str = "wrong",
) -> Labelled:
    """One answer's label: people over rule, the rule over the judge, whose label counts where no rule holds."""
    source: Source = "none"
    label = UNKNOWN
    if said:
        label, source = said[-1].label, "person"
    elif rule != UNKNOWN:
        label, source = rule, "rule"
    elif judge is not None and judge != UNKNOWN:
        label, source = judge, "judge"
    review = ""
    if disputed(said):
        review = PEOPLE
    elif not said and judge is not None and rule not in (UNKNOWN, judge):
        review = RULE_AND_JUDGE
    people = {one.by: one.label for one in said}
    why = {one.by: one.note for one in said if one.note}
    return Labelled(*which, label, source, tuple(sorted(found)), rule, judge, people, why, verdict, review)


def label_run(
    run: Run,
    review: Mapping[Key, Decision | Sequence[Decision]] | None = None,
    judged: Mapping[str, str] | None = None,
) -> Iterator[Labelled]:
    """Every answer of a run that was scored and is not correct, in the order of the records.

    Args:
        run: one with verdicts, where its benchmark is judged: what is unscored is left out.
        review: people's decisions by sample and repeat; they override rules and judge.
        judged: a judge's labels by `record_name`.
    """
    for one in failed.answers(run.folder, run.benchmark, run.meta.spec, run.verdicts()):
        if one.failed:
            found = label_of(one, review, judged)
            if found.why and (
                run.benchmark.restricted or run.meta.restricted
            ):  # what a person writes beside a decision is kept in the run
                forms = gold_forms(one.sample)
                found = structs.replace(found, why={by: strike(note, forms) for by, note in found.why.items()})
            yield found


def label_of(
    one: Answered,
    review: Mapping[Key, Decision | Sequence[Decision]] | None = None,
    judged: Mapping[str, str] | None = None,
) -> Labelled:
    """The label of one answer that is not correct."""
    which = (one.sample.id, one.record.repeat)
    held = signals(one.sample, one.record, one.score, one.steps(), one.answer)
    judge = None if judged is None else judged.get(record_name(one.sample.id, one.record.repeat))
    return settle(which, held, proposed(held), judge, _said(review, which), verdict_of(one))


def verdict_of(one: Answered) -> str:
    """The judge's class where the score has one, else the verdict."""
    return str(one.score.detail.get("judge_verdict", one.score.verdict))


def _said(review: Mapping[Key, Decision | Sequence[Decision]] | None, which: Key) -> Sequence[Decision]:
    said = () if review is None else review.get(which, ())
    return (said,) if isinstance(said, Decision) else said


def save(run: Run, labelled: Sequence[Labelled]) -> bool:
    """Write failures.jsonl into the run's folder; False where that cannot be written."""
    content = b"".join(msgspec.json.encode(one) + b"\n" for one in labelled)
    try:
        run.folder.write(run.path / NAME, content)
    except RunError:  # a run on a disk that is read-only can be labelled too
        return False
    return True


def saved(run: Run) -> list[Labelled] | None:
    """Return the lines of failures.jsonl; None if there is no such file.

    Damaged lines are left out with a warning, and so are lines that no version of Snellen writes: with a label outside of
    the table, or with a name or note beyond its longest.
    """
    path = run.path / NAME
    if not path.exists():
        return None
    lines = list(journal.intact(path, Labelled))
    known = [one for one in lines if _is_possible(one)]
    if len(known) < len(lines):
        log.warning(
            "%s: %s lines have an unknown label or too long a name; they do not count. Labels: %s.",
            path,
            f"{len(lines) - len(known):,}",
            ", ".join(labels()),
        )
    return known


def _is_possible(one: Labelled) -> bool:
    given = {one.label, one.rule, *one.people.values(), *(() if one.judge is None else (one.judge,))}
    short = all(len(by) <= LONGEST["by"] for by in one.people)
    short = short and all(len(note) <= LONGEST["note"] for note in one.why.values())
    return short and given <= {*labels(), UNKNOWN}


def whose_decisions(
    run: Run, labelled: Sequence[Labelled], review: Mapping[Key, Sequence[Decision]] | None = None
) -> str:
    """Say how many answers have people's decisions that came with somebody else's folder; empty if none has.

    Args:
        run: the run.
        labelled: its labels.
        review: decisions that this user has given.
    """
    if is_own(run.meta):
        return ""
    own = {key: {one.by for one in decisions} for key, decisions in (review or {}).items()}
    count = sum(not one.people.keys() <= own.get((one.sample_id, one.repeat), set()) for one in labelled)
    answers = f"{count:,} answers have" if count > 1 else "1 answer has"
    return f"{answers} decisions of people from {run.path}, {NOT_OWN}." if count else ""


def is_current(run: Run) -> bool:
    """Whether failures.jsonl was written after the run's last answer and last verdict."""
    from snellen.runs.judge.verdicts import find_verdicts

    written = (run.path / NAME).stat().st_mtime_ns
    judged = find_verdicts(run.folder)
    newest = [run.folder.results, *([] if judged is None else [judged.results])]
    return not any(path.exists() and path.stat().st_mtime_ns > written for path in newest)


def labelled(
    run: Run, review: Mapping[Key, Sequence[Decision]] | None = None, judged: Mapping[str, str] | None = None
) -> tuple[list[Labelled], str]:
    """The labels of a run; where its data cannot be read any more, those of failures.jsonl with what was said since.

    What people decided before, as failures.jsonl has it, still counts where the same person has not decided anew.

    Returns:
        The labels, and why they are those of the file; empty where they were made now.

    Raises:
        UsageError: the run is a judge's.
        SnellenError: the data cannot be read, and there is no such file; or that file is damaged.
    """
    if run.meta.spec.benchmark in JUDGE_RUNS:
        raise UsageError(
            f"{run.path} is a judge's run, in which no answer is right or wrong", "Give the run it is about."
        )
    kept = saved(run)
    decided = with_earlier(kept or (), review or {})
    try:
        return list(label_run(run, decided, judged)), ""
    except (DataError, UsageError) as error:
        if kept is None:
            raise
        found = []
        for one in kept:
            which = (one.sample_id, one.repeat)
            name = record_name(one.sample_id, one.repeat)
            judge = one.judge if judged is None else judged.get(name, one.judge)
            found.append(settle(which, one.signals, one.rule, judge, decided.get(which, ()), one.verdict))
        return found, f"The data cannot be read ({error.message}); the labels are those of {NAME}."


def with_earlier(kept: Sequence[Labelled], review: Mapping[Key, Sequence[Decision]]) -> dict[Key, tuple[Decision, ...]]:
    """The decisions of a review behind those that were taken before; of one person the newer ones alone."""
    found = {key: tuple(said) for key, said in review.items()}
    for one in kept:
        which = (one.sample_id, one.repeat)
        newer = found.get(which, ())
        again = {later.by for later in newer}
        earlier = [
            Decision(one.sample_id, label, one.repeat, by, one.why.get(by, ""))
            for by, label in one.people.items()
            if by not in again
        ]
        if earlier:
            found[which] = (*earlier, *newer)
    return found


def counts(labelled: Sequence[Labelled]) -> dict[str, dict[str, int]]:
    """label -> {whose: how many}, in the order of the table, `unknown` last; `judge` only where one has said anything."""
    held = Counter((one.label, one.source) for one in labelled)
    judged = any(one.judge is not None for one in labelled)
    sources = ("rule", *(("judge",) if judged else ()), "person", "none")
    return {label: {source: held[label, source] for source in sources} for label in labels()}


def agreements(labelled: Sequence[Labelled]) -> list[Agreement]:
    """How far rule and judge agree where both have a label, and each two people where both have decided."""
    both = [(one.rule, one.judge) for one in labelled if one.rule != UNKNOWN and one.judge is not None]
    found = []
    if both:
        found.append(cohen(("rule", "judge"), [rule for rule, _ in both], [str(judge) for _, judge in both]))
    names = sorted({name for one in labelled for name in one.people})
    for left, right in combinations(names, 2):
        pairs = [(one.people[left], one.people[right]) for one in labelled if {left, right} <= one.people.keys()]
        if pairs:
            found.append(cohen((left, right), [a for a, _ in pairs], [b for _, b in pairs]))
    return found
