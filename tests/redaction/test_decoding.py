"""The quick way through texts with few escapes yields what the careful way yields."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from snellen.redaction import decoding

ESCAPES = [
    "\\n",
    "\\r",
    "\\t",
    "\\\\",
    "\\",
    '\\"',
    "\\u0041",
    "\\x41",
    "\\101",
    "\\0",
    "&amp;",
    "&#65;",
    "&",
    "%41",
    "%",
    "0x41",
]
MARKUP = ["<b>", "</b>", "<", "<!--", "-->", "\x1b[1m", "\x9b1m", "[", "]", "](", "](u)", "][", "][a]", "[1]", "[b]"]
OTHERS = ["{", "}", "quad", "\\frac{", "\\nabc{", "\n", "k", "n", "r", "t", "x", "0", " ", "-", "_", "é", '"', "'"]


@given(st.lists(st.sampled_from(ESCAPES + MARKUP + OTHERS), max_size=90).map("".join))
def test_few_escapes_are_decoded_like_many(text):
    quick = dict.fromkeys(decoding.texts(text))
    few, decoding._FEW = decoding._FEW, 0
    try:
        assert list(quick) == list(dict.fromkeys(decoding.texts(text)))
    finally:
        decoding._FEW = few
