"""The extractors on recorded replies, on rows of other benchmarks, and on anything at all."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.cli import main
from snellen.errors import DataError
from snellen.scoring.answers import AnswerContext, kinds
from snellen.scoring.extract import correct, read
from snellen.scoring.extract.batch import converted, extract_row
from stopwatch import cpu_times

ROWS: list[dict[str, Any]] = [
    {"kind": "truth", "reply": "Yes.", "gold": "yes", "form": "yes/no", "id": 7},
    {"kind": "choice", "reply": "B. red kite", "options": {"A": "osprey", "B": "red kite"}, "gold": "A"},
    {"kind": "choice_text", "reply": "the second option", "options": ["osprey", "red kite"], "gold": "red kite"},
    {"kind": "count", "reply": "2 or 3", "gold": 3},
    {"kind": "number", "reply": "75 cm", "unit": "m", "gold": 0.75},
    {"kind": "short", "reply": "Red-tailed Hawk (Buteo jamaicensis)", "gold": "Buteo jamaicensis"},
    {"kind": "short", "reply": "a mug", "gold": "cup", "aliases": ["mug"]},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["truth", "choice", "choice_text", "count", "number", "short"])
def test_an_empty_reply_is_called_empty_in_every_kind(kind):
    row = {"kind": kind, "reply": " \n", "options": ["osprey", "red kite"]}
    (found,) = converted([json.dumps(row).encode()], "rows", extract_row)
    assert (found["extracted"], found["reason"]) == (None, "empty reply")


def test_an_extraction_that_is_stopped_leaves_no_half_file(tmp_path, monkeypatch):
    def stopped(lines, where, convert):
        yield from converted([next(iter(lines))], where, convert)
        raise KeyboardInterrupt

    monkeypatch.setattr("snellen.cli.extract.converted", stopped)
    source = write(tmp_path / "in.jsonl", ROWS)
    assert main(["extract", str(source), "--out", str(tmp_path / "out.jsonl")]) == 130
    assert list(tmp_path.iterdir()) == [source]


def test_extract_adds_what_was_read_why_not_and_whether_it_is_right(tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert main(["extract", str(write(tmp_path / "in.jsonl", ROWS)), "--out", str(out), "--json"]) == 0
    read_back = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["extracted"] for row in read_back] == [True, "B", "red kite", None, 0.75, "Red-tailed Hawk", "a mug"]
    assert [row["correct"] for row in read_back] == [True, False, True, False, True, True, True]
    assert read_back[0]["id"] == 7 and read_back[3]["reason"]
    summary = json.loads(capsys.readouterr().out)
    assert {"kind": "short", "n": 2, "read": 2, "graded": 2, "correct": 2} in summary["kinds"]


def test_a_row_without_gold_gets_no_verdict():
    (row,) = converted([b'{"kind": "count", "reply": "three"}'], "x", extract_row)
    assert row["extracted"] == 3 and "correct" not in row


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "not JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"reply": "x"}', "'kind' is None"),
        (b'{"kind": "count", "reply": 3}', "'reply' is int"),
        (
            b'{"kind": "truth", "response": "Yes", "gold": true}',
            "'reply' is missing. The row has 'kind', 'response', 'gold'",
        ),
        (b'{"kind": "choice", "reply": "A"}', "'options' of a choice row: missing"),
        (b'{"kind": "truth", "reply": "yes", "form": "maybe"}', "'form' is 'maybe'"),
    ],
)
def test_a_faulty_row_is_named_by_file_and_line_and_the_others_are_read(line, complaint):
    rows = list(
        converted(
            [b'{"kind": "count", "reply": "3"}', line, b'{"kind": "count", "reply": "4"}'], "rows.jsonl", extract_row
        )
    )
    assert "rows.jsonl, line 2" in rows[1]["error"] and complaint in rows[1]["error"]
    assert [row.get("extracted") for row in rows] == [3, None, 4]


def test_faulty_rows_are_reported_and_the_status_says_so(tmp_path, capsys):
    faulty = tmp_path / "in.jsonl"
    faulty.write_bytes(b'{"kind": "count", "reply": "3"}\n{\n')
    assert main(["extract", str(faulty), "--out", str(tmp_path / "out.jsonl")]) == 9
    assert "line 2: not JSON" in capsys.readouterr().err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


def test_unknown_kinds_and_missing_options_are_errors():
    with pytest.raises(DataError, match="no kind of answer 'open'"):
        read("open", "x")
    with pytest.raises(DataError, match="needs options"):
        read("choice", "A")


@pytest.mark.parametrize(
    ("kind", "value", "gold", "right"),
    [
        ("truth", True, "T", True),
        ("truth", False, "yes", False),
        ("choice", "b", "(B)", True),
        ("count", 3, "3", True),
        ("number", 2.44, 2.4384, True),
        ("number", 2.4, 2.6, False),
        ("number", 1234567.0, "1,234,567", True),
        ("short", "Brewers Blackbird", "Brewer's Blackbird", True),
        ("short", "a small red apple", "apple", False),
        ("short", "sea lion", "lion", False),
        ("short", "caterpillar", "cat", False),
        ("short", "hawk", "red-tailed hawk", False),
        ("short", "737 800", "737-800", False),
        ("short", "Arctic tern", "artic tern", False),
        ("short", None, "lion", False),
    ],
)
def test_what_was_read_is_compared_by_whole_words(kind, value, gold, right):
    assert correct(kind, value, gold) is right


DATA = Path(__file__).parent / "data"
BATCHES, BLIND = sorted(DATA.glob("replies*.jsonl")), sorted(DATA.glob("blind_replies*.jsonl"))
"""Batches, and those of authors who saw neither rules nor earlier batches; what the first look gave is in docs/extraction.md."""
MOST_WRONG, LEAST_EASY, LEAST_READ = 0.01, 0.99, 0.85


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_row(row: dict[str, Any]) -> Any:
    given = {name: row[name] for name in ("question", "options", "form", "unit") if name in row}
    return read(row["kind"], row["reply"], **given)


def context_of(row: dict[str, Any]) -> AnswerContext:
    return AnswerContext(question=row.get("question") or "", unit=row.get("unit") or "")


def outcome(row: dict[str, Any]) -> str:
    reading = read_row(row)
    if row["expect"] is None:
        return "nothing" if reading.value is None and reading.reason else "wrong"
    if reading.value is None:
        return "unread"
    return "right" if correct(row["kind"], reading, row["expect"], row.get("aliases", ()), context_of(row)) else "wrong"


def test_labelled_replies_are_read_as_a_careful_reader_does_or_left_unread():
    labelled = [(row, outcome(row)) for path in (*BATCHES, *BLIND) for row in rows(path)]
    counts = Counter(said for _, said in labelled)
    easy = Counter(said for row, said in labelled if row["level"] == "easy")
    wrong = [(row["kind"], row["reply"], row["expect"], read_row(row)) for row, said in labelled if said == "wrong"]
    readable = sum(row["expect"] is not None for row, _ in labelled)
    assert counts["wrong"] <= MOST_WRONG * len(labelled), wrong
    assert easy["right"] >= LEAST_EASY * easy.total(), easy
    assert counts["right"] >= LEAST_READ * readable, counts


BIRDS, COLOURS = ("red kite", "robin", "crow", "owl"), ("red", "blue", "green", "white")
ABOUT_OTHERS = [
    ("choice", "Which bird is on the left?", BIRDS, "The left one is a robin. The right one is a crow.", None),
    ("choice", "What colour is the car?", COLOURS, "The car is blue. The sky is white.", None),
    ("choice", "Which bird is it?", BIRDS, "It's smaller than a crow.", None),
    ("choice", "Which statements hold?", BIRDS, "A, B and D are wrong.", "C"),
    ("truth", "¿Hay perros?", (), "Hay dos gatos, pero no hay perros.", False),
    ("truth", "A pessoa no vídeo desliga o fogão?", (), "Logo, ela não desliga o fogão.", False),
    ("truth", "Is the shop open?", (), "I doubt the shop is open.", None),
    ("truth", "Is the shop open?", (), "If the sign is right, the shop is open.", None),
    ("text", "What colour is the car?", (), "THE CAR IS RED", "RED"),
    ("text", "What does the sign say?", (), "NO PARKING", "NO PARKING"),
    ("text", "What does the sign say?", (), "THERE IS NO SIGN", None),
    ("text", "What does the sign say?", (), "KEEP\nCALM", None),
    ("count", "How many birds are there?", (), '5 <tool_call>{"x": 1}', 5),
    ("quantity", "How long is it?", (), "Between 100 m and 120 m.", None),
    ("quantity", "How much is it?", (), "two dollars fifty", None),
    ("quantity", "How heavy are they?", (), "2 x 500 g", None),
    ("time", "What time is it?", (), "It is either 3 or 4 o'clock.", None),
    ("time", "What time is it?", (), "It is 25 to 4 o'clock.", None),
    ("time", "What time is it?", (), "It is shortly before 4 o'clock.", None),
    ("name", "Who is this?", (), "d'Artagnan", "d'Artagnan"),
    ("count", "Is it a bird?", (), "². Robin", None),
    ("text", "", (), "d'because it", "d'"),
]


@pytest.mark.parametrize(("kind", "question", "options", "reply", "value"), ABOUT_OTHERS)
def test_what_a_reply_says_of_others_denies_or_doubts_is_no_answer(kind, question, options, reply, value):
    assert read(kind, reply, question=question, options=options).value == value


def test_the_set_has_at_least_400_replies_half_of_them_hard_over_all_kinds():
    labelled = [row for path in BATCHES for row in rows(path)]
    assert len(labelled) >= 400
    assert sum(row["level"] == "hard" for row in labelled) >= len(labelled) / 2
    assert {row["kind"] for row in labelled} == {
        "truth",
        "choice",
        "choice_text",
        "count",
        "number",
        "short",
        "text",
        "name",
        "quantity",
    }


OPTIONS = {"A": "golden eagle", "B": "red kite", "C": "common buzzard", "D": "osprey"}
GIVEN: dict[str, dict[str, Any]] = {
    "truth": {"question": "Is the bird a red kite? Answer yes or no.", "form": "yes/no"},
    "choice": {"question": "Which bird is shown?", "options": OPTIONS},
    "choice_text": {"question": "Which bird is shown?", "options": list(OPTIONS.values())},
    "multi-choice": {"question": "Which birds are shown?", "options": OPTIONS},
    "count": {"question": "How many birds are there?"},
    "number": {"question": "How long is the bird in cm?", "unit": "cm"},
    "quantity": {"question": "How long is the bird in cm?", "unit": "cm"},
}
WHICH = {"question": "What species of bird is this?"}
WORDS = """A B C D a i I yes no not true false is are the answer final : . , ; ( ) [ ] { } < > / | # * ** ` ``` $ \\ \\boxed{
\\text{ \\frac{ <think> </think> <answer> </answer> wait actually so therefore or and either neither than but because golden
eagle red kite osprey buzzard three 3 2-3 2,5 1. 10:30 half dozen cm m ft " ' "answer": "B" 是 不是 选 答案 三 第二 （ ） ： Ｂ ½ ² → ✓ ✗ - --
... ? ! % it this There option first last none of above don't can't maybe March 2024-03-01 [1,2,3,4] $5 60% x^2"""
MEGABYTE = 1_000_000
HOSTILE = [
    *(
        "a ",
        "A",
        "(",
        "<think>",
        "<answer>",
        "\\boxed{",
        '{"answer": ',
        "**",
        "1",
        "1,",
        "1 ",
        "not ",
        "no, ",
        "the answer is ",
    ),
    *(
        "it is a ",
        "\n",
        "- \n",
        "A. golden eagle\n",
        "... ",
        "wait, ",
        "twenty ",
        "三",
        "是",
        "Ａ",
        "\ud800",
        "$\\frac{1}{",
        "[x](",
        "| ",
    ),
    *("so ", "5 cm ", "1/", "10:30 ", "March ", "e.g. ", "a: 1\n", "\u200b", '{"a": 1}, '),
]
DRESSES = ["{}", "**{}**", "`{}`", "```\n{}\n```", "> {}", "- {}", "\n\n{}\n", '"{}"', "<answer>{}</answer>", "\\boxed{{{}}}", "\\boxed{{\\text{{{}}}}}", "$\\text{{{}}}$", '{{"answer": "{}"}}', "<think>A or B? yes, 7. Hmm.</think>{}", "<b>{}</b>", "### {}", "{}.", "「{}」"]  # fmt: skip
LEADS = ["{}", "Answer: {}", "The answer is {}", "Final answer: {}", "My answer is {}", "So the answer is {}", "**Answer:** {}", "答案：{}", "Therefore, the final answer is {}", "After looking closely at the picture, I conclude that the answer is {}"]  # fmt: skip
ANSWERS = [
    ("truth", "Yes", True), ("truth", "no", False), ("choice", "C", "C"), ("choice", "B. red kite", "B"), ("choice", "osprey", "D"),
    ("choice_text", "common buzzard", "common buzzard"), ("multi-choice", "A, C", "A, C"), ("count", "3", 3), ("count", "twelve", 12),
    ("number", "2.5 cm", 2.5), ("number", "31", 31.0), ("quantity", "25 mm", "2.5 cm"), ("short", "Red Kite", "Red Kite"),
    ("short", "Cooper's hawk", "Cooper's Hawk"), ("text", "KX-42", "KX-42"), ("date", "2024-03-01", "1 March 2024"), ("time", "10:05", "10:05"),
    ("list", "red, green", "red, green"), ("box", "[16, 16, 48, 48]", "[16, 16, 48, 48]"), ("point", "(5, 6)", "(5, 6)"),
]  # fmt: skip


def is_value_or_reason(kind: str, reply: str) -> bool:
    reading = read(kind, reply, **GIVEN.get(kind, WHICH))
    return (reading.value is None) != (reading.reason is None)


@pytest.mark.parametrize("kind", kinds())
@given(
    reply=st.text(st.characters(), max_size=400) | st.lists(st.sampled_from(WORDS.split()), max_size=60).map(" ".join)
)
@settings(max_examples=150)
def test_any_text_and_any_word_salad_gives_a_value_or_a_reason(kind, reply):
    assert is_value_or_reason(kind, reply)


@pytest.mark.parametrize("kind", kinds())
def test_a_hostile_megabyte_is_read_in_linear_time(kind):
    """Four times the text takes about four times as long, not sixteen times; and a megabyte takes no time to notice."""
    slow = []
    for piece in HOSTILE:
        reply, read_it = piece * (MEGABYTE // len(piece)), partial(read, kind, **GIVEN.get(kind, WHICH))
        whole = min(cpu_times(partial(read_it, reply), enough_s=0.3))
        if whole > 0.3:
            quarter = max(cpu_times(partial(read_it, reply[: len(reply) // 4])))
            if whole >= 2.0 or whole >= 10 * quarter + 0.5:
                slow.append((piece, quarter, whole))
    assert slow == []


@pytest.mark.parametrize(("kind", "answer", "value"), ANSWERS)
@given(
    dress=st.sampled_from(DRESSES), lead=st.sampled_from(LEADS), pad=st.sampled_from(["", " ", "\n", "\u200b", "\t"])
)
@settings(max_examples=120)
def test_a_known_answer_is_read_in_every_dress(kind, answer, value, dress, lead, pad):
    inner = lead.format(answer) if dress.startswith(("```", "<think", "{}", "\n")) else answer
    block = "\n" if dress.startswith(("#", ">", "-", "```")) else ""
    reply = pad + (dress.format(inner) if inner != answer else lead.format(block + dress.format(answer))) + pad
    given = GIVEN.get(kind, WHICH)
    options = given.get("options", {})
    context = AnswerContext(options if isinstance(options, dict) else {}, given["question"], given.get("unit", ""))
    reading = read(kind, reply, **given)
    assert correct(kind, reading, value, context=context), (reply, reading)


CLAIM = 'Is the statement "There are no birds on the wire" true for the image?'


@pytest.mark.parametrize(
    ("kind", "question", "gold", "right", "wrong"),
    [
        ("truth", CLAIM, "yes", ["The claim that there are no birds is correct.", "The statement is true."], ["The statement that there are no birds is false.", "So the claim of no birds is false.", "The statement is not true.", "I do not think that the statement is true."]),
        ("truth", "Is it a cat?", "yes", ["Yes, or at least there is no sign of the contrary."], ["Yes, or perhaps no.", "Maybe yes, maybe no."]),
        ("quantity", "How large is the area?", "12 cm^2", ["The area is 12 cm^2.", "It is 12 cm2, as marked.", "So the area is $12\\,\\mathrm{cm^2}$."], ["The area is 12 cm.", "It is 12 cm^3."]),
        ("quantity", "Which angle is it?", "90°", ["It is $90^\\circ$.", "It is $90^{\\circ}$ clockwise."], ["It is $9^\\circ$."]),
        ("name", "Which film is it?", "A Fish Called Wanda", ["It is A Fish Called Wanda.", "The film is called A Fish Called Wanda."], ["It is called Wanda."]),
        ("date", "Which day is it?", "23 February 2022", ["It is the 23rd of February 2022."], ["Either the 22nd or the 23rd of February 2022.", "22 or 23 February 2022"]),
        ("time", "What time is it?", "3:15", ["So it is a quarter past three.", "It is fifteen minutes past 3."], ["It is a quarter to three.", "It is three o'clock."]),
    ],
)  # fmt: skip
def test_what_readers_of_fresh_replies_found(kind: str, question: str, gold: str, right: list[str], wrong: list[str]):
    context = AnswerContext(question=question)
    found = {
        reply: correct(kind, read(kind, reply, question=question, gold=gold), gold, context=context)
        for reply in right + wrong
    }
    assert found == {**dict.fromkeys(right, True), **dict.fromkeys(wrong, False)}
