"""Formulas by CDM: values of the authors' script, laws of tokens, colours and matching, and what a formula may not do."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import MissingExtraError
from snellen.scoring.rules import documents, formula_boxes, page_parse
from snellen.scoring.rules.formula_boxes import Boxes, boxes, missing_of_tex
from snellen.scoring.rules.formula_colours import Coloured, bare, colour, coloured
from snellen.scoring.rules.formula_matching import cdm, consistent, likeness, likenesses
from stopwatch import is_done_within

VALUES = json.loads((Path(__file__).parents[1] / "data" / "cdm_values.json").read_text())
needs_tex = pytest.mark.skipif(bool(missing_of_tex()), reason=f"NO TeX HERE: {missing_of_tex()}")

LEAVES = st.sampled_from([*"abxyzKR0127+-=<", "\\alpha", "\\beta", "\\times", "\\infty", "\\leq", "\\to", "\\sum"])


def joined(parts: list[str]) -> str:
    return " ".join(parts)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def wrapped(form: str) -> st.SearchStrategy[str]:
        return st.tuples(inner, inner).map(lambda two: form.replace("@", two[0]).replace("#", two[1]))

    forms = (
        "\\frac{@}{#}",
        "\\sqrt{@}",
        "x_{@}^{#}",
        "\\left( @ \\right)",
        "\\mathbf{@}",
        "\\hat{@}",
        "\\overset{@}{#}",
        "{@}",
    )
    return st.one_of(*map(wrapped, forms), st.lists(inner, min_size=2, max_size=4).map(joined))


FORMULAS = st.recursive(LEAVES, grown, max_leaves=12)


def placed(tokens: list[str], boxes: list[list[int]], size: tuple[int, int] = (900, 300)) -> Boxes:
    return Boxes(tuple(tokens), np.array(boxes, dtype=np.float64), size)


@st.composite
def drawn(draw: st.DrawFn) -> Boxes:
    tokens = draw(st.lists(st.sampled_from("abcdef+"), min_size=1, max_size=12))
    corners = [(draw(st.integers(0, 700)), draw(st.integers(0, 200))) for _ in tokens]
    return placed(tokens, [[left, top, left + 20, top + 30] for left, top in corners])


@pytest.mark.parametrize(("formula", "tokens"), VALUES["tokens"])
def test_a_formula_has_the_tokens_that_the_authors_katex_gives(formula: str, tokens: list[str]) -> None:
    assert list(coloured(formula).tokens) == tokens


@pytest.mark.parametrize("case", VALUES["boxes"])
def test_boxes_of_the_authors_have_their_f1(case: dict[str, Any]) -> None:
    gold, reply = (placed(case[side]["tokens"], case[side]["places"], case[side]["size"]) for side in ("gold", "reply"))
    assert likeness(reply, gold) == case["f1"]


@given(FORMULAS)
def test_each_colour_stands_once_and_in_the_order_of_the_tokens(formula: str) -> None:
    made = coloured(formula)
    found = re.findall(r"\\mathcolor\[RGB\]\{(\d+),(\d+),(\d+)\}", made.latex)
    assert [tuple(map(int, three)) for three in found] == [colour(at) for at in range(len(made.tokens))]
    assert len({colour(at) for at in range(5800)}) == 5800


@given(FORMULAS)
def test_blanks_change_no_token(formula: str) -> None:
    spaced = re.sub(r"([{}^_]|\\left\(|\\right\)|\\[a-z]+)", r"  \1 ", formula)
    assert coloured(spaced).latex == coloured(formula).latex


@given(drawn())
def test_a_formula_is_like_itself(one: Boxes) -> None:
    assert likeness(one, one) == 1.0


@given(drawn(), drawn())
def test_likeness_is_a_share_of_the_tokens_that_both_have(one: Boxes, other: Boxes) -> None:
    shared = sum(min(one.tokens.count(name), other.tokens.count(name)) for name in set(one.tokens))
    assert 0.0 <= likeness(one, other) <= round(2 * shared / (len(one.tokens) + len(other.tokens)), 3)
    assert likeness(None, one) == likeness(one, None) == 0.0


@given(drawn(), st.data())
def test_a_renamed_token_is_the_same_loss_on_either_side(one: Boxes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(one.tokens) - 1))
    other = Boxes((*one.tokens[:at], "z", *one.tokens[at + 1 :]), one.places, one.size)
    assert likeness(other, one) == likeness(one, other)


@given(st.lists(st.tuples(st.integers(0, 800), st.integers(0, 800)), min_size=3, max_size=20), st.integers(-200, 200))
def test_points_that_are_shifted_alike_are_all_consistent(points: list[tuple[int, int]], shift: int) -> None:
    source = np.array(points, dtype=np.float64)
    assert consistent(source, source + shift).all()


@given(st.permutations(range(12)))
def test_which_colours_tokens_have_changes_no_box(order: list[int]) -> None:
    page = np.zeros((60, 300, 4), dtype=np.uint8)
    usual = page.copy()
    for at in range(12):
        for drawing, number in ((page, order[at]), (usual, at)):
            drawing[20 + at : 30 + at, 20 * at + 5 : 20 * at + 15] = (*colour(number), 255)
    tokens = [chr(97 + order.index(number)) for number in range(12)]
    found, wanted = formula_boxes._found(tokens, page), formula_boxes._found([chr(97 + at) for at in range(12)], usual)
    assert found is not None and wanted is not None
    by_name = {name: tuple(box) for name, box in zip(found.tokens, found.places.tolist(), strict=True)}
    assert by_name == {name: tuple(box) for name, box in zip(wanted.tokens, wanted.places.tolist(), strict=True)}


@pytest.mark.parametrize(
    "around", ["@", "$@$", "$$ @ $$", "\\[@\\]", "\\( @ \\)", "```latex\n@\n```", "@ \\tag{1}", "@\\nonumber"]
)
def test_what_stands_around_a_formula_is_not_part_of_it(around: str) -> None:
    assert bare(around.replace("@", "x+1")) == "x+1"


def test_without_tex_the_comparison_says_what_is_missing_and_pages_have_no_cdm(monkeypatch: pytest.MonkeyPatch) -> None:
    gold = {"category_type": "equation_isolated", "order": 1, "anno_id": 1, "latex": "$$x+1$$"}
    monkeypatch.setattr(formula_boxes, "which", lambda name: None)
    missing_of_tex.cache_clear()
    try:
        with pytest.raises(MissingExtraError, match="pdflatex, kpsewhich not found") as error:
            documents.require_packages(["cdm"])
        assert "apt-get install texlive-latex-extra" in str(error.value.hint)
        record = json.dumps({"layout_dets": [gold]})
        assert set(page_parse.page_value("$$x+1$$", record, with_cdm=True).figures) == {"formula-edit"}
    finally:
        missing_of_tex.cache_clear()


def test_a_page_has_the_mean_of_its_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A formula that the reply lacks is worth 0 and counts twice, as its text does; blanks reach TeX."""
    seen = []

    def equal(pairs: tuple[tuple[str, str], ...]) -> list[float]:
        seen.extend(pairs)
        return [float(reply == gold) for reply, gold in pairs]

    monkeypatch.setattr(page_parse, "missing_of_tex", lambda: "")
    monkeypatch.setattr(page_parse, "likenesses", equal)
    golds = [
        {"category_type": "equation_isolated", "order": at, "anno_id": at, "latex": f"$${latex}$$"}
        for at, latex in enumerate(("\\alpha x + 1 = y", "\\frac a b - \\sqrt 2 = 0"), start=1)
    ]
    reply = "\\[ \\alpha x + 1 = y \\]"
    assert (
        page_parse.page_value(reply, json.dumps({"layout_dets": golds}), with_cdm=True).figures["formula-cdm"] == 1 / 3
    )
    assert ("\\alpha x + 1 = y", "\\alpha x + 1 = y") in seen


