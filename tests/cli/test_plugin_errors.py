"""An exception out of a user's own code names that code, its file and line; it is no fault in Snellen."""

from __future__ import annotations

import json
import sys

import pytest

from snellen.cli import main
from snellen.plugin_errors import place_of

BENCHMARK = """
from snellen import Benchmark, Prompt, Sample, Score, Text
from snellen.scoring.statistics import mean


def raises(part):
    def do(*given):
        if part == PART:
            return {}["index"]  # RAISES
        return OTHERS[part](*given)
    return do


def samples(data):
    for i in range(4):
        if PART == "samples" and i == 2:
            {}["index"]  # RAISES IN SAMPLES
        yield Sample(id=f"q{i}", prompt=Prompt((Text(f"What is {i}?"),)), target=2 * i, kind="number")


OTHERS = {
    "score": lambda sample, reply: Score(1.0, reply, "correct"),
    "summarize": lambda scores, profile: [mean("accuracy", scores)],
    "digest": lambda data: "1",
    "size": lambda data: 4,
    "notices": lambda data: [],
    "headline": lambda metrics: None,
}
SET = Benchmark(
    name="lights", version="1", samples=samples, score={"strict": raises("score")}, summarize=raises("summarize"),
    profiles={"strict": "x"}, digest=raises("digest"), size=raises("size"), notices=raises("notices"),
    headline=raises("headline"),
)
"""


def line_of(text: str, mark: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith(mark))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module of the user's and return its name; it is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("part", ["samples", "score", "summarize", "digest", "size", "notices", "headline"])
def test_a_benchmark_that_raises_is_named_with_file_and_line(module, capsys, part):
    text = f"PART = {part!r}\n{BENCHMARK}"
    name = module(f"own_{part}", text)
    status = main(["run", f"{name}:SET", "-m", "embedded", "--data", "."])
    err = " ".join(capsys.readouterr().err.split())
    assert status == 3
    line = line_of(text, "# RAISES IN SAMPLES" if part == "samples" else "# RAISES")
    assert "KeyError: 'index'" in err and f"{name}.py:{line}" in err
    assert "fault in snellen" not in err and "Traceback" not in err
    if part != "notices":
        assert "your benchmark 'lights'" in err


