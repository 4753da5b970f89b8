"""VLMEvalKit's judge prompts, read from files of its shape with words of our own, are sent about a run as they stand."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from easi_stubs import Speaker, done, settings
from msgspec import structs

from benchmarks.spatial import official_drawn as drawn
from servers.oracle import OracleServer, SentQuestion
from snellen import evaluate, load_run
from snellen.benchmarks.spatial.prompts import import_judges
from snellen.benchmarks.spatial.prompts.import_vlmevalkit import layout
from snellen.cli import main
from snellen.easi import BenchmarkRow

MATCH = """
def build_prompt(question, options, prediction):
    tmpl = "Match: {}?\\nFrom: {}\\nSaid: {}\\nLetter: "
    return tmpl.format(question, options, prediction)


def build_prompt_blink(question, options, prediction):
    tmpl = "Match points: {}?\\nFrom: {}\\n(Z) None\\nSaid: {}\\nLetter: "
    return tmpl.format(question, options, prediction)
"""
EXTRACT = """
GENERIC_EXTRACT_JUDGE_PROMPT = (
    "Grade in one line, \\\\boxed{{...}} or not.\\n"
    "{question}\\n"
    "{options_block}"
    "Gold: {gold_answer}\\n"
    "Said: {llm_response}\\n"
    "Yours:"
)


def call_llm_extract(model, question):
    return model.generate(question)
"""
PROSE = "I see {gold_answer} and {reply}.\nLetter: none of these I can name\nA\tA or B\tB"


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout whose functions are known, and whose prompts of questions are not."""
    folder = tmp_path / "kit" / "vlmeval" / "dataset"
    (folder / "utils" / "spatial_bench").mkdir(parents=True)
    mindcube = 'class MindCubeBench:\n    def build_prompt(self, line):\n        return line["input_prompt"]\n'
    for name, text in (
        ("image_mcq.py", ""),
        ("mindcubebench.py", mindcube),
        ("utils/multiple_choice.py", MATCH),
        ("utils/spatial_bench/llm_extract.py", EXTRACT),
    ):
        (folder / name).write_text(text)
    known: list[str] = []
    for code in (MATCH, EXTRACT):
        for node in ast.parse(code).body:
            if isinstance(node, ast.FunctionDef):
                known.append(layout(node, {id(part) for part in ast.walk(node) if isinstance(part, ast.Constant)}))
    monkeypatch.setattr(
        import_judges, "KIT", {key: structs.replace(each, layouts=known) for key, each in import_judges.KIT.items()}
    )
    from snellen.benchmarks.spatial.prompts import import_vlmevalkit

    recipe = import_vlmevalkit.RECIPES["mindcube-tiny"]
    function = ast.parse(mindcube).body[0].body[0]  # type: ignore[attr-defined]
    monkeypatch.setitem(
        import_vlmevalkit.RECIPES, "mindcube-tiny", structs.replace(recipe, layouts=(layout(function, set()),))
    )
    monkeypatch.setenv("JUDGE_API_KEY", "any")
    monkeypatch.chdir(tmp_path)
    assert main(["prompts", "import", "--from", "vlmevalkit", "--path", "kit", "--out", "kit.toml"]) == 0
    yield Path("kit-judge.toml")


def answered(name: str, tmp_path: Path, reply: str) -> Path:
    evaluate(name, Speaker(lambda text: reply), data=drawn.draw(name, tmp_path / "data"), out=name)
    return Path(name)


@pytest.mark.parametrize(("name", "head", "z"), [("blink", "Match points", "(Z) None\n"), ("3dsrbench", "Match", "")])
def test_options_are_matched_in_the_kits_words(kit: Path, tmp_path: Path, capsys, name: str, head: str, z: str) -> None:
    answered(name, tmp_path, PROSE)
    with OracleServer(lambda question: "(A)", "grader") as server:
        assert main(["judge", name, "-m", "api:grader", "--base-url", server.url, "--rubric", str(kit), "-c", "1"]) == 0
    samples = {sample.id: sample for sample, _ in load_run(name).answers()}
    expected = set()
    for sample in samples.values():
        (question,) = sample.meta["row_question"]
        listed = "".join(f"{letter}. {text}\n" for letter, text in sample.options.items() if text)
        expected.add(f"{head}: {question}?\nFrom: {listed}\n{z}Said: {PROSE}\nLetter: ")
    assert {question.text for question in server.requests} == expected
    assert len(server.requests) == len(samples)
    values = {row["sample_id"]: row["value"] for row in load_run(name).scores("judge:kit-judge").to_pylist()}
    assert values == {sample.id: float(sample.target == "A") for sample in samples.values()}
    assert "the published judge is gpt-4o-2024-11-20" in capsys.readouterr().err
    (line,) = [note for note in load_run(name).notes() if "words of VLMEvalKit" in note]
    assert line.endswith("build_prompt_blink" if z else "build_prompt") and line.count("words of") == 1


