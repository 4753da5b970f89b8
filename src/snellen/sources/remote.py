"""Files at addresses that fsspec opens (s3://, gs://, az://, ...), copied to a bounded local cache to be read.

A copy keeps the names below its bucket, each checked as a name in an archive is. The state of a bucket says of which
version (ETag, else the time of change, and size) each file is: an unchanged file is not fetched again, and one that was
removed there is removed here. Nothing is ever written to an address.

Single files from an address of the web, checked against a known digest and kept in a folder.

Addresses of the Hugging Face hub go through its own client (`snellen.sources.hub`): its token, mirror and offline mode apply.
Other addresses are fetched with Python's own client, over verified HTTPS, with the proxies of the environment.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import msgspec
from filelock import FileLock
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.errors import DataError, MissingExtraError, StorageError, UsageError
from snellen.installation import install_hint
from snellen.redaction import register_environment
from snellen.sources.digests import cache_folder
from snellen.sources.safe_paths import member_name

SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory")
WEB = ("http", "https")
TABLES = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".arrow", ".feather", ".xlsx", ".toml")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
ARRAYS = (".npz", ".npy", ".pt", ".pth", ".safetensors", ".h5", ".hdf5")
MAX_FILES = 200_000
LIMIT_GB = "SNELLEN_REMOTE_GB"
THREADS = 16
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs"}
_PLAIN_HOST = re.compile(r"[\w.@:-]+")


class KnownFile(Struct, frozen=True, array_like=True):
    """A file as it was fetched: its version there, its size, and the time of change of the copy in nanoseconds."""

    version: str
    size: int
    changed_ns: int


Listing: TypeAlias = dict[str, tuple[str, int]]
"""Name below the bucket to (version, size)."""


def is_remote(text: str) -> bool:
    """Return True for an address of a store of objects. Those of the web are none: most options take them as servers."""
    scheme, mark, _ = text.partition("://")
    return bool(mark) and scheme.lower() in SCHEMES


def is_web_file(text: str) -> bool:
    """Return True for the address of a table, an archive or arrays on the web."""
    scheme, mark, rest = text.partition("://")
    return bool(mark) and scheme.lower() in WEB and rest.lower().endswith((*TABLES, *ARCHIVES, *ARRAYS))


def local_copy(address: str, *, beside: bool = True) -> tuple[Path, int]:
    """Copy a folder or a file, and return the local path with the number of bytes fetched now.

    Args:
        address: SCHEME://BUCKET/NAME. Keys come from the environment or the files of the service's own client.
        beside: with a table also copy what lies in its folder: its images.

    Raises:
        UsageError: a key in the address.
        MissingExtraError: the package of the scheme is not installed.
        DataError: nothing there, no access, an unsafe name, or more than 200,000 files or `SNELLEN_REMOTE_GB` (20).
        StorageError: the copy cannot be written.
    """
    scheme, host, name = _parts(address)
    register_environment(os.environ)  # a server may echo a key
    system, place = _opened(address, scheme)
    bucket = cache_folder() / "remote" / scheme / host.replace(":", "_")
    root = place[: len(place) - len(name)] if name else place.rstrip("/") + "/"
    try:
        found = dict(_listing(system, place, root, address, beside=beside))
        bucket.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{bucket}.lock"):
            fetched = _mirror(system, root, found, bucket, name, address)
    except (DataError, StorageError):
        raise
    except FileNotFoundError as error:
        raise _absent(address) from error
    except Exception as error:  # each service's client raises its own errors
        if isinstance(error, OSError) and error.filename and str(error.filename).startswith(str(bucket.parent)):
            raise StorageError(f"{error.filename} cannot be written: {error.strerror}", "Set SNELLEN_CACHE.") from error
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"{address} cannot be read: {lines[0]}",
            "Check the address, the network, and the keys in the environment or in the files of the service's client.",
        ) from error
    return bucket / name, fetched


def _parts(address: str) -> tuple[str, str, str]:
    """Return scheme, bucket or host, and the name below it."""
    scheme, _, rest = address.partition("://")
    host, _, name = rest.partition("/")
    split = urlsplit(address)
    if split.password or (split.username and scheme.lower() not in ("abfs", "abfss", "az")):
        raise UsageError(
            f"the address of {scheme}://…/{name} holds a key, which other users of this machine can read.",
            "Put keys into the environment, or the files of the service's own client.",
        )
    if not _PLAIN_HOST.fullmatch(host) or host.strip(".") == "":
        raise DataError(f"{address}: {host!r} is no bucket", "Write SCHEME://BUCKET/NAME, such as s3://bucket/runs/x.")
    name = name.rstrip("/")
    return scheme.lower(), host, member_name(name, address) if name else ""


def _opened(address: str, scheme: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        system, place = url_to_fs(address)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        raise MissingExtraError(
            f"{address}: reading it needs {package or 's3fs'}, which is not installed.",
            f"Install it: pip install {package}" if package else install_hint("fsspec"),
        ) from error
    return system, str(place)


def _listing(
    system: Any, place: str, root: str, address: str, *, beside: bool
) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the files to copy, by their names below the bucket. Raises DataError for an unsafe name or too many."""
    system.invalidate_cache()
    info = system.info(place)
    single = info.get("type") == "file"
    if single and (not beside or not place.lower().endswith(TABLES) or address.split(":")[0].lower() in WEB):
        yield _entry(info, place, root, address)
        return
    folder = place.rpartition("/")[0] if single else place
    count = 0
    for _, _, files in system.walk(folder, detail=True):
        for entry in files.values():
            count += 1
            if count > MAX_FILES:
                raise DataError(
                    f"{address}: more than {MAX_FILES:,} files would be copied",
                    "Put the table and its images into a folder of their own, or pack the images into a .zip: --images.",
                )
            yield _entry(entry, str(entry["name"]), root, address)
    if not count:
        raise _absent(address)


