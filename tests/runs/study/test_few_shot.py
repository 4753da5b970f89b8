"""Few-shot examples: what is sent, which samples are never shown, and what a run folder holds of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

import snellen
from runs.study.conftest import NotingModel, row
from snellen.benchmarks.base import Benchmark, Data, empty_digest
from snellen.benchmarks.few_shot import gold_reply
from snellen.errors import BadRequestError, FingerprintError, SnellenError, UsageError
from snellen.scoring import scorers
from snellen.types import Image, Prompt, Response, Sample, Text


def names(prompt: Prompt) -> list[str]:
    """Return the pictures of the examples in a prompt."""
    parts = [part for turn in prompt.history for part in turn.parts]
    return [Path(part.blob.key).name for part in parts if isinstance(part, Image)]


def answers(prompt: Prompt) -> list[str]:
    return [part.text for turn in prompt.history if turn.role == "assistant" for part in turn.parts]


def test_examples_stand_before_each_question_with_their_answers_in_the_form_of_the_benchmark(tested, pool, tmp_path):
    model = NotingModel()
    run = snellen.evaluate(str(tested), model, few_shot=3, few_shot_from=str(pool), out=tmp_path / "run")
    assert run.meta.totals.ok == 6
    assert len({tuple(names(prompt)) for prompt in model.prompts}) == 1
    for prompt in model.prompts:
        assert [turn.role for turn in prompt.history] == ["user", "assistant"] * 3
        assert answers(prompt) == ["AB"[int(name[5]) % 2] for name in names(prompt)]
        assert prompt.history[0].parts[-1] == Text("What is this?\nA. cat\nB. dog\nAnswer with the letter.")


def test_examples_depend_on_the_seed_and_each_question_may_have_its_own(tested: Path, pool: Path, tmp_path: Path):
    drawn = {}
    for name, settings in {"a": {}, "b": {"seed": 1}, "c": {}, "each": {"few_shot_draw": "each"}}.items():
        model = NotingModel()
        snellen.evaluate(str(tested), model, few_shot=2, few_shot_from=str(pool), out=tmp_path / name, **settings)
        drawn[name] = [names(prompt) for prompt in model.prompts]
    assert drawn["a"] == drawn["c"] != drawn["b"]
    assert len({tuple(each) for each in drawn["each"]}) > 1


def test_an_example_is_no_tested_sample_by_id_image_pixels_or_text(table: Callable[..., Path], tmp_path: Path):
    tested = table("tested.jsonl", [row(f"t{number}", f"t{number}.png") for number in range(3)])
    Picture.open(tmp_path / "t1.png").save(tmp_path / "copy.bmp")  # other bytes, equal pixels
    (tmp_path / "same.png").write_bytes((tmp_path / "t2.png").read_bytes())
    pool = table(
        "pool.jsonl",
        [row("t0", "other.png"), row("p1", "copy.bmp"), row("p2", "same.png"), row("p3", "free.png", "B")],
    )
    model = NotingModel()
    snellen.evaluate(str(tested), model, few_shot=1, few_shot_from=str(pool), out=tmp_path / "run")
    assert {tuple(names(prompt)) for prompt in model.prompts} == {("free.png",)}
    with pytest.raises(UsageError, match="1 usable examples among 4") as caught:
        snellen.evaluate(str(tested), model, few_shot=2, few_shot_from=str(pool), out=tmp_path / "run2")
    assert "1 have the id of a tested sample" in caught.value.message
    assert "2 show an image of a tested sample" in caught.value.message
    assert not (tmp_path / "run2").exists()


def test_a_question_without_images_is_no_example_for_itself(table: Callable[..., Path], tmp_path: Path):
    def text(question: str) -> dict[str, object]:
        return {"question": question, "answer": "yes"}

    tested = table("tested.jsonl", [text("Is water wet?"), text("Is fire hot?")])
    pool = table("pool.jsonl", [text("Is  water WET?"), text("Is ice cold?")])
    model = NotingModel()
    snellen.evaluate(str(tested), model, few_shot=1, few_shot_from=str(pool), out=tmp_path / "run")
    assert {prompt.history[0].parts[-1].text.splitlines()[0] for prompt in model.prompts} == {"Is ice cold?"}


def photo(number: int) -> Picture.Image:
    """Return a smooth picture with shapes, as unlike the others as photographs are."""
    noise = np.random.default_rng(number).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    return Picture.fromarray(noise).resize((320, 240), Picture.Resampling.BICUBIC)


@pytest.mark.parametrize("quality", [30, 75, 95])
def test_a_tested_image_that_was_encoded_anew_is_no_example(quality: int, table: Callable[..., Path], tmp_path: Path):
    for number in range(12):
        photo(number).save(tmp_path / f"t{number}.png")
    photo(1).save(tmp_path / "again.jpg", quality=quality)
    photo(2).save(tmp_path / "again.webp", quality=quality)
    tested = table("tested.jsonl", [row(f"t{number}", f"t{number}.png") for number in range(4)])
    free = [row(f"p{number}", f"t{number}.png") for number in range(4, 12)]
    same = [row("c1", "again.jpg", question="What  is THIS ?"), row("c2", "again.webp")]
    pool = table("pool.jsonl", [*same, *free])
    model = NotingModel()
    snellen.evaluate(str(tested), model, few_shot=8, few_shot_from=str(pool), out=tmp_path / "run")
    assert {name for prompt in model.prompts for name in names(prompt)} == {f"t{number}.png" for number in range(4, 12)}
    with pytest.raises(UsageError, match="8 usable examples among 10") as caught:
        snellen.evaluate(str(tested), model, few_shot=9, few_shot_from=str(pool), out=tmp_path / "run2")
    assert "2 show an image of a tested sample" in caught.value.message


def test_a_small_difference_that_changes_the_answer_is_another_sample(table: Callable[..., Path], tmp_path: Path):
    photo(1).save(tmp_path / "t1.png")
    changed = photo(1)
    changed.putpixel((100, 100), (0, 0, 0))
    changed.save(tmp_path / "changed.png")
    tested = table("tested.jsonl", [row("t1", "t1.png", "A")])
    other = table("other.jsonl", [row("p1", "changed.png", "B")])
    snellen.evaluate(str(tested), NotingModel(), few_shot=1, few_shot_from=str(other), out=tmp_path / "run")
    same = table("same.jsonl", [row("p1", "changed.png", "A")])
    with pytest.raises(UsageError, match="0 usable examples among 1"):
        snellen.evaluate(str(tested), NotingModel(), few_shot=1, few_shot_from=str(same), out=tmp_path / "run2")


def test_a_sample_that_stands_twice_in_the_pool_is_shown_once(table: Callable[..., Path], tmp_path: Path):
    tested = table("tested.jsonl", [row(f"t{number}", f"t{number}.png") for number in range(3)])
    Picture.new("RGB", (6, 6), (1, 2, 3)).save(tmp_path / "twice.png")
    Picture.open(tmp_path / "twice.png").save(tmp_path / "twice.bmp")
    rows = [row("p1", "twice.png"), row("p2", "twice.bmp", question="what is  this?"), row("p3", "free.png")]
    pool = table("pool.jsonl", rows)
    for draw in ("fixed", "each"):
        settings = {"few_shot_from": str(pool), "few_shot_draw": draw}
        model = NotingModel()
        snellen.evaluate(str(tested), model, few_shot=2, out=tmp_path / draw, **settings)
        assert all(len({name.partition(".")[0] for name in names(prompt)}) == 2 for prompt in model.prompts)
        with pytest.raises(UsageError, match="1 repeat another sample of the pool"):
            snellen.evaluate(str(tested), model, few_shot=3, out=tmp_path / f"{draw}-3", **settings)


QUESTION = {"question": "Which metal is liquid at 20 °C?", "A": "iron", "B": "mercury", "answer": "B"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"question": "which metal is liquid at 20°C"}, True),
        ({"question": "Which\u200b metal is liquid at 20\u00a0°C ?!"}, True),
        ({"question": "Ｗhich metal is liquid at 20 °C?"}, True),
        ({"A": "mercury", "B": "iron", "answer": "A"}, True),
        ({"question": "Which metal is liquid at 30 °C?"}, False),
        ({"question": "Which metal is liquid at -20 °C?"}, False),
        ({"A": "lead"}, False),
    ],
)
def test_a_question_in_another_form_is_the_same(change, same, table, tmp_path):
    tested = table("tested.jsonl", [{"id": "t", **QUESTION}])
    pool = table("pool.jsonl", [{"id": "p", **QUESTION, **change}])
    settings = {"few_shot": 1, "few_shot_from": str(pool), "out": tmp_path / "run"}
    if same:
        with pytest.raises(UsageError, match="1 ask the question of a tested sample"):
            snellen.evaluate(str(tested), NotingModel(), **settings)
    else:
        assert snellen.evaluate(str(tested), NotingModel(), **settings).meta.totals.ok == 1


def test_samples_beyond_the_limit_are_no_examples(tested: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="0 usable examples among 6"):
        snellen.evaluate(
            str(tested), NotingModel(), limit=2, few_shot=1, few_shot_from=str(tested), out=tmp_path / "run"
        )


def test_pool_and_choice_are_part_of_the_fingerprint(tested: Path, pool: Path, table: Callable[..., Path]):
    def fingerprint(name: str, **settings: object) -> str:
        return snellen.evaluate(str(tested), NotingModel(), out=tested.parent / name, **settings).meta.fingerprint

    plain = fingerprint("plain")
    shots = {"few_shot": 2, "few_shot_from": str(pool)}
    assert len({plain, fingerprint("two", **shots), fingerprint("three", **{**shots, "few_shot": 3})}) == 3
    assert fingerprint("again", **shots) == fingerprint("two", **shots)
    table("pool.jsonl", [row(f"p{number}", f"pool-{number}.png", "B") for number in range(10)])
    with pytest.raises(FingerprintError, match=r"few_shot\.pool"):
        fingerprint("two", **shots)


def test_a_benchmark_without_a_pool_refuses_and_says_what_to_do(tested: Path, tmp_path: Path):
    with pytest.raises(UsageError, match="declares no pool") as caught:
        snellen.evaluate(str(tested), NotingModel(), few_shot=1, out=tmp_path / "run")
    assert "--few-shot-from FILE" in caught.value.hint
    with pytest.raises(UsageError, match="no pool of examples"):
        snellen.evaluate("acuity", NotingModel(), few_shot=1, out=tmp_path / "run", benchmark_options={})


def test_a_pool_that_is_no_table_is_named_as_the_pool(tested: Path, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "picture.png").write_bytes(b"none")
    for name, sentence in (("pipe.jsonl", "neither a file nor a folder"), ("picture.png", "no table of questions")):
        with pytest.raises(SnellenError, match=f"--few-shot-from .*{sentence}") as caught:
            snellen.evaluate(
                str(tested), NotingModel(), few_shot=1, few_shot_from=str(tmp_path / name), out=tmp_path / "run"
            )
        assert "Name a pool" in caught.value.hint


def test_a_benchmark_that_draws_its_samples_shows_those_of_another_seed(tmp_path: Path):
    model = NotingModel("3")
    snellen.evaluate("chart/digits", model, limit=2, few_shot=2, few_shot_from="seed=9", out=tmp_path / "run")
    assert all(len(prompt.history) == 4 for prompt in model.prompts)
    assert "" not in answers(model.prompts[0])


def test_a_declared_table_names_its_pool(table: Callable[..., Path], tested: Path, pool: Path, tmp_path: Path):
    declaration = tmp_path / "birds.toml"
    declaration.write_text(
        'name = "birds"\nexamples = "pool.jsonl"\n[source]\nfile = "tested.jsonl"\n[rows]\nid = "id"\nimage = "image"\n'
        'question = "question"\noptions = ["A", "B"]\nanswer = "answer"\n'
    )
    model = NotingModel()
    snellen.evaluate(str(declaration), model, few_shot=1, out=tmp_path / "run")
    assert names(model.prompts[0])[0].startswith("pool-")


@pytest.mark.parametrize("supports", [frozenset(), frozenset({"system"})])
def test_a_model_that_cannot_use_earlier_turns_is_refused(tested, pool, tmp_path, supports):
    model = NotingModel()
    model.supports = supports
    with pytest.raises(UsageError, match="cannot use earlier turns"):
        snellen.evaluate(str(tested), model, few_shot=1, few_shot_from=str(pool), out=tmp_path / "run")
    with pytest.raises(UsageError, match="trained on single questions"):
        snellen.evaluate(str(tested), "embedded", few_shot=1, few_shot_from=str(pool), out=tmp_path / "run")
    assert model.prompts == []


SECRET = {"tested": "Corvus corax", "pool": "Tyto alba"}


def restricted() -> Benchmark:
    def samples(data: Data) -> Iterator[Sample]:
        which = data.options.get("split", "tested")
        for number in range(3):
            prompt = Prompt((Text(f"{which} {number}: which species?"),))
            yield Sample(f"{which}-{number}", prompt, SECRET[which], "short")

    return Benchmark(
        name="guarded",
        version="1",
        samples=samples,
        score={"strict": scorers.short},
        summarize=scorers.accuracy(),
        profiles={"strict": "the name"},
        digest=empty_digest,
        options={"split": "which part"},
        restricted=True,
        examples="split=pool",
    )


class QuotingModel(NotingModel):
    """Leaves a trace of its request, and quotes it in an error."""

    async def answer(self, prompt: Prompt) -> Response:
        self.prompts.append(prompt)
        turns = [part.text for part in prompt.conversation_parts if isinstance(part, Text)]
        if len(self.prompts) == 2:
            raise BadRequestError(f"bad request: {turns}")
        return Response("no idea", trace={"request": turns, "reply": "no idea"})


def test_gold_answers_of_examples_of_a_restricted_benchmark_are_in_no_file_of_the_run(tmp_path: Path):
    model = QuotingModel()
    run = snellen.evaluate(restricted(), model, few_shot=2, out=tmp_path / "run", concurrency=1)
    assert answers(model.prompts[0]) == ["Tyto alba"] * 2
    assert run.meta.totals.error == 1
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(path.parent.name == "traces" for path in files)
    for path in files:
        content = path.read_text().casefold()
        assert "tyto" not in content, path
        assert "corvus" not in content, path
    snellen.redact(run, tmp_path / "public")
    assert "tyto" not in "".join(path.read_text().casefold() for path in (tmp_path / "public").iterdir())


def test_traces_of_an_open_benchmark_show_the_examples(tmp_path: Path):
    benchmark = replace(restricted(), restricted=False)
    snellen.evaluate(benchmark, QuotingModel(), few_shot=2, out=tmp_path / "run", concurrency=1)
    assert "Tyto alba" in (tmp_path / "run" / "traces" / "00000.jsonl").read_text()


@pytest.mark.parametrize(
    ("kind", "target", "question", "form"),
    [
        ("truth", True, "Is it red? Answer with yes or no.", "yes"),
        ("truth", False, "Is it red? Answer with true or false.", "false"),
        ("truth", False, "Answer with T or F only.", "F"),
        ("count", 3, "How many?", "3"),
        ("number", 2.5, "How long?", "2.5"),
        ("short", ("barn owl", "Tyto alba"), "Which bird?", "barn owl"),
        ("choice", "B", "Which?", "B"),
    ],
)
def test_a_gold_answer_is_written_as_the_question_asks_for_it(kind: str, target: object, question: str, form: str):
    options = {"A": "cat", "B": "dog"} if kind == "choice" else {}
    sample = Sample("1", Prompt((Text(question),)), target, kind, options)  # type: ignore[arg-type]
    scorer = getattr(scorers, kind)
    benchmark = replace(restricted(), score={"strict": scorer})
    assert gold_reply(benchmark, sample) == form
    assert scorer(sample, form).verdict == "correct"
