"""Sets of clips in the official layout: captions, descriptions and summaries with their judges, and questions in lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from further_video_sets_drawn import CAPTION, draw_captions, draw_generation, draw_lists

import snellen
from servers.oracle import OracleServer, SentQuestion


def test_a_caption_is_right_where_the_judge_finds_the_gold_option_in_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    place, asked = draw_captions(tmp_path / "set"), list[SentQuestion]()
    verdicts = {"caption 0": "A", "caption 1": "(C)", "caption 2": "Z"}

    def reply(request: SentQuestion) -> str:
        if "DESCRIPTION" not in request.text:
            return f"caption {request.text[0]}"
        asked.append(request)
        return next((letter for caption, letter in verdicts.items() if caption in request.text), "A or B")

    with OracleServer(reply) as server:
        run = snellen.evaluate(
            "tempcompass-captioning", "api:oracle", base_url=server.url, data=place, out=tmp_path / "run"
        )
        sent = [request for request in server.requests if request not in asked]
        assert {request.text[3:] for request in sent} == {CAPTION}, "the options are the judge's"
        assert all(figures[0].coverage == 0.0 for figures in run.figures().values()), "nothing is right by a rule"
        snellen.judge(tmp_path / "run", "api:oracle", base_url=server.url)
    judged = {int(re.findall(r"caption (\d)", request.text)[0]): request for request in asked}
    assert not any(request.images for request in asked) and not any("Information" in judged[n].text for n in judged)
    assert "the answer to: What is shown in 2?" in judged[2].text and "C. falling" in judged[2].text
    assert "Answer with one letter" in judged[2].text and "gold" not in judged[2].text.lower()
    for profile, figures in snellen.load_run(tmp_path / "run").figures().items():
        values = {figure.name: (figure.value, figure.coverage) for figure in figures}
        assert values["accuracy"] == (pytest.approx(1 / 3), 0.75), (
            profile,
            "C and Z are wrong, two letters are no verdict",
        )


def test_scenes_and_summaries_are_graded_by_what_counts_in_each_and_averaged_over_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    place, asked = draw_generation(tmp_path / "set"), list[str]()
    grades = {"said 0": 0.9, "said 1": 0.4, "said 2": 0.5}

    def reply(request: SentQuestion) -> str:
        if "grader" not in request.text:
            return f"said {re.findall(r'(?:scene|Summarize) (.)', request.text)[0]}"
        asked.append(request.text)
        grade = next(grade for said, grade in grades.items() if said in request.text)
        return json.dumps({"score": grade, "reason": "r"})

    with OracleServer(reply) as server:
        snellen.evaluate("mlvu-dev-generation", "api:oracle", base_url=server.url, data=place, out=tmp_path / "run")
        sent = [request.text for request in server.requests if request.text not in asked]
        assert all("answer the given questions." in text for text in sent) and len(sent) == 3
        snellen.judge(tmp_path / "run", "api:oracle", base_url=server.url)
    first, summary = (next(text for text in asked if said in text) for said in ("said 0", "said 2"))
    assert "Accuracy is the mean" in first and "The scoring points are: ['point 0a', 'point 0b']" in first
    assert "Completeness" in summary and "scoring points" not in summary and "All of it." in summary
    figures = {figure.name: figure.value for figure in snellen.load_run(tmp_path / "run").figures("strict")["strict"]}
    assert figures["grade/subPlot"] == pytest.approx(6.5) and figures["grade/summary"] == pytest.approx(5.0)
    assert figures["G-Avg"] == pytest.approx((6.5 + 5.0) / 2)  # each task counts alike, on the authors' scale


def test_questions_in_a_list_by_their_video_are_questions_of_their_own(tmp_path: Path) -> None:
    place = draw_lists(tmp_path / "set")
    said = {"0": "(A)", "1": "The answer is B", "2": "D"}
    with OracleServer(lambda request: said[re.findall(r"after (\d)", request.text)[0]]) as server:
        run = snellen.evaluate("lvbench-authors", "api:oracle", base_url=server.url, data=place, out=tmp_path / "run")
        assert len({tuple(request.images) for request in server.requests}) == 2, "two of the three are about one clip"
    wanted = {
        "strict": (2 / 3, 1 / 2),
        "authors": (1 / 3, 0),
        "vlmevalkit": (2 / 3, 1 / 2),
        "lmms-eval": (2 / 3, 1 / 2),
    }
    for profile, (all_rows, reasoning) in wanted.items():
        figures = {figure.name: figure.value for figure in run.figures(profile)[profile]}
        assert figures["accuracy"] == pytest.approx(all_rows), profile
        assert figures["accuracy/reasoning"] == pytest.approx(reasoning), profile
        assert figures["accuracy/entity recognition"] == 1.0
