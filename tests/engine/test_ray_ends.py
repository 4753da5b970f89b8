"""A Ray that a run starts for itself ends with it; a Ray that is not there is told. Beside test_ray_run, which is as long."""

from __future__ import annotations

import os
import signal

import psutil
import pytest
from ray_runs import RUN, alone, answers, finished, lines, start, wait_for
from two_hosts import family

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """The answers of one process."""
    return alone(tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_ray_of_our_own_ends_with_the_run_however_that_ends(tmp_path, undisturbed, number):
    folder = tmp_path / "run"
    run = start((*RUN, "--nproc", "2", "--out", folder))
    wait_for(run, lambda: lines(folder / "results.jsonl") > len(undisturbed) // 8)
    started = family(run.pid)
    assert any("raylet" in one.name() for one in started)
    os.killpg(run.pid, number) if number == signal.SIGINT else run.send_signal(number)  # the terminal tells them all
    finished(run, -number if number == signal.SIGKILL else 128 + number)
    left = psutil.wait_procs(started, timeout=30)[1]
    # Where all was killed at once, two agents of Ray try for a minute to tell the others, who are no more.
    assert {one.name() for one in left} <= (
        {"ray::RuntimeEnvAgent", "ray::DashboardAgent"} if number == signal.SIGKILL else set()
    )
    left = psutil.wait_procs(left, timeout=150)[1]
    assert not left, [one.name() for one in left]
    if number == signal.SIGINT:
        finished(start((*RUN, "--out", folder)))  # without workers this time
        assert answers(folder) == undisturbed


def test_an_address_where_nobody_listens_is_told_at_once(tmp_path):
    _, err = finished(start((*RUN, "--ray", "127.0.0.1:1", "--out", tmp_path / "run")), 4)
    assert "there is no Ray at 127.0.0.1:1" in err
    assert "ray start --head" in err
