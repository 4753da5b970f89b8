"""A Ray that a run starts for itself ends with it; a Ray that is not there is told. Beside test_ray_run, which is as long."""

import os
import signal

import psutil
import pytest
from ray_runs import RUN, answers, executor, finished, lines, start, wait_for
from two_hosts import family

from snellen.engine.ray.cluster import AGENT_GONE_S
from snellen.engine.ray.pool import STATE_S, UNEXPECTED_END, WATCH_S, _why
from stopwatch import Stopwatch, seconds_until_end

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")


@pytest.fixture(scope="module")
def dying():
    """Processes that may take a minute to end; all have ended when the tests of this file are over."""
    processes = []
    yield processes
    left = psutil.wait_procs(processes, timeout=600)[1]
    assert not left, [one.name() for one in left]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_ray_of_our_own_ends_with_the_run_however_that_ends(tmp_path, undisturbed, number, dying):
    folder = tmp_path / "run"
    run = start((*RUN, "--nproc", "2", "--out", folder))
    wait_for(run, lambda: lines(folder / "results.jsonl") > len(undisturbed) // 8)
    started = family(run.pid)
    assert any("raylet" in one.name() for one in started)
    workers = [one for one in started if "".join(one.cmdline()).startswith("ray::Worker")]
    niceness = psutil.Process(run.pid).nice()
    assert workers and {one.nice() for one in workers} == {niceness}  # Ray's default, 15, starves beside other programs
    os.killpg(run.pid, number) if number == signal.SIGINT else run.send_signal(number)  # the terminal tells them all
    finished(run, -number if number == signal.SIGKILL else 128 + number)
    watch = Stopwatch(*(one.pid for one in started))
    left = started
    for _ in range(3000):  # they are given 30 seconds, in which they could run
        watch.look()
        left = psutil.wait_procs(left, timeout=0.1)[1]
        if not left or watch.seconds > 30:
            break
    # Where all was killed at once, two agents of Ray try for a minute to tell the others, who are no more.
    assert {one.name() for one in left} <= (
        {"ray::RuntimeEnvAgent", "ray::DashboardAgent"} if number == signal.SIGKILL else set()
    )
    dying += left
    if number == signal.SIGINT:
        finished(start((*RUN, "--out", folder)))  # without workers this time
        assert answers(folder) == undisturbed


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_ray_of_our_own_that_dies_ends_the_run_with_an_error_and_the_answers_are_kept(tmp_path, undisturbed, name):
    """It used to wait for ever. The watch itself leaves most of the 30 seconds for Ray to be ended."""
    assert WATCH_S + 2 * STATE_S < 15
    folder = tmp_path / "run"
    run = start((*RUN, "--nproc", "2", "--out", folder))
    wait_for(run, lambda: lines(folder / "results.jsonl") > len(undisturbed) // 8)
    processes = family(run.pid)
    (dead,) = (one for one in processes if one.name() == name)
    dead.kill()
    assert seconds_until_end(run, (one.pid for one in processes)) < 30
    _, err = finished(run, 8)
    assert f"its {name.replace('_', ' ')} was killed by signal 9 (SIGKILL)" in err
    assert "Run the same command again" in err and "Traceback" not in err
    assert 0 < len(answers(folder)) < len(undisturbed) and answers(folder).items() <= undisturbed.items()


@pytest.mark.parametrize(("title", "hangs"), [("ray::DashboardAgent", False), ("ray::RuntimeEnvAgent", True)])
def test_a_ray_of_our_own_that_loses_an_agent_ends_the_run_with_an_error(tmp_path, title, hangs):
    """A raylet ends when an agent of its has. Where it hung meanwhile, the run waited for ever, or for 300 s."""
    assert WATCH_S + AGENT_GONE_S + 2 * STATE_S < 20
    folder = tmp_path / "run"
    run = start(
        (*(word if word != "questions=40" else "questions=400" for word in RUN), "--nproc", "2", "--out", folder)
    )
    wait_for(run, lambda: lines(folder / "results.jsonl") > 5)
    processes = family(run.pid)
    (agent,) = (one for one in processes if one.cmdline()[:1] == [title])
    if hangs:
        next(one for one in processes if one.name() == "raylet").suspend()
    agent.kill()
    assert seconds_until_end(run, (one.pid for one in processes)) < 30
    _, err = finished(run, 8)
    assert "the Ray that this run started is gone: its " in err and "Traceback" not in err
    if hangs:
        assert "agent has ended, and its raylet hung" in err
    left = psutil.wait_procs(processes, timeout=120)[1]
    assert not left, [one.name() for one in left]


def test_a_worker_that_is_killed_is_not_said_to_have_run_out_of_memory(tmp_path, undisturbed):
    folder = tmp_path / "run"
    run = start((*RUN, "--nproc", "2", "--out", folder))
    wait_for(run, lambda: lines(folder / "results.jsonl") > len(undisturbed) // 8)
    worker = next(one for one in family(run.pid) if one.cmdline()[:1] and one.cmdline()[0].startswith("ray::Worker"))
    worker.kill()
    finished(run)
    assert answers(folder) == undisturbed
    (why,) = executor(folder)["lost"]
    assert "kill -9" in why and "out of memory" not in why


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
            "unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was "
            "killed by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed. "
            "If the process was killed by the kernel OOM killer (verifiable by checking for OOM in dmesg of the OOMing node), "
            "consider enabling resource isolation.",
            UNEXPECTED_END,
        ),
        (
            "1 worker(s) were killed due to the node running low on memory. Memory on the node was 15 GB / 16 GB",
            "out of memory",
        ),
        (
            "The actor died because its node has died. Node Id: 1f2e: the actor's node was terminated unexpectedly",
            "its host is gone",
        ),
    ],
)
def test_why_a_worker_is_gone_is_what_ray_saw_and_not_what_it_guesses(said, meant):
    assert _why(RuntimeError(said)) == meant


def test_an_address_where_nobody_listens_is_told_at_once(tmp_path):
    _, err = finished(start((*RUN, "--ray", "127.0.0.1:1", "--out", tmp_path / "run")), 4)
    assert "there is no Ray at 127.0.0.1:1" in err
    assert "ray start --head" in err
