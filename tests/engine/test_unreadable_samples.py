"""Samples whose images cannot be read: recorded with the reason, wherever they stand in a run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from stubs import ARITHMETIC, Calculator

from engine.test_run import QUICK, statuses
from snellen.benchmarks.base import Data
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import PreflightError
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.sources import BytesBlob, Drawn, FileBlob, Unreadable
from snellen.types import Blob, Image, Prompt, Response, Sample, Video


class Looker(Calculator):
    """Looks at the pictures and clips of a question before it answers."""

    async def answer(self, prompt: Prompt) -> Response:
        for part in prompt.parts:
            if isinstance(part, Image):
                part.blob.read()
            if isinstance(part, Video) and part.blob is not None:
                part.blob.read()
        return await super().answer(prompt)


GONE = Unreadable("rows.tsv, line 4", "rows.tsv, line 4: 3 fields were found, 5 expected as in the header", "Mend it.")


def illustrated(lost: set[int], blob: Blob = GONE) -> Any:
    """ARITHMETIC with a picture for each question, which for the `lost` ones cannot be had."""

    def samples(data: Data) -> Iterator[Sample]:
        for i, sample in enumerate(ARITHMETIC.samples(data)):
            picture = Image(blob if i in lost else BytesBlob(str(i), b"pixels"))
            yield structs.replace(sample, prompt=Prompt((*sample.prompt.parts, picture)))

    return replace(ARITHMETIC, samples=samples)


def look(lost: set[int], out: Path, n: int = 50, **spec: Any) -> Run:
    wanted = RunSpec(benchmark="arithmetic", model="calculator", data=Data(options={"n": str(n)}), **spec)
    return perform(wanted, RunFolder(out), benchmark=illustrated(lost), model=Looker(), backoff=QUICK)


def kinds(run: Run) -> dict[str, str]:
    return {r.sample_id: "ok" if r.error is None else r.error.kind for r in run.folder.records()}


def test_samples_that_cannot_be_read_are_recorded_with_the_reason_wherever_they_stand(tmp_path):
    lost = {*range(19), 30, 49}
    run = look(lost, tmp_path / "a")
    assert kinds(run) == {f"q{i}": "input" if i in lost else "ok" for i in range(50)}
    failure = next(r.error for r in run.folder.records() if r.sample_id == "q30")
    assert failure is not None and failure.message == GONE.message
    assert run.meta.state == "complete" and run.metric("accuracy").n == 50


def test_a_run_of_which_none_of_the_first_twenty_can_be_read_is_not_started(tmp_path):
    missing = FileBlob(tmp_path / "gone.png")
    with pytest.raises(
        PreflightError, match=r"sample q0: rows\.tsv, line 4: 3 fields[\s\S]*20 of the 20 samples"
    ) as caught:
        look(set(range(20)), tmp_path / "a")
    assert caught.value.hint == "Mend it."
    assert not RunFolder(tmp_path / "a").exists()
    with pytest.raises(PreflightError, match=r"3 of the 3 samples"):
        look({0, 1, 2}, tmp_path / "a", n=3)
    with pytest.raises(PreflightError, match=r"20 of the 20 samples"):
        look(set(range(20)), tmp_path / "a", repeats=3)
    wanted = RunSpec(benchmark="arithmetic", model="calculator", data=Data(options={"n": "50"}))
    with pytest.raises(PreflightError, match=r"cannot read .*gone\.png"):
        perform(wanted, RunFolder(tmp_path / "a"), benchmark=illustrated(set(range(50)), missing), model=Looker())


def test_repeats_of_a_sample_that_cannot_be_read_count_once(tmp_path):
    run = look({0, 1}, tmp_path / "a", n=4, repeats=15)
    assert statuses(run) == {"ok": 30, "error": 30}


SOME = st.sets(st.integers(0, 39))


@settings(deadline=None, max_examples=40)
@given(SOME | SOME.map(lambda kept: set(range(40)) - kept), st.integers(1, 40))
def test_whichever_samples_cannot_be_read_each_has_one_record_and_the_rest_are_answered(tmp_path_factory, lost, limit):
    """Begun with a limit and gone on without one: what failed before stands first then, and is no reason to stop."""
    out = tmp_path_factory.mktemp("run") / "a"
    if set(range(min(20, limit))) <= lost:
        with pytest.raises(PreflightError):
            look(lost, out, n=40, limit=limit)
        return
    assert set(kinds(look(lost, out, n=40, limit=limit))) == {f"q{i}" for i in range(limit)}
    fresh = range(limit, 40)[:20]
    if len(fresh) == 20 and set(fresh) <= lost:
        with pytest.raises(PreflightError):
            look(lost, out, n=40)
    else:
        assert kinds(look(lost, out, n=40)) == {f"q{i}": "input" if i in lost else "ok" for i in range(40)}


def test_of_a_clip_only_the_beginning_is_read_before_the_run_and_one_that_is_not_there_is_noticed(tmp_path):
    class Clip(FileBlob, frozen=True):
        def read(self):
            raise AssertionError("a clip of gigabytes was read whole before the first question")

    (tmp_path / "1.mp4").write_bytes(b"frames")

    def samples(data):
        for i, sample in enumerate(ARITHMETIC.samples(data)):
            clip = Video(Clip(tmp_path / f"{i}.mp4")), Video(frames=(Image(BytesBlob("f", b"frame")),))
            yield structs.replace(sample, prompt=Prompt((*sample.prompt.parts, *clip)))

    go_on = replace(ARITHMETIC, samples=samples)
    wanted = RunSpec(benchmark="arithmetic", model="calculator", data=Data(options={"n": "3"}))
    run = perform(wanted, RunFolder(tmp_path / "a"), benchmark=go_on, model=Calculator())
    assert run.meta.totals.ok == 3, "the calculator does not look"
    (tmp_path / "1.mp4").unlink()
    with pytest.raises(PreflightError, match=r"sample q0: cannot read .*0\.mp4"):
        perform(wanted, RunFolder(tmp_path / "b"), benchmark=go_on, model=Calculator())


def test_looking_at_the_first_samples_holds_no_picture(tmp_path):
    def draw():
        return bytes(8 << 20)

    def samples(data):
        for sample in ARITHMETIC.samples(data):
            parts = (*sample.prompt.parts, Image(Drawn("large", draw)), Image(GONE))
            yield structs.replace(sample, prompt=Prompt(parts))

    wanted = RunSpec(benchmark="arithmetic", model="calculator", data=Data(options={"n": "50"}))
    tracemalloc.start()
    try:
        with pytest.raises(PreflightError):
            perform(wanted, RunFolder(tmp_path / "a"), benchmark=replace(ARITHMETIC, samples=samples), model=Looker())
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
