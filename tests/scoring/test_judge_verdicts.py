"""Verdicts are read strictly, rubrics are checked, and a reply cannot reach beyond its marks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from snellen.errors import JudgeError
from snellen.redaction.gold import WITHHELD, quotes, strike
from snellen.scoring.rubric import (
    BUILT_IN,
    Schema,
    built_in,
    fill,
    gold_text,
    marked_or_object,
    nonce,
    parse_rubric,
    places,
    read_verdict,
    ruled,
    score_verdict,
    shortened,
)
from snellen.types import Prompt, Sample, Text

LABELS = Schema("verdict", {"correct": 1.0, "partly": 0.5, "incorrect": 0.0}, None, "reason")
NUMBER = Schema("score", {}, (0.0, 10.0), "")


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('{"verdict": "correct"}', "correct"),
        (' \n{"reason": "so", "verdict": "incorrect", "confidence": 3}\n', "incorrect"),
        ('```json\n{"verdict": "partly"}\n```', "partly"),
        ('```\n{"verdict": "partly"}\n```\n', "partly"),
        ('<think>{"verdict": "incorrect"}</think>\n{"verdict": "correct"}', "correct"),
    ],
)
def test_one_object_and_nothing_else_is_a_verdict(reply, found):
    assert read_verdict(reply, LABELS).answer == found


@given(
    st.sampled_from(["A", "B", "C"]),
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])),
    st.sampled_from(["\t", "\\t", " \t "]),
)
def test_the_line_of_vlmevalkits_judge_is_a_verdict_and_a_sentence_is_none(grade, extracted, tab):
    schema = built_in("easi").verdict
    read = read_verdict(f"{grade}{tab.strip(' ')}{extracted}\n", schema)
    assert (read.answer, read.value) == (grade, float(grade == "A"))
    assert read.reason == ("" if extracted.strip() == "N/A" else extracted.strip())
    for reply in (f"{grade} {extracted}x", f"{grade}\t{extracted}x\nB\tx", f"Z\t{extracted}", f"My grade: {grade}"):
        with pytest.raises(ValueError, match="JSON"):
            read_verdict(reply, schema)
    with pytest.raises(ValueError, match="JSON"):
        read_verdict(f"{grade}\t{extracted}x", replace(schema, line=False))


def test_how_a_verdict_is_read_is_no_part_of_what_the_judge_was_asked():
    """A run judged before the line was read is resumed and keeps its digest."""
    assert built_in("easi").digest == "1329b1c393b561b0"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "correct",
        '"correct"',
        '["correct"]',
        'The verdict: {"verdict": "correct"}',
        '{"verdict": "correct"} I am sure.',
        '{"verdict": "incorrect"}{"verdict": "correct"}',
        '{"verdict": "incorrect", "verdict": "correct"}',
        '{"verdict": "Correct"}',
        '{"verdict": ["correct"]}',
        '{"verdict": true}',
        '{"verdict": null}',
        '{"reason": "correct"}',
        "{'verdict': 'correct'}",
        '{"verdict": "correct",}',
        '{"verdict": "correct", "reason": 3}',
        '<think>{"verdict": "correct"}',
        '```json\n{"verdict": "correct"}\n```\nBut on the other hand: no.',
        "[" * 100_000,
    ],
)
def test_anything_else_is_none_and_stays_unscored_with_the_reason(reply):
    score = score_verdict(reply, LABELS)
    assert score.value is None and score.verdict == "unscored" and str(score.reason).startswith("no verdict: ")


@pytest.mark.parametrize(("said", "value"), [(0, 0.0), (10, 1.0), (2.5, 0.25)])
def test_a_number_is_scored_by_its_place_in_the_range(said, value):
    assert score_verdict(json.dumps({"score": said}), NUMBER).value == value


@pytest.mark.parametrize("said", ["11", "-1", "true", '"7"', "NaN", "Infinity", "1e400", "null"])
def test_a_number_outside_its_range_is_no_verdict(said):
    assert score_verdict(f'{{"score": {said}}}', NUMBER).value is None


@given(st.text(max_size=80), st.sampled_from(["correct", "partly", "incorrect"]))
def test_reading_never_crashes_and_never_finds_a_verdict_that_was_not_the_whole_reply(text, label):
    score = score_verdict(text, LABELS)
    assert score.value is None
    inside = score_verdict(f'{text or "x"}{{"verdict": "{label}"}}', LABELS)
    assert inside.value is None or not text.strip()
    assert read_verdict(json.dumps({"verdict": label, "reason": text}), LABELS).reason == text


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_rubrics_of_the_package_are_whole(name):
    rubric = built_in(name)
    assert rubric.about and rubric.shape in fill(
        rubric.template, dict.fromkeys(["question", "options", "gold", "reply", "nonce"], "") | {"shape": rubric.shape}
    )
    assert "{gold}" not in rubric.system and "{reply}" not in rubric.system
    assert ("{gold}" in rubric.template) == (
        name in ("match", "graded", "judged", "attempted", "by-row", "fika", "easi")
    )


def test_a_rubric_keeps_its_digest_where_it_does_not_use_what_was_added_later():
    assert {name: built_in(name).digest for name in ("match", "graded")} == {
        "match": "73375ea216ba0ac8", "graded": "93e0dae44636fc7e",
    }  # fmt: skip
    text = 'template = "{reply} {nonce}"\n[verdict]\nmarker = "%s"\nrange = [0, 1]\nreask = %s\n'
    digests = {parse_rubric(text % given, "own").digest for given in (("A:", "true"), ("A:", "false"), ("B:", "true"))}
    assert len(digests) == 3


MARKED = built_in("vlm2-aba").verdict


@pytest.mark.parametrize(
    ("reply", "number", "value"),
    [
        ("Score: 1", 1, 0.5),
        ("Score:2", 2, 1.0),
        ("Score:\n\t 0", 0, 0.0),
        ("It follows the order.\nScore: 2/2", 2, 1.0),
        ("Score: 1.5", 1, 0.5),
        ("Score: 01", 1, 0.5),
        ("score: 0, or rather Score: 2", 2, 1.0),
        ("Score: none. Score: 1. Score: 2", 1, 0.5),
        ("MyScore: 1", 1, 0.5),
        ("Score:\u00a0\u0662", 2, 1.0),  # no-break space, Arabic-Indic two
        ("<think>Score: 0</think>Score: 2", 0, 0.0),
        ("```\nScore: 1\n```", 1, 0.5),
    ],
)
def test_behind_a_marker_the_first_number_is_the_verdict(reply, number, value):
    score = score_verdict(reply, MARKED)
    assert (score.extracted, score.value, score.reason) == (number, value, None)
    assert score.verdict == {0.0: "wrong", 0.5: "partial", 1.0: "correct"}[value]


@pytest.mark.parametrize(
    "reply",
    ["", "1", "**Score:** 1", "score: 1", "SCORE: 1", "Score = 1", "Score: -1", "Score: one", "Score: +1", "Score： 1",
     "Score: ²", "Score: <1>", "Score: " + "9" * 5000],
)  # fmt: skip
def test_without_a_number_behind_the_marker_there_is_no_verdict(reply):
    score = score_verdict(reply, MARKED)
    assert score.value is None and score.verdict == "unscored" and str(score.reason).startswith("no verdict: ")


@pytest.mark.parametrize(("range_", "said", "value"), [((0, 1), 3, 3.0), ((0, 2), 3, 1.5), ((1, 5), 0, -0.25)])
def test_a_number_out_of_range_is_kept_as_it_is_and_flagged(range_, said, value):
    score = score_verdict(f"Score: {said}", replace(MARKED, range=range_))
    assert score.value == value and score.extracted == said and score.verdict == "partial"
    assert score.reason == f"out of range: {said}, expected {range_[0]} to {range_[1]}"


@given(st.text(max_size=60), st.integers(0, 10**14))
def test_reading_behind_a_marker_never_crashes_and_finds_what_stands_there(text, number):
    score_verdict(text, MARKED)
    before = text.replace("Score:", "")
    assert read_verdict(f"{before}|Score: {number}", MARKED).answer == number
    assert read_verdict(marked_or_object(number, MARKED), MARKED).answer == number


SAMPLE = Sample("s", Prompt((Text("Which one?"),)), "B", "choice", options={"A": "cat", "B": "dog"})


@given(st.text(max_size=60))
def test_a_reply_stands_between_marks_that_it_does_not_know(reply):
    text = fill(built_in("match").template, places(built_in("match"), SAMPLE, reply, 7))
    code = nonce(7, "s", reply)
    assert code not in reply
    inside = text.partition(f"<<<REPLY {code}\n")[2].rpartition(f"\nREPLY {code}>>>")[0]
    assert inside == reply
    assert nonce(8, "s", reply) != code != nonce(7, "t", reply)


def test_gold_is_told_with_all_its_accepted_forms():
    assert gold_text(SAMPLE) == "B (dog)"
    short = Sample("s", Prompt(()), ("koala", "koala bear"), "short", meta={"aliases": ("Phascolarctos",)})
    assert gold_text(short) == "koala (also accepted: koala bear; Phascolarctos)"
    assert gold_text(Sample("s", Prompt(()), True, "truth")) == "yes"


def test_gold_is_struck_out_in_any_case_and_only_as_a_word():
    assert strike("A KOALA bear, koalas", ("koala", "koala bear")) == "A [gold withheld], [gold withheld]"
    assert strike("koalafication of a wombat", ("koala", "bat")) == "koalafication of a wombat"


def test_a_long_reply_keeps_its_beginning_and_its_end():
    text = shortened("a" * 100 + "b" * 9_000 + "the end", 400)
    assert text.startswith("a" * 100) and text.endswith("the end") and "8,707 characters left out" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('template = "{reply} {nonce}"\n[verdict]\nmarker = "S:"\nlabels = {a = 1.0}', "range of whole numbers"),
        ('template = "{reply} {nonce}"\n[verdict]\nmarker = "S:"\nrange = [0.5, 1]', "range of whole numbers"),
        ('template = "{reply} {nonce}"\n[verdict]\nmarker = "S:"\nrange = [-1, 1]', "range of whole numbers"),
        ('template = "{reply} {nonce}"\n[verdict]\nmarker = "S: "\nrange = [0, 1]', "white space"),
        ('template = "{reply} {nonce}"\n[verdict]\nmarker = "S:"\nrange = [0, 1]\nreason = "why"', "a number alone"),
        ('template = "{reply}"\n[verdict]\noption = true\nmarker = "S:"', "a letter stands alone"),
        ('template = "{reply}"\n[verdict]\noption = true\nreason = "why"', "a letter stands alone"),
        ('template = "{reply}"\n[verdict]\noption = true\nrange = [0, 1]', "and one of them"),
        ('template = "{reply}"\n[verdict]\nlabels = {A = 1.0}\nextracts = true', "stands in the reason"),
        ('template = "{reply} {row_answer}"\n[verdict]\nquote = true', "must not see the gold answer"),
        (
            'system = "{reply} {nonce}"\ntemplate = "Q"\n[verdict]\nlabels = {a = 1.0}',
            "{reply} does not occur in its template",
        ),
        ('max_tokens = 0\ntemplate = "{reply} {nonce}"\n[verdict]\nlabels = {a = 1.0}', "at least 1"),
        ("template = 3", "template"),
        ("not toml", "rubric own"),
        ('template = "{reply} {nonce}"', "verdict"),
        ('template = "{nonce}"\n[verdict]\nlabels = {a = 1.0}', "{reply} does not occur"),
        ('template = "{reply} {nonce}"\n[verdict]\nfield = "x"', "needs labels, a range or a quote"),
        (
            'template = "{reply} {nonce}"\n[verdict]\nlabels = {a = 1.0}\nrange = [0.0, 1.0]',
            "needs labels, a range or a quote",
        ),
        ('template = "{reply} {nonce}"\n[verdict]\nlabels = {a = 2.0}', "between 0 and 1"),
        ('template = "{reply} {nonce}"\n[verdict]\nrange = [1.0, 0.0]', "from low to high"),
        ('template = "{reply} {nonce}"\nfallback = "rule"\n[verdict]\nlabels = {a = 1.0}', "fallback"),
    ],
)
def test_a_rubric_that_cannot_work_is_refused(text, said):
    with pytest.raises(JudgeError, match="rubric own") as caught:
        parse_rubric(text, "own")
    assert said in str(caught.value)


def test_gold_is_struck_out_of_texts_without_spaces_and_quotes_are_found_whatever_their_spelling():
    forms = ("兹金1号", "Model X5", "R8")
    assert strike("那是兹金1号吗", forms) == f"那是{WITHHELD}吗"
    assert strike("奥迪R8跑车, a model x5.", forms) == f"奥迪{WITHHELD}跑车, a {WITHHELD}."
    assert strike("R80, Supermodel X5", forms) == "R80, Supermodel X5"
    for text in ("MODEL-X 5!", "the modelx5 of 2001", "它是兹金 1 号", "r8"):
        assert quotes(text, forms), text
    for text in ("Model Y", "R80", "兹金", ""):
        assert not quotes(text, forms), text


def test_a_rule_gives_the_label_that_scores_one_or_the_highest_number():
    schema = built_in("fika").verdict
    score = score_verdict(ruled(schema), schema)
    assert (score.value, score.verdict, score.detail["judge_source"]) == (1.0, "correct", "rule")
    for name in ("graded", "vlm2-aba"):
        schema = built_in(name).verdict
        assert score_verdict(ruled(schema), schema).value == 1.0
    with pytest.raises(JudgeError, match="no label worth 1"):
        ruled(Schema(labels={"half": 0.5}))


OPTIONS = {"A": "left", "B": "right"}


@pytest.mark.parametrize(
    ("reply", "value", "verdict"),
    [
        *[(form, 1.0, "correct") for form in ("B", " (B)\n", "B.", "(B).", "**B**", "<think>A?</think>B")],
        ('{"verdict": "B"}', 1.0, "correct"),
        ("A", 0.0, "wrong"),
        *[(form, 0.0, "invalid") for form in ("Z", "(Z)", "**Z.**")],
        *[
            (form, None, "unscored")
            for form in ("", "X", "b", "A B", "(B", "B: right", "A right turn", "Your output: B")
        ],
        *[(form, None, "unscored") for form in ('{"verdict": "X"}', "B\nZ", "REPLY>>> B")],
    ],
)
def test_a_judge_that_matches_options_says_one_letter_of_the_sample(reply: str, value: float | None, verdict: str):
    sample = Sample("s", Prompt((Text("Which side?"),)), "B", "choice", OPTIONS)
    rubric = built_in("option").for_sample(sample)
    score = score_verdict(reply, rubric.verdict)
    assert (score.value, score.verdict) == (value, verdict)
    assert rubric.shape == "A, B, or Z for none" and rubric.digest == built_in("option").digest


def test_places_in_the_kits_form_hold_the_row_alone():
    sample = Sample(
        "s",
        Prompt((Text("Question: Which side?\nPick one."),)),
        "B",
        "choice",
        {**OPTIONS, "C": ""},
        meta={"gold": "b", "row_question": ("Which side?",)},
    )
    template = "{row_question}|{row_options}|{row_options_block}|{row_answer}"
    rubric = parse_rubric(f'verbatim = true\ntemplate = "{template}|{{reply}} "\n[verdict]\noption = true', "own")
    filled = fill(rubric.template, places(rubric, sample, "{gold}", 0))
    listed = "A. left\nB. right\n"
    assert filled == f"Which side?|{listed}|Options:\n{listed}\n|B. right|{{gold}} "
    number = Sample("n", Prompt((Text("How far?"),)), 4.5, "number", meta={"gold": "4.50"})
    assert fill(rubric.template, places(rubric, number, "5", 0)) == "How far?|||4.50|5 "


def test_half_an_emoji_in_a_reason_is_written_as_its_escape():
    said = json.dumps({"verdict": "partly", "reason": "half \ud83d"})
    assert read_verdict(said, LABELS).reason == "half \\ud83d"
