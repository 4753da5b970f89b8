"""A run folder from somebody else is untrusted input: nothing in it is imported, written through, sent to or shown."""

from __future__ import annotations

import json
import os
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fgbmk import released
from snellen import evaluate, load_run, rerun
from snellen.engine.folder_checks import is_own, key_path
from snellen.engine.run_folder import RunFolder
from snellen.errors import UntrustedRunError
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.runs.compare import compare

pytestmark = pytest.mark.installed

READERS = {
    "score": ("score", "evil"),
    "score with a setting": ("score", "evil", "--prompting", "cot"),
    "score with help": ("score", "evil", "--help"),
    "report": ("report", "evil"),
    "compare": ("compare", "mine", "evil"),
    "compare as baseline": ("compare", "evil", "mine"),
    "failures": ("failures", "evil"),
    "export": ("export", "evil", "--format", "jsonl"),
    "export formats": ("export", "evil"),
    "export table": ("export", "evil", "--format", "latex"),
    "rerun": ("rerun", "evil"),
    "judge": ("judge", "evil", "--model", "embedded"),
    "query scores": ("query", "select * from scores", "evil"),
    "query metrics": ("query", "select * from metrics", "evil"),
    "query runs": ("query", "select * from runs", "evil"),
    "list": ("list", "--runs", "--results", "."),
    "redact": ("report", "evil", "--redact", "public"),
    "replay": ("run", "lights", "--model", "replay:evil", "--out", "replayed"),
}
WRITERS = {name: READERS[name] for name in ("score", "report", "failures", "export", "rerun", "judge")}


@pytest.fixture
def mine(snellen: Callable[..., Any], tmp_path: Path) -> Path:
    """A small run of this user's own."""
    assert snellen("run", "lights", "-m", "pixels", "--limit", 4, "--out", "mine", "--quiet").status == 0
    return tmp_path / "mine"