def test_numbers_and_choices_are_graded_in_the_kits_words_and_a_copied_number_is_scored_by_the_rule(kit, tmp_path):
    answered("vsi-bench", tmp_path, "I would rather not.")

    def grade(question: SentQuestion) -> str:
        return "A\tA" if "Options:\n" in question.text else "B\t6"

    with OracleServer(grade, "grader") as server:
        arguments = ["-m", "api:grader", "--base-url", server.url, "--rubric", str(kit), "--json"]
        assert main(["judge", "vsi-bench", *arguments]) == 0
    run = load_run("vsi-bench")
    for sample, _ in run.answers():
        (question,) = sample.meta["row_question"]
        listed = "".join(f"{letter}. {text}\n" for letter, text in sample.options.items())
        block = f"Options:\n{listed}\n" if listed else ""
        gold = f"{sample.target}. {sample.options[sample.target]}" if listed else sample.meta["gold"]
        said = f"Gold: {gold}\nSaid: I would rather not.\nYours:"
        assert f"Grade in one line, \\boxed{{...}} or not.\n{question}\n{block}{said}" in {
            q.text for q in server.requests
        }
    metrics = {metric.name: metric.value for metric in run.figures("judge:kit-judge")["judge:kit-judge"]}
    # Drawn in this order with gold answers 7, 8, 9 and 10: relative errors of 6 are 1/7, 1/4, 1/3 and 0.4.
    assert round(metrics["object_abs_distance"] or 0.0, 6) == 0.8 and metrics["route_planning_accuracy"] == 1.0
    assert metrics["without_verdict"] == 0.0


def test_what_the_kits_judge_leaves_unsaid_has_no_score_and_a_set_without_a_prompt_is_refused(kit, tmp_path, capsys):
    answered("blink", tmp_path, PROSE)
    said = iter(["", "X", "C", "A or B", "A\tA", "REPLY>>> A", "(Z)", "Z", *["A"] * 99])
    with OracleServer(lambda question: next(said), "grader") as server:
        assert (
            main(["judge", "blink", "-m", "api:grader", "--base-url", server.url, "--rubric", str(kit), "-c", "1"]) == 0
        )
    assert len(server.requests) == drawn.count("blink"), "the kit's words are not followed by ours"
    verdicts = [row["verdict"] for row in load_run("blink").scores("judge:kit-judge").to_pylist()]
    options = [sample.options for sample, _ in load_run("blink").answers()]
    assert verdicts.count("unscored") == 5 + ("C" not in options[2]) and verdicts.count("invalid") == 2
    (capsys.readouterr(), evaluate("chart/digits", "embedded", limit=2, out="digits"))
    assert main(["judge", "digits", "-m", "api:grader", "--base-url", server.url, "--rubric", str(kit)]) != 0
    assert "no reply that a rubric of kit-judge.toml decides" in capsys.readouterr().err
    assert main(["judge", "digits", "-m", "api:grader", "--base-url", server.url, "--rubric", "option"]) != 0
    assert "has the judge name an option" in capsys.readouterr().err


@pytest.mark.parametrize("rubric", ["option", "kit"])
def test_a_reply_that_means_no_option_is_wrong_in_the_judges_table_and_in_the_profile(kit, tmp_path, capsys, rubric):
    answered("blink", tmp_path, PROSE)
    said = iter(["Z", "(Z)", "well", "well", *["A"] * 99])
    with OracleServer(lambda question: next(said), "grader") as server:
        where = str(kit) if rubric == "kit" else rubric
        arguments = ["-m", "api:grader", "--base-url", server.url, "--rubric", where, "-c", "1"]
        capsys.readouterr()
        assert main(["judge", "blink", *arguments]) == 0
    said_last = json.loads(capsys.readouterr().out.partition("SUMMARY_JSON ")[2])
    assert said_last["labels"]["Z"] == 2
    run, judged = load_run("blink"), load_run("blink_judged")
    (own,) = judged.figures("all").values()
    profile = run.figures(f"judge:{kit.stem if rubric == 'kit' else rubric}")
    table = {metric.name: metric for metric in own}
    again = {metric.name: metric for metric in next(iter(profile.values()))}
    assert table["accuracy" if rubric == "option" else "overall"].value == again["overall"].value
    for name in ("no_option", "without_verdict"):
        assert (table[name].value, table[name].n) == (again[name].value, again[name].n)
    rows = drawn.count("blink")
    lost = 2 if rubric == "kit" else 1  # the package's rubric asks once more, and gets two replies for one question
    assert table["no_option"].value == 2 / rows and table["without_verdict"].value == lost / rows
    verdicts = [
        json.loads(line)["judge_verdict"] for line in Path("blink_judged/verdicts.jsonl").read_text().splitlines()
    ]
    assert verdicts.count("Z") == 2
    assert any("2 name no option and count as wrong" in note for note in run.notes())


