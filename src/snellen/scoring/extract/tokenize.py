"""Sentences and words of a reply, and the words that negate, hedge and divide clauses."""

from __future__ import annotations

import re

from snellen.text import terms

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
    r"|(?<!\d)\d++(?:[.,]\d+)*(?=[^\W\d_]|\b)"
    r"|[^\W\d_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+(?:'[^\W\d_]+)?"
    r"|[^\w\s]"
)
_ASCII_WORD = re.compile(
    r"[a-zA-Z]+(?:'[a-zA-Z]+)?|(?<![0-9])[0-9]++(?:[.,][0-9]+)*(?=[a-zA-Z]|\b)|[^\w\s\x1c-\x1f]", re.ASCII
)
# A character class first, which the engine looks for quickly; a run of stops is tried once, where it begins.
_END = re.compile(
    r"[\n.!?;=\-→⇒。！？；](?:(?<=\n)\n*+|(?<=[.!?])(?<![.!?][.!?])[.!?]*+[\"')\]]*+(?=\s|$)|(?<=[=\-])>|(?<=[→⇒])"
    r"|(?<=[。！？；;])[\"')\]]*+)"
)
_SHORTENED = "eg ie etc vs approx ca cf no nr fig mr mrs ms dr st sp spp var cv ssp subsp al inc resp"
_ABBREVIATION = re.compile(
    rf"(?:\b(?:e\.g|i\.e|{_SHORTENED.replace(' ', '|')})|\b[A-Za-z]|(?:^|\n)\s*\(?\d{{1,2}})$", re.IGNORECASE
)
_ENDINGS = frozenset(word[-2:] for word in _SHORTENED.split())
LONGEST_SENTENCE = 2_000
"""Maximum characters of a sentence; a longer one is split."""
BACK = 400
"""Characters before a full stop that are searched for an abbreviation."""
MOST = 600
"""Maximum sentences that are read: the first 40 and the last 560 of a longer reply."""


class Sentence:
    """Lower-cased words and signs of a text, with their positions in it."""

    __slots__ = ("_spans", "text", "words")

    def __init__(self, text: str, words: list[str]) -> None:
        self.text = text
        self.words = words
        self._spans: list[tuple[int, int]] | None = None

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each word; computed on first use, since most sentences never need them."""
        if self._spans is None:
            self._spans = [match.span() for match in _pattern(self.text).finditer(self.text)]
        return self._spans

    def raw(self, index: int) -> str:
        """Return word `index` with its original capitals."""
        start, end = self.spans[index]
        return self.text[start:end]


def tokenize(text: str) -> Sentence:
    """Split a text into words (letters of one script, one CJK character, or one number) and single signs."""
    if text.isascii():
        return Sentence(text, _ASCII_WORD.findall(text.lower()))
    return Sentence(text, [word.lower() for word in _WORD.findall(text)])


def _pattern(text: str) -> re.Pattern[str]:
    return _ASCII_WORD if text.isascii() else _WORD


def split(text: str) -> list[str]:
    """Split a text into stripped, non-empty sentences and lines. `3.5`, `e.g.` and `B. kite` stay whole."""
    sentences: list[str] = []
    start = 0
    for match in _END.finditer(text):
        at, end = match.span()
        if text[at : at + 1] == "." and end - at == 1:
            before = text[max(start, at - 12) : at]
            if _may_be_shortened(before) and _ABBREVIATION.search(before) and not _closes(text, start, at, end):
                continue
        if text[at:end] == "..." and text[end : end + 2].strip().islower():
            continue  # `A... or maybe C`, `nine... no, ten`
        piece = text[start:end].strip()
        if piece:
            sentences.append(piece)
        start = end
    piece = text[start:].strip()
    if piece:
        sentences.append(piece)
    if any(len(piece) > LONGEST_SENTENCE for piece in sentences):
        cut = LONGEST_SENTENCE
        sentences = [piece[i : i + cut].strip() or "." for piece in sentences for i in range(0, len(piece), cut)]
    return sentences if len(sentences) <= MOST else sentences[:40] + sentences[40 - MOST :]


def _may_be_shortened(text: str) -> bool:
    """Return False if the text ends with two letters that no abbreviation ends with."""
    ending = text[-2:]
    return not (len(ending) == 2 and ending.isascii() and ending.isalpha()) or ending.lower() in _ENDINGS


def _closes(text: str, start: int, at: int, end: int) -> bool:
    """Return True if the full stop after a single letter or number ends the sentence: `the answer is B. The …`."""
    piece = text[max(start, at - BACK) : at]
    if len(piece.strip(" (\"'")) <= 2:  # `B. red kite`, `1. …`
        return False
    following = text[end : end + 4].lstrip(" ")[:1]
    if piece[-1:].isdigit():
        return True
    if not following or following == "\n":
        return True
    following_words = text[end : end + 40].split()
    return (
        " " in piece.strip()
        and bool(following_words)
        and following_words[0].strip(".,'").split("'")[0].lower() in _OPENERS
    )


_OPENERS = terms(
    "the this it i in because both there from since looking they that these those we as however although while "
    "so if its no not wait actually but my option answer explanation reason reasoning hope note to on based "
    "you"
)


NEGATORS = terms(
    "not none never neither nor cannot without except excluding unlike isn't aren't wasn't weren't don't doesn't "
    "didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't isnt arent doesnt dont cant couldnt "
    "wasnt ain't 不 非 没 無 hardly barely nowhere eliminate eliminates eliminated eliminating exclude excludes "
    "excluded reject rejects rejected dismiss dismissed discard discarded discount discounted unlikely"
)
WEAK = terms(
    "torn between undecided could might may maybe perhaps possibly possible plausible plausibly similar resembles resembling tempting "
    "considered consider considering initially alternatively either if whether also though although compare "
    "compared confused mistaken unless suppose assuming versus vs alternative alternatives seemed candidates "
    "candidate unlike 可能 或"
)
BREAKS = terms(
    ", . ? ! ; : ( ) [ ] but so because since while whereas although though however therefore thus hence as which "
    "yet instead rather -> => 而 但 因 , 。 由"
)
"""Words and signs that end the scope of a negation."""
