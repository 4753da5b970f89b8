"""The queue of a review: which verdicts are doubtful, in which order, and when a decision is about something else now."""

from __future__ import annotations

import pytest
from msgspec import structs

from snellen.errors import UsageError
from snellen.runs.reviews.cases import doubtful_first, drawable, read_cases, shown_digest
from snellen.runs.reviews.decisions import VerdictReview, disputed, settled
from snellen.runs.reviews.status import review_agreement
from snellen.types import Prompt, Record, Response, Sample, Text

ALL_RIGHT = {"q0": "A", "q1": "B", "q2": "A", "q3": "B", "q4": "A", "q5": "B"}


def test_unparseable_replies_come_first(make_run):
    ordered = doubtful_first(read_cases(make_run({**ALL_RIGHT, "q2": "I cannot decide between the two"})))
    assert ordered[0].sample_id == "q2" and ordered[0].doubts[0] == ("unparseable", 1.0)
    assert [case.doubt for case in ordered[1:]] == [0.0] * 5
    assert {case.sample_id for case in ordered} == set(ALL_RIGHT)


def test_cases_without_doubt_come_in_an_order_of_the_seed_not_of_the_file(make_run):
    cases = read_cases(make_run(ALL_RIGHT))
    orders = {tuple(case.sample_id for case in doubtful_first(cases, seed)) for seed in range(5)}
    assert len(orders) > 1
    assert doubtful_first(cases, 3) == doubtful_first(list(reversed(cases)), 3)


def test_a_reply_that_never_came_is_no_case_and_is_counted(make_run):
    run = make_run({name: reply for name, reply in ALL_RIGHT.items() if name != "q3"})
    population, excluded = drawable(read_cases(run, by=("level",)))
    assert ("q3", 0) not in population and len(population) == 5
    assert excluded == {"no reply (error)": 1}
    assert population["q0", 0] == "hard"
    assert drawable(read_cases(run, by=("level", "verdict")))[0]["q1", 0] == "easy · correct"


def test_a_field_that_no_sample_has_is_refused_with_the_fields_there_are(make_run):
    with pytest.raises(UsageError, match=r"meta field 'levl'(.|\n)*level"):
        read_cases(make_run(ALL_RIGHT), by=("levl",))


def test_a_digest_changes_with_whatever_is_shown_and_with_nothing_else():
    sample = Sample("q", Prompt((Text("Which?"),)), "A", "choice", {"A": "left"}, meta={"level": 1})
    record = Record("q", "ok", response=Response("It is A."))
    digest = shown_digest(sample, record)
    assert digest == shown_digest(structs.replace(sample, meta={}, group="g"), structs.replace(record, finished_at=9.0))
    others = [
        (structs.replace(sample, target="B"), record),
        (structs.replace(sample, options={"A": "right"}), record),
        (structs.replace(sample, prompt=Prompt((Text("What?"),))), record),
        (sample, structs.replace(record, response=Response("It is B."))),
    ]
    assert len({digest, shown_digest(sample, record, "judge: correct"), *(shown_digest(*pair) for pair in others)}) == 6


def decided(reviewer, decision, verdict="correct", **fields):
    return VerdictReview(sample_id="q", reviewer=reviewer, decision=decision, verdict=verdict, design="queue", **fields)


def test_decisions_about_different_verdicts_agree_if_they_say_the_same_of_the_reply():
    assert decided("ada", "wrong", "wrong").reply_is_correct is True
    assert decided("ada", "right", "invalid").reply_is_correct is False
    assert decided("ada", "ambiguous").reply_is_correct is None
    same = {"ada": decided("ada", "right", "correct"), "bob": decided("bob", "wrong", "wrong")}
    assert not disputed(same) and settled(same).reply_is_correct is True
    assert review_agreement({"run": same.values()}).pairs[0].kappa.observed == 1.0


def test_an_adjudication_settles_a_dispute_and_leaves_the_agreement_of_the_reviewers_as_it_was():
    lines = [decided("ada", "right"), decided("bob", "wrong")]
    before = review_agreement({"run": lines})
    assert before.disputed == (("run", ("q", 0)),)
    after = review_agreement({"run": [*lines, decided("bob", "right", adjudicates=True)]})
    assert after.disputed == () and after.adjudicated == 1
    assert after.pairs == before.pairs and after.pairs[0].decisions == {("right", "wrong"): 1}


def test_who_cannot_tell_disputes_nothing():
    reviewers = {"ada": decided("ada", "cannot-tell"), "bob": decided("bob", "wrong")}
    assert not disputed(reviewers) and settled(reviewers).decision == "wrong"
    assert settled({"ada": decided("ada", "cannot-tell")}).decision == "cannot-tell"
