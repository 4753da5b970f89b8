"""The case page of prompt studies: system text, few-shot examples, earlier turns and option probabilities."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import snellen
from snellen.models.base import Model
from snellen.types import Prompt, Response, TokenLogprob
from snellen.viewer.app import view_app
from snellen.viewer.cases.case_view import CaseColumn, CaseView, case_view
from snellen.viewer.cases.opened_runs import OpenedRuns
from snellen.viewer.cases.pictures import ImageStore
from snellen.viewer.site import ViewSettings

EARLIER = [{"role": "user", "content": "Do owls fly?"}, {"role": "assistant", "content": "They <b>do</b>."}]


class CertainModel(Model):
    """Answers A, with 80 % of the probability on A and 10 % on B."""

    name = "certain"
    supports = frozenset({"system", "history", "logprobs"})

    async def answer(self, prompt: Prompt) -> Response:
        pairs = (("A", math.log(0.8)), ("B", math.log(0.1)))
        return Response("A", logprobs=(TokenLogprob("A", pairs[0][1], pairs),))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a study, and a plain one."""
    root = tmp_path_factory.mktemp("study")
    for name, words in (("tested", ("wren", "robin")), ("train", ("crow", "jay", "rook"))):
        rows = [
            {"id": f"{name}-{word}", "question": f"Is it a {word}?", "A": word, "B": "owl", "answer": "A"}
            | ({"history": EARLIER} if name == "tested" else {})
            for word in words
        ]
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = str(root / "tested.jsonl")
    snellen.evaluate(table, CertainModel(), out=root / "runs/plain")
    snellen.evaluate(
        *(table, CertainModel()),
        out=root / "runs/study",
        system="You know <i>birds</i>.",
        few_shot=2,
        few_shot_from=str(root / "train.jsonl"),
    )
    return root / "runs"


def case_of(root: Path, name: str) -> CaseView:
    runs = OpenedRuns()
    case = case_view([CaseColumn("A", runs.open(name, root / name))], "tested-wren", 0, ImageStore())
    assert case is not None and case.question is not None
    return case


def test_a_case_shows_what_stood_before_the_question(results: Path) -> None:
    case = case_of(results, "study")
    assert case.question is not None
    assert case.question.turns == (("user", "Do owls fly?"), ("assistant", "They <b>do</b>."))
    study = case.replies[0].study
    assert study is not None and study.system == "You know <i>birds</i>."
    assert [role for role, _ in study.examples] == ["user", "assistant"] * 2
    assert all("Is it a" in text for role, text in study.examples if role == "user")
    assert case_of(results, "plain").replies[0].study is None


def test_a_case_shows_the_probabilities_of_the_options(results: Path) -> None:
    reply = case_of(results, "study").replies[0].reply
    assert reply.probabilities == (("A", "88.9%"), ("B", "11.1%")) and reply.seen_share == "90.0%"


def test_the_page_has_all_of_it_as_plain_text(results: Path) -> None:
    client = TestClient(view_app(ViewSettings(results)), base_url="http://127.0.0.1")
    page = client.get("/case?run=study&sample=tested-wren").text
    for words in ("Few-shot examples, 4 turns", "System text of this run", "Earlier turns, 2", "88.9%"):
        assert words in page
    assert "They &lt;b&gt;do" in page and "<i>birds" not in page


def test_a_pool_that_somebody_elses_run_names_is_not_read(results: Path) -> None:
    foreign = results / "foreign"
    foreign.mkdir(exist_ok=True)
    for path in (results / "study").glob("*.json*"):
        (foreign / path.name).write_bytes(path.read_bytes())
    meta = json.loads((foreign / "run_meta.json").read_text())
    (foreign / "run_meta.json").write_text(json.dumps({**meta, "owner": "somebody else"}))
    opened = OpenedRuns().open("foreign", foreign)
    asked, problem = opened.sample_as_asked("tested-wren")
    assert asked is None and ("another user" in problem or "trust" in problem)
