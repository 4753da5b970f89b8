"""Blank pictures: what is right without sight beside what a curve assumes, and tokens by side."""

from __future__ import annotations

import json

import pytest

from snellen.cli import main
from snellen.errors import UsageError
from snellen.models.base import Model
from snellen.runs.acuity_margin import CountedAnswers, SideTokens, blank_control, usage_words
from snellen.runs.acuity_results import measured_run
from snellen.runs.evaluate import evaluate
from snellen.scoring.statistics import wilson
from snellen.scoring.statistics.intervals import mover
from snellen.types import MediaSettings, Response, Usage

pytestmark = pytest.mark.usefixtures("printed_as_schema")

ATTRIBUTES = {"attributes": "gap", "sides": "64,128", "most": "8"}


class FirstLetter(Model):
    """A model that always says A, and whose pictures cost a token for each thousand pixels."""

    name = "first-letter"

    def identity(self):
        return {"says": "A"}

    async def preflight(self):
        return None

    async def answer(self, prompt):
        data = prompt.parts[0].blob.read()
        side = int.from_bytes(data[16:20], "big")
        return Response("A", usage=Usage(input_tokens=20 + side * side // 1000, output_tokens=1))

    async def close(self):
        return None


def counts(right, answers):
    ends = wilson(right / answers, answers)
    return CountedAnswers(right, answers, (ends[0], ends[1]))


def test_the_interval_of_a_difference_is_newcombes():
    """Newcombe 1998, table II: 56 of 70 against 48 of 80 give .0524 to .3339 by method 10."""
    first, second = counts(56, 70), counts(48, 80)
    ends = mover((0.8, 0.6), (first.ci95, second.ci95), (1.0, -1.0))
    assert ends == pytest.approx((0.0524, 0.3339), abs=0.0001)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([30, 80, 280, 280.5, 280], "from 256 px on a question costs the same"),
        ([30, 80, 280, 1000, 4000], "costs more tokens up to the largest side, 1024 px"),
        ([30, 30, 30, 30, 30], "from 64 px on"),
        ([30, 280, 90, 280, 280], "from 512 px on"),
        ([30], ""),
    ],
)
def test_tokens_by_side_tell_where_pictures_are_shrunk(tokens, words):
    sides = [SideTokens(64 << place, each, 8) for place, each in enumerate(tokens)]
    assert words in usage_words(sides)
    assert bool(words) == bool(usage_words(sides))


def test_blank_pictures_are_set_beside_the_guess_rate(tmp_path, capsys):
    settings = {"benchmark_options": {**ATTRIBUTES, "through": "yes"}, "media": MediaSettings(blank=True)}
    blank = evaluate("acuity", FirstLetter(), out=tmp_path / "blank", **settings)
    seeing = evaluate("acuity", FirstLetter(), out=tmp_path / "plain", benchmark_options=ATTRIBUTES)
    control = blank_control(blank, measured_run(seeing))
    assert [(each.guess, each.blank.right, each.blank.answers, each.remarks) for each in control.conditions] == [
        (0.125, 1, 8, ())
    ] * 2
    assert [each.side for each in control.tokens] == [64, 128]
    assert control.tokens[0].tokens < control.tokens[1].tokens
    with pytest.raises(UsageError, match="was not asked about blank"):
        blank_control(seeing)
    with pytest.raises(UsageError, match="was asked about blank"):
        blank_control(blank, measured_run(blank))
    capsys.readouterr()
    assert main(["acuity", str(tmp_path / "plain"), "--blank", str(tmp_path / "blank"), "--json"]) == 0
    assert [row["side"] for row in json.loads(capsys.readouterr().out)["tokens"]] == [64, 128]
    assert main(["acuity", "--blank", str(tmp_path / "blank")]) == 0
    assert "12 % of 8" in capsys.readouterr().out
    assert main(["acuity", "A", "B", "--blank", str(tmp_path / "blank")]) == UsageError.exit_code
