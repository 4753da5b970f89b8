"""A run that has got further answers since it was judged: what was judged stays, and the judge is asked about the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from judge_server import JudgeServer
from judged_clips import CLIPS, PLAIN, SAID, Scripted, register

from snellen import evaluate, load_run
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import FingerprintError
from snellen.runs.judge.ask import judge
from snellen.runs.perform import perform
from snellen.sources.journal_lines import sealed


@pytest.fixture(autouse=True)
def registered(judge_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


def asked(server: JudgeServer, **more: Any) -> Any:
    return judge("run", "api:stub-judge", base_url=server.url, **more)


def verdicts(folder: str) -> dict[str, Any]:
    return {
        row["sample_id"]: row["judge_verdict"]
        for row in map(json.loads, Path(folder, "verdicts.jsonl").read_text().splitlines())
    }


@pytest.mark.parametrize("rubric", [None, "match"])
def test_a_run_that_has_grown_is_judged_where_it_has_grown_and_comes_to_the_same(server, rubric):
    benchmark, said = (CLIPS, SAID) if rubric is None else (PLAIN, ("right", "wrong") * 3)
    evaluate(benchmark, Scripted(said), out="run", limit=3)
    asked(server, rubric=rubric)
    first, before = len(server.asked), Path("run_judged/results.jsonl").read_bytes()
    evaluate(benchmark, Scripted(said), out="run")
    grown = asked(server, rubric=rubric)
    assert Path("run_judged/results.jsonl").read_bytes().startswith(before)
    assert grown.meta.state == "complete" and grown.meta.coverage.full
    again, anew = len(server.asked), asked(server, rubric=rubric, out="anew")
    assert 0 < first < again and len(server.asked) == 2 * again
    assert verdicts("run_judged") == verdicts("anew") and grown.metrics() == anew.metrics()
    assert (grown.meta.identity, grown.meta.fingerprint) == (anew.meta.identity, anew.meta.fingerprint)


def test_an_answer_that_came_later_is_judged_in_place_of_none(server):
    def go(said: tuple[str | None, ...]) -> None:
        spec = RunSpec(benchmark="clips", model="scripted", max_attempts=1)
        perform(spec, RunFolder("run"), benchmark=CLIPS, model=Later(said))

    class Later(Scripted):
        def identity(self) -> dict[str, Any]:
            return {"name": "later"}

    go((*SAID[:3], None, *SAID[4:]))
    asked(server)
    assert verdicts("run_judged")["v3"] == "error" and len(server.asked) == 4
    go(SAID)
    asked(server)
    assert len(server.asked) == 5
    assert verdicts("run_judged")["v3"] == 0
    records = [json.loads(line)["sample_id"] for line in Path("run_judged/results.jsonl").read_text().splitlines()]
    assert sorted(records) == ["v1", "v2", "v3", "v4", "v5"]
    assert {row["sample_id"]: row["value"] for row in load_run("run").scores().to_pylist()}["v3"] == 0.0


def test_a_run_begun_anew_or_another_judge_is_not_a_run_that_has_grown(server):
    evaluate(CLIPS, Scripted(), out="run", limit=3)
    asked(server)
    kept = {path.name: path.read_bytes() for path in Path("run_judged").iterdir() if path.is_file()}
    evaluate(CLIPS, Scripted(), out="run")
    with pytest.raises(FingerprintError, match="temperature"):
        judge("run", "api:stub-judge", base_url=server.url, generation=_warm())
    shutil.rmtree("run")
    evaluate(CLIPS, Scripted(("right", *SAID[1:])), out="run")
    with pytest.raises(FingerprintError, match="data"):
        asked(server)
    assert {name: Path("run_judged", name).read_bytes() for name in kept} == kept and len(server.asked) == 2


def _warm() -> Any:
    from snellen import Generation

    return Generation(temperature=0.5)


def _break(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize("loss", ["a changed byte", "a missing line", "a judge that was asked in between"])
@pytest.mark.parametrize("rubric", [None, "match"])
def test_of_a_run_that_was_damaged_and_mended_only_the_answer_given_anew_is_judged_again(server, rubric, loss):
    benchmark, said = (CLIPS, SAID) if rubric is None else (PLAIN, ("right", "wrong") * 3)
    model = Scripted(said)
    evaluate(benchmark, model, out="run")
    asked(server, rubric=rubric)
    first, results = len(server.asked), Path("run/results.jsonl")
    before = verdicts("run_judged")
    lines = results.read_bytes().splitlines(keepends=True)
    if loss == "a missing line":
        results.write_bytes(b"".join(lines[:1] + lines[2:]))
    else:
        _break(results, lines[1], lines[1].replace(b'"text":"', b'"text":"x'))
    if loss == "a judge that was asked in between":
        asked(server, rubric=rubric)
        assert len(server.asked) == first and len(verdicts("run_judged")) == len(before) - 1
    evaluate(benchmark, model, out="run")
    asked(server, rubric=rubric)
    assert len(server.asked) == first + 1 and verdicts("run_judged") == before
    asked(server, rubric=rubric)
    assert len(server.asked) == first + 1


def test_a_verdict_on_an_answer_that_somebody_changed_is_not_kept(server):
    evaluate(CLIPS, Scripted(SAID), out="run")
    asked(server)
    first, results = len(server.asked), Path("run/results.jsonl")
    lines = results.read_bytes().splitlines(keepends=True)
    other = json.loads(lines[1])
    other["response"]["text"] += " and more"
    del other["seq"], other["crc32"]
    results.write_bytes(lines[0] + sealed(json.dumps(other).encode(), 2) + b"".join(lines[2:]))
    asked(server)
    assert len(server.asked) == first + 1 and "and more" in json.dumps(server.asked[-1])
