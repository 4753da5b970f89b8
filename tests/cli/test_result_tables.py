"""Tables of several runs by `snellen export`: who stands in which row, what is bold, and what a reader is told."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.stubs import ARITHMETIC, Calculator
from latex_page import set_page
from snellen import evaluate, load_run
from snellen.benchmarks import registry
from snellen.runs.tables import TABLE_FORMATS, result_table, write_table
from snellen.scoring.metrics import share
from snellen.scoring.scores import Scores
from snellen.scoring.statistics import mean
from snellen.types import MediaSettings, Metric, Prompt, Response

Snellen = Callable[..., Any]


class Answers(Calculator):
    """Answers right, but for the questions in `wrong`."""

    def __init__(self, name: str, wrong: Iterable[int] = ()) -> None:
        super().__init__()
        self.name = name
        self.wrong = set(wrong)

    async def answer(self, prompt: Prompt) -> Response:
        i = int(prompt.parts[0].text.split()[2])
        return Response(str((i + 1) % 7 if i in self.wrong else i % 7))


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Accuracy, its slices, a metric that is no mean of scores, and a share of failures."""
    right = float(scores.value.mean())
    composite = Metric("f1", right**2, len(scores), (max(0.0, right**2 - 0.1), min(1.0, right**2 + 0.1)))
    parts = [mean(f"accuracy/{m}", s) for m, s in scores.by("mod")]
    return [mean("accuracy", scores), *parts, composite, share(scores, "wrong", "wrong")]


SUMS = replace(ARITHMETIC, summarize=summarize)
OTHER = replace(SUMS, name="products")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:SUMS")
    monkeypatch.setitem(registry.BUILT_IN, "products", f"{__name__}:OTHER")


