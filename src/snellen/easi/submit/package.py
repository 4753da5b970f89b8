"""The submission package: scores, payload, provenance, rows of answers, zip.

The zip of a submission: all answers, within the leaderboard's size limit.
No prompts, no gold answers, no media. The same files give the same bytes. Where the replies are too long, all are cut to
their ends, where the answers stand, by steps, and the rows say how long they were.

Source: what EASI's leaderboard takes: deflated members `<name>/<file>` with the endings of ENDINGS (the validator of 2026-03-30).
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import msgspec
from msgspec import structs

from snellen import __version__
from snellen.atomic_write import part_folder
from snellen.benchmarks.spatial.reference.published import Figures, average
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS, Task
from snellen.easi.result import BenchmarkResult, locate_results
from snellen.easi.score import file_stem, score_result
from snellen.easi.submit.client import (
    BY_HAND,
    FILE_NAME,
    LARGEST_REQUEST,
    LARGEST_UNPACKED,
    LARGEST_ZIP,
    Request,
    multipart,
)
from snellen.easi.submit.payload import Metadata, payload
from snellen.engine.journal import storage_error
from snellen.errors import SubmissionError
from snellen.redaction import redact_bytes
from snellen.types import Record, Sample, Score

PROFILE = "easi"
OUT = Path("results/submissions")
BACK_ENDS = ("VLMEvalKit", "lmms-eval")
"""What the names of the leaderboard's back ends begin with, as files of words give them."""
PAYLOAD, PROVENANCE = "easi_results.json", "easi_provenance.json"
SAMPLES = "samples"
UPLOADS = ("auto", "request", "blob")
"""One request, the blob store, or the blob store only where one request cannot hold the whole replies."""
ENVELOPE = 1_000
"""Bytes that a request has beside payload and zip, and more than enough of them."""


@dataclass(frozen=True)
class Prepared:
    """A submission on disk.

    Attributes:
        folder: where easi_results.json, easi_results.zip, easi_provenance.json and the folder samples lie.
        details: who answered.
        payload: what easi_results.json holds.
        results: by the task's name, those that there are results of.
        archive: the zip.
        by_blob: whether the zip goes to the leaderboard's blob store first, since one request cannot hold it.
        kept: how many characters of the end of each reply the zip has at most; None: all.
    """

    folder: Path
    details: Metadata
    payload: Mapping[str, Any]
    results: Mapping[str, BenchmarkResult]
    archive: bytes
    by_blob: bool
    kept: int | None

    @property
    def zip_bytes(self) -> int:
        """How large the zip is."""
        return len(self.archive)

    @property
    def request(self) -> Request:
        """What is sent in one request; with `by_blob` it would be refused."""
        return multipart(msgspec.json.encode(self.payload), self.archive)

    @property
    def average(self) -> tuple[float | None, int]:
        """The mean in points over scored benchmarks of the eight, and their number; it is never sent."""
        return average(_scores(self.results), [TASKS[name].id for name in EIGHT])

    def words_notes(self) -> list[str]:
        """Return whose words the questions were asked in, a line each; a warning where they are not a back end's own."""
        asked: dict[str, list[str]] = {}
        for result in self.results.values():
            for source in result.provenance["sources"]:
                if words := source.get("words"):
                    asked.setdefault(words, []).append(result.task.id)
        lines = []
        for words, ids in asked.items():
            text = f"asked in the words of {words}: {', '.join(dict.fromkeys(ids))}"
            known = words.startswith(BACK_ENDS)
            hint = (
                ""
                if known
                else "; the leaderboard's figures rest on its back ends' own words: "
                "snellen prompts import --from vlmevalkit --path DIR, then --prompts FILE"
            )
            lines.append(f"{'note' if known else 'warning'}: {text}{hint}")
        return lines

    def faults(self) -> list[str]:
        """Return reasons why the results are incomplete: missing benchmarks, and each result's faults."""
        lines = [f"{TASKS[name].id}: not evaluated" for name in EIGHT if name not in self.results]
        return [*lines, *(f"{result.task.id}: {line}" for result in self.results.values() for line in result.faults)]


