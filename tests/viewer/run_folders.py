"""Run folders as Snellen writes them, made in a moment from replies by sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.engine.journal import Journal
from snellen.engine.run_folder import Coverage, RunFolder, RunMeta, RunSpec, Totals
from snellen.types import Failure, Record, Response, Sample, Usage


def samples_of(benchmark: str, count: int, data: Data | None = None) -> list[Sample]:
    """Return the first samples of a benchmark."""
    from itertools import islice

    return list(islice(registry.find(benchmark).samples(data or Data()), count))


def right_reply(sample: Sample) -> str:
    """Return a reply that every profile takes for right."""
    target = sample.target
    if isinstance(target, bool):
        return ("T" if target else "F") if "T or F" in str(sample.prompt) else "yes" if target else "no"
    return str(int(target)) if isinstance(target, float) else str(target)


def record(sample_id: str, text: str | None, *, repeat: int = 0, at: float = 1_000.0) -> Record:
    """Return a record with a reply, or of a failure where `text` is None."""
    if text is None:
        error = Failure("server", "HTTP 500: the server is on fire")
        return Record(sample_id, "error", repeat, error=error, started_at=at, finished_at=at + 1)
    return Record(
        sample_id, "ok", repeat, response=Response(text, Usage(10, 2), 0.5), started_at=at, finished_at=at + 0.5
    )


def append(path: Path, records: Iterable[Record]) -> None:
    """Append records to the journal of a run folder."""
    path.mkdir(parents=True, exist_ok=True)
    journal = Journal(path / "results.jsonl")
    for each in records:
        journal.append(each)
    journal.close()


def write_meta(
    path: Path,
    benchmark: str,
    *,
    model: str = "openai:gpt",
    state: str = "complete",
    totals: Totals | None = None,
    limit: int | None = None,
    repeats: int = 1,
    own: bool = True,
    data: Data | None = None,
    restricted: bool = False,
) -> RunMeta:
    """Write run_meta.json of a run."""
    declared = registry.find(benchmark)
    settings = data or Data()
    spec = RunSpec(benchmark=benchmark, model=model, data=settings, limit=limit, repeats=repeats)
    identity = {
        "benchmark": declared.name,
        "benchmark_version": declared.version,
        "data": declared.digest(settings),
        "data_options": dict(settings.options),
        "model": {"name": model},
        "seed": settings.seed,
        "repeats": repeats,
    }
    meta = RunMeta(
        fingerprint=f"{abs(hash((benchmark, model))):016x}"[:16],
        identity=identity,
        coverage=Coverage(limit, declared.size(settings)),
        spec=spec,
        totals=totals or Totals(),
        state=state,
        restricted=restricted or declared.restricted,
    )
    path.mkdir(parents=True, exist_ok=True)
    RunFolder(path).write_meta(meta, own=own)
    return meta


def write_run(
    path: Path,
    benchmark: str,
    replies: Mapping[str, str | None],
    *,
    model: str = "openai:gpt",
    state: str = "complete",
    limit: int | None = None,
    own: bool = True,
    data: Data | None = None,
) -> Path:
    """Write a whole run folder: its meta and one record a reply; a reply of None is a failure."""
    done = sum(reply is not None for reply in replies.values())
    totals = Totals(ok=done, error=len(replies) - done)
    write_meta(path, benchmark, model=model, state=state, totals=totals, limit=limit, own=own, data=data)
    append(path, (record(sample_id, text, at=1_000.0 + at) for at, (sample_id, text) in enumerate(replies.items())))
    return path
