"""Owner's mark in run_meta.json: distinguishes this user's runs from those of another user.

A key of 32 random bytes lies in the user's data folder, readable by this user alone. The mark is a keyed digest over what a
run folder can make this machine read or contact. A folder that was made or changed elsewhere has no valid mark. Nothing
breaks without one: such a folder is read under the rules of snellen.runs.trust.
"""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from snellen.models.base import AGENT_LIMITS, DEFAULTS

if TYPE_CHECKING:
    from snellen.engine.run_folder import RunMeta

KEY_BYTES = 32
KEY_FILE = "run-owner.key"
NOT_OWN = "a folder that this user's Snellen did not write"
_keys: dict[Path, bytes] = {}


def key_path() -> Path:
    """Return the key's file in SNELLEN_DATA, else XDG_DATA_HOME/snellen, else ~/.local/share/snellen."""
    own = os.environ.get("SNELLEN_DATA")
    if own:
        return Path(own) / KEY_FILE
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")  # noqa: PTH111 - no error without a home
    return Path(base) / "snellen" / KEY_FILE


def mark(meta: RunMeta) -> str:
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
    if spec.few_shot_from is not None:
        parts["few_shot_from"] = spec.few_shot_from
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
