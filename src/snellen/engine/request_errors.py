"""Errors of samples without an answer: the commonest texts, their counts, and a hint for each."""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from snellen.engine.final_records import final_records
from snellen.engine.image_refusals import image_refusal, refuses_images
from snellen.engine.run_folder import RunFolder
from snellen.errors import BROKEN_OFF, WAITED, open_files_advice
from snellen.redaction.gold import strike
from snellen.scoring.scores import COUNT_AS_WRONG
from snellen.text import shorten

TEXTS_KEPT = 500
"""Different texts that are counted; what is beyond counts under its kind alone."""
CHARACTERS = 240
HINTS = 4
"""Different hints that are printed of one run."""
ANSWERED = ("ok", "refused")
WITHOUT_VISION = "The model may not take images: choose a model with vision, or start the server with one."
_OF_IMAGES = (400, 413, 415, 422, 500)
"""Statuses of refusals that may be about an image; others are about keys, rates and paths."""
_DIGITS = re.compile(r"\d+")
_IMAGES = re.compile(r"image|vision|visual|multi-?modal|picture|video", re.IGNORECASE)
_STATUS = re.compile(r"\bHTTP (\d{3})\b")
_QUOTA = re.compile(r"quota|credit|billing|payment|balance", re.IGNORECASE)
_CONTEXT = re.compile(r"context (?:length|window|size)|too many tokens|maximum .{0,20}tokens", re.IGNORECASE)
_REFUSED = re.compile(r"refused|cannot connect|connect call failed|no route|unreachable|reset by peer", re.IGNORECASE)
_NAME = re.compile(r"name or service|getaddrinfo|dns|nodename|name resolution", re.IGNORECASE)
_TLS = re.compile(r"\bssl\b|certificate|\btls\b", re.IGNORECASE)
_KEY = re.compile(r"api key|unauthori[sz]ed|authentication|forbidden", re.IGNORECASE)


class ErrorCount(Struct, frozen=True):
    """One error text and how many samples ended with it; `hint` says what to do."""

    kind: str
    message: str
    count: int
    hint: str


class RequestErrors(Struct, frozen=True):
    """The samples of a run that have no answer.

    Attributes:
        answered, failed: samples (and repeats) with an answer, and without.
        errors: texts of the failed ones, the commonest first.
        counted: what the metrics do with the failed ones, as `Benchmark.unanswered`.
    """

    answered: int
    failed: int
    errors: tuple[ErrorCount, ...] = ()
    counted: str = COUNT_AS_WRONG

    @property
    def text(self) -> str:
        """Describe the failures: their number, the commonest text with its count, a hint; empty without failures."""
        if not self.failed:
            return ""
        total = self.answered + self.failed
        head = (
            f"no score: none of {total:,} samples was answered"
            if not self.answered
            else f"{self.failed:,} of {total:,} samples have no answer and {self.counted}"
        )
        return f"{head}; {self.commonest}" if self.errors else head

    @property
    def commonest(self) -> str:
        """Describe the commonest errors that lead to different hints: count, kind, text and hint; how many have others."""
        if not self.errors:
            return ""
        hints: dict[str, ErrorCount] = {}
        for error in self.errors:
            hints.setdefault(error.hint, error)
        first, *told = list(hints.values())[:HINTS]
        others = self.failed - first.count - sum(error.count for error in told)
        more = f"; {others:,} with other errors" if others else ""
        texts = [f"{error.count:,} × {error.kind}: {error.message}. {error.hint}" for error in told]
        return " ".join((f"{first.count:,} × {first.kind}: {first.message}{more}. {first.hint}", *texts))

    def as_json(self) -> dict[str, Any] | None:
        """Return the `failures` part of JSON; None without failures."""
        if not self.failed:
            return None
        rows = [{"kind": e.kind, "message": e.message, "count": e.count, "hint": e.hint} for e in self.errors]
        return {"answered": self.answered, "failed": self.failed, "errors": rows}


