"""The working folder: the candidates as they were taken in, and one file of decisions a stage.

```
WORK/
  curation.json      what is curated: name, digests of the candidates and their images
  candidates.jsonl   the candidates; images/ their pictures, numbered, without metadata
  hard/              one run a model, and the judge's;   hard.json      what the models know
  leaks/             searches.jsonl;                     leaks.json     what the web gives away
  evidence/          fetched.jsonl, snapshots/;          evidence.json  what pages support
  review/            opinions.jsonl;                     review.json    what people decided
  packs/             NAME-VERSION.zip and .sha256
```

What was asked, searched, fetched and said lies in append-only journals; the .json file of a stage is computed from them and
from its settings, and can be computed again without asking anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from snellen import __version__
from snellen.curation import DECIDING
from snellen.curation.candidates import Candidate, read_rows, take_in
from snellen.engine.run_folder import RunFolder
from snellen.errors import RunError, UsageError
from snellen.sources import digest, open_tree
from snellen.text import pretty_json

FORMAT = 1
STATE = "curation.json"
Verdict = Literal["keep", "drop", "undecided"]
T = TypeVar("T")


class State(Struct, frozen=True, kw_only=True):
    """curation.json: which candidates the folder is about."""

    name: str
    candidates: str
    images: str
    count: int
    file: str
    format: int = FORMAT
    snellen: str = __version__


class Decision(Struct, frozen=True):
    """What a stage says about one candidate; `reason` in words, `detail` all that it was decided by."""

    id: str
    verdict: Verdict
    reason: str = ""
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)


class StageFile(Struct, frozen=True, kw_only=True):
    """<stage>.json. `settings` is what the stage was run with, `summary` what it says about all of them together."""

    stage: str
    settings: Mapping[str, Any]
    decisions: tuple[Decision, ...]
    summary: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """How many are kept, dropped and undecided."""
        found = Counter(one.verdict for one in self.decisions)
        return {"entered": len(self.decisions), **{name: found[name] for name in ("keep", "drop", "undecided")}}


class Work:
    """A working folder that exists. `candidates` are in the order of the file."""

    def __init__(self, path: Path, state: State, candidates: Sequence[Candidate]) -> None:
        self.path = path
        self.state = state
        self.candidates = tuple(candidates)
        self._files = RunFolder(path)

    def image(self, candidate: Candidate) -> Path:
        return self.path / "images" / candidate.image

    def folder(self, stage: str) -> Path:
        """The folder of a stage's journals, made where it is missing."""
        found = self.path / stage
        found.mkdir(exist_ok=True)
        return found

    def stage(self, stage: str) -> StageFile | None:
        """What a stage has decided; None where it has not been run."""
        return _read(self.path / f"{stage}.json", StageFile)

    def decide(self, found: StageFile) -> None:
        """Write a stage's decisions, whole or not at all."""
        self._write(f"{found.stage}.json", found)

    def entering(self, stage: str, skip: Collection[str] = ()) -> list[Candidate]:
        """The candidates that every stage before this one has kept.

        Raises:
            RunError: a stage before it has not been run and is not skipped, or has not seen all that it should have.
        """
        left = list(self.candidates)
        before = DECIDING[: DECIDING.index(stage)] if stage in DECIDING else DECIDING
        for name in before:
            if name in skip:
                continue
            found = self.stage(name)
            if found is None:
                raise RunError(
                    f"{self.path}: stage {name} has not been run, and {stage} takes what it keeps",
                    f"Run it: --stage {name}. To do without it, and have the data card say so: --skip {name}.",
                )
            verdicts = {one.id: one.verdict for one in found.decisions}
            unseen = [one.id for one in left if one.id not in verdicts]
            if unseen:
                raise RunError(
                    f"{self.path}: stage {name} has not seen {len(unseen):,} candidates that reach it now, "
                    f"{unseen[0]!r} among them",
                    f"A stage before it was run again. Run it again too: --stage {name}.",
                )
            left = [one for one in left if verdicts[one.id] == "keep"]
        return left

    def _write(self, name: str, what: Any) -> None:
        path = self.path / name
        self._files.write(path, pretty_json(what))


def open_work(path: Path, candidates: Path | None = None, images: Path | None = None, name: str = "") -> Work:
    """The working folder at `path`; made of a candidates file and its images where there is none yet.

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
                f"{path} is about other candidates; going on would mix two sets.\n"
                f"  candidates  {state.file} {state.candidates[:19]}…  ->  {candidates.name} {now[:19]}…",
                "To go on as it was, give that file or none. To start anew: --out another-folder.",
            )
        return Work(path, state, _candidates(path))
    if candidates is None or images is None:
        raise UsageError(
            f"there is no curation in {path}", "To begin one, give the candidates file and --images, where they lie."
        )
    rows = read_rows(candidates)
    tree = open_tree(images)
    try:
        found = take_in(rows, tree, path / "images")
    finally:
        tree.close()
    pictures = sha256("".join(one.sha256 for one in found).encode()).hexdigest()
    state = State(
        name=name or path.absolute().name,
        candidates=digest(candidates),
        images=f"sha256:{pictures}",
        count=len(found),
        file=candidates.name,
    )
    folder = RunFolder(path)
    folder.write(path / "candidates.jsonl", b"".join(msgspec.json.encode(one) + b"\n" for one in found))
    folder.write(path / STATE, pretty_json(state))
    return Work(path, state, found)


def _candidates(path: Path) -> list[Candidate]:
    file = path / "candidates.jsonl"
    try:
        return msgspec.json.Decoder(Candidate).decode_lines(file.read_bytes())
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise RunError(f"{file} cannot be read: {error}", "Restore it, or begin anew in another --out.") from error


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}", "Remove it, and run its stage again.") from error