@pytest.mark.parametrize("part", ["samples", "size", "score"])
@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("next(iter(()))", "StopIteration"),
        ("exit(0)", "SystemExit: 0"),
        ("__import__('sys').exit('bye')", "SystemExit: bye"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise type('Own', (BaseException,), {})('mine')", "Own: mine"),
    ],
)
def test_exceptions_that_end_a_program_or_a_loop_are_named_with_file_and_line(module, capsys, part, statement, text):
    raising = BENCHMARK.replace('return {}["index"]', statement).replace('{}["index"]', statement)
    code = f"PART = {part!r}\n{raising}"
    name = module(f"ends_{part}_{abs(hash(statement))}", code)
    assert main(["run", f"{name}:SET", "-m", "embedded"]) == 3
    err = " ".join(capsys.readouterr().err.split())
    line = line_of(code, "# RAISES IN SAMPLES" if part == "samples" else "# RAISES")
    assert "your benchmark 'lights' failed: " in err and text in err and f"{name}.py:{line}" in err
    assert "fault in snellen" not in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "SyntaxError: invalid syntax {name}.py:1"),
        ("x = {}\nx['a']\n", "KeyError: 'a' {name}.py:2"),
        ("import no_such_module_anywhere\n", "No module named 'no_such_module_anywhere' {name}.py:1"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_file_and_line(module, capsys, text, said):
    name = module(f"broken_{len(text)}", text)
    assert main(["run", f"{name}:SET", "-m", "embedded"]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert f"your benchmark '{name}:SET' failed" in err
    assert said.format(name=name) in err


@pytest.mark.parametrize(
    ("raising", "error"), [("{}['reply']", "KeyError: 'reply'"), ("next(iter(()))", "StopIteration")]
)
def test_a_model_of_the_users_that_raises_is_recorded_with_file_and_line(module, tmp_path, raising, error):
    from snellen import evaluate

    name = module(
        f"own_model_{error[:3]}",
        "class Own:\n    name = 'own:m'\n    def identity(self): return {}\n    async def preflight(self): ...\n"
        f"    async def answer(self, prompt):\n        return {raising}\n    async def close(self): ...\n",
    )
    run = evaluate("chart", __import__(name).Own(), out=tmp_path / "run", limit=1)
    (line,) = run.folder.results.read_text().splitlines()
    assert error in line and f"{name}.py:6" in line


def test_a_fault_of_snellen_itself_is_still_called_one(monkeypatch, capsys):
    from snellen.cli import app

    def broken():
        raise KeyError("mine")

    broken.__code__ = broken.__code__.replace(co_filename=app.__file__)
    monkeypatch.setattr(app, "version", broken)
    status = main(["version"])
    assert "fault in snellen" in capsys.readouterr().err
    assert status == 70


def test_a_fault_of_snellen_below_a_compiled_package_is_no_fault_of_a_benchmark():
    inside: dict[str, object] = {"__name__": "uvloop.loop", "raises": {}.__getitem__}
    exec(compile("def run(): raises('mine')", "uvloop/loop.pyx", "exec"), inside)
    mine: dict[str, object] = {"__name__": "mine.loop", "raises": {}.__getitem__}
    exec(compile("def run(): raises('mine')", "mine/loop.pyx", "exec"), mine)
    with pytest.raises(KeyError) as of_a_dependency:
        inside["run"]()
    with pytest.raises(KeyError) as of_the_user:
        mine["run"]()
    # The first frame is this test's own, which is a user's code.
    assert place_of(of_a_dependency.value.with_traceback(of_a_dependency.tb.tb_next)) == ""
    assert place_of(of_the_user.value.with_traceback(of_the_user.tb.tb_next)) == "mine/loop.pyx:1"


@pytest.mark.parametrize("part", ["samples", "score", "summarize", "digest", "size", "headline"])
@pytest.mark.parametrize("first", [True, False])
def test_a_benchmark_that_raises_does_not_end_the_other_runs(module, capsys, part, first):
    text = f"PART = {part!r}\n{BENCHMARK}"
    name = module(f"beside_{part}_{first}", text)
    names = [f"{name}:SET", "chart/digits"] if first else ["chart/digits", f"{name}:SET"]
    status = main(["run", *names, "-m", "embedded", "--limit", "3", "-q"])
    printed = capsys.readouterr()
    err = " ".join(printed.err.split())
    assert status == 3
    assert "your benchmark 'lights'" in err and "Traceback" not in err
    assert "3 answered" in printed.out and "results/chart-digits-embedded" in printed.out


def test_a_benchmark_that_raises_at_its_first_sample_is_a_failure_in_json_beside_the_others(module, capsys):
    text = BENCHMARK.replace("i == 2", "i == 0")
    name = module("first_sample", f"PART = 'samples'\n{text}")
    assert main(["run", f"{name}:SET", "chart/digits", "-m", "embedded", "--limit", "3", "-q", "--json"]) == 3
    runs = json.loads(capsys.readouterr().out)["runs"]
    failed = next(run for run in runs if run["state"] == "failed")
    assert failed["benchmark"].endswith(":SET") and "KeyError" in failed["error"]["message"]
    assert len(runs) == 2


READS_A_KEY = """
import os
from snellen import Benchmark


def samples(data):
    key = os.environ["SERVICE_API_KEY"]
    raise KeyError(key + " " + key[::-1] + " x" + key)
    yield


SET = Benchmark(
    name="set", version="1", samples=samples, score={"s": None}, summarize=lambda scores, profile: [], profiles={"s": "s"}
)
"""


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_key_that_a_plug_in_reads_by_itself_is_struck_from_its_errors(
    debug, tmp_path, monkeypatch, capsys, forget_keys
):
    key = "qv8N3xT7bL2mR5wY9kD4hJ6z"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "reads_a_key", raising=False)
    monkeypatch.setenv("SERVICE_API_KEY", key)
    monkeypatch.setenv("SNELLEN_DEBUG", debug)
    (tmp_path / "reads_a_key.py").write_text(READS_A_KEY)
    assert main(["run", "reads_a_key:SET", "-m", "embedded", "--out", "run"]) != 0
    printed = "".join(capsys.readouterr())
    assert "[redacted]" in printed and "reads_a_key.py:8" in printed
    assert key not in printed and key[::-1] not in printed
    assert not any(key in path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file())