def _entry(info: Mapping[str, Any], place: str, root: str, address: str) -> tuple[str, tuple[str, int]]:
    known = (info.get(key) for key in ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "created"))
    size = info.get("size")
    if not isinstance(size, int):
        raise DataError(f"{address}: the server does not say the size of {place}", "Fetch it with another program.")
    name = place.removeprefix(root.rstrip("/")).lstrip("/") if not place.startswith("http") else _parts(place)[2]
    version = next((value for value in known if value is not None), "")
    version = str(version.timestamp() if isinstance(version, datetime) else version)
    return member_name(name, address), (version, size)


def _mirror(system: Any, root: str, found: Listing, bucket: Path, prefix: str, address: str) -> int:
    """Fetch what is new or changed, remove what is gone; return the number of bytes fetched."""
    state_file = bucket.with_name(bucket.name + ".json")
    try:
        state = msgspec.json.decode(state_file.read_bytes(), type=dict[str, KnownFile])
    except (OSError, msgspec.DecodeError):
        state = {}
    below = prefix + "/" if prefix else ""
    gone = [name for name in state if name.startswith(below) and name not in found]
    wanted = [
        name
        for name, (version, size) in found.items()
        if not (known := state.get(name)) or (known.version, known.size) != (version, size)
        or not (bucket / name).is_file()
    ]  # fmt: skip
    changed = next((name for name in (*wanted, *gone) if _differs(bucket / name, state.get(name))), None)
    if changed is not None:
        raise DataError(
            f"{address}: {changed} has changed there, and its copy {bucket / changed} has changed here",
            "Move the copy away, and repeat the command.",
        )
    limit = _limit()
    total = sum(size for _, size in found.values()) + sum(
        known.size for name, known in state.items() if name not in found and name not in gone
    )
    if total > limit:
        raise DataError(
            f"{address}: {total:,} bytes of its bucket would be copied; at most {limit:,} are",
            f"Name a smaller folder, remove {bucket}, or allow more with {LIMIT_GB}.",
        )

    def fetch(name: str) -> int:
        version, size = found[name]
        to = bucket / name
        to.parent.mkdir(parents=True, exist_ok=True)
        with replacing(to) as part:
            system.get_file(root.rstrip("/") + "/" + name if root else name, str(part))
            if part.stat().st_size != size:
                raise DataError(f"{address}: {name} changed while it was copied", "Repeat the command.")
        state[name] = KnownFile(version, size, to.stat().st_mtime_ns)
        return size

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            fetched = sum(pool.map(fetch, wanted))
        for name in gone:
            (bucket / name).unlink(missing_ok=True)
            del state[name]
    finally:
        with replacing(state_file) as part:
            part.write_bytes(msgspec.json.encode(state))
    return fetched


