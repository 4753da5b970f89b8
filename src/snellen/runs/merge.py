"""Merge the parts of a run (`--shard K/N`) into one run: each sample once, whatever became of the parts.

The merged journal depends on the records alone, not on the order in which the parts are named. Merging again, with further
answers or without, starts from what the merged run holds already, so that nothing in it is lost.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from snellen.engine import journal
from snellen.engine.fingerprint import require_same
from snellen.engine.folder_checks import is_own
from snellen.engine.journal import ANSWERED, TimedRecordHead
from snellen.engine.resume import read_state
from snellen.engine.run_folder import JUDGE_RUNS, Coverage, RunFolder, RunMeta
from snellen.engine.sharding import is_shard_folder, missing_parts, parse_shard
from snellen.errors import FingerprintError, RunError, UsageError
from snellen.models.api.image_files import REGISTER, merge_registers
from snellen.runs.settings import find_benchmark
from snellen.runs.status import ENDED, is_locked, present_state
from snellen.sources.journal_lines import Damage, intact_parts, record_number, sealed
from snellen.types import Record

_COPIED = ("traces", "sessions")
_STALE = ("summary.json", "predictions.jsonl", "report.html")


class MergedPart(Struct, frozen=True):
    """A part that was merged.

    Attributes:
        path: its folder.
        shard: K/N; empty for a run that was not divided.
        state: that of its run.
        records: intact records in it.
        damage: what is wrong with its journal, one line each.
        running: a process is still writing to it.
    """

    path: Path
    shard: str
    state: str
    records: int
    damage: tuple[str, ...] = ()
    running: bool = False


class MergedRun(Struct, frozen=True):
    """Result of a merge: the run, its parts, and the parts K/N that were not there."""

    folder: Path
    meta: RunMeta
    parts: tuple[MergedPart, ...]
    missing: tuple[str, ...]


class _Source(NamedTuple):
    folder: RunFolder
    meta: RunMeta


class _Place(NamedTuple):
    """A record by its time of completion, sample and repeat, and where it lies."""

    finished_at: float
    sample_id: str
    repeat: int
    answered: bool
    source: int
    at: int


def merge_runs(out: str | Path, shards: Sequence[str | Path] = ()) -> MergedRun:
    """Merge parts of a run into the folder `out`.

    Args:
        out: the folder of the merged run; it may hold an earlier merge of the same run.
        shards: folders of parts, or folders that hold parts; none: the parts in `out`.

    Raises:
        UsageError: no parts, a judge's run, an adaptive benchmark, or parts with different limits.
        FingerprintError: parts of different runs, with the differences.
        RunError: a folder is no run, or cannot be read.
        RunLockedError: another process writes to `out`.
        StorageError: `out` cannot be written.
    """
    target = RunFolder(out)
    sources = [_Source(folder, folder.meta()) for folder in _folders(target.path, [Path(shard) for shard in shards])]
    first = sources[0]
    for source in sources[1:]:
        try:
            require_same(first.folder, source.meta.identity)
        except FingerprintError as error:
            lines = error.message.partition("\n")[2]
            raise FingerprintError(
                f"{source.folder.path} is no part of the same run as {first.folder.path}:\n{lines}",
                "Merge parts of one command only; they differ in --shard alone.",
            ) from error
    _require_divisible([source.meta for source in sources], first.folder)
    if target.exists():
        earlier = target.meta()
        if earlier.spec.shard:
            raise UsageError(
                f"{target.path} is part {earlier.spec.shard} itself.", "Name another folder for the merged run."
            )
        require_same(target, first.meta.identity)
        all_sources = [*sources, _Source(target, earlier)]
    else:
        all_sources = sources
    with target.locked():
        parts: list[MergedPart] = []
        places: dict[tuple[str, int], _Place] = {}
        for number, source in enumerate(all_sources):
            damage = Damage(source.folder.results, journal.expected_last(source.folder.results))
            records = 0
            for place in _places(source.folder.results, number, damage):
                records += 1
                name = (place.sample_id, place.repeat)
                if name not in places or _replaces(place, places[name]):
                    places[name] = place
            if source.folder.path != target.path:
                parts.append(
                    MergedPart(
                        source.folder.path,
                        source.meta.spec.shard,
                        present_state(source.folder.path, source.meta),
                        records,
                        tuple(damage.faults) if damage else (),
                        is_locked(source.folder.path),
                    )
                )
        chosen = sorted(places.values(), key=lambda place: (place.finished_at, place.sample_id, place.repeat))
        _write(target, chosen, [source.folder for source in all_sources])
        for source in sources:
            _copy_folders(source.folder.path, target.path, source.meta.spec.shard)
        try:
            merge_registers([source.folder.path for source in all_sources], target.path)
        except OSError as error:
            raise journal.storage_error(target.path / REGISTER, error) from error
        for stale in _STALE:
            (target.path / stale).unlink(missing_ok=True)
        meta, missing = _merged_meta(target, [source.meta for source in all_sources], parts, len(chosen))
        target.write_meta(meta, own=all(is_own(source.meta) for source in all_sources))
    return MergedRun(target.path, meta, tuple(parts), missing)


def _folders(out: Path, named: Sequence[Path]) -> list[RunFolder]:
    """Return the folders of parts, each once; a folder without a run stands for the parts in it."""
    paths: list[Path] = []
    for path in named or (out,):
        if (path / "run_meta.json").is_file() and path.resolve() != out.resolve():
            paths.append(path)
            continue
        try:
            inside = sorted(child for child in path.iterdir() if is_shard_folder(child))
        except OSError:
            inside = []
        if not inside:
            raise _no_parts(path, out, is_named=bool(named))
        paths += [child for child in inside if (child / "run_meta.json").is_file()]
    unique = {path.resolve(): path for path in paths}
    if not unique:
        raise RunError(f"no part in {', '.join(map(str, named or (out,)))} has a run_meta.json yet.", "Run the parts.")
    folders = [RunFolder(path) for path in unique.values()]
    return sorted(folders, key=lambda folder: (_order(folder), str(folder.path)))


def _no_parts(path: Path, out: Path, *, is_named: bool) -> RunError | UsageError:
    """Return the error of a folder in which there is no part."""
    if not (path / "run_meta.json").is_file():
        return RunError(
            f"there is no part of a run in {path}: it has neither a run_meta.json nor folders shard-K-of-N",
            "Name the folders of the parts: snellen merge OUT PART...",
        )
    if is_named:  # a run that is not OUT is a part itself
        return UsageError(
            f"{out} is OUT, the folder of the merged run, and cannot be a part of it; it holds no folders shard-K-of-N.",
            f"Name another folder for the merged run: snellen merge OUT {path}",
        )
    return UsageError(
        f"{path} is a run in which there are no parts: it has no folders shard-K-of-N.",
        f"Name the folders of the parts: snellen merge {path} PART...",
    )


def _order(folder: RunFolder) -> tuple[int, int]:
    shard = folder.meta().spec.shard
    parsed = parse_shard(shard) if shard else None
    return (0, 0) if parsed is None else (parsed.count, parsed.number)


def _require_divisible(metas: Sequence[RunMeta], folder: RunFolder) -> None:
    spec = metas[0].spec
    if spec.benchmark in JUDGE_RUNS:
        raise UsageError(
            f"{folder.path} holds the verdicts of a judge, which belong to one run.",
            "Merge the runs, then judge the merged one: snellen judge OUT",
        )
    if find_benchmark(spec, folder, trust=is_own(metas[0])).grow is not None:
        raise UsageError(
            f"{spec.benchmark} chooses each question by the answers before it, so that its runs cannot be merged.",
            "Report each run by itself; compare runs with other seeds.",
        )
    limits = {meta.coverage.limit for meta in metas}
    if len(limits) > 1:
        named = " and ".join(sorted("none" if limit is None else f"{limit:,}" for limit in limits))
        raise UsageError(
            f"the parts were run with different limits (--limit {named}).",
            "Run all parts again with the same --limit; answered samples are not asked again.",
        )


def _places(results: Path, source: int, damage: Damage) -> Iterator[_Place]:
    """Yield the place of every intact record of a journal."""
    for at, head in journal.placed(results, TimedRecordHead, damage, record_type=Record):
        yield _Place(head.finished_at, head.sample_id, head.repeat, head.status in ANSWERED, source, at)


def _replaces(new: _Place, old: _Place) -> bool:
    """Return True if a record counts in place of another one of its sample: answers first, then the first answer.

    Of two failures the later one counts, as in one journal.
    """
    if new.answered != old.answered:
        return new.answered
    return (new.finished_at < old.finished_at) == new.answered and new.finished_at != old.finished_at


def _write(target: RunFolder, chosen: Sequence[_Place], folders: Sequence[RunFolder]) -> None:
    """Write the merged journal by rename: the records as they stand, numbered anew."""
    from snellen.atomic_write import replacing

    opened = [folder.results.open("rb") if folder.results.exists() else None for folder in folders]
    try:
        with replacing(target.results) as part, part.open("wb") as file:
            for number, place in enumerate(chosen, 1):
                source = opened[place.source]
                assert source is not None  # noqa: S101 - the record was read from it
                source.seek(place.at)
                file.write(sealed(_content(source.readline()), number))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise journal.storage_error(target.results, error) from error
    finally:
        for source in opened:
            if source is not None:
                source.close()


def _content(line: bytes) -> bytes:
    """Return the record at the start of a line, which may hold more than it."""
    if record_number(line) is not None:
        return line
    first = next((end for start, end in intact_parts(line) if start == 0), None)
    return line.rstrip(b"\n") if first is None else line[:first] + b"\n"


def _copy_folders(part: Path, out: Path, shard: str) -> None:
    """Copy traces and sessions of a part; a trace's file is named after its part."""
    prefix = f"{parse_shard(shard).folder_name}-" if shard else f"{part.name}-"
    try:
        for name in _COPIED:
            if (part / name).is_dir() and name == "sessions":
                shutil.copytree(part / name, out / name, dirs_exist_ok=True, symlinks=True, ignore=_no_files)
            elif (part / name).is_dir():
                (out / name).mkdir(exist_ok=True)
                for path in sorted((part / name).glob("*.jsonl")):
                    shutil.copyfile(path, out / name / f"{prefix}{path.name}", follow_symlinks=False)
    except OSError as error:
        raise journal.storage_error(out, error) from error


