"""Kinds of gold answers, told row by row from the cell and its column, and what becomes of each in a run."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data, DataReading
from snellen.benchmarks.table.gold_kinds import ColumnForms, decimal_sign, kind_named, kind_of
from snellen.errors import DataError, SnellenError, UsageError
from snellen.types import Sample, Text


def read(rows: Sequence[dict[str, Any]], folder: Path, **options: str) -> tuple[DataReading, list[Sample]]:
    path = folder / "my.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    benchmark, data = registry.find(str(path)), Data(options=options)
    reading = benchmark.reading(data)
    assert reading is not None
    return reading, list(benchmark.samples(data))


def answers(*golds: Any, question: str = "What is it?") -> list[dict[str, Any]]:
    return [{"question": f"{question} {number}", "answer": gold} for number, gold in enumerate(golds)]


def kinds(golds: Sequence[Any], folder: Path, **options: str) -> list[str]:
    return [sample.kind for sample in read(answers(*golds), folder, **options)[1]]


def request(sample: Sample) -> str:
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text)).rpartition("\n")[2]


MIXED = (
    *(
        ("yes", "truth"),
        ("nein", "truth"),
        ("-12", "number"),
        ("3/4", "number"),
        ("30 °C", "quantity"),
        ("$10.50", "quantity"),
    ),
    *(("45%", "quantity"), ("1:2", "quantity"), ("1 March 2024", "date"), ("2024-03-01", "date"), ("10:05", "time")),
    *(
        ("No Smoking", "text"),
        ("St. John's", "text"),
        ("C++", "text"),
        ("x < y", "text"),
        ("🙂", "text"),
        ("A4", "text"),
    ),
    *(([16, 16, 48, 48], "box"), ("[16, 16, 48, 48]", "box"), ([3, 4], "point"), (["cat", "kitten"], "text")),
    *(({"colour": "red", "size": 3}, "json"), (True, "truth"), (2.5, "number"), (r"\frac{a}{b+1}", "formula")),
    ("Two dogs are running after a ball in the park", "judged"),
)


def test_a_table_of_many_kinds_has_the_kind_of_each_row(tmp_path: Path) -> None:
    golds = [gold for gold, _ in MIXED]
    assert kinds(golds, tmp_path) == [kind for _, kind in MIXED]


@pytest.mark.parametrize(
    ("golds", "expected"),
    [
        (("1", "0", "yes"), ["truth"] * 3),
        (("1", "0", "7"), ["count"] * 3),
        (("T", "F", "T"), ["truth"] * 3),
        (("T", "F", "U"), ["text"] * 3),
        (("3:45", "10:05"), ["time"] * 2),
        (("3:45", "16:90"), ["quantity"] * 2),
        (("01/02/2024", "13/02/2024"), ["date"] * 2),
        (("01/02/2024", "03/02/2024"), ["text"] * 2),
        (("3", "4.5"), ["number"] * 2),
        (("3", "4", "red"), ["count", "count", "text"]),
    ],
)
def test_the_column_settles_what_a_cell_leaves_open(golds: Sequence[str], expected: list[str], tmp_path: Path) -> None:
    assert kinds(golds, tmp_path) == expected


@pytest.mark.parametrize(
    ("question", "gold", "right", "wrong"),
    [
        ("Wie hoch ist der Umsatz?", "12.480", ["12.480", "12480", "12,480", "Answer: 12.480"], ["12.48", "12,48"]),
        ("How high is the turnover?", "12.480", ["12.480", "12.48"], ["12480"]),
        ("How high is the turnover?", "12,480", ["12,480", "12480"], ["12.48"]),
    ],
)
def test_where_no_cell_tells_the_decimal_sign_the_language_of_the_questions_does(
    question: str, gold: str, right: list[str], wrong: list[str], tmp_path: Path
) -> None:
    _, (sample,) = read([{"question": question, "answer": gold}], tmp_path)
    strict = registry.find(str(tmp_path / "my.jsonl")).score["strict"]
    said = {reply: strict(sample, reply).verdict == "correct" for reply in right + wrong}
    assert said == {**dict.fromkeys(right, True), **dict.fromkeys(wrong, False)}


def test_a_decimal_comma_is_decided_on_the_column_and_told(tmp_path: Path) -> None:
    reading, samples = read(answers("1.234", "2,5", "1.234,5"), tmp_path)
    assert "numbers of `answer` have a decimal comma" in reading.text
    assert [sample.meta["decimal"] for sample in samples] == [","] * 3
    strict = registry.find(str(tmp_path / "my.jsonl")).score["strict"]
    assert strict(samples[0], "1234").verdict == "correct" and strict(samples[0], "1.3").verdict == "wrong"
    reading, samples = read(answers("1,234", "2.5", "0,5"), tmp_path)
    assert "decimal" not in samples[0].meta and samples[2].meta["decimal"] == ","


@pytest.mark.parametrize(
    "cell",
    [
        "<answer>{}</answer>",
        r"\boxed{{{}}}",
        r"$\boxed{{{}}}$",
        "We look.\n#### {}",
        r"So it is \boxed{{{}}}.",
        "The answer is {}.",
    ],
)
@pytest.mark.parametrize(("gold", "kind"), [("no", "truth"), ("17", "count"), ("red", "text"), ("30 °C", "quantity")])
def test_markup_of_training_data_is_read_as_a_reply_would_be(cell: str, gold: str, kind: str, tmp_path: Path) -> None:
    (sample,) = read(answers(cell.format(gold)), tmp_path)[1]
    assert (sample.kind, registry.find(str(tmp_path / "my.jsonl")).score["strict"](sample, gold).verdict) == (
        kind,
        "correct",
    )
    rows = [{"question": "Which?", "A": "red", "B": "green", "answer": cell.format("B")} for _ in range(2)]
    assert [sample.target for sample in read(rows, tmp_path)[1]] == ["B", "B"]


def test_a_column_of_kinds_decides_and_a_word_that_is_no_kind_leaves_the_row_out(tmp_path: Path) -> None:
    golds = {
        "yes/no": "1",
        "numeric": "2",
        "free-form": "Barn owl",
        "text": "30",
        "name": "Barn owl",
        "list": "red, green",
    }
    rows = [{"question": "?", "type": name, "answer": gold} for name, gold in golds.items()]
    reading, samples = read(rows, tmp_path)
    assert [sample.kind for sample in samples] == ["truth", "count", "text", "text", "name", "list"]
    assert "kind ← `type`" in reading.text
    rows.append({"question": "?", "type": "colourful", "answer": "x"})
    assert {sample.kind for sample in read(rows, tmp_path)[1]} != {"truth"}  # `type` is a slice then
    reading, _ = read(rows, tmp_path, map="kind=type")
    assert "its kind is 'colourful'" in reading.omitted[0]


def test_a_kind_is_chosen_for_all_rows_and_a_cell_that_is_none_of_it_is_named(tmp_path: Path) -> None:
    reading, samples = read(answers("30", "40 °C", "warm"), tmp_path, kind="quantity")
    assert [sample.kind for sample in samples] == ["quantity"] * 2
    assert "row 3: answer 'warm' is not a number with a unit" in reading.omitted[0].replace(" (id 2)", "")
    assert kinds(("12", "007"), tmp_path, kind="text") == ["text", "text"]
    assert kinds(("12", "007"), tmp_path, map="answer=answer:text") == ["text", "text"]
    with pytest.raises(UsageError, match="neither a kind of answer nor a column"):
        read(answers("x"), tmp_path, kind="colour")


def test_a_row_with_options_is_asked_openly_where_its_kind_says_so(tmp_path: Path) -> None:
    rows = [
        {"question": "Which?", "kind": kind, "A": "red", "B": "green", "answer": gold}
        for kind, gold in (("mcq", "A"), ("text", "green"), ("multi-select", "B"), ("open", "3 kg"))
    ]
    samples = read(rows, tmp_path)[1]
    assert [(sample.kind, len(sample.options)) for sample in samples] == [
        *(("choice", 2), ("text", 0), ("multi-choice", 2), ("quantity", 0)),
    ]


def test_texts_and_options_that_differ_in_case_or_accents_alone_are_compared_with_them(tmp_path: Path) -> None:
    _, samples = read(answers("Polish", "polish", "peché", "péché", "Wren"), tmp_path)
    assert [sample.meta.get("text_level") for sample in samples] == ["exact", "exact", "accents", "accents", None]
    strict = registry.find(str(tmp_path / "my.jsonl")).score["strict"]
    assert [strict(samples[0], reply).verdict for reply in ("Polish", "polish")] == ["correct", "wrong"]
    assert strict(samples[4], "wren").verdict == "correct"
    rows = [{"question": "Which?", "A": "Polish", "B": "polish", "answer": gold} for gold in "AB"]
    assert [sample.meta["text_level"] for sample in read(rows, tmp_path)[1]] == ["exact", "exact"]


def test_a_column_called_level_keeps_its_figures(tmp_path: Path) -> None:
    rows = [{**row, "level": ("easy", "hard")[n % 2]} for n, row in enumerate(answers("Wren", "Owl", "Jay", "Kite"))]
    _, samples = read(rows, tmp_path)
    strict = registry.find(str(tmp_path / "my.jsonl")).score["strict"]
    assert [strict(sample, sample.target).verdict for sample in samples] == ["correct"] * 4
    assert [sample.meta["level"] for sample in samples[:2]] == ["easy", "hard"]


def test_a_picture_column_that_is_empty_everywhere_is_no_blind_question(tmp_path: Path) -> None:
    rows = [{**row, "image": ""} for row in answers("x", "y")]
    with pytest.raises(DataError, match="column of images, 'image', is empty in every row"):
        read(rows, tmp_path)
    assert len(read(rows, tmp_path, map="image=none")[1]) == 2
    assert len(read(rows, tmp_path, without_image="keep")[1]) == 2


WORDS = st.text(string.ascii_letters + "äöüßéñ日本語доброÆ°+-<>/&#'.,!:", min_size=1, max_size=12)
GOLDS = st.one_of(
    WORDS,
    st.lists(WORDS, min_size=2, max_size=5).map(" ".join),
    st.integers(-(10**6), 10**6).map(str),
    st.decimals(-1000, 1000, places=2).map(str),
    st.tuples(st.integers(0, 999), st.sampled_from(("kg", "°C", "m", "%", "€", "km/h"))).map(
        lambda pair: f"{pair[0]} {pair[1]}"
    ),
    st.dates().map(lambda day: day.isoformat()),
    st.times().map(lambda time: f"{time:%H:%M}"),
    st.sampled_from(("yes", "no", "ja", "нет", "是", "A", "B", "E", "1:2", "16:9", "x^2", r"\sqrt{2}")),
    st.lists(st.integers(0, 900), min_size=4, max_size=4, unique=True)
    .map(sorted)
    .map(lambda four: [four[0], four[1], four[2] + 1, four[3] + 2]),
)


@settings(max_examples=60, deadline=None)
@given(golds=st.lists(GOLDS, min_size=1, max_size=6))
def test_a_reply_that_is_the_gold_answer_is_right(golds: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("golds")
    path = folder / "my.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in answers(*golds)))
    try:
        samples = read(answers(*golds), folder)[1]
    except SnellenError as error:
        assert any(reason in error.message for reason in ("0 or 1", "letters", "none of its"))
        return
    strict = registry.find(str(path)).score["strict"]
    for sample in samples:
        gold = golds[int(sample.id)]
        score = strict(sample, gold if isinstance(gold, str) else json.dumps(gold))
        assert score.verdict == "correct", (gold, sample.kind, sample.target, dict(sample.meta), score)


@given(st.permutations(["1", "0", "yes", "3:45", "16:90", "2,5", "1.234", "13/02/2024", "T", "red"]))
def test_what_a_column_says_does_not_depend_on_the_order_of_its_rows(cells: list[str]) -> None:
    forms, reference = ColumnForms(), ColumnForms()
    for cell, other in zip(cells, sorted(cells), strict=True):
        forms.add(cell)
        reference.add(other)
    assert forms.facts() == reference.facts()
    assert sorted(kind_of(cell, forms.facts()) for cell in cells) == sorted(
        kind_of(cell, forms.facts()) for cell in sorted(cells)
    )


@given(st.integers(0, 10**9), st.integers(0, 99), st.sampled_from(".,"))
def test_a_number_with_groups_and_decimals_tells_its_decimal_sign(whole: int, rest: int, sign: str) -> None:
    other = {".": ",", ",": "."}[sign]
    text = f"{whole:,}.{rest:02}".translate(str.maketrans({",": other, ".": sign}))
    assert decimal_sign(text) == sign


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Yes/No", "truth"),
        ("multiple-choice", "choice"),
        ("Multi select", "multi-choice"),
        ("ja/nein", "truth"),
        ("单选题", "choice"),
        ("OPEN", "open"),
        ("free_form", "open"),
        ("quantity", "quantity"),
        ("birds", None),
        ("x" * 1000, None),
    ],
)
def test_usual_words_name_kinds(word: str, kind: str | None) -> None:
    assert kind_named(word) == kind
