"""Gold answers of restricted sets are struck in every dress, and texts without one come through as they are."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from urllib.parse import quote, unquote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from snellen.redaction.gold import WITHHELD, quotes, strike
from stopwatch import cpu_times

WORDS = st.text("abcdefghijklmnopqrstuvwxyzäéøñçß", min_size=3, max_size=9)
GOLD = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
CJK = st.text("金雕狐狸鷲日本語ネコ한국말", min_size=2, max_size=5)
MARKS = st.sampled_from(
    ["-", "_", ".", "*", "**", "~", "/", "\u200b", "\u00ad", "\u2060", "\x07", "<b>", "</i>", "'", "`"]
)
GAPS = st.sampled_from(
    [" ", "  ", "\n", "\t", "-", "_", " - ", "\u00a0", "\u3000", "", ".", "/", "**", "\u200b", "<br>"]
)


def wide(text: str) -> str:
    return "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text)


def json_escapes(text: str) -> str:
    return "".join(f"\\u{unit:04x}" for one in text for unit in memoryview(one.encode("utf-16-le")).cast("H"))


ADDRESS = "https://en.wikipedia.org/wiki/"
"""Holds short answers itself: `aor` is in `wikipedia.org`."""
ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "upper case": str.upper,
    "title": str.title,
    "swapped case": str.swapcase,
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "NFKD": lambda text: unicodedata.normalize("NFKD", text),
    "full width": wide,
    "URL": lambda text: quote(text, safe=""),
    "URL with plus": lambda text: quote(text, safe="").replace("%20", "+"),
    "URL, all of it": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "URL twice": lambda text: quote(quote(text, safe=""), safe=""),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, all of it": json_escapes,
    "JSON twice": lambda text: json.dumps(json.dumps(text)),
    "HTML": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#x{ord(one):x};" for one in text),
    "HTML, names": lambda text: html.escape(text).encode("ascii", "xmlcharrefreplace").decode(),
    "without accents": lambda text: "".join(
        one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one)
    ),
    "camel case": lambda text: "".join(word[:1].upper() + word[1:] for word in text.split()),
    "hyphens": lambda text: text.replace(" ", "-"),
    "underscores": lambda text: text.replace(" ", "_"),
    "joined": lambda text: text.replace(" ", ""),
    "bold": lambda text: " ".join(f"**{word}**" for word in text.split()),
    "wiki": lambda text: f"{ADDRESS}{quote(text.replace(' ', '_'))}?x=1",
}


def recoverable(text: str) -> str:
    """What a reader can get out of a text: escapes undone, letters and digits alone, without case and accents."""
    for _ in range(3):
        text = re.sub(
            r"\\+u([0-9a-fA-F]{4})", lambda hit: chr(int(hit[1], 16)), html.unescape(unquote(text.replace("+", " ")))
        )
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = re.sub(r"<[^<>]*>", "", text.replace(WITHHELD, ""))
    # Capitals first: there is one of sharp s, and none of it in small letters alone.
    plain = unicodedata.normalize("NFKD", text.upper().casefold())
    return "".join(one for one in plain.replace("ø", "o") if one.isalnum())


@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(max_examples=40)
@given(
    gold=GOLD,
    before=st.sampled_from(["", "It is a ", "(", '"', "x, "]),
    after=st.sampled_from(["", ".", " or so", ")"]),
)
def test_gold_is_not_recoverable_from_what_is_written(encoding: str, gold: str, before: str, after: str) -> None:
    written = strike(f"{before}{ENCODINGS[encoding](gold)}{after}", (gold,))
    assert WITHHELD in written
    inner = written.removeprefix(before).removesuffix(after).replace(ADDRESS, "")
    assert recoverable(gold) not in recoverable(inner)


@given(gold=CJK, encoding=st.sampled_from(["as it is", "NFD", "NFKD", "URL", "JSON", "JSON twice", "HTML", "wiki"]))
def test_gold_of_scripts_without_spaces_is_struck_amid_other_characters(gold: str, encoding: str) -> None:
    assume(not {"이", "었"} & set(gold))
    written = strike(ENCODINGS[encoding](f"這是{gold}、です"), (gold,))
    assert WITHHELD in written
    assert recoverable(gold) not in recoverable(written)


@given(gold=GOLD, gaps=st.lists(GAPS, min_size=3, max_size=3), case=st.sampled_from([str.lower, str.upper, str.title]))
def test_gold_is_struck_whatever_stands_between_its_words(gold, gaps, case):
    words = [case(word) for word in gold.split()]
    dressed = "".join(f"{word}{gap}" for word, gap in zip(words, gaps, strict=False))
    assert recoverable(gold) not in recoverable(strike(f"the {dressed}", (gold,)))


@given(gold=GOLD, mark=MARKS, every=st.integers(1, 4))
def test_gold_is_struck_whatever_mark_stands_inside_its_words(gold: str, mark: str, every: int) -> None:
    dressed = " ".join(mark.join(word[at : at + every] for at in range(0, len(word), every)) for word in gold.split())
    assert recoverable(gold) not in recoverable(strike(f"the {dressed}.", (gold,)))


@given(st.lists(GOLD, min_size=1, max_size=4), st.text(max_size=200))
def test_a_text_without_gold_is_the_same_object(forms: list[str], text: str) -> None:
    assume(not any(recoverable(form) in recoverable(text) for form in forms))
    assert strike(text, forms) is text


@given(st.lists(GOLD, min_size=1, max_size=4), st.text(max_size=100), st.sampled_from(sorted(ENCODINGS)))
def test_what_was_struck_once_stays_as_it_is(forms: list[str], text: str, encoding: str) -> None:
    once = strike(f"{text} {ENCODINGS[encoding](forms[0])} {text}", forms)
    assert strike(once, forms) == once


@given(GOLD, st.sampled_from(["URL", "HTML", "NFD", "JSON", "as it is", "hyphens"]))
def test_a_json_document_that_held_gold_is_a_json_document(gold: str, encoding: str) -> None:
    dressed = ENCODINGS[encoding](gold)
    document = {"a": [f"\n{dressed}\n", gold], "b": {"\t": f"x\\{gold}"}, "c": gold.split()}
    for text in (json.dumps(document), json.dumps(document, ensure_ascii=False)):
        read = json.loads(strike(text, (gold,)))
        assert WITHHELD in read["a"][0] and WITHHELD in read["a"][1] and WITHHELD in read["b"]["\t"]


@pytest.mark.parametrize(
    "text",
    [
        "golden-eagle",
        "wiki/Golden_eagle",
        "**Golden** eagle",
        "Gol<b>den</b> eagle",
        "[b]Gol[/b]den [color=#f00]eagle[/color]",
        "the golden eagles' nest",
        "#goldeneaglephoto",
        "g o l d e n  e a g l e",
        "\\u91d1\\u96d5",
        "這是金雕",
        "Aquila chrysaëtos",
        "aquila_chrysaetos.jpg",
        "AQUILA\u2003CHRYSAETOS",
        "golden&nbsp;eagle",
        "gol-\nden eagle",
        "[golden](https://example.org/g) eagle",
        "\x1b[1mgolden\x1b[0m eagle",
        "golden\x9b1m eagle",
        '[golden](https://example.org/a_(b) "the colour") [eagle][bird]',
        "golden[1] eagle[^2]",
        "\\textbf{Golden} \\textit{eagle}",
        "\\text{golden}\\quad\\text{eagle}",
        'gol<i title="a > b">den</i> eagle',
        "gol<!-- a > b -->den eagle",
        "gol<style>p{}</style>den eagle",
        "golden&nbspeagle",
        "gol&shyden eagle",
        "&#00000000000103;olden eagle",
        "%u91d1%u96d5",
        r"\xe9\x87\x91\xe9\x9b\x95",
        r"\351\207\221\351\233\225",
        "0xe9, 0x87, 0x91, 0xe9, 0x9b, 0x95",
        "\u202eelgae nedlog\u202c",
        "elgae nedlog",
        "golden\u3164 eagle",
        "g\u043elden e\u0430gle",
        "🅶🅾🅻🅳🅴🅽 eagle",
        "ɢᴏʟᴅᴇɴ eagle",
        "golden[^a-note] eagle",
        "golden\\hspace{1em}eagle",
        "\\text{golden}\\vspace*{2pt}\\text{eagle}",
        "golden {\\color{red} eagle}",
        "golden \\textcolor{red}{eagle}",
        "golden \\href{https://example.org/b}{eagle}",
        json.dumps("golden \\hspace{1em} eagle"),
        "ɡolden eɑɡle",
        "goldeη eagӏe",
        "gօlden eagle",
        "gɵldɇn eagle",
        "the golden ea…",
        "a reply: Golden eag [… 2,000 characters left out …]",
        "[… 2,000 characters left out …]\nden eagle.",
    ],
)
def test_an_answer_and_its_aliases_are_struck(text: str) -> None:
    assert WITHHELD in strike(text, ("golden eagle", "Aquila chrysaetos", "金雕"))


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("Hawaiʻi", "on Hawaii"),
        ("Hawaiʻi", "on Hawai'i"),
        ("Hawaii", "on Hawaiʻi"),
        ("O'Brien", "Mrs OʼBrien"),
        ("الشاهين", "هو الشـــاهين"),
        ("الشاهین", "هو الشاهين"),
        ("Dvořák", r"by Dvo\v{r}\'{a}k"),
        ("Ångström", r"\r{A}ngstr\"{o}m"),
        ("Erdős", json.dumps(r"Erd\H{o}s")),
        ("Dvořák", r"{\it by} Dvo\v r\'ak"),
    ],
)
def test_an_answer_with_apostrophes_accents_and_lines_is_struck_in_each_spelling_of_them(gold: str, text: str) -> None:
    assert WITHHELD in strike(text, (gold,)) and quotes(text, (gold,))


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("cat", "The category of concatenated scatter: vitamin C at night."),
        ("eagle", "A beagle and an eaglet."),
        ("7", "17, 7.5, 70 and 1.7 of a7"),
        ("red panda", "scarred pandas"),
        ("golden eagle", "The golden hour of an eagle; gold eagle."),
        ("yes", "yesterday's eyes"),
        ("각", "가을"),
        ("the end", "the endless end; other ends"),
        ("star", "rats, starting"),
        ("gras", "grass"),
        ("123", "1 2 3"),
        ("golden eagle", "gold… golden…"),
        ("red", r"{\v a} \rednose \href{a}{b}"),
    ],
)
def test_innocent_text_stays_as_it_is(gold: str, text: str) -> None:
    assert strike(text, (gold,)) is text


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("cat", "two cats"),
        ("Fox", "F o x"),
        ("AK-47", "A K 4 7"),
        ("AK-47", "AK-47s"),
        ("AK-47", "ak-٤٧"),
        ("bus", "buses"),
        ("Łódź", "atŁódź"),
        ("orange 3", "img_Orange3b.png"),
        ("star", "\u202erats\u202c"),
    ],
)
def test_a_short_answer_is_struck_in_its_plural_apart_joined_and_turned(gold: str, text: str) -> None:
    assert WITHHELD in strike(text, (gold,))


def test_base64_of_a_text_with_gold_is_struck_in_lines_and_in_urls() -> None:
    text = "The long description of what is to be seen here ends with: golden eagle, and goes on for a while."
    for start in range(3):
        coded = base64.encodebytes(text[start:].encode()).decode()
        assert WITHHELD in strike(f"It is\n{coded}", ("golden eagle",))
        assert WITHHELD in strike(json.dumps(coded), ("golden eagle",))
        assert WITHHELD in strike(quote(base64.b64encode(text[start:].encode() + b"~~~"), safe=""), ("golden eagle",))


def test_base64_of_a_text_with_gold_is_struck() -> None:
    for coded in (base64.b64encode(b"It is the Golden Eagle."), base64.urlsafe_b64encode(b"golden eagle").rstrip(b"=")):
        assert strike(f"data:text/plain;base64,{coded.decode()}!", ("golden eagle",)) == (
            f"data:text/plain;base64,{WITHHELD}!"
        )


def test_a_text_that_holds_gold_in_any_dress_or_inside_words_quotes_it() -> None:
    for text in ("Golden-Eagle", "%67olden eagle", "goldeneaglets", "&#103;olden eagle", "ＧＯＬＤＥＮ eagle"):
        assert quotes(text, ("golden eagle",))
    assert quotes("a category", ("cat",))
    assert not quotes("An eagle, golden.", ("golden eagle",))
    assert not quotes("abc", ("b",))
    assert quotes("It is an R2 unit.", ("R2",)) and not quotes("an R2D2", ("R2",))


def test_an_answer_without_letters_is_struck_as_it_is() -> None:
    assert strike("it is 🦅, +", ("🦅",)) == f"it is {WITHHELD}, +"
    assert strike("nothing", ("", " ")) == "nothing"


def test_time_grows_with_the_text_and_not_with_the_number_of_answers() -> None:
    draw = random.Random(3)
    words = ["".join(draw.choices("etaoinshrdlucmfw", k=draw.randint(2, 9))) for _ in range(3000)]
    text = " ".join(draw.choices(words, k=40_000))
    few, many = ([f"golden {word} {word}" for word in words[:count]] for count in (40, 3000))

    for forms in (few, many):
        strike("", forms)
    assert min(cpu_times(lambda: strike(text, many))) < 4 * max(cpu_times(lambda: strike(text, few)))
    for hostile in ("golden ", "g ", "<", "&", "%25", "\\u00", "é", "金", "[a](", "ab/", "\\color{", "\\v{r}", "[^a"):
        short, long = (partial(strike, hostile * (size // len(hostile)), many) for size in (40_000, 320_000))
        assert min(cpu_times(long)) < 24 * max(*cpu_times(short), 0.005), hostile


def test_gold_in_tag_characters_that_no_font_draws_is_struck():
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "Golden Eagle")
    assert hidden not in strike(f"It is a bird.{hidden} Or not.", ("golden eagle",))
    assert strike(f"It is a {hidden[:6]}.", ("golden eagle",)) == f"It is a {hidden[:6]}."
