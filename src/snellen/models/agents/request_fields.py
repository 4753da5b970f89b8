"""Limits on an agent's requests to the endpoint, which the user pays for: fields, model, lengths, counts.

An agent with a shell can send any request by itself. So a body is read, and written anew with the known fields alone:
others choose models, providers, prices or addresses (`models`, `service_tier`, `api_base` …) at some servers.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

# Of the chat completions API: what OpenClaw and OpenCode send, and what else changes nothing but the text of the reply.
FIELDS = frozenset(
    (
        "model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools", "tool_choice",
        "parallel_tool_calls", "temperature", "top_p", "top_k", "min_p", "stop", "seed", "frequency_penalty",
        "presence_penalty", "response_format", "reasoning_effort", "verbosity", "logit_bias",
    )
)  # fmt: skip
_LENGTHS = ("max_tokens", "max_completion_tokens")


class RequestLimits(Struct, frozen=True):
    """The requests that one sample's agent may send.

    Attributes:
        model: the only model; empty: any.
        max_tokens: new tokens of one reply; a request for more, or for any number, gets this many.
        requests: in the sample.
    """

    model: str
    max_tokens: int
    requests: int


class RequestRefusedError(Exception):
    """A request that is not passed on; `status` is that of the reply."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def rewrite_request(body: bytes | bytearray, allowed: RequestLimits) -> bytes:
    """Return the request with its known fields, each once, and with a length that is allowed. Their values stay as they are.

    Raises:
        RequestRefusedError: it is no JSON object, or asks another model.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        model = msgspec.json.decode(fields.get("model", msgspec.Raw(b"null")))
        lengths = {name: msgspec.json.decode(fields[name]) for name in _LENGTHS if name in fields}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise RequestRefusedError(400, "the request is no JSON object") from None
    if allowed.model and model != allowed.model:
        raise RequestRefusedError(403, f"the model of this run is {allowed.model}, and no other is asked")
    passed = {name: value for name, value in fields.items() if name in FIELDS}
    limit = msgspec.Raw(str(allowed.max_tokens).encode())
    for name, length in lengths.items():
        if type(length) is not int or not 0 < length <= allowed.max_tokens:
            passed[name] = limit
    if not lengths:
        passed["max_tokens"] = limit
    return msgspec.json.encode(passed)
