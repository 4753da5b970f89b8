"""The questions of FIKA-Bench as samples. The gold answer is a sample's target and stands nowhere else.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and
line, and fails when it is asked. Evidence links and labels are not read into samples at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from snellen.benchmarks.base import Data
from snellen.benchmarks.fika import columns, locate
from snellen.benchmarks.fika.columns import FieldMap
from snellen.benchmarks.fika.locate import FIX_HINT, ManifestQuestions
from snellen.errors import DataError, UsageError
from snellen.redaction.gold import quotes
from snellen.scoring.rubric import plain_letters
from snellen.sources import Unreadable
from snellen.sources.digests import content_digest
from snellen.sources.encodings import Row
from snellen.sources.safe_paths import regular_file
from snellen.toml_text import parse_toml
from snellen.types import Image, Prompt, Sample, Text

OPTIONS = {
    "fields": "file that says which field of a row holds what (`snellen --help fika`)",
    "language": "en or zh: which text is taken where a row has both; the first one if not given",
    "manifest": "name of the manifest in the data, where there are several",
    "prompt": "file with another prompt (`snellen --help fika`)",
}
PARTS = ("domain", "subcategory", "source", "language")
PLACE = "{question}"
DAMAGED = "damaged"


class FikaQuestion(Text, frozen=True, tag="fika"):
    """The whole prompt, and in it the data set's own `question`."""

    question: str = ""


def samples(data: Data) -> Iterator[Sample]:
    """Yield one sample a row, in the order of the manifest.

    Raises:
        UsageError: no data was given, or an option's file cannot be used.
        DataError: there is no manifest, nothing of it can be read, or the archive is not the one that its side file
            says.
    """
    source = locate.questions(data)
    known, template = fields_of(data), template_of(data)
    language = _language(data)
    counts: dict[str, int] = {}
    for line, row in source.rows(known):
        at = f"{source.file}, line {line:,}"
        sample = (
            _lost(at, line, row)
            if isinstance(row, DataError)
            else _sample(row, at, line, source, known, language, template)
        )
        count = counts[sample.id] = counts.get(sample.id, 0) + 1
        yield sample if count == 1 else msgspec.structs.replace(sample, id=f"{sample.id}#{count}")


def size(data: Data) -> int | None:
    """Count the rows of the manifest; None where no data is given."""
    return None if data.path is None else sum(1 for _ in locate.questions(data).rows(fields_of(data)))


def digest(data: Data) -> str:
    """Return the digest of the manifest, the images by size and CRC-32, and the map of fields.

    Raises:
        UsageError, DataError: as `samples`.
    """
    source, known = locate.questions(data), fields_of(data)
    named_images = (
        image
        for _, row in source.rows(known)
        if not isinstance(row, DataError)
        for image in locate.named_images(known.first(row, "image"), source.pictures)
    )
    manifest = sha256(source.tree.read(source.manifest)).hexdigest()
    own = "" if known is columns.built_in() else sha256(msgspec.json.encode(known, order="deterministic")).hexdigest()
    return content_digest(manifest + own, named_images, f"{source.file}\0fika")


def notices(data: Data) -> list[str]:
    """Return warnings about the data: counts that differ from the benchmark's, unusable rows and images."""
    source, known = locate.questions(data), fields_of(data)
    counted: dict[str, set[str]] = {name: set() for name in ("domains", "subcategories", "targets")}
    rows = damaged = renamed = 0
    for sample in samples(data):
        rows += 1
        if sample.meta.get(DAMAGED):
            damaged += 1
            continue
        damaged += any(isinstance(image.blob, Unreadable) for image in sample.prompt.parts if isinstance(image, Image))
        renamed += sample.id.startswith("row-")
        counted["targets"].add(sample.group)
        for name, part in (("domains", "domain"), ("subcategories", "subcategory")):
            counted[name] |= {sample.meta[part]} if part in sample.meta else set()
    actual = {"samples": rows, **{name: len(values) for name, values in counted.items()}}
    wanted = msgspec.structs.asdict(known.expected)
    lines = [
        f"{actual[name]:,} {name} were read; the whole benchmark has {number:,}"
        for name, number in wanted.items()
        if number is not None and actual[name] != number
    ]
    if damaged:
        lines.append(f"{damaged:,} samples have a damaged row or no picture; each is recorded as failed")
    if renamed:
        lines.append(
            f"{renamed:,} samples have no id, or one that quotes the answer; they are named by their row (row-N)"
        )
    if source.others:
        lines.append(f"{source.others:,} other manifests are ignored; -o manifest=NAME selects one")
    if source.tree.left_out:
        lines.append(f"{len(source.tree.left_out):,} members of the archive are not safe to read and were left out")
    if source.checked is not None:
        lines.append(f"the archive has the SHA-256 that {source.checked.name} says")
    return lines


