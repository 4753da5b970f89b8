"""Mixtures of runs, folders of runs, judges' runs, redacted copies and files, as `results/*` gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen import evaluate, judge, load_run
from snellen.errors import RunError
from snellen.runs.redact import redact
from snellen.runs.run_paths import NAMED, find_runs

RUNS = {"one", "two/mine", "two/deep/er"}
VERDICTS = "one_judged"
OTHERS = {"two/public", "empty", "my.csv", "replies.jsonl"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    (root / "my.csv").write_text("id,question,answer\nq,How many?,2\n")
    (root / "replies.jsonl").write_text(json.dumps({"id": "q", "reply": "2"}))
    for name in RUNS:
        evaluate(str(root / "my.csv"), f"replay:{root / 'replies.jsonl'}", out=root / name)
    (root / "verdict.jsonl").write_text(json.dumps({"id": "q", "reply": '{"verdict": "correct"}'}))
    judge(root / "one", f"replay:{root / 'verdict.jsonl'}", out=root / VERDICTS)
    redact(load_run(root / "two/mine"), root / "two/public")
    (root / "empty").mkdir()
    return root


@given(st.lists(st.sampled_from(sorted([*RUNS, VERDICTS, *OTHERS, "two", "."])), min_size=1, unique=True))
def test_each_run_of_a_mixture_is_found_and_the_rest_is_named(root: Path, names: list[str]) -> None:
    below = {run for name in names for run in [*RUNS, VERDICTS] if name in (".", run) or run.startswith(f"{name}/")}
    said: list[str] = []
    if not below:
        if names != ["two/public"]:  # it alone is handed on, and what opens it says that it is a copy
            with pytest.raises(RunError):
                for path in find_runs([root / name for name in names]):
                    load_run(path)
        return
    found = find_runs([root / name for name in names], say=said.append)
    wanted = below - {VERDICTS} if "one" in below else below
    assert sorted(path.relative_to(root).as_posix() for path in found) == sorted(wanted)
    lines = "\n".join(said)
    left_out = [name for name in names if name in OTHERS - {"two/public"}]
    assert all(str(root / name) in lines for name in left_out[:NAMED])
    assert ("verdicts about another" in lines) == (below != wanted)
    assert ("redacted copy" in lines) == bool(
        {"two/public", "two", "."} & set(names) and len(names + sorted(below)) > 2
    )


def test_verdicts_stay_where_a_command_reads_them_too(root: Path) -> None:
    assert root / VERDICTS in find_runs([root / "one", root / VERDICTS], verdicts=True)


def test_a_missing_path_is_an_error_beside_runs(root: Path) -> None:
    with pytest.raises(RunError, match="gone"):
        [load_run(path) for path in find_runs([root / "one", root / "gone"])]