def _no_files(folder: str, names: Sequence[str]) -> list[str]:
    """Return the pipes, sockets and devices in a folder: an agent may leave them in its session, and they cannot be copied."""
    modes = {name: Path(folder, name).lstat().st_mode for name in names}
    return [
        name for name, mode in modes.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]


def _merged_meta(
    target: RunFolder, metas: Sequence[RunMeta], parts: Sequence[MergedPart], records: int
) -> tuple[RunMeta, tuple[str, ...]]:
    """Return the meta of the merged run, and the parts K/N that were not there."""
    first = metas[0]
    shards = list(dict.fromkeys(part.shard for part in parts))
    earlier = [shard for meta in metas if not meta.spec.shard for shard in meta.coverage.shards]
    divided = sorted({*filter(None, [*shards, *earlier])}, key=lambda text: parse_shard(text))
    whole = any(not meta.spec.shard and not meta.coverage.shards for meta in metas)
    missing = () if whole else tuple(missing_parts(divided))
    totals, _ = read_state(target, Damage(target.results))
    sound = all(part.state in ENDED and not part.damage and not part.running for part in parts)
    limit, size = first.coverage.limit, first.coverage.of
    expected = [count for count in (limit, size) if count is not None]
    counted = bool(expected) and records >= min(expected) * first.spec.repeats
    seconds = sum(meta.totals.seconds for meta in metas if meta.spec.shard) or first.totals.seconds
    meta = structs.replace(
        first,
        coverage=Coverage(limit, size, tuple(divided) if missing else ()),
        spec=structs.replace(first.spec, shard=""),
        totals=structs.replace(totals, seconds=round(seconds, 3)),
        state="complete" if not missing and (counted or (sound and not expected)) else "partial",
        records=records,
    )
    return meta, missing
