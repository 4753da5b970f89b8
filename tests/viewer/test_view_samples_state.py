"""The address of the samples page: whatever a reader chose returns from it, and an export keeps it behind `#`."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import UsageError
from snellen.viewer.links import LiveLinks, StaticLinks
from snellen.viewer.states import CaseState, SamplesState, read_slice, slice_filter

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
states = st.builds(
    SamplesState,
    benchmark=texts,
    runs=st.lists(texts, max_size=4).map(tuple),
    profile=texts,
    where=st.lists(st.builds(slice_filter, texts, texts), max_size=4).map(tuple),
    pattern=texts,
    text=texts,
    within=st.sampled_from(["", "question", "reply"]),
    sql=texts,
    sort=st.sampled_from(["", "id", "wrong", "margin"]),
    number=st.integers(1, 1_000_000_000),
    rows=st.integers(1, 200),
)


@settings(max_examples=150)
@given(states)
def test_every_state_returns_from_its_address(state):
    address = LiveLinks().to(state)
    assert SamplesState.parse(address.partition("?")[2]) == state
    assert address.isascii() and not set(address) & set("<>\"' \n")


@settings(max_examples=100)
@given(states)
def test_an_export_has_one_page_a_benchmark_and_the_rest_behind_the_hash(state):
    links = StaticLinks()
    name, _, fragment = links.to(state).partition("#")
    assert list(links.pages.values()) == [SamplesState(benchmark=state.benchmark)]
    assert links.to(SamplesState(benchmark=state.benchmark)) == name
    kept = dataclasses.replace(state, benchmark="", sql="", number=1, rows=50)
    assert SamplesState.parse(fragment) == kept


@settings(max_examples=200)
@given(texts, texts)
def test_a_filter_returns_its_slice_whatever_its_name_holds(name, value):
    assert read_slice(slice_filter(name, value)) == (name, value)


def test_a_filter_without_a_value_is_refused():
    with pytest.raises(UsageError, match="no slice=value"):
        read_slice("level")


@pytest.mark.parametrize("query", ["rows=0", "rows=201", "rows=many", "number=-1", "within=title"])
def test_values_outside_of_their_range_are_refused(query):
    with pytest.raises(UsageError, match="does not take"):
        SamplesState.parse(query)


def test_other_filters_begin_at_the_first_page():
    state = SamplesState(benchmark="x", number=7, pattern="A right")
    assert state.filtered(text="cat") == SamplesState(benchmark="x", pattern="A right", text="cat")
    assert state.filtered(number=3).number == 3


def test_a_case_of_an_export_has_no_state_but_its_sample():
    links = StaticLinks()
    assert "#" not in links.to(CaseState(benchmark="x", sample="1", pattern="A right", text="cat"))
