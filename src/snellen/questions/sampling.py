"""Question sampling: the arrays that define each question of a set, except its wording.

Everything is drawn here, for all questions of a file at once; rendering only writes out what is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError
from snellen.questions.distractors import NONE, DistractorPool, draw_distractors
from snellen.questions.rng import turns, words

Kind: TypeAlias = Literal["truth", "choice", "short"]
Ints: TypeAlias = NDArray[np.int32]

FILES: Mapping[str, str] = {"truth": "true_false", "choice": "choice", "short": "short_answer"}


@dataclass(frozen=True)
class QuestionArrays:
    """One file of questions, as arrays.

    Attributes:
        ask: `hierarchy`, `bias` or `attribute`.
        level: the level, or the attribute.
        depth: 0 for the coarsest level.
        kind: truth, choice or short.
        folder: the part's folder, which also begins its ids (`species/choice/1`).
        names: the classes of the level, or the values of the attribute.
        paths: each class with its ancestors; empty where there is no taxonomy.
        aliases: class to further accepted names.
        image: [n] which image.
        label: [n] the right class.
        asked: [n] the class that is asked for (truth), else NONE.
        options: [n, k] classes in the order shown, NONE at the end where there are fewer (choice), else [n, 0].
        kinship: [n, k] how each option is related to the right one, as an index into KINSHIP; 255 for the right one.
            For truth [n, 1]: of the asked class.
        stem: [n] which stem.
    """

    ask: str
    level: str
    depth: int
    kind: Kind
    folder: str
    names: Sequence[str]
    paths: Sequence[str]
    aliases: Mapping[int, tuple[str, ...]]
    image: Ints
    label: Ints
    asked: Ints
    options: Ints
    kinship: NDArray[np.uint8]
    stem: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.image)

    @property
    def file(self) -> str:
        """The path of the file, named as in the released set: species/species_question_choice.jsonl."""
        return f"{self.folder}/{self.folder.rpartition('/')[2]}_question_{FILES[self.kind]}.jsonl"

    @property
    def template(self) -> str:
        """The template section that words this file."""
        if self.ask == "bias":
            return "bias"
        return f"attribute_{self.kind}" if self.ask == "attribute" else self.kind


RIGHT = 255


@dataclass(frozen=True)
class LevelQuestions:
    """The data shared by all question files of one level: images and classes, in question order."""

    ask: str
    level: str
    depth: int
    folder: str
    paths: Sequence[str]
    aliases: Mapping[int, tuple[str, ...]]
    image: Ints
    label: Ints
    pool: DistractorPool
    seed: int
    others: Mapping[int, frozenset[int]]
    """Row to further right classes, which are then no wrong ones."""

    @property
    def key(self) -> tuple[int, str, str]:
        return (self.seed, self.ask, self.level)

    def question_file(self, kind: Kind, stems: int, **arrays: NDArray[np.generic]) -> QuestionArrays:
        n = len(arrays["image"]) if "image" in arrays else len(self.image)
        empty = np.empty((n, 0))
        columns = {
            "image": self.image,
            "label": self.label,
            "asked": np.full(n, NONE, dtype=np.int32),
            "options": empty.astype(np.int32),
            "kinship": empty.astype(np.uint8),
            **arrays,
        }
        stem = turns(np.zeros(n, dtype=np.int8), *self.key, kind, "stem") % stems
        return QuestionArrays(
            ask=self.ask,
            level=self.level,
            depth=self.depth,
            kind=kind,
            folder=self.folder,
            names=self.pool.names,
            paths=self.paths,
            aliases=self.aliases,
            stem=stem.astype(np.uint8),
            **columns,  # type: ignore[arg-type]
        )


def draw_short(questions: LevelQuestions, stems: int) -> QuestionArrays:
    """Build one open question for each image."""
    return questions.question_file("short", stems)


def draw_truth(questions: LevelQuestions, stems: int) -> QuestionArrays:
    """Build one yes/no question for each image, balanced to within one overall and for each class."""
    turn = turns(questions.label, *questions.key, "truth", "turn")
    right = turn % 2 == 0
    wrong = _wrong(questions, 1, "truth", turn // 2)[:, 0]
    return _truth(questions, stems, np.where(right, questions.label, wrong).astype(np.int32))


def draw_bias(questions: LevelQuestions, stems: int) -> QuestionArrays:
    """Build two yes/no questions for each image: the true one, then the false one."""
    turn = turns(questions.label, *questions.key, "bias", "turn")
    wrong = _wrong(questions, 1, "bias", turn)[:, 0]
    both = np.column_stack([questions.label, wrong]).astype(np.int32).reshape(-1)
    image, label = np.repeat(questions.image, 2), np.repeat(questions.label, 2)
    return _truth(questions, stems, both, image=image, label=label)


def _truth(questions: LevelQuestions, stems: int, named: Ints, **arrays: Ints) -> QuestionArrays:
    label = arrays.get("label", questions.label)
    kinship = np.where(named == label, RIGHT, questions.pool.kinship(label, named)).astype(np.uint8)
    return questions.question_file("truth", stems, asked=named, kinship=kinship[:, None], **arrays)


def draw_choice(questions: LevelQuestions, stems: int, count: int) -> QuestionArrays:
    """Build one multiple-choice question for each image; the right option is balanced over all positions."""
    wrong = _wrong(questions, count - 1, "choice")
    option_counts = 1 + (wrong != NONE).sum(axis=1)
    fewest = int(option_counts.argmin())
    if option_counts[fewest] < 2:
        name = questions.pool.names[questions.label[fewest]]
        raise DataError(
            f"{questions.level} {name!r}: no distractor is possible, because every other name contains it or is part of it",
            "Rename one of them, or remove choice from --kinds.",
        )
    place = np.empty(len(option_counts), dtype=np.int64)
    for size in np.unique(option_counts):
        rows = np.flatnonzero(option_counts == size)
        place[rows] = turns(questions.label[rows], *questions.key, "place", int(size)) % size
    options = np.empty((len(option_counts), count), dtype=np.int32)
    kinship = np.empty((len(option_counts), count), dtype=np.uint8)
    # The wrong ones in random order, so that near and far ones stand anywhere; open places stay at the end.
    weight = words(wrong.size, *questions.key, "order").reshape(wrong.shape) >> np.uint64(1)
    weight[wrong == NONE] = np.iinfo(np.uint64).max
    wrong = np.take_along_axis(wrong, np.argsort(weight, axis=1, kind="stable"), axis=1)
    related = np.stack([questions.pool.kinship(questions.label, column) for column in wrong.T], axis=1)
    for column in range(count):
        is_right = place == column
        before = place > column
        source = np.where(before, column, np.maximum(column - 1, 0))
        taken = np.take_along_axis(wrong, source[:, None], axis=1)[:, 0] if wrong.size else questions.label
        kin = np.take_along_axis(related, source[:, None], axis=1)[:, 0] if wrong.size else related
        options[:, column] = np.where(is_right, questions.label, taken)
        kinship[:, column] = np.where(is_right, RIGHT, kin)
    return questions.question_file("choice", stems, options=options, kinship=kinship)


def _wrong(questions: LevelQuestions, count: int, kind: str, turn: NDArray[np.int64] | None = None) -> Ints:
    return draw_distractors(
        questions.pool, questions.label, count, *questions.key, kind, "wrong", turn=turn, others=questions.others
    )


def limit_per_class(label: Ints, limit: int | None, *key: str | int) -> NDArray[np.int64]:
    """Return row indices in order, with at most `limit` drawn from each class."""
    if limit is None:
        return np.arange(len(label))
    turn = turns(label, *key)
    start = np.full(int(label.max()) + 1, len(label))
    np.minimum.at(start, label, turn)
    return np.flatnonzero(turn - start[label] < limit)


def neutral_order(n: int, seed: int) -> NDArray[np.int64]:
    """Return the order [n] in which images are numbered; it is independent of their classes."""
    return np.argsort(words(n, seed, "images"), kind="stable")


def as_bias(questions: LevelQuestions) -> LevelQuestions:
    """Return the same images for the bias part."""
    return replace(questions, ask="bias", folder="bias")