def prepare(
    results: Sequence[str | Path],
    details: Metadata,
    *,
    profile: str = PROFILE,
    out: str | Path = OUT,
    mention: bool = False,
    upload: str = "auto",
    trust: bool = False,
) -> Prepared:
    """Score a model's results and write the submission into a folder of its own: `<out>/<model>__<digest>`.

    The same results give the same folder and bytes, others another folder; nothing is overwritten.

    Args:
        results: run folders of Snellen, folders of such, or folders and files of lmms-eval's or VLMEvalKit's results.
        details: who answered (`payload.metadata`).
        profile: under whose rules the figures are made.
        out: what the folder is made in.
        mention: append to the remarks how the figures were made.
        upload: how the zip will be sent, one of UPLOADS.
        trust: as for `load_run`.

    Raises:
        SubmissionError: nothing has a figure, or the zip cannot be made small enough.
        SnellenError: the results cannot be read (see `score_result`), or the folder cannot be written.
    """
    located = locate_results(results, trust=trust)
    target = Path(out)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with part_folder(target) as folder:
            part = folder / "submission"
            part.mkdir()
            return _prepared(located, details, profile, target, part, mention, upload)
    except OSError as error:
        raise storage_error(Path(error.filename or target), error) from error


def prepare_unchecked(
    results: Sequence[str | Path], details: Metadata, *, profile: str, out: Path, null: Sequence[str] = ()
) -> Path:
    """Write easi_results.json and easi_results.zip of results that are not submitted; return their folder.

    Args:
        results, profile: as for `prepare`.
        details: who answered; unlike for a submission nothing in it is required.
        out: a folder that is empty.
        null: runs whose benchmark has no score in the payload.

    Raises:
        SubmissionError: the zip cannot be made small enough. SnellenError: the results cannot be read.
    """
    located = locate_results(results, trust=True) if results else {}
    (out / "submission").mkdir()
    return _prepared(located, details, profile, out, out / "submission", False, null=null).folder


def _prepared(
    located: Mapping[str, BenchmarkResult],
    details: Metadata,
    profile: str,
    target: Path,
    part: Path,
    mention: bool,
    upload: str = "auto",
    null: Sequence[str] | None = None,
) -> Prepared:
    """Write the files of a submission; `null` names runs without a score, None refuses results without any."""
    stem = file_stem(details.model_name.rpartition("/")[2])
    (part / SAMPLES).mkdir()
    results: dict[str, BenchmarkResult] = {}
    rows: dict[str, Path] = {}
    members: dict[str, bytes] = {}
    for name, result in located.items():
        prefix = f"{stem}_{file_stem(TASKS[name].id.replace('(', '').replace(')', ''))}"
        rows[f"{prefix}_samples.jsonl"] = path = part / SAMPLES / f"{prefix}_samples.jsonl"
        with path.open("wb", buffering=1 << 20) as file:
            results[name] = score_result(result, profile, partial(_write_row, file))
        members[f"{prefix}_results.json"] = readable(_metrics_file(results[name]))
    if mention:
        details = structs.replace(
            details, remarks=" ".join(filter(None, [details.remarks, _mention(results, profile)]))
        )
    scores = _scores(results)
    for result in results.values():
        if null and any(run.path.name in null for run in result.runs):
            scores[result.task.id] = Figures(None)
    content = payload(details, scores)
    if null is None and all(score.overall is None for score in scores.values()):
        raise SubmissionError(
            "no benchmark has a score; nothing to submit",
            "; ".join(f"{result.task.id}: {', '.join(result.faults) or 'no figure'}" for result in results.values()),
        )
    members[PROVENANCE] = provenance = readable(_provenance(details, results, profile))
    sent = msgspec.json.encode(content)
    archive, by_blob = _archive(rows, members, stem, LARGEST_REQUEST - len(sent) - ENVELOPE, upload)
    for name, data in ((PAYLOAD, readable(content)), (PROVENANCE, provenance), (FILE_NAME, archive.content)):
        (part / name).write_bytes(data)
    samples = b"".join(sha256(path.read_bytes()).digest() for _, path in sorted(rows.items()))
    digest = sha256(sent + archive.content + samples).hexdigest()[:12]
    folder = target / f"{'--'.join(map(file_stem, details.model_name.split('/')))}__{digest}"
    if not folder.exists():
        _sync(part)
        part.rename(folder)
    return Prepared(folder, details, content, results, archive.content, by_blob, archive.kept)


