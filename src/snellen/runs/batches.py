"""Batches of a run as its log and its service have them: list and cancel them, or give one up.

Requests of a run as a file that another program answers (`vllm run-batch`), and its results back into the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from snellen.engine.batches.log import BatchLog, LoggedShard, read_log
from snellen.engine.endpoints import check_rerun, with_endpoint
from snellen.engine.run import run
from snellen.engine.run_folder import RunFolder, RunMeta, RunSpec
from snellen.engine.study import studied
from snellen.errors import BatchError, ModelError, RunError, UsageError
from snellen.event_loop import in_loop
from snellen.models.api.batches.service import BatchService, BatchStatus, Undecided
from snellen.models.api.model import ApiModel
from snellen.models.registry import open_model
from snellen.runs.evaluate import rerun
from snellen.runs.perform import checked
from snellen.runs.run import Run


class RunBatch(Struct, frozen=True):
    """One batch of a run.

    Attributes:
        label: in the run's log.
        id: at the service; empty where it is not known.
        state: the service's word; `taken`, `dropped`, or `not sent` by the log.
        open: it may still bring answers.
        rows, finished: rows in it, and rows that the service has finished.
        answered: answers that were recorded.
        created_at, expires_at: seconds since the epoch.
        reason: why it was dropped.
    """

    label: str
    id: str
    state: str
    open: bool
    rows: int
    finished: int
    answered: int
    created_at: float | None
    expires_at: float | None
    reason: str = ""


def list_batches(path: str | Path, *, recorded: bool = False, trust: bool = False) -> list[RunBatch]:
    """Return the batches of a run, with the service's word on the open ones.

    Args:
        recorded: ask no service, and return the last state in the log.
        trust: as for `snellen.load_run`.

    Raises:
        RunError: there is no run, or none by batches. BatchError: the service gives no answer.
    """
    shards = _shards(path)
    if (
        recorded
        or read_log(Path(path)).service == "file"
        or not any(not shard.closed and shard.creating_at is not None for shard in shards)
    ):
        return [_described(shard, None) for shard in shards]

    async def states(service: BatchService) -> list[RunBatch]:
        known = frozenset(shard.id for shard in shards if shard.id)
        return [_described(shard, await _status(service, shard, Path(path), known)) for shard in shards]

    return _asked(path, states, trust=trust)


def cancel_batches(path: str | Path, *, trust: bool = False) -> list[RunBatch]:
    """Cancel the open batches of a run, and return them. The next call of `snellen run --batch` takes up what they have answered.

    Raises:
        RunError: there is no run, or none by batches. BatchError: the service gives no answer.
    """
    shards = _shards(path)
    if read_log(Path(path)).service == "file":
        raise UsageError(
            f"The requests of {path} are in a file; there is nothing to cancel at a service.",
            f"Stop the program that answers them. To give a file up: snellen batch drop {path} LABEL",
        )

    async def cancelled(service: BatchService) -> list[RunBatch]:
        known = frozenset(shard.id for shard in shards if shard.id)
        batches = []
        for shard in shards:
            status = await _status(service, shard, Path(path), known)
            if status is None:
                continue
            if status.state == "running":
                status = await service.cancel(status.id)
            batches.append(_described(structs.replace(shard, id=status.id), status))
        return batches

    return _asked(path, cancelled, trust=trust)


def drop_batch(path: str | Path, name: str) -> None:
    """Give up an open batch, by its id or label: the next call asks its samples again, and the service may be paid twice.

    Raises:
        RunError: there is no run, or none by batches. UsageError: no open batch has this name.
    """
    folder = RunFolder(path)
    _shards(path)
    with folder.locked():
        log = BatchLog(folder.path)
        try:
            names = {shard.id or shard.label: shard for shard in log.state.open()}
            shard = next((each for each in names.values() if name in (each.id, each.label)), None)
            if shard is None:
                raise UsageError(f"{path} has no open batch {name!r}", f"Open are: {', '.join(names) or 'none'}.")
            log.append("dropped", label=shard.label, reason="given up by the user")
        finally:
            log.close()


def _shards(path: str | Path) -> list[LoggedShard]:
    folder = RunFolder(path)
    folder.meta()  # a folder without a run is refused
    shards = list(read_log(folder.path).shards.values())
    if not shards:
        raise RunError(f"{path} has no batches", "Batches are made by: snellen run … --batch")
    return shards


def _asked(path: str | Path, call: Callable[[BatchService], object], *, trust: bool) -> list[RunBatch]:
    """Return what a call of the run's own service returns, under the rules of a rerun for folders of other users."""
    folder = RunFolder(path)
    meta = folder.meta()
    spec = with_endpoint(folder, meta, base_url=None, key_env=None)
    check_rerun(folder, meta, spec, trust=trust)

    async def whole() -> list[RunBatch]:
        model = open_model(spec.model, spec.options)
        service = model.batches()
        state = read_log(folder.path)
        try:
            if (state.service, state.place) != (service.name, service.place):
                raise RunError(
                    f"the batches of {path} lie at {state.place}, and the run's model is at {service.place}",
                    "Set the variable of the address as it was when the run began.",
                )
            batches: list[RunBatch] = await call(service)  # type: ignore[misc]
            return batches
        except ModelError as error:
            raise BatchError(f"{service.place}: {error.message}", error.hint) from error
        finally:
            await service.close()
            await model.close()

    return in_loop(whole())


async def _status(service: BatchService, shard: LoggedShard, folder: Path, known: frozenset[str]) -> BatchStatus | None:
    """Return the service's word on an open batch; None for one that is closed, was never sent, or is not found."""
    if shard.closed or shard.creating_at is None:
        return None
    if shard.id:
        return await service.status(shard.id)
    status = await service.find(shard.shard(folder), known)
    return None if isinstance(status, Undecided) else status


def _described(shard: LoggedShard, status: BatchStatus | None) -> RunBatch:
    word = shard.closed or shard.state or ("not found" if shard.creating_at is not None else "not sent")
    finished = shard.completed + shard.failed
    if status is not None:
        word, finished = status.words, status.completed + status.failed
    return RunBatch(
        label=shard.label,
        id=shard.id or ("" if status is None else status.id),
        state=word,
        open=not shard.closed,
        rows=shard.rows,
        finished=min(shard.rows, finished),
        answered=shard.answered,
        created_at=shard.created_at,
        expires_at=shard.expires_at,
        reason=shard.reason,
    )


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
