"""Extending a judged run after its source run has grown or was mended; existing verdicts are kept."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.engine import fingerprint, journal
from snellen.engine.folder_checks import is_own
from snellen.engine.journal import RecordHead, TimedRecordHead, storage_error
from snellen.engine.run_folder import READ, RunFolder
from snellen.runs.judge.benchmark import RAW_FILE, RAW_INPUTS, written_text
from snellen.sources.journal_lines import bounded_lines
from snellen.types import Record, Sample


class _Asked(Struct, frozen=True, gc=False):
    sample_id: str
    attempt: int
    text: str
    system: str | None = None


def extend_judged(
    judged: RunFolder,
    source: RunFolder,
    identity: Callable[[RunFolder], Mapping[str, Any]],
    questions: Callable[[], Iterable[Sample]],
) -> bool:
    """Make a judged run fit its source as it is now, if that has only grown or was mended since it was judged.

    A journal is only ever appended to. So the source has merely grown if some beginning of its journal has the digest
    that was judged, and the judge's questions about that beginning are those that were asked. What was answered (or has
    failed again) behind it loses its empty verdict; everything else is kept. Done in an order that a crash does not hurt.

    A journal that was damaged and mended has no such beginning. Then a verdict is kept if its answer is older than it and
    the judge's question about that answer is the question on record in raw_judge_inputs. So it is with readings of replies
    that other rules left unread.

    Args:
        judged: the folder of the verdicts; nothing is done where there is no run in it.
        source: the judged run.
        identity: what the judged run's meta would say was run, if the source were the folder that it is given.
        questions: the judge's questions about the source as it is now.

    Returns:
        Whether the judged run was changed. Where not, the engine compares the identities as ever.

    Raises:
        RunLockedError: somebody is judging. StorageError: it cannot be written.
    """
    if not judged.exists() or not source.results.exists():
        return False
    recorded = str(judged.meta().identity.get("data", "")).partition(" ")[0]
    end, later = _since(source.results, recorded)
    unchanged = end is not None and not later
    if unchanged and judged.meta().spec.benchmark != READ:
        return False
    with judged.locked():
        meta = judged.meta()
        if unchanged and not any(fingerprint.differences(meta.identity, identity(source))):
            return False
        if end is None or unchanged:
            if not _same_but_for_answers(meta.identity, identity(source)):
                return False
            standing, later = _verdicts_that_still_hold(judged, source, questions())
            if not standing:
                return False
        elif not _same_then(source, end, identity, meta.identity):
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
    """Find the end in bytes of the beginning with this digest (None: none), and the records behind it."""
    name_of = msgspec.json.Decoder(RecordHead).decode
    hasher, end, judged_end = sha256(), 0, None
    later: set[str] = set()
    with path.open("rb") as file:
        for line in bounded_lines(file, path):
            if not line.endswith(b"\n"):  # torn: no record yet
                break
            if judged_end is not None:
                try:
                    head = name_of(line)
                except journal.NOT_JSON:  # the engine says so
                    continue
                later.add(head.name)
                continue
            hasher.update(line)
            end += len(line)
            if recorded == f"sha256:{hasher.hexdigest()}":
                judged_end = end
    return judged_end, later


def _same_but_for_answers(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return True if two judged runs differ in the judged answers alone: rubric and judge are the same.

    Which answers a reader is asked about depends on the rules of this version too.
    """
    rubric_before, rubric_now = (
        str(data_identity.get("data", "")).partition(" ")[2] for data_identity in (before, now)
    )
    changed = {name for name, _, _ in fingerprint.differences(before, now)}
    return bool(changed) and changed <= {"data", "prompts"} and rubric_before == rubric_now


def _verdicts_that_still_hold(
    judged: RunFolder, source: RunFolder, questions: Iterable[Sample]
) -> tuple[set[str], set[str]]:
    """Return the names of verdicts about the source's present answers, and of all other verdicts.

    A verdict on which no judge was asked (no answer, or a rule decided) is among the others: it is made again at no cost.
    """
    answered_at = {head.name: head.finished_at for head in journal.intact(source.results, TimedRecordHead)}
    digests = {
        line.sample_id: _digest(line.system or "", line.text)
        for line in journal.intact(judged.path / RAW_INPUTS / RAW_FILE, _Asked)
        if line.attempt == 1
    }
    same = {
        sample.id
        for sample in questions
        if digests.get(sample.id) == _digest(sample.prompt.system or "", written_text(sample.prompt))
    }
    names, standing = set(), set()
    for record in journal.intact(judged.results, TimedRecordHead):
        names.add(record.sample_id)
        if record.sample_id in same and answered_at.get(record.sample_id, inf) <= record.started_at:
            standing.add(record.sample_id)
        else:
            standing.discard(record.sample_id)
    return standing, names - standing


def _digest(*texts: str) -> bytes:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest()


def _same_then(
    source: RunFolder, end: int, identity: Callable[[RunFolder], Mapping[str, Any]], before: Mapping[str, Any]
) -> bool:
    """Return True if judging the source as it was then is the same experiment: rubric, judge and wording."""
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
