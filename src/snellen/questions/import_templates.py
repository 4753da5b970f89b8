"""Templates of FG-BMK's authors, read out of their question files, as a TOML file for `--templates`.

The released repository holds no templates. Its question files hold them filled in: each text is one of a few frames with a
class, or a list of classes, in it. What is put in is taken out again; so are the words for the level and for the thing shown.

Source: SEU-VIPGroup/FG-BMK at 7765a10, `benchmark/human-oriented`; forms of the questions as in benchmarks/fgbmk.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.fgbmk import locate, question_text
from snellen.benchmarks.fgbmk.catalogue import BIAS, Member, catalogue
from snellen.benchmarks.fgbmk.row_kinds import members_of_rows
from snellen.benchmarks.registry import MANIFEST
from snellen.errors import DataError
from snellen.questions.templates import FIELDS, load_templates
from snellen.sources.blobs import FileBlob
from snellen.sources.rows import salvaged

MOST_STEMS = 16
_QUOTED = re.compile(r'"[^"]*"(?:, "[^"]*")*')
_BRACKETED = re.compile(r"(?<=\[)[^\[\]]+(?=\])")


class ImportedTemplates(Struct, frozen=True):
    """Stems by section of a template file, what a user must know of them, and whose words they are."""

    stems: Mapping[str, tuple[str, ...]]
    remarks: tuple[str, ...]
    source: str

    def toml(self) -> str:
        """Return the file for `--templates`."""
        lines = [
            "# Read by `snellen prompts import`. The words belong to FG-BMK's authors.",
            f"source = {_value(self.source)}",
        ]
        for section, stems in self.stems.items():
            lines += ["", f"[{section}]", "stems = [", *(f"    {_value(stem)}," for stem in stems), "]"]
        plurals = load_templates("default").plurals
        lines += ["", "[plurals]", *(f"{word} = {_value(plural)}" for word, plural in plurals.items())]
        return "\n".join(lines) + "\n"


def read(path: Path) -> ImportedTemplates:
    """Read the templates of a checkout, of a part of it, or of one question file.

    Of data sets with different stems those with more questions count; the others are named in the remarks.

    Raises:
        DataError: no question file of FG-BMK is there, or none whose texts are filled-in templates; or Snellen built the set.
    """
    counts: defaultdict[Member, Counter[str]] = defaultdict(Counter)
    faults: dict[Member, str] = {}
    built: set[Path] = set()
    for files in locate.files(Data(path=path)).values():
        for file in files:
            if isinstance(file.blob, FileBlob) and (by_snellen := _built(file.blob.path)):
                built.add(by_snellen)
                continue
            rows = salvaged(file.blob)
            owned = (
                members_of_rows(rows, file.attributes)
                if file.mixed or file.attributes
                else ((line, row, file.member) for line, row in rows)
            )
            for line, row, member in owned:
                if member is None or isinstance(row, DataError) or (file.mixed and member != file.member):
                    continue
                text = row.get("text")
                stem = stem_of(member, text) if isinstance(text, str) else ""
                if not stem:
                    faults.setdefault(
                        member, f"line {line:,} asks in a form that is not known here: {str(text)[:80]!r}"
                    )
                counts[member][stem] += 1
    for member, used in counts.items():
        if len(used) > MOST_STEMS or used.total() < len(used) * 2:
            faults.setdefault(member, f"its {used.total():,} questions have {len(used):,} stems")
    votes: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for member in counts.keys() - faults.keys():
        votes[section_of(member)][tuple(sorted(counts[member]))] += counts[member].total()
    if not votes:
        why = "; ".join(f"{member.name}: {fault}" for member, fault in faults.items())
        if built:
            why = f"{why or 'no other file is there'}; Snellen built the set in {', '.join(map(str, sorted(built)))}"
        raise DataError(f"{path}: no question file holds filled-in templates: {why}", locate.HINT)
    stems = {
        section: max(votes[section].items(), key=lambda vote: vote[::-1])[0] for section in FIELDS if section in votes
    }
    source = _source([member for member in counts if member not in faults])
    return ImportedTemplates(_with_bias(stems), tuple(_remarks(stems, counts, faults)), source)


def _built(path: Path) -> Path | None:
    """Return the folder of the set that Snellen built and a question file belongs to; None for a file of others."""
    return next((folder for folder in path.absolute().parents[:3] if (folder / MANIFEST).is_file()), None)


def _with_bias(stems: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Add the yes/no stems for knowledge bias, which the released files ask with them."""
    return {"bias": stems["truth"], **stems} if "truth" in stems else stems