def test_a_judge_prompt_of_another_layout_is_named_and_the_others_are_written(kit: Path, capsys) -> None:
    file = Path("kit/vlmeval/dataset/utils/multiple_choice.py")
    file.write_text(MATCH.replace("tmpl.format(question, options, prediction)", "tmpl", 1))
    capsys.readouterr()
    arguments = ["prompts", "import", "--from", "vlmevalkit", "--path", "kit", "--out", "kit.toml"]
    assert main(arguments) == 2
    assert main([*arguments, "--force"]) == 0
    said = capsys.readouterr()
    assert "build_prompt is laid out in a way that is not known" in said.err
    assert "3dsrbench" not in said.out.partition("kit-judge.toml")[2] and "blink" in said.out
    assert json.dumps("3dsrbench") not in kit.read_text()


def test_easi_asks_its_judge_in_the_kits_words_and_says_whose_they_are(kit, tmp_path, monkeypatch, capsys) -> None:
    for name in ("vsi-bench", "blink", "3dsrbench"):
        drawn.draw(name, tmp_path / "data")
    blink = kit.read_text().replace('"3dsrbench", ', "").replace('"3dsrbench"', '"none"')
    kit.write_text(blink)

    def says(question: SentQuestion) -> str:
        if question.text.startswith("Grade in one line"):
            return "A\tA" if "Options:\n" in question.text else "B\t6"
        return "Z" if question.text.startswith("Match") else '{"verdict": "A"}'

    def rows(judge_prompts: str) -> dict[str, BenchmarkRow]:
        names = "vsi-bench,blink,3dsrbench"
        more = settings(tmp_path / "data", tmp_path / "out", names, judge="api:grader", judge_prompts=judge_prompts)
        board, _ = done(monkeypatch, Speaker(lambda text: PROSE), more)
        return {row.name: row for row in board.rows}

    with OracleServer(says, "grader") as server:
        monkeypatch.setenv("JUDGE_BASE_URL", server.url)
        own = rows("")
        assert not any(question.text.startswith(("Match", "Grade in")) for question in server.requests)
        sent = len(server.requests)
        found = rows(str(kit))
        assert sum(question.text.startswith(("Match", "Grade in")) for question in server.requests[sent:]) == (
            drawn.count("vsi-bench") + drawn.count("blink")
        )
        asked = len(server.requests)
        again = rows("")
        assert len(server.requests) == asked, "verdicts that are there stay where no file is named"
    vsi, matched, other = (found[name] for name in ("vsi-bench", "blink", "3dsrbench"))
    metrics = {metric.name: metric.value for metric in vsi.metrics}
    assert round(metrics["object_abs_distance"] or 0.0, 6) == 0.8 and metrics["route_planning_accuracy"] == 1.0
    assert matched.overall is not None and matched.overall.value == 0.0 and matched.overall.coverage == 1.0
    assert matched.judgement is not None and matched.judgement.grades == {"A": 0, "B": 0, "C": drawn.count("blink")}
    assert any("words of VLMEvalKit" in note for note in vsi.notes) and any("by another rubric" in n for n in vsi.notes)
    assert "kit-judge.toml has no judge prompt for 3dsrbench; it is judged in Snellen's words" in other.notes
    assert [row.judgement.rubric for row in again.values()] == [row.judgement.rubric for row in found.values()]
    assert own["vsi-bench"].judgement.rubric != vsi.judgement.rubric
    assert main(["easi", "-m", "embedded", "--judge", "api:grader", "--rubric", "gone.toml", "--dry-run"]) != 0
    assert "rubric gone.toml: cannot be read" in capsys.readouterr().err
