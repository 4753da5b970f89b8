"""Questions of FG-BMK as samples, one row at a time.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and
line, and fails when it is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from snellen.benchmarks import hints
from snellen.benchmarks.base import Data
from snellen.benchmarks.fgbmk import locate, question_text, row_kinds, taxonomy
from snellen.benchmarks.fgbmk.catalogue import BIAS, Member, members
from snellen.benchmarks.fgbmk.catalogue import Kind as QuestionKind
from snellen.benchmarks.fgbmk.locate import QuestionFile
from snellen.errors import DataError
from snellen.scoring.class_names import Names, aliases
from snellen.sources import Unreadable
from snellen.sources.encodings import Row
from snellen.sources.locator import LazyPicture, Pictures
from snellen.types import Blob, Image, Kind, Prompt, Sample, Text

FIX_HINT = "Fix the row, or fetch the file again."
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
KINDS: Mapping[str, Kind] = {"truth": "truth", "choice": "choice_text", "short": "short"}
MAX_IDS = 1 << 27


class FileContext(Struct):
    """The data that the rows of one file share.

    Attributes:
        member: the file's.
        file: its name, for messages.
        prefix: what stands before a question's own id.
        pictures: where images are; None: none are wanted.
        labels: hash of an image's path to its true class, for questions that do not say it.
        paths: class to its path in the taxonomy; filled from options where a name tells its own path.
        names: the classes that a short answer may name.
        chance: what guessing one of these classes reaches; None where they are not known.
        answered: the rows hold replies, so that nothing is asked.
    """

    member: Member
    file: str
    prefix: str
    pictures: Pictures | None
    labels: Mapping[int, str]
    paths: dict[str, str]
    names: Names | None
    chance: float | None
    answered: bool = False


UNREADABLE_OPTIONS = "unreadable"


def samples(member: Member, data: Data) -> Iterator[Sample]:
    """Yield all questions of a member, in the order of its files."""
    for file in locate.member_files(member, data):
        yield from of_file(file, data, locate.member_files)


def of_file(file: QuestionFile, data: Data, sibling: Any = locate.member_files) -> Iterator[Sample]:
    """Yield the questions of one file. `sibling` finds the choice file whose rows say the true class of an image."""
    context = prepare(file, data, locate.dataset_images(file.member.dataset, data))
    ids = Ids()
    asked_now = (make(context, line, row, ids) for line, row in locate.rows(file))
    return hints.misled(asked_now, data, lambda about: named(file, about)) if hints.wanted(data) else asked_now


def named(file: QuestionFile, about: str) -> list[str]:
    """Return the classes that a file's questions name or ask for.

    Of attribute questions the values of one attribute.
    """
    names: set[str] = set()
    for _, row in locate.rows(file):
        if isinstance(row, DataError) or not isinstance(row.get("text"), str):
            continue
        if file.member.ask == "attribute":
            name, value = question_text.attribute(row["text"])
            names.update(question_text.options(row["text"]) or (value,) if name == about else ())
        elif row_kinds.kind_of_row(row, file.member.kind) == "truth":
            names.add(question_text.asked(row["text"]))
        elif isinstance(row.get("class"), str):
            names.add(row["class"])
    return sorted(names - {""})


def prepare(file: QuestionFile, data: Data | None, pictures: Pictures | None) -> FileContext:
    """Prepare the true classes, taxonomy and class names of a file, where its rows do not bring them."""
    member = file.member
    labels: Mapping[int, str] = {}
    if data is not None and member.ask == "hierarchy" and member.kind == "truth":
        labels = _labels(file, data)
    own_name = member.ask == "attribute" or file.further
    context = context_of(
        member,
        file.blob.key,
        _classes(file) if member.kind == "short" else (),
        _images(file) if member.dataset == taxonomy.INAT and member.kind != "truth" else (),
    )
    prefix = f"{member.name}/{file.stem}/" if own_name else f"{member.name}/"
    return structs.replace(context, prefix=prefix, pictures=pictures, labels=labels)


def context_of(member: Member, file: str, classes: Collection[str], image_paths: Iterable[str]) -> FileContext:
    """Return what the rows of one member share, without images.

    Args:
        classes: the classes of its rows, where they are short answers.
        image_paths: their images, where these tell a taxonomy.
    """
    return FileContext(
        member=member,
        file=file,
        prefix=f"{member.name}/",
        pictures=None,
        labels={},
        paths=taxonomy.paths(image_paths, member.depth),
        names=Names(sorted(classes), aliases().get(member.dataset)) if classes else None,
        chance=1.0 / len(classes) if classes else None,
    )


def _labels(question_file: QuestionFile, data: Data) -> Mapping[int, str]:
    """Return the hash of image to true class, from the choice file of the same level.

    Empty where the rows say it themselves.

    The file is read only if the first row's category says nothing and the path of its image does not either. 64-bit
    hashes, since paths are long: 8,580 images of the largest such file take 2 MB.
    """
    first = next((row for _, row in locate.rows(question_file) if not isinstance(row, DataError)), None)
    if first is None or _own_label(question_file.member, first):
        return {}
    choice = members().get(f"{question_file.member.dataset}/{question_file.member.level}/choice")
    if choice is None or data.path is None or data.path.suffix in (".jsonl", ".ndjson"):
        return {}
    files = locate.files(data).get(choice.name, ())
    known: dict[str, str] = {}
    return {
        hash(row["image"]): known.setdefault(row["class"], row["class"])
        for file in files
        for _, row in locate.rows(file)
        if not isinstance(row, DataError) and isinstance(row.get("image"), str) and isinstance(row.get("class"), str)
    }


def _classes(file: QuestionFile) -> frozenset[str]:
    return frozenset(
        row["class"]
        for _, row in locate.rows(file)
        if not isinstance(row, DataError) and isinstance(row.get("class"), str)
    )


def _images(file: QuestionFile) -> Iterator[str]:
    for _, row in locate.rows(file):
        if not isinstance(row, DataError) and isinstance(row.get("image"), str):
            yield row["image"]


class Ids:
    """The question ids that a file has used: a bit each, so that a million take 125 kB."""

    def __init__(self) -> None:
        self._used = bytearray()

    def take(self, number: Any, line: int) -> str:
        """Return a question's id in its file: its number, or its line where it has none of its own."""
        if type(number) is not int or not 0 <= number < MAX_IDS:
            return f"line-{line}"
        at, bit = number >> 3, 1 << (number & 7)
        if at >= len(self._used):
            self._used.extend(bytes(at + 1 - len(self._used) + 4096))
        if self._used[at] & bit:
            return f"{number}@{line}"
        self._used[at] |= bit
        return str(number)


