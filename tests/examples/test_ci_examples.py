"""The examples for CI: the scripts of the action and of the workflow are run as GitHub would run them, and pytest's too."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from snellen import evaluate
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data

sys.path.insert(0, str(Path(__file__).parent))
from github_workflow import Job, defaults

import fresh_environments

ROOT = Path(__file__).parent.parent.parent
CI = ROOT / "examples" / "ci"
ACTION = yaml.safe_load((CI / "action" / "action.yml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((CI / "snellen.yml").read_text(encoding="utf-8"))
STEPS = WORKFLOW["jobs"]["evaluate"]["steps"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a baseline, a run that is no worse, one that always answers alike, and the files of their answers."""
    place = tmp_path_factory.mktemp("ci")
    samples = list(registry.find("chart/digits").samples(Data()))
    for name, wrong in (("baseline", {0, 1, 3, 4, 5}), ("same", {1, 3, 4, 5, 6}), ("blind", set(range(0, 320, 2)))):
        rows = [
            {"id": sample.id, "reply": "none" if number in wrong else str(sample.target)}
            for number, sample in enumerate(samples)
        ]
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        evaluate("chart/digits", f"replay:{place / name}.jsonl", out=place / "results" / name)
    return place


def environment(commands: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    base = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    return {**base, "PATH": path, "OMP_NUM_THREADS": "1", **more}


def act(name: str, folder: Path, commands: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run one step of the action with these inputs."""
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == name]
    given = {key.replace("_", "-"): value for key, value in inputs.items()}
    variables = environment(commands, GITHUB_STEP_SUMMARY=str(folder / "summary.md"))
    (done,) = Job(folder, variables, inputs=defaults(ACTION) | given).run([step]).done
    return done


def test_the_action_fails_on_a_drop_and_passes_without_one(folder: Path, commands: Path):
    done = act(
        "Compare with the baseline", folder, commands, baseline="results/baseline", out="results/same", margin="0.01"
    )
    assert done.returncode == 0 and "PASS  B = results/same" in done.stdout, done.stderr
    done = act(
        "Compare with the baseline", folder, commands, baseline="results/baseline", out="results/blind", margin="0.01"
    )
    assert done.returncode == 10 and "FAIL  B = results/blind" in done.stdout, done.stderr
    assert ElementTree.parse(folder / "results/junit/compare.xml").getroot().get("failures") == "1"
    assert "### results/blind against results/baseline" in (folder / "summary.md").read_text()
    assert (
        act("Compare with the baseline", folder, commands, baseline="results/gone", out="results/same").returncode == 5
    )


def test_the_action_runs_and_checks_each_line_of_its_thresholds(folder: Path, commands: Path):
    inputs = {"benchmark": "chart/digits", "model": "replay:same.jsonl", "out": "results/few", "limit": "160"}
    assert (
        act("Run", folder, commands, **inputs, fail_under="accuracy=0.7\n\naccuracy/digits/choice=0.3\n").returncode
        == 0
    )
    done = act("Run", folder, commands, **inputs, fail_under="accuracy=0.7\naccuracy/digits/choice=0.999\n")
    assert done.returncode == 11 and done.stdout.count("PASS") == 1 and done.stdout.count("FAIL") == 1
    assert ElementTree.parse(folder / "results/junit/run.xml").getroot().get("tests") == "3"


def test_an_input_is_never_run_by_the_shell(folder: Path, commands: Path):
    trap = "$(touch trapped)`touch trapped`; touch trapped"
    act("Run", folder, commands, benchmark=trap, model=trap, out=trap, limit=trap, fail_under=trap)
    assert not (folder / "trapped").exists()
    for step in [*ACTION["runs"]["steps"], *STEPS]:
        assert "${{" not in step.get("run", ""), step


def test_the_workflow_passes_inputs_that_the_action_has_and_all_that_it_needs():
    (step,) = [step for step in STEPS if step.get("uses") == "./.github/actions/snellen"]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert {name for name, entry in ACTION["inputs"].items() if entry.get("required")} <= set(step["with"])
    assert all("shell" in step for step in ACTION["runs"]["steps"] if "run" in step)
    # YAML 1.1 reads the key `on` as true
    assert set(WORKFLOW[True]) == {"pull_request", "push"} and WORKFLOW["permissions"] == {"contents": "read"}


def test_the_workflows_own_scripts_replace_the_baseline(folder: Path, tmp_path: Path):
    (step,) = [step for step in STEPS if step.get("name") == "Make this run the baseline"]
    for name in ("baseline", "candidate"):
        (tmp_path / "results" / name).mkdir(parents=True)
        (tmp_path / "results" / name / "who").write_text(name)
    subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=tmp_path, check=True)
    assert (tmp_path / "results/baseline/who").read_text() == "candidate"


def test_the_workflow_that_the_page_copies_runs_with_the_wheel_from_install_to_comparison(tmp_path: Path):
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (tmp_path / "snellen").symlink_to(ROOT)
    for command in re.findall(r"^\$ (mkdir -p \.github.*|cp .*examples/ci/.*)$", page, re.M):
        subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True)
    workflow = yaml.safe_load((tmp_path / ".github/workflows/snellen.yml").read_text(encoding="utf-8"))
    wheel = fresh_environments.build_wheel(tmp_path)
    programs = fresh_environments.prepare(wheel, tmp_path / "environment", "local", ["pip"])
    for step in workflow["jobs"]["evaluate"]["steps"]:
        if step.get("uses", "").startswith("./"):
            step["with"]["package"] = f"{wheel}[local]"
    variables = {name: value for name, value in environment(programs).items() if name != "PYTHONPATH"}
    variables |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1", "HF_HUB_OFFLINE": "1"}
    printed = []
    for event, matched in (("push", ""), ("pull_request", "snellen-baseline-1")):
        shutil.rmtree(tmp_path / "results/candidate", ignore_errors=True)
        github = {"event_name": event, "sha": "2", "ref": "refs/heads/main"}
        job = Job(tmp_path, variables, github, steps={"baseline.outputs.cache-matched-key": matched})
        job.run(workflow["jobs"]["evaluate"]["steps"])
        printed.append("".join(done.stdout for done in job.done))
        assert not job.failed, job.done[-1].stderr
        saved = {"actions/cache/save"} if event == "push" else set()
        assert set(job.skipped) == saved | {
            "actions/checkout",
            "actions/cache/restore",
            "actions/setup-python",
            "actions/upload-artifact",
        }
    assert "::warning::There is no baseline yet" in printed[0] and "PASS  accuracy" in printed[0]
    assert "PASS  B = results/candidate is not significantly worse than A = results/baseline" in printed[1]
    assert sorted(path.name for path in (tmp_path / "results/junit").iterdir()) == ["compare.xml", "run.xml"]


def pytest_of_the_model(folder: Path, commands: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", str(CI / "test_model.py")],
        cwd=folder,
        env=environment(commands, **variables),
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_the_complete_workflow_of_the_page_runs_step_by_step(commands: Path, tmp_path: Path):
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(name: Snellen\n.*?)^```$", page, re.M | re.S)
    job = yaml.safe_load(text)["jobs"]["evaluate"]
    steps = [step for step in job["steps"] if step.get("run") != "pip install snellen"]  # it is here already
    done = Job(tmp_path, environment(commands)).run(steps)
    assert len(steps) == len(job["steps"]) - 1 and not done.failed, done.done[-1].stderr
    assert ElementTree.parse(tmp_path / "results" / "run.xml").getroot().get("failures") == "0"
    assert [name.partition("@")[0] for name in done.skipped] == [
        *("actions/checkout", "actions/setup-python", "actions/upload-artifact"),
    ]


def test_the_test_of_a_model_passes_without_a_drop_and_fails_with_one(folder: Path, commands: Path):
    done = pytest_of_the_model(
        folder, commands, OUT="results/first", MODEL="replay:same.jsonl", BASELINE="results/none"
    )
    assert done.returncode == 0 and "3 passed, 1 skipped" in done.stdout, done.stdout
    done = pytest_of_the_model(folder, commands, OUT="results/first", MODEL="replay:same.jsonl")
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout
    done = pytest_of_the_model(folder, commands, OUT="results/second", MODEL="replay:blind.jsonl")
    assert done.returncode == 1 and "3 failed, 1 passed" in done.stdout, done.stdout
    assert "B = results/second is significantly worse than A = results/baseline" in done.stdout
