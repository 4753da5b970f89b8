"""A judged run whose source has got further answers: the verdicts that were given stay, and only what is new is asked."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.engine import fingerprint, journal
from snellen.engine.folder import RunFolder
from snellen.engine.journal import storage_error
from snellen.engine.ownership import is_own
from snellen.types import Record


class _Named(Struct, frozen=True, gc=False):
    sample_id: str
    repeat: int = 0


def go_on(judged: RunFolder, source: RunFolder, identity: Callable[[RunFolder], Mapping[str, Any]]) -> bool:
    """Let a judged run stand for the source as it is now, where that has only got longer since it was judged.

    A journal is only ever appended to. So the source has merely grown if some beginning of its journal has the digest
    that was judged, and the judge's questions about that beginning are those that were asked. What was answered (or has
    failed again) behind it loses its empty verdict; everything else is kept. Done in an order that a crash does not hurt.

    Args:
        judged: the folder of the verdicts; nothing is done where there is no run in it.
        source: the judged run.
        identity: what the judged run's meta would say was run, if the source were the folder that it is given.

    Returns:
        Whether the judged run was changed. Where not, the engine compares the identities as ever.

    Raises:
        RunLockedError: somebody is judging. StorageError: it cannot be written.
    """
    if not judged.exists() or not source.results.exists():
        return False
    recorded = str(judged.meta().identity.get("data", "")).partition(" ")[0]
    end, later = _since(source.results, recorded)
    if end is None or not later:
        return False
    with judged.locked():
        meta = judged.meta()
        if not _same_then(source, end, identity, meta.identity):
            return False
        journal.mend(judged.results, Record, without=later)
        now = dict(identity(source))
        records = journal.last_number(judged.results)
        changed = structs.replace(
            meta, identity=now, fingerprint=fingerprint.digest(now), state="partial", records=records
        )
        judged.write_meta(changed, own=is_own(meta))
    return True


def _since(path: Path, recorded: str) -> tuple[int | None, set[str]]:
    """Where the beginning with this digest ends, in bytes (None: there is none), and whose records come behind it."""
    name_of = msgspec.json.Decoder(_Named).decode
    whole, end, found = sha256(), 0, None
    later: set[str] = set()
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):  # torn: no record yet
                break
            if found is not None:
                try:
                    head = name_of(line)
                except journal.NOT_JSON:  # the engine says so
                    continue
                later.add(head.sample_id if head.repeat == 0 else f"{head.sample_id}#{head.repeat}")
                continue
            whole.update(line)
            end += len(line)
            if recorded == f"sha256:{whole.hexdigest()}":
                found = end
    return found, later


def _same_then(
    source: RunFolder, end: int, identity: Callable[[RunFolder], Mapping[str, Any]], before: Mapping[str, Any]
) -> bool:
    """Whether judging the source as it was then would be the experiment that was begun: rubric, judge, wording and all."""
    with tempfile.TemporaryDirectory(prefix="snellen-judged-") as place:
        earlier = RunFolder(place)
        try:
            meta = source.meta()
            earlier.write_meta(structs.replace(meta, records=None), own=is_own(meta))
            shutil.copyfile(source.results, earlier.results)
            os.truncate(earlier.results, end)
        except OSError as error:
            raise storage_error(Path(place), error) from error
        return not any(fingerprint.differences(before, identity(earlier)))
