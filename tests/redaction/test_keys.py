"""Keys are struck out of whatever leaves the process, and nothing else is."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from typing import Literal
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from servers.echoing import FORMS
from snellen import redaction
from snellen.redaction import decoding, keys
from stopwatch import cpu_times


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    redaction.forget()


@pytest.mark.parametrize(
    "key",
    [
        "sk-abcdefghijklmnopqrstuvwx",
        "sk-proj-Ab12_cd34-Ef56gh78ij90",
        "sk-ant-api03-Ab12cd34Ef56gh78",
        "sk-proj-********************wxyz",
        "hf_AbCdEfGhIjKlMnOpQrStUvWx",
        "gsk_AbCdEfGhIjKlMnOpQrStUvWx",
        "xai-AbCdEfGhIjKlMnOpQrStUvWx",
        "nvapi-AbCd-EfGhIj_KlMnOpQrSt",
        "AIzaSyA1234567890abcdefghijklmnopqrstu",
        "ghp_AbCdEfGhIjKlMnOpQrStUvWx1234",
        "AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_keys_of_the_usual_services_are_struck_out_without_being_registered(key: str) -> None:
    assert redaction.redact(f"error for {key}, try again") == f"error for {redaction.REDACTED}, try again"


def test_a_bearer_token_is_struck_out_whatever_its_shape() -> None:
    for word in ("Bearer", "bearer", "BEARER"):
        said = redaction.redact(f'{{"Authorization": "{word} 7e4b1c0d-f00d"}}')
        assert said == f'{{"Authorization": "{word} {redaction.REDACTED}"}}'


@pytest.mark.parametrize(
    "text",
    [
        "The bearer responsibilities lie with the state.",
        "a risk-adjusted-return-of-the-fund",
        "The answer is (B), the ask-me-anything-session-hall.",
        "hf_ and sk- are prefixes",
        "答案是B",
        "",
    ],
)
def test_ordinary_prose_comes_through_as_the_same_object(text: str) -> None:
    assert redaction.redact(text) is text


def test_a_registered_secret_is_struck_out_in_prose_and_inside_json() -> None:
    secret = 'pa"ss\\word/é1'
    redaction.register(secret)
    assert secret not in redaction.redact(f"it is {secret}!")
    line = redaction.redact(json.dumps({"text": f"it is {secret}!"}))
    assert json.loads(line) == {"text": f"it is {redaction.REDACTED}!"}


def test_a_secret_that_contains_another_one_goes_as_a_whole() -> None:
    redaction.register("12345678")
    redaction.register("key-12345678-tail")
    assert redaction.redact("key-12345678-tail") == redaction.REDACTED


@pytest.mark.parametrize("placeholder", ["", "x", "EMPTY", "none", "token"])
def test_a_placeholder_key_does_not_strike_words_out_of_answers(placeholder: str) -> None:
    redaction.register(placeholder)
    assert redaction.redact("The box is EMPTY, none is x, a token.") == "The box is EMPTY, none is x, a token."


def test_a_text_that_was_clear_is_struck_once_a_key_in_it_is_registered() -> None:
    text = "The answer is Zx81Qr77Lm."
    assert redaction.redact(text) is text
    redaction.register("Zx81Qr77Lm")
    assert redaction.redact(text) == "The answer is [redacted]."
    redaction.forget()
    assert redaction.redact(text) is text


def test_few_short_texts_are_remembered_as_clear() -> None:
    redaction.register(LONG)
    for number in range(2_000):
        redaction.redact(f"answer {number}")
    assert len(keys._known.clear) <= 256
    assert not any(len(text) > 64 for text in keys._known.clear)


@given(st.binary())
def test_bytes_without_a_key_come_through_as_the_same_object(data: bytes) -> None:
    if redaction.redact(data.decode("latin-1")) == data.decode("latin-1"):
        assert redaction.redact_bytes(data) is data


@given(st.text(), st.text())
def test_a_key_is_found_between_any_two_texts(before: str, after: str) -> None:
    key = "hf_AbCdEfGhIjKlMnOpQrStUvWx"
    assert key not in redaction.redact(f"{before} {key} {after}")
    data = f"{before} {key} {after}".encode("utf-8", "surrogatepass")
    assert key.encode() not in redaction.redact_bytes(data)


LONG = "zq-7f3a9c51e2-Kd8PqLmW4xTy"
_PIECES = st.sampled_from(
    [
        "a wren",
        '"reason": ',
        "\\n",
        "\\",
        "\\u007a",
        "&#113;",
        "%2D",
        "[",
        "](",
        "<b>",
        "<!--",
        "-->",
        "][",
        "<script>",
        "</script>",
        "\\label{",
        "}",
        "sk-",
        "hf_",
        "Bearer ",
        "\x1b[0m",
        "0x7a",
        " ",
    ]
)


@given(st.data())
def test_lines_together_are_redacted_as_each_alone(data: st.DataObject) -> None:
    redaction.register(LONG)
    part = st.integers(0, len(LONG)).map(lambda at: LONG[:at]) | st.integers(0, len(LONG)).map(lambda at: LONG[at:])
    key = st.sampled_from([LONG, LONG[::-1], LONG.encode().hex(), "hf_AbCdEfGhIjKlMnOpQrStUvWx"])
    line = st.lists(_PIECES | part | key | st.text(max_size=5), max_size=8).map("".join)
    lines = [
        each.replace("\n", " ").encode("utf-8", "surrogatepass") for each in data.draw(st.lists(line, max_size=80))
    ]
    assert redaction.redact_lines(lines) == [redaction.redact_bytes(each) for each in lines]


KEYS = st.text("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789-_", min_size=20, max_size=60).filter(
    lambda key: sum(one.isdigit() for one in key) > 3 and sum(one.isalnum() for one in key) > 18 and len(set(key)) > 9
)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "masked"])
@settings(max_examples=30)
@given(key=KEYS, before=st.text(max_size=20), after=st.text(max_size=20))
def test_a_registered_key_is_struck_in_every_form(form: str, key: str, before: str, after: str) -> None:
    # A part without a digit is struck from 12 letters on: a half of 20 characters may have fewer.
    half = key[: len(key) // 2]
    assume(form != "its first half" or any(map(str.isdigit, half)) or sum(map(str.isalpha, half)) >= 12)
    redaction.forget()
    redaction.register(key)
    text = f"{before} {FORMS[form](key)} {after}"
    assert redaction.REDACTED in redaction.redact(text)
    line = json.dumps({"text": text, "more": [text]})
    struck = json.loads(redaction.redact(line))
    assert redaction.REDACTED in struck["text"] and redaction.REDACTED in struck["more"][0]
    assert plain(key) not in plain("".join(struck["more"]))


def plain(text: str) -> str:
    return "".join(one for one in text.lower() if one.isascii() and one.isalnum())


@given(KEYS, st.text(max_size=300))
def test_a_text_without_the_key_is_the_same_object(key: str, text: str) -> None:
    redaction.forget()
    redaction.register(key)
    assume(len(plain(text)) < 8)
    assert redaction.redact(text) is text


@pytest.mark.parametrize("words", ["not-needed", "lm-studio", "no_key_yet"])
def test_a_key_of_words_is_struck_as_it_is_and_not_as_words(words: str) -> None:
    redaction.register(words)
    prose = f"A key is {words.replace('-', ' ').replace('_', ' ')}."
    assert redaction.redact(prose) is prose
    assert redaction.redact(f"It is {words}.") == "It is [redacted]."
    assert words.encode().hex() not in redaction.redact(words.encode().hex())


WRITTEN: dict[str, Callable[[str], str]] = {
    **{
        form: FORMS[form]
        for form in ("as it is", "HTML", "HTML, hexadecimal", "JSON", "JSON twice", "URL", "URL twice")
    },
    "quoted": quote,
    "quoted twice": lambda key: quote(quote(key, safe=""), safe=""),
    "as in a form": quote_plus,
    "decoded": unquote,
    "escaped": escape,
    "in JSON": lambda key: json.dumps(json.dumps(key)),
    "hexadecimal": lambda key: key.encode().hex(),
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize(
    "key",
    ["ab%2Bcd9%2Fe7Zq%3Dx1%25kL0", "Qx+7f/3a=9c+51e2/Kd8P+qLmW", "k7&amp;q9&#x2F;w3Lx8", "p4\\u0041\\n7z\\x42q9Rt"],
)
def test_a_key_that_holds_escapes_itself_is_struck_decoded_and_encoded(key: str, form: str) -> None:
    """An address shows `a%2Fb` as `a%252Fb` or `a/b`: neither is a reading of the other with the key's own letters."""
    redaction.register(key)
    for text in (f"https://127.0.0.1/v1?key={WRITTEN[form](key)}&more=1", f"Incorrect API key: {WRITTEN[form](key)}."):
        struck = redaction.redact(text)
        for reading in decoding.texts(struck):
            assert plain(key)[4:12] not in plain(reading) and plain(unquote(key))[:8] not in plain(reading), struck


