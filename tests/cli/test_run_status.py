"""Lists and queries tell a killed run from a whole one, and runs of one model apart."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec import structs

from snellen.engine.run_folder import RunFolder
from snellen.runs.status import distinguishing, is_locked


@pytest.fixture
def runs(snellen):
    """A whole run, one with grey pictures, and one that was killed after 30 of 60 answers."""
    assert snellen("run", "lights", "-m", "pixels", "--quiet", "--out", "results/whole").status == 0
    assert snellen("run", "lights", "-m", "pixels", "--quiet", "--out", "results/grey", "--blank-images").status == 0
    assert snellen("run", "lights", "-m", "pixels", "--quiet", "--out", "results/killed", "--frames", "3").status == 0
    killed(Path("results/killed"))
    return snellen


def killed(path: Path) -> None:
    """Make a whole run what a kill -9 leaves: the meta of its beginning, half of the journal, no summary."""
    folder = RunFolder(path)
    meta = json.loads(folder.meta_path.read_text())
    meta["state"] = "running"
    meta["totals"] = {}
    folder.meta_path.write_text(json.dumps(meta))
    lines = folder.results.read_bytes().splitlines(keepends=True)
    folder.results.write_bytes(b"".join(lines[: len(lines) // 2]))
    folder.summary.unlink()
    (path / ".writer").write_text("4194303")


def listed(snellen):
    return {Path(one["path"]).name: one for one in json.loads(snellen("list", "--runs", "--json").out)["runs"]}


def test_a_killed_run_is_partial_with_the_answers_and_the_score_of_its_journal(runs):
    one = listed(runs)["killed"]
    assert (one["state"], one["answered"], one["questions"]) == ("partial", 30, 60)
    assert one["headline"]["coverage"] == 0.5 and one["headline"]["n"] == 30 and one["headline"]["ci95"]
    said = runs("list", "--runs").out
    assert "30 of 60" in said and "running" not in said and "partial" in said
    sql = "SELECT run, state, answered, coverage, value, low, date FROM runs ORDER BY state, run"
    rows = json.loads(runs("query", sql, "--json").out)["rows"]
    assert [row[0] for row in rows] == ["grey", "whole", "killed"]
    assert rows[-1][1:4] == ["partial", 30, 0.5] and rows[-1][4] is not None and rows[-1][6].startswith("20")


def test_a_run_is_running_only_while_its_lock_is_held(runs):
    path = Path("results/killed")
    assert not is_locked(path)
    with RunFolder(path).locked():
        assert is_locked(path)
        assert listed(runs)["killed"]["state"] == "running"
    assert not is_locked(path) and listed(runs)["killed"]["state"] == "partial"


def test_no_command_calls_a_killed_run_running(runs):
    for words in (("score", "results/killed"), ("compare", "results/whole", "results/killed", "--force")):
        said = runs(*words)
        assert "is incomplete (partial)" in said.out + said.err, words
    assert runs("report", "results/killed", "--out", "page.html").status == 0
    page = Path("page.html").read_text()
    assert "is incomplete (partial)" in page and "(running)" not in page
    with RunFolder(Path("results/killed")).locked():
        assert "is incomplete (running)" in runs("score", "results/killed").err


def test_the_query_of_the_readme_has_neither_a_killed_nor_a_limited_run_before_a_whole_one(runs):
    readme = Path(__file__).parents[2] / "README.md"
    (sql,) = re.findall(r'^\$ snellen query "([^"]+)"', readme.read_text(encoding="utf-8"), re.M)
    assert runs("run", "lights", "-m", "pixels", "--limit", 1, "--out", "results/limited").status == 0
    rows = json.loads(runs("query", sql, "--json").out)["rows"]
    assert [row[0] for row in rows][2:] == ["killed", "limited"]


@pytest.mark.parametrize("command", ["score", "judge", "rerun"])
def test_a_folder_of_runs_in_place_of_a_run_is_answered_with_the_runs_in_it(runs, command):
    said = runs(command, "results", *(("--model", "embedded") if command == "judge" else ()))
    assert said.status in (2, 5)
    assert "It holds 3 runs: results/grey, results/killed, results/whole" in " ".join(said.err.split())


@pytest.mark.parametrize("words", [("compare", "--force"), ("failures",), ("reviews", "status")])
def test_commands_for_several_runs_take_a_folder_of_runs_and_name_what_lies_beside_them(runs, words):
    said = runs(*words, *sorted(Path("results").iterdir()), "README.txt")
    assert said.status == 5 and "README.txt" in said.err, "a path that does not exist is no leftover"
    Path("README.txt").write_text("mine")
    mixed = runs(*words, *sorted(Path("results").iterdir()), "README.txt")
    assert mixed.status == 0 and "README.txt holds no run and is left out" in mixed.err
    alone = runs(*words, "results")
    assert (alone.status, alone.out) == (0, mixed.out)


def test_a_folder_of_runs_is_reported_on_one_page_with_all_of_them(runs, tmp_path):
    assert runs("report", "results", "--out", tmp_path / "all.html").status == 0
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("grey", "killed", "whole"))


def test_the_list_says_what_tells_runs_of_one_model_apart(runs):
    found = listed(runs)
    assert found["grey"]["settings"] == "blank=True"
    assert found["killed"]["settings"] == "frames=3" and found["whole"]["settings"] == "defaults"
    said = runs("list", "--runs").out
    assert (
        "blank=True" in said
        and found["whole"]["date"] in said
        and f"{found['whole']['headline']['value']:.3f} [" in said
    )


def test_digests_are_listed_only_where_nothing_readable_tells_two_runs_apart(runs):
    meta = RunFolder(Path("results/whole")).meta()

    def changed(**identity):
        return structs.replace(meta, identity={**meta.identity, **identity})

    plain, grown, other = (
        changed(prompts="aa"),
        changed(prompts="bb", questions=30),
        changed(prompts="cc", questions=30),
    )
    assert distinguishing([plain, grown]) == ["defaults", "questions=30"]
    assert distinguishing([plain, grown, grown]) == ["defaults", "questions=30", "questions=30"]
    assert distinguishing([plain, grown, other]) == ["defaults", "questions=30, prompts=bb", "questions=30, prompts=cc"]


def test_the_headline_names_one_row_of_metrics_a_run(runs):
    sql = "SELECT run, profile, state, answered, settings FROM metrics WHERE headline ORDER BY run"
    rows = json.loads(runs("query", sql, "--json").out)["rows"]
    assert [row[0] for row in rows] == ["grey", "killed", "whole"] and len({row[1] for row in rows}) == 1
    assert [row[2] for row in rows] == ["complete", "partial", "complete"]
    assert [row[3] for row in rows] == [60, 30, 60]


def test_a_query_of_the_readme_has_whole_runs_first_and_each_run_once(runs):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (line,) = [line for line in readme.splitlines() if line.startswith("$ snellen query ")]
    rows = json.loads(runs("query", line.split('"')[1], "--json").out)
    assert sorted(row[0] for row in rows["rows"]) == ["grey", "killed", "whole"]
    assert rows["rows"][-1][0] == "killed" and rows["columns"][:3] == ["run", "state", "value"]


def test_a_run_folder_of_an_older_version_is_listed_with_its_score(runs):
    path = Path("results/whole")
    summary = json.loads((path / "summary.json").read_text())
    for profile in summary["profiles"]:
        for metric in profile["metrics"]:
            metric.pop("interval")
    (path / "summary.json").write_text(json.dumps(summary))
    one = listed(runs)["whole"]
    assert one["state"] == "complete" and one["headline"]["value"] is not None and one["headline"]["interval"] is None
    meta = json.loads((path / "run_meta.json").read_text())
    meta.pop("owner")  # as 0.1 wrote it: its summary may be anybody's, and the score comes from the answers
    (path / "run_meta.json").write_text(json.dumps(meta))
    computed = listed(runs)["whole"]
    assert computed["state"] == "complete" and computed["headline"]["value"] == one["headline"]["value"]
    assert computed["headline"]["interval"]["method"] == "Wilson"
