"""Replay recorded answers as a model: answers from any results file, `--model replay:PATH`.

The answers are copied once, in a form that is the same for every source, into a temporary file, and found there by a hash
of sample id and repeat: memory is 24 bytes an answer, whatever their length.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import msgspec

from snellen.errors import DataError, NoAnswerError, PreflightError, RefusalError, UsageError
from snellen.models.base import Model, ModelOptions
from snellen.types import Failure, Prompt, Response, Status


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One line of the temporary file."""

    sample_id: str
    repeat: int
    status: Status
    text: str | None
    failure: Failure | None


class Meeting(msgspec.Struct, frozen=True):
    """Coverage of the samples by a file: samples, those with an answer, rows of the file, its first id, rows that cannot
    be used.
    """

    samples: int
    answered: int
    rows: int
    first_id: str
    unusable: tuple[str, ...] = ()


def open_model(name: str, options: ModelOptions) -> ReplayModel:
    """Return the model behind `--model replay:PATH`. Nothing is read but the file's digest until preflight."""
    return ReplayModel(name, options.id_is)


class ReplayModel(Model):
    """Returns the answers that a file holds; the engine asks it by sample id (`answer_for`), not by prompt.

    Args:
        name: a run's folder, or a file in any form that `snellen score` reads.
        id_is: what the file's ids are, as of `snellen score --id-is`; `meet` tells them to the model.

    Raises:
        UsageError: no path is named.
    """

    supports = frozenset({"system", "history"})  # the answers are there, whatever the prompts

    def __init__(self, name: str, id_is: str = "id") -> None:
        if not name:
            raise UsageError("--model replay: names no file.", "Write --model replay:results/run, or replay:FILE.")
        self.name = f"replay:{name}"
        self._path = Path(name)
        self.id_is = id_is
        self._file_ids: dict[str, str] = {}
        self._file: IO[bytes] | None = None
        self._codes = array("q")
        self._rows = array("q")
        self._starts = array("q")
        self._unusable: tuple[str, ...] = ()

    def identity(self) -> Mapping[str, Any]:
        """Return a digest of the file's content, not its place."""
        from snellen.sources.digests import digest

        path = self._path / "results.jsonl" if self._path.is_dir() else self._path
        try:
            own = {} if self.id_is == "id" else {"id_is": self.id_is}
            return {"kind": "replay", "answers": digest(path), **own}
        except DataError as error:
            raise PreflightError(f"--model {self.name}: {error.message}", error.hint) from error

    async def preflight(self) -> None:
        """Read the file and index it.

        Raises:
            PreflightError: it cannot be read, holds no answer, or there is no room for the temporary copy.
        """
        self.read()

    def read(self) -> None:
        """Read the file and index it, without an event loop."""
        if self._file is not None:
            return
        try:
            self._index()
        except DataError as error:
            raise PreflightError(f"--model {self.name}: {error.message}", error.hint) from error
        except OSError as error:
            raise PreflightError(
                f"--model {self.name}: the answers cannot be copied to {tempfile.gettempdir()}: {error.strerror}",
                "Make room there, or set TMPDIR to a folder with room.",
            ) from error
        if not self._codes:
            raise PreflightError(f"--model {self.name}: no row of the file holds an answer")

    def _index(self) -> None:
        import numpy as np

        from snellen.formats import final, open_answers, survey

        source = open_answers(self._path)
        contents = survey(source)
        encode = msgspec.json.Encoder().encode
        codes, starts, at = array("q"), array("q", [0]), 0
        file = tempfile.TemporaryFile(prefix="snellen-replay-")  # noqa: SIM115 - closed in close()
        try:
            for answer in final(source, contents):
                line = encode(_Entry(answer.sample_id, answer.repeat, answer.status, answer.text, answer.failure))
                at += file.write(line)
                starts.append(at)
                codes.append(_code(answer.sample_id, answer.repeat))
            file.flush()
        except BaseException:
            file.close()
            raise
        unsorted = np.frombuffer(codes, dtype=np.int64) if codes else np.empty(0, dtype=np.int64)
        order = np.argsort(unsorted, kind="stable")
        self._codes = array("q", unsorted[order].tobytes())
        self._rows = array("q", order.astype(np.int64).tobytes())
        self._starts = starts
        self._unusable = tuple(contents.problems.lines("cannot be used"))
        self._file = file

    def meet(self, pairs: Iterable[tuple[str, str]]) -> Meeting:
        """Learn which id of the file belongs to which sample, and count the answers that are there.

        Args:
            pairs: (the id that the file would use, the sample's own id) of every sample of the run.
        """
        self.read()
        samples = answered = 0
        for file_id, sample_id in pairs:
            samples += 1
            if file_id != sample_id:
                self._file_ids[sample_id] = file_id
            if self._find(file_id, 0) is not None:
                answered += 1
        return Meeting(
            samples, answered, len(self._codes), self._entry(0).sample_id if self._codes else "", self._unusable
        )

    def holds(self, file_id: str) -> bool:
        """Return True if the file answers this id, as the file writes it."""
        self.read()
        return self._find(file_id, 0) is not None

    async def answer_for(self, sample_id: str, repeat: int, prompt: Prompt) -> Response:
        """Return the answer to one sample. Raises NoAnswerError where the file has none, RefusalError where it was refused."""
        entry = self._find(self._file_ids.get(sample_id, sample_id), repeat)
        if entry is None:
            again = f", repeat {repeat}" if repeat else ""
            raise NoAnswerError(f"{self._path} holds no answer to {sample_id!r}{again}")
        if entry.text is not None:
            return Response(entry.text)
        why = entry.failure.message if entry.failure is not None else "no reason is given"
        if entry.status == "refused":
            raise RefusalError(why)
        raise NoAnswerError(f"{self._path} holds a failure for {sample_id!r}: {why}")

    async def answer(self, prompt: Prompt) -> Response:
        """Raise NoAnswerError: a prompt alone does not tell which sample it belongs to."""
        raise NoAnswerError("replay finds answers by sample id; ask it through a run")

    async def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _find(self, sample_id: str, repeat: int) -> _Entry | None:
        if self._file is None:
            raise NoAnswerError(f"{self._path} was not read yet: preflight comes first")
        code = _code(sample_id, repeat)
        at = bisect_left(self._codes, code)
        while at < len(self._codes) and self._codes[at] == code:
            entry = self._entry(self._rows[at])
            if (entry.sample_id, entry.repeat) == (sample_id, repeat):
                return entry
            at += 1
        return None

    def _entry(self, row: int) -> _Entry:
        start = self._starts[row]
        line = os.pread(self._file.fileno(), self._starts[row + 1] - start, start)  # type: ignore[union-attr]
        return msgspec.json.decode(line, type=_Entry)


def _code(sample_id: str, repeat: int) -> int:
    return int.from_bytes(blake2b(f"{repeat}\0{sample_id}".encode(), digest_size=8).digest(), "little", signed=True)
