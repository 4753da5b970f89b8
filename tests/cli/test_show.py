"""`snellen show` prints answers with their questions, and never a gold answer that is restricted."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.fika import made
from engine.stubs import ARITHMETIC, Calculator
from snellen import evaluate
from snellen.benchmarks import registry
from snellen.media import read_header

pytestmark = pytest.mark.usefixtures("printed_as_schema")

SECRET = replace(ARITHMETIC, name="secret", restricted=True)


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:ARITHMETIC")
    monkeypatch.setitem(registry.BUILT_IN, "secret", f"{__name__}:SECRET")


def answers(said: Any) -> list[dict[str, Any]]:
    assert said.status == 0, said.err
    return json.loads(said.out)["answers"]


def test_answers_are_chosen_by_verdict_id_and_place(snellen):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=6)
    every = answers(snellen("show", "run", "--json"))
    assert [each["sample_id"] for each in every] == [f"q{n}" for n in range(6)]
    assert every[2]["gold"] is not None and every[2]["scores"] and every[2]["question"][0]["type"] == "text"
    assert answers(snellen("show", "run", "--json", "--limit", "2", "--skip", "3")) == every[3:5]
    assert answers(snellen("show", "run", "--json", "--sample", "q1", "--sample", "q4")) == [every[1], every[4]]
    by_verdict = [answers(snellen("show", "run", "--json", "--verdict", word)) for word in ("correct", "wrong")]
    assert sorted(each["sample_id"] for part in by_verdict for each in part) == [each["sample_id"] for each in every]
    printed = snellen("show", "run", "--limit", "1").out
    assert printed.startswith("--- q0 ") and "gold" in printed and "reply" in printed
    assert "no answer of the run" in snellen("show", "run", "--sample", "none").err


def test_a_restricted_gold_answer_is_not_shown_and_struck_from_replies(snellen):
    evaluate(ARITHMETIC, Calculator(), out="open", limit=3)
    evaluate(SECRET, Calculator(), out="closed", limit=3)
    for with_gold, without in zip(
        *(answers(snellen("show", run, "--json")) for run in ("open", "closed")), strict=True
    ):
        assert without["gold"] is None and with_gold["gold"] is not None
    assert "    gold " not in snellen("show", "closed").out


def test_questions_to_a_judge_that_quote_a_restricted_gold_answer_are_not_shown(snellen, monkeypatch, tmp_path):
    made.whole(tmp_path / "fika.zip", 2)
    (tmp_path / "replies.jsonl").write_text(json.dumps({"sample_id": "s000", "reply": made.answer("right")}) + "\n")
    monkeypatch.setenv("JUDGE_API_KEY", "key-of-the-judge")
    with made.FikaJudge("key-of-the-judge") as judge:
        words = ("--data", "fika.zip", "--judge", "api:stub-judge", "--judge-base-url", judge.url)
        snellen("run", "fika", "-m", "replay:replies.jsonl", "--out", "run", "--quiet", *words)
        snellen("judge", "run", "--model", "api:stub-judge", "--base-url", judge.url, "--json")
    assert b"zyxgold" not in snellen("show", "run").out.lower().encode()
    said = snellen("show", "run_judged")
    assert said.status == 2 and "restricted" in said.err and "Zyxgold" not in said.out + said.err


def test_pictures_are_given_in_number_and_made_smaller(snellen):
    assert snellen("run", "chart/digits", "-m", "embedded", "--limit", "4", "--out", "run", "--quiet").status == 0
    for wanted in (0, 2, 20):
        shown = json.loads(snellen("show", "run", "--json", "--pictures", wanted).out)
        places = [part["picture"] for each in shown["answers"] for part in each["question"] if "picture" in part]
        assert len(shown["pictures"]) == len(set(places)) <= wanted
        for picture in shown["pictures"]:
            header = read_header(b64decode(picture["data"]))
            assert header is not None and f"image/{header.format}" == picture["mime_type"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [(("--verdict", "correkt"), "correct"), (("--pictures", "2"), "--json"), (("--profile", "x"), "has")],
)
def test_an_option_that_is_wrong_is_refused_with_what_to_type(words, hint, snellen):
    evaluate(ARITHMETIC, Calculator(), out="run", limit=1)
    said = snellen("show", "run", *words)
    assert said.status == 2 and hint in said.err
    assert "all samples" not in snellen("show", "run", "--limit", "0").err  # what run and check say
