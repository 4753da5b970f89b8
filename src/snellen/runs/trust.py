"""Trust in a run folder: the parts of a run_meta.json that are followed if another user may have written it.

A run that this user's Snellen wrote (snellen.engine.folder_checks) is followed as it stands, but for two matters that always need
the user's word: code named `module:ATTRIBUTE`, and the endpoint or key variable of a rerun (snellen.engine.endpoints). Of
any other run these are refused, each with the option that allows it:

- data outside of the run folder whose digest is not the one that the run recorded,
- data on the hub that no benchmark of Snellen is published as,
- what a rerun would read, start or connect to.

Images outside of such a run's folder are not shown in reports, pages and exports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.data_paths import OPTION, candidates, is_guess, looks_like_path, same_questions, table_places
from snellen.engine.folder_checks import is_own
from snellen.engine.run_folder import RunFolder, RunMeta, RunSpec
from snellen.errors import DataError, UntrustedRunError
from snellen.sources.hub import HUB
from snellen.types import Image, Part, Sample, Video

PRESENT_PLACE = "Pass its present place: --data PATH."
TRUST = "If you trust the author of this run, add --trust (in Python: trust=True)."


def guarded(benchmark: Benchmark, folder: RunFolder, meta: RunMeta, *, trust: bool) -> Benchmark:
    """Return the benchmark of a run, which reads the recorded data only if that may be read.

    Data that the user names (--data, --images) is read as it is. The checks are made once, when samples are first asked for.

    Args:
        benchmark: the benchmark that the run names.
        folder, meta: the run; its data paths as `data_paths.located` gives them.
        trust: the user said that the folder's author is trusted.
    """
    recorded = meta.spec.data
    free = trust or is_own(_as_written(folder, meta))

    @cache
    def check() -> None:
        _check_places(benchmark, folder, meta, free=free)

    outside = {name: place for name, place in _places(recorded, meta).items() if not _within(folder.path, place)}

    def used(data: Data) -> bool:
        now = _places(data, meta)
        return any(now.get(name) == place for name, place in outside.items())

    def when_checked(data: Data) -> None:
        if data == recorded:
            require_table(folder, meta)
            check()

    def samples(data: Data) -> Iterator[Sample]:
        when_checked(data)
        rows = benchmark.samples(data)
        return rows if free or not used(data) else map(_without_images, rows)

    def counted(data: Data) -> int | None:
        when_checked(data)
        return benchmark.size(data)

    def digest(data: Data) -> str:
        if data == recorded:
            require_table(folder, meta)
        return benchmark.digest(data)

    whole = replace(benchmark, samples=samples, size=counted)
    # Only then: a digest is compared by identity with that of benchmarks without data.
    return replace(whole, digest=digest) if gone_table(meta) else whole


def benchmark_of(folder: RunFolder, meta: RunMeta, *, trust: bool) -> Benchmark:
    """Return the registered benchmark that a run names, guarded.

    Raises:
        UntrustedRunError: it names code (`module:ATTRIBUTE`) or a folder, and is not trusted with it.
        UsageError: there is no such benchmark.
    """
    found = as_asked(find_named(meta.spec.benchmark, folder, trust=trust), meta.spec)
    return guarded(found, folder, meta, trust=trust)


def as_asked(benchmark: Benchmark, spec: RunSpec) -> Benchmark:
    """Return the benchmark with its samples as a run asks them: under its control, and with the schema of their replies."""
    if spec.control:
        from snellen.benchmarks.controls import controlled

        benchmark = controlled(benchmark, spec.control)
    if spec.schema:
        from snellen.benchmarks.structured import structured

        benchmark = structured(benchmark, spec.schema)
    return benchmark


def find_named(name: str, folder: RunFolder | None, *, trust: bool) -> Benchmark:
    """Find the benchmark with the name that a run folder gives.

    Raises:
        UntrustedRunError: it is code to import, or a data set of the hub, and the folder is not trusted with it.
        UsageError: there is no such benchmark.
    """
    if registry.is_code(name) and not trust:
        where = "the run" if folder is None else folder.meta_path
        raise UntrustedRunError(
            f"{where} names the benchmark {name!r}: Python code to import, and a run folder may be somebody else's",
            f"{TRUST} That module is then imported and run.",
        )
    hub = registry.as_hub(name)
    if hub.startswith(HUB) and folder is not None and not (trust or is_own(folder.meta())):
        _require_published(folder, hub)  # its eval.yaml would be fetched
    return registry.find(name)


def _require_published(folder: RunFolder, place: str) -> None:
    """Raise UntrustedRunError if a place on the hub is not the repository of a benchmark of Snellen."""
    if place[len(HUB) :].partition("@")[0] not in published_repositories():
        raise UntrustedRunError(
            f"{folder.meta_path} names the data {place!r}, which is not the repository of a benchmark of Snellen",
            f"{TRUST} It is then fetched from the hub. Or name the data yourself: --data.",
        )


def _as_written(folder: RunFolder, meta: RunMeta) -> RunMeta:
    """Return the meta on disk, which the owner's mark covers: `meta` may have other paths."""
    return folder.meta() if folder.exists() else meta


