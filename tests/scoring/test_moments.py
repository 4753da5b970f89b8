"""Moments of a video: how replies and gold cells write them, and what they score."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring.answers import GoldError, answer_type
from snellen.scoring.grounding import IOU
from snellen.scoring.scorers import by_kind
from snellen.types import Prompt, Sample, Text

TENTHS = st.integers(0, 99_999)


def sample(gold: object) -> Sample:
    return Sample("1", Prompt((Text("When does the dog jump?"),)), gold, "moment")


def shown(tenths: int) -> str:
    return f"{tenths // 10}.{tenths % 10}"


def clock(tenths: int, *, hours: bool = False) -> str:
    minutes, seconds = divmod(tenths // 10, 60)
    whole = f"{minutes // 60}:{minutes % 60:02}" if hours else f"{minutes:02}"
    return f"{whole}:{seconds:02}.{tenths % 10}"


FORMS = {
    "list": lambda a, b: f"[{shown(a)}, {shown(b)}]",
    "words": lambda a, b: f"from {shown(a)} to {shown(b)} s",
    "clock": lambda a, b: f"{clock(a)} - {clock(b)}",
    "hours": lambda a, b: f"[{clock(a, hours=True)}, {clock(b, hours=True)}]",
    "object": lambda a, b: json.dumps({"start": a / 10, "end": b / 10}),
    "times": lambda a, b: json.dumps({"start_time": clock(a), "end_time": clock(b)}),
    "fence": lambda a, b: f"```json\n{json.dumps([{'timestamp': [a / 10, b / 10], 'label': 'jump'}])}\n```",
    "sentence": lambda a, b: f"The dog jumps between {shown(a)} and {shown(b)} seconds.",
    "ends": lambda a, b: f"It starts at {shown(a)}s and ends at {shown(b)}s.",
    "lines": lambda a, b: f"Start: {clock(a)}\nEnd: {clock(b)}",
    "marked": lambda a, b: f"The dog is seen first.\n\nAnswer: {clock(a)} to {clock(b)}",
    "box": lambda a, b: f"\\boxed{{[{shown(a)}, {shown(b)}]}}",
    "tag": lambda a, b: f"<think>[1, 2]?</think><answer>{shown(a)}s - {shown(b)}s</answer>",
}
forms = st.sampled_from([*FORMS])


@given(
    first=st.lists(TENTHS, min_size=2, max_size=2, unique=True).map(sorted),
    second=st.lists(TENTHS, min_size=2, max_size=2, unique=True).map(sorted),
    gold=st.sampled_from(["list", "words", "clock", "hours", "object", "times"]),
    reply=forms,
)
def test_the_form_of_reply_and_gold_never_changes_the_overlap(first, second, gold, reply):
    score = by_kind(sample(FORMS[gold](*first)), FORMS[reply](*second))
    shared = max(0, min(first[1], second[1]) - max(first[0], second[0]))
    union = (first[1] - first[0]) + (second[1] - second[0]) - shared
    assert score.reason is None
    assert score.detail[IOU] == str(float(Fraction(shared, union)))
    assert score.value == (2 * shared >= union)


@pytest.mark.parametrize(
    ("reply", "moment"),
    [
        ("(12.5, 20)", "[12.5, 20]"),
        ("12.5–20", "[12.5, 20]"),
        ("**12.5s - 20.0s**", "[12.5, 20] s"),
        ("<12.5> to <20>", "[12.5, 20]"),
        ("{'start': 12.5, 'end': 20}", "[12.5, 20]"),
        ("1 min 20 s to 2 min", "[80, 120] s"),
        ("00:00:12,500 --> 00:00:20,000", "[12.5, 20] s"),
        ("The action begins around 12.5 seconds and ends around 20 seconds.", "[12.5, 20] s"),
        ("- Start: 00:12.5\n- End: 00:20", "[12.5, 20] s"),
        ("from second 12.5 to second 20", "[12.5, 20] s"),
        ("[12.600000000000001, 20]", "[12.6, 20]"),
        ("The given query happens in 12.5 - 20 seconds.", "[12.5, 20] s"),
        ("[12.5, 20] and again [12.5, 20]", "[12.5, 20]"),
    ],
)
def test_a_moment_is_read_in_every_form(reply, moment):
    assert by_kind(sample("[12.5, 20]"), reply).extracted == moment


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("[20, 12.5]", "the end stands before the start"),
        ("[5, 5]", "a moment without length"),
        ("-5 to 10", "a time before the start"),
        ("[[1, 2], [5, 9]]", "two answers: [1, 2], [5, 9]"),
        ("From 1 s to 2 s, or from 5 s to 9 s.", "two answers: [1, 2] s, [5, 9] s"),
        ("frames 120 to 240", "a moment in frames, and one in s was asked for"),
        ("0:12 - 20", "needs a reader"),
        ("3 to 4 people jump", "needs a reader"),
        ("12.5", "needs a reader"),
        ('{"start": null, "end": 3}', "a coordinate is no number"),
        ("I cannot tell.", "refusal"),
        ("", "empty reply"),
    ],
)
def test_a_reply_without_one_moment_says_why(reply, reason):
    score = by_kind(sample("[1, 3]"), reply)
    assert (score.verdict, score.reason, score.value, score.detail[IOU]) == ("invalid", reason, 0.0, "0.0")


def test_frames_are_compared_with_frames_and_bare_numbers_have_the_unit_of_the_gold_answer():
    gold = sample('{"start_frame": 120, "end_frame": 240}')
    assert by_kind(gold, "120-240 frames").detail[IOU] == by_kind(gold, "[120, 240]").detail[IOU] == "1.0"
    assert by_kind(gold, "Start frame: 120, end frame: 180").value == 1.0
    assert by_kind(gold, "4.8 s to 9.6 s").reason == "a moment in s, and one in frames was asked for"


@pytest.mark.parametrize("cell", ["12.5", "[3, 2]", "[NaN, 4]", "[-1, 4]", "[[1, 2], [5, 9]]", "later", "[1, 2, 3, 4]"])
def test_a_gold_cell_that_is_no_moment_is_refused(cell):
    with pytest.raises(GoldError, match="is not a start and a later end"):
        answer_type("moment").parse_gold(cell)
