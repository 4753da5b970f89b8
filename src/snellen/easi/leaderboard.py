"""EASI's public leaderboard, read live or from a file: its rows, its capability map, and its two averages.

The benchmark average is the mean of the scores that are not null. A capability is the mean of the sub-scores that the map
gives to it, and is null if one of them is missing. The capability average divides by all labels and counts null as 0.

Source: easi-leaderboard-web at bf8f2a8 (2026-03-30), GET /api/leaderboard and computeAverages.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, structs

from snellen.atomic_write import replacing
from snellen.errors import DataError, UsageError
from snellen.event_loop import in_loop
from snellen.models.api.endpoint import Endpoint, find_proxy
from snellen.text import json_or_none, one_line

BASE_URL = "https://easi.lmms-lab.com"
PATH = "/api/leaderboard"
VARIABLE = "EASI_LEADERBOARD_URL"
LABELS: Mapping[str, str] = {
    "mm": "Metric Measurement",
    "mr": "Mental Reconstruction",
    "sr": "Spatial Relations",
    "pt": "Perspective-taking",
    "da": "Deformation and Assembly",
    "cr": "Comprehensive Reasoning",
}
"""The leaderboard's capability labels; the average divides by all of them."""
TIMEOUT_S = 15.0
LARGEST = 32 << 20
LONGEST_NAME = 200


class LeaderboardEntry(Struct, frozen=True):
    """One row: points by EASI's ids, and sub-scores by id and key; None is null."""

    name: str
    scores: Mapping[str, float | None]
    sub_scores: Mapping[str, Mapping[str, float | None]] = {}


class LeaderboardAverages(Struct, frozen=True):
    """The averages of one row over some benchmarks, in points.

    Attributes:
        benchmark: mean over the non-null scores; None without any.
        known: benchmarks that it is over; `of` is how many there could be.
        capabilities: by label; None where a mapped sub-score is missing or none is mapped.
        capability: mean over all labels, null counting as 0; None without a capability map.
    """

    benchmark: float | None
    known: int
    of: int
    capabilities: Mapping[str, float | None]
    capability: float | None


class PublicLeaderboard(Struct, frozen=True):
    """The leaderboard as it was read.

    Attributes:
        rows: in its order.
        capability_map: benchmark id to sub-score key to labels; empty where there is none.
        updated: its own date of the last change.
        source: where it was read from, in words.
        live: whether it was read from the network.
        notes: what a reader must know: why it is not live, rows that cannot be read.
    """

    rows: tuple[LeaderboardEntry, ...]
    capability_map: Mapping[str, Mapping[str, tuple[str, ...]]]
    updated: str
    source: str
    live: bool
    notes: tuple[str, ...] = ()

    def averages(self, entry: LeaderboardEntry, columns: Sequence[str]) -> LeaderboardAverages:
        """Return both averages of a row over the benchmarks in `columns` (EASI's ids)."""
        return averages(entry, columns, self.capability_map)


def averages(
    entry: LeaderboardEntry, columns: Sequence[str], capability_map: Mapping[str, Mapping[str, Sequence[str]]]
) -> LeaderboardAverages:
    """Return the benchmark average and the capability average of one row.

    Args:
        entry: its scores and sub-scores.
        columns: ids of the benchmarks that count: the protocol's, or those that are shown.
        capability_map: benchmark id to sub-score key to labels.
    """
    scores = [score for name in columns if (score := entry.scores.get(name)) is not None]
    mapped: dict[str, list[float | None]] = {label: [] for label in LABELS}
    for name in columns:
        for key, labels in capability_map.get(name, {}).items():
            for label in labels:
                mapped.setdefault(label, []).append(entry.sub_scores.get(name, {}).get(key))
    capabilities = {label: _mean_or_null(values) for label, values in mapped.items()}
    return LeaderboardAverages(
        benchmark=sum(scores) / len(scores) if scores else None,
        known=len(scores),
        of=len(columns),
        capabilities=capabilities if capability_map else {},
        capability=sum(value or 0.0 for value in capabilities.values()) / len(capabilities) if capability_map else None,
    )


