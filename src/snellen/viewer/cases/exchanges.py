"""Raw exchanges for people: requests and replies from traces/, and those with a judge; keys and restricted gold struck."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from snellen.engine.journal import record_name
from snellen.models import trace
from snellen.models.agents.transcript import without_images
from snellen.models.trace import Step
from snellen.redaction import redact
from snellen.reports.escape import clip
from snellen.runs.judge.benchmark import RAW_INPUTS, RAW_OUTPUTS
from snellen.text import pretty_json
from snellen.types import Record
from snellen.viewer.cases.opened_runs import OpenedRun, Seal

TEXT_CHARACTERS = 4_000
JSON_CHARACTERS = 60_000
MAX_ITEMS = 200
MAX_DEPTH = 40
SHOWN_ATTEMPTS = 6
SEARCHED_BYTES = 256 << 20
"""Traces that a page reads at once; for more the reader asks by the page of raw exchanges."""
_DIGEST = re.compile(rb'(?:sha256:|"sha256":\s?")([0-9a-f]{64})')


class _ExchangeLine(Struct):
    attempt: int = 1
    trace: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True)
class TracedAttempt:
    """One request and its reply as pretty JSON; of a trace in another shape all of it is in `request`."""

    number: int
    request: str
    reply: str


@dataclass(frozen=True)
class JudgeExchange:
    """What a judge or a reader was asked about a reply, and its answer.

    Attributes:
        model: who was asked.
        run: key of its run.
        questions: the texts of its question and, where it was asked again, of the second one; empty: not on record.
        replies: its answers to them.
        verdict: the reply that counts, as in its results.jsonl; None where it failed.
        error: kind and message of its failure.
        stale: True if it was asked before this reply was given.
        system: the system prompt.
        role: `Judge` or `Reader`.
    """

    model: str
    run: str
    questions: tuple[str, ...]
    replies: tuple[str, ...]
    verdict: str | None
    error: tuple[str, str] | None = None
    stale: bool = False
    system: str = ""
    role: str = "Judge"


@dataclass(frozen=True)
class RawTrace:
    """Traces of one reply: attempts, the steps of an agent, and digests of the images in the last request.

    `count` is the number of attempts in the traces; `reason` says why there is none, `unsearched` that it was not looked for.
    """

    attempts: tuple[TracedAttempt, ...] = ()
    steps: tuple[Step, ...] = ()
    digests: tuple[str, ...] = ()
    reason: str = ""
    count: int = 0
    unsearched: bool = False


def raw_trace(opened: OpenedRun, sample_id: str, repeat: int, seal: Seal, *, whole: bool = False) -> RawTrace:
    """Read the traces of one reply.

    Args:
        opened: its run.
        sample_id, repeat: the reply.
        seal: what the reader may not see.
        whole: search the files of a run whatever their size, and format its attempts; False leaves files over
            `SEARCHED_BYTES` alone, and returns steps and digests only.
    """
    if not (opened.path / "traces").is_dir():
        imported = opened.run is not None and opened.run.meta.imported is not None
        return RawTrace(
            reason="imported answers have no trace" if imported else "the run has no traces (folder traces/ is absent)"
        )
    if not whole and (size := opened.traces.size) > SEARCHED_BYTES:
        reason = f"{size >> 20:,} MB of traces are not searched until you open the raw exchange"
        return RawTrace(reason=reason, unsearched=True)
    lines = opened.traces.lines(sample_id, repeat)
    if not lines:
        return RawTrace(reason="there is no trace of this reply")
    if seal.withheld:
        return RawTrace(reason="withheld: without the data, Snellen cannot tell whether it quotes the gold answer")
    chosen = lines[-SHOWN_ATTEMPTS:] if whole else []
    attempts = [attempt for line in chosen if (attempt := _attempt(line, seal)) is not None]
    return RawTrace(tuple(attempts), tuple(_steps(lines[-1])), tuple(_digests(lines[-1])), count=len(lines))


def _attempt(line: bytes, seal: Seal) -> TracedAttempt | None:
    try:
        head = msgspec.json.decode(line, type=_ExchangeLine)
        value = msgspec.json.decode(head.trace)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, Mapping) and "request" in value:
        request, reply = value["request"], value.get("reply")
        return TracedAttempt(head.attempt, json_text(request, seal), "" if reply is None else json_text(reply, seal))
    return TracedAttempt(head.attempt, json_text(value, seal), "")


def _steps(line: bytes) -> list[Step]:
    try:
        return trace.read(msgspec.json.decode(msgspec.json.decode(line, type=_ExchangeLine).trace))
    except (ValueError, RecursionError):  # an exchange with a server, or another shape
        return []


def _digests(line: bytes) -> Iterator[str]:
    """Yield the digests of the images in a request, in its order; nothing of the reply."""
    end = line.find(b',"reply":')
    for match in _DIGEST.finditer(line, 0, len(line) if end < 0 else end):
        yield match[1].decode()


def json_text(value: Any, seal: Seal) -> str:
    """Format a JSON value for a page: images by their digest, long texts and lists cut, keys and sealed gold struck."""
    try:
        bounded = _bounded(without_images(value), MAX_DEPTH)
    except RecursionError:
        return "[nested too deeply to be shown]"
    text = pretty_json(bounded).decode("utf-8", "replace").rstrip()
    return clip(redact(seal.clean(text)), JSON_CHARACTERS)


def _bounded(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARACTERS else f"{value[:TEXT_CHARACTERS]} [… {len(value):,} characters]"
    if not isinstance(value, (list, dict)):
        return value
    if depth == 0:
        return "[…]"
    if isinstance(value, list):
        items = [_bounded(item, depth - 1) for item in value[:MAX_ITEMS]]
        return [*items, f"[… {len(value):,} items]"] if len(value) > MAX_ITEMS else items
    fields = {str(name)[:200]: _bounded(item, depth - 1) for name, item in list(value.items())[:MAX_ITEMS]}
    return {**fields, "…": f"{len(value):,} fields"} if len(value) > MAX_ITEMS else fields


class _JudgeLine(Struct):
    text: str = ""
    system: str = ""


def judge_exchange(opened: OpenedRun, record: Record, seal: Seal) -> JudgeExchange | None:
    """Return the exchange with the judge or reader about a reply; None if no such run has a record of it."""
    asked = opened.judged_by(record.sample_id, record.repeat)
    if asked is None:
        return None
    role, judge, judged = asked
    name = record_name(record.sample_id, record.repeat)
    questions = _raw_lines(judge, RAW_INPUTS, name)
    replies = _raw_lines(judge, RAW_OUTPUTS, name)
    response, error = judged.response, judged.error

    def shown(text: str) -> str:
        return clip(redact(seal.clean(text)), JSON_CHARACTERS // 3)

    return JudgeExchange(
        model=judge.model,
        run=judge.key,
        questions=tuple(shown(line.text) for line in questions),
        replies=tuple(shown(line.text) for line in replies),
        verdict=None if response is None else shown(response.text),
        error=None if error is None else (clip(error.kind, 80), shown(error.message)),
        stale=judged.started_at < record.finished_at,
        system=shown(questions[-1].system) if questions else "",
        role=role,
    )


def _raw_lines(judge: OpenedRun, folder: str, name: str) -> list[_JudgeLine]:
    """Return the last attempts on record about one reply: the question, and the second one where there was one."""
    lines = []
    for line in judge.lines_in(folder).lines(name)[-2:]:
        try:
            lines.append(msgspec.json.decode(line, type=_JudgeLine))
        except (ValueError, RecursionError):
            continue
    return lines