def _remarks(
    stems: Mapping[str, tuple[str, ...]], counts: Mapping[Member, Counter[str]], faults: Mapping[Member, str]
) -> list[str]:
    lines = [f"{member.name}: {fault}; its stems were left out" for member, fault in faults.items()]
    other = [
        member.name
        for member in counts
        if member not in faults and tuple(sorted(counts[member])) != stems[section_of(member)]
    ]
    if other:
        lines.append(f"other stems are in {', '.join(other)}: import them by themselves, with --path to their folder")
    missing = [section for section in FIELDS if section not in stems and not (section == "bias" and "truth" in stems)]
    if missing:
        lines.append(f"no question file holds {', '.join(missing)}; the file has no words for them")
    return lines


def _source(members: list[Member]) -> str:
    data_sets = ", ".join(dict.fromkeys(member.dataset for member in members))
    return f"FG-BMK's authors, from their question files of {data_sets}"


def section_of(member: Member) -> str:
    """Return the section of a template file that words a member's questions."""
    if member.level == BIAS:
        return BIAS
    return f"attribute_{member.kind}" if member.ask == "attribute" else member.kind


def stem_of(member: Member, text: str) -> str:
    """Return the template that a question was made of; empty where its form is not known.

    >>> from snellen.benchmarks.fgbmk.catalogue import members
    >>> stem_of(members()["cub/species/truth"], "Is it, as a species, known as sora? Yes or no.")
    'Is it, as a {level}, known as {name}? Yes or no.'
    """
    frame, put_in = text, ""
    if member.kind == "choice":
        lists = list(_QUOTED.finditer(text)) or list(_BRACKETED.finditer(text))
        if len(lists) != 1:
            return ""
        put_in = "quoted" if text[lists[0].start()] == '"' else "values"
        start, end = lists[0].span()
    elif member.kind == "truth":
        attribute = member.ask == "attribute"
        put_in, name = "name", question_text.attribute(text)[1] if attribute else question_text.asked(text)
        end = len(text[: text.rfind("?")].rstrip())
        start = end - len(name)
        if not name or text[start:end] != name:
            return ""
    if put_in:
        frame = f"{text[:start]}\0{text[end:]}"
    frame = frame.replace("{", "{{").replace("}", "}}")
    if member.ask == "attribute":
        asked_for = question_text.attribute(text)[0]
        frame = re.sub(re.escape(asked_for), "{attribute}", frame, flags=re.IGNORECASE) if asked_for else frame
    else:
        frame = _levels().sub(lambda word: "{levels}" if word[0] in _plurals() else "{level}", frame)
    return _nouns().sub("{noun}", frame).replace("\0", f"{{{put_in}}}")


@cache
def _levels() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, (*catalogue().level_words, *_plurals())))})\b")


@cache
def _plurals() -> frozenset[str]:
    """Return the plurals of level words that differ from the word."""
    return frozenset(plural for word, plural in load_templates("default").plurals.items() if plural != word)


@cache
def _nouns() -> re.Pattern[str]:
    words = {*catalogue().nouns, *(noun for data_set in catalogue().dataset for noun in data_set.nouns)}
    return re.compile(rf"(?<!\{{)\b(?:{'|'.join(sorted(map(re.escape, words)))})\b(?!\}})")


def _value(text: str) -> str:
    return msgspec.json.encode(text).decode()
