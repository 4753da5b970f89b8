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
from snellen.curation.candidates import Candidate, copy_images, read_rows
from snellen.engine.run_folder import RunFolder
from snellen.errors import RunError, UsageError
from snellen.sources import digest, open_tree
from snellen.text import pretty_json

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
