"""Submission of a zip that is too large for one request: first to the leaderboard's blob store, then its address.

1. POST /api/blob-upload gives a token for one upload. The user's token goes there inside `clientPayload`.
2. PUT to the blob store, with that token alone, gives the zip's address.
3. POST /api/submit sends the payload with `blobUrl`.

A leaderboard on this machine stores the zip itself (PUT /api/blob-upload), as it does in development, unless
VERCEL_BLOB_API_URL names a store. Both the first step and the last count against five submissions in two hours.

Source: easi-leaderboard-web (blob-upload and submit routes, 2026-03-30), and the client protocol of @vercel/blob 2.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from snellen.easi.submit.client import (
    FILE_NAME,
    LeaderboardReply,
    Request,
    answer_object,
    check_endpoint,
    error_text,
    exchange,
    multipart_file,
    send,
)
from snellen.errors import SubmissionError
from snellen.event_loop import in_loop
from snellen.models.api.endpoint import LOOPBACK
from snellen.models.api.errors import excerpt
from snellen.redaction import register

BLOB_API = "https://vercel.com/api/blob"
VARIABLE = "VERCEL_BLOB_API_URL"
API_VERSION = "12"
LARGEST_ZIP = 20 * 1024 * 1024
LARGEST_UNPACKED = 100 * 1024 * 1024
STORES = (".public.blob.vercel-storage.com", ".private.blob.vercel-storage.com")
GRANT_EVENT = "blob.generate-client-token"
CUT = "--upload request sends it in one request, with replies cut to their ends."


def send_by_blob(
    payload: Mapping[str, Any],
    archive: bytes,
    token: str,
    *,
    endpoint: str,
    timeout_s: float,
    waits_s: Sequence[float],
    say: Callable[[str], None] = lambda line: None,
) -> LeaderboardReply:
    """Upload the zip, submit the payload with its address, and return the reply of a leaderboard that accepted it.

    Args:
        payload: what easi_results.json holds.
        archive: the zip.
        token: of huggingface.co; it goes to the leaderboard and never to the blob store.
        endpoint, timeout_s, waits_s, say: as for `client.send`; the paths of the other steps follow from the endpoint's.

    Raises:
        UsageError: the endpoint is no address that a token may go to.
        SubmissionError: a step was refused: which one, the answer, and what to do.
    """
    base = base_of(check_endpoint(endpoint))
    address = in_loop(_stored(base, archive, token, timeout_s, waits_s, say))
    say(f"the zip is stored at {address}")
    body = json.dumps({**payload, "blobUrl": address}).encode()
    return send(
        Request(body, "application/json"),
        token,
        endpoint=f"{base}/api/submit",
        timeout_s=timeout_s,
        waits_s=waits_s,
        say=say,
    )


def base_of(endpoint: str) -> str:
    """Return the leaderboard's base address: the endpoint without the path of its API."""
    return endpoint.partition("/api/")[0].rstrip("/")


async def _stored(
    base: str, archive: bytes, token: str, timeout_s: float, waits_s: Sequence[float], say: Callable[[str], None]
) -> str:
    """Store the zip and return its address."""
    route = f"{base}/api/blob-upload"
    store = os.environ.get(VARIABLE, "").rstrip("/")
    local = urlsplit(base).hostname in LOOPBACK
    if local and not store:
        upload = multipart_file("file", archive)
        answer = await _step(
            "PUT",
            route,
            upload.body,
            {"Authorization": f"Bearer {token}", "Content-Type": upload.content_type},
            timeout_s,
            waits_s,
            say,
        )
    else:
        question = {
            "type": GRANT_EVENT,
            "payload": {
                "pathname": FILE_NAME,
                "callbackUrl": route,
                "clientPayload": json.dumps({"token": token}),
                "multipart": False,
            },
        }
        granted = await _step(
            "POST", route, json.dumps(question).encode(), {"Content-Type": "application/json"}, timeout_s, waits_s, say
        )
        client_token = granted.get("clientToken")
        if not isinstance(client_token, str) or not client_token.isprintable() or not client_token:
            raise SubmissionError(f"{route} gave no token for an upload: {excerpt(json.dumps(granted).encode())}", CUT)
        register(client_token)
        headers = {
            "Authorization": f"Bearer {client_token}",
            "Content-Type": "application/octet-stream",
            "x-api-version": API_VERSION,
            "x-content-type": "application/zip",
            "x-content-length": str(len(archive)),
            "x-vercel-blob-access": "private",
            **_store_id(client_token),
        }
        where = f"{check_endpoint(store) if store else BLOB_API}/?pathname={quote(FILE_NAME)}"
        answer = await _step("PUT", where, archive, headers, timeout_s, waits_s, say)
    return _address(answer, base, local=local)


def _store_id(client_token: str) -> dict[str, str]:
    """Return the header with the store's id, the fourth part of `vercel_blob_client_<store>_<signature>`."""
    parts = client_token.split("_", 4)
    return {"x-vercel-blob-store-id": parts[3]} if len(parts) == 5 and parts[3].isalnum() else {}


def _address(answer: Mapping[str, Any], base: str, *, local: bool) -> str:
    address = answer.get("url")
    if isinstance(address, str) and address.isprintable():
        try:
            split = urlsplit(address)
        except ValueError:
            split = urlsplit("")
        host = split.hostname or ""
        if (split.scheme == "https" and host.endswith(STORES)) or (local and host in LOOPBACK):
            return address
    raise SubmissionError(
        f"the blob store answered {excerpt(json.dumps(answer).encode())}; the address of a blob was expected",
        f"{base} accepts addresses of {' and '.join(f'*{store}' for store in STORES)} only. {CUT}",
    )


async def _step(
    method: str,
    address: str,
    body: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
    waits_s: Sequence[float],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return the object in a 2xx answer; retry broken connections and 5xx.

    Raises:
        SubmissionError: it was refused, or there was no answer in all tries.
    """
    for wait in [*waits_s, None]:
        try:
            status, _, content = await exchange(method, address, body, headers, timeout_s)
            failure = f"HTTP {status}: {error_text(content) or excerpt(content) or '(an empty answer)'}"
        except ConnectionError as error:
            status, content, failure = 0, b"", str(error)
        if 200 <= status < 300:
            return answer_object(content)
        if wait is None or (status and status < 500):
            advice = "HF_TOKEN is not accepted: make a new token on huggingface.co. " if status in (401, 403) else ""
            raise SubmissionError(
                f"the zip could not be uploaded to {address.partition('?')[0]}: {failure}", advice + CUT
            )
        say(f"{failure}; tried again in {wait:g} s")
        await asyncio.sleep(wait)
    raise AssertionError("the last try returns or raises")
