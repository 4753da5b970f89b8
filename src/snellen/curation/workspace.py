"""The curation folder: candidates as taken in, and one file of decisions for each stage.

```
WORK/
  curation.json      what is curated: name, digests of the candidates and their images
  candidates.jsonl   the candidates; images/ their images, numbered, without metadata
  hard/              one run a model, and the judge's;   hard.json      what the models know
  leaks/             searches.jsonl;                     leaks.json     what the web gives away
  evidence/          fetched.jsonl, snapshots/;          evidence.json  what pages support
  review/            opinions.jsonl;                     review.json    what people decided
  packs/             NAME-VERSION.zip and .sha256
```

What was asked, searched, fetched and said lies in append-only journals; the .json file of a stage is computed from them and
from its settings, and can be computed again without asking anybody.

Candidates are possible questions, read from JSONL or CSV and checked before any request is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from snellen import __version__
from snellen.curation import DECIDING
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, MediaError, RunError, UsageError
from snellen.media import read_header
from snellen.questions.image_rows import ENDINGS, strip_metadata
from snellen.sources import Tree, digest, numbered, open_tree
from snellen.text import pretty_json

NEEDED = ("id", "image", "question", "answer")
PLAIN = ("domain", "subcategory", "source", "language", "target")
LISTS = ("aliases", "evidence")
_SHOWN = 10


class Candidate(Struct, frozen=True, kw_only=True):
    """One possible question.

    Attributes:
        id: as the user named it; it may give the answer away and stays in the working folder.
        number: its place in the file, from 1; what it is called in a pack.
        image: name of the copy under images/ of the working folder: a number and an ending.
        sha256: digest of that copy.
        question, answer, aliases: what is asked, and every accepted name.
        evidence: addresses of pages that support the answer.
        domain, subcategory, source, language: what results are broken down by.
        target: what candidates share that show the same thing; empty: the answer.
    """

    id: str
    number: int
    image: str
    sha256: str
    question: str
    answer: str
    aliases: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    domain: str = ""
    subcategory: str = ""
    source: str = ""
    language: str = ""
    target: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        """All accepted names, the answer first."""
        return tuple(dict.fromkeys((self.answer, *self.aliases)))


class CandidateRow(Struct, frozen=True):
    """A row of a candidates file, before its image is read. `where` is file and line."""

    where: str
    values: Mapping[str, Any]


def read_rows(path: Path) -> list[CandidateRow]:
    """Read every row of a candidates file: .jsonl, .json, .csv, .tsv, .parquet or .xlsx.

    Lists are JSON lists, or one text with `|` between the parts; a piece of evidence may be an object with a `url`.

    Raises:
        DataError: no rows, a field is missing or of another kind, an id twice, evidence that is no http address. All
            faults of the file are counted, and the first ten shown with their lines.
    """
    rows_read, faults, first_rows = [], [], dict[str, str]()
    for line, row in numbered(path):
        where = f"{path.name}, line {line}"
        try:
            values = _values(row)
        except ValueError as error:
            faults.append(f"{where}: {error}")
            continue
        if values["id"] in first_rows:
            faults.append(f"{where}: id {values['id']!r} is also that of {first_rows[values['id']]}")
        first_rows.setdefault(values["id"], where)
        rows_read.append(CandidateRow(where, values))
    if faults:
        rest = f"\n  and {len(faults) - _SHOWN:,} more" if len(faults) > _SHOWN else ""
        raise DataError(
            f"{path}: {len(faults):,} faults in its rows\n  " + "\n  ".join(faults[:_SHOWN]) + rest,
            f"Each row needs {', '.join(NEEDED)}; it may have {', '.join((*LISTS, *PLAIN))}.",
        )
    if not rows_read:
        raise DataError(f"{path} holds no candidates", f"Each row needs {', '.join(NEEDED)}.")
    return rows_read


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a row. Raises ValueError for the first invalid one."""
    values: dict[str, Any] = {}
    for name in NEEDED:
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
            raise ValueError(f"{name} is {'missing' if value in (None, '') else repr(value)[:60]}; a text was expected")
        values[name] = str(value).strip()
    for name in PLAIN:
        value = row.get(name)
        if value is not None and not isinstance(value, (str, int)):
            raise ValueError(f"{name} is {repr(value)[:60]}; a text was expected")
        values[name] = "" if value is None else str(value).strip()
    for name in LISTS:
        values[name] = tuple(_listed(name, row.get(name)))
    for url in values["evidence"]:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"evidence {url[:80]!r} is not an http address")
    return values


def _listed(name: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    parts: Sequence[Any] = value.split("|") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)):
        raise ValueError(f"{name} is {repr(value)[:60]}; a list was expected, or texts with | between them")
    texts = set()
    for part in parts:
        text = part.get("url") if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise ValueError(f"{name} holds {repr(part)[:60]}; a text was expected")
        if (text := text.strip()) and text not in texts:
            texts.add(text)
            yield text


def copy_images(rows: Sequence[CandidateRow], images: Tree, to: Path) -> list[Candidate]:
    """Copy each image into the folder `to` under a number, without its metadata, and return the candidates.

    Raises:
        DataError: an image is missing, or is none; with file and line.
    """
    to.mkdir(parents=True, exist_ok=True)
    width = max(6, len(str(len(rows))))
    candidates = []
    for number, row in enumerate(rows, 1):
        name = row.values["image"]
        if not images.exists(name):
            raise DataError(f"{row.where}: there is no image {name!r} in {images.path}", "Check --images.")
        try:
            data = strip_metadata(images.read(name), name)
        except MediaError as error:
            raise DataError(f"{row.where}: {error.message}", error.hint) from error
        header = read_header(data)
        ending = ENDINGS.get(header.format, ".png") if header is not None else ".png"
        copy = f"{number:0{width}d}{ending}"
        (to / copy).write_bytes(data)
        values = {**row.values, "image": copy}
        values["aliases"] = tuple(alias for alias in values["aliases"] if alias != values["answer"])
        candidates.append(Candidate(number=number, sha256=sha256(data).hexdigest(), **values))
    return candidates