def _differs(copy: Path, known: KnownFile | None) -> bool:
    """Return True for a copy that somebody else wrote or changed since it was fetched."""
    try:
        status = copy.stat()
    except OSError:
        return False
    return known is None or (status.st_size, status.st_mtime_ns) != (known.size, known.changed_ns)


def _limit() -> int:
    text = os.environ.get(LIMIT_GB) or "20"
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{LIMIT_GB}={text} is no number.", "Write gigabytes, such as 20.") from error


def _absent(address: str) -> DataError:
    return DataError(f"there is nothing at {address}", "Check bucket and name; upper and lower case differ.")


TIMEOUT_S = 60.0
BLOCK = 1 << 20
_HUB_FILE = re.compile(r"https://huggingface\.co/datasets/([^/]+/[^/]+)/resolve/([^/]+)/([^?#]+)(?:[?#].*)?")


def is_address(text: str) -> bool:
    """Return True for an address that can be fetched."""
    return text.startswith(("https://", "http://"))


def file_name(address: str) -> str:
    """Return the last part of an address's path."""
    return urlsplit(address).path.rpartition("/")[2]


def fetch(
    addresses: Sequence[str],
    to: Path,
    *,
    check: Callable[[Path], None] = lambda path: None,
    on_size: Callable[[str, int | None], None] = lambda address, size: None,
) -> Path:
    """Fetch a file from the first address that has it.

    Args:
        addresses: tried in their order.
        to: where the file is written, in one step; a file of the hub stays in the hub client's cache.
        check: raises DataError for a file with another content than was expected.
        on_size: told the address and the number of bytes, if the server says it, before the first byte is read.

    Returns:
        The path of the file.

    Raises:
        DataError: no address has it, or its content is another one; the message lists what each address said.
    """
    faults = []
    for address in addresses:
        try:
            return _fetch(address, to, check, on_size)
        except DataError as error:
            faults.append(f"{address}: {error.message}")
    raise DataError(
        "; ".join(faults) or "no address is known", "Fetch the file in another way, and name it with --data."
    )


def _fetch(address: str, to: Path, check: Callable[[Path], None], on_size: Callable[[str, int | None], None]) -> Path:
    on_hub = _HUB_FILE.fullmatch(address)
    if on_hub is not None:
        from snellen.sources.hub import download_file

        on_size(address, None)
        path, _ = download_file(on_hub[1], on_hub[3], revision=on_hub[2])
        check(path)
        return path
    from urllib.request import Request, urlopen

    if not address.startswith("https://"):
        raise DataError("not an https address")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        request = Request(address, headers={"User-Agent": "snellen"})  # noqa: S310 - https only, see above
        with urlopen(request, timeout=TIMEOUT_S, context=ssl.create_default_context()) as reply, replacing(to) as part:  # noqa: S310
            size = reply.headers.get("Content-Length")
            on_size(address, int(size) if size is not None and size.isdigit() else None)
            with part.open("wb") as file:
                while block := reply.read(BLOCK):
                    file.write(block)
            check(part)
    except HTTPError as error:
        raise DataError(f"the server answered {error.code}") from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(f"it could not be fetched: {reason}") from error
    return to