def _archive(
    rows: Mapping[str, Path], members: Mapping[str, bytes], stem: str, limit: int, upload: str
) -> tuple[Archive, bool]:
    """Build the zip, and tell whether it goes by the blob store: with `auto`, if one request cannot hold whole replies.

    Raises:
        SubmissionError: it is too large even without the replies.
    """
    largest = limit if upload == "request" else LARGEST_ZIP
    archive = slim(rows, members, stem, limit) if upload != "blob" else None
    if upload != "request" and (archive is None or archive.kept is not None):
        sizes = [path.stat().st_size for path in rows.values()] + [len(content) for content in members.values()]
        if sum(sizes) <= LARGEST_UNPACKED:
            larger = slim(rows, members, stem, LARGEST_ZIP)
            if larger is not None:
                return larger, True
    if archive is None:
        raise SubmissionError(
            f"the zip is larger than {largest / 1e6:g} MB even without the replies",
            f"The leaderboard accepts larger ones by hand: {BY_HAND}.",
        )
    return archive, False


def _write_row(file: IO[bytes], task: Task, sample: Sample, record: Record, score: Score) -> None:
    """Write one JSON line about an answer, without prompt and gold answer."""
    row: dict[str, Any] = {"id": sample.id}
    if record.repeat:
        row["repeat"] = record.repeat
    if group := sample.meta.get(task.by):
        row["group"] = group
    if record.status != "ok":
        row["status"] = record.status
    row["reply"] = None if record.response is None else record.response.text
    row["extracted"] = score.extracted
    row["hit"] = score.value
    if score.verdict in ("invalid", "unscored", "error"):
        row["verdict"] = score.verdict
    file.write(redact_bytes(msgspec.json.encode(row, enc_hook=str)) + b"\n")


def _scores(results: Mapping[str, BenchmarkResult]) -> dict[str, Figures]:
    """Return scores by id: the eight, None without results, and other benchmarks with results."""
    known = {TASKS[name].id: Figures(None) for name in EIGHT}
    return known | {result.task.id: result.figures() for result in results.values()}


def _metrics_file(result: BenchmarkResult) -> dict[str, Any]:
    return {
        "benchmark": result.task.id,
        **result.provenance,
        "metrics": [msgspec.to_builtins(metric) for metric in result.metrics.values()],
    }


def _provenance(details: Metadata, results: Mapping[str, BenchmarkResult], profile: str) -> dict[str, Any]:
    """Return everything the payload has no field for: origin and uncertainty of each score."""
    return {
        "snellen": __version__,
        "modelName": details.model_name,
        "profile": profile,
        "samples": "one line an answer; where a reply is cut to its end, reply_characters is its whole length",
        "benchmarks": {
            result.task.id: {
                "score": result.overall.value,
                "n": result.overall.n,
                "ci95": result.overall.ci95,
                "interval": msgspec.to_builtins(result.overall.interval),
                "answers": result.done,
                "of": result.expected,
                "coverage": round(result.coverage, 6),
                "incomplete": list(result.faults),
                **result.provenance,
            }
            for result in sorted(results.values(), key=lambda result: result.task.id)
        },
    }


