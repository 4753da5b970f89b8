"""`snellen demo` in a process that has no torch: it runs, resumes, and names its reports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from printed_schema import require_schema
from snellen.cli import view

WITHOUT_TORCH = """
import sys, webbrowser
sys.modules.update(dict.fromkeys(("torch", "transformers", "torchvision", "sklearn")))  # as where they are not installed
webbrowser.open = lambda address: print("OPENED", address)
from snellen.cli import demo, main
demo.STEPS = {"chart": ("questions=2",), "acuity": ("attributes=chart/digit-blur", "most=8")}
main(sys.argv[1:])
"""


def call(folder, *words):
    command = [sys.executable, "-c", WITHOUT_TORCH, "demo", "--out", "tried", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_demo_runs_without_torch_and_a_second_call_continues(tmp_path):
    first = call(tmp_path)
    assert first.returncode == 0, first.stderr
    page = tmp_path / "tried/chart/report.html"
    assert f"Report: {page}" in first.stdout and "OPENED" not in first.stdout, "no terminal: no browser"
    assert first.stdout.count("\n  snellen ") == 3
    records = (tmp_path / "tried/chart/results.jsonl").read_bytes()
    again = call(tmp_path, "--json", "--open")
    assert again.returncode == 0, again.stderr
    line, opened = again.stdout.rstrip().rsplit("\n", 1)
    assert opened == f"OPENED {page.as_uri()}"
    require_schema("demo", line)
    chart, acuity = json.loads(line)["runs"]
    assert (chart["state"], chart["totals"]["ok"], chart["report"]) == ("complete", 54, "tried/chart/report.html")
    assert acuity["state"] == "complete" and (tmp_path / acuity["report"]).is_file()
    assert (tmp_path / "tried/chart/results.jsonl").read_bytes() == records


@pytest.mark.parametrize(
    ("variables", "wanted"), [({}, False), ({"DISPLAY": ":0"}, True), ({"DISPLAY": ":0", "CI": "1"}, False)]
)
def test_a_browser_is_wanted_on_a_desktop_alone(variables, wanted, monkeypatch):
    for name in ("CI", "SSH_CONNECTION", "SSH_TTY", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(view.sys, "platform", "linux")
    monkeypatch.setattr(view.sys.stderr, "isatty", lambda: True, raising=False)
    assert view.browser_wanted() is wanted
