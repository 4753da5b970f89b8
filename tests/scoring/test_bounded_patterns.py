"""Patterns that come with data: read as `re` reads them, each search in bounded time, in any thread."""

from __future__ import annotations

import re
import threading
import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.scoring import bounded_patterns
from snellen.scoring.answering_process import AnsweringProcess
from snellen.scoring.bounded_patterns import OutOfTimeError, require_pattern, search
from snellen.scoring.rules.inspect_scorers import ANSWERS

PIECES = [
    *"abAI1 _.^$|()[]?*+\\",
    r"\w",
    r"\b",
    r"\d",
    "(?i)",
    "(?=",
    "(?!",
    "(?P<x>",
    "{1,2}",
    "{e}",
    "[[:a:]]",
    "e\u0301",
    "\n",
]


@given(
    pattern=st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.sampled_from([*ANSWERS.values()]),
    text=st.text(st.sampled_from("abAI\u0130\u01311 _.:\n\u0301\u00b2\ud800e{}answer"), max_size=12)
    | st.sampled_from(["ANSWER: B", "answer: 1.5.\n", "Answer: wren\nANSWER: owl"]),
    flags=st.sampled_from([0, re.IGNORECASE]),
)
def test_any_pattern_finds_what_re_finds(pattern: str, text: str, flags: int):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = re.search(pattern, text, flags)
        except re.error:
            assume(False)
    found = search(pattern, text, flags)
    assert (found and (found.text, found.groups)) == (expected and (expected[0], expected.groups()))


def test_a_search_that_takes_too_long_is_ended_in_any_thread_and_the_next_one_is_made(monkeypatch):
    monkeypatch.setattr(
        bounded_patterns, "_process", AnsweringProcess(("-I", "-S", "-c", bounded_patterns._PROGRAM), seconds=0.5)
    )
    ends: list[object] = []

    def look() -> None:
        for pattern in ("(a|a)*b", "(a+)+b", "(a*)*b", "a"):
            try:
                ends.append(search(pattern, "a" * 60))
            except OutOfTimeError as error:
                ends.append(str(error))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert ["takes more than" in str(end) for end in ends] == [True, True, True, False]
    assert ends[3].text == "a"


@pytest.mark.parametrize("text", ["(a", "[", "*", "(?P<1>a)", "(" * 1_500 + ")" * 1_500])
def test_a_text_that_is_no_pattern_is_refused(text: str):
    with pytest.raises(DataError, match="is none"):
        require_pattern(text)
