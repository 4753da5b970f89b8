"""Tasks of an eval.yaml as benchmarks: prompts, gold answers and scores as in inspect_ai, and what is refused.

The golden prompts are those that inspect_ai 0.3.285 sent; tests/runs/test_real_inspect_tasks.py compares with the program itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from benchmarks.table.hub_sets_drawn import CARD, CHOICES, OPEN, SETS, SEVERAL, animals, circle, colours
from servers.hub import COMMIT, FolderHub, standing_in
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.table import hub_tasks
from snellen.benchmarks.table.scorers import MOST_LATE
from snellen.errors import DataError, UsageError
from snellen.formats.eval_yaml import EvalFile, read_card, read_eval_yaml
from snellen.models.base import Model
from snellen.scoring.bounded_patterns import OutOfTimeError
from snellen.scoring.rules import inspect_scorers
from snellen.scoring.rules.inspect_scorers import chosen_letters, rule_of
from snellen.scoring.scores import Column, Scores
from snellen.scoring.statistics import reduced
from snellen.types import Generation, Image, Prompt, Response, Text

GOLDEN = {
    "colours": [
        "Answer the following multiple choice question. The entire content of your response should be of the following format: "
        "'ANSWER: $LETTER' (without quotes) where LETTER is one of A,B,C,D.\n\nWhich colour, 0? {x} <image>\n\n"
        "A) red\nB) green\nC) blue\nD) white",
        Image,
    ],
    "circle": ["Is there a circle? 0\n\nEnd with ANSWER: yes or no. {braces} {other}", Image],
    "thinking": [
        "[birds] \nName the bird 0: wren\n\nBefore answering, reason in a step-by-step manner as to get the right answer. "
        'Provide your answer at the end on its own line in the form "ANSWER: $ANSWER" (without quotes) where $ANSWER is the '
        "answer to the question.\n\nBe quick."
    ],
    "options": [
        "Answer the following multiple choice question. The last line of your response should be of the following format: "
        "'ANSWER: $LETTER' (without quotes) where LETTER is one of A,B,C. Think step by step before answering.\n\n"
        "Name the bird 0: wren\n\nA) wren\nB) owl\nC) heron"
    ],
    "all": [
        "Answer the following multiple choice question where multiple answers may be correct. The entire content of your "
        "response should be of the following format: 'ANSWER: $LETTERS' (without quotes) where LETTERS is one or more of "
        "A,B,C.\n\nName the bird 0: wren\n\nA) A. wren\nB) B. owl\nC) C. heron"
    ],
}


class Says(Model):
    """Gives replies in turn."""

    name = "says"
    supports = frozenset({"system", "image"})

    def __init__(self, *replies: str) -> None:
        self.replies, self.calls = replies, 0

    async def answer(self, prompt: Prompt, **_: Any) -> Response:
        self.calls += 1
        return Response(self.replies[(self.calls - 1) % len(self.replies)])


def shape(prompt: Prompt) -> list[Any]:
    return [part.text if isinstance(part, Text) else type(part) for part in prompt.parts]


@pytest.mark.parametrize(("name", "task"), [(name, task) for name, (_, tasks) in SETS.items() for task in tasks])
def test_the_prompts_are_those_that_inspect_sends(name: str, task: str, tmp_path: Path):
    folder = SETS[name][0](tmp_path / name)
    sample = next(iter(registry.find(f"{folder}/{task}" if task else str(folder)).samples(Data())))
    assert shape(sample.prompt) == GOLDEN[task or name]
    assert sample.prompt.system == ("You know {birds} {and} fish." if task == "thinking" else "")


def test_gold_answers_are_indexes_letters_literals_and_several(tmp_path: Path):
    places = {"": colours(tmp_path / "c"), "circle": circle(tmp_path / "o"), "all": animals(tmp_path / "a")}
    found = {
        task: [(sample.target, sample.kind) for sample in registry.find(f"{place}/{task}".rstrip("/")).samples(Data())]
        for task, place in places.items()
    }
    assert found[""] == [(letter, "choice") for letter in "ABCD"]
    assert found["circle"] == [("no", "short")] * 3
    assert found["all"] == [(letters, "multi-choice") for letters in (("A",), ("A", "C"), ("A", "B", "C"))]


def test_a_row_without_an_image_is_asked_by_its_text(tmp_path: Path):
    *_, last = registry.find(str(circle(tmp_path / "o"))).samples(Data())
    assert shape(last.prompt) == ["Is there a circle? 2\n\nEnd with ANSWER: yes or no. {braces} {other}"]


def test_a_run_is_scored_by_the_scorers_of_the_file_and_asks_as_often_as_it_says(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    animals(tmp_path / "set")
    model = Says("ANSWER: wren", "ANSWER: wren", "no idea")
    run = snellen.evaluate("set/thinking", model, out="run", concurrency=1)
    assert run.meta.spec.repeats == 3 and model.calls == 9 and run.benchmark.name == "set/thinking"
    assert [*run.benchmark.score][:4] == ["inspect-answer", "inspect-includes", "inspect-match", "inspect-f1"]
    assert run.metric("accuracy", "inspect-answer").value == pytest.approx(
        1 / 3
    )  # at_least_2 of wren; owl and heron never
    assert registry.short_name(run.meta.spec.benchmark) == "set/thinking"
    again = snellen.load_run("run", trust=True)
    assert again.metric("accuracy", "inspect-answer").value == pytest.approx(1 / 3)
    fewer = snellen.evaluate("set/thinking", Says("ANSWER: owl"), out="fewer", repeats=2)
    assert fewer.meta.spec.repeats == 2
    (tmp_path / "moved").mkdir()
    for name in ("run", "set"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    moved = snellen.load_run("moved/run", trust=True)
    assert moved.metric("accuracy", "inspect-answer").value == pytest.approx(1 / 3)


def test_settings_of_the_asking_step_are_those_of_the_run_unless_the_user_says_otherwise(tmp_path: Path):
    folder = circle(tmp_path / "o")
    run = snellen.evaluate(str(folder), Says("ANSWER: no"), out=tmp_path / "run")
    generation = run.meta.spec.options.generation
    assert (generation.temperature, generation.max_tokens) == (0.0, 50)
    assert (
        run.metric("accuracy", "inspect-pattern").value == 1.0 and run.metric("accuracy", "inspect-exact").value == 0.0
    )
    other = snellen.evaluate(
        str(folder), Says("ANSWER: no"), out=tmp_path / "other", generation=Generation(max_tokens=9)
    )
    assert other.meta.spec.options.generation.max_tokens == 9


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A hub with three data sets and one without an eval.yaml; the paths that were asked for."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    hub_tasks._of_hub.cache_clear()
    folders = {f"org/{name}": draw(tmp_path / "drawn" / name) for name, (draw, _) in SETS.items()}
    plain = colours(tmp_path / "drawn" / "plain")
    (plain / "eval.yaml").unlink()
    seen: list[str] = []
    with standing_in(FolderHub, {"folders": {**folders, "org/plain": plain}, "seen": seen}, monkeypatch, tmp_path):
        yield seen


@pytest.mark.parametrize("spelled", ["hf:org/animals/options", "hf/org/animals/options", "hf/org/animals/options@main"])
def test_a_task_of_the_hub_is_found_by_either_spelling_and_recorded_by_its_commit(hub, spelled: str):
    lasting = registry.lasting_name(spelled)
    assert lasting == f"hf:org/animals/options@{COMMIT}" and registry.lasting_name(lasting) == lasting
    benchmark = registry.find(lasting)
    assert benchmark.name == "hf:org/animals/options" and next(iter(benchmark.score)) == "inspect-choice"
    assert next(shape(sample.prompt) for sample in benchmark.samples(Data())) == GOLDEN["options"]
    assert registry.short_name(spelled) == "org/animals/options"


def test_a_data_set_with_one_task_needs_no_name_of_it_and_one_without_the_file_stays_a_table(hub):
    assert registry.lasting_name("hf:org/circle") == f"hf:org/circle/circle@{COMMIT}"
    assert registry.lasting_name("hf:org/colours") == f"hf:org/colours/eval.yaml@{COMMIT}"
    assert registry.short_name(registry.lasting_name("hf:org/colours")) == "org/colours"
    assert registry.lasting_name("hf:org/plain") == f"hf:org/plain@{COMMIT}"
    assert [*registry.find("hf:org/plain").score] == ["strict"]
    assert [*registry.find(f"hf:org/colours@{COMMIT}").score] == ["strict"]  # a run of an earlier version
    assert registry.with_tasks(["chart", "hf:org/animals"]) == [
        "chart", *(f"hf:org/animals/{task}" for task in ("thinking", "options", "all"))
    ]  # fmt: skip
    with pytest.raises(DataError, match="it has 3 tasks") as error:
        registry.find("hf:org/animals")
    assert "thinking, options, all" in error.value.hint
    with pytest.raises(DataError, match="no task 'none'"):
        registry.find("hf:org/animals/none")
    with pytest.raises(DataError, match=r"has no eval\.yaml"):
        registry.find("hf:org/plain/task")


FAULTS = {
    "framework": (CHOICES.replace("inspect-ai", "math-arena"), "framework 'math-arena'"),
    "field": (CHOICES.replace("field_spec", "fields: 1\n    field_spec"), "unknown field `fields`"),
    "columns": (CHOICES.replace("input_image", "input_video"), "unknown field `input_video`"),
    "top": (f"{CHOICES}\nversion: 1\n", "unknown field `version`"),
    "solver": (CHOICES.replace("multiple_choice", "use_tools"), "use_tools is not run by Snellen"),
    "critique": (OPEN.replace("prompt_template", "self_critique"), "self_critique is not run"),
    "nobody asks": (CHOICES.replace("multiple_choice", "system_message, args: {template: a}"), "no solver asks"),
    "asks twice": (CHOICES.replace("}]\n    scorers", "}, {name: generate}]\n    scorers"), "behind the one that asks"),
    "scorer": (CHOICES.replace("[{name: choice}]", "[{name: bleu}]"), "bleu"),
    "argument": (CHOICES.replace("[{name: choice}]", "[{name: match, args: {place: end}}]"), "no argument 'place'"),
    "no pattern": (OPEN.replace("ANSWER: (yes|no)", "(a"), "is none"),
    "reducer": (SEVERAL.replace("at_least_2", "best"), "over_repeats is 'best'"),
    "epochs": (SEVERAL.replace("epochs: 3", "epochs: 0"), "epochs is 0"),
    "twice": (SEVERAL.replace("id: options", "id: thinking"), "do not tell them apart"),
    "path": (SEVERAL.replace("id: options", 'id: "../x"'), "letters, digits"),
    "alias": ("name: &a [x]\ntasks: *a\n", "alias"),
    "no yaml": ("tasks: [", "no YAML"),
    "deep": ("tasks: " + "[" * 200_000, "nested more than 50 deep"),
    "list": ("- a\n", "a mapping with `tasks`"),
    "none": ("tasks: []\n", "no tasks"),
    "no options": (CHOICES.replace(" choices: colours,", ""), "has no `choices`"),
    "template": (CHOICES.replace("name: multiple_choice", "name: multiple_choice, args: {template: a}"), "lacks {question}"),
    "setting": (OPEN.replace("temperature: 0.0", "cache: true"), "generate has 'cache'"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_file_cannot_say_is_refused_by_name(name: str, tmp_path: Path):
    text, message = FAULTS[name]
    folder = colours(tmp_path / "set")
    (folder / "eval.yaml").write_text(text)
    with pytest.raises(DataError, match=message.replace("{", "\\{")):
        registry.find(f"{folder}/thinking" if "thinking" in text else str(folder))


def test_a_pattern_that_takes_too_long_leaves_a_reply_unread_and_ends_the_profile_after_some(
    tmp_path: Path, monkeypatch
):
    def late(text: str, searched: str, flags: int) -> None:
        raise OutOfTimeError(f"the pattern {text!r} takes more than 2 s")

    monkeypatch.setattr(inspect_scorers, "search", late)
    folder = circle(tmp_path / "set")
    (folder / "eval.yaml").write_text(OPEN.replace("ANSWER: (yes|no)", "(a|a)*b"))
    benchmark = registry.find(str(folder))
    sample, scorer = next(iter(benchmark.samples(Data()))), benchmark.score["inspect-pattern"]
    for number in [*range(MOST_LATE), 0]:  # one that is scored again is not counted again
        assert scorer(sample, "a" * number).verdict == "invalid" and scorer(sample, "a" * number).value == 0.0
    with pytest.raises(DataError, match=f"{sample.id!r}, and on {MOST_LATE} before it") as error:
        scorer(sample, "another")
    assert "(a|a)*b" in error.value.message


def test_a_target_without_choices_is_the_text_that_inspect_makes_of_the_cell(tmp_path: Path):
    folder = tmp_path / "set"
    cells = {"f": [1.0, 2.5], "i": [7, -1], "b": [True, False], "l": [["a", "b"], ["c"]], "s": ['["x"]', '{"a": 1}']}
    for name, values in cells.items():
        place = folder / name
        (place / "data").mkdir(parents=True)
        (place / "eval.yaml").write_text(OPEN.replace("literal:no", "gold").replace(", input_image: picture", ""))
        pq.write_table(pa.table({"question": ["?", "?"], "gold": values}), place / "data" / "test.parquet")
        samples = list(registry.find(str(place)).samples(Data()))
        assert [sample.target for sample in samples] == [str(value) for value in values], name
        assert {sample.kind for sample in samples} == {"short"}


def test_a_graded_task_names_its_judge_and_says_what_is_not_used(tmp_path: Path):
    folder = circle(tmp_path / "set")
    graded = OPEN.replace(
        "- {name: pattern, args: {pattern: 'ANSWER: (yes|no)'}}\n      - {name: exact}",
        "- {name: model_graded_fact, args: {model: openai/o3-mini, template: own}}",
    )
    (folder / "eval.yaml").write_text(graded)
    benchmark = registry.find(str(folder))
    assert (benchmark.judge, benchmark.published_judge) == ("openai:o3-mini", "o3-mini")
    assert "own template" in " ".join(benchmark.faults)
    assert {sample.kind for sample in benchmark.samples(Data())} == {"judged"}
    (folder / "eval.yaml").write_text(graded.replace("openai/o3-mini", "vertex/x"))
    assert registry.find(str(folder)).judge == "" and "vertex/x" in " ".join(registry.find(str(folder)).faults)


def test_the_card_says_which_files_a_split_has_and_never_leads_out_of_the_data_set(tmp_path: Path):
    assert read_card(CARD.encode(), "card", "words", "validation").files == ("rows/part.jsonl",)
    assert read_card(b"# no front matter", "card", "default", "test").files == ()
    with pytest.raises(DataError, match="no split 'test'"):
        read_card(CARD.encode(), "card", "words", "test")
    folder = animals(tmp_path / "set")
    (tmp_path / "secret.jsonl").write_text(
        '{"prompt": "a", "letter": "A", "first": "x", "second": "y", "third": "z"}\n'
    )
    (folder / "README.md").write_text(CARD.replace("rows/part.jsonl", "../secret.jsonl"))
    with pytest.raises(DataError, match="no table was found"):
        list(registry.find(f"{folder}/options").samples(Data()))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_file_or_an_error(data: bytes):
    try:
        assert isinstance(read_eval_yaml(b"tasks:\n" + data, "file"), EvalFile)
    except DataError as error:
        assert str(error).startswith("file")


def test_another_style_of_prompt_is_refused_where_the_file_says_the_whole_text(tmp_path: Path):
    with pytest.raises(UsageError, match="declares the whole text"):
        list(registry.find(str(circle(tmp_path / "set"))).samples(Data(options={"prompt": "question"})))


def test_what_a_row_puts_into_a_template_is_no_field(tmp_path: Path):
    folder = circle(tmp_path / "set")
    text = OPEN.replace("{prompt}\\n", "{prompt} {{prompt}} ").replace("question,", "question, metadata: [question],")
    (folder / "eval.yaml").write_text(text.replace("{other}", "{question}"))
    first = next(iter(registry.find(str(folder)).samples(Data())))
    assert shape(first.prompt)[0] == (
        "Is there a circle? 0 {prompt} \\nEnd with ANSWER: yes or no. {braces} Is there a circle? 0"
    ).replace("\\n", "\n")


@pytest.mark.parametrize(
    ("reply", "several", "letters"),
    [
        ("ANSWER: B", False, "B"),
        ("answer : c.", False, "C"),
        ("ANSWER: A\nANSWER: (B)", False, "B"),
        ("ANSWER: **A**", False, "A"),
        ("ANSWER: A,", False, "A"),
        ("ANSWER: A, B", False, ""),
        ("ANSWER: Z", False, ""),
        ("B", False, ""),
        ("ANSWER: A and C", True, "AC"),
        ("ANSWER: CA", True, "AC"),
        ("ANSWER: A, Q", True, ""),
    ],
)
def test_letters_are_those_behind_the_last_answer(reply: str, several: bool, letters: str):
    assert chosen_letters(reply, "ABC", several=several) == set(letters)


@pytest.mark.parametrize(
    ("name", "args", "reply", "golds", "value"),
    [
        ("match", {}, "It is 42.", ["42"], 1.0),
        ("match", {"numeric": True}, "It is 142", ["42"], 0.0),
        ("match", {"numeric": True}, "about $1,042.0", ["1042"], 1.0),
        ("match", {"location": "begin"}, "Yes, there is", ["yes"], 1.0),
        ("includes", {"ignore_case": False}, "an Owl", ["owl"], 0.0),
        ("exact", {}, "The  owl!", ["owl"], 1.0),
        ("f1", {}, "a big owl", ["owl"], 0.67),
        ("answer", {"pattern": "word"}, "ANSWER: yes.", ["Yes"], 1.0),
        ("pattern", {"pattern": r"(\d+) of (\d+)", "match_all": True}, "3 of 4", ["3"], 0.0),
        ("pattern", {"pattern": ".+"}, "x" * 100_001, ["x" * 100_001], 0.0),
        ("math", {}, r"so \boxed{\frac{1}{2}}", ["0.5"], 1.0),
    ],
)
def test_scorers_of_inspect(name: str, args: dict[str, Any], reply: str, golds: list[str], value: float):
    assert rule_of(name, args)(reply, golds, {})[0] == value


@pytest.mark.parametrize(
    ("how", "expected"),
    [("max", [1.0, 1.0]), ("mode", [0.0, 1.0]), ("median", [0.0, 1.0]), ("pass_at_2", [2 / 3, 1.0]), ("at_least_2", [0.0, 1.0])],
)  # fmt: skip
def test_repeats_are_reduced_as_inspect_reduces_epochs(how: str, expected: list[float]):
    value = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    question, repeat = np.array([7, 7, 3, 3, 7, 3]), np.array([-1, 0, -1, 0, 1, 1], dtype=np.int32)
    scores = Scores(
        value,
        np.array([1, 0, 0, 0, 1, 1], dtype=np.uint8),
        question,
        question,
        {"repeat": Column(repeat, ("1", "2"))},
        6,
    )
    found = reduced(scores, how)
    assert dict(zip(found.question.tolist(), found.value.tolist(), strict=True)) == pytest.approx(
        {7: expected[0], 3: expected[1]}
    )
    assert found.expected == 2