def fault(row: Row) -> str:
    """Return why a row cannot be asked and scored; empty where it can.

    Image, text and ground truth are all that the authors' rule needs.
    """
    for key in ("image", "text", "class"):
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            value_text = "missing" if value is None else ascii(value)[:60]
            return f"{key!r} is {value_text}; a text was expected"
    return ""


def odd(member: Member, row: Row) -> str:
    """Return why a row is scored by its text alone; empty where it is an ordinary one of its member."""
    kind, options = row_kinds.kind_of_row(row, member.kind), question_text.options(row["text"])
    if kind == "choice" and len(options) < 2:
        return f"{len(options)} options in double quotes were found in the text; 2 or more were expected"
    return impossible(member, row)


def impossible(member: Member, row: Row) -> str:
    """Return why no answer to a row could be right: such a row is not asked, and replies to it are scored by its text."""
    kind, truth = row_kinds.kind_of_row(row, member.kind), row["class"].strip()
    if kind == "truth" and truth.lower() not in row_kinds.YES_NO:
        return f"'class' is {truth[:60]!r}; yes or no was expected"
    options = question_text.options(row["text"]) if kind == "choice" else ()
    if len(options) > 1 and not question_text.true_option(options, truth):
        return f"the true answer {truth[:60]!r} is not among the options"
    return ""


