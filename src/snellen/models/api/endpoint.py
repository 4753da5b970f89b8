"""The address of a server: what the user gives as --base-url, checked and taken apart once."""

from __future__ import annotations

import os
import re
import sys
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from snellen.errors import UsageError
from snellen.redaction import register
from snellen.redaction.arguments import held_key

DEFAULT_BASE_URL = "https://api.openai.com/v1"
MAX_TEMPERATURE = {
    "api.openai.com": 2.0,
    "api.anthropic.com": 1.0,
    "generativelanguage.googleapis.com": 2.0,
    "openrouter.ai": 2.0,
    "api.mistral.ai": 1.5,
}
"""Largest temperature by host, as the providers' references have it."""
USUAL_MAX_TEMPERATURE = 2.0
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Endpoint(Struct, frozen=True):
    """A base URL up to and including `/v1`; `query` is appended to every address (Azure's api-version)."""

    base: str
    query: str = ""

    def url(self, path: str) -> str:
        """Return the full address of a path such as `/chat/completions`."""
        return f"{self.base}{path}?{self.query}" if self.query else f"{self.base}{path}"

    @property
    def host(self) -> str:
        return urlsplit(self.base).hostname or ""

    def __str__(self) -> str:
        return self.url("")


def parse_endpoint(base_url: str | None) -> Endpoint:
    """Return the endpoint of --base-url; None: OPENAI_BASE_URL, and where that is not set, OpenAI's own.

    Raises:
        UsageError: not an http(s) address, or one that holds a password or a key, which would end up in the run's
            record.
    """
    text = (base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL).strip()
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError as error:
        raise UsageError(f"--base-url is not an address: {error}.", "Give it as https://host:port/v1.") from None
    if split.scheme not in ("http", "https") or not split.hostname or port == 0:
        raise UsageError(
            f"--base-url must start with http:// or https:// and name a host, not {text!r}.", _with_scheme(text)
        )
    if any(mark.isspace() for mark in text):
        raise UsageError(
            f"--base-url holds white space: {text!r}.",
            f"Write --base-url {''.join(text.split())}, if that is the address.",
        )
    if split.username or split.password or "@" in split.netloc:
        raise UsageError(
            "--base-url holds a user name or password; it is written into the run's record.",
            "Put the key into an environment variable and name it with --key-env.",
        )
    other = sorted({name for name, _ in parse_qsl(split.query, keep_blank_values=True)} - {"api-version"})
    if other or split.fragment:
        addition = f"the parameter {other[0]!r}" if other else "a #fragment"
        raise UsageError(
            f"--base-url holds {addition}; only api-version may follow the path.",
            "Put keys into an environment variable and name it with --key-env.",
        )
    if held_key(text) is not None:
        raise UsageError(
            "--base-url holds text that looks like a key; it is written into the run's record.",
            "Put the key into an environment variable and name it with --key-env.",
        )
    path = split.path.rstrip("/").removesuffix("/chat/completions")
    return Endpoint(f"{split.scheme}://{split.netloc}{path}", split.query)


def _with_scheme(text: str) -> str:
    """Return the address to write in place of one without a scheme, or with a misspelt one; a key in it is not repeated."""
    rest = re.sub(r"^[A-Za-z+.-]*:?/+", "", text) if "/" in text.partition(".")[0] else text
    host = rest.partition("/")[0]
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?", host) or held_key(rest) is not None:
        return "Give it as https://HOST/v1 or http://HOST:PORT/v1."
    scheme = "http" if ":" in host or host in LOOPBACK or host.replace(".", "").isdigit() else "https"
    path = rest if "/" in rest.rstrip("/") else f"{rest.rstrip('/')}/v1"
    return f"Write --base-url {scheme}://{path}"


def find_proxy(endpoint: Endpoint) -> str | None:
    """Return the proxy that the environment names for this endpoint (HTTPS_PROXY, NO_PROXY …); never one for loopback.

    Looked up once a run rather than once a request, as aiohttp's trust_env would.
    """
    from urllib.request import getproxies, proxy_bypass

    if endpoint.host in LOOPBACK or proxy_bypass(endpoint.host):
        return None
    proxy = getproxies().get(urlsplit(endpoint.base).scheme)
    if proxy is not None and (password := urlsplit(proxy).password):
        register(password)
    return proxy


def check_temperature(temperature: float | None, endpoint: Endpoint, limit: float | None = None) -> None:
    """Refuse a temperature that the provider refuses: above `limit`, else above that of its host. Raises UsageError."""
    limit = MAX_TEMPERATURE.get(endpoint.host) if limit is None else limit
    if temperature is not None and limit is not None and temperature > limit:
        raise UsageError(
            f"--temperature {temperature:g}: {endpoint.host} accepts 0 to {limit:g}",
            "Give one of that range, or omit it.",
        )


def warn_of_temperature(temperature: float | None, endpoint: Endpoint) -> None:
    """Print a warning of a temperature that most servers refuse, where the server's own range is not known."""
    if temperature is not None and endpoint.host not in MAX_TEMPERATURE and temperature > USUAL_MAX_TEMPERATURE:
        print(
            f"snellen: warning: --temperature {temperature:g} is above {USUAL_MAX_TEMPERATURE:g}, the most that OpenAI-compatible servers "
            "accept; replies may be refused, or be random text.",
            file=sys.stderr,
        )
