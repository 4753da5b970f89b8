"""Benchmarks that model cards report: what each profile makes of replies on which harnesses differ, and figures over groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from card_sets_drawn import CARD_SETS, empty_wordnet
from catalogue_drawn import DrawnSet, draw
from hypothesis import given
from hypothesis import strategies as st

import snellen
from servers.oracle import OracleServer
from snellen.benchmarks import registry
from snellen.benchmarks.table import catalogue_benchmarks
from snellen.benchmarks.table.entries import entry
from snellen.cli import main
from snellen.scoring.rules import page_parse
from snellen.scoring.rules.final_answers import final_answer, formula_equal, last_box, nearest_option, typed_equal
from snellen.types import Metric
from stopwatch import is_done_within

# set, row, reply, value by profile (strict, authors, vlmevalkit, lmms-eval; None: it has no such profile)
REPLIES = [
    ("logicvista", 1, "C and A", (1, 0, 0, 0)),
    ("logicvista", 1, "CA", (1, 1, 1, 0)),
    ("logicvista", 1, "A", (0, 0, 0, 0)),
    ("logicvista", 1, r"Both fit: \boxed{AC}", (1, 0, 0, 1)),
    ("visulogic", 1, r"The answer is C. No: \boxed{B}", (1, 1, 1, 1)),
    ("visulogic", 1, r"\boxed{second one}, so the answer is B.", (1, 1, 1, 1)),
    ("visulogic", 1, "It must be (B)", (1, 0, 0, 1)),
    ("crpe-relation", 1, "B. hook", (1, 0, 1, 1)),  # the authors take one sign alone
    (
        "crpe-relation",
        1,
        "The answer is B",
        (1, 0, 1, 0),
    ),  # lmms-eval compares the reply as it is; see below for VLMEvalKit
    ("emma", 3, r"So \boxed{7}", (1, 1, 0, 1)),  # VLMEvalKit's judge would read it
    ("emma", 0, r"\boxed{\text{4}}", (1, 0, 0, 0)),  # the script compares with the letter alone
    ("emma", 2, "The final answer is 1/2.", (1, 1, 0, 1)),
    ("babyvision", 0, "It is B.", (1, 0, 0, 0)),  # the authors read boxes alone
    ("babyvision", 0, r"\boxed{(B) two}", (1, 1, 1, 1)),
    ("phyx-mini-mc", 1, "Correct: C? No, the answer is B", (1, None, 0, 0)),
    ("mathvista", 0, "[2007, 2008]", (1, 1, 0, 1)),  # VLMEvalKit never takes a list as right
    ("mathvista", 0, "[2008, 2007]", (0, 0, 0, 0)),
    ("mathvista", 1, "4 c", (0, 1, 0, 0)),  # the authors take the most similar option
    ("mathvista", 1, "(B) 4 cm", (1, 1, 1, 1)),
    ("mathvista", 2, "14.0", (1, 1, 0, 1)),  # VLMEvalKit reads no integer with a point
    ("mathvista", 3, "1.44", (1, 1, 0, 1)),  # nor does it round to the row's precision
    ("mathvista", 3, "1.46", (0, 0, 0, 0)),
    ("mathvista", 2, "The answer is 14.", (1, 0, 0, 0)),
    ("mathvision", 2, r"\boxed{\dfrac{1}{2}}", (1, 1, 1, 1)),
    ("mathvision", 2, "The answer is 0.501.", (1, 1, 0, 1)),
    ("mathvision", 2, "0.501", (1, 1, 0, 1)),  # equal after rounding to two decimals; VLMEvalKit allows 1e-6
    ("mathvision", 0, r"The value is \boxed{4}", (1, 1, 0, 1)),  # the text of option B
    ("mathvision", 3, r"So there are $\boxed{12}$.", (1, 1, 1, 1)),
    ("mathvision", 3, r"\boxed{11}, no: \boxed{12}", (1, 1, 0, 1)),  # VLMEvalKit takes two boxes for a set
    (
        "dynamath",
        0,
        '{"short answer": "1.5009"}',
        (1, None, 1, 0),
    ),  # lmms-eval reads tags, boxes and a number at the end
    ("dynamath", 0, '{"short answer": "1.502"}', (0, None, 0, 0)),
    ("dynamath", 2, '{"short answer": "B or C"}', (0, None, 0, 0)),
    ("wemath", 1, "Answer: Both of them, so B", (1, 1, 1, 0)),
    ("wemath", 0, "A. Answer: certainly", (1, 0, 0, 0)),
    ("wemath", 0, "Answer: Ask again", (0, 1, 1, 0)),  # the first character behind the word is an option
    ("mathvista", 0, "[2007,2008]", (1, 0, 0, 1)),  # the authors compare lists as written
    ("visulogic", 1, "B", (1, 1, 1, 1)),
    ("visulogic", 1, "BC", (0, 0, 0, 1)),  # lmms-eval takes the first of up to three letters
    ("dynamath", 0, '{"short answer": 1.5}', (1, None, 0, 0)),  # VLMEvalKit's judge would read an unquoted number
    ("dynamath", 0, "1.5", (0, None, 1, 1)),  # what is no JSON is the answer whole
    ("dynamath", 2, "B", (0, None, 1, 0)),
    ("phyx-mini-mc", 1, "The answer must be C, no, **B**", (1, None, 1, 1)),  # the gold letter in bold is enough
    ("phyx-mini-mc", 1, "B", (1, None, 0, 0)),  # a bare letter is no answer for VLMEvalKit's rule
    ("cmmmu-val", 1, "(C) 和 (A) 都对", (1, 1, 1, 1)),
    ("cmmmu-val", 0, "Because of B, B it is", (1, 1, 1, 1)),
    ("cmmmu-val", 0, "AA 电池，答案：B", (1, 0, 0, 0)),  # the capital that stands most often, in words too
    ("cmmmu-val", 0, "不知道", (0, 0, 0, 0)),  # the harnesses draw an option
    ("cmmmu-val", 2, "这个说法是错误的", (1, 1, 1, 1)),
    ("cmmmu-val", 2, "不正确", (1, 0, 0, 0)),  # 正确 is in it
    ("cmmmu-val", 3, "所以答案是3.501。", (0, 1, 1, 1)),  # to two decimals
    ("cmmmu-val", 4, "答案是杠杆原理", (0, 1, 1, 1)),
    ("ocrbench-v2", 1, "(100, 100, 300, 150)", (0.5, None, 0.5, 0.5)),
    ("ocrbench-v2", 3, "| a | b |", (0, None, 0, 0)),
    ("ocrbench-v2", 4, '{"total": "5", "date": "1 May"}', (0.5, None, 0.5, 0.5)),  # further fields cost
    ("ocrbench-v2", 5, "I count 6.", (0.75, None, 0.75, 0.75)),
    ("ocrbench-v2", 6, "The answer is A.", (1, None, 0, 0)),  # the authors join all letters
    ("ocrbench-v2", 0, "<think>ship</think> boat", (0, None, 1, 0)),  # VLMEvalKit looks into thoughts
    ("ocrbench-v2", 12, "# Tail\nother", (1, None, 1, 1)),  # any line equals any other
]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("nltk.data.path", empty_wordnet(tmp_path / "nltk"))


@pytest.mark.parametrize(("name", "row", "reply", "values"), REPLIES)
def test_a_reply_has_the_value_that_each_profile_gives_it(
    name: str, row: int, reply: str, values: tuple[float | None, ...], tmp_path: Path
) -> None:
    drawn = draw(entry(name), tmp_path)
    benchmark = registry.find(name)
    sample = list(benchmark.samples(snellen.Data(path=drawn.path, images=drawn.images)))[row]
    profiles = ("strict", "authors", "vlmevalkit", "lmms-eval")
    found = [
        benchmark.score[profile](sample, reply).value if profile in benchmark.score else None for profile in profiles
    ]
    assert found == list(values)


def value(figures: list[Metric], name: str) -> float:
    return next(figure.value for figure in figures if figure.name == name and figure.value is not None)


def run(
    name: str, tmp_path: Path, wrong: set[int] = frozenset(), instead: str = "none"
) -> tuple[snellen.Run, DrawnSet]:  # type: ignore[assignment]
    """Run a set against an oracle that is right in all rows but `wrong`."""
    drawn = draw(entry(name), tmp_path)
    order = list(drawn.right)
    with OracleServer(
        lambda request: instead if order.index(request.images[0]) in wrong else drawn.right[request.images[0]](request)
    ) as server:
        done = snellen.evaluate(
            name, "api:oracle", base_url=server.url, data=drawn.path, images=drawn.images, out=tmp_path / "run"
        )
    return done, drawn


def test_a_composite_question_is_of_the_class_that_its_steps_say(tmp_path: Path) -> None:
    """Problem 1 has rows 0 and 1 and the composite 2; problem 2 has rows 3 to 5 and the composite 6."""
    done, _ = run("wemath", tmp_path, wrong={0, 6})  # rote by strict, mastered by loose; inadequate
    figures = done.figures("strict")["strict"]
    assert value(figures, "strict") == pytest.approx((0 + 0.5) / 2)
    assert value(figures, "loose") == pytest.approx((1 + 0.5) / 2)
    classes = ("complete mastery", "inadequate generalization", "rote memorization", "insufficient knowledge")
    assert [value(figures, name) for name in classes] == [0, 0.5, 0.5, 0]
    assert value(figures, "accuracy") == pytest.approx(5 / 7)


def test_a_problem_with_every_step_wrong_is_rote_in_both_counts_or_unknown(tmp_path: Path) -> None:
    done, _ = run("wemath", tmp_path, wrong={0, 1, 3, 6})  # rote in both counts; insufficient
    figures = done.figures("strict")["strict"]
    assert [value(figures, name) for name in ("strict", "loose", "rote memorization", "insufficient knowledge")] == [
        0,
        0,
        0.5,
        0.5,
    ]


def test_the_worst_case_is_the_share_of_questions_right_in_every_variant(tmp_path: Path) -> None:
    done, _ = run("dynamath", tmp_path, wrong={3})
    figures = done.figures("strict")["strict"]
    assert (value(figures, "average"), value(figures, "worst case")) == (3 / 4, 1 / 2)
    assert value(figures, "worst case/high school") == 1 / 2


def test_circular_figures_are_not_those_of_single_rows(tmp_path: Path) -> None:
    done, _ = run("crpe-relation", tmp_path, wrong={5})
    figures = done.figures("strict")["strict"]
    assert (value(figures, "circular"), value(figures, "accuracy")) == (1 / 2, 7 / 8)
    assert (value(figures, "circular/subject"), value(figures, "circular/object")) == (1, 0)


def test_an_empty_short_answer_is_in_every_gold_answer_of_vlmevalkit(tmp_path: Path) -> None:
    drawn = draw(entry("dynamath"), tmp_path)
    text = drawn.path.read_text().replace("multiple choice", "text")
    drawn.path.write_text(text)
    benchmark = registry.find("dynamath")
    sample = list(benchmark.samples(snellen.Data(path=drawn.path)))[2]
    empty = json.dumps({"short answer": ""})
    assert [benchmark.score[profile](sample, empty).value for profile in ("strict", "vlmevalkit")] == [0, 1]


@pytest.mark.parametrize("name", [name for name in CARD_SETS if entry(name).faults])
def test_what_is_known_of_harnesses_is_listed_and_stands_in_reports(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", name]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    for profile, texts in entry(name).faults.items():
        for text in texts:
            assert " ".join(text.split()) in listed
            assert f"known of {profile}: {text}" in registry.find(name).faults  # the notes of runs and reports


LIMITS = {
    "cmmmu-val": "16", "ocrbench-v2": "128", "mm-vet": "1,024", "mm-vet-2": "1,024", "mia-bench": "512", "crpe-relation": "16",
    "visulogic": "64", "mmt-bench-val": "8", "worldvqa": "64", "simplevqa": "32", "mathverse": "1,024", "babyvision": "8,192",
    "emma": "4,096", "mmbench-dev-cn-v11": "256",
}  # fmt: skip
"""Set to the tokens after which lmms-eval at 75571cf stops a reply, where that cuts models off."""


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_of_tokens_that_cuts_replies_off_stands_at_its_profile(name: str) -> None:
    assert f"{LIMITS[name]} tokens" in registry.find(name).profiles["lmms-eval"]


@pytest.mark.parametrize(
    ("name", "row", "reply"),
    [
        ("simplevqa", 1, "It is Person 1."),  # lmms-eval compares texts, whose words differ
        ("worldvqa", 1, "That would be place 1."),
        ("phyx-mini-oe", 1, "11 kN"),  # VLMEvalKit's STR finds the gold answer 1 kN in it
        ("seephys", 1, "It has 1 kg."),
        ("mm-vet-2", 0, "seven"),  # a part of <OR> is worth what a judge says
    ],
)
def test_what_a_harness_compares_as_text_is_left_to_the_judge(name: str, row: int, reply: str, tmp_path: Path) -> None:
    drawn, benchmark = draw(entry(name), tmp_path), registry.find(name)
    sample = list(benchmark.samples(snellen.Data(path=drawn.path)))[row]
    for score in benchmark.score.values():
        assert score(sample, reply).verdict == "unscored"
    assert name != "phyx-mini-oe" or str(sample.target) in reply
    assert name not in ("simplevqa", "worldvqa") or str(sample.target).casefold() != reply.casefold().strip(".")


def test_lmms_evals_formula_asks_a_chart_one_of_its_four_questions(tmp_path: Path) -> None:
    charts = 1_000
    asked = {(row % charts, row % 4) for row in range(4 * charts)}
    assert len(asked) == charts  # and not 4,000
    drawn = draw(entry("charxiv-descriptive"), tmp_path)
    samples = list(registry.find("charxiv-descriptive").samples(snellen.Data(path=drawn.path)))
    assert len({sample.id for sample in samples}) == drawn.rows


def test_a_gold_cell_of_four_signs_at_most_is_in_any_reply_of_crpe(tmp_path: Path) -> None:
    """VLMEvalKit looks for the gold cell behind its fourth character in a reply that begins with no letter."""
    drawn, benchmark = draw(entry("crpe-relation"), tmp_path), registry.find("crpe-relation")
    sample = list(benchmark.samples(snellen.Data(path=drawn.path, images=drawn.images)))[1]
    reply = "none of them"
    assert str(sample.target)[4:] in reply and reply[0] not in "ABCD"
    assert [benchmark.score[name](sample, reply).value for name in ("strict", "authors", "vlmevalkit")] == [0, 0, 1]


def test_python_does_not_round_to_the_precision_of_mathvistas_parquet(tmp_path: Path) -> None:
    drawn, benchmark = draw(entry("mathvista"), tmp_path), registry.find("mathvista")
    sample = list(benchmark.samples(snellen.Data(path=drawn.path)))[3]
    with pytest.raises(TypeError):
        round(1.44, float(str(sample.meta["precision"])))  # type: ignore[call-overload]
    assert benchmark.score["authors"](sample, "1.44").value == 1


def test_the_worst_case_needs_no_indexes_that_are_ids_of_questions(tmp_path: Path) -> None:
    rows = [row for row, _ in CARD_SETS["dynamath"]]
    first = {row["index"] for row in rows if row["varid"] == 1}
    assert not {row["qid"] for row in rows} <= first  # where VLMEvalKit stops with a KeyError
    done, _ = run("dynamath", tmp_path)
    assert value(done.figures("strict")["strict"], "worst case") == 1


def test_a_part_of_a_blanks_reply_counts_once(tmp_path: Path) -> None:
    from snellen.scoring.rules.chinese_answers import _BLANK_MARKS, _key_parts

    reply = "答案是杠杆。所以是杠杆原理"
    parts = _key_parts(reply, _BLANK_MARKS)
    assert sum("杠杆" in part for part in parts) == 2  # VLMEvalKit adds both to its count of right replies
    drawn, benchmark = draw(entry("cmmmu-val"), tmp_path), registry.find("cmmmu-val")
    sample = list(benchmark.samples(snellen.Data(path=drawn.path)))[4]
    assert benchmark.score["vlmevalkit"](sample, reply).value == 1


def test_a_long_run_of_digits_in_a_blank_is_read_in_time_that_grows_with_it() -> None:
    from snellen.scoring.rules.chinese_answers import fills_blank

    found = []
    assert is_done_within(
        2, lambda: found.extend(fills_blank("0" * 60_000 + end, "12") for end in ("", "x", ".", "e", "e5x"))
    )
    assert not any(found)
    assert fills_blank("答案是-1.25e1", "-12.5") and fills_blank("答案是1,200.", "1200")


def test_the_figures_of_ocrbench_v2_are_means_of_abilities_and_lmms_evals_means_over_rows(tmp_path: Path) -> None:
    figures = run("ocrbench-v2", tmp_path, wrong={0, 8})[0].figures("vlmevalkit")["vlmevalkit"]
    page = 1 - 0.5 / 1000 / 4
    assert value(figures, "Chinese") == pytest.approx((1 + 0) / 2)
    assert value(figures, "English over rows") == pytest.approx((page + 1 + 0.75 + 1 + 1.5 + 3 + 2) / 12)
    assert value(figures, "accuracy/en text recognition") == pytest.approx(page / 2)


def test_the_overall_of_omnidocbench_is_the_mean_of_text_tables_and_formulas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_parse, "missing_of_tex", lambda: "")
    monkeypatch.setattr(page_parse, "likenesses", lambda pairs: [0.25 * bool(reply) for reply, _ in pairs])
    figures = run("omnidocbench", tmp_path, wrong={1})[0].figures("strict")["strict"]
    text, teds, formula = (value(figures, name) for name in ("text-edit", "table-teds", "formula-cdm"))
    assert (text, formula) == (1 / 4, 0.25 * 3 / 4)
    overall = next(figure for figure in figures if figure.name == "overall")
    assert overall.value == pytest.approx(100 * ((1 - text) + teds + formula) / 3)
    assert not overall.lower_is_better


def test_without_tex_the_overall_of_omnidocbench_is_left_out_and_the_run_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (page_parse, catalogue_benchmarks):
        monkeypatch.setattr(module, "missing_of_tex", lambda: "no pdflatex")
    drawn = draw(entry("omnidocbench"), tmp_path)
    with OracleServer(lambda request: drawn.right[request.images[0]](request)) as server:
        words = ["--data", str(drawn.path), "--images", str(drawn.images), "--base-url", server.url]
        assert main(["run", "omnidocbench", "--model", "api:oracle", "--out", str(tmp_path / "run"), *words]) == 0
    said = capsys.readouterr()
    assert "formula-cdm and what is made of it are left out: no pdflatex. Install TeX Live" in said.err + said.out
    assert "│ formula-edit" in said.out
    assert "│ formula-cdm" not in said.out and "│ overall" not in said.out


@pytest.mark.parametrize(
    ("equals", "gold", "reply", "expected"),
    [
        ("teds", "| a | b |", "<think>| x |</think>| a | c |", 1 - 1 / 3),
        ("edit", "abcd", "abcx", 3 / 4),
        ("iou", "[0, 0, 10, 10]", "It is at [0, 0, 10, 5].", 1 / 2),
        ("fields", "{'total': '5'}", "total: 5", 1),
        ("outline", "# One", "# Uno", 1),
        ("page", "a b", "a b", (0 + 0.9375 + 1 + 1) / 4),  # BLEU has no four words
        ("count-share", "8", "6", 3 / 4),
    ],
)
def test_a_table_of_ones_own_compares_as_documents_are_compared(
    equals: str, gold: str, reply: str, expected: float, tmp_path: Path
) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps({"question": "What is there?", "answer": gold}), encoding="utf-8")
    (tmp_path / "mine.toml").write_text(
        "name = 'mine'\nwithout_image = 'keep'\n[source]\nfile = 'mine.jsonl'\n[rows]\nquestion = 'question'\n"
        f"answer = {{ column = 'answer', as = 'json' }}\n[score]\nread = 'whole'\nequals = '{equals}'\n[[report]]\nheadline = true\n"
    )
    benchmark = registry.find(str(tmp_path / "mine.toml"))
    sample = next(benchmark.samples(snellen.Data()))
    for profile in ("strict", "vlmevalkit", "lmms-eval"):
        looked_at = reply.rpartition("</think>")[2]
        assert benchmark.score[profile](sample, looked_at).value == pytest.approx(expected, abs=1e-9)
    assert benchmark.score["strict"](sample, reply).value == pytest.approx(expected, abs=1e-9)


def test_a_reply_that_is_too_large_says_so_beside_its_0() -> None:
    from snellen.benchmarks.table.scorers import graded
    from snellen.scoring.rules.documents import outline_similarity

    score = graded(outline_similarity("a\n" * 5_000, "a"), "a")
    assert (score.value, score.verdict, score.reason) == (0.0, "wrong", "too large to compare")


def test_a_row_is_in_the_slice_of_each_of_its_skills_and_counts_once(tmp_path: Path) -> None:
    done, _ = run("mathvista", tmp_path, wrong={2})
    figures = done.figures("strict")["strict"]
    assert value(figures, "accuracy") == 3 / 4
    assert value(figures, "accuracy/algebraic reasoning") == 3 / 4
    assert value(figures, "accuracy/statistical reasoning") == 1 / 2
    assert all(figure.coverage == 1.0 for figure in figures)


def test_what_is_known_of_a_harness_stands_at_its_profile_and_in_the_notes_of_a_run(tmp_path: Path) -> None:
    done, _ = run("mathvista", tmp_path)
    assert "a list is never right" in registry.find("mathvista").profiles["vlmevalkit"]
    assert any(line.startswith("known of vlmevalkit: 14.0 is no integer") for line in done.notes())


NOT_COUNTED = ("omnimedvqa", "xlrs-bench-lite", "omnidocbench-v10")
"""Sets that no card is known to report: cards report OmniDocBench 1.5 and 1.6."""


@pytest.mark.parametrize("name", CARD_SETS)
def test_every_set_of_the_cards_says_who_reports_it_and_has_a_profile_of_each_harness(name: str) -> None:
    assert (entry(name).cards.count > 0) == (name not in NOT_COUNTED)
    assert {"strict", "vlmevalkit", "lmms-eval"} <= set(registry.find(name).profiles)


@given(st.integers(-999, 999), st.integers(1, 99))
def test_a_fraction_is_equal_in_every_form_of_it(top: int, bottom: int) -> None:
    forms = (
        rf"\frac{{{top}}}{{{bottom}}}",
        f"{top}/{bottom}",
        rf"x = \dfrac{{{top}}}{{{bottom}}}",
        f"${top}/{bottom}$",
    )
    assert all(formula_equal(form, forms[0]) for form in forms)
    assert not formula_equal(str(top / bottom + 0.02), forms[0])
    assert not formula_equal(str(top / bottom + 0.001), forms[0], 1e-6)


@given(st.text(max_size=80))
def test_no_reply_breaks_a_stage(reply: str) -> None:
    from snellen.scoring.rules.final_answers import STAGES

    for name in STAGES:
        final_answer(reply, (name,), "ABCD", "answer")
    formula_equal(reply, reply), typed_equal(reply, "1", "integer", "")
    assert nearest_option(reply, {"A": "one", "B": "two"}) in ("A", "B")


@pytest.mark.parametrize(
    "part", [r"\boxed{", "{", "}", "<answer>", "answer is ", "the answer ", "Option ", "(A", "is 1", " ", r"\text{"]
)
def test_a_long_reply_is_read_in_time_that_grows_with_its_length(part: str) -> None:
    from snellen.scoring.rules.final_answers import STAGES

    reply = "x" + part * (160_000 // len(part))
    assert is_done_within(
        3, lambda: ([final_answer(reply, (name,), "ABCD", "answer") for name in STAGES], formula_equal(reply, "1"))
    )


def test_the_last_closed_box_counts_with_its_inner_braces() -> None:
    assert last_box(r"\boxed{1}, no: \boxed{\frac{1}{2}} and \boxed{open") == r"\frac{1}{2}"
    assert last_box("<|begin_of_box|>7<|end_of_box|>") == "7"
    assert last_box("{1}") is None
    assert final_answer("İİ <Answer> B </answer> <answer> open", ("tag",)) == "B"


@pytest.mark.parametrize(
    ("reply", "gold", "same"),
    [("(1, 0.5)", r"(1,\frac{1}{2})", True), ("(1,2)", "[1,2]", False), ("(1,2)", "(2,1)", False), ("", "", False)],
)
def test_tuples_are_compared_part_by_part(reply: str, gold: str, same: bool) -> None:
    assert formula_equal(reply, gold) is same


@pytest.mark.parametrize(
    ("text", "gold", "kind", "precision", "same"),
    [
        ("14.9", "14", "integer", "", True),  # the authors cut what stands behind the point
        ("1e400", "14", "integer", "", False),
        ("14", "fourteen", "integer", "", False),
        ("1.24", "1.2", "float", "1.0", True),
        ("0.2", "0.2", "float", "none", False),
        ("[1, 2]", "[1,2]", "list", "", True),
        ("Red", "red", "text", "", True),
    ],
)
def test_a_typed_answer_is_compared_by_its_type(text: str, gold: str, kind: str, precision: str, same: bool) -> None:
    assert typed_equal(text, gold, kind, precision) is same
