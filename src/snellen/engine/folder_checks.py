"""Checks of a run folder that may come from another user: its owner's mark, its files, and the values of its meta.

A link in such a folder would lead a read or a write to any file of the user, so only regular files are read and written.

The owner's mark in run_meta.json tells this user's runs from those of others. A key of 32 random bytes lies in the user's
data folder, readable by this user alone. The mark is a keyed digest over what a run folder can make this machine read or
contact. A folder that was made or changed elsewhere has no valid mark. Nothing breaks without one: such a folder is read
under the rules of snellen.runs.trust.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from snellen.errors import RunError
from snellen.models.base import AGENT_LIMITS, DEFAULTS

if TYPE_CHECKING:
    from snellen.engine.run_folder import RunMeta

META_BYTES = 64 << 20
INT64 = 1 << 63
MOST_REPEATS = 1_000_000
FILES = (
    *("run_meta.json", "results.jsonl", "results.damaged", "summary.json", "predictions.jsonl"),
    *("report.html", "verdicts.jsonl", "failures.jsonl", "reviews.jsonl", "audit_sample.json"),
    *("batches.jsonl", "uploads.jsonl", ".lock", ".reviews.lock", ".writer"),
)
FOLDERS = ("traces", "exports", "sessions", "raw_judge_inputs", "raw_judge_outputs", "batches")
LISTED = ("traces", "raw_judge_inputs", "raw_judge_outputs", "batches")
"""Folders whose entries are checked too."""
KEY_BYTES = 32
KEY_FILE = "run-owner.key"
NOT_OWN = "a folder that this user's Snellen did not write"
_keys: dict[Path, bytes] = {}


def check_files(folder: Path) -> None:
    """Check the entries of a run folder; a folder that is not there has nothing to check.

    Raises:
        RunError: an entry is a symbolic link, or a file of a run is a folder, a pipe or a device.
    """
    for place in (folder, *(folder / name for name in LISTED)):
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    _check_entry(folder, place, entry)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise RunError(f"{place} cannot be read: {error.strerror or error}", "Check its permissions.") from error


def check_below(folder: Path) -> None:
    """Check a folder that a run's files are written to, and all folders in it.

    Raises:
        RunError: it is a symbolic link, or holds one.
    """
    if folder.is_symlink():
        _refuse_link(folder)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if (path := Path(place, name)).is_symlink():
                _refuse_link(path)


def _refuse_link(path: Path) -> None:
    raise RunError(
        f"{path} is a symbolic link; a run's files are read and written only in the run's own folder",
        f"Replace the link by the file it leads to, if you made it: cp --remove-destination \"$(readlink -f '{path}')\" '{path}'",
    )


def _check_entry(folder: Path, place: Path, entry: os.DirEntry[str]) -> None:
    mode = entry.stat(follow_symlinks=False).st_mode
    path = place / entry.name
    if stat.S_ISLNK(mode):
        _refuse_link(path)
    top = place == folder
    known_file = (top and (entry.name in FILES or entry.name.endswith(".part"))) or (not top)
    if known_file and not stat.S_ISREG(mode) and not (not top and stat.S_ISDIR(mode)):
        raise RunError(f"{path} is {kind_of(mode)}; expected a regular file", "Move it away, or restore the file.")
    if top and entry.name in FOLDERS and not stat.S_ISDIR(mode):
        raise RunError(f"{path} is {kind_of(mode)}; expected a folder", "Move it away, or restore the folder.")


def kind_of(mode: int) -> str:
    """Describe the kind of file that a mode stands for."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFREG: "a file",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def check_values(meta: RunMeta, path: Path) -> RunMeta:
    """Return the meta itself if its numbers can be those of a run.

    Raises:
        RunError: a count is negative, or larger than any run's.
    """
    spec, coverage, totals = meta.spec, meta.coverage, meta.totals
    counts = {
        "spec.limit": spec.limit,
        "spec.repeats": spec.repeats,
        "coverage.limit": coverage.limit,
        "coverage.of": coverage.of,
        "totals.ok": totals.ok,
        "totals.error": totals.error,
        "totals.timeout": totals.timeout,
        "totals.refused": totals.refused,
        "totals.input_tokens": totals.input_tokens,
        "totals.output_tokens": totals.output_tokens,
        "totals.cached": totals.cached,
        "totals.cached_tokens": totals.cached_tokens,
        "totals.cache_write_tokens": totals.cache_write_tokens,
        "totals.oversized_images": totals.oversized_images,
        "totals.cut_off": totals.cut_off,
        **{f"totals.uncounted.{name}": count for name, count in totals.uncounted.items()},
        **(
            {}
            if totals.empty is None
            else {"totals.empty": totals.empty.count, "totals.empty.cut": totals.empty.cut_off}
        ),
        "records": meta.records,
    }
    wrong = [name for name, value in counts.items() if value is not None and not 0 <= value < INT64]
    if not 1 <= spec.repeats <= MOST_REPEATS:
        wrong.append("spec.repeats")
    if not -INT64 <= spec.data.seed < INT64:
        wrong.append("spec.data.seed")
    if spec.subset is not None and spec.subset.fault():
        wrong.append("spec.subset")
    if wrong:
        raise RunError(
            f"{path}: {wrong[0]} is out of range",
            "The file was edited by hand; restore it, or start a new run with --out.",
        )
    return meta


