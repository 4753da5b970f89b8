"""URL policy: a model may reach public addresses, and no other.

A model chooses addresses by what it reads, and what it reads may be made to misuse it. So a name is resolved once,
every address that it resolves to must be public, and the connection is made to just these addresses: a name that
resolves otherwise a moment later gains nothing. Redirects are followed one at a time, each checked like the first.

Sources: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and its updates), IANA multicast registries;
168.63.129.16 is a public address at which Azure's machines find their host.

Parsing is that of `ipaddress`. Its `is_global` is no policy: Python 3.11.7 says True for 224.0.0.1 (multicast), 192.88.99.1
and 2002::/16 (6to4), 64:ff9b::/96 (NAT64), fec0::/10, ::127.0.0.1, 3fff::/20 and 168.63.129.16, and later versions say
otherwise. So the blocks stand here.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from snellen.models.tools.base import ToolError

PORTS = frozenset({80, 443, 8080, 8443})
LONGEST = 2000

_NAME = re.compile(r"[a-z0-9_.-]+", re.IGNORECASE)

Permitted: TypeAlias = Callable[[str, str], bool]

_CLOSED_4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
    )
)  # fmt: skip
# Only 2000::/3 is given out for the public network. Within it: Teredo and other protocol blocks, documentation, 6to4
# (which wraps IPv4 addresses). Mapped, compatible and NAT64 forms of IPv4 lie outside of it.
_OPEN_6 = IPv6Network("2000::/3")
_CLOSED_6 = tuple(IPv6Network(block) for block in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
# What inet_aton takes for an address: one to four numbers, decimal, octal or hexadecimal. No public name ends so.
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|\d+)\.?", re.IGNORECASE)


def public(host: str, address: str) -> bool:
    """Return True if an address (as text) is one of the public network, and not this machine's. The host's name is ignored."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return not any(parsed in block for block in _CLOSED_4) and not _own(parsed)
    open_6 = parsed.scope_id is None and parsed in _OPEN_6 and not any(parsed in block for block in _CLOSED_6)
    return open_6 and not _own(parsed)


def _own(address: IPv4Address | IPv6Address) -> bool:
    """Return True if packets to an address would come from it, as on a server with a public address. None is sent."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
        except OSError:  # there is no way to it
            return False
        return ip_address(probe.getsockname()[0]) == address


def checked(url: str, permitted: Permitted = public, ports: frozenset[int] = PORTS) -> URL:
    """Return the address as it will be used, or raise an error that the model can read.

    Refused: other schemes than http and https, user names and passwords, other ports than 80, 443, 8080 and 8443, hosts
    that are numbers in any but the plain form, and literal addresses that are not public.

    Raises:
        ToolError: with the rule that it breaks.
    """
    if len(url) > LONGEST:
        raise ToolError(f"the address is longer than {LONGEST:,} characters")
    try:
        parsed = URL(url.strip())
        host, port = parsed.host or "", parsed.port
    except (ValueError, UnicodeError) as error:
        raise ToolError(f"not an address: {error}") from None
    if parsed.scheme not in ("http", "https") or not host:
        raise ToolError("an address must begin with http:// or https:// and name a host")
    if parsed.user is not None or parsed.password is not None:
        raise ToolError("an address must not hold a user name or password")
    if port not in ports:
        raise ToolError(f"port {port} is not reached; only {', '.join(map(str, sorted(ports)))}")
    if ":" in host or _is_plain(host):
        if not permitted(host, host):
            raise ToolError(f"{host} is not an address of the public network; it is not reached")
    elif _NUMERIC.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise ToolError(f"{host} is a number and not a name; it is not reached")
    elif not _NAME.fullmatch(parsed.raw_host or ""):
        raise ToolError("the host of the address is not a name")
    elif "." not in host.rstrip(".") and not permitted(host, ""):
        raise ToolError(f"{host} is not a name of the public network; it is not reached")
    return parsed


def _is_plain(host: str) -> bool:
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


class CheckedResolver(AbstractResolver):
    """Resolves names for a connector, and gives no address that is not permitted: one bad address refuses the name."""

    def __init__(self, inner: AbstractResolver, permitted: Permitted = public) -> None:
        self._inner = inner
        self._permitted = permitted

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        results: Sequence[ResolveResult] = await self._inner.resolve(host, port, family)  # type: ignore[arg-type]
        for result in results:
            if not self._permitted(host, result["host"]):
                raise ToolError(f"{host} resolves to {result['host']}, which is not public; it is not reached")
        return list(results)

    async def close(self) -> None:
        await self._inner.close()
