"""Requests of a run as a file that another program answers (`vllm run-batch`), and its results back into the run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from snellen.engine.batches.log import LoggedShard, read_log
from snellen.engine.run import run
from snellen.engine.run_folder import RunFolder, RunMeta, RunSpec
from snellen.engine.study import studied
from snellen.errors import RunError, UsageError
from snellen.event_loop import in_loop
from snellen.models.api.model import ApiModel
from snellen.runs.evaluate import rerun
from snellen.runs.perform import checked
from snellen.runs.run import Run


class WrittenRequests(Struct, frozen=True):
    """What `write_requests` did.

    Attributes:
        path: the file of requests; empty if nothing had to be written.
        requests: in it.
        waiting: requests of earlier files that have no result yet; they are not written again.
        meta: of the run.
    """

    path: str
    requests: int
    waiting: int
    meta: RunMeta


class ReadResults(Struct, frozen=True):
    """What `read_results` did.

    Attributes:
        answered, failed: samples that were recorded.
        again: requests whose failure may pass; the next file of requests has them.
        missing: requests of open files without a result.
        strange: lines that are of no request of this run.
        run: the run, scored.
    """

    answered: int
    failed: int
    again: int
    missing: int
    strange: int
    run: Run


def write_requests(
    spec: RunSpec, folder: RunFolder, path: Path, *, image_paths: bool = False, trust: bool = False
) -> WrittenRequests:
    """Write the requests of every sample without an answer to a file, in the form of OpenAI's batches.

    Args:
        spec: settings of the run; its model is api:NAME, as the other program calls it.
        folder: of the run; begun, or continued.
        path: file to write; it must not exist.
        image_paths: name images by their paths where they go out unchanged, in place of their bytes.
        trust: as for `perform`.

    Raises:
        UsageError: the file exists, or the model is not api:NAME. SnellenError: as `perform`.
    """
    path = path.absolute()
    if os.path.lexists(path):  # also a link to nothing
        raise UsageError(f"{path} exists; it is not overwritten.", "Choose another name with --out.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder.", "Create it, or choose another place with --out.")
    spec = structs.replace(spec, batch=True, options=structs.replace(spec.options, offline=True))
    spec, subject = checked(spec, folder, None, trust=trust)
    model = _opened(spec)
    model.request_file, model.writer.local_paths = path, image_paths
    before = set(read_log(folder.path).shards) if folder.exists() else set()
    prompted = studied(subject, spec)

    async def whole() -> RunMeta:
        try:
            return await run(spec, prompted, model, folder)
        finally:
            await model.close()

    meta = in_loop(whole())
    shards = read_log(folder.path).shards
    made = [shard for label, shard in shards.items() if label not in before and not shard.closed]
    waiting = sum(shard.rows - shard.completed for shard in shards.values() if not shard.closed and shard not in made)
    return WrittenRequests(str(path) if made else "", sum(shard.rows for shard in made), waiting, meta)


def read_results(
    folder: str | Path,
    files: Sequence[Path],
    *,
    ended: bool = False,
    data: Path | None = None,
    images: Path | None = None,
    trust: bool = False,
) -> ReadResults:
    """Record the results in files of the form of OpenAI's batches, each sample once, and score the run.

    Args:
        folder: of the run.
        files: any order, whole or in part, read before or not.
        ended: there will be no more results, so that requests without one are asked again.
        data, images: where the benchmark's files lie now, if they were moved.
        trust: as for `snellen.load_run`.

    Raises:
        RunError: there is no run, or none whose requests are in a file. DataError: a file cannot be read.
    """
    place = RunFolder(folder)
    meta = place.meta()
    log = read_log(place.path)
    if not meta.spec.options.offline or log.service != "file":
        raise RunError(
            f"{folder} is no run whose requests were written to a file",
            "Write them first: snellen batch write BENCHMARK --model api:NAME --out FILE.jsonl",
        )
    for path in files:
        if not path.is_file():
            raise UsageError(f"{path} is no file.", "Name the file that vllm run-batch wrote with -o.")
        if _holds_requests(path):
            raise UsageError(
                f"{path} is a file of requests, not of results.", "Name the file that vllm run-batch wrote with -o."
            )
    model = _opened(meta.spec)
    model.result_files, model.answering_ended = tuple(files), ended
    scored = rerun(place.path, data=data, images=images, model=model, trust=trust)
    state = read_log(place.path)
    read = state.last_read
    if read is None or read is log.last_read or read == log.last_read:  # every sample had an answer before
        return ReadResults(0, 0, 0, _missing(list(state.shards.values())), 0, scored)
    return ReadResults(read.answered, read.failed, read.again, read.missing, read.strange, scored)


def _holds_requests(path: Path) -> bool:
    """Return True if the file begins as `snellen batch write` begins it; images make its lines long, results have a response."""
    with path.open("rb") as file:
        beginning = file.read(4096)
    return b'"method"' in beginning and b'"response"' not in beginning


def _missing(shards: Sequence[LoggedShard]) -> int:
    return sum(shard.rows - shard.completed for shard in shards if not shard.closed)


def _opened(spec: RunSpec) -> ApiModel:
    """Return the model of a run whose requests are in a file. Nothing is sent to it, and no key is read."""
    kind, _, name = spec.model.partition(":")
    if kind != "api":
        raise UsageError(
            f"Requests are written to a file for api:NAME, not for {spec.model}.",
            "Write --model api:NAME, with the name that the other program gives the model.",
        )
    return ApiModel(name, structs.replace(spec.options, offline=True))
