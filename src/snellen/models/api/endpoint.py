"""The address of a server: what the user gives as --base-url, checked and taken apart once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from snellen.errors import PreflightError, UsageError
from snellen.redaction import register_proxies
from snellen.redaction.arguments import held_key
from snellen.text import shorten

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
        """Return the full address of a path such as `/chat/completions`, which may have a query itself."""
        return f"{self.base}{path}{'&' if '?' in path else '?'}{self.query}" if self.query else f"{self.base}{path}"

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

    Raises:
        PreflightError: the variable that decides here is faulty; it is named, and its value is not shown.
    """
    from urllib import request

    split, proxies = urlsplit(endpoint.base), request.getproxies()
    proxy = proxies.get(split.scheme, proxies.get("all"))
    if proxy is None or endpoint.host in LOOPBACK:
        return None
    register_proxies(os.environ)
    hosts = [host for entry in proxies.get("no", "").split(",") if (host := entry.strip())]
    if fault := next(filter(None, map(_no_proxy_fault, hosts)), ""):
        raise _faulty("no", fault, "Write hosts with commas between them: example.com,.inside.example,10.0.0.0/8.")
    direct = ",".join(host.removeprefix("*") for host in hosts)
    if "*" in hosts or request.proxy_bypass_environment(split.netloc, {"no": direct}):  # type: ignore[attr-defined]
        return None
    if _in_network(endpoint.host, hosts) or (not hosts and request.proxy_bypass(endpoint.host)):
        return None
    if fault := _proxy_fault(proxy):
        raise _faulty(
            split.scheme if split.scheme in proxies else "all", fault, "Write it as http://HOST:PORT, or unset it."
        )
    return proxy


def proxy_name(endpoint: Endpoint) -> str:
    """Return the name of the variable that sets the proxy of an endpoint."""
    from urllib.request import getproxies

    scheme = urlsplit(endpoint.base).scheme
    return _variable(scheme if scheme in getproxies() else "all")


def _variable(scheme: str) -> str:
    """Return the variable of a scheme (`https`, `all`, `no`): of two spellings, that in small letters counts."""
    names = [name for name, value in os.environ.items() if value and name.lower() == f"{scheme}_proxy"]
    return max(names, key=str.islower, default=f"the system's setting {scheme}_proxy")


def _faulty(scheme: str, fault: str, hint: str) -> PreflightError:
    return PreflightError(f"{_variable(scheme)} {fault}. No request was sent.", hint)


def _proxy_fault(proxy: str) -> str:
    """Return what is wrong with a proxy's address, without a word of it that may be a password; "" if nothing is."""
    if not proxy.strip():
        return "holds blanks alone"
    if any(mark.isspace() or not mark.isprintable() for mark in proxy):
        return "holds white space or control characters"
    scheme, mark, rest = proxy.partition("://")
    if not mark:
        return "has no scheme"
    if scheme.lower().startswith("socks"):
        return "names a SOCKS proxy, which is not supported: use an HTTP proxy"
    if scheme.lower() not in ("http", "https"):
        return f"has the unknown scheme {shorten(scheme, 20)!r}" if scheme.isalnum() else "has no scheme"
    host = re.split(r"[/?#]", rest.rpartition("@")[2], maxsplit=1)[0]
    return _host_fault(host) or ("" if "@" not in re.sub(r"^[^/?#]*@", "", rest) else "has a password with / ? or #")


def _host_fault(host: str) -> str:
    """Return what is wrong with HOST or HOST:PORT; "" if nothing is."""
    address, bracket, port = host.rpartition("]")
    if not bracket:
        address, _, port = host.partition(":")
        port = f":{port}" if ":" in host else ""
    if port and not (re.fullmatch(r":[0-9]{1,5}", port, re.ASCII) and 0 < int(port[1:]) < 65_536):
        return "has a bad port: 1 to 65535 was expected"
    try:
        sound = bool(ip_address(address[1:])) if bracket else re.fullmatch(r"[^\W_](?:[\w.-]*\w)?\.?", address)
    except ValueError:
        sound = False
    return "" if sound else "names no host"


def _no_proxy_fault(entry: str) -> str:
    """Return why an entry of NO_PROXY matches no host; "" for one that may match."""
    if entry == "*" or _network(entry) is not None:
        return ""
    if re.search(r"\s", entry):
        return "holds hosts with blanks between them"
    if "://" in entry:
        return "holds an address with a scheme, where a host was expected"
    fault = _host_fault(entry.removeprefix("*").removeprefix("."))
    return f"holds an entry that {fault}" if fault else ""


def _network(entry: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        return None


def _in_network(host: str, hosts: Iterable[str]) -> bool:
    """Return True for an IP address in one of these networks, which urllib does not read."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(network is not None and address in network for network in map(_network, hosts))


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