def _places(data: Data, meta: RunMeta) -> dict[str, Path]:
    named = {"path": data.path, "images": data.images}
    places = {name: path for name, path in named.items() if path is not None}
    places |= {OPTION + name: Path(value) for name, value in data.options.items() if looks_like_path(value)}
    if registry.is_path(meta.spec.benchmark):
        places["benchmark"] = Path(meta.spec.benchmark)
    return places


def _within(folder: Path, place: Path) -> bool:
    top, real = os.path.realpath(folder), os.path.realpath(place)
    return real == top or real.startswith(top + os.sep)


def gone_table(meta: RunMeta) -> bool:
    """Return True if the run's benchmark is a table or folder of this machine that does not exist any more."""
    name = meta.spec.benchmark
    is_own = meta.spec.data.path is None and Path(name).is_absolute() and registry.is_table(name)
    return is_own and not registry.is_there(name)


def require_table(folder: RunFolder, meta: RunMeta) -> None:
    """Raise DataError if the table that the run was asked from is gone (`located` has searched above the run)."""
    if gone_table(meta):
        looked = dict.fromkeys([meta.spec.benchmark, *map(str, table_places(folder, Path(meta.spec.benchmark)))])
        raise DataError(f"{folder.path}: the run's data was not found; searched {', '.join(looked)}", PRESENT_PLACE)


def _check_places(benchmark: Benchmark, folder: RunFolder, meta: RunMeta, *, free: bool) -> None:
    data = meta.spec.data
    outside = {name: place for name, place in _places(data, meta).items() if not _within(folder.path, place)}
    for name, place in outside.items():
        if str(place).startswith(HUB):
            if not free:
                _require_published(folder, str(place))
        elif name == "path" and not place.exists():  # images may be gone: answers are scored without them
            looked = dict.fromkeys(map(str, candidates(folder.path, place, meta.places.get(name))))
            raise DataError(
                f"{folder.path}: the run's data was not found; searched {', '.join(looked)}",
                PRESENT_PLACE,
            )
    local = {name: place for name, place in outside.items() if not str(place).startswith(HUB)}
    recorded = meta.identity.get("data")
    if not local or (free and not is_guess(_as_written(folder, meta), data)):
        return
    now = benchmark.digest(data)
    if same_questions(recorded, now) or (free and recorded == ""):  # 0.1 gave plug-ins without a digest none
        return
    name, place = next(iter(local.items()))
    if free:
        raise DataError(
            f"{folder.path}: the data at {place} is not that of this run (digest {now}; the run's is {recorded})",
            f"Pass the run's data: {_option(name)} PATH.",
        )
    raise UntrustedRunError(
        f"{folder.meta_path} names {place}, outside of the run's folder, and the data there is not that of the run",
        f"Pass the run's data: {_option(name)} PATH. {TRUST}",
    )


def _option(name: str) -> str:
    if name == "benchmark":
        return "--benchmark"
    return {"path": "--data", "images": "--images"}.get(name) or f"-o {name.removeprefix(OPTION)}="


@cache
def published_repositories() -> frozenset[str]:
    """Return the data sets on the hub of Snellen's own benchmarks, `owner/name`."""
    from snellen.benchmarks.fgbmk import locate as fgbmk
    from snellen.benchmarks.fika import locate as fika
    from snellen.benchmarks.spatial.tasks import EVERY
    from snellen.benchmarks.vlm2 import locate as vlm2

    return frozenset({fgbmk.REPOSITORY, fika.REPOSITORY, vlm2.REPOSITORY, *(task.hub for task in EVERY.values())})


class WithheldBlob(Struct, frozen=True):
    """An image outside an untrusted run's folder: it has a name and is never read."""

    key: str
    quick: ClassVar[bool] = True

    def read(self) -> bytes:
        """Raise DataError, always."""
        raise DataError(
            "outside of the run's folder, which this user's Snellen did not write; show it with --images PATH or --trust",
            "Name the data yourself with --data or --images, or add --trust.",
        )


def _without_images(sample: Sample) -> Sample:
    parts = tuple(_withheld(part) for part in sample.prompt.parts)
    return structs.replace(sample, prompt=structs.replace(sample.prompt, parts=parts))


def _withheld(part: Part) -> Part:
    if isinstance(part, Image):
        return Image(WithheldBlob(part.blob.key))
    if isinstance(part, Video):
        blob = None if part.blob is None else WithheldBlob(part.blob.key)
        return structs.replace(
            part, blob=blob, frames=tuple(Image(WithheldBlob(frame.blob.key)) for frame in part.frames)
        )
    return part
