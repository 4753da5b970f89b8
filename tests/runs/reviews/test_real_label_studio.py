"""The real Label Studio, where SNELLEN_TEST_LABEL_STUDIO names it: it takes the tasks, and what is decided there comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snellen.easi.external.lmms_eval import free_port
from snellen.runs.evaluate import evaluate
from snellen.runs.reviews.decisions import DECISIONS
from snellen.runs.reviews.journal import ReviewJournal

PROGRAM = os.environ.get("SNELLEN_TEST_LABEL_STUDIO", "")
TOKEN = "0123456789abcdef0123456789abcdef01234567"
START_S = 600
pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(
        not PROGRAM, reason="Label Studio is not tried: SNELLEN_TEST_LABEL_STUDIO names no program (make test-external)"
    ),
]


class LabelStudio:
    """A Label Studio on loopback with one user, by its own interface."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()[:2000]}") from error

    def project(self, tasks: Path) -> int:
        """Make a project of exported tasks and their labelling configuration, and return its number."""
        config = tasks.with_suffix(".xml").read_text()
        number = int(self.ask("/api/projects", {"title": tasks.stem, "label_config": config})["id"])
        self.ask(f"/api/projects/{number}/import", json.loads(tasks.read_text()))
        return number

    def tasks(self, project: int) -> list[dict[str, Any]]:
        listed = self.ask(f"/api/tasks?project={project}&fields=all&page_size=100")
        return list(listed["tasks"])


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStudio]:
    folder, port = tmp_path_factory.mktemp("label-studio"), free_port()
    own = {"USERNAME": "ada@example.org", "PASSWORD": "letters-and-more-1", "USER_TOKEN": TOKEN}
    own |= {"ENABLE_LEGACY_API_TOKEN": "true", "BASE_DATA_DIR": str(folder)}
    env = os.environ | {f"LABEL_STUDIO_{name}": value for name, value in own.items()}
    env |= {"COLLECT_ANALYTICS": "False", "LATEST_VERSION_CHECK": "False", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
    command = [PROGRAM, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    with (folder / "log.txt").open("wb") as log, subprocess.Popen(command, env=env, stdout=log, stderr=log) as process:
        try:
            served = LabelStudio(port)
            deadline = time.monotonic() + START_S
            while True:
                try:
                    served.ask("/api/projects")
                    break
                except (OSError, urllib.error.URLError):
                    assert process.poll() is None and time.monotonic() < deadline, (folder / "log.txt").read_text()
                    time.sleep(1)
            yield served
        finally:
            process.terminate()


def snellen(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "snellen", *map(str, words)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def annotate(studio: LabelStudio, project: int) -> dict[str, tuple[str, str]]:
    """Decide each task of a project otherwise; return sample id to decision and note."""
    decided: dict[str, tuple[str, str]] = {}
    for task, word in zip(studio.tasks(project), DECISIONS, strict=True):
        note = f"seen: {word}, “ü”"
        result = [
            {"from_name": "decision", "to_name": "reply", "type": "choices", "value": {"choices": [word]}},
            {"from_name": "note", "to_name": "reply", "type": "textarea", "value": {"text": [note]}},
        ]
        studio.ask(f"/api/tasks/{task['id']}/annotations", {"result": result})
        decided[task["data"]["sample_id"]] = (word, note)
    return decided


def returned(
    studio: LabelStudio, run: Path, project: int, form: str, decided: dict[str, tuple[str, str]], *names: str
) -> None:
    """Import a project's export, with annotators named, and require exactly the decisions made, each once and by Ada."""
    path = run.parent / f"{project}-{form}.json"
    path.write_text(json.dumps(studio.ask(f"/api/projects/{project}/export?exportType={form}")))
    snellen("reviews", "import", run, path, *(word for name in names for word in ("--reviewer", name)))
    reviews = [review for by in ReviewJournal(run).standing.values() for review in by.values()]
    assert {review.sample_id: (review.decision, review.note) for review in reviews} == decided
    assert {review.reviewer for review in reviews} == {"ada"} and len(reviews) == len(DECISIONS)


def test_six_decisions_are_made_there_come_back_and_return_with_the_tasks(studio, tmp_path):
    run = evaluate("chart", model="embedded", limit=len(DECISIONS), out=tmp_path / "run")
    snellen("reviews", "export", run.path, "--out", tmp_path / "tasks.json", "--cases", "all")
    project = studio.project(tmp_path / "tasks.json")
    assert all(task["data"]["images"][0].startswith("data:image/") for task in studio.tasks(project))
    decided = annotate(studio, project)
    returned(studio, run.path, project, "JSON", decided, "1=ada")
    returned(studio, run.path, project, "JSON_MIN", decided, "1=ada")
    snellen("reviews", "export", run.path, "--out", tmp_path / "again.json", "--cases", "reviewed")
    project = studio.project(tmp_path / "again.json")
    for task in studio.tasks(project):
        (annotation,) = task["annotations"]
        values = {result["from_name"]: result["value"] for result in annotation["result"]}
        word, note = decided[task["data"]["sample_id"]]
        assert (values["decision"]["choices"], values["note"]["text"]) == ([word], [note])
    returned(studio, run.path, project, "JSON", decided)
