"""Probabilities of an answer's tokens: untrusted values of a server to the bounded form that records hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from snellen.scoring.replies.reply import outside_thinking
from snellen.types import TokenLogprob

MOST_TOKENS = 32
"""Tokens of an answer that a record holds, from its first."""
MOST_ALTERNATIVES = 20
"""Alternatives that a record holds for each token, the likeliest."""
MOST_CHARACTERS = 64
"""Characters of a token's text that a record holds."""
_SPACES = str.maketrans({"▁": " ", "Ġ": " ", "Ċ": "\n"})
"""How vocabularies write spaces and line ends, which some servers pass on."""


class ServedToken(NamedTuple):
    """One token as a server described it, in its own types.

    Attributes:
        text: the token's text.
        logprob: natural logarithm of its probability.
        alternatives: (text, logprob) of the likeliest tokens at its place.
        data: its bytes, where the server gives them: a token may be a part of a character.
    """

    text: Any
    logprob: Any = None
    alternatives: Iterable[tuple[Any, Any]] = ()
    data: bytes | None = None


def answer_tokens(tokens: Sequence[ServedToken], reply: str) -> tuple[TokenLogprob, ...] | None:
    """Return the tokens with which the answer of a reply begins, in the form and within the bounds of a record.

    The answer begins behind the thinking, whether that is marked in the reply or was taken out of it. A value that is
    no finite number, or above 0, is missing: the token's own becomes None, an alternative is omitted.

    Returns:
        None if there are no tokens, none of them has a value, or they are not those of this reply.
    """
    usable = [token for token in tokens if isinstance(token.text, str)]
    start = _answer_start(usable, reply)
    if start is None:
        return None
    recorded = tuple(_recorded_token(token) for token in usable[start : start + MOST_TOKENS])
    return recorded if any(token.logprob is not None or token.alternatives for token in recorded) else None


def finite_logprob(value: Any) -> float | None:
    """Return a server's value as the logarithm of a probability; None if it cannot be one. Rounding above 0 is 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 < value <= 1e-3:
        return None  # NaN compares as False
    return min(0.0, round(float(value), 6)) + 0.0


def _recorded_token(token: ServedToken) -> TokenLogprob:
    alternatives = []
    for text, value in token.alternatives:
        logprob = finite_logprob(value)
        if isinstance(text, str) and logprob is not None:
            alternatives.append((_recorded_text(text), logprob))
    alternatives.sort(key=lambda alternative: -alternative[1])
    return TokenLogprob(
        _recorded_text(token.text), finite_logprob(token.logprob), tuple(alternatives[:MOST_ALTERNATIVES])
    )


def _recorded_text(text: str) -> str:
    # A record holds UTF-8; a token may be half of a surrogate pair.
    return text[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def _answer_start(tokens: Sequence[ServedToken], reply: str) -> int | None:
    """Return the number of the token with which the answer begins; None if the tokens do not contain the reply."""
    if not tokens or not reply.strip():
        return None
    spans = [span for span in outside_thinking(reply) if reply[slice(*span)].strip()]
    answer_from = spans[-1][0] if spans else 0
    answer_from += len(reply[answer_from:]) - len(reply[answer_from:].lstrip())
    pieces = [token.data if token.data is not None else token.text.encode("utf-8", "replace") for token in tokens]
    answer = reply[answer_from:].rstrip()
    for written in (pieces, [token.text.translate(_SPACES).encode("utf-8", "replace") for token in tokens]):
        at = b"".join(written).rfind(answer.encode("utf-8", "replace"))
        if at >= 0:
            return _token_at(written, at)
    # A character of several tokens may be written in other ways. Without thinking, the first token is the answer's.
    first = next((number for number, token in enumerate(tokens) if token.text.translate(_SPACES).strip()), None)
    if first is not None and answer_from == 0 and answer.startswith(tokens[first].text.translate(_SPACES).strip()):
        return first
    return None


def _token_at(pieces: Sequence[bytes], place: int) -> int:
    """Return the number of the token that holds the byte at a place of all pieces together."""
    end = 0
    for number, piece in enumerate(pieces):
        end += len(piece)
        if end > place:
            return number
    return len(pieces) - 1
