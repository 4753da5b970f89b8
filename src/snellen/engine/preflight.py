"""Checks before a run's first request: disk space, the samples' files, the video reader (PyAV), the model."""

from __future__ import annotations

import itertools
import shutil
from importlib.util import find_spec

from snellen.benchmarks.base import Benchmark
from snellen.engine.resume import Key, Work, pending
from snellen.engine.run_folder import RunFolder, RunSpec, Totals
from snellen.errors import DataError, PreflightError
from snellen.media.video import check_pyav
from snellen.models.base import Model
from snellen.models.registry import API_KINDS
from snellen.sources.blobs import stream
from snellen.types import Image, Sample, Video

DECODING = (*API_KINDS, "tools", "local", "embedded", "agent")
"""Kinds of models for which Snellen takes frames out of videos; replayed answers need none."""
CHECKED_SAMPLES = 20
LEAST_FREE_BYTES = 64 << 20


async def preflight(model: Model, folder: RunFolder, work: Work, before: Totals) -> Work:
    """Check disk space, data and model before the first request.

    Returns:
        `work` from its beginning.

    Raises:
        PreflightError: too little disk space, none of the samples looked at can be read, or the model is not ready.
    """
    free = shutil.disk_usage(folder.path).free
    if free < LEAST_FREE_BYTES:
        raise PreflightError(
            f"only {free / 2**20:.0f} MB are free under {folder.path}; a run needs at least {LEAST_FREE_BYTES >> 20} MB",
            "Free some space, or choose another folder with --out.",
        )
    work = require_readable(work, before)
    await model.preflight()
    return work


def require_readable(work: Work, before: Totals) -> Work:
    """Return `work` from its beginning, if the files of one of the first 20 samples can be read.

    Those before it are each recorded as failed when their turn comes. Only samples are held, and no file.

    Args:
        work: what is to be asked.
        before: the run so far. Samples that failed before stand first in `work`, and are not counted among the 20.

    Raises:
        PreflightError: none of them can be read; in a run that has answers, none of a full 20: it may be left with a
            few samples that cannot be read, and ends with them recorded.
    """
    limit = CHECKED_SAMPLES + before.error + before.timeout
    checked: list[tuple[Sample, int]] = []
    failed: dict[str, tuple[str, str]] = {}
    for each in work:
        checked.append(each)
        sample = each[0]
        if sample.id in failed:  # a repeat
            continue
        fault = unreadable(sample)
        if fault is None:
            return itertools.chain(iter(checked), work)
        failed[sample.id] = (fault.message, fault.hint)
        if len(failed) == limit:
            break
    if len(failed) == limit or before.done == 0:
        sample_id, (message, hint) = next(iter(failed.items()))
        looked = f"{len(failed):,} of the {len(failed):,} samples that were checked cannot be read."
        raise PreflightError(f"sample {sample_id}: {message}\n{looked}", hint)
    return itertools.chain(iter(checked), work)


def unreadable(sample: Sample) -> DataError | None:
    """Return the reason why a sample's files cannot be read, else None. Of a video the beginning is read."""
    for part in sample.prompt.conversation_parts:
        try:
            if isinstance(part, Image):
                part.blob.read()
            elif isinstance(part, Video):
                for frame in part.frames:
                    frame.blob.read()
                if part.blob is not None:
                    with stream(part.blob) as start:
                        start.read(1)
        except DataError as error:
            return error
    return None


def require_video_reader(benchmark: Benchmark, spec: RunSpec, done: set[Key] | None = None) -> None:
    """Refuse a run whose samples have videos to decode, where PyAV is not installed.

    The samples are gone through only where it is not installed; no file of theirs is opened.

    Args:
        benchmark: what is asked.
        spec: the run; a model that is sent whole files (`--video native`) needs no reader.
        done: what has an answer already.

    Raises:
        MissingExtraError: a sample that is to be asked has a video.
    """
    if spec.model.partition(":")[0] not in DECODING or spec.options.media.video == "native" or find_spec("av"):
        return
    for sample, _ in pending(benchmark, spec, done or set()):
        for part in sample.prompt.conversation_parts:
            if isinstance(part, Video) and part.blob is not None:
                check_pyav(part.blob.key)