def _mention(results: Mapping[str, BenchmarkResult], profile: str) -> str:
    prints = [
        f"{result.task.id} "
        + "+".join(
            f"{source.get('fingerprint', source.get('harness'))} {source['judging']}"
            for source in result.provenance["sources"]
        )
        for result in results.values()
    ]
    return f"[Scored by Snellen {__version__}, profile {profile}: {', '.join(prints)}]"


def _sync(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


ENDINGS = frozenset(
    (
        *("json", "jsonl", "csv", "tsv", "xlsx", "txt", "log", "parquet", "arrow", "npy", "pkl", "yaml", "yml", "xml"),
        *("md", "html", "pdf", "py", "sh", "png", "jpg", "jpeg", "gif", "svg"),
    )
)
KEPT_CHARACTERS = (8000, 6000, 4000, 3000, 2000, 1500, 1000, 750, 500, 400, 300, 200, 150, 100, 50, 0)
"""How much of the end of each reply may be kept where not all of it fits: the longest that does."""
_DATE = (1980, 1, 1, 0, 0, 0)
_decode, _encode = msgspec.json.Decoder(dict).decode, msgspec.json.Encoder().encode


class Archive(NamedTuple):
    """A zip, and the maximum number of characters of each reply in it; None: all."""

    content: bytes
    kept: int | None


def slim(rows: Mapping[str, Path], members: Mapping[str, bytes], folder: str, limit: int) -> Archive | None:
    """Build the zip with the longest replies that fit the limit.

    Args:
        rows: member name to a file of JSON lines, each with a `reply`.
        members: member name to content.
        folder: what all members lie in.
        limit: bytes of the zip at most.

    Returns:
        None where it is too large even without the replies.

    Raises:
        ValueError: a member's name would be refused.
    """
    for name in [*rows, *members]:
        full = f"{folder}/{name}"
        if ".." in full or PurePosixPath(full).suffix.removeprefix(".") not in ENDINGS or full.count("/") != 1:
            raise ValueError(f"{full!r} is no name of a member that the leaderboard takes")
    packed = cache(lambda reply_limit: _packed(rows, members, folder, limit, reply_limit))
    if (whole := packed(None)) is not None:
        return Archive(whole, None)
    # The shorter the replies, the smaller the zip.
    at = bisect_left(KEPT_CHARACTERS, True, key=lambda characters: packed(characters) is not None)
    content = packed(KEPT_CHARACTERS[at]) if at < len(KEPT_CHARACTERS) else None
    return None if content is None else Archive(content, KEPT_CHARACTERS[at])


def _packed(
    rows: Mapping[str, Path], members: Mapping[str, bytes], folder: str, limit: int, reply_limit: int | None
) -> bytes | None:
    """Build the zip; None as soon as it exceeds the limit."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted([*rows, *members]):
            member = zipfile.ZipInfo(f"{folder}/{name}", _DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            member.external_attr = 0o100644 << 16
            member._compresslevel = 9  # type: ignore[attr-defined]  # the only way to a level for an open member
            with archive.open(member, "w") as file:
                for piece in [members[name]] if name in members else _lines(rows[name], reply_limit):
                    file.write(piece)
                    if buffer.tell() > limit:
                        return None
    return buffer.getvalue() if buffer.tell() <= limit else None


def _lines(path: Path, reply_limit: int | None) -> Iterator[bytes]:
    with path.open("rb") as file:
        if reply_limit is None:
            yield from file
            return
        for line in file:
            row = _decode(line)
            reply = row.get("reply")
            if isinstance(reply, str) and len(reply) > reply_limit:
                row["reply"] = reply[-reply_limit:] if reply_limit else ""
                row["reply_characters"] = len(reply)
                line = _encode(row) + b"\n"
            yield line


def readable(content: Mapping[str, object]) -> bytes:
    """Encode JSON indented and in ASCII, as EASI writes it."""
    return json.dumps(content, indent=2).encode() + b"\n"
