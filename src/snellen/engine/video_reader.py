"""Check for the video reader (PyAV) before a run's first request."""

from __future__ import annotations

from importlib.util import find_spec

from snellen.benchmarks.base import Benchmark
from snellen.engine.resume import Key, pending
from snellen.engine.run_folder import RunSpec
from snellen.media.video import check_pyav
from snellen.types import Video

DECODING = ("api", "tools", "local", "embedded", "agent")
"""Kinds of models for which Snellen takes frames out of videos; replayed answers need none."""


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
        for part in sample.prompt.parts:
            if isinstance(part, Video) and part.blob is not None:
                check_pyav(part.blob.key)
