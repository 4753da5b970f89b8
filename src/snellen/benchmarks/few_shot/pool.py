"""Pool of few-shot examples: where it lies, and which of its samples are none of the tested ones.

An example must not be a tested sample. It is excluded by its id, by its group, and by its content (`same_content`).
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data, needs_no_data
from snellen.benchmarks.few_shot.same_content import same_content
from snellen.errors import DataError, UsageError
from snellen.sources.hub import HUB
from snellen.types import Sample

MOST_CANDIDATES = 256
"""Samples of a pool that are compared with the tested ones by their images; drawn by the seed."""
SEED = "seed"
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)


class ExamplePool(NamedTuple):
    """A benchmark and data whose samples may be examples; `text` names it as the user did."""

    benchmark: Benchmark
    data: Data
    text: str


class PoolCandidates(Struct, frozen=True):
    """Samples of a pool that may be shown, in an order that the seed decides, and how many were excluded, by reason."""

    samples: tuple[Sample, ...]
    excluded: Mapping[str, int]
    total: int


def find_pool(benchmark: Benchmark, benchmark_name: str, data: Data, named: str | None) -> ExamplePool:
    """Return the pool that the user names, or that the benchmark declares.

    Args:
        benchmark: what is tested.
        benchmark_name: its name as in the run's record.
        data: the tested data.
        named: `KEY=VALUE` is the same benchmark with another setting (`split=train`, `seed=7`); else a file or folder,
            or `hf:owner/name`; None: the pool that the benchmark declares.

    Raises:
        UsageError: there is no pool, or no such setting.
        DataError: there is no such file.
    """
    text = named if named is not None else benchmark.examples
    if not text:
        raise UsageError(
            f"--few-shot: {benchmark.name} declares no pool of examples, and its tested samples are never shown.",
            f"Name one: {_forms(benchmark)}",
        )
    plain = {name: value for name, value in data.options.items() if name != "circular"}
    path = Path(text).expanduser()
    setting = _SETTING.fullmatch(text)
    if setting is not None and not path.exists():
        key, value = setting[1], setting[2]
        if key == SEED and needs_no_data(benchmark) and re.fullmatch(r"\d{1,18}", value):
            return ExamplePool(benchmark, structs.replace(data, seed=int(value)), text)
        if key not in benchmark.options:
            known = ", ".join(benchmark.options) or "none"
            raise UsageError(
                f"--few-shot-from {text}: {benchmark.name} has no setting {key!r}.",
                f"Its settings: {known}. Or name a file: {_forms(benchmark)}",
            )
        return ExamplePool(benchmark, structs.replace(data, options={**plain, key: value}), text)
    if needs_no_data(benchmark):
        raise UsageError(
            f"--few-shot-from {text}: {benchmark.name} draws its samples and reads no file.",
            "Name another seed: --few-shot-from seed=1000",
        )
    if not text.startswith(HUB) and not path.exists():
        raise DataError(
            f"--few-shot-from {text}: there is no such file or folder, and it is no KEY=VALUE.",
            f"Check the path; relative paths start at {Path.cwd()}. No request was sent.",
        )
    if not text.startswith(HUB) and not (path.is_file() or path.is_dir()):
        raise DataError(
            f"--few-shot-from {text}: this is neither a file nor a folder, but a pipe or a device.",
            f"Name a pool: {_forms(benchmark)}",
        )
    options = {name: value for name, value in plain.items() if name != "file"}
    if registry.is_path(benchmark_name) and not benchmark_name.lower().endswith(registry.DECLARATION):
        if not registry.is_path(text):
            raise UsageError(
                f"--few-shot-from {text}: this is no table of questions, nor a folder or archive that holds one.",
                f"Name a pool: {_forms(benchmark)}",
            )
        return ExamplePool(registry.find(text), Data(None, data.images, options, data.seed), text)
    return ExamplePool(benchmark, structs.replace(data, path=path, options=options), text)


def _forms(benchmark: Benchmark) -> str:
    if needs_no_data(benchmark):
        return "--few-shot-from seed=1000 (the same questions drawn by another seed)."
    split = "--few-shot-from split=NAME, or " if "split" in benchmark.options else ""
    return f"{split}--few-shot-from FILE, with questions in the form of the tested ones."


def candidates(benchmark: Benchmark, data: Data, pool: ExamplePool, seed: int) -> PoolCandidates:
    """Return the samples of a pool that are none of the tested ones, at most 256, in an order that the seed decides.

    All tested samples count, also those beyond `--limit`, so that an extended run shows the same examples.

    Raises:
        SnellenError: the pool or the tested samples cannot be read.
    """
    ids, groups = set[str](), set[str]()
    for sample in benchmark.samples(data):
        ids.add(sample.id)
        if sample.group:
            groups.add(sample.group)
    if not (_has_ids(benchmark, data) and _has_ids(pool.benchmark, pool.data)):
        ids.clear()  # numbers of rows: equal ones say nothing
    excluded: Counter[str] = Counter()
    total = 0

    def others() -> Iterator[Sample]:
        nonlocal total
        for sample in pool.benchmark.samples(pool.data):
            total += 1
            if sample.id in ids:
                excluded["have the id of a tested sample"] += 1
            elif sample.group and sample.group in groups:
                excluded["are of the group of a tested sample"] += 1
            else:
                yield sample

    drawn = heapq.nsmallest(MOST_CANDIDATES, others(), key=lambda sample: (draw_order(seed, sample.id), sample.id))
    same = same_content(drawn, benchmark.samples(data))
    samples = []
    for number, sample in enumerate(drawn):
        if number in same:
            excluded[same[number]] += 1
        else:
            samples.append(sample)
    return PoolCandidates(tuple(samples), dict(excluded), total)


def draw_order(seed: int, *names: str) -> bytes:
    """Return the key by which names are drawn under a seed: the smallest ones are taken."""
    return blake2b("\0".join((str(seed), *names)).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _has_ids(benchmark: Benchmark, data: Data) -> bool:
    """Return False for a table without a column of ids, whose ids are numbers of rows."""
    return benchmark.table is None or benchmark.table.survey(data).rules.spec("id") is not None
