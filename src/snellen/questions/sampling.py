"""Which questions are asked: for each file of a set the arrays that say of each question everything but its words.

Everything is drawn here, for all questions of a file at once; rendering only writes out what is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError
from snellen.questions.distractors import NONE, Pool, draw
from snellen.questions.rng import turns, words

Kind: TypeAlias = Literal["truth", "choice", "short"]
Ints: TypeAlias = NDArray[np.int32]

FILES: Mapping[str, str] = {"truth": "true_false", "choice": "choice", "short": "short_answer"}


@dataclass(frozen=True)
class Part:
    """One file of questions.

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
        """Where the questions go, named as in the released set: species/species_question_choice.jsonl."""
        return f"{self.folder}/{self.folder.rpartition('/')[2]}_question_{FILES[self.kind]}.jsonl"

    @property
    def template(self) -> str:
        """The section of the templates that words it."""
        if self.ask == "bias":
            return "bias"
        return f"attribute_{self.kind}" if self.ask == "attribute" else self.kind


RIGHT = 255


@dataclass(frozen=True)
class Asked:
    """What all parts of one level share: the images and their classes, in the order of the questions."""

    ask: str
    level: str
    depth: int
    folder: str
    paths: Sequence[str]
    aliases: Mapping[int, tuple[str, ...]]
    image: Ints
    label: Ints
    pool: Pool
    seed: int
    others: Mapping[int, frozenset[int]]
    """Row to further right classes, which are then no wrong ones."""

    @property
    def key(self) -> tuple[int, str, str]:
        return (self.seed, self.ask, self.level)

    def part(self, kind: Kind, stems: int, **arrays: NDArray[np.generic]) -> Part:
        n = len(arrays["image"]) if "image" in arrays else len(self.image)
        empty = np.empty((n, 0))
        given = {
            "image": self.image,
            "label": self.label,
            "asked": np.full(n, NONE, dtype=np.int32),
            "options": empty.astype(np.int32),
            "kinship": empty.astype(np.uint8),
            **arrays,
        }
        stem = turns(np.zeros(n, dtype=np.int8), *self.key, kind, "stem") % stems
        return Part(
            ask=self.ask,
            level=self.level,
            depth=self.depth,
            kind=kind,
            folder=self.folder,
            names=self.pool.names,
            paths=self.paths,
            aliases=self.aliases,
            stem=stem.astype(np.uint8),
            **given,  # type: ignore[arg-type]
        )


def short(asked: Asked, stems: int) -> Part:
    """One question an image: what is it?"""
    return asked.part("short", stems)


def truth(asked: Asked, stems: int) -> Part:
    """One question an image: is it this? Yes and no are equally many, to one, overall and for each class."""
    turn = turns(asked.label, *asked.key, "truth", "turn")
    right = turn % 2 == 0
    wrong = _wrong(asked, 1, "truth", turn // 2)[:, 0]
    return _truth(asked, stems, np.where(right, asked.label, wrong).astype(np.int32))


def bias(asked: Asked, stems: int) -> Part:
    """Two questions an image: one that is true, then one that is not."""
    turn = turns(asked.label, *asked.key, "bias", "turn")
    wrong = _wrong(asked, 1, "bias", turn)[:, 0]
    both = np.column_stack([asked.label, wrong]).astype(np.int32).reshape(-1)
    image, label = np.repeat(asked.image, 2), np.repeat(asked.label, 2)
    return _truth(asked, stems, both, image=image, label=label)


def _truth(asked: Asked, stems: int, named: Ints, **arrays: Ints) -> Part:
    label = arrays.get("label", asked.label)
    kinship = np.where(named == label, RIGHT, asked.pool.kinship(label, named)).astype(np.uint8)
    return asked.part("truth", stems, asked=named, kinship=kinship[:, None], **arrays)


def choice(asked: Asked, stems: int, count: int) -> Part:
    """One question an image: which of these is it? The right one stands equally often, to one, in each place."""
    wrong = _wrong(asked, count - 1, "choice")
    shown = 1 + (wrong != NONE).sum(axis=1)
    fewest = int(shown.argmin())
    if shown[fewest] < 2:
        name = asked.pool.names[asked.label[fewest]]
        raise DataError(
            f"{asked.level} {name!r}: no other {asked.level} can stand beside it, since each name holds the other",
            "Rename one of them, or leave choice out of --kinds.",
        )
    place = np.empty(len(shown), dtype=np.int64)
    for size in np.unique(shown):
        rows = np.flatnonzero(shown == size)
        place[rows] = turns(asked.label[rows], *asked.key, "place", int(size)) % size
    options = np.empty((len(shown), count), dtype=np.int32)
    kinship = np.empty((len(shown), count), dtype=np.uint8)
    # The wrong ones in random order, so that near and far ones stand anywhere; open places stay at the end.
    weight = words(wrong.size, *asked.key, "order").reshape(wrong.shape) >> np.uint64(1)
    weight[wrong == NONE] = np.iinfo(np.uint64).max
    wrong = np.take_along_axis(wrong, np.argsort(weight, axis=1, kind="stable"), axis=1)
    related = np.stack([asked.pool.kinship(asked.label, column) for column in wrong.T], axis=1)
    for column in range(count):
        here = place == column
        before = place > column
        source = np.where(before, column, np.maximum(column - 1, 0))
        taken = np.take_along_axis(wrong, source[:, None], axis=1)[:, 0] if wrong.size else asked.label
        kin = np.take_along_axis(related, source[:, None], axis=1)[:, 0] if wrong.size else related
        options[:, column] = np.where(here, asked.label, taken)
        kinship[:, column] = np.where(here, RIGHT, kin)
    return asked.part("choice", stems, options=options, kinship=kinship)


def _wrong(asked: Asked, count: int, kind: str, turn: NDArray[np.int64] | None = None) -> Ints:
    return draw(asked.pool, asked.label, count, *asked.key, kind, "wrong", turn=turn, others=asked.others)


def most_per_class(label: Ints, most: int | None, *key: str | int) -> NDArray[np.int64]:
    """Rows, in their order, of which no class has more than `most`; which ones they are is drawn."""
    if most is None:
        return np.arange(len(label))
    turn = turns(label, *key)
    start = np.full(int(label.max()) + 1, len(label))
    np.minimum.at(start, label, turn)
    return np.flatnonzero(turn - start[label] < most)


def neutral_order(n: int, seed: int) -> NDArray[np.int64]:
    """[n] the order in which images are numbered and asked about: one that says nothing about their classes."""
    return np.argsort(words(n, seed, "images"), kind="stable")


def as_bias(asked: Asked) -> Asked:
    """The same images, asked in the bias part."""
    return replace(asked, ask="bias", folder="bias")
