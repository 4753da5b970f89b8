"""Questions about PDFs: own tables, and MMLongBench-Doc from its drawn repository; what every profile makes of replies."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from document_sets_drawn import DOCUMENTS, ROWS, repository
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

import snellen
from servers.oracle import OracleServer
from snellen.benchmarks import registry
from snellen.benchmarks.table.operations import CellError
from snellen.benchmarks.table.pages import page_numbers
from snellen.cli import main
from snellen.errors import UsageError
from snellen.media.pdf import PdfPage
from snellen.scoring.rules.generalised import NOT_ANSWERABLE, generalised_score, lmms_score
from snellen.types import Image, Sample


def samples_of(name: str, path: Path, **options: str) -> list[Sample]:
    return list(registry.find(name).samples(snellen.Data(path=path, options=options)))


def pages_of(sample: Sample) -> list[int]:
    pages = [part.blob for part in sample.prompt.parts if isinstance(part, Image)]
    return [page.number for page in pages if isinstance(page, PdfPage)]


def test_the_first_pages_are_sent_in_order_and_a_run_says_how_many_are_left_out(tmp_path: Path) -> None:
    place = repository(tmp_path)
    samples = samples_of("mmlongbench-doc", place)
    assert [pages_of(sample) for sample in samples[:4]] == [[1, 2, 3]] * 3 + [[*range(1, 121)]]
    benchmark = registry.find("mmlongbench-doc")
    reading = benchmark.reading(snellen.Data(path=place)).text  # type: ignore[misc]
    left_out = "5 pages of 1 PDF left out, and what only they show cannot be answered (more: -o max_pages=125)"
    assert f"2 PDFs at 144 dpi, at most 120 pages of each: {left_out}" in reading
    assert "box" not in reading and "gold coordinates" not in reading
    digests = {
        benchmark.digest(snellen.Data(path=place, options=options))
        for options in ({}, {"dpi": "72"}, {"max_pages": "125"}, {"max_pages": "2"})
    }
    assert len(digests) == 4  # and so in every fingerprint
    assert pages_of(samples_of("mmlongbench-doc", place, max_pages="2")[0]) == [1, 2]
    with pytest.raises(UsageError, match="-o dpi=5000: a whole number from 10 to 600 was expected"):
        samples_of("mmlongbench-doc", place, dpi="5000")


def test_the_pages_with_the_evidence_are_shown_alone_and_none_where_there_is_none(tmp_path: Path) -> None:
    samples = samples_of("mmlongbench-doc-evidence", repository(tmp_path))
    assert [pages_of(sample) for sample in samples] == [[2], [1, 2], [3], [], [], [124]]  # there is no page 999
    assert samples[0].prompt.parts[-1].text.endswith("not in the document, answer 'Not answerable'.")  # type: ignore[union-attr]


# row, reply, values of strict, authors, vlmevalkit and lmms-eval, worked out by hand from the rules
REPLIES = [
    (0, "8", (1, 1, 1, 1)),
    (0, "8.9", (1, 1, 1, 1)),  # cut off
    (0, "There are 8 of them.", (0, 0, 0, 1)),  # a model has to extract it; lmms-eval takes the first number
    (0, "Extracted answer: 8\nAnswer format: Integer", (1, 1, 1, 1)),
    (1, "18.2%", (1, 1, 1, 1)),  # within 1 %
    (1, "0.1829", (1, 1, 1, 1)),
    (1, "1829", (1, 1, 1, 1)),
    (1, "18.6", (0, 0, 0, 0)),
    (2, "jean moulin (1899)", (1, 1, 1, 1)),
    (2, "Jean Moulon", (10 / 11, 10 / 11, 10 / 11, 10 / 11)),  # one of eleven letters
    (2, "Jean", (0, 0, 0, 0)),  # 4 of 11 letters: not over a half
    (2, "Jean Moulin miles", (11 / 17, 11 / 17, 11 / 17, 1)),  # the authors' script means to drop the unit
    (3, '["10%", "white"]', (1, 1, 1, 1)),  # sorted
    (3, "['White']", (0, 0, 0, 0)),
    (3, "['Whine', '10%']", (0, 0, 0, 0)),  # the first gold one is a number, so that all must be equal
    (4, "Not answerable", (1, 1, 1, 1)),
    (4, "not answerable.", (1, 14 / 15, 14 / 15, 0)),
    (4, "The document does not mention cats.", (1, 0, 0, 0)),
    (4, "I cannot find this in the document.", (1, 0, 0, 0)),
    (4, "3", (0, 0, 0, 0)),
    (5, "[]", (0, 0, 0, 1)),  # the authors' script ends there
]


@pytest.mark.parametrize(("number", "reply", "values"), REPLIES)
def test_a_reply_has_the_value_that_each_profile_gives_it(
    number: int, reply: str, values: tuple[float, ...], tmp_path: Path
) -> None:
    benchmark = registry.find("mmlongbench-doc")
    sample = samples_of("mmlongbench-doc", repository(tmp_path))[number]
    for profile, expected in zip(("strict", "authors", "vlmevalkit", "lmms-eval"), values, strict=True):
        assert benchmark.score[profile](sample, reply).value == pytest.approx(expected), profile


def test_f1_counts_what_is_answered_and_figures_are_by_evidence_and_document(tmp_path: Path) -> None:
    """Right: rows 0, 1, 3; row 2 is said to have no answer, row 4 is answered, row 5 has a list in place of none."""
    said = ["8", "18.29", "Not answerable", "['White', '10%']", "3", "['a']"]
    with OracleServer(
        lambda request: next(text for asked, text in zip(ROWS, said, strict=True) if asked["question"] in request.text)
    ) as server:
        done = snellen.evaluate(
            "mmlongbench-doc", "api:oracle", base_url=server.url, data=repository(tmp_path), out=tmp_path / "run"
        )
    found = {figure.name: figure.value for figure in done.figures("authors")["authors"]}
    assert done.figures("authors")["authors"][0].name == "f1"
    # 3 right of 5 with an answer; 5 replies give an answer: rows 0, 1, 3, 4 and 5
    assert found["f1"] == found["f1-of-all"] == pytest.approx(3 / 5)
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert (found["single page"], found["cross-page"], found["unanswerable"]) == (1 / 2, 2 / 3, 0)
    assert (found["accuracy/Table"], found["accuracy/Chart"], found["accuracy/Figure"]) == (1, 1, 1 / 2)
    assert (found["accuracy/Brochure"], found["accuracy/Guidebook"]) == (2 / 3, 1 / 3)


def test_the_harnesses_f1_counts_what_unanswerable_questions_score_too(tmp_path: Path) -> None:
    """The gold `Not answerable` with another spelling is an answer, and worth 14/15."""
    said = ["8", "wrong", "wrong", "wrong", "Not answerable!", "wrong"]
    lines = [json.dumps({"id": str(at), "reply": text}) for at, text in enumerate(said)]
    (tmp_path / "said.jsonl").write_text("\n".join(lines))
    done = snellen.evaluate(
        "mmlongbench-doc", f"replay:{tmp_path / 'said.jsonl'}", data=repository(tmp_path), out=tmp_path / "run"
    )
    found = {figure.name: figure.value for figure in done.figures("authors")["authors"]}
    recall, precision, of_all = 1 / 5, 1 / 6, (1 + 14 / 15) / 6
    assert found["f1"] == pytest.approx(2 * recall * precision / (recall + precision))
    assert found["f1-of-all"] == pytest.approx(2 * recall * of_all / (recall + of_all))


def test_a_reader_extracts_what_the_rules_leave_unread(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    table = tmp_path / "t/q.csv"
    table.write_text("doc,question,answer,answer_format\na.pdf,How many?,8,Int\n")
    (tmp_path / "t/a.pdf").write_bytes(DOCUMENTS["a.pdf"])
    (tmp_path / "q.toml").write_text(
        'name = "q"\n[source]\nfile = "t/q.csv"\n[rows]\nimage = "doc"\nquestion = "question"\nanswer = "answer"\n'
        'answer_format = "answer_format"\n[score]\nread = "extracted"\nequals = "generalised"\n[[report]]\nheadline = true\n'
    )
    long = "On the second page there is a table, in which I count the rows one by one, and I come to " + "a sum " * 20
    (tmp_path / "said.jsonl").write_text(
        json.dumps({"id": "0", "reply": f"{long}of 8 rows that it lists in total there."})
    )
    (tmp_path / "read.jsonl").write_text(json.dumps({"id": "0", "reply": '{"quote": "8"}'}))
    done = snellen.evaluate(str(tmp_path / "q.toml"), f"replay:{tmp_path / 'said.jsonl'}", out=tmp_path / "run")
    assert done.figures("strict")["strict"][0].value == 0
    snellen.read(tmp_path / "run", f"replay:{tmp_path / 'read.jsonl'}")
    assert snellen.load_run(tmp_path / "run").figures("strict")["strict"][0].value == 1


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(["Int", "Float", "Str", "None", "List"]))
def test_any_answer_has_a_score_from_0_to_1_and_the_gold_text_itself_1(answer: str, gold: str, form: str) -> None:
    assert 0 <= generalised_score(answer, gold, form) <= 1
    assert 0 <= lmms_score(answer, gold, form) <= 1
    assert generalised_score(gold, gold, "Str") == 1 == generalised_score(NOT_ANSWERABLE, NOT_ANSWERABLE, "None")


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [
        (None, [1, 2, 3, 4, 5]), ("", [1, 2, 3, 4, 5]), (float("nan"), [1, 2, 3, 4, 5]), (3, [3]), (3.0, [3]), ("2-4", [2, 3, 4]),
        ("1, 4", [1, 4]), ([5, 1, 5], [5, 1]), ("['2', '4-5']", [2, 4, 5]), ("[]", []), ([], []),
    ],
)  # fmt: skip
def test_pages_are_named_by_number_span_or_list(cell: Any, numbers: list[int]) -> None:
    assert page_numbers(cell, 5) == numbers


@pytest.mark.parametrize("cell", ["0", "6", "4-6", "3-2", "two", "1;2", "-1", "9" * 30, "1.5"])
def test_pages_that_are_none_are_an_error_with_the_cell(cell: str) -> None:
    with pytest.raises(CellError, match="pages are"):
        page_numbers(cell, 5)


@given(st.one_of(st.text(max_size=30), st.lists(st.integers(-3, 9), max_size=5)), st.integers(1, 6), st.booleans())
def test_any_cell_of_pages_gives_pages_of_the_document_or_an_error(cell: Any, count: int, skip: bool) -> None:
    try:
        numbers = page_numbers(cell, count, skip=skip)
    except CellError:
        return
    assert set(numbers) <= set(range(1, count + 1)) and len(set(numbers)) == len(numbers)


def test_pdfs_in_cells_of_a_tsv_and_of_a_parquet_show_their_pages(tmp_path: Path) -> None:
    """VLMEvalKit's table has them in base64, and names another row's document by its index."""
    text = base64.b64encode(DOCUMENTS["a.pdf"]).decode()
    with (tmp_path / "kit.tsv").open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(
            [("index", "image", "question", "answer"), (0, text, "Which?", "one"), (1, "0", "And?", "two")]
        )
    cells = [{"bytes": DOCUMENTS["a.pdf"], "path": None}]
    pq.write_table(pa.table({"image": cells, "question": ["Which?"], "answer": ["one"]}), tmp_path / "cells.parquet")
    for name, rows in (("kit.tsv", 2), ("cells.parquet", 1)):
        samples = samples_of(str(tmp_path / name), None)  # type: ignore[arg-type]
        assert [pages_of(sample) for sample in samples] == [[1, 2, 3]] * rows
        pages = [part.blob for sample in samples for part in sample.prompt.parts if isinstance(part, Image)]
        assert len({page.read() for page in pages}) == 3
        assert Pillow.open(io.BytesIO(pages[0].read())).size == (288, 144)


def test_an_unreadable_pdf_leaves_its_row_out_with_the_reason_in_runs_and_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    (tmp_path / "a.pdf").write_bytes(DOCUMENTS["a.pdf"])
    (tmp_path / "bad.pdf").write_bytes(b"no document")
    table = tmp_path / "q.csv"
    table.write_text("image,pages,question,answer\na.pdf,2,Which?,two\nbad.pdf,,Which?,one\na.pdf,9,Which one?,none\n")
    main(["check", str(table), "--map", "pages=pages", "--samples", "1"])
    shown = capsys.readouterr()
    text = " ".join((shown.out + shown.err).split())
    assert "bad.pdf: it is no PDF, its first bytes are b'no docum'" in text
    assert "pages are '9', and the document has 3" in text
    assert "a.pdf, page 2 at 144 dpi" in text and "288 x 144 PNG" in text


def test_the_commands_of_the_page_on_documents_run_on_what_it_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs/documents.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    commands = [line for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    mine = [shlex.split(line)[1:] for line in commands if "api:NAME" not in line]
    assert [command[0] for command in mine] == ["check", "run", "score"]
    assert [main(command) for command in mine] == [0, 0, 0]
    shown = capsys.readouterr().out
    assert "1,190 x 1,684 PNG" in shown and "0.8750" in shown and "0.6667" in shown
    assert "accuracy/table` is 0.875" in page and "`accuracy/words` is 0.667" in page