@needs_tex
def test_pairs_have_the_f1_of_the_authors_script() -> None:
    golds, replies, wanted = zip(*VALUES["pairs"], strict=True)
    tagged = [at for at, reply in enumerate(replies) if "\\tag" in reply]  # the page evaluator takes tags off before
    found = likenesses(tuple(zip(replies, golds, strict=True)))
    assert [value for at, value in enumerate(found) if at not in tagged] == [
        value for at, value in enumerate(wanted) if at not in tagged
    ]


BROKEN = (
    "\\frac{x}{",
    "}{",
    "\\begin{gather}x\\\\y\\end{gather}",
    "\\undefined{x",
    "\\gdef\\frac{q} x",
    "\\newpage x",
    "\\end{document}",
)


@needs_tex
@settings(max_examples=6, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(BROKEN), FORMULAS), min_size=2, max_size=6))
def test_the_boxes_of_a_formula_do_not_depend_on_those_beside_it(formulas: list[str]) -> None:
    together = boxes(several := [Coloured(formula, ("x",), False) for formula in formulas])
    alone = [boxes([one])[0] for one in several]
    assert [one is None for one in together] == [one is None for one in alone]
    painted = [coloured(formula) for formula in formulas if formula not in BROKEN]
    for one, other in zip(boxes(painted), [boxes([one])[0] for one in painted], strict=True):
        assert (one is None) == (other is None)
        assert (
            one is None
            or other is None
            or (one.tokens == other.tokens and np.abs(one.places - other.places).max() <= 1)
        )


@needs_tex
def test_a_formula_reads_no_file_runs_no_program_and_writes_nowhere(tmp_path: Path) -> None:
    secret, made = tmp_path / "secret.tex", tmp_path / "made"
    secret.write_text(coloured("x").latex)
    assert boxes([Coloured(f"\\input{{{secret}}}", ("x",), False)]) == [None]
    assert cdm("x", "x") == 1.0
    for formula in (
        f"\\immediate\\write18{{touch {made}}}x",
        f'\\input{{|"touch {made}"}}x',
        f"\\newwrite\\w\\immediate\\openout\\w={made} \\immediate\\write\\w{{x}}x",
    ):
        boxes([Coloured(formula, ("x",), False)])
    assert not list(tmp_path.glob("made*"))


@needs_tex
def test_a_formula_without_end_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formula_boxes, "MOST_SECONDS", 2)
    endless = Coloured("\\loop\\iftrue\\repeat", ("x",), False)
    plain = coloured("x")
    first, second, third = boxes([plain, endless, plain])
    assert first is not None and second is None and third is not None
    monkeypatch.setattr(formula_boxes, "MOST_ENDED", 2)
    runs, run = [], formula_boxes._tex
    monkeypatch.setattr(formula_boxes, "_tex", lambda folder: runs.append(folder) or run(folder))
    assert boxes([endless] * 40) == [None] * 40
    assert len(runs) == 2


HOSTILE = (
    "{",
    "\\sqrt{",
    "\\hat ",
    "\\tag ",
    "\\begin{align}",
    "\\label{",
    "\\frac",
    "\\left(",
    "x^",
    "$",
    "\\mathbf { ",
    "中",
    "&",
)


@pytest.mark.parametrize("part", HOSTILE)
def test_a_long_or_deep_formula_is_taken_apart_in_time(part: str) -> None:
    def take(text: str) -> None:
        with suppress(ValueError):
            coloured(bare(text))

    for signs in (9_900, 200_000):
        assert is_done_within(5, lambda signs=signs: take(part * (signs // len(part))))  # type: ignore[misc]