def fields_of(data: Data) -> FieldMap:
    """Return the map of fields that the options ask for. Raises UsageError where it cannot be used."""
    file = data.options.get("fields")
    return columns.read(None if file is None else Path(file))


def template_of(data: Data) -> str:
    """Return the prompt that the options ask for, with a place for the question.

    Raises:
        UsageError: the file cannot be read, or has no place for the question.
    """
    file = data.options.get("prompt")
    if file is None:
        return _built_in()
    try:
        regular_file(Path(file))
        return _template(Path(file).read_text("utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-o prompt={file}: cannot be read: {error}", "Check the path; it is a TOML file.") from error


@cache
def _built_in() -> str:
    return _template(files(__package__).joinpath("prompts", "fika.toml").read_text("utf-8"), "prompts/fika.toml")


def _template(text: str, name: str) -> str:
    hint = 'It is a TOML file with template = """...""", in which {question} stands once.'
    try:
        template = parse_toml(text).get("template")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"prompt {name}: {error}", hint) from error
    if not isinstance(template, str) or template.count(PLACE) != 1:
        raise UsageError(f"prompt {name}: there is no template with one {PLACE} in it", hint)
    return template.strip()


def _language(data: Data) -> str:
    wanted = data.options.get("language", "")
    if wanted not in ("", "en", "zh"):
        raise UsageError(f"-o language={wanted}: en or zh was expected")
    return wanted


def _lost(at: str, line: int, error: DataError) -> Sample:
    blob = Unreadable(at, error.message if at in error.message else f"{at}: {error.message}", error.hint)
    return Sample(f"row-{line}", Prompt((Image(blob),)), None, "short", meta={DAMAGED: "yes"})


def _sample(
    row: Row, at: str, line: int, source: ManifestQuestions, known: FieldMap, language: str, template: str
) -> Sample:
    question = _question(row, known, language)
    gold = tuple(gold_of(row, known, language))
    missing = [name for name, value in (("question", question), ("answer", gold)) if not value]
    if missing:
        names = ", ".join(known.fields.get(missing[0], ()))
        why = f"{at}: it has no {missing[0]} (looked for {names})"
        return _lost(at, line, DataError(why, f"{FIX_HINT} Or name the field: -o fields=FILE."))
    blobs = locate.row_images(known.first(row, "image"), source.pictures, at)
    prompt = Prompt((*map(Image, blobs), FikaQuestion(template.replace(PLACE, question), question=question)))
    target = columns.text(known.first(row, "target")) or gold[0]
    hidden = (*gold, *_labels(row, known))
    return Sample(
        id=_id(row, line, known, hidden),
        prompt=prompt,
        target=gold,
        kind="short",
        group=blake2b(plain_letters(target).encode(), digest_size=8).hexdigest(),
        meta=_meta(row, question, known, hidden, language),
    )


def _question(row: Row, known: FieldMap, language: str) -> str:
    if language:
        for name in known.fields.get("question", ()):
            if name.endswith(f"_{language}") and (question := columns.text(row.get(name))):
                return question
    return columns.text(known.first(row, "question"), language)


def gold_of(row: Row, known: FieldMap, language: str = "") -> Iterator[str]:
    """Yield the gold answer in each accepted form, once each, the answer itself first.

    None where the row has no answer.
    """
    forms = set()
    answer = known.first(row, "answer")
    for value in (answer, *known.all(row, "aliases")) if columns.text(answer) else ():
        for form in columns.texts(value, language):
            if form not in forms:
                forms.add(form)
                yield form


def _labels(row: Row, known: FieldMap) -> Iterator[str]:
    """Fine-grained labels, which give the answer away as the answer does; ids of targets do not."""
    for name in known.fields.get("target", ()):
        if not name.endswith("id"):
            yield from columns.texts(row.get(name))


def _id(row: Row, line: int, known: FieldMap, gold: tuple[str, ...]) -> str:
    """Return the row's own id, unless it quotes the answer: ids are written everywhere."""
    name = columns.text(known.first(row, "id"))
    return f"row-{line}" if not name or quotes(name, gold) else name


def _meta(row: Row, question: str, known: FieldMap, gold: tuple[str, ...], language: str) -> dict[str, Any]:
    """Return the groups of a sample; a value that quotes the answer is left out."""
    meta = {name: known.spelled(name, columns.text(known.first(row, name), "en")) for name in PARTS}
    meta["language"] = language or meta["language"] or columns.language_of(question)
    return {name: value for name, value in meta.items() if value and not quotes(value, gold)}
