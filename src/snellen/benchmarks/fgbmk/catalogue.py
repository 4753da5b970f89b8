"""The catalogue of FG-BMK's human-oriented track: data sets, levels, kinds of question, and names of their files."""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from snellen.toml_text import packaged_toml

Kind: TypeAlias = Literal["truth", "choice", "short"]
KINDS: tuple[Kind, ...] = ("truth", "choice", "short")
BIAS, ATTRIBUTES = "bias", "attributes"
FILE_KINDS = {"choice": "choice", "short_answer": "short", "true_false": "truth", "true_flase": "truth"}


class Level(Struct, frozen=True):
    """One level of a data set: how many questions each of its files has, and how many classes they ask for.

    `counted` is false where the file was in no copy that its count could be taken from.
    """

    name: str = BIAS
    questions: int | None = None
    classes: int | None = None
    kinds: tuple[Kind, ...] = ("truth",)
    counted: bool = True


class DataSet(Struct, frozen=True):
    """One data set: its levels from coarse to fine, its knowledge-bias file, and whether it has attribute questions.

    `nouns` are words of its questions, which tell the rows of mixed files apart.
    """

    name: str
    folder: str
    levels: tuple[Level, ...]
    nouns: tuple[str, ...]
    bias: Level | None = None
    attributes: bool = False


class Catalogue(Struct, frozen=True):
    """catalogue.toml."""

    level_words: tuple[str, ...]
    nouns: tuple[str, ...]
    released_as: dict[str, str]
    stems: dict[Kind, tuple[str, ...]]
    dataset: tuple[DataSet, ...]


class Member(Struct, frozen=True):
    """One file of questions (attributes: all files of one kind).

    Attributes:
        name: without `fgbmk/`, e.g. `cub/species/choice`, `aircraft/bias`, `cub/attributes/choice`.
        dataset, level, kind: what it is of; `level` is `bias` or `attributes` where it is none.
        depth: how many levels of its data set are coarser.
        questions, classes: as counted or published; None where that is not known.
        counted: whether they were counted.
    """

    name: str
    dataset: str
    level: str
    kind: Kind
    depth: int = 0
    questions: int | None = None
    classes: int | None = None
    counted: bool = True

    @property
    def ask(self) -> str:
        """The measured ability: `hierarchy`, `bias` or `attribute`."""
        return {BIAS: "bias", ATTRIBUTES: "attribute"}.get(self.level, "hierarchy")


@cache
def catalogue() -> Catalogue:
    """Return the contents of catalogue.toml."""
    return msgspec.convert(packaged_toml("snellen.benchmarks.fgbmk", "catalogue.toml"), Catalogue)


@cache
def datasets() -> dict[str, DataSet]:
    """Return name to data set."""
    return {dataset.name: dataset for dataset in catalogue().dataset}


@cache
def members() -> dict[str, Member]:
    """Return name to member, in the order in which they are asked."""
    every_member = []
    for dataset in catalogue().dataset:
        for depth, level in enumerate(dataset.levels):
            every_member += [
                Member(f"{dataset.name}/{level.name}/{kind}", dataset.name, level.name, kind, depth, *_facts(level))
                for kind in level.kinds
            ]
        if dataset.bias is not None:
            finest = len(dataset.levels) - 1
            every_member.append(
                Member(f"{dataset.name}/{BIAS}", dataset.name, BIAS, "truth", finest, *_facts(dataset.bias))
            )
        if dataset.attributes:
            kinds: tuple[Kind, ...] = ("truth", "choice")
            every_member += [
                Member(f"{dataset.name}/{ATTRIBUTES}/{kind}", dataset.name, ATTRIBUTES, kind, 0, None, None, False)
                for kind in kinds
            ]
    return {member.name: member for member in every_member}


def _facts(level: Level) -> tuple[int | None, int | None, bool]:
    return level.questions, level.classes, level.counted


@cache
def suites() -> tuple[str, ...]:
    """Return the values of --suite: every level, `bias`, `attributes`, `all`."""
    return (*dict.fromkeys(member.level for member in members().values()), "all")


@cache
def member_of_path(name: str) -> Member | None:
    """Return the member whose file a path is, by its last parts and their released spelling.

    None where it is no file of ours, and for files of attributes, whose kinds only their rows say.

    >>> member_of_path("x/hierarchical_granularity_recognition/cub/class/class_question_true_flase.jsonl").name
    'cub/class/truth'
    """
    parts = name.split("/")
    file = parts[-1].lower()
    if not file.endswith(".jsonl"):
        return None
    folders = {dataset.folder.lower(): dataset.name for dataset in catalogue().dataset}
    if any(part.lower() == "attribute_recognition" for part in parts[:-1]):
        return None
    if len(parts) >= 2 and file.startswith("questions_true_f"):
        return members().get(f"{folders.get(parts[-2].lower())}/{BIAS}")
    level, _, rest = file.removesuffix(".jsonl").partition("_question_")
    if len(parts) < 3 or rest not in FILE_KINDS:
        return None
    return members().get(f"{folders.get(parts[-3].lower())}/{level}/{FILE_KINDS[rest]}")


def released_name(member: Member) -> str:
    """Return a member's path in the released tree, from `hierarchical_granularity_recognition/` or its like on."""
    folder = datasets()[member.dataset].folder
    if member.level == BIAS:
        return f"knowledge_bias_estimination/{folder}/questions_true_false_all_class.jsonl"
    if member.level == ATTRIBUTES:
        return f"attribute_recognition/{member.dataset}_attribute_questions.jsonl"
    word = {"choice": "choice", "short": "short_answer", "truth": "true_false"}[member.kind]
    file = catalogue().released_as.get(member.name, f"{member.level}_question_{word}.jsonl")
    return f"hierarchical_granularity_recognition/{folder}/{member.level}/{file}"
