"""Clouds that models are hosted in: where their services lie, and how requests prove who sends them.

Amazon Bedrock is signed by botocore (extra `bedrock`), Vertex AI takes access tokens of google-auth (extra `vertex`); both
find credentials by their own chains. `Transport` asks for the headers of each request, and again after a refusal.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from snellen import redaction
from snellen.errors import AuthError, KeyRefusedError, MissingExtraError, ModelError, NetworkError, UsageError
from snellen.installation import install_hint
from snellen.models.api.errors import excerpt
from snellen.models.api.services import Service, variable_value

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_PROJECT, _LOCATION, _FILE = "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"
_LARGEST_FILE = 1 << 20


class Credentials(Protocol):
    """Headers that prove who sends a request."""

    async def headers(self, method: str, url: str, pieces: Sequence[bytes | memoryview]) -> dict[str, str]:
        """Return those of one request. Raises ModelError: there are no credentials, or they were not renewed."""

    async def renew(self, status: int, used: Mapping[str, str]) -> bool:
        """Return True if credentials that were refused with this HTTP status have been replaced since, or now."""


def open_credentials(row: Service, place: Mapping[str, str]) -> Credentials:
    """Return the credentials of a service's cloud. Nothing is read until the first request."""
    return AwsSigner(place["region"]) if row.cloud == "aws" else GoogleTokens()


def find_place(row: Service, base_url: str | None, *, signed: bool = True) -> dict[str, str]:
    """Return what the addresses of a cloud's service name: `region`, or `host`, `project` and `location`.

    Args:
        row: of the service.
        base_url: the user's own address, which names no region.
        signed: requests are signed, which needs the region at any address.

    Raises:
        UsageError: a region or a project is needed, and none is set.
    """
    if row.cloud == "aws":
        region = next(filter(None, map(variable_value, _REGIONS)), "") or _profile_region()
        if not region and (signed or not base_url):
            raise UsageError(f"{row.title} is called in a region, and none is set.", f"Type: export {_REGIONS[0]}=NAME")
        return {"region": region}
    location = variable_value(_LOCATION) or "global"
    project = variable_value(_PROJECT) or _file_project()
    if not project:
        raise UsageError(f"{row.title} is called in a project, and none is set.", f"Type: export {_PROJECT}=NAME")
    host = f"{location}-aiplatform.googleapis.com"
    if location == "global":
        host = "aiplatform.googleapis.com"
    elif location in ("us", "eu"):  # several regions; as google-genai 3.6.1 and anthropic 2.14.0 address them
        host = f"aiplatform.{location}.rep.googleapis.com"
    return {"host": host, "project": project, "location": location}


def _profile_region() -> str:
    try:
        session = import_module("botocore.session").Session()
        return str(session.get_config_variable("region") or "")
    except Exception:  # noqa: BLE001 - no botocore, or a profile that it cannot read: the region is asked for
        return ""


def _file_project() -> str:
    """Return the project of a service account's file; "" where there is none."""
    path = variable_value(_FILE)
    try:
        with Path(path).open("rb") as file:
            facts = json.loads(file.read(_LARGEST_FILE))
        return str(facts.get("project_id") or "") if isinstance(facts, dict) else ""
    except (OSError, ValueError, RecursionError):
        return ""


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(f"{name.partition('.')[0]} is not installed.", install_hint(extra)) from None


