"""Replies with several choices or candidates, though one is requested: the first one is the answer, alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from snellen.models.api.stream import FirstText, assemble


def chat(index: int | None, text: str, finish: str | None = None) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {**place, "delta": {"content": text}, "finish_reason": finish}


def candidate(index: int | None, text: str, finish: str | None = None) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {**place, "content": {"parts": [{"text": text}]}, **({"finishReason": finish} if finish else {})}


def streamed(protocol: str, *events: list[tuple[int | None, str, str | None]]) -> bytes:
    """Return a stream with one event for each list of (index, text, reason of the end)."""
    member, piece = ("choices", chat) if protocol == "chat" else ("candidates", candidate)
    rows = [{member: [piece(*each) for each in event]} for event in events]
    return b"".join(b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows)


def text_of(protocol: str, reply: bytes) -> str:
    decoded = json.loads(reply)
    if protocol == "chat":
        return str(decoded["choices"][0]["message"]["content"])
    return "".join(part["text"] for part in decoded["candidates"][0]["content"]["parts"])


@pytest.mark.parametrize("protocol", ["chat", "gemini"])
@pytest.mark.parametrize("first", [0, 1, None])
def test_pieces_of_other_choices_are_no_part_of_the_answer(protocol, first):
    """Servers send the choices of an event together, or in events of their own; some count from 1 or not at all."""
    other = 7
    apart = streamed(protocol, [(first, "ANS", None)], [(other, "no", None)], [(first, "WER", None)],
                     [(other, "pe", "stop")], [(first, " A", "stop")])  # fmt: skip
    together = streamed(
        protocol,
        [(first, "ANS", None), (other, "no", None)],
        [(other, "pe", "stop"), (first, "WER", None)],
        [(first, " A", "stop")],
    )
    for data in (apart, together):
        assert text_of(protocol, assemble(protocol, data)) == "ANSWER A"


@pytest.mark.parametrize("protocol", ["chat", "gemini"])
def test_the_end_of_another_choice_is_not_the_end_of_the_answer(protocol):
    from snellen.errors import NetworkError

    with pytest.raises(NetworkError, match="before the reply was whole"):
        assemble(protocol, streamed(protocol, [(0, "ANS", None)], [(1, "nope", "stop")]))


@pytest.mark.parametrize("protocol", ["chat", "gemini"])
def test_the_first_text_is_that_of_the_first_choice(protocol):
    first = FirstText(protocol)
    assert not first.add(streamed(protocol, [(0, "", None)]))
    assert not first.add(streamed(protocol, [(1, "nope", None)]))
    assert first.add(streamed(protocol, [(0, "ANS", None)]))
