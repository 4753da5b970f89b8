"""The shortcut for plain short replies reads what the whole reading reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring.extract import read, shortcut
from snellen.scoring.extract.base import lettered
from snellen.scoring.extract.clean import take_apart
from snellen.scoring.extract.whole import read_whole

NAMES = [
    "a robin",
    "a wren",
    "red kite",
    "kite",
    "The Heron",
    "None of the above",
    "12",
    "3 birds",
    "not a bird",
    "Yes",
]
OPTIONS = st.lists(st.sampled_from(NAMES), min_size=2, max_size=5, unique_by=str.lower)
BARE = ["{}", "{}.", "({})", "{})", "{}:", "{}\n", "({}).", " {}", "**{}**", "{},"]
DRESS = st.sampled_from([*BARE, *(f"{word}: {dress}" for word in ("Answer", "ANSWER", "answer") for dress in BARE)])


@given(options=OPTIONS, at=st.integers(0, 4), dress=DRESS, other=st.integers(0, 4), text=st.booleans())
def test_a_letter_alone_or_with_its_text(options: list[str], at: int, dress: str, other: int, text: bool) -> None:
    reply = dress.format("ABCDE"[at]) + (f" {options[other % len(options)]}" if text else "")
    pairs = lettered(options)
    quick = shortcut("choice", reply, pairs, None)
    if quick is not None:
        assert quick == read_whole("choice", take_apart(reply), pairs, "", None)
        assert read("choice", reply, options=options) == quick


@given(
    reply=st.sampled_from(
        ["Yes", "no", "T", "f", "True", "FALSE", "Yes.", "No\n", "0", "7", "12.", "-3", "007", "3.5", "A"]
    ),
    kind=st.sampled_from(["truth", "count", "number"]),
    form=st.sampled_from([None, "yes/no", "T/F"]),
)
def test_a_word_or_a_number(reply: str, kind: str, form: str | None) -> None:
    quick = shortcut(kind, reply, (), form)
    if quick is not None:
        whole = read_whole(kind, take_apart(reply), (), "", None)
        assert (quick.value, type(quick.value), quick.reason) == (whole.value, type(whole.value), whole.reason)


def test_the_common_forms_do_take_the_shortcut() -> None:
    pairs = lettered(["a robin", "a wren"])
    for reply in ("B", "B.", "(B)", "B. a wren", "B) A wren", "(B) a wren.", "Answer: B", "ANSWER: (B)."):
        assert shortcut("choice", reply, pairs, None) is not None, reply
    assert shortcut("choice", "B. a robin", pairs, None) is None
    assert shortcut("truth", "Yes", (), "yes/no") is not None
    assert shortcut("count", "4", (), None) is not None