FORMAT = 1
STATE = "curation.json"
Verdict = Literal["keep", "drop", "undecided"]
T = TypeVar("T")


class State(Struct, frozen=True, kw_only=True):
    """Contents of curation.json: the identity of the candidates."""

    name: str
    candidates: str
    images: str
    count: int
    file: str
    format: int = FORMAT
    snellen: str = __version__


class StageDecision(Struct, frozen=True):
    """A stage's decision on one candidate; `reason` in words, `detail` the data behind it."""

    id: str
    verdict: Verdict
    reason: str = ""
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)


class StageFile(Struct, frozen=True, kw_only=True):
    """Contents of <stage>.json. `settings` are the stage's, `summary` covers all candidates."""

    stage: str
    settings: Mapping[str, Any]
    decisions: tuple[StageDecision, ...]
    summary: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Count entered, kept, dropped and undecided candidates."""
        verdicts = Counter(decision.verdict for decision in self.decisions)
        return {"entered": len(self.decisions), **{name: verdicts[name] for name in ("keep", "drop", "undecided")}}


class Work:
    """An existing working folder. `candidates` are in file order."""

    def __init__(self, path: Path, state: State, candidates: Sequence[Candidate]) -> None:
        self.path = path
        self.state = state
        self.candidates = tuple(candidates)
        self._files = RunFolder(path)

    def image(self, candidate: Candidate) -> Path:
        return self.path / "images" / candidate.image

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage's journals; created if missing."""
        folder = self.path / stage
        folder.mkdir(exist_ok=True)
        return folder

    def stage(self, stage: str) -> StageFile | None:
        """Read the decisions of a stage; None if it was not run."""
        return _read(self.path / f"{stage}.json", StageFile)

    def decisions(self, stage: str) -> dict[str, StageDecision]:
        """Return a stage's decisions by candidate; none if it was not run."""
        file = self.stage(stage)
        return {} if file is None else {decision.id: decision for decision in file.decisions}

    def decide(self, file: StageFile) -> None:
        """Write a stage's decisions atomically."""
        self._files.write(self.path / f"{file.stage}.json", pretty_json(file))

    def entering(self, stage: str, skip: Collection[str] = ()) -> list[Candidate]:
        """Return the candidates that every earlier stage kept.

        Raises:
            RunError: a stage before it has not been run and is not skipped, or has not seen all that it should have.
        """
        entering = list(self.candidates)
        before = DECIDING[: DECIDING.index(stage)] if stage in DECIDING else DECIDING
        for name in before:
            if name in skip:
                continue
            file = self.stage(name)
            if file is None:
                raise RunError(
                    f"{self.path}: stage {name} has not been run, and {stage} needs its result",
                    f"Run it with --stage {name}, or skip it with --skip {name}; the data card records that.",
                )
            verdicts = {decision.id: decision.verdict for decision in file.decisions}
            unseen_ids = [candidate.id for candidate in entering if candidate.id not in verdicts]
            if unseen_ids:
                raise RunError(
                    f"{self.path}: stage {name} has not seen {len(unseen_ids):,} candidates that reach it now, "
                    f"{unseen_ids[0]!r} among them",
                    f"An earlier stage was run again. Run this one again too: --stage {name}.",
                )
            entering = [candidate for candidate in entering if verdicts[candidate.id] == "keep"]
        return entering


def open_work(path: Path, candidates: Path | None = None, images: Path | None = None, name: str = "") -> Work:
    """Open the working folder at `path`, or create it from a candidates file and its images.

    Raises:
        UsageError: there is none, and no candidates or no images to make it of.
        RunError: it is about other candidates than those given now.
        DataError: the candidates or their images are faulty; nothing was written.
    """
    state = _read(path / STATE, State)
    if state is not None:
        if state.format != FORMAT:
            raise RunError(f"{path / STATE}: format {state.format}; this Snellen reads {FORMAT}", "Use another --out.")
        if candidates is not None and (now := digest(candidates)) != state.candidates:
            raise RunError(
                f"{path} was started with other candidates; resuming would mix two sets.\n"
                f"  candidates  {state.file} {state.candidates[:19]}…  ->  {candidates.name} {now[:19]}…",
                "To resume, give the original file or none. To start again: --out another-folder.",
            )
        return Work(path, state, _candidates(path))
    if candidates is None or images is None:
        raise UsageError(f"{path} holds no curation", "To start one, give the candidates file and --images.")
    rows = read_rows(candidates)
    tree = open_tree(images)
    try:
        taken = copy_images(rows, tree, path / "images")
    finally:
        tree.close()
    pictures = sha256("".join(candidate.sha256 for candidate in taken).encode()).hexdigest()
    state = State(
        name=name or path.absolute().name,
        candidates=digest(candidates),
        images=f"sha256:{pictures}",
        count=len(taken),
        file=candidates.name,
    )
    folder = RunFolder(path)
    folder.write(path / "candidates.jsonl", b"".join(msgspec.json.encode(candidate) + b"\n" for candidate in taken))
    folder.write(path / STATE, pretty_json(state))
    return Work(path, state, taken)


def _candidates(path: Path) -> list[Candidate]:
    file = path / "candidates.jsonl"
    try:
        return msgspec.json.Decoder(Candidate).decode_lines(file.read_bytes())
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise RunError(f"{file} cannot be read: {error}", "Restore it, or start again with another --out.") from error


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}", "Delete it, and run its stage again.") from error