def changed(run: Path, **spec: Any) -> Path:
    """A copy of the run, as another person would have changed its spec."""
    evil = run.with_name("evil")
    shutil.copytree(run, evil)
    meta = json.loads((evil / "run_meta.json").read_text())
    options = spec.pop("options", {})
    meta["spec"] |= spec
    meta["spec"]["options"] |= options
    (evil / "run_meta.json").write_text(json.dumps(meta))
    return evil


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module on the path that leaves a mark when it is imported; returns the mark."""
    mark = tmp_path / "imported"
    place = tmp_path / "modules"
    place.mkdir()
    (place / "planted_module.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "planted_module", raising=False)
    return mark


@pytest.mark.parametrize("name", READERS)
def test_code_that_a_run_folder_names_is_not_imported(name, snellen, mine, planted):
    changed(mine, benchmark="planted_module:X")
    said = snellen(*READERS[name])
    assert not planted.exists() and "planted_module" not in sys.modules
    assert said.status in (0, 2, 5, 9) and "Traceback" not in said.err
    if said.status == 5:
        assert "planted_module:X" in said.err and "--trust" in said.err


@pytest.mark.parametrize("benchmark", ["judged", "failures"])
def test_code_that_the_run_behind_a_judges_run_names_is_not_imported(benchmark, snellen, mine, planted):
    evil = changed(mine, benchmark="planted_module:X")
    shutil.copytree(mine, mine.with_name("evil_judged"))
    meta = json.loads((mine / "run_meta.json").read_text())
    meta["spec"] |= {"benchmark": benchmark, "data": {"path": str(evil), "options": {"rubric": "match"}}}
    (mine.with_name("evil_judged") / "run_meta.json").write_text(json.dumps(meta))
    for words in (("score", "evil_judged"), ("report", "evil_judged"), ("rerun", "evil_judged")):
        said = snellen(*words)
        assert said.status == 5 and "Traceback" not in said.err
    assert not planted.exists()


def test_trust_imports_what_the_folder_names_and_a_user_may_name_code_himself(snellen, mine):
    changed(mine, benchmark="snellen_lights:LIGHTS")
    assert snellen("score", "evil").status == 5
    assert snellen("score", "evil", "--trust").status == 0
    assert snellen("score", "evil", "--benchmark", "snellen_lights:LIGHTS").status == 0
    run = snellen("run", "snellen_lights:LIGHTS", "-m", "pixels", "--limit", 2, "--out", "typed", "--quiet")
    assert run.status == 0


@pytest.mark.parametrize(
    "words", [("features", "report", "store", "--with", "evil"), ("report", "evil", "--reference", "easi")]
)
def test_a_refusal_names_trust_only_where_the_command_has_it(words, snellen, mine, planted):
    changed(mine, benchmark="planted_module:X")
    for command in (
        "submit easi",
        "features report",
        "report",
        "score",
        "compare",
        "failures",
        "export",
        "query",
        "judge",
    ):
        assert "--trust" in snellen(*command.split(), "--help").out, command
    refused = snellen(*words)
    assert refused.status in (2, 3, 5) and not planted.exists()


def test_the_python_interface_asks_for_trust_too(mine, planted):
    evil = changed(mine, benchmark="planted_module:X")
    for call in (lambda: load_run(evil).metrics(), lambda: rerun(evil), lambda: compare(mine, evil)):
        with pytest.raises(UntrustedRunError, match="trust=True"):
            call()
    assert not planted.exists()
    changed_back = load_run(mine)
    assert changed_back.metrics().num_rows


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    "entry",
    [
        *("summary.json.part", "report.html.part", "run_meta.json.part", "failures.jsonl.part", "verdicts.jsonl.part"),
        *(".lock", ".writer", "results.jsonl", "traces", "exports", "summary.json", "report.html", "raw_judge_inputs"),
    ],
)
def test_nothing_is_written_or_read_through_a_link_in_a_run_folder(name, entry, snellen, mine, tmp_path):
    evil = changed(mine)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious, without a line end")
    target = victim if entry in ("traces", "exports", "raw_judge_inputs") else victim / "file"
    for old in (evil / entry, tmp_path / "evil_judged"):
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    (evil / entry).symlink_to(target)
    said = snellen(*WRITERS[name])
    assert said.status == 5 and "symbolic link" in said.err and entry in said.err
    assert [path.name for path in victim.iterdir()] == ["file"]
    assert (victim / "file").read_text() == "precious, without a line end"


def test_a_rerun_sends_no_key_to_an_endpoint_that_the_folder_names(snellen, mine, hostile, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-users-own-key-0123456789")
    url = hostile.url("ok")
    changed(mine, model="api:stub-vlm", options={"base_url": url})
    said = snellen("rerun", "evil", "--out", "again")
    assert said.status == 5 and f"--base-url {url}" in said.err
    assert not hostile.seen.total()
    said = snellen("rerun", "evil", "--out", "again", "--trust")
    assert said.status == 5 and not hostile.seen.total(), "--trust is about files and code, not about the user's key"
    assert snellen("rerun", "evil", "--out", "again", "--base-url", url).status in (0, 9)
    assert hostile.seen.total()


def test_a_rerun_of_ones_own_run_goes_on_with_its_endpoint_and_key_without_a_question(snellen, hostile, monkeypatch):
    monkeypatch.setenv("KEY_OF_MY_SERVER", "my-own-key-0123456789")
    mine = ("--base-url", hostile.url("ok"), "--key-env", "KEY_OF_MY_SERVER")
    snellen("run", "lights", "-m", "api:stub-vlm", *mine, "--limit", 2, "--out", "own")
    before = hostile.seen.total()
    assert snellen("rerun", "own").status == 0, "nothing is left to ask"
    assert snellen("rerun", "own", "--out", "again").status == 0 and hostile.seen.total() > before


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://127.0.0.1:9/elsewhere/v1"},
        {"key_env": "AWS_SECRET_ACCESS_KEY"},
        {"base_url": None, "key_env": "AWS_SECRET_ACCESS_KEY"},
        {"extra_body": {"user": "somebody"}},
        {"tools": None, "agent_model": "other/model"},
    ],
)
def test_a_run_of_ones_own_that_somebody_changed_sends_nothing(options, snellen, hostile, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret-0123456789")
    snellen("run", "lights", "-m", "api:stub-vlm", "--base-url", hostile.url("ok"), "--limit", 2, "--out", "mine")
    changed(Path("mine"), options=options)
    before = hostile.seen.total()
    said = snellen("rerun", "evil", "--out", "again")
    assert said.status == 5 and hostile.seen.total() == before
    assert "--base-url" in said.err or "--key-env AWS_SECRET_ACCESS_KEY" in said.err


def test_a_run_of_0_1_without_a_mark_is_asked_for_its_endpoint_and_then_goes_on(snellen, hostile):
    url = hostile.url("ok")
    snellen("run", "lights", "-m", "api:stub-vlm", "--base-url", url, "--limit", 2, "--out", "old")
    meta = json.loads(Path("old/run_meta.json").read_text())
    for later in ("owner", "places", "records"):
        del meta[later]
    Path("old/run_meta.json").write_text(json.dumps(meta))
    before = hostile.seen.total()
    said = snellen("rerun", "old")
    assert said.status == 5 and f"snellen rerun old --base-url {url}" in said.err and hostile.seen.total() == before
    assert snellen("rerun", "old", "--base-url", url).status == 0
    assert snellen("rerun", "old").status == 0, "it is this user's run from now on"


def test_a_model_of_ones_own_does_not_make_the_rest_of_a_foreign_run_ones_own(snellen, mine, hostile):
    pixels = open_model("pixels", ModelOptions())
    evil = changed(mine, model="api:stub-vlm", options={"base_url": hostile.url("ok"), "sandbox": "none"})
    again = rerun(evil, model=pixels, out=mine.with_name("again"))
    assert again.meta.spec.options.base_url is None and again.meta.spec.options.sandbox == "auto"
    rerun(mine.with_name("again"))
    assert not hostile.seen.total()


def test_a_rerun_uses_the_endpoint_of_the_environment_without_a_question(snellen, hostile, monkeypatch):
    url = hostile.url("ok")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    snellen("run", "lights", "-m", "api:stub-vlm", "--base-url", url, "--limit", 1, "--out", "own")
    assert snellen("rerun", "own").status == 0


def test_a_rerun_sends_no_other_key_than_the_usual_one(snellen, mine, hostile, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", hostile.url("ok"))
    monkeypatch.setenv("SECRET_OF_ANOTHER_SERVICE", "0123456789abcdef")
    changed(mine, model="api:stub-vlm", options={"key_env": "SECRET_OF_ANOTHER_SERVICE"})
    said = snellen("rerun", "evil", "--out", "again")
    assert said.status == 5 and "--key-env SECRET_OF_ANOTHER_SERVICE" in said.err and not hostile.seen.total()


def test_a_person_at_the_terminal_may_confirm_the_endpoint(mine, hostile):
    asked: list[str] = []
    evil = changed(mine, model="api:stub-vlm", options={"base_url": hostile.url("ok")})

    def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(UntrustedRunError):
        rerun(evil, out=mine.with_name("again"), confirm=no)
    assert hostile.url("ok") in asked[0] and not hostile.seen.total()
    assert rerun(evil, out=mine.with_name("again"), confirm=lambda question: True).meta.totals.ok == 4


@pytest.mark.parametrize(
    "spec",
    [
        {"model": "local:/some/model"},
        {"model": "agent:opencode", "options": {"agent_model": "x/y", "sandbox": "none"}},
        {"model": "agent:opencode", "options": {"agent_model": "x/y", "agent_network": "host"}},
        {"model": "agent:opencode", "options": {"agent_model": "x/y", "agent_memory": 1 << 40}},
        {"model": "replay:/etc/hostname"},
        {"model": "embedded", "options": {"adapter": "/some/adapter"}},
        {"model": "api:stub-vlm", "options": {"prices": "/etc/hostname"}},
        {"model": "tools:stub-vlm", "options": {"tools": "/etc/hostname"}},
        {"model": "pixels", "ray": "ray://203.0.113.9:10001"},
        {"model": "pixels", "data": {"path": "/etc"}},
        {"model": "pixels", "data": {"path": "hf:evil/set"}},
        {"model": "pixels", "data": {"images": "../../.."}},
    ],
)
def test_a_rerun_of_somebody_elses_run_reads_starts_and_reaches_nothing_without_trust(spec, snellen, mine):
    changed(mine, **spec)
    said = snellen("rerun", "evil", "--out", "again")
    assert said.status == 5 and "--trust" in said.err and not Path("again").exists()


def test_data_on_the_hub_that_is_no_benchmarks_own_is_not_fetched(snellen, mine, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    changed(mine, benchmark="vsi-bench", data={"path": "hf:evil/set"})
    said = snellen("score", "evil")
    assert said.status == 5 and "hf:evil/set" in said.err and "--trust" in said.err


@pytest.fixture
def birds(tmp_path: Path, snellen: Callable[..., Any]) -> Path:
    """A run over FG-BMK's questions with images that lie outside of the run's folder."""
    data, images = released.write(tmp_path / "data"), released.birds(tmp_path / "cub")
    run = evaluate("fgbmk/cub/species/choice", "pixels", data=data, images=images, out=tmp_path / "birds")
    return run.path


def _encoded(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()


def test_images_outside_of_somebody_elses_run_are_not_put_into_a_report(snellen, birds):
    own = snellen("report", "birds", "--out", "own.html")
    thumbnails = Path("own.html").read_text().count(";base64,")
    assert own.status == 0 and thumbnails > 1
    evil = birds.with_name("evil")
    shutil.copytree(birds, evil)
    meta = json.loads((evil / "run_meta.json").read_text())
    meta["owner"] = "0" * 32
    (evil / "run_meta.json").write_text(json.dumps(meta))
    assert snellen("report", "evil", "--out", "evil.html").status == 0
    page = Path("evil.html").read_text()
    assert page.count(";base64,") < thumbnails and "--trust" in page
    assert not any(encoded in page for encoded in map(_encoded, (birds.parent / "cub").rglob("*.jpg")))
    assert snellen("report", "evil", "--trust", "--out", "trusted.html").status == 0
    assert Path("trusted.html").read_text().count(";base64,") == thumbnails


def test_other_data_at_a_path_that_somebody_elses_run_names_is_not_read(snellen, birds, tmp_path):
    changed(birds, data={"path": "/etc/hostname", "images": "/etc"})
    for words in (("score", "evil"), ("report", "evil"), ("failures", "evil")):
        said = snellen(*words)
        assert said.status in (3, 5) and "Traceback" not in said.err


def test_without_a_key_of_the_users_own_runs_are_read_and_scored_all_the_same(snellen, mine):
    key_path().unlink()
    from snellen.engine import folder_checks

    folder_checks._keys.clear()
    assert snellen("score", "mine").status == 0 and snellen("report", "mine").status == 0


def test_the_key_that_marks_runs_is_readable_by_the_user_alone(snellen, mine):
    assert key_path().stat().st_mode & 0o077 == 0


def foreign(run: Path) -> Path:
    """A copy of the run that no Snellen of this user has marked."""
    copy = changed(run)
    meta = json.loads((copy / "run_meta.json").read_text()) | {"owner": "0" * 32}
    (copy / "run_meta.json").write_text(json.dumps(meta))
    return copy


def lying(run: Path) -> Path:
    """A copy of the run by somebody who says that it is whole and perfect: later summary, other totals and coverage."""
    evil = foreign(run)
    meta = json.loads((evil / "run_meta.json").read_text())
    meta |= {"coverage": {"limit": None, "of": 4}, "state": "complete"}
    meta["totals"] |= {"ok": 4_000, "error": 0}
    (evil / "run_meta.json").write_text(json.dumps(meta))
    summary = json.loads((evil / "summary.json").read_text())
    for profile in summary["profiles"]:
        for metric in profile["metrics"]:
            metric |= {"value": 0.987, "ci95": [0.98, 0.99], "coverage": 1.0, "n": 4_000}
    (evil / "summary.json").write_text(json.dumps(summary))
    os.utime(evil / "summary.json", (2e9, 2e9))
    return evil


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--runs", "--results", "."),
        ("list", "--runs", "--results", ".", "--json"),
        ("query", "select run, value, ok, coverage from runs", "evil"),
        ("query", "select value, answered from metrics", "evil"),
        ("score", "evil"),
        ("rerun", "evil", "--quiet"),
    ],
)
def test_figures_of_somebody_elses_run_are_computed_from_its_answers(words, snellen, mine):
    lying(mine)
    said = snellen(*words)
    assert said.status in (0, 9), said.err
    assert "0.987" not in said.out and "98.7" not in said.out and "4,000" not in said.out and "4000" not in said.out
    if words[0] == "list":
        assert "100.0%" not in said.out and "complete" not in [line.split()[3] for line in rows_of(said.out, "evil")]


def rows_of(table: str, run: str) -> list[str]:
    return [line.replace("│", " ") for line in table.splitlines() if line.replace("│", " ").split()[:1] == [run]]


def test_figures_that_cannot_be_computed_are_named_as_what_the_folder_says(snellen, birds, tmp_path):
    lying(birds)
    shutil.rmtree(tmp_path / "data")
    said = snellen("list", "--runs", "--results", "evil")
    assert "0.987" in said.out and "evil: metrics read from its summary.json, not recomputed" in said.err
    asked = snellen("query", "select value from metrics", "evil")
    assert asked.status == 0 and "read from its summary.json, not recomputed" in asked.err


def test_the_mark_of_an_own_run_is_not_given_to_what_only_passes_through(mine):
    evil = RunFolder(foreign(mine))
    meta = evil.meta()
    evil.write_meta(meta, own=False)
    assert evil.meta().owner == "" and not is_own(evil.meta())


@pytest.fixture
def mistaken(snellen: Callable[..., Any], tmp_path: Path) -> Path:
    """A run of this user's own with wrong answers."""
    blind = ("--blank-images", "--limit", 6, "--out", "mine", "--quiet")
    assert snellen("run", "lights", "-m", "pixels", *blind).status == 0
    return tmp_path / "mine"


