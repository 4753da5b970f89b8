"""Checks of the server before the first sample: alive, key accepted, model known."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

import msgspec
from aiohttp import ClientConnectorDNSError, ClientConnectorError, ClientSSLError

from snellen.errors import BadReplyError, ModelError, NetworkError, PreflightError
from snellen.models.api.endpoint import Endpoint
from snellen.models.api.errors import excerpt, from_status, server_message
from snellen.models.api.protocol import ServiceProtocol
from snellen.models.api.transport import HttpReply, Transport

TIMEOUT_S = 20.0
KEY_HOSTS = ("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com", "openrouter.ai")
"""Hosts that answer nobody without a key."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0


class ServerDownError(PreflightError):
    """A server that refuses connections, or says by a status of 5xx that it is not ready yet."""


async def wait_and_check(transport: Transport, protocol: ServiceProtocol, has_key: bool, wait_s: float) -> None:
    """Check the server as `check`; wait up to `wait_s` seconds for one that is down, and print that this is done.

    Raises:
        PreflightError: as `check`; a server that is down only after the wait.
    """
    end, pause_s = time.monotonic() + wait_s, FIRST_PAUSE_S
    while True:
        try:
            return await check(transport, protocol, has_key)
        except ServerDownError as error:
            left_s = end - time.monotonic()
            if left_s <= 0.0:
                waited = f" It was waited for {wait_s:g} s." if wait_s > 0.0 else ""
                hint = f"{error.hint} To wait longer: --patience SECONDS."
                raise ServerDownError(f"{error.message}{waited}", hint) from None
            if pause_s == FIRST_PAUSE_S:
                print(f"snellen: waiting up to {wait_s:g} s for the server: {error.message}", file=sys.stderr)
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)


async def check(transport: Transport, protocol: ServiceProtocol, has_key: bool) -> None:
    """Send two requests that cost nothing: the list of models, and a chat completion without a question.

    The second one shows whether the key is good where the list is public, and whether the address is right where
    there is no list. A server must refuse it (HTTP 400 or 422), which is the good outcome. One that answers both with
    success, and with neither models nor a completion, answers so at every path: it is something else, or the path is wrong.

    Raises:
        PreflightError: nothing answers, the key is missing or not accepted, there is no such endpoint, or the server
            lists its models and this one is not among them.
    """
    if protocol.row.cloud:
        await _check_cloud(transport, protocol)
        return
    endpoint, model, key_name = protocol.endpoint, protocol.model, " or ".join(protocol.key_names)
    if not has_key and endpoint.host in KEY_HOSTS:
        raise PreflightError(
            f"{endpoint} requires a key and {key_name} is not set, in the environment or in .env. No request was sent.",
            f"Type: export {protocol.key_names[0]}=... (or name another variable with --key-env). For another server: --base-url http://HOST:PORT/v1",
        )
    listing = await _ask(transport, endpoint, _listing_path(protocol), None)
    if listing.status == 400 and not _is_json(listing.body) and _WANTS_TLS.search(listing.body):
        raise PreflightError(f"{endpoint} speaks TLS alone (HTTP 400).", _by_tls(endpoint))
    _refuse_key(listing, endpoint, key_name, has_key)
    if listing.status >= 500 and listing.status not in (501, 529):
        message, _ = server_message(listing.body)
        raise ServerDownError(
            f"{endpoint} answers, but with HTTP {listing.status}: {message}",
            "The server may still be loading the model; try again when it is up.",
        )
    if 300 <= listing.status < 400:
        error = from_status(listing.status, listing.headers, b"")
        raise PreflightError(error.message, error.hint)
    if protocol.kind != "api":
        _check_provider(listing, protocol)
        return
    probe = await _ask(transport, endpoint, "/chat/completions", b"{}")
    _refuse_key(probe, endpoint, key_name, has_key)
    unlike = 200 <= probe.status < 300 and not (_reads(probe.body, "choices") or _reads(listing.body, "data"))
    if unlike and (200 <= listing.status < 300 or not _is_json(probe.body)):
        await _refuse_stranger(transport, endpoint, probe)
    missing = listing.status in (404, 405)
    if probe.status in (404, 405) and (missing or not _is_json(listing.body)) and await _is_below(transport, endpoint):
        raise PreflightError(
            f"{endpoint} has no chat completions (HTTP {probe.status}); {endpoint.base}/v1 has.",
            f"Write --base-url {endpoint.base}/v1",
        )
    if listing.status == 200:
        _check_listed(listing.body, endpoint, model)
    elif missing and probe.status in (404, 405):
        raise PreflightError(
            f"{endpoint} has no chat completions: /models and /chat/completions answer HTTP {probe.status}.",
            "--base-url must end where /models and /chat/completions begin, which is mostly at /v1.",
        )


