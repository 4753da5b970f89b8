"""What a batch is asked for, and where its replies end: the same for every runtime, without torch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen.types import Generation

DEFAULT_MAX_NEW_TOKENS = 1024  # where neither the user, the benchmark nor the checkpoint says how long an answer may be
BELOW_ONE = 1.0 - 2.0**-24
"""The greatest float32 below 1."""


class BatchSettings(Struct, frozen=True):
    """Settings that the rows of one batch share.

    `extra` and `template` are JSON of further arguments of `generate`, and of arguments of the chat template; `schema` is
    that of the reply.
    `repetition_penalty` None: that of the checkpoint.
    """

    max_new_tokens: int
    temperature: float
    top_p: float
    stop: tuple[str, ...]
    first_json: bool
    extra: str
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    template: str = "{}"
    schema: str | None = None


class Reply(Struct, frozen=True):
    """The reply of one row to `prompt`, as the chat template wrote it. Input tokens include those of the images."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str
    prompt: str


def settings_for(generation: Generation, first_json: bool, own_limit: int | None) -> BatchSettings:
    """Return BatchSettings of one prompt, from what the run and the prompt ask for together and the checkpoint's length limit.

    Greedy unless a temperature above 0, or top_p, top_k or min_p, is asked for: the same question gets the same answer.
    """
    temperature = generation.temperature
    if temperature is None:
        unset = (generation.top_p, generation.top_k, generation.min_p) == (None, None, None)
        temperature = 0.0 if unset else 1.0
    return BatchSettings(
        max_new_tokens=generation.max_tokens or own_limit or DEFAULT_MAX_NEW_TOKENS,
        temperature=temperature,
        top_p=1.0 if generation.top_p is None else generation.top_p,
        stop=generation.stop,
        first_json=first_json or generation.reply_schema is not None,
        extra=json.dumps(dict(generation.extra), sort_keys=True),
        top_k=generation.top_k,
        min_p=generation.min_p,
        repetition_penalty=generation.repetition_penalty,
        presence_penalty=generation.presence_penalty or 0.0,
        frequency_penalty=generation.frequency_penalty or 0.0,
        template=json.dumps(dict(generation.chat_template_kwargs), sort_keys=True),
        schema=None if generation.reply_schema is None else json.dumps(generation.reply_schema),
    )


def row_seed(seed: int, content: bytes) -> int:
    """Return seed of one row: it depends on what is asked and never on what else is in the batch."""
    material = f"{seed}/".encode() + content
    return int.from_bytes(hashlib.blake2b(material, digest_size=8).digest(), "big")


def rooms_for(prompt_tokens: Sequence[int], context: int | None, max_new_tokens: int) -> list[int]:
    """Return how many tokens the answer of each row may have: the limit, or what its prompt leaves of the context."""
    if context is None:
        return [max_new_tokens] * len(prompt_tokens)
    return [min(max_new_tokens, context - tokens) for tokens in prompt_tokens]


def reply_of(
    decode: Callable[[list[int]], str],
    ids: list[int],
    settings: BatchSettings,
    ends: frozenset[int],
    stopped_at: int | None,
    prompt_tokens: int,
    prompt: str,
) -> Reply:
    """Return the reply that a row's tokens make.

    Args:
        decode: tokens to text, without special tokens.
        ids: the tokens that were made, which may go on after the end.
        ends: tokens that end a reply.
        stopped_at: tokens after which a stop string or the length limit was met; None: neither was.
    """
    ended = next((index + 1 for index, token in enumerate(ids) if token in ends), None)
    ids = ids[: min(len(ids), *(end for end in (ended, stopped_at) if end is not None), len(ids))]
    text = decode(ids)
    ends_early = settings.stop or settings.first_json
    cut = answer_end(text, settings.stop, settings.first_json) if ends_early else None
    finished = ended is not None or cut is not None
    return Reply(text if cut is None else text[:cut], prompt_tokens, len(ids), "stop" if finished else "length", prompt)


THINKING, THOUGHT = "<think>", "</think>"
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
_TOKEN = re.compile(
    rf'[ \t\n\r]*(?:(?P<string>{_STRING}")|(?P<sign>[{{}}\[\]:,])'
    r"|(?P<other>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity))"
)
_CUT_STRING = re.compile(rf"[ \t\n\r]*{_STRING}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z")


def answer_end(text: str, stop: Sequence[str], first_json: bool) -> int | None:
    """Return the number of characters of `text` that are the answer; None while it has not ended.

    A stop string ends the answer before itself, as in the OpenAI protocol; a JSON object ends it after its last brace.
    The earliest end counts.
    """
    ends = [at for at in (text.find(word) for word in stop) if at >= 0]
    if first_json and (json_end := first_json_end(text)) is not None:
        ends.append(json_end)
    return min(ends, default=None)


def first_json_end(text: str) -> int | None:
    """Index after the first whole JSON object at the top level of `text`; None if there is none yet.

    Braces inside strings do not count. Braces that hold no JSON (`{x}`, `\\boxed{5}`) are passed over up to the place
    where they are none, and so is what stands between `<think>` and `</think>` before the object. Takes time
    proportional to the length of the text.
    """
    start = 0
    while (opened := text.find("{", start)) >= 0:
        thinking = text.find(THINKING, start, opened)
        if thinking >= 0:
            start = text.find(THOUGHT, thinking)
            if start < 0:
                return None
            continue
        is_whole, start = _read_object(text, opened)
        if is_whole:
            return start
    return None


def _read_object(text: str, opened: int) -> tuple[bool, int]:
    """Read JSON from the brace at `opened`; return True and the index after its end, or False and where it is no JSON.

    An object that the end of the text cuts is no JSON from there on.
    """
    at, wanted = opened + 1, "key }"
    closers = ["}"]
    while token := _TOKEN.match(text, at):
        sign = token["sign"]
        if sign == closers[-1] and wanted in ("key }", "value ]", ","):
            closers.pop()
            wanted = ","
        elif wanted.startswith("key") and token["string"]:
            wanted = ":"
        elif wanted == ":" == sign:
            wanted = "value"
        elif wanted == "," == sign:
            wanted = "key" if closers[-1] == "}" else "value"
        elif wanted.startswith("value") and sign in ("{", "["):
            closers.append("}" if sign == "{" else "]")
            wanted = "key }" if sign == "{" else "value ]"
        elif wanted.startswith("value") and sign is None:
            wanted = ","
        else:
            return False, at
        at = token.end()
        if not closers:
            return True, at
    return False, len(text) if _CUT_STRING.match(text, at) else at
