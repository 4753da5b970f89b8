"""Label of each incorrect answer: proposed by rules and by a judge, settled by annotators."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct, structs

from snellen.engine import journal
from snellen.engine.folder_checks import NOT_OWN, is_own
from snellen.engine.journal import record_name
from snellen.engine.run_folder import JUDGE_RUNS
from snellen.errors import DataError, RunError, UsageError
from snellen.redaction.gold import strike
from snellen.runs.failures.answers import Answered, Key, answers
from snellen.runs.failures.review import LONGEST, ReviewDecision, disputed
from snellen.runs.failures.rules import UNKNOWN, labels, offered_tools, proposed, signals
from snellen.runs.run import Run
from snellen.scoring.rubric import gold_forms
from snellen.scoring.statistics.agreement import Agreement, cohen, label_pairs

Source = Literal["rule", "judge", "person", "none"]
NAME = "failures.jsonl"
log = logging.getLogger(__name__)
RULE_AND_JUDGE, PEOPLE = "rule and judge differ", "people differ"


class LabelledAnswer(Struct, frozen=True):
    """One incorrect answer: its label and the source of the label.

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
    key: Key,
    signals: frozenset[str] | tuple[str, ...],
    rule: str,
    judge: str | None,
    decisions: Sequence[ReviewDecision] = (),
    verdict: str = "wrong",
) -> LabelledAnswer:
    """Choose one answer's label: an annotator's before the rule's, the rule's before the judge's."""
    source: Source = "none"
    label = UNKNOWN
    if decisions:
        label, source = decisions[-1].label, "person"
    elif rule != UNKNOWN:
        label, source = rule, "rule"
    elif judge is not None and judge != UNKNOWN:
        label, source = judge, "judge"
    review = ""
    if disputed(decisions):
        review = PEOPLE
    elif not decisions and judge is not None and rule not in (UNKNOWN, judge):
        review = RULE_AND_JUDGE
    people = {decision.by: decision.label for decision in decisions}
    why = {decision.by: decision.note for decision in decisions if decision.note}
    return LabelledAnswer(*key, label, source, tuple(sorted(signals)), rule, judge, people, why, verdict, review)


def label_run(
    run: Run,
    review: Mapping[Key, ReviewDecision | Sequence[ReviewDecision]] | None = None,
    judged: Mapping[str, str] | None = None,
) -> Iterator[LabelledAnswer]:
    """Yield the label of every incorrect answer of a run, in the order of the records.

    Args:
        run: one with verdicts, where its benchmark is judged: what is unscored is left out.
        review: people's decisions by sample and repeat; they override rules and judge.
        judged: a judge's labels by `record_name`.
    """
    tools = offered_tools(run.meta)
    for answer in answers(run.folder, run.benchmark, run.meta.spec, run.verdicts()):
        if answer.failed:
            labelled = label_of(answer, review, judged, tools)
            if labelled.why and (
                run.benchmark.restricted or run.meta.restricted
            ):  # what a person writes beside a decision is kept in the run
                forms = gold_forms(answer.sample)
                labelled = structs.replace(labelled, why={by: strike(note, forms) for by, note in labelled.why.items()})
            yield labelled


def label_of(
    answer: Answered,
    review: Mapping[Key, ReviewDecision | Sequence[ReviewDecision]] | None = None,
    judged: Mapping[str, str] | None = None,
    tools: Sequence[str] = (),
) -> LabelledAnswer:
    """Label one incorrect answer; `tools` are those that the run gave its model."""
    key = (answer.sample.id, answer.record.repeat)
    held_signals = signals(answer.sample, answer.record, answer.score, answer.steps(), answer.answer, tools)
    judge = None if judged is None else judged.get(record_name(answer.sample.id, answer.record.repeat))
    return settle(key, held_signals, proposed(held_signals), judge, _said(review, key), verdict_of(answer))


def verdict_of(answer: Answered) -> str:
    """Return the judge's class if the score has one, else the verdict."""
    return str(answer.score.detail.get("judge_verdict", answer.score.verdict))


def _said(review: Mapping[Key, ReviewDecision | Sequence[ReviewDecision]] | None, key: Key) -> Sequence[ReviewDecision]:
    decisions = () if review is None else review.get(key, ())
    return (decisions,) if isinstance(decisions, ReviewDecision) else decisions


def save(run: Run, labelled: Sequence[LabelledAnswer]) -> bool:
    """Write failures.jsonl into the run's folder; False where that cannot be written."""
    content = b"".join(msgspec.json.encode(row) + b"\n" for row in labelled)
    try:
        run.folder.write(run.path / NAME, content)
    except RunError:  # a run on a disk that is read-only can be labelled too
        return False
    return True


def saved(run: Run) -> list[LabelledAnswer] | None:
    """Return the lines of failures.jsonl; None if there is no such file.

    Damaged lines are left out with a warning, and so are lines that no version of Snellen writes: with a label outside of
    the table, or with a name or note beyond its longest.
    """
    path = run.path / NAME
    if not path.exists():
        return None
    lines = list(journal.intact(path, LabelledAnswer))
    known = [row for row in lines if _is_possible(row)]
    if len(known) < len(lines):
        log.warning(
            "%s: %s lines have an unknown label or too long a name; they do not count. Labels: %s.",
            path,
            f"{len(lines) - len(known):,}",
            ", ".join(labels()),
        )
    return known