class AwsSigner:
    """Signatures of version 4 by botocore, over each request's body.

    Args:
        region: of the service, which is part of the signature.
    """

    def __init__(self, region: str) -> None:
        self._region = region
        self._lock = threading.Lock()
        self._auth = _library("botocore.auth", "bedrock")
        self._request = _library("botocore.awsrequest", "bedrock").AWSRequest
        self._credentials: Any = None

    async def headers(self, method: str, url: str, pieces: Sequence[bytes | memoryview]) -> dict[str, str]:
        """Return the headers of a signed request, made in a thread: the chain may ask a server for credentials."""
        return await asyncio.to_thread(self._sign, method, url, b"".join(pieces))

    def _sign(self, method: str, url: str, body: bytes) -> dict[str, str]:
        frozen = self._frozen()
        request = self._request(method, url, data=body, headers={"Content-Type": "application/json"})
        self._auth.SigV4Auth(frozen, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())

    def _frozen(self, refused: str | None = None) -> Any:
        """Return the keys of now. botocore renews them before they expire; `refused` is a key to be replaced."""
        from botocore.exceptions import BotoCoreError

        try:
            with self._lock:
                if self._credentials is None or self._credentials.access_key == refused:
                    self._credentials = import_module("botocore.session").Session().get_credentials()
                credentials = self._credentials
            frozen = None if credentials is None else credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise AuthError(f"AWS credentials were not found: {excerpt(str(error).encode())}", _AWS_HINT) from None
        if frozen is None or not frozen.access_key:
            raise AuthError("No AWS credentials were found.", _AWS_HINT)
        for secret in filter(None, (frozen.secret_key, frozen.token)):
            redaction.register(secret)
        return frozen

    async def renew(self, status: int, used: Mapping[str, str]) -> bool:
        """Read the chain again after a refusal (403: the token expired), and return True if it has other keys."""
        if status not in (401, 403):
            return False
        key = used.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        frozen = await asyncio.to_thread(self._frozen, key)
        return bool(frozen.access_key != key)


class GoogleTokens:
    """Access tokens of google-auth: application default credentials, or a service account's file."""

    def __init__(self) -> None:
        self._auth = _library("google.auth", "vertex")
        self._transport = _library("google.auth.transport.requests", "vertex")
        self._lock = threading.Lock()
        self._credentials: Any = None

    async def headers(self, method: str, url: str, pieces: Sequence[bytes | memoryview]) -> dict[str, str]:
        """Return the token, and the project that is billed where the credentials name one.

        A token is fetched in a thread, once for all requests that wait for it, and minutes before the last one expires.
        """
        if self._credentials is None or not self._credentials.valid:
            await asyncio.to_thread(self._refresh)
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers

    async def renew(self, status: int, used: Mapping[str, str]) -> bool:
        """Fetch another token after HTTP status 401, unless a request before this one did."""
        if status == 401:
            await asyncio.to_thread(self._refresh, next((used[name] for name in used if name.lower() == _BEARER), ""))
        return status == 401

    def _refresh(self, refused: str | None = None) -> None:
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

        try:
            with self._lock:
                if self._credentials is None:
                    self._credentials, _ = self._auth.default(scopes=[_SCOPE])
                if self._credentials.valid and refused != f"Bearer {self._credentials.token}":
                    return
                self._credentials.refresh(self._transport.Request())
                redaction.register(self._credentials.token)
        except DefaultCredentialsError as error:
            raise _google_error(AuthError, "Google's credentials were not found", error) from None
        except TransportError as error:
            raise _google_error(NetworkError, "Google's server of tokens was not reached", error) from None
        except GoogleAuthError as error:
            raise _google_error(KeyRefusedError, "Google gave no access token", error) from None
        except (AttributeError, LookupError, TypeError, ValueError):  # google-auth trusts the form of both
            raise KeyRefusedError(
                "Google gave no access token: the file of credentials or the reply has another form than google-auth reads",
                _GOOGLE_HINT,
            ) from None


_BEARER = "authorization"
_AWS_HINT = "Set AWS_BEARER_TOKEN_BEDROCK, or AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
_GOOGLE_HINT = f"Name a service account's file in {_FILE}, or type: gcloud auth application-default login"


def _google_error(kind: type[ModelError], what: str, error: Exception) -> ModelError:
    return kind(
        f"{what}: {excerpt(str(error.args[0] if error.args else error).encode('utf-8', 'replace'))}", _GOOGLE_HINT
    )