def ask(
    name: str, wrong: Iterable[int] = (), folder: str | None = None, benchmark: Any = SUMS, **settings: Any
) -> None:
    evaluate(benchmark, Answers(name, wrong), out=f"results/{folder or name}", **settings)


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def bold_rows(markdown: str) -> dict[str, list[bool]]:
    """Model to whether each of its cells is bold."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in markdown.splitlines() if line[:1] == "|"
    ]
    return {row[0].strip("| "): [cell.startswith("**") for cell in row[1:]] for row in rows[2:]}


def test_one_row_a_model_and_one_column_a_headline(snellen: Snellen) -> None:
    ask("first", range(0, 100, 4))
    ask("second", range(0, 100, 10))
    ask("first", range(50), "first-products", OTHER)
    for words in (["results/first", "results/second", "results/first-products"], ["results"]):
        printed = snellen("export", *words, "--format", "csv")
        assert printed.status == 0, printed.err
        rows = {row["model"]: row for row in read_csv(printed.out)}
        assert rows.keys() == {"first", "second"}
        assert float(rows["first"]["arithmetic accuracy"]) == 0.75
        assert float(rows["first"]["products accuracy"]) == 0.5
        assert rows["second"]["products accuracy"] == "" and float(rows["second"]["arithmetic accuracy"]) == 0.9
        assert rows["first"]["arithmetic accuracy n"] == "100"
        assert float(rows["first"]["arithmetic accuracy low"]) < 0.75 < float(rows["first"]["arithmetic accuracy high"])


def test_two_runs_of_one_model_are_named_after_their_folders(snellen: Snellen) -> None:
    ask("same", [], "warm")
    ask("same", range(60), "cold")
    ask("third", range(3))
    rows = read_csv(snellen("export", *sorted(Path("results").iterdir()), "--format", "csv").out)
    assert [row["model"] for row in rows] == ["cold", "warm", "third"]


def test_folders_of_one_name_are_told_apart_by_their_parents(snellen: Snellen) -> None:
    ask("same", [], "a/run")
    ask("same", range(60), "b/run")
    rows = read_csv(snellen("export", "results/a/run", "results/b/run", "--format", "csv").out)
    assert [row["model"] for row in rows] == ["results/a/run", "results/b/run"]


def test_a_control_run_does_not_share_a_row_with_its_model(snellen: Snellen) -> None:
    ask("model", range(10))
    ask("model", range(70), "model-blank", OTHER, media=MediaSettings(blank=True))
    out = snellen("export", "results/model", "results/model-blank", "--format", "markdown").out
    assert "| model |" in out and "| model-blank |" in out and "blind control" in out


def test_a_limit_of_the_images_size_is_a_remark_of_every_table(snellen: Snellen) -> None:
    ask("model", range(70), "whole")
    ask("model", range(70), "small", media=MediaSettings(max_long_side=64))
    for form in ("latex", "markdown"):
        table = snellen("export", "results/whole", "results/small", "--format", form).out
        assert "images with max" in table.replace("\\", "") and table.replace("\\", "").count("max_long_side = 64") == 1


def test_files_that_are_no_runs_are_left_out_and_named_but_a_missing_one_is_an_error(snellen: Snellen) -> None:
    ask("first")
    Path("results/report.html").write_text("<p>")
    Path("results/empty").mkdir()
    printed = snellen("export", *sorted(Path("results").iterdir()), "--format", "csv")
    assert printed.status == 0 and len(read_csv(printed.out)) == 1
    assert "report.html holds no run" in printed.err and "empty holds no run" in printed.err
    assert snellen("export", "results/first", "results/gone", "--format", "csv").status == 5


def test_metrics_are_chosen_by_name_and_pattern(snellen: Snellen) -> None:
    ask("first", range(10))
    chosen = snellen("export", "results/first", "--format", "json", "--metrics", "f1, accuracy/*")
    names = [column["metric"] for column in json.loads(chosen.out)["columns"]]
    assert names == ["f1", "accuracy/0", "accuracy/1", "accuracy/2"]
    failed = snellen("export", "results/first", "--format", "json", "--metrics", "acuracy")
    assert failed.status == 2 and "'acuracy'" in failed.err and "--metrics accuracy" in failed.err


def test_a_part_of_a_benchmark_is_marked_in_every_format(snellen: Snellen) -> None:
    ask("whole", range(5))
    ask("part", range(5), limit=40)
    for format in TABLE_FORMATS:
        out = snellen("export", "results/whole", "results/part", "--format", format).out
        assert "coverage 40.0" in out, format
        words = " ".join(re.sub(r"\\multicolumn\{\d\}\{l\}\{\\footnotesize|\} \\\\", " ", out).split())
        assert "only the first 40 of 100 samples were run" in words
    assert [
        row["arithmetic accuracy coverage"] for row in read_csv(snellen("export", "results", "--format", "csv").out)
    ] == [
        "0.4",
        "1.0",
    ]


def test_the_best_is_bold_where_it_is_better_by_more_than_chance(snellen: Snellen) -> None:
    ask("good", range(2))
    ask("bad", range(0, 100, 3))
    bold = bold_rows(snellen("export", "results", "--format", "markdown", "--metrics", "accuracy,f1").out)
    assert bold == {"bad": [False, False], "good": [True, True]}
    assert r"\textbf{98.0}" in snellen("export", "results", "--format", "latex").out


def test_no_value_is_bold_where_chance_explains_the_lead_or_values_are_equal(snellen: Snellen) -> None:
    ask("one", range(0, 30))
    ask("two", range(2, 33))
    ask("three", range(60, 90))
    markdown = snellen("export", "results", "--format", "markdown").out
    assert not any(any(cells) for cells in bold_rows(markdown).values())
    assert "Bold (none here)" in markdown


def test_pairs_decide_even_where_the_two_intervals_overlap(snellen: Snellen) -> None:
    ask("one", range(30))
    ask("two", range(40))  # ten questions more, and none less
    first, second = (load_run(f"results/{name}").metric("accuracy") for name in ("one", "two"))
    assert first.ci95[0] < second.ci95[1]
    assert bold_rows(snellen("export", "results", "--format", "markdown").out) == {"one": [True], "two": [False]}


def test_a_lead_over_the_second_best_alone_is_not_enough_nor_one_by_easier_questions(snellen: Snellen) -> None:
    ask("best", range(98, 100))
    ask("close", range(3))
    ask("far", range(60))
    assert not bold_rows(snellen("export", "results", "--format", "markdown").out)["best"][0]
    ask("half", [], limit=40)  # all right, over fewer questions
    assert not bold_rows(snellen("export", "results/half", "results/far", "--format", "markdown").out)["half"][0]
    ask("half-far", range(20), limit=40)
    assert bold_rows(snellen("export", "results/half", "results/half-far", "--format", "markdown").out)["half"][0]


def test_shares_of_failures_are_never_bold_and_slices_are_paired(snellen: Snellen) -> None:
    ask("good", range(2))
    ask("bad", range(0, 100, 3))  # all of slice 0 but none of the others
    out = snellen("export", "results", "--format", "markdown", "--metrics", "wrong,accuracy/*").out
    assert bold_rows(out) == {"bad": [False] * 4, "good": [False, True, False, False]}


def test_runs_over_other_data_are_marked_and_nothing_is_bold(snellen: Snellen) -> None:
    ask("good", range(2))
    ask("bad", range(50), benchmark_options={"n": "90"})
    out = snellen("export", "results", "--format", "markdown").out
    assert "other data or version than" in out
    assert not any(any(cells) for cells in bold_rows(out).values())


HOSTILE = ["a_b 50%&#1 \\x{y}~^$z$", "[1ex]|<b>*x*", "模型-α é", "=cmd|' /C calc'!A0", "@SUM(1)", "-2+3", "+1"]


def test_names_are_escaped_in_every_format(snellen: Snellen, tmp_path: Path) -> None:
    for number, name in enumerate(HOSTILE):
        ask(name, range(number), f"run{number}")
    latex = snellen("export", "results", "--out", "table.tex")
    assert latex.status == 0 and latex.out.strip() == "table.tex"
    words = set_page(tmp_path / "page", Path("table.tex").read_text())
    for word in ("a b 50%&#1 \\x{y}", "$z$", "[1ex]|<b>*x*", "U+6A21 U+578B", "100.0 [96.3, 100.0]"):
        assert word in words
    cells = [row["model"] for row in read_csv(snellen("export", "results", "--format", "csv").out)]
    assert cells == [*HOSTILE[:3], *(f"'{name}" for name in HOSTILE[3:])]
    rows = [line for line in snellen("export", "results", "--format", "markdown").out.splitlines() if line[:1] == "|"]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert all("<b>" not in row and "@" not in row for row in rows)
    assert [row["model"] for row in json.loads(snellen("export", "results", "--format", "json").out)["rows"]] == HOSTILE


def test_the_suffix_names_the_format_and_must_not_contradict_it(snellen: Snellen) -> None:
    ask("first")
    for suffix, begin in ((".tex", "%"), (".csv", "model,"), (".md", "| model"), (".json", "{")):
        assert snellen("export", "results/first", "--out", f"deep/table{suffix}").status == 0
        assert Path(f"deep/table{suffix}").read_text().startswith(begin)
    for words in (["--out", "t.docx"], ["--out", "t.docx", "--format", "latex"], ["--out", "t"], ["--out", "t.xlsx"]):
        refused = snellen("export", "results/first", *words)
        if words == ["--out", "t"]:
            assert refused.status == 2
        else:
            assert refused.status == 2 and words[1].rpartition(".")[2] in refused.err
            assert ".tex (latex), .csv (csv), .md (markdown)" in refused.err
    contradiction = snellen("export", "results/first", "--out", "t.csv", "--format", "latex")
    assert contradiction.status == 2 and "contradict" in contradiction.err
    folder = snellen("export", "results/first", "--out", "t.csv", "--format", "jsonl")
    assert folder.status == 2 and "named like a file" in folder.err
    assert not any(Path().glob("t*"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["results/one", "results/two", "--format", "jsonl"], "takes one run, and 2 were named"),
        (["results/one", "results/two", "--format", "latx"], "no export format 'latx'(.|\\n)*--format latex"),
        (["results/one", "--format", "jsonl", "--metrics", "accuracy"], "options of tables"),
        (["results/one", "--metrics", "accuracy"], "options of tables"),
        (["results/one", "--format", "csv", "--label", "nobody=X"], "no such model"),
        (["results/one", "--format", "csv", "--profile", "lenient"], "no scoring profile 'lenient'"),
        (["results/one", "--out", "results/one/results.jsonl", "--format", "csv"], "contradict|no table is written"),
        (["results/one", "--format", "csv", "--show-gold"], "answer formats"),
    ],
)
def test_options_that_exclude_each_other_are_refused(snellen: Snellen, words: list[str], complaint: str) -> None:
    ask("one")
    ask("two")
    refused = snellen("export", *words)
    assert refused.status == 2 and re.search(complaint, refused.err), refused.err


def test_a_label_replaces_a_name_and_digits_are_chosen(snellen: Snellen) -> None:
    ask("api:vendor/model_x", range(3), "run")
    out = snellen(
        "export", "results/run", "--format", "latex", "--label", "api:vendor/model_x=Model X", "--digits", "2"
    ).out
    assert "Model X & 97.00 {" in out and "vendor" not in out


def test_a_run_without_any_answer_has_a_dash_and_says_so(snellen: Snellen) -> None:
    from snellen.errors import BadRequestError

    model = Calculator(fail={i: [BadRequestError("down")] * 9 for i in range(100)})
    evaluate(SUMS, model, out="results/dead", limit=20)
    ask("alive", range(3), limit=20)
    printed = snellen("export", "results", "--format", "markdown")
    assert printed.status == 0
    assert re.search(r"\| calculator \| –.*<sup>", printed.out) and "have no answer" in printed.out


def test_from_python_the_table_is_the_same(snellen: Snellen) -> None:
    ask("first", range(7))
    table = result_table(load_run("results/first"), metrics=["accuracy"])
    assert table.rows[0].cells[0].metric.value == 0.93
    path = write_table(table, "out/table.md")
    assert path.read_text() == snellen("export", "results/first", "--format", "markdown").out


def test_how_a_file_was_read_is_no_note_of_its_figure(snellen: Snellen, tmp_path: Path) -> None:
    rows = "".join(f"{i},what is {i} mod 7?,{i % 7}\n" for i in range(9))
    (tmp_path / "sums.csv").write_text("id,question,answer\n" + rows + "9,,2\n")
    evaluate(str(tmp_path / "sums.csv"), Answers("clever"), out=tmp_path / "run")
    assert snellen("export", tmp_path / "run", "--out", tmp_path / "t.md").status == 0
    text = (tmp_path / "t.md").read_text()
    assert "9 of 10" in text and "←" not in text


def test_verdicts_about_a_run_of_the_table_are_left_out_and_alone_are_a_column_of_its_model(snellen: Snellen) -> None:
    assert snellen("run", "chart/digits", "-m", "embedded", "--limit", "4", "--out", "results/run", "-q").status == 0
    ids = [json.loads(line)["sample_id"] for line in Path("results/run/results.jsonl").read_text().splitlines()]
    lines = [json.dumps({"id": name, "reply": '{"verdict": "correct"}'}) for name in ids]
    Path("verdicts.jsonl").write_text("\n".join(lines))
    assert snellen("judge", "results/run", "-m", "replay:verdicts.jsonl").status == 0
    both = snellen("export", "results", "--format", "csv")
    assert [row["model"] for row in read_csv(both.out)] == ["embedded"] and "holds verdicts" in both.err
    alone = json.loads(snellen("export", "results/run_judged", "--format", "json").out)
    assert alone["rows"][0]["model"] == "embedded"
    assert alone["columns"][0]["benchmark"] == "chart/digits, judged by replay:verdicts.jsonl"
