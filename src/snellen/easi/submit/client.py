"""HTTP client of EASI's leaderboard: one POST of payload and zip, with retries.

The token goes to the host that was named and to no other: a redirect elsewhere ends the submission.

Source: EASI v0.2.2, its client and the documented server (POST /api/submit-with-file/, Bearer, fields `payload` and `zipFile`).

Submission of a zip that is too large for one request: first to the leaderboard's blob store, then its address.

1. POST /api/blob-upload gives a token for one upload. The user's token goes there inside `clientPayload`.
2. PUT to the blob store, with that token alone, gives the zip's address.
3. POST /api/submit sends the payload with `blobUrl`.

A leaderboard on this machine stores the zip itself (PUT /api/blob-upload), as it does in development, unless
VERCEL_BLOB_API_URL names a store. Both the first step and the last count against five submissions in two hours.

Source: easi-leaderboard-web (blob-upload and submit routes, 2026-03-30), and the client protocol of @vercel/blob 2.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from snellen.errors import SubmissionError, UsageError
from snellen.event_loop import in_loop
from snellen.models.api.endpoint import LOOPBACK, Endpoint, find_proxy
from snellen.models.api.errors import excerpt
from snellen.models.api.rate_limits import retry_after
from snellen.redaction import register
from snellen.text import json_or_none

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


ENDPOINT = "https://easi.lmms-lab.com/api/submit-with-file/"
BY_HAND = "https://easi.lmms-lab.com/submit/, or by mail to easi-lmms-lab@outlook.com"
FILE_NAME = "easi_results.zip"
LARGEST_REQUEST = 4_500_000
"""Bytes of a whole request that the leaderboard's platform takes."""
TIMEOUT_S = 120.0
WAITS_S: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0)
LONGEST_WAIT_S = 300.0
_LARGEST_REPLY = 1 << 20
_REDIRECTS = 2
_ADVICE = {
    400: "Correct what it names. It also refuses a model that is not on the hub or has no licence there, a base model "
    "that is not there, and a zip with other files than its list allows.",
    401: "HF_TOKEN is not accepted: make a new token on huggingface.co (Settings, Access Tokens) and export it.",
    403: "HF_TOKEN may not do this: make a new token on huggingface.co (Settings, Access Tokens) and export it.",
    404: "Nothing answers there: check --endpoint.",
    413: f"The request is too large. Send the files by hand: {BY_HAND}.",
    429: "It takes five submissions in two hours: retry later with the same command.",
}


class Request(NamedTuple):
    """A multipart request: its body and its content type."""

    body: bytes
    content_type: str


class LeaderboardReply(NamedTuple):
    """The leaderboard's answer."""

    status: int
    text: str


def check_endpoint(address: str) -> str:
    """Return an address that a token may be sent to.

    Raises:
        UsageError: no http(s) address, one with a password in it, or http to another host than this one.
    """
    try:
        split = urlsplit(address.strip())
        port = split.port
    except ValueError as error:
        raise UsageError(f"--endpoint is not an address: {error}", f"The leaderboard's is {ENDPOINT}.") from None
    if split.scheme not in ("http", "https") or not split.hostname or port == 0 or split.username or split.password:
        raise UsageError(
            f"--endpoint {address!r}: an https:// address without a password was expected",
            f"The leaderboard's is {ENDPOINT}.",
        )
    if split.scheme == "http" and split.hostname not in LOOPBACK:
        raise UsageError(
            f"--endpoint {address!r} is not encrypted, and the token would go there in the clear", "Give https://."
        )
    return address.strip()


def multipart(payload: bytes, archive: bytes) -> Request:
    """Build the body: form field `payload`, and file `zipFile` (application/zip). Deterministic."""
    return _multipart(((b'name="payload"', payload), (_file_head("zipFile"), archive)))


def multipart_file(field: str, archive: bytes) -> Request:
    """Build a body with the zip alone, in a form field of that name. Deterministic."""
    return _multipart(((_file_head(field), archive),))


def _file_head(field: str) -> bytes:
    return f'name="{field}"; filename="{FILE_NAME}"\r\nContent-Type: application/zip'.encode()


def _multipart(parts: Sequence[tuple[bytes, bytes]]) -> Request:
    seed = sha256(b"".join(body for _, body in parts))
    while any((boundary := f"snellen-{seed.hexdigest()[:32]}".encode()) in body for _, body in parts):
        seed.update(b".")
    lines = [
        b"--%b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (boundary, head, body) for head, body in parts
    ]
    return Request(b"".join([*lines, b"--%b--\r\n" % boundary]), f"multipart/form-data; boundary={boundary.decode()}")


def send(
    request: Request,
    token: str,
    *,
    endpoint: str = ENDPOINT,
    timeout_s: float = TIMEOUT_S,
    waits_s: Sequence[float] = WAITS_S,
    say: Callable[[str], None] = lambda line: None,
) -> LeaderboardReply:
    """Submit, and return the reply of a leaderboard that accepted it.

    Args:
        request: what `multipart` made.
        token: of huggingface.co; goes into the Authorization header.
        timeout_s: for one try, from the connection to the last byte.
        waits_s: how long to wait before each further try; a server's Retry-After counts where it is longer.
        say: is told of each failed try, one line.

    Raises:
        UsageError: the endpoint is no address that a token may go to.
        SubmissionError: it was not taken: the answer, or why there is none, and what to do.
    """
    return in_loop(_send(request, token, check_endpoint(endpoint), timeout_s, waits_s, say))


