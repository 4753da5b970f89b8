"""Where an answer ends: stop strings and whole JSON objects."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.models.local.stopping import answer_end, first_json_end

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), values, max_size=4)
prose = st.text(st.characters(exclude_characters='{}"<'))


@given(prose, objects, st.text(), st.booleans())
def test_an_object_ends_where_its_json_ends_whatever_stands_around_it(before, value, after, ascii_only):
    written = json.dumps(value, ensure_ascii=ascii_only)
    assert first_json_end(before + written + after) == len(before) + len(written)


def test_an_object_before_a_thought_ends_the_answer_and_one_within_a_thought_does_not():
    assert first_json_end("{}<think>") == 2
    assert first_json_end('{"a": 1} <think>{"b": 2}</think>') == 8
    assert first_json_end('<think>{"a": 1}') is None
    text = '<think>{"a": 1}</think> then <think>{}</think> {"b": 2}'
    assert first_json_end(text + " rest") == len(text)


@given(prose, objects, st.data())
def test_an_object_that_is_not_whole_yet_does_not_end_the_answer(before, value, data):
    written = json.dumps(value)
    cut = data.draw(st.integers(0, len(written) - 1))
    assert first_json_end(before + written[:cut]) is None


@given(st.text(st.sampled_from('{}[]"\\:,ab1 \n<>/think')))
def test_any_text_at_all_is_survived(text):
    end = first_json_end(text)
    assert end is None or text[end - 1] == "}"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so \\boxed{5} and {x}", None),
        ('\\boxed{5} {"a": 1} more', '\\boxed{5} {"a": 1}'),
        ('<think>maybe {"a": 1}', None),
        ('<think>maybe {"a": 1}</think>{"a": 2}!', '<think>maybe {"a": 1}</think>{"a": 2}'),
        ("{'a': 1}", None),
        ("{}", "{}"),
    ],
)
def test_only_real_json_outside_of_thoughts_counts(text, answer):
    end = first_json_end(text)
    assert (None if end is None else text[:end]) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": x, "b": 1} {"c": 2}.', '{"a": x, "b": 1} {"c": 2}'),
        ('{"a": {"b": 1}, "c": True}', None),
        ('{"a": ' + "1" * 5_000 + "} more", '{"a": ' + "1" * 5_000 + "}"),
        ('{"a": ' * 3_000 + "1" + "}" * 3_000 + " more", '{"a": ' * 3_000 + "1" + "}" * 3_000),
        ('{"a": "an end within {} and \\u00', None),
    ],
)
def test_a_brace_without_json_is_passed_over_up_to_where_it_is_none(text, answer):
    end = first_json_end(text)
    assert (None if end is None else text[:end]) == answer


@pytest.mark.parametrize(
    ("piece", "middle", "closing"),
    [
        ('{"a":', "x", "}"),
        ('{"a":', "", ""),
        ('{"a":[', "1", "x]}"),
        ('{"a"', ":1", "}"),
        ("{x ", "", ""),
        ("{" + " " * 9, "", ""),
        ('{"', "", ""),
        ('{"a":x', "", ""),
        ('{"k":["{",":",",",', "", ""),
        ('{"a\\', "", ""),
        ('{"a<think>', "", ""),
        ("<think>{</think>", "", ""),
    ],
)
def test_braces_are_read_in_proportion_to_the_length_of_the_text(piece, middle, closing):
    """The quickest of some long readings against the slowest short one; the square would take a hundred times as long."""

    def cpu_s(characters):
        times = characters // (len(piece) + len(closing))
        text = piece * times + middle + closing * times
        began = time.process_time()
        first_json_end(text)
        return time.process_time() - began

    short_s = max(0.005, *(cpu_s(16_000) for _ in range(5)))
    long_s = min(cpu_s(160_000) for _ in range(5))
    assert long_s <= 12 * short_s and long_s < 1


def test_the_earliest_end_counts():
    text = 'a {"b": 1} c'
    assert answer_end(text, ["c"], first_json=True) == len('a {"b": 1}')
    assert answer_end(text, ["a", "c"], first_json=True) == 0
    assert answer_end(text, [], first_json=False) is None