@pytest.mark.parametrize(
    "key", ["9f86d081884c7d659a2feaa0c55ad015", "4815162342108316", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"]
)
@pytest.mark.parametrize("between", [" ", ":", ", ", "\n", " 0x"])
def test_bytes_of_a_key_of_digits_are_no_list_of_numbers(key: str, between: str) -> None:
    written = key.encode().hex("#").replace("#", between)
    assert redaction.redact(f"[{written}]") == f"[{written}]"
    redaction.register(key)
    assert written[: len(written) // 2] not in redaction.redact(f"[{written}]")


@pytest.mark.parametrize("mark", ["\u0301", "\u0327", "\u0315\u0300"])
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_a_key_with_an_accent_on_each_letter_is_struck(mark: str, form: Literal["NFC", "NFD", "NFKC"]) -> None:
    """Composed, a letter and its accent are one character, which is no letter of a key."""
    redaction.register(LONG)
    redaction.register("schlüssel-9f3Kd8-Ünï7qWe")
    for key in (LONG, "schlüssel-9f3Kd8-Ünï7qWe"):
        text = unicodedata.normalize(form, "".join(letter + mark for letter in key))
        assert redaction.redact(f"bad key {text}").count("[redacted]") >= 1
        assert redaction.redact(f"bad key {unicodedata.normalize(form, key)}.") == "bad key [redacted]."


def test_a_key_that_is_split_over_json_texts_leaves_json() -> None:
    redaction.register(LONG)
    for parts in ([LONG[:10], LONG[10:]], [[LONG[:9]], LONG[9:]], list(LONG), [{"a": LONG[:12]}, [[LONG[12:]]]]):
        struck = redaction.redact(json.dumps(parts))
        json.loads(struck)
        assert LONG[12:22] not in struck


def test_a_long_hostile_reply_is_searched_in_time_proportional_to_its_length() -> None:
    redaction.register(LONG)

    pieces = [
        "<",
        "<!--",
        "\\",
        "\\{",
        "\\a",
        "&",
        "&amp;",
        "%25",
        "%",
        "0x",
        "\\u00",
        "\x1b[",
        "](",
        "\n".join(LONG),
        LONG,
        LONG[:9],
        "é",
        "\u0315\u0300",
    ]
    for piece in pieces:
        short, long = (partial(redaction.redact, piece * (size // len(piece))) for size in (30_000, 240_000))
        assert min(cpu_times(long)) < 24 * max(*cpu_times(short), 0.005), piece


@pytest.mark.parametrize("piece", ["%25", "%2525", "\\\\", "\\u0041", "\\x41", "0x41,", "&amp;", "&#37;", "<", "[1]"])
def test_no_pattern_matches_more_than_some_ten_thousand_characters_at_once(piece: str) -> None:
    text = piece * (400_000 // len(piece)) + "{"
    for _, pattern in (*decoding._ESCAPES, *decoding._MARKUP, ("", decoding._UNICODE), ("", decoding._COMMAND)):
        assert all(len(match[0]) <= 33_000 for match in pattern.finditer(text))


def test_escapes_of_other_scripts_are_searched_as_quickly_as_text() -> None:
    redaction.register(LONG)
    text = json.dumps("这是一只金色的鸟在岩石上" * 400)
    assert redaction.redact(text) is text
    escaped = "".join(f"\\u{ord(one):04x}" for one in LONG)
    assert redaction.redact(f"{text}{escaped}") == f"{text}[redacted]"
    assert redaction.redact("\\ud83d" + escaped) == "\\ud83d[redacted]"


def test_a_list_of_numbers_with_the_digits_of_a_key_in_their_order_stays_and_so_does_the_json_around_it() -> None:
    redaction.register("token-0123456789-10111213")
    labels = {"classes": list(range(40)), "values": [0.123456789, 10.111213]}
    for indent in (None, 2):
        text = json.dumps(labels, indent=indent)
        assert redaction.redact(text) == text
    assert redaction.redact("it is 0123456789-10111213, no?") == "it is [redacted], no?"


def test_markup_from_one_line_to_another_hides_no_key_between_them() -> None:
    redaction.register(LONG)
    hidden = LONG[:2] + "<b>" + LONG[2:4] + "</b>" + LONG[4:]
    lines = [b"<!--", hidden.encode(), b"-->"]
    assert redaction.redact_lines(lines)[1] == redaction.redact_bytes(lines[1]) != lines[1]
