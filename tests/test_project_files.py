"""Files that other programs read: workflows, images, hooks. They name what is there, and give no job more than it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import snellen

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "examples"))
from github_workflow import Job  # noqa: E402

WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").iterdir()
}
JOBS = [(name, job, body) for name, workflow in WORKFLOWS.items() for job, body in workflow["jobs"].items()]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
MOVING = "pypa/gh-action-pypi-publish@release/v1"
"""The one action whose maintainers ask to follow a branch."""


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    return list(job["steps"])


@pytest.mark.parametrize(("name", "job", "body"), JOBS, ids=[f"{name}-{job}" for name, job, _ in JOBS])
def test_a_job_has_a_time_limit_pinned_actions_and_rights_only_where_it_publishes(name, job, body):
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"} and body["timeout-minutes"] <= 180
    assert ("id-token" in body.get("permissions", {})) == (job == "publish")
    for step in steps(body):
        assert "${{" not in step.get("run", ""), "an expression in a script is run by the shell"
        assert step.get("uses", MOVING) == MOVING or re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


def test_the_wheel_is_tested_with_each_version_of_python_that_the_metadata_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert WORKFLOWS["tests.yml"]["jobs"]["wheel"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize(("tag", "passes"), [(f"v{snellen.__version__}", True), ("v0.0.1", False)])
def test_a_release_is_built_only_of_the_tag_of_its_version(tag, passes):
    (step,) = [step for step in steps(WORKFLOWS["release.yml"]["jobs"]["build"]) if "tag" in step.get("name", "")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    job = Job(ROOT, {**os.environ, "PATH": path, "GITHUB_REF_NAME": tag}).run([step])
    assert job.failed != passes, job.done[-1].stderr


def test_only_what_is_tested_is_published():
    jobs = WORKFLOWS["release.yml"]["jobs"]
    assert (jobs["publish"]["needs"], jobs["test"]["needs"]) == ("test", "build")
    assert jobs["publish"]["environment"] == "pypi"


def test_images_copy_what_is_there_and_run_without_rights():
    sent = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M) for word in line.split()}
    apptainer = (ROOT / "apptainer.def").read_text(encoding="utf-8")
    (files,) = re.findall(r"%files\n(.*?)\n\n", apptainer, re.S)
    assert {f"{name} /source/{name}" for name in sent} == set(map(str.strip, files.splitlines()))
    assert sent == copied and all((ROOT / name).exists() for name in sent)
    assert re.findall(r"^FROM runtime AS (\S+)$", DOCKERFILE, re.M) == ["cuda", "cpu"]
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.M) == ["1000:1000"]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert {compose[name]["build"]["target"] for name in ("run", "view")} == {"cpu"}
    assert all("healthcheck" in compose[name] for name in ("vllm", "view"))


def test_nothing_of_an_image_is_a_key():
    for name in ("Dockerfile", "compose.yaml", "apptainer.def"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"(TOKEN|KEY|PASSWORD|SECRET)\w*\s*[=:]\s*\S", text), name


def test_the_hooks_before_a_commit_are_the_lint_of_make():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert lint is not None
    linted = [re.sub(r"\$\(BIN\)/| \.$", "", line) for line in re.findall(r"^\t(.*)$", lint[1], re.M)]
    assert [hook["entry"].replace(" --force-exclude", "") for hook in hooks] == linted


def test_every_file_for_github_is_yaml_with_a_name():
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"):
        content = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= content.keys(), form.name
        assert len({field["id"] for field in content["body"]}) == len(content["body"])
    assert subprocess.run(["git", "check-ignore", ".github"], cwd=ROOT, check=False).returncode == 1