async def _send(
    request: Request, token: str, endpoint: str, timeout_s: float, waits_s: Sequence[float], say: Callable[[str], None]
) -> LeaderboardReply:
    for number, wait in enumerate([*waits_s, None], 1):
        again = f"; tried again in {{:g}} s ({number} of {len(waits_s) + 1} tries)"
        try:
            status, headers, body = await _post(request, token, endpoint, timeout_s)
        except ConnectionError as error:
            if wait is None:
                raise SubmissionError(
                    f"the leaderboard gave no answer in {number} tries: {error}",
                    "It may have arrived all the same: look at the leaderboard before sending again. Nothing is lost here.",
                ) from None
            say(f"{error}{again.format(wait)}")
            await asyncio.sleep(wait)
            continue
        text = excerpt(body)
        if status not in (429, *range(500, 600)):
            return _judged(status, body, text, headers.get("Location", ""))
        retry_after_s = retry_after(headers) or 0.0
        if wait is None or retry_after_s > LONGEST_WAIT_S:
            later = f" It asks to wait {retry_after_s:,.0f} s." if retry_after_s else ""
            advice = _ADVICE.get(status, "The fault is the server's: retry later with the same command.")
            raise SubmissionError(
                f"the leaderboard answered HTTP {status}: {error_text(body) or text}", f"{advice}{later}"
            )
        say(f"HTTP {status}: {error_text(body) or text}{again.format(max(wait, retry_after_s))}")
        await asyncio.sleep(max(wait, retry_after_s))
    raise AssertionError("the last try returns or raises")


def _judged(status: int, body: bytes, text: str, location: str) -> LeaderboardReply:
    """Return the reply of a final response. Success is HTTP ok and `success` true."""
    if 300 <= status < 400:
        raise SubmissionError(
            f"the leaderboard answered HTTP {status}, a way to {excerpt(location.encode())!r}; "
            "the token is not sent to another address",
            "If the leaderboard has moved, name its new address: --endpoint URL.",
        )
    if 200 <= status < 300 and answer_object(body).get("success") is True:
        return LeaderboardReply(status, text)
    reason = error_text(body) or text or "(an empty answer)"
    advice = _ADVICE.get(status, "Correct what it names, and send again.")
    raise SubmissionError(f"the leaderboard did not take it: HTTP {status}: {reason}", advice)


def answer_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer; empty where it is none."""
    content = json_or_none(body)
    return content if isinstance(content, dict) else {}


def error_text(body: bytes) -> str:
    """Return the `error` of an answer in words; empty where it has none."""
    message = answer_object(body).get("error")
    return excerpt(message.encode()) if isinstance(message, str) else ""


async def _post(request: Request, token: str, endpoint: str, timeout_s: float) -> tuple[int, Any, bytes]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": request.content_type}
    return await exchange("POST", endpoint, request.body, headers, timeout_s)


async def exchange(
    method: str, endpoint: str, body: bytes, headers: Mapping[str, str], timeout_s: float
) -> tuple[int, Any, bytes]:
    """Exchange one request; return status, headers and body.

    A redirect is followed within the same origin only.

    Raises:
        ConnectionError: there is no complete answer. SubmissionError: a bad certificate.
    """
    import aiohttp

    headers = {**headers, "Accept": "application/json"}
    address = endpoint
    try:
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=timeout_s), trust_env=False
        ) as session:
            for _ in range(_REDIRECTS + 1):
                async with session.request(
                    method,
                    address,
                    data=io.BytesIO(body),
                    headers=headers,
                    allow_redirects=False,
                    proxy=find_proxy(Endpoint(address)),
                ) as response:
                    target = urljoin(address, response.headers.get("Location", ""))
                    if response.status in (307, 308) and _origin(target) == _origin(address) and target != address:
                        address = target
                        continue
                    return response.status, response.headers, await _read(response.content)
            raise SubmissionError(f"{endpoint} sends from one address to the next and does not answer")
    except (ssl.SSLCertVerificationError, aiohttp.ClientConnectorCertificateError) as error:
        raise SubmissionError(
            f"the certificate of {endpoint} is not valid: {error}",
            "Nothing was sent. Where a company's proxy stands between, name its authority in SSL_CERT_FILE.",
        ) from None
    except TimeoutError:
        raise ConnectionError(f"no whole answer from {endpoint} within {timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ConnectionError(f"no connection to {endpoint}, or it broke: {error or type(error).__name__}") from None


async def _read(content: Any) -> bytes:
    """Read the body, at most its first megabyte."""
    content_ = bytearray()
    async for chunk in content.iter_any():
        content_ += chunk
        if len(content_) > _LARGEST_REPLY:
            break
    return bytes(content_)


def _origin(address: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port; None values for an invalid address."""
    try:
        split = urlsplit(address)
        return split.scheme, split.hostname, split.port
    except ValueError:
        return "", None, None
