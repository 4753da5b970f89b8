"""Which answers of a run are set against the features, and what guessing reaches on them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from snellen.features.store import import_file, open_store
from snellen.reports.features.build import joinable_answers
from snellen.runs.scoring import Scored
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, Prompt, Sample, Score, Text


def question(name: str, kind: str = "choice", options: str = "ab", **meta: str) -> Scored:
    sample = Sample(
        id=name,
        prompt=Prompt((Image(BytesBlob(name, b"x")), Text("which?"))),
        target="a",
        kind=kind,
        options={one: one for one in options},
        group=name,
        meta=meta,
    )
    return Scored(sample, None, {"strict": Score(1.0, "a", "correct")})  # type: ignore[arg-type]


class Asked:
    """A run that holds these questions with their scores."""

    def __init__(self, *questions: Scored) -> None:
        self.questions, self.path = questions, Path("run")
        self.benchmark = SimpleNamespace(score={"strict": None})

    def summarize(self, profile: str, *, each: Any, save: bool) -> None:
        for one in self.questions:
            each(one)


def test_chances_that_are_no_chance_are_those_of_the_kind_and_one_way_questions_are_left_out():
    said = joinable_answers(
        Asked(
            question("1", chance="nan"),
            question("2", chance="7"),
            question("3", kind="truth", chance="-0.2"),
            question("4", chance="0.125"),
            question("5", options="a"),
            question("6", chance="1"),
            question("7", kind="short", options=""),
        )  # type: ignore[arg-type]
    )
    assert said.says.chance.tolist() == [0.5, 0.5, 0.5, 0.125, 0.0]
    notes = " ".join(said.notes)
    assert "2 answers have only one possible answer; they are omitted" in notes
    assert "1 answers have no known chance" in notes


def test_levels_of_which_none_is_the_finest_are_taken_together_and_said_so():
    run: Any = Asked(question("1", level="genus"), question("2", level="species"))
    assert "Answers at several levels are pooled" in " ".join(joinable_answers(run).notes)
    assert joinable_answers(run, level="genus").says.ids == ["1"]
    deep: Any = Asked(question("1", level="genus", depth="1"), question("2", level="species", depth="2"))
    assert joinable_answers(deep).says.ids == ["2"] and "1 answers are not at the level species" in " ".join(
        joinable_answers(deep).notes
    )


def test_two_classes_of_one_name_stay_two_classes(tmp_path):
    from snellen.features.probes import probe
    from snellen.reports.features.build import probe_results

    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    file = tmp_path / "same.npz"
    names = np.array(["crane", "gull", "crane"])
    values = np.eye(3, 5)[labels] + 0.1 * rng.standard_normal((60, 5))
    np.savez(file, features=values.astype(np.float32), labels=labels, class_names=names)
    features = open_store(import_file(file, tmp_path / "same"))
    found = probe_results(features, probe(features.values, features.labels, method="ridge"))
    assert set(found.classes) == {"crane (0)", "gull", "crane (2)"}
