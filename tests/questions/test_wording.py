"""Articles by sound, and templates that say what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from snellen.errors import DataError
from snellen.questions.templates import BUILT_IN, FIELDS, article, fill, load_templates

AN = "American crow,hour,egret,8,11,18,1800,8-spotted moth,F-16,f-16,MD-80,A-10,A320,SUV,E-3,Il-76,x-ray fish,urchin"
A = "gull,unicorn,European robin,uniform,ewe,one-banded bird,707,110,B-52,BMW,U-boat,ural owl,Uria,FIAT 500,MINI Cooper"


@pytest.mark.parametrize("name", [*AN.split(","), "Ypsilon", "unimportant", "Ōkārito kiwi"])
def test_an_stands_before_a_vowel_that_is_heard(name):
    assert article(name) == "an"


@pytest.mark.parametrize("name", [*A.split(","), "Xantus's murrelet", "yellow warbler", "kc-135", "house wren"])
def test_a_stands_before_a_consonant_that_is_heard(name):
    assert article(name) == "a"


def test_the_own_set_has_four_stems_or_more_of_every_kind():
    own = load_templates("default")
    assert set(own.kinds) == set(FIELDS)
    assert all(len(wording.stems) >= 4 for wording in own.kinds.values())


@pytest.mark.parametrize("which", BUILT_IN)
def test_every_built_in_text_can_be_filled_in(which):
    templates = load_templates(which)
    for kind, wording in templates.kinds.items():
        for text in wording.texts():
            said = fill(
                text, level="genus", noun="animal", templates=templates, name="owl", options=("owl", "gull", "tern")
            )
            assert "{" not in said and said[0].isupper()
            assert ("gull" in said) == kind.endswith("choice")


def test_the_chart_set_is_worded_as_the_chart_is():
    from snellen.benchmarks.chart import questions as chart

    templates = load_templates("chart")

    def said(kind: str, **fields: object) -> str:
        text = templates.wording(kind).texts()[0]
        return fill(text, level="genus", noun="creature", templates=templates, **fields)

    options = ("tarsa", "ostra", "lussa")
    assert said("truth", name="ostra") == chart.truth("genus", "ostra", "yes/no", True).text
    assert said("choice", options=options) == chart.choice_text("genus", options, "tarsa").text
    assert said("short") == chart.short("genus", "tarsa", 9).text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[truth]\nstems = ["Is it?"]', "uses neither a_name nor name"),
        ('[truth]\nstems = ["Is it {name.x}?"]', r"uses name\.x"),
        ('[truth]\nstems = ["Is it {name!r}?"]', "uses a format"),
        ('[choice]\nstems = ["Which {level}?"]', "uses neither listed nor quoted"),
        ('[guess]\nstems = ["Which?"]', r"section \[guess\] is unknown"),
        ("[short]\nstems = []", "0 stems"),
        ("[short]\nstems = 3", "short"),
        ("[short", "Templates are TOML"),
    ],
)
def test_templates_that_cannot_work_are_refused(tmp_path: Path, text, complaint):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=complaint):
        load_templates(str(path))


def test_an_unknown_set_of_templates_names_those_that_there_are():
    with pytest.raises(DataError, match="default, chart"):
        load_templates("chrat")