async def _check_cloud(transport: Transport, protocol: ServiceProtocol) -> None:
    """Send a question without content to a model in a cloud, which must refuse it: there is no list at that address.

    Raises:
        PreflightError: nothing answers, the credentials are not accepted, or there is no such model.
    """
    title, url = protocol.row.title, protocol.url()
    reply = await _ask(transport, protocol.endpoint, url.removeprefix(str(protocol.endpoint)), b"{}")
    if 400 > reply.status >= 200 or reply.status in (400, 422, 429):
        return
    error = protocol.read_error(reply.status, reply.headers, reply.body)
    if reply.status >= 500:
        raise ServerDownError(f"{title} answers at {protocol.endpoint}: {error.message}", "Try again when it is up.")
    raise PreflightError(f"{title} refuses {protocol.model!r} at {protocol.endpoint}: {error.message}", error.hint)


def _listing_path(protocol: ServiceProtocol) -> str:
    """Return the path of the list of models; of one model where the service's list comes in pages."""
    return (protocol.row.model_path or "/models").format(model=quote(protocol.model, safe="/"))


def _check_provider(listing: HttpReply, protocol: ServiceProtocol) -> None:
    """Refuse a model that a provider does not have. A gateway without a list of models is accepted.

    No question without content is sent, as to other servers: address and protocol of a provider are known.
    """
    if 200 <= listing.status < 300 and not _reads(listing.body, "data", "id", "name", "object"):
        raise PreflightError(
            f"{protocol.endpoint}{_listing_path(protocol)} answers HTTP {listing.status} with {_found(listing.body)}; a model of "
            f"{protocol.row.title} was expected.",
            f"--base-url must end where {protocol.row.path} begins, which is mostly at /{protocol.row.version or 'v1'}.",
        )
    if listing.status == 200 and not protocol.row.model_path:
        _check_listed(listing.body, protocol.endpoint, protocol.model, protocol.kind)
    message, _ = server_message(listing.body)
    if listing.status == 404 and protocol.row.model_path and protocol.model in message:
        raise PreflightError(
            f"{protocol.row.title} has no model {protocol.model!r}: {message}",
            f"Check the name; write --model {protocol.kind}:NAME as {protocol.row.title} lists it.",
        )


_WANTS_TLS = re.compile(
    rb"plain HTTP request was sent to HTTPS|HTTP request to an HTTPS server|https scheme", re.IGNORECASE
)
"""What nginx, Go, Apache and others answer to plain HTTP on a port of TLS."""


def _by_tls(endpoint: Endpoint) -> str:
    return f"Write --base-url https{str(endpoint).removeprefix('http')}"


async def _is_below(transport: Transport, endpoint: Endpoint) -> bool:
    """Return True where the server has what is looked for under /v1, and the address lacks that."""
    if endpoint.base.endswith("/v1"):
        return False
    try:
        reply = await transport.get(endpoint.url("/v1/models"))
    except ModelError:
        return False
    return reply.status in (401, 403) or (reply.status == 200 and _reads(reply.body, "data"))


async def _refuse_stranger(transport: Transport, endpoint: Endpoint, reply: HttpReply) -> None:
    """Raise PreflightError for a server that answers every path with success and with nothing that is expected there."""
    hint = (
        "--base-url must end where /models and /chat/completions begin, which is mostly at /v1 (http://HOST:PORT/v1)."
    )
    if await _is_below(transport, endpoint):
        hint = f"Write --base-url {endpoint.base}/v1"
    raise PreflightError(
        f"{endpoint} answers /models and /chat/completions with HTTP {reply.status} and {_found(reply.body)}; a list of models, "
        "and a refusal of a question without content, were expected.",
        hint,
    )


def _found(body: bytes) -> str:
    """Describe a reply that is not what was expected: its kind and its beginning."""
    text = excerpt(body, 120)
    if not text:
        return "an empty page" if body.strip() else "nothing"
    if _reads(body, "error"):
        return f"an error: {server_message(body)[0]}"
    kind = "JSON" if _is_json(body) else "a web page, not JSON" if body.lstrip()[:1] == b"<" else "a text, not JSON"
    return f"{kind}: {text}"


