"""Workers that die, fail and see nothing, on a Ray of our own."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fragile import Fragile

from snellen.engine.ray.cluster import STARTS, Cluster
from snellen.engine.ray.model import RayModel
from snellen.engine.ray.pool import LIVES, UNREACHED, WorkerPool
from snellen.errors import BadRequestError, ModelError, PreflightError, SnellenError, UsageError, WorkerLostError
from snellen.models.base import ModelOptions
from snellen.runs.perform import open_scattered

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="the extra `ray` is not installed")


def asked(word: str) -> Any:
    return partial(lambda one, by_value: (one, by_value), word)


def deaths(folder: Path, word: str) -> int:
    return len(list(folder.glob(f"{word}.*")))


def test_what_kills_workers_is_found_out_and_its_neighbours_are_answered(tmp_path, monkeypatch):
    """One Ray for all of it: starting one costs more than the rest."""

    async def all_of(pool, words):
        return await asyncio.gather(*(pool.ask(asked(word)) for word in words), return_exceptions=True)

    async def whole(cluster):
        pool = WorkerPool(cluster, partial(Fragile, tmp_path), 4, lambda loaded: None)
        await pool.start()
        while not all(seat.ready for seat in pool._seats):  # noqa: ASYNC110 - one that finds no room joins later
            await asyncio.sleep(0.05)
        try:
            plain = [f"q{i}" for i in range(24)]
            found = await all_of(pool, plain)
            assert [one[0] for one in found] == plain
            assert len({pid for _, _, pid in found}) == 2  # both work
            assert os.getpid() not in {pid for _, _, pid in found}

            # A killer among eighteen others: one for ever, then one that gets over it. Not both at once: the deaths of
            # one would count for the other where they happen to be with the same worker.
            for killer in ("die:99", "die:1"):
                words = [*plain[:6], killer, *plain[6:18]]
                found = await all_of(pool, words)
                for word, one in zip(words, found, strict=True):
                    if word == "die:99":
                        assert isinstance(one, WorkerLostError)
                        assert "nothing else" in one.message
                    else:
                        assert one[0] == word
            # On a busy machine Ray may fail to reach a worker that lives; it counts as lost, under a text of its own.
            unreached = pool.lost[UNREACHED]
            assert LIVES - unreached <= deaths(tmp_path, "die:99") <= LIVES
            assert deaths(tmp_path, "die:1") == 1
            assert LIVES + 1 - unreached <= sum(pool.lost.values()) - unreached <= LIVES + 1

            refused, broken, unseen, again = await all_of(pool, ["refuse", "break", "file", "file"])
            assert isinstance(refused, BadRequestError)
            assert (refused.message, refused.hint) == ("too long", "Shorten it.")
            assert isinstance(broken, ModelError)
            assert "KeyError" in broken.message
            assert unseen[1] is again[1] is True
            assert pool.record()["asked_again"] >= LIVES - 1
        finally:
            await pool.close()

        sick = WorkerPool(cluster, partial(Fragile, tmp_path, loads=False), 4, lambda loaded: None)
        with pytest.raises(PreflightError, match=r"on .*: the weights are damaged") as told:
            await sick.start()
        assert told.value.hint == "Fetch them again."
        assert "Traceback" not in str(told.value)
        await sick.close()

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # workers import `fragile` from there
    with Cluster(None, 2, gpus=False) as cluster:
        assert cluster.workers() == (2, 0)
        asyncio.run(whole(cluster))
        cluster._workers = 3
        with pytest.raises(PreflightError, match="3 workers were requested; Ray has 2 processors"):
            cluster.workers()


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("api:gpt", ModelOptions(), "--concurrency"),
        ("replay:run", ModelOptions(), "several copies of a local model"),
        ("embedded", ModelOptions(device="cuda:1"), "every worker has its own"),
    ],
)
def test_what_workers_cannot_share_is_refused_before_ray_is_started(spec, options, words):
    with pytest.raises(UsageError, match=words):
        open_scattered(spec, options, 2, None)


@pytest.mark.parametrize(
    "address", ["ray://", "host", "host:port", "host:99999999", "http://host:1", "me:secret@host:1"]
)
def test_an_address_of_another_form_is_told(address):
    with pytest.raises(UsageError, match="HOST:PORT"):
        open_scattered("embedded", ModelOptions(), None, address)


def test_one_worker_here_is_no_ray_at_all():
    for nproc in (None, 1):
        assert not isinstance(open_scattered("embedded", ModelOptions(), nproc, None), RayModel)


def test_how_many_workers_there_are_is_no_part_of_the_fingerprint():
    alone = open_scattered("embedded", ModelOptions(), None, None)
    several = open_scattered("embedded", ModelOptions(), 2, None)
    assert several.identity() == alone.identity()
    assert several.name == alone.name


def test_another_model_in_a_worker_is_an_error_that_says_in_what():
    model = RayModel("embedded", ModelOptions(), 2, None)
    with pytest.raises(SnellenError, match=r"dtype 'float32' here and 'bfloat16' there") as told:
        model._same({**model.identity(), "dtype": "bfloat16"})
    assert "--dtype" in told.value.hint


def test_a_ray_that_does_not_start_in_time_is_tried_again(monkeypatch):
    """Ray gives itself 30 seconds for it. A machine that is so busy cannot be had in a test: the first attempt is a stub."""
    import ray

    start, attempts = ray.init, []

    def late_once(**settings):
        attempts.append(settings["_temp_dir"])
        if len(attempts) == 1:
            raise RuntimeError("The current node timed out during startup.")
        return start(**settings)

    monkeypatch.setattr(ray, "init", late_once)
    with Cluster(None, 1, gpus=False) as cluster:
        assert cluster.workers() == (1, 0)
        assert cluster.ended() == ""
    assert 2 <= len(attempts) == len(set(attempts)) <= STARTS  # a busy machine may need the third one
    assert not any(Path(folder).exists() for folder in attempts)
