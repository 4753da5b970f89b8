"""Keys are struck out of whatever leaves the process, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen import redaction


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