def _mean_or_null(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def read_leaderboard(source: str | None = None, *, timeout_s: float = TIMEOUT_S) -> PublicLeaderboard | None:
    """Read the leaderboard from the network, else from the copy of the last reading; None where there is neither.

    Args:
        source: a base URL, the URL of its API, or a file with the API's answer; None: EASI_LEADERBOARD_URL, else the
            public one.
        timeout_s: for the whole request.

    Raises:
        DataError: the file cannot be read, or what was read is no leaderboard. UsageError: no such address.
    """
    place = source or os.environ.get(VARIABLE) or BASE_URL
    if not place.lower().startswith(("http://", "https://")):
        return parse(_file(Path(place).expanduser()), f"the file {place}", live=False)
    address = _address(place)
    copy = copy_path(address)
    try:
        content = in_loop(_get(address, timeout_s))
    except ConnectionError as error:
        try:
            age = time.strftime("%Y-%m-%d", time.gmtime(copy.stat().st_mtime))
            saved = parse(_file(copy), f"the copy of {age} in {copy}", live=False)
        except (OSError, DataError):
            return None
        return structs.replace(saved, notes=(f"{error}", *saved.notes))
    board = parse(content, address, live=True)
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        with replacing(copy) as part:
            part.write_bytes(content)
    except OSError:  # a home that cannot be written: there is no copy for a time without network
        pass
    return board


def copy_path(address: str) -> Path:
    """Return where the last answer of an address is kept: under XDG_CACHE_HOME, else ~/.cache."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = "".join(letter if letter.isalnum() else "-" for letter in address.partition("://")[2])[:100]
    return root / "snellen" / f"leaderboard-{name}.json"


def _address(place: str) -> str:
    """Return the URL of the API for a base URL or for the URL itself."""
    try:
        split = urlsplit(place)
        whole = bool(split.hostname) and split.port != 0 and not split.username and not split.password
    except ValueError:
        whole = False
    if not whole:
        raise UsageError(
            f"--leaderboard {one_line(place)!r}: an address without a password, or a file, was expected",
            f"The public one: {BASE_URL}.",
        )
    base = place.rstrip("/")
    return base if base.endswith(PATH) else base.removesuffix("/api") + PATH


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise DataError(
            f"the leaderboard cannot be read: {error}",
            f"Give a file with the answer of {BASE_URL}{PATH}, or a base URL.",
        ) from error


async def _get(address: str, timeout_s: float) -> bytes:
    """Return the body of an answer with status 200. Raises ConnectionError for anything else."""
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=timeout_s), trust_env=False
            ) as session,
            session.get(
                address, headers={"Accept": "application/json"}, proxy=find_proxy(Endpoint(address)), max_redirects=3
            ) as response,
        ):
            content = bytearray()
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > LARGEST:
                    break
            if response.status != 200:
                raise ConnectionError(f"{address} answered HTTP {response.status}")
            return bytes(content)
    except (ssl.SSLCertVerificationError, aiohttp.ClientConnectorCertificateError) as error:
        raise ConnectionError(f"the certificate of {address} is not valid: {error}") from None
    except TimeoutError:
        raise ConnectionError(f"{address} gave no whole answer within {timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if type(error) is ConnectionError:
            raise
        raise ConnectionError(f"no connection to {address}: {one_line(str(error)) or type(error).__name__}") from None


def parse(content: bytes, source: str, *, live: bool) -> PublicLeaderboard:
    """Return the leaderboard in an answer of the API; rows that are none are left out and counted.

    Raises:
        DataError: it is no JSON object with `data`, or it is larger than 32 MB.
    """
    document = json_or_none(content) if len(content) <= LARGEST else None
    rows = document.get("data") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(rows, list):
        start = one_line(content[:60].decode("utf-8", "replace"))
        raise DataError(
            f"{source}: {start!r} is no answer of EASI's leaderboard; an object with data was expected",
            f"Save {BASE_URL}{PATH} as a file, or check the address.",
        )
    entries = [entry for row in rows if (entry := _entry(row)) is not None]
    left_out = len(rows) - len(entries)
    notes = (f"{left_out:,} of {len(rows):,} rows cannot be read and are left out",) if left_out else ()
    return PublicLeaderboard(
        rows=tuple(entries),
        capability_map=_capability_map(document.get("capabilityMap")),
        updated=one_line(str(document.get("lastUpdated") or ""))[:40],
        source=source,
        live=live,
        notes=notes,
    )


def _entry(row: Any) -> LeaderboardEntry | None:
    if not isinstance(row, dict) or not isinstance(row.get("scores"), dict):
        return None
    name = row.get("displayName") or row.get("name")
    if not isinstance(name, str) or not name.strip():
        return None
    subs = row.get("subScores")
    sub_scores = {
        str(key): {str(sub): _number(value) for sub, value in values.items()}
        for key, values in (subs.items() if isinstance(subs, dict) else ())
        if isinstance(values, dict)
    }
    scores = {str(key): _number(value) for key, value in row["scores"].items()}
    return LeaderboardEntry(one_line(name.strip())[:LONGEST_NAME], scores, sub_scores)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 1e300 else None
    return number if number is not None and number == number else None


def _capability_map(content: Any) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the map; labels may be a list, or one text with several (`sr+mm`), in any case."""
    if not isinstance(content, dict):
        return {}
    return {
        str(name): {str(key): labels for key, value in keys.items() if (labels := _labels(value))}
        for name, keys in content.items()
        if isinstance(keys, dict)
    }


def _labels(value: Any) -> tuple[str, ...]:
    pieces = value.replace("+", ",").split(",") if isinstance(value, str) else value
    if not isinstance(pieces, list):
        return ()
    labels = [one_line(piece.strip().lower())[:20] for piece in pieces if isinstance(piece, str) and piece.strip()]
    return tuple(dict.fromkeys(labels))