def _reads(body: bytes, *members: str) -> bool:
    """Return True for a JSON object with one of these members, not null; models may also come as a list without an object."""
    try:
        reply = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return False
    if isinstance(reply, list):
        return "data" in members and any(isinstance(row, dict) and "id" in row for row in reply)
    return isinstance(reply, dict) and any(reply.get(member) is not None for member in members)


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _takes_images(row: Any) -> bool | None:
    """Return True or False where a server's list gives a model's input modalities; None where it does not."""
    architecture = row.get("architecture")
    for table in (row, architecture if isinstance(architecture, dict) else {}):
        for name in ("input_modalities", "modalities"):
            if isinstance(table.get(name), list) and table[name]:
                return any(str(modality).lower() in ("image", "vision", "video") for modality in table[name])
    capabilities = row.get("capabilities")
    if isinstance(capabilities, dict) and isinstance(capabilities.get("vision"), bool):
        return bool(capabilities["vision"])
    return None


async def _ask(transport: Transport, endpoint: Endpoint, path: str, body: bytes | None) -> HttpReply:
    url = endpoint.url(path)
    try:
        return await (transport.get(url) if body is None else transport.post(url, (body,)))
    except ModelError as error:
        hint = error.hint or "Check --base-url, and that the server is running and can be reached."
        if isinstance(error, BadReplyError):
            hint = "Check --base-url: this is not an OpenAI-compatible server."
        answered = isinstance(error, BadReplyError) or (
            isinstance(error, NetworkError) and not error.hint and "Cannot connect" not in error.message
        )
        if body is not None:  # GET was answered, so the server is there and speaks this protocol
            hint = (
                f"Before the first sample {body.decode()} is sent to {path}, and HTTP 400 is a good reply. "
                "The server's own log may say why."
            )
        elif answered and endpoint.base.startswith("http://"):
            hint += f" If it speaks TLS: {_by_tls(endpoint)}"
        raise (ServerDownError if _may_come(error) else PreflightError)(error.message, hint) from None


def _may_come(error: ModelError) -> bool:
    """Return True where connections are refused; an unknown host, TLS or a broken reply is a wrong address."""
    cause = error.__context__
    return isinstance(cause, ClientConnectorError) and not isinstance(cause, ClientConnectorDNSError | ClientSSLError)


def _refuse_key(reply: HttpReply, endpoint: Endpoint, key_name: str, has_key: bool) -> None:
    if reply.status not in (401, 403):
        return
    message, _ = server_message(reply.body)
    if reply.status == 403 and "scope" in message.lower():
        return  # OpenAI's restricted keys may ask questions and not list models
    if (
        has_key and reply.status == 403
    ):  # a key without rights, a blocked address or country: the reply alone says which
        raise PreflightError(
            f"{endpoint} refuses the request (HTTP 403: {message}).",
            f"Check the rights of the key in {key_name}, and that the service may be used from here.",
        )
    if has_key:
        raise PreflightError(
            f"{endpoint} does not accept the key in {key_name} (HTTP {reply.status}: {message}).",
            f"Set {key_name} to a key of this server, or name another variable with --key-env.",
        )
    raise PreflightError(
        f"{endpoint} requires a key and {key_name} is not set (HTTP {reply.status}).",
        f"Set {key_name}, in the environment or in .env, or name another variable with --key-env.",
    )


def _check_listed(body: bytes, endpoint: Endpoint, model: str, kind: str = "api") -> None:
    """Refuse a model that is not in the server's list. Servers add `models/` before a name or a tag after it; both are accepted."""
    try:
        reply: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise PreflightError(
            f"{endpoint}/models is not JSON, so this is not an OpenAI-compatible server.",
            "--base-url must end where /models and /chat/completions begin, which is mostly at /v1.",
        ) from None
    rows = reply.get("data") if isinstance(reply, dict) else reply
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("id") == model and _takes_images(row) is False:
            print(
                f"snellen: warning: {endpoint} lists {model} as a model without image input: requests with images will fail. "
                "Name a vision-language model.",
                file=sys.stderr,
            )
    listed = {row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)} if rows else set()
    if not listed or listed & {model, f"models/{model}", f"{model}:latest", model.rpartition(":")[0] or model}:
        return
    suggestions = get_close_matches(model, sorted(listed), n=3) or sorted(listed)[:5]
    raise PreflightError(
        f"{endpoint} has no model {model!r}; it lists {len(listed)}.",
        f"Did you mean {', '.join(suggestions)}?",
    ).near(model, listed, f"{kind}:{{}}")