def request_errors(
    folder: RunFolder, gold: Mapping[str, Sequence[str]] | None = None, counted: str = COUNT_AS_WRONG
) -> RequestErrors:
    """Count the final failures of a run. Memory grows with the different texts alone.

    Args:
        folder: the run.
        gold: of a restricted benchmark, sample id to gold answers, which are struck from its errors; the text of an error
            whose sample is not among them is left out.
        counted: what the benchmark does with samples without an answer.
    """
    counts: Counter[tuple[str, str]] = Counter()
    messages: dict[tuple[str, str], str] = {}
    answered = failed = 0
    if not folder.results.exists():
        return RequestErrors(0, 0, counted=counted)
    for record in final_records(folder.results):
        if record.status in ANSWERED:
            answered += 1
            continue
        failed += 1
        kind = record.status if record.error is None else record.error.kind
        message = "" if record.error is None else record.error.message
        if gold is not None:
            message = strike(message, gold[record.sample_id]) if record.sample_id in gold else ""
        message = one_line(message)
        key = (kind, _DIGITS.sub("0", message.partition(WAITED)[0].rstrip(".")))
        if key not in counts and len(counts) >= TEXTS_KEPT:
            key, message = (kind, ""), "other texts"
        counts[key] += 1
        messages.setdefault(key, message)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    errors = tuple(
        ErrorCount(key[0], messages[key], count, advice(key[0], messages[key], answered=answered))
        for key, count in ranked
    )
    return RequestErrors(answered, failed, errors, counted)


def one_line(message: str) -> str:
    """Return the first line of an error, cut, without characters that a terminal would obey."""
    line = "".join(mark if mark.isprintable() else " " for mark in (message.splitlines() or [""])[0])
    line = " ".join(line.split()).rstrip(".")
    return shorten(line, CHARACTERS)


def advice(kind: str, message: str, *, answered: int = 0) -> str:
    """Return the hint for an error: an imperative with the option or the place to look at.

    Args:
        kind: as in results.jsonl (docs/errors.md).
        message: the error's own text, with `HTTP 404` where a server answered.
        answered: samples of the same run that the model answered.
    """
    hit = _STATUS.search(message)
    status = int(hit[1]) if hit else 0
    if status == 402 or (status in (401, 403, 429) and _QUOTA.search(message)):
        return "The account's quota is used up: top it up, then run the same command again."
    refusal = image_refusal(message) if status in _OF_IMAGES and not _CONTEXT.search(message) else None
    if refusal is not None:
        return refusal.hint
    if not answered and refuses_images(message):
        return WITHOUT_VISION
    if status == 404:
        return "Check that the server has a model of this name, and --base-url: of api: it ends in /v1 (http://HOST:PORT/v1)."
    if status == 403:
        return "Check the rights of the key, and that the service may be used from here."
    if status == 401 or kind == "auth" or _KEY.search(message):
        return "Check the key: in the variable that --key-env names, else the usual one of the model's kind (api: OPENAI_API_KEY)."
    if status == 429 or kind == "rate_limit":
        return "The server limits requests or the quota: lower --concurrency, or run the same command again later."
    if status == 413:
        return "The request is too large for the server: send smaller images with --max-long-side."
    if _CONTEXT.search(message):
        return "The prompt does not fit the model: send fewer or smaller images (--frames, --max-long-side)."
    if status in (400, 415, 422) and _IMAGES.search(message) and answered:
        return "The server takes other images: look at these in traces/; --image-format jpeg and --max-long-side change them."
    if status in (400, 415, 422) and _IMAGES.search(message):
        return (
            "The server does not take these images: look at one in traces/; --image-format png and --max-long-side 1024 change "
            "them. If it takes none at all, choose a model with vision."
        )
    if 400 <= status < 500:
        return "The server refuses the request: compare it in traces/ with the server's documentation."
    if BROKEN_OFF in message:
        return "The service ended these answers early: run the same command again, with a larger --max-attempts if it stays so."
    if status >= 500 or kind == "server":
        return "The server failed: read its log, then run the same command again."
    if os.strerror(errno.EMFILE).lower() in message.lower():
        return open_files_advice(OSError(errno.EMFILE, ""))
    if _NAME.search(message):
        return "The host is not known: check the spelling of --base-url."
    if _TLS.search(message):
        return "The secure connection failed: check http:// or https:// in --base-url."
    if kind == "connection" or _REFUSED.search(message):
        return "Check that the server is up and listens at --base-url (curl BASE_URL/models), then run the same command again."
    if kind == "timeout":
        return "The server is too slow: raise --timeout, or lower --concurrency."
    if kind == "bad_reply":
        return "Check that --base-url is an endpoint of the model's kind; api: needs an OpenAI-compatible one, up to and including /v1."
    if kind == "no_answer":
        return "The file of answers has none for these samples: check that its ids are those of the benchmark."
    if kind in ("input", "media", "data"):
        return "Check the data and images of these samples."
    return "Read the error in results.jsonl, then run the same command again."