def key_path() -> Path:
    """Return the key's file in SNELLEN_DATA, else XDG_DATA_HOME/snellen, else ~/.local/share/snellen."""
    own = os.environ.get("SNELLEN_DATA")
    if own:
        return Path(own) / KEY_FILE
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")  # noqa: PTH111 - no error without a home
    return Path(base) / "snellen" / KEY_FILE


def owner_mark(meta: RunMeta) -> str:
    """Compute the owner's mark of a run; empty if the user's key can neither be read nor made."""
    key = _key(key_path(), create=True)
    return "" if key is None else blake2b(_covered(meta), key=key, digest_size=16).hexdigest()


def is_own(meta: RunMeta) -> bool:
    """Return True if this user's Snellen wrote what the mark covers."""
    key = _key(key_path(), create=False) if meta.owner else None
    if key is None:
        return False
    return hmac.compare_digest(
        meta.owner.encode(), blake2b(_covered(meta), key=key, digest_size=16).hexdigest().encode()
    )


def seal_own(content: bytes) -> str:
    """Compute a mark that only this user's Snellen can make, for files that are made from runs and read again."""
    key = _key(key_path(), create=True)
    return blake2b(content, key=key or b"", digest_size=16, person=b"made-from-runs").hexdigest()


def _covered(meta: RunMeta) -> bytes:
    """Return the parts of a run that lead to an import, a file or the network, in one form for all versions."""
    spec, options = meta.spec, meta.spec.options
    parts = {
        "benchmark": spec.benchmark,
        "model": spec.model,
        "path": None if spec.data.path is None else str(spec.data.path),
        "images": None if spec.data.images is None else str(spec.data.images),
        "options": dict(spec.data.options),
        "places": dict(meta.places),
        "base_url": options.base_url,
        "key_env": options.key_env,
        "extra_body": dict(options.extra_body),
        "agent_model": options.agent_model,
        "sandbox": options.sandbox,
        "sif": options.sif,
        "tools": options.tools,
        "prices": options.prices,
        "ray": spec.ray,
        "data": meta.identity.get("data"),
    }
    # Only where they are set, so that runs from before there were these options stay their owner's.
    for name in ("agent_network", "agent_config", "agent_bin", *AGENT_LIMITS):
        if getattr(options, name) != getattr(DEFAULTS, name):
            parts[name] = getattr(options, name)
    if options.engine_args:
        parts["engine_args"] = dict(options.engine_args)
    if options.adapter is not None:
        parts["adapter"] = options.adapter
    if spec.few_shot_from is not None:
        parts["few_shot_from"] = spec.few_shot_from
    if options.media.mask:
        parts["mask"] = options.media.mask
    return msgspec.json.encode(parts, order="deterministic", enc_hook=str)


def _key(path: Path, *, create: bool) -> bytes | None:
    """Read the key in a file, or make it; None if neither works. A missing key is looked for again."""
    if (key := _keys.get(path)) is None and (key := _read_or_made(path, create=create)) is not None:
        _keys[path] = key
    return key


def _read_or_made(path: Path, *, create: bool) -> bytes | None:
    try:
        return _read(path)
    except FileNotFoundError:
        if not create:
            return None
    except OSError:
        return None
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        try:
            os.link(part, path)  # of several first runs at once a single key stays
        except FileExistsError:
            pass
        finally:
            part.unlink(missing_ok=True)
        return _read(path)
    except OSError:
        return None


def _read(path: Path) -> bytes | None:
    data = path.read_bytes()
    return data if len(data) == KEY_BYTES else None
