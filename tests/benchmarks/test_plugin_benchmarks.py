"""Mistakes of a benchmark's author end with status 3, the sample, and what to write, never in a wrong score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from snellen import (
    Benchmark,
    Generation,
    Image,
    Metric,
    Model,
    Prompt,
    Response,
    Sample,
    Score,
    Text,
    Video,
    evaluate,
)
from snellen.benchmarks.base import Data
from snellen.errors import DataError, PluginError, UsageError
from snellen.scoring import accuracy, choice, number, short, truth
from snellen.sources import BytesBlob, open_tree, rows

OPTIONS = {"A": "wren", "B": "robin"}


class SaysA(Model):
    name = "says-a"
    asked = 0

    async def answer(self, prompt):
        SaysA.asked += 1
        return Response("A")


def bird(id="s1", part=None, prompt=None, **fields):
    prompt = prompt or Prompt((Text("Which bird?") if part is None else part,))
    return Sample(**{"id": id, "prompt": prompt, "target": "A", "kind": "choice", "options": OPTIONS, **fields})


def birds(samples=None, **fields):
    declared = {
        "name": "birds",
        "version": "1",
        "samples": samples or (lambda data: [bird()]),
        "score": {"strict": choice},
        "summarize": accuracy(),
        "profiles": {"strict": "the option that the reply names"},
    }
    return Benchmark(**{**declared, **fields})


def refusal(benchmark, tmp_path):
    with pytest.raises((DataError, PluginError)) as caught:
        evaluate(benchmark, SaysA(), out=tmp_path / "run")
    assert caught.value.exit_code == 3
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "texts"),
    [
        (lambda: bird("s2", Image("p0.png")), ("an Image", "'p0.png', a str", "images.blob('p0.png')")),
        (lambda: bird("s2", Image(Path("p0.png"))), ("an Image", "images.blob('p0.png')", "FileBlob(Path('p0.png'))")),
        (lambda: bird("s2", Image(b"png")), ("an Image", "BytesBlob(")),
        (lambda: bird("s2", Image(BytesBlob)), ("an Image",)),
        (lambda: bird("s2", Image(None)), ("an Image", "None")),
        (lambda: bird("s2", Text(["a", "b"])), ("a Text", "a list", "'\\n'.join(lines)")),
        (lambda: bird("s2", Text(None)), ("a Text", "None")),
        (lambda: bird("s2", Video("clip.mp4")), ("a Video", "images.blob('clip.mp4')")),
        (lambda: bird("s2", Video(frames=("a.png",))), ("a frame of a Video", "'a.png'")),
        (lambda: bird("s2", Video(frames="a.png")), ("the frames of a Video",)),
        (lambda: bird("s2", Video()), ("a Video", "None")),
        (lambda: bird("s2", Video(BytesBlob("v", b""), fps="25")), ("the fps of a Video", "'25'")),
        (lambda: bird("s2", Video(BytesBlob("v", b""), pick="first")), ("the pick of a Video",)),
        (lambda: bird("s2", prompt=Prompt((Text("?"),), system=["x"])), ("the system text",)),
        (lambda: bird("s2", prompt=Prompt((Text("?"),), generation={"max_tokens": 3})), ("generation", "Generation(")),
        (
            lambda: bird("s2", prompt=Prompt((Text("?"),), generation=Generation(max_tokens="3"))),
            ("generation", "max_tokens"),
        ),
        (lambda: bird("s2", group=7), ("the group", "group='7'")),
        (lambda: bird("s2", meta={1: "x", "a": "y"}), ("a name in the meta",)),
        (lambda: bird("s2", options={1: "wren", 2: "robin"}, target=1), ("an option",)),
        (lambda: {"id": "s2"}, ("samples yielded", "a dict", "after sample 's1'", "yield Sample(")),
        (lambda: Prompt((Text("s2"),)), ("samples yielded", "a Prompt", "expected a Sample")),
    ],
)
def test_a_field_of_a_wrong_type_is_refused_before_the_first_request_and_its_sample_named(make, texts, tmp_path):
    before = SaysA.asked
    text = refusal(birds(lambda data: iter([bird(), make()])), tmp_path)
    assert "birds" in text and "s2" in text and all(each in text for each in texts), text
    assert SaysA.asked == before and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("scorer", "fields", "text"),
    [
        (short, {"kind": "short", "target": 5}, "the target of sample 's2' is 5"),
        (short, {"kind": "short", "target": ("5", 6)}, "the target of sample 's2'"),
        (short, {"kind": "short", "target": "x", "meta": {"aliases": 5}}, "aliases in the meta of sample 's2'"),
        (number, {"kind": "number", "target": 5.0, "meta": {"unit": 5}}, "the unit in the meta of sample 's2'"),
    ],
)
def test_what_a_ready_scorer_could_not_compare_is_refused_before_the_first_request(scorer, fields, text, tmp_path):
    made = birds(lambda data: iter([bird(), bird("s2", **{"options": {}, **fields})]), score={"strict": scorer})
    assert text in refusal(made, tmp_path)
    assert not (tmp_path / "run").exists()


def forgets_to_yield(data):
    bird()


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (forgets_to_yield, "samples returned None (.*test_plugin_benchmarks.py:[0-9]+)"),
        (list, r"samples cannot be called with the data \(list\)"),
        (lambda: iter(()), "samples cannot be called with the data"),
        (lambda data: bird(), "samples returned Sample"),
        (lambda data: "abc", "samples returned 'abc'"),
        (lambda data: 5, "samples returned 5"),
    ],
)
def test_samples_that_yield_nothing_that_can_be_asked_are_refused_with_the_form(samples, text, tmp_path):
    with pytest.raises(PluginError, match=text) as caught:
        evaluate(birds(samples), SaysA(), out=tmp_path / "run")
    assert "def samples(data)" in str(caught.value)


def test_samples_may_be_a_list_and_options_of_a_benchmark_may_be_replaced(tmp_path):
    from dataclasses import replace

    made = replace(replace(birds(lambda data: [bird(), bird("s2")]), version="2"), name="other")
    assert [sample.id for sample in made.samples(Data())] == ["s1", "s2"]
    assert evaluate(made, SaysA(), out=tmp_path / "run").metric("accuracy").n == 2


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (Score("1.0", "A", "correct"), "value is '1.0', a str"),
        (Score(float("nan"), "A", "correct"), "value is nan"),
        (Score(0.0, None, "invalid", 5), "reason is 5"),
        (Score(0.0, None, "wrong", detail=["x"]), "detail is ['x']"),
    ],
)
def test_a_score_with_a_field_of_a_wrong_type_is_refused_and_its_sample_named(score, text, tmp_path):
    message = refusal(birds(score={"strict": lambda sample, reply: score}), tmp_path)
    assert text in message and "'s1'" in message and "the scorer" in message


def test_numbers_of_numpy_are_taken_for_numbers(tmp_path):
    made = birds(
        score={"strict": lambda sample, reply: Score(np.float32(0.5), "A", "partial")},
        summarize=lambda scores, profile: [
            Metric("accuracy", np.float32(0.5), np.int64(1), ci95=(np.float32(0.25), 1.0))
        ],
    )
    metric = evaluate(made, SaysA(), out=tmp_path / "run").metric("accuracy")
    assert (type(metric.value), type(metric.n), metric.ci95) == (float, int, (0.25, 1.0))


@pytest.mark.parametrize(
    ("summary", "text"),
    [
        (None, "returned None"),
        (Metric("a", 0.5, 3), "a list of Metric was expected"),
        ({"a": 0.5}, "a list of Metric was expected"),
        ([("a", 0.5)], "('a', 0.5), a tuple"),
        ([Metric(5, 0.5, 3)], "name is 5"),
        ([Metric("a", "0.5", 3)], "value is '0.5'"),
        ([Metric("a", 0.5, "3")], "n is '3'"),
        ([Metric("a", 0.5, 3, ci95=0.3)], "ci95 is 0.3"),
        ([Metric("a", 0.5, 3, ci95=("x", "y"))], "ci95 is ('x', 'y')"),
        ([Metric("a", 0.5, 3, unit=None)], "unit is None"),
        ([Metric("a", 0.5, 3, chance="x")], "chance is 'x'"),
        ([Metric("a", 0.5, 3, coverage=None)], "coverage is None"),
    ],
)
def test_a_summary_that_is_no_list_of_whole_metrics_is_refused(summary, text, tmp_path):
    assert text in refusal(birds(summarize=lambda scores, profile: summary), tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("options", ["top"]),
        ("options", {"top": 5}),
        ("profiles", ["strict"]),
        ("profiles", {"strict": 5}),
        ("about", "text"),
        ("exports", ["sheet"]),
        ("variables", ["DATA"]),
        ("size", 5),
        ("digest", "x"),
        ("reading", None),
        ("summarize", 5),
        ("summarize", lambda scores: []),
        ("score", {"strict": lambda sample: None}),
        ("score", {"strict": "choice"}),
        ("cluster", 5),
        ("restricted", "no"),
    ],
)
def test_a_field_of_a_declaration_with_a_wrong_type_is_refused_by_name(field, value):
    with pytest.raises(TypeError, match=f"birds: {field}"):
        birds(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", lambda data: "5"),
        ("digest", lambda data: None),
        ("headline", lambda metrics: "text"),
        ("details", lambda scores, profile, model: {}),
        ("rubric", lambda sample: "strict"),
    ],
)
def test_a_function_of_a_declaration_that_returns_a_wrong_type_is_refused_by_name(field, value, tmp_path):
    assert f"birds: {field} returned" in refusal(birds(**{field: value}), tmp_path)


@pytest.mark.parametrize(
    ("grown", "text"),
    [(None, "grow returned None"), ([bird("s2", Image("p0.png"))], "an Image of sample 's2' is 'p0.png'")],
)
def test_questions_that_depend_on_answers_are_checked_too(grown, text, tmp_path):
    made = birds(grow=lambda data, answers: grown, sample=lambda data, id: bird(id))
    assert text in refusal(made, tmp_path)


@pytest.mark.parametrize("returned", [None, ("a.txt",)])
def test_a_writer_of_a_format_that_returns_no_files_is_refused(returned, tmp_path):
    from snellen import export

    made = birds(exports={"sheet": lambda answers, folder, model, stamp: returned})
    run = evaluate(made, SaysA(), out=tmp_path / "run")
    with pytest.raises(PluginError, match="birds: the writer of the format 'sheet' returned"):
        export(run, "sheet")


def test_notices_that_are_no_list_are_refused():
    with pytest.raises(PluginError, match="birds: notices returned 5, an int\nReturn a list"):
        birds(notices=lambda data: 5).notices(Data())
    with pytest.raises(PluginError, match="birds: notices returned 'text'"):
        birds(notices=lambda data: "text").notices(Data())


def test_samples_of_the_package_are_not_checked_one_by_one():
    from snellen.benchmarks.chart.digits import DIGITS
    from snellen.benchmarks.plugin_samples import CheckedSamples

    assert not isinstance(DIGITS.samples, CheckedSamples)
    assert isinstance(birds().samples, CheckedSamples)


def test_two_samples_of_one_id_are_refused_and_both_named(tmp_path):
    text = refusal(birds(lambda data: [bird("a"), bird("b"), bird("a")]), tmp_path)
    assert "birds" in text and "'a'" in text and "sample 1 and sample 3" in text
    assert not (tmp_path / "run" / "results.jsonl").exists()


@pytest.mark.parametrize("target", ["C", "wren", ("A", "E"), None])
def test_a_target_that_is_no_option_is_refused(tmp_path, target):
    text = refusal(birds(lambda data: [bird(), bird("q2", target=target)]), tmp_path)
    assert "'q2'" in text and repr(target) in text and "A, B" in text


def test_a_target_that_is_no_text_of_an_option_is_refused(tmp_path):
    text = refusal(birds(lambda data: [bird(target="crow", kind="choice_text")], score={"strict": truth}), tmp_path)
    assert "'crow'" in text and "wren, robin" in text


@pytest.mark.parametrize("target", ["B", ("A", "B"), ["B"]])
def test_letters_of_options_are_accepted_as_targets(tmp_path, target):
    assert evaluate(birds(lambda data: [bird(target=target)]), SaysA(), out=tmp_path / "run").metric("accuracy").n == 1


def test_a_misspelt_kind_is_refused_and_all_kinds_named():
    with pytest.raises(ValueError, match=r"kind 'choise'.* choice,"):
        bird(kind="choise")


@pytest.mark.parametrize("number", [1, 1.5, None])
def test_an_id_that_is_no_text_is_refused(number):
    with pytest.raises(TypeError, match=r"id.*str"):
        bird(number)


@pytest.mark.parametrize("prompt", ["Which bird?", (Text("Which bird?"),)])
def test_a_sample_whose_prompt_is_none_is_refused(prompt):
    with pytest.raises(TypeError, match=r"Prompt\(\("):
        bird(prompt=prompt)


@pytest.mark.parametrize("parts", ["Which bird?", ("Which bird?",), (Text("Which"), "bird?"), Text("Which bird?")])
def test_a_prompt_with_a_plain_string_is_refused(parts):
    with pytest.raises(TypeError, match=r"Text\("):
        Prompt(parts)


@pytest.mark.parametrize("name", ["options", "meta"])
def test_options_and_meta_that_are_no_dict_are_refused(name):
    with pytest.raises(TypeError, match=rf"the {name} of sample '7' are no dict: write {name}=\{{"):
        Sample(id="7", prompt=Prompt((Text("Which?"),)), target="A", kind="choice", **{name: ("red", "green")})


def test_a_summary_that_was_not_called_is_refused():
    with pytest.raises(TypeError, match=r"summarize=accuracy\(\)"):
        birds(summarize=accuracy)


def test_a_slice_by_a_field_that_no_sample_has_is_refused_and_the_fields_named(tmp_path):
    text = refusal(birds(lambda data: [bird(meta={"topic": "species"})], summarize=accuracy("topics")), tmp_path)
    assert "'topics'" in text and "topic" in text.replace("topics", "")


@pytest.mark.parametrize("verdict", [{}, {"verdict": "wrong"}])
def test_a_full_score_with_the_verdict_wrong_is_refused(verdict):
    with pytest.raises(ValueError, match="correct"):
        Score(1.0, **verdict)


def test_a_misspelt_verdict_is_refused():
    with pytest.raises(ValueError, match=r"'corect'.*correct"):
        Score(1.0, None, "corect")


@pytest.mark.parametrize("returned", [True, 1.0, None])
def test_a_scorer_that_returns_no_score_is_refused(tmp_path, returned):
    text = refusal(birds(score={"strict": lambda sample, reply: returned}), tmp_path)
    assert type(returned).__name__ in text and "the scorer" in text and "Return a Score" in text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"profiles": {"strikt": "x"}}, "strikt"),
        ({"profiles": {}}, "strict"),
        ({"score": {}, "profiles": {}}, "score"),
        ({"score": choice}, "score"),
        ({"samples": [bird()]}, "samples"),
        ({"name": ""}, "name"),
        ({"version": 1}, "version"),
    ],
)
def test_a_declaration_that_cannot_be_run_is_refused(fields, text):
    with pytest.raises((TypeError, ValueError), match=text):
        birds(**fields)


def test_a_benchmark_whose_data_is_not_given_says_what_to_type(tmp_path):
    with pytest.raises(UsageError, match="--data FILE"):
        next(iter(rows(Data().path)))
    with pytest.raises(UsageError, match="--images PATH"):
        open_tree(Data().images)
