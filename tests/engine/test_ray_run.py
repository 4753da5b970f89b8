"""One run on several hosts: nothing is lost and nothing comes twice, whoever dies."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from ray_runs import RUN, answers, executor, finished, lines, start, wait_for
from two_hosts import TwoHosts

from snellen.features import open_store

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytest.importorskip("transformers", reason="the extra `local` is not installed")


@pytest.fixture(scope="module")
def hosts():
    made = TwoHosts()
    try:
        yield made
    finally:
        made.close()


def test_a_host_that_is_lost_in_the_middle_of_a_run_costs_no_answer_and_doubles_none(tmp_path, hosts, undisturbed):
    other = hosts.other()
    words = (*RUN, "--ray", hosts.address, "--nproc", "2", "--out", tmp_path / "run", "--json")
    run = start(words, hosts.environment)
    wait_for(run, lambda: lines(tmp_path / "run" / "results.jsonl") > len(undisturbed) // 8)
    other.cut()
    out, _ = finished(run)
    assert answers(tmp_path / "run") == undisturbed
    told = executor(tmp_path / "run")
    print(told)
    assert (told["workers"], told["nodes"]) == (2, 2)
    assert sum(told["lost"].values()) >= 1
    assert told["asked_again"] >= 1
    json.loads(out)  # what Ray has to say about the loss does not stand between


def test_a_killed_driver_goes_on_with_another_number_of_workers(tmp_path, hosts, undisturbed):
    hosts.other()
    folder = tmp_path / "run"
    run = start((*RUN, "--ray", hosts.address, "--nproc", "2", "--out", folder), hosts.environment)
    wait_for(run, lambda: lines(folder / "results.jsonl") > len(undisturbed) // 8)
    run.kill()
    run.communicate()
    before = lines(folder / "results.jsonl")
    assert 0 < before < len(undisturbed)
    finished(start((*RUN, "--ray", hosts.address, "--nproc", "1", "--out", folder), hosts.environment))
    assert answers(folder) == undisturbed
    assert executor(folder)["workers"] == 1


def test_an_extraction_that_loses_a_host_and_then_its_driver_gives_the_same_bytes(tmp_path, hosts):
    sys.path.insert(0, str(Path(__file__).parent.parent / "features"))
    from pictures import data_set

    files = data_set(tmp_path, {"train": [str(i % 7) for i in range(900)], "test": ["3", "0"] * 50})
    splits = [word for file in files for word in ("--split", file)]
    words = (
        "features",
        "extract",
        "--encoder",
        "embedded",
        "--images",
        tmp_path / "images",
        *splits,
        "--batch-size",
        "4",
    )
    finished(start((*words, "--out", tmp_path / "alone")))
    other = hosts.other()
    far = (*words, "--ray", hosts.address, "--out", tmp_path / "far")
    extraction = start((*far, "--nproc", "2"), hosts.environment)
    commits = tmp_path / "far" / "commits.jsonl"
    wait_for(extraction, lambda: lines(commits) >= 3)
    other.cut()
    after = lines(commits)
    wait_for(extraction, lambda: lines(commits) >= after + 3)
    extraction.kill()
    extraction.communicate()
    assert not json.loads((tmp_path / "far" / "store.json").read_bytes())["complete"]
    finished(start((*far, "--nproc", "1"), hosts.environment))
    for output in ("patch_mean", "aligned"):
        alone, scattered = (open_store(tmp_path / name, output) for name in ("alone", "far"))
        assert list(alone.ids) == list(scattered.ids)
        assert np.array_equal(alone.values, scattered.values)


def test_a_stranger_without_the_token_is_not_let_in(tmp_path, hosts):
    stranger = {name: value for name, value in hosts.environment.items() if not name.startswith("RAY_AUTH")}
    stranger["HOME"] = "/nonexistent"
    _, err = finished(start((*RUN, "--ray", hosts.address, "--out", tmp_path / "run"), stranger), 4)
    assert "does not accept this process" in err
    assert "RAY_AUTH_TOKEN" in err
    assert "Traceback" not in err
    assert not (tmp_path / "run" / "results.jsonl").exists()
