"""Mistakes of a benchmark's author end in an error that names the mistake, never in a wrong score."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snellen import Benchmark, Model, Prompt, Response, Sample, Score, Text, evaluate
from snellen.benchmarks.base import Data
from snellen.errors import DataError, PluginError, UsageError
from snellen.scoring import accuracy, choice, truth
from snellen.sources import open_tree, rows

PROMPT = Prompt((Text("Which bird?\nA. wren\nB. robin"),))
OPTIONS = {"A": "wren", "B": "robin"}


class SaysA(Model):
    name = "says-a"

    async def answer(self, prompt):
        return Response("A")


def bird(id="q1", target="A", kind="choice", options=OPTIONS, prompt=PROMPT):
    return Sample(id, prompt, target, kind, options, meta={"topic": "species"})


def birds(*samples, **fields):
    declared = {
        "name": "birds",
        "version": "1",
        "samples": lambda data: iter(samples or (bird(),)),
        "score": {"strict": choice},
        "summarize": accuracy(),
        "profiles": {"strict": "the option that the reply names"},
    }
    return Benchmark(**{**declared, **fields})


def error_of(benchmark, tmp_path):
    with pytest.raises((DataError, PluginError)) as caught:
        evaluate(benchmark, SaysA(), out=tmp_path / "run")
    return str(caught.value)


def test_two_samples_of_one_id_are_refused_and_both_named(tmp_path):
    text = error_of(birds(bird("a"), bird("b"), bird("a")), tmp_path)
    assert "birds" in text and "'a'" in text and "sample 1 and sample 3" in text
    assert not (tmp_path / "run" / "results.jsonl").exists()


@pytest.mark.parametrize("target", ["C", "wren", ("A", "E"), None])
def test_a_target_that_is_no_option_is_refused(tmp_path, target):
    text = error_of(birds(bird(), bird("q2", target)), tmp_path)
    assert "'q2'" in text and repr(target) in text and "A, B" in text


def test_a_target_that_is_no_text_of_an_option_is_refused(tmp_path):
    text = error_of(birds(bird(target="crow", kind="choice_text"), score={"strict": truth}), tmp_path)
    assert "'crow'" in text and "wren, robin" in text


@pytest.mark.parametrize("target", ["B", ("A", "B"), ["B"]])
def test_letters_of_options_are_accepted_as_targets(tmp_path, target):
    assert evaluate(birds(bird(target=target)), SaysA(), out=tmp_path / "run").metric("accuracy").n == 1


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
    text = error_of(birds(summarize=accuracy("topics")), tmp_path)
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
    text = error_of(birds(score={"strict": lambda sample, reply: returned}), tmp_path)
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


def test_a_declaration_may_be_replaced():
    assert replace(birds(), version="2").version == "2"