def labelled_elsewhere(run: Path, **fields: Any) -> Path:
    """A copy of the run by somebody who labelled its answers; `fields` are those of each line that differ."""
    evil = foreign(run)
    lines = []
    for record in map(json.loads, (evil / "results.jsonl").read_text().splitlines()):
        line = {"sample_id": record["sample_id"], "repeat": 0, "label": "too_coarse", "source": "person", "signals": []}
        lines.append(json.dumps(line | {"people": {"ann": "too_coarse"}} | fields) + "\n")
    (evil / "failures.jsonl").write_text("".join(lines))
    return evil


def test_decisions_of_people_in_somebody_elses_folder_are_named_as_such(snellen, mistaken):
    evil = labelled_elsewhere(mistaken)
    wrong = snellen("failures", "mine").out.split(":")[1].split()[0]
    said = snellen("failures", "evil")
    assert said.status == 0 and f"({wrong} person)" in said.out
    assert f"{wrong} answers have decisions of people from evil, a folder that this user's Snellen" in said.out
    assert snellen("report", "evil", "--out", "evil.html").status == 0
    assert "have decisions of people from evil, a folder that" in Path("evil.html").read_text()
    ids = [json.loads(line)["sample_id"] for line in (evil / "failures.jsonl").read_text().splitlines()]
    own = "".join(json.dumps({"sample_id": one, "label": "format", "by": "ann"}) + "\n" for one in ids)
    Path("own.jsonl").write_text(own)
    assert "decisions of people" not in snellen("failures", "evil", "--review", "own.jsonl").out


@pytest.mark.parametrize(
    "fields",
    [
        {"label": "made up", "people": {"ann": "made up"}},
        {"people": {"ann" * 100: "too_coarse"}},
        {"why": {"ann": "x" * 10_000}},
        {"rule": "<b>"},
        {"judge": "made up"},
    ],
)
def test_labels_that_no_snellen_writes_do_not_count(fields, snellen, mistaken, caplog):
    expected = snellen("failures", "mine").out.partition("\n")[2]
    labelled_elsewhere(mistaken, **fields)
    said = snellen("failures", "evil")
    assert said.status == 0 and said.out.partition("\n")[2] == expected
    assert "have an unknown label or too long a name" in said.err + caplog.text
