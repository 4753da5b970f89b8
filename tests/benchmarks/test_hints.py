"""Misleading hints: which class they name, and that they name it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from snellen.benchmarks import hints
from snellen.benchmarks.base import Data
from snellen.errors import UsageError
from snellen.sources import BytesBlob
from snellen.types import Image, Kind, Prompt, Sample, Text

FAMILIES = ("Icteridae", "Laridae", "Picidae", "Corvidae", "Alcidae")
PICTURE = Image(BytesBlob("a picture", b""))


def question(name: str, kind: Kind, target: Any, options: Sequence[str] = (), **meta: str) -> Sample:
    lettered = dict(zip("ABCD", options, strict=False))
    prompt = Prompt((PICTURE, Text("What is the family of this bird?")))
    return Sample(name, prompt, target, kind, lettered, meta={"level": "family", **meta})


def hinted(sample: Sample, seed: int = 0, classes: Sequence[str] = FAMILIES) -> Sample:
    (one,) = hints.misled(iter([sample]), Data(options={"hint": "wrong"}, seed=seed), lambda level: classes)
    return one


def text(sample: Sample) -> str:
    part = sample.prompt.parts[-1]
    assert isinstance(part, Text)
    return part.text


@pytest.mark.parametrize(("kind", "target"), [("choice_text", "Picidae"), ("choice", "B")])
def test_a_choice_is_hinted_at_one_of_its_own_wrong_options(kind: Kind, target: str) -> None:
    options = ("Laridae", "Picidae", "Sturnidae")
    names = {hinted(question(f"{i}", kind, target, options)).meta["hinted"] for i in range(40)}
    assert names == {"Laridae", "Sturnidae"}


def test_a_hint_below_a_truth_question_contradicts_the_right_answer() -> None:
    denied = hinted(question("1", "truth", False, asked="laridae", label="picidae"))
    assert denied.meta["hinted"] == "Laridae"
    names = {hinted(question(f"{i}", "truth", True, asked="laridae")).meta["hinted"] for i in range(80)}
    assert names == set(FAMILIES) - {"Laridae"}


def test_a_short_answer_is_hinted_at_another_class_of_the_level() -> None:
    names = {hinted(question(f"{i}", "short", ("Picidae", "woodpeckers"))).meta["hinted"] for i in range(80)}
    assert names == set(FAMILIES) - {"Picidae"}


def test_no_name_is_hinted_that_might_be_right() -> None:
    classes = ("warbler", "yellow warbler", "eastern yellow warbler", "crow", "Dendroica")
    for i in range(40):
        one = hinted(question(f"{i}", "short", "yellow warbler", aliases="dendroica"), classes=classes)
        assert one.meta["hinted"] == "crow"


def test_the_hint_is_the_last_line_of_the_question_and_everything_else_stays() -> None:
    before = question("7", "short", "Picidae")
    after = hinted(before)
    assert text(after) == f"{text(before)}\nHint: this picture is labelled {after.meta['hinted']}."
    assert after.prompt.parts[0] is before.prompt.parts[0]
    assert (after.id, after.target, after.kind) == (before.id, before.target, before.kind)
    assert after.meta["hint"] == "wrong"


def test_the_hint_of_an_attribute_names_one_of_its_values() -> None:
    one = hinted(question("1", "short", "red", attribute="bill colour"), classes=("red", "blue"))
    assert text(one).endswith("\nHint: the bill colour here is blue.")


def test_a_hint_follows_from_seed_and_id_alone() -> None:
    samples = [question(f"{i}", "short", "Picidae") for i in range(30)]
    alone = [hinted(one).meta["hinted"] for one in samples]
    together = hints.misled(iter(samples[::-1]), Data(options={"hint": "wrong"}), lambda level: FAMILIES)
    assert [one.meta["hinted"] for one in together] == alone[::-1]
    assert [hinted(one, seed=1).meta["hinted"] for one in samples] != alone
    assert alone[:6] == ["Laridae", "Laridae", "Alcidae", "Icteridae", "Corvidae", "Alcidae"]


def test_without_a_wrong_class_a_question_stays_and_says_so() -> None:
    one = hinted(question("1", "truth", True, asked="laridae"), classes=())
    assert text(one) == "What is the family of this bird?"
    assert one.meta["hint"] == "none"
    unreadable = question("2", "short", None)
    assert hinted(unreadable) is unreadable


def test_the_classes_of_a_level_are_asked_for_once() -> None:
    asked: list[str] = []

    def classes(level: str) -> Sequence[str]:
        asked.append(level)
        return FAMILIES

    samples = (question(f"{i}", "short", "Picidae") for i in range(5))
    assert len(list(hints.misled(samples, Data(), classes))) == 5
    assert asked == ["family"]
    choice = question("1", "choice_text", "Picidae", ("Picidae", "Laridae"), level="order")
    assert next(hints.misled(iter([choice]), Data(), classes)).meta["hinted"] == "Laridae"
    assert asked == ["family"]


def test_the_users_own_sentence_names_the_same_class_and_is_taken_as_it_is() -> None:
    for text in ("It seems to be a {wrong}.", "{wrong}? I {0} think so {", "The {attribute} is {wrong}, says my aunt."):
        data = Data(options={"hint-text": text})
        if "{0}" in text:
            with pytest.raises(UsageError, match="hint-text"):
                hints.wanted(data)
            continue
        assert hints.wanted(data)
        before = question("7", "short", "blue", attribute="bill colour")
        (after,) = hints.misled(iter([before]), data, lambda level: ("red", "blue"))
        assert after.meta["hinted"] == "red" and after.meta["hint"] == "wrong"
        line = text.replace("{wrong}", "red").replace("{attribute}", "bill colour")
        assert after.prompt.parts[-1] == Text(f"What is the family of this bird?\n{line}")


@pytest.mark.parametrize("text", ["", "a crow", "{wrong} {wrong}", "{name} {wrong}", "two\nlines {wrong}", "{wrong!r}"])
def test_a_sentence_without_its_one_slot_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"one line with \{wrong\} once"):
        hints.wanted(Data(options={"hint-text": text}))


def test_a_hint_of_another_kind_is_refused() -> None:
    assert hints.wanted(Data(options={"hint": "wrong"})) and not hints.wanted(Data())
    with pytest.raises(UsageError, match="hint=right"):
        hints.wanted(Data(options={"hint": "right"}))