def _is_possible(row: LabelledAnswer) -> bool:
    used = {row.label, row.rule, *row.people.values(), *(() if row.judge is None else (row.judge,))}
    short = all(len(by) <= LONGEST["by"] for by in row.people)
    short = short and all(len(note) <= LONGEST["note"] for note in row.why.values())
    return short and used <= {*labels(), UNKNOWN}


def whose_decisions(
    run: Run, labelled: Sequence[LabelledAnswer], review: Mapping[Key, Sequence[ReviewDecision]] | None = None
) -> str:
    """Describe how many answers have decisions that came with another user's folder; empty if none has.

    Args:
        run: the run.
        labelled: its labels.
        review: decisions that this user has given.
    """
    if is_own(run.meta):
        return ""
    own = {key: {row.by for row in decisions} for key, decisions in (review or {}).items()}
    count = sum(not row.people.keys() <= own.get((row.sample_id, row.repeat), set()) for row in labelled)
    answers = f"{count:,} answers have" if count > 1 else "1 answer has"
    return f"{answers} decisions of people from {run.path}, {NOT_OWN}." if count else ""


def is_current(run: Run) -> bool:
    """Return True if failures.jsonl is newer than the run's last answer, verdict and reading."""
    from snellen.runs.judge.verdicts import find_readings, find_verdicts

    written = (run.path / NAME).stat().st_mtime_ns
    beside = (find_verdicts(run.folder), find_readings(run.folder))
    newest = [run.folder.results, *(folder.results for folder in beside if folder is not None)]
    return not any(path.exists() and path.stat().st_mtime_ns > written for path in newest)


def labelled(
    run: Run, review: Mapping[Key, Sequence[ReviewDecision]] | None = None, judged: Mapping[str, str] | None = None
) -> tuple[list[LabelledAnswer], str]:
    """Return the labels of a run; if its data cannot be read, those of failures.jsonl with newer decisions.

    What people decided before, as failures.jsonl has it, still counts where the same person has not decided anew.

    Returns:
        The labels, and why they are those of the file; empty where they were made now.

    Raises:
        UsageError: the run is a judge's.
        SnellenError: the data cannot be read, and there is no such file; or that file is damaged.
    """
    if run.meta.spec.benchmark in JUDGE_RUNS:
        raise UsageError(
            f"{run.path} is a judge's run, in which no answer is right or wrong", "Pass the run that it is about."
        )
    rows = saved(run)
    decided = with_earlier(rows or (), review or {})
    try:
        return list(label_run(run, decided, judged)), ""
    except (DataError, UsageError) as error:
        if rows is None:
            raise
        settled = []
        for row in rows:
            key = (row.sample_id, row.repeat)
            name = record_name(row.sample_id, row.repeat)
            judge = row.judge if judged is None else judged.get(name, row.judge)
            settled.append(settle(key, row.signals, row.rule, judge, decided.get(key, ()), row.verdict))
        return settled, f"The data cannot be read ({error.message}); the labels are those of {NAME}."


def with_earlier(
    rows: Sequence[LabelledAnswer], review: Mapping[Key, Sequence[ReviewDecision]]
) -> dict[Key, tuple[ReviewDecision, ...]]:
    """Merge earlier decisions into those of a review; the newer decision of one annotator counts."""
    decided = {key: tuple(decisions) for key, decisions in review.items()}
    for row in rows:
        answer = (row.sample_id, row.repeat)
        newer = decided.get(answer, ())
        again = {later.by for later in newer}
        earlier = [
            ReviewDecision(row.sample_id, label, row.repeat, by, row.why.get(by, ""))
            for by, label in row.people.items()
            if by not in again
        ]
        if earlier:
            decided[answer] = (*earlier, *newer)
    return decided


def counts(labelled: Sequence[LabelledAnswer]) -> dict[str, dict[str, int]]:
    """Return label -> {source: count}, in the order of the table; `judge` only if a judge has labelled anything."""
    numbers = Counter((row.label, row.source) for row in labelled)
    judged = any(row.judge is not None for row in labelled)
    sources = ("rule", *(("judge",) if judged else ()), "person", "none")
    return {label: {source: numbers[label, source] for source in sources} for label in labels()}


def agreements(labelled: Sequence[LabelledAnswer]) -> list[Agreement]:
    """Measure the agreement of rule and judge, and of each two annotators, over the answers that both have labelled."""
    both = [(row.rule, row.judge) for row in labelled if row.rule != UNKNOWN and row.judge is not None]
    results = []
    if both:
        results.append(cohen(("rule", "judge"), [rule for rule, _ in both], [str(judge) for _, judge in both]))
    people = label_pairs(row.people for row in labelled)
    return results + [cohen(names, *zip(*pairs, strict=True)) for names, pairs in people.items()]
