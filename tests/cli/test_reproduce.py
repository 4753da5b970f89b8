"""`snellen reproduce`: published figures beside measured ones, by published settings, and which of them differ."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servers.oracle import OracleServer, SentQuestion
from snellen import load_run
from snellen.benchmarks.table.entries import entry, names
from snellen.cli import main
from snellen.runs.evaluate import evaluate
from snellen.runs.reproduce import _subset, same_model

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "table"))
from catalogue_drawn import draw

JUDGE = "gpt-4-0613"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("JUDGE_API_KEY", "any")
    monkeypatch.setenv("JUDGE_SELF_HOSTED", "yes")
    monkeypatch.chdir(tmp_path)


def grades(question: SentQuestion) -> str:
    return '{"score": 1.0, "reason": "so"}' if "You are a strict grader" in question.text else "seven"


def reproduced(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["reproduce", *words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def states(table: dict[str, Any]) -> dict[str, tuple[str | None, str]]:
    return {each["name"]: (each["published"], each["state"]) for each in table["settings"]}


def test_the_published_judge_and_settings_are_used_and_each_setting_is_stated(tmp_path, capsys, monkeypatch) -> None:
    drawn = draw(entry("mm-vet"), tmp_path)
    with OracleServer(grades, model=JUDGE) as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.url)
        words = ["mm-vet", "--model", f"api:{JUDGE}", "--base-url", server.url, "--data", str(drawn.path)]
        (found,) = reproduced(capsys, *words, "--out", "run")["reproductions"]
    (table,) = found["published"]
    assert load_run("run").meta.spec.options.generation.max_tokens == 300
    assert load_run("run_judged").meta.spec.model == f"api:{JUDGE}"
    settings = states(table)
    assert settings["judge"] == (JUDGE, "same") and settings["tokens"] == ("max_tokens 300", "same")
    assert settings["pixels"] == settings["sampling"] == settings["prompt"] == (None, "unknown")
    assert settings["subset"] == ("218 rows", "differs"), "the drawn table is not the whole set"
    (own,) = table["own"]
    assert own["value"] == 1.0
    about = {each["row"]: (each["inside"], each["reason"]) for each in table["figures"]}
    assert about == dict.fromkeys(("GPT-4V", "Gemini Pro Vision"), (None, "another model, a part"))
    assert found["is_part"] and found["part"] == "a part, and no reproduction: a table of only 3 of 218 rows"
    (again,) = reproduced(capsys, "--run", "run")["reproductions"]
    assert again == found
    assert main(["reproduce", "mm-vet", "--run", "run"]) == 0
    shown = capsys.readouterr().out
    assert "67.70" in shown and "100.00" in shown and "unknown" in shown and "the runner of GPT-4V" in shown


def test_a_file_of_more_rows_than_were_published_is_another_subset() -> None:
    coverage = SimpleNamespace(of=1_200, part="", full=True)
    totals = SimpleNamespace(error=0, timeout=0)
    meta = SimpleNamespace(coverage=coverage, totals=totals, not_there=0, truncated=None)
    run: Any = SimpleNamespace(meta=meta)
    assert [_subset(run, known).state for known in ({"questions": 1_000}, {"questions": 1_200})] == ["differs", "same"]


def test_a_truncated_set_is_no_whole_one_in_record_title_json_and_report(tmp_path, capsys) -> None:
    drawn = draw(entry("mathvista"), tmp_path)
    words = ["run", "mathvista", "--model", "embedded", "--data", str(drawn.path), "--out", "run"]
    assert main([*words, "--quiet"]) == 0
    assert "mathvista · embedded · strict · a table of only 4 of 1,000 rows" in capsys.readouterr().out
    run = load_run("run")
    assert run.meta.truncated == (4, 1000)
    assert "the data has only 4 of the 1,000 rows that are known of the set" in run.notes()
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["truncated"] == [4, 1000]
    assert main(["report", "run", "--out", "r.html"]) == 0
    page = " ".join(Path("r.html").read_text().split())
    assert "only 4 of the 1,000 rows that are known of the set" in page and "as published by the authors" in page


def test_a_named_judge_and_own_settings_stay_and_a_part_is_no_reproduction(tmp_path, capsys, monkeypatch) -> None:
    drawn = draw(entry("mm-vet"), tmp_path)
    with OracleServer(grades, model="mine") as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.url)
        words = ["mm-vet", "--model", "api:mine", "--base-url", server.url, "--data", str(drawn.path), "--limit", "2"]
        options = ["--judge", "api:mine", "--max-tokens", "64", "--max-pixels", "4096", "--system", "Be brief."]
        (found,) = reproduced(capsys, *words, *options, "--out", "run")["reproductions"]
    settings = states(found["published"][0])
    assert settings["judge"] == (JUDGE, "differs") and settings["tokens"] == ("max_tokens 300", "differs")
    own = {each["name"]: each["own"] for each in found["published"][0]["settings"]}
    assert "max_pixels = 4096" in own["pixels"] and "a system text" in own["prompt"]
    assert own["subset"].startswith("only the first 2 of 3") and settings["subset"][1] == "differs"
    assert found["is_part"] and "no reproduction" in found["part"]
    assert main(["reproduce", "--run", "run"]) == 0
    assert "a part, and no reproduction: only the first 2 of 3 samples" in capsys.readouterr().out


def test_a_run_without_its_judge_has_no_figure_and_says_so(tmp_path, capsys) -> None:
    drawn = draw(entry("mm-vet"), tmp_path)
    with OracleServer(grades, model="mine") as server:
        words = ["mm-vet", "--model", "api:mine", "--base-url", server.url, "--data", str(drawn.path)]
        (found,) = reproduced(capsys, *words, "--judge", "none", "--out", "run", status=9)["reproductions"]
    assert states(found["published"][0])["judge"] == (JUDGE, "differs")
    assert found["published"][0]["own"][0]["value"] is None


def test_authors_and_harness_figures_are_set_beside_their_own_profile(tmp_path, capsys) -> None:
    drawn = draw(entry("mathvista"), tmp_path)
    with OracleServer(drawn.reply, model="mine") as server:
        words = ["mathvista", "--model", "api:mine", "--base-url", server.url, "--data", str(drawn.path)]
        (found,) = reproduced(capsys, *words, "--out", "run")["reproductions"]
    by = {table["by"]: table for table in found["published"]}
    assert states(by["the authors"])["profile"] == ("authors", "same")
    assert states(by["a user with VLMEvalKit"])["profile"] == ("vlmevalkit", "same")
    assert states(by["the vendor"])["profile"] == (None, "unknown")
    assert states(by["the authors"])["sampling"] == ("temperature 0", "same")
    assert states(by["the vendor"])["sampling"] == (None, "unknown")
    human = next(each for each in by["the authors"]["figures"] if each["row"] == "Human")
    assert human["inside"] is None, "people are no run of a model"
    (strict,) = reproduced(capsys, "--run", "run", "--profile", "strict")["reproductions"]
    assert {table["profile"] for table in strict["published"]} == {"strict"}
    assert "profile <bdi>authors</bdi>" in beside("run", "published by the authors"), "one rule here and in the report"
    assert "profile <bdi>strict</bdi>" in beside("run", "published by the vendor")


def beside(run: str, title: str) -> str:
    """Return the published table of this title in the report of a run."""
    assert main(["report", run, "--out", f"{run}.html"]) == 0
    page = " ".join(Path(f"{run}.html").read_text().split()).partition('id="published-title"')[2]
    return page.partition(title)[2].partition("</table>")[0]


@pytest.mark.parametrize("by", ["authors", "The authors, judge mine"])
def test_own_figures_are_set_beside_the_published_model_alone_and_of_a_whole_run_alone(by, capsys) -> None:
    rows = "".join(f"{n},What is said in {n}?,word {n},judged\n" for n in range(6))
    Path("scenes.csv").write_text(f"id,question,answer,type\n{rows}")
    Path("scenes.toml").write_text(
        'name = "scenes"\ntitle = "Scenes"\n[source]\ncsv = "scenes.csv"\n'
        '[rows]\nid = "id"\nquestion = "question"\nanswer = "answer"\n[prompt]\nstyle = "question"\n'
        '[score]\nread = "judged"\n[score.profiles.authors]\nread = "judged"\n'
        '[[report]]\nmetric = "accuracy"\nheadline = true\n'
        f'[[figure]]\nmodel = "Model X"\nvalue = 100.0\nby = "{by}"\nsource = "a paper"\n'
        f'[[figure]]\nmodel = "Model Y"\nvalue = 100.0\nby = "{by}"\nsource = "a paper"\n'
        '[[protocol]]\nby = "the authors"\ntemperature = 0\nsource = "a paper"\n'
    )
    for name, said, part, inside in (
        ("whole", lambda n: f"word {n}", "", [(True, ""), (None, "another model")]),
        (
            "unjudged",
            lambda n: "word 0" if n == 0 else "something else",
            "a part, and no reproduction: only 16.7 % of the samples have a score",
            [(None, "a part"), (None, "another model, a part")],
        ),
    ):
        with OracleServer(lambda sent, said=said: said(int(sent.text.split(" in ")[1][0])), model="model-x") as server:
            words = ["run", "scenes.toml", "-m", "api:model-x", "--base-url", server.url, "--out", name, "-q"]
            assert main(words) == 0
        (found,) = reproduced(capsys, "scenes.toml", "--run", name)["reproductions"]
        (table,) = found["published"]
        assert (found["is_part"], found["part"], table["part"]) == (bool(part), part, part)
        assert [(each["inside"], each["reason"]) for each in table["figures"]] == inside
        assert states(table)["profile"] == ("authors", "same") and states(table)["sampling"][0] == "temperature 0"
        assert main(["reproduce", "--run", name]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert part in shown and ("another model" in shown) and ("yes" in shown) == (name == "whole")
    assert "profile <bdi>authors</bdi>" in beside("whole", f"published by {by}")


def test_a_published_judge_that_is_shut_down_is_refused_before_anything_is_asked(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.delenv("JUDGE_SELF_HOSTED")
    drawn = draw(entry("mm-vet"), tmp_path)
    with OracleServer(grades, model=JUDGE) as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.url)
        words = ["reproduce", "mm-vet", "--model", f"api:{JUDGE}", "--base-url", server.url, "--data", str(drawn.path)]
        assert main([*words, "--out", "run"]) != 0
        assert not server.requests
    assert f"shut {JUDGE} down on 2026-10-23, so it can no longer judge" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("published", "own", "same"),
    [
        ("GPT-4o", "api:gpt-4o-2024-08-06", True),
        ("Claude 3.5 Sonnet", "anthropic:claude-3-5-sonnet-20241022", True),
        ("InternVL3.5-4B Instruct", "local:OpenGVLab/InternVL3_5-4B-Instruct", True),
        ("Qwen2.5-VL-7B", "local:/models/Qwen2.5-VL-7B-Instruct", True),
        ("Qwen3-VL-30B-A3B Thinking", "api:Qwen3-VL-30B-A3B-Instruct", False),
        ("InternVL3.5-4B Instruct", "api:InternVL3.5-4B", False),
        ("GPT-4V", "api:gpt-4o", False),
    ],
)
def test_models_are_one_by_their_names(published, own, same) -> None:
    assert same_model(published, own) == same


def test_what_cannot_be_reproduced_is_refused_or_said(tmp_path, capsys) -> None:
    evaluate("chart/digits", "embedded", limit=2, out="digits")
    capsys.readouterr()
    assert main(["reproduce", "--run", "digits"]) == 0
    assert "chart/digits: no published figure is known" in capsys.readouterr().out
    for words, told in (
        (["vlm2", "--run", "digits"], "digits is a run of chart/digits, not of vlm2"),
        (["--run", "digits", "--temperature", "0"], "--temperature is for a new run"),
        ([], "no benchmark is named"),
        (["--run", "digits", "--profile", "nobody"], "nobody"),
    ):
        assert main(["reproduce", *words]) == 2
        assert told in capsys.readouterr().err


def test_every_stated_protocol_has_a_source_and_is_about_published_figures() -> None:
    for declared in map(entry, names()):
        for protocol in declared.protocol:
            assert protocol.source and any(figure.by.startswith(protocol.by) for figure in declared.figure)