def make(context: FileContext, line: int, row: Row | DataError, ids: Ids) -> Sample:
    """The sample of one row. Texts of `meta` are for breaking results down; the rest of it is for scorers and exports:

    `row` (question_id, image, category), `names` (of short answers), `paths` (class to its place in the taxonomy).
    """
    member = context.member
    at = f"{context.file}, line {line:,}"
    if isinstance(row, DataError):
        return _lost(context, line, Unreadable(at, row.message, row.hint), "")
    text = row.get("text")
    text = text if isinstance(text, str) else ""
    if wrong := fault(row) or ("" if context.answered else impossible(member, row)):
        return _lost(context, line, Unreadable(at, f"{at}: {wrong}", FIX_HINT), text)
    image, gold = row["image"], row["class"]
    kind = row_kinds.kind_of_row(row, member.kind)
    options = question_text.options(text) if kind == "choice" else ()
    unreadable = bool(odd(member, row))
    if unreadable:
        kind, options = "short", ()
    elif options:
        gold = question_text.true_option(options, gold.strip())
    about = question_text.asked(text) if kind == "truth" else ""
    meta = _meta(context, {**row, "class": gold}, text, about, kind)
    if unreadable:
        meta["options"] = UNREADABLE_OPTIONS
    if options:
        meta["chance"] = 1.0 / len(options)
        if member.dataset == taxonomy.CUB and member.ask == "hierarchy":
            for name in options:
                if name.lower() not in context.paths:
                    context.paths[name.lower()] = taxonomy.by_name(name, member.depth)
    elif kind == "truth":
        meta["chance"] = 0.5
        meta["target"] = gold.strip().lower()
    elif context.chance is not None and not unreadable:
        meta["chance"] = context.chance
    if context.names is not None:
        meta["names"] = context.names
    if context.paths or member.dataset == taxonomy.CUB:
        meta["paths"] = context.paths
    meta["row"] = (row.get("question_id"), image, row.get("category"))
    blob: Blob = Unreadable(at, f"{at}: no images were given")
    if context.pictures is not None:
        blob = LazyPicture(context.pictures, image, at)
    return Sample(
        id=context.prefix + ids.take(row.get("question_id"), line),
        prompt=Prompt((Image(blob), Text(text))),
        target=gold.strip().lower() == "yes" if kind == "truth" else gold,
        kind=KINDS[kind],
        options=dict(zip(LETTERS, options, strict=False)) if len(options) <= len(LETTERS) else _many(options),
        group=f"{member.dataset}/{image}",
        meta=meta,
    )


def _many(options: tuple[str, ...]) -> dict[str, str]:
    return {f"{LETTERS[i // 26 - 1] if i >= 26 else ''}{LETTERS[i % 26]}": text for i, text in enumerate(options)}


def _lost(context: FileContext, line: int, blob: Unreadable, text: str) -> Sample:
    member = context.member
    return Sample(
        id=f"{context.prefix}line-{line}",
        prompt=Prompt((Image(blob), *((Text(text),) if text else ()))),
        target=None,
        kind=KINDS[member.kind],
        meta={"task": member.name, "dataset": member.dataset, "level": member.level, "unreadable": "yes"},
    )


def _meta(context: FileContext, row: Row, text: str, about: str, kind: QuestionKind) -> dict[str, Any]:
    member = context.member
    image = row["image"]
    if member.ask == "attribute":
        name, value = question_text.attribute(text)
        label = (value if row["class"].strip().lower() == "yes" else "") if kind == "truth" else row["class"]
        return {
            **_place(member, "0"),
            "stem": "1" if name else "other",
            **({"attribute": name} if name else {}),
            **({"attribute_group": question_text.group(name)} if question_text.group(name) else {}),
            **({"label": label.lower()} if label else {}),
            **({"asked": value.lower()} if kind == "truth" and value else {}),
        }
    label = row["class"] if kind != "truth" else _own_label(member, row)
    if not label:
        label = context.labels.get(hash(image)) or (about if row["class"].strip().lower() == "yes" else "")
    label = label.lower()
    path = taxonomy.path(member.dataset, image, label, member.depth)
    return {
        **_place(member, str(member.depth)),
        "stem": question_text.stem(kind, text),
        **({"label": label} if label else {}),
        **({"asked": about.lower()} if about else {}),
        **({"path": path} if path else {}),
    }


def _place(member: Member, depth: str) -> dict[str, Any]:
    level = member.level if member.level != BIAS else "species"
    return {"task": member.name, "dataset": member.dataset, "level": level, "depth": depth, "ask": member.ask}


def _own_label(member: Member, row: Row) -> str:
    """Return the true class of a true/false row, as its category or the path of its image says.

    Empty where neither does.
    """
    category, image = row.get("category"), row.get("image")
    if isinstance(category, str) and category not in ("", row_kinds.GENERIC) and category != member.level:
        return category
    level = member.level if member.level != BIAS else "species"
    return taxonomy.label(member.dataset, image, level) if isinstance(image, str) else ""
