"""Figures of the runs for Prometheus: `GET /metrics` in the text format 0.0.4, as the index has them at that moment.

How many requests are in flight stands in no run folder, so that it is no figure here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from snellen.redaction import redact
from snellen.viewer.index import RunEntry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_RUNS = 500
"""Runs that have series: those under way first, then the newest. Each has at most 16."""
LABEL_CHARACTERS = 200
_STATES = ("running", "partial", "complete", "limited", "failed", "redacted", "torn")


_OF_RUN: Mapping[str, str] = {
    "run_info": "1 for each run, with its benchmark, model and state.",
    "run_requested": "Records that the run is to make.",
    "run_done": "Samples with an answer or a refusal.",
    "run_failed": "Samples without an answer.",
    "run_tokens": "Tokens used, by direction.",
    "run_cost_dollars": "US dollars spent.",
    "run_coverage_ratio": "Share of the whole benchmark with a record, 0 to 1.",
    "run_score": "First metric of the default profile.",
    "run_score_low": "Low end of its 95 % interval.",
    "run_score_high": "High end of its 95 % interval.",
    "run_started_seconds": "Time of the first record, seconds since the epoch.",
    "run_last_record_seconds": "Time of the last record, seconds since the epoch.",
}


def metrics_text(entries: Sequence[RunEntry]) -> str:
    """Return the exposition of runs: counts by state over all of them, and series of at most MOST_RUNS."""
    order = sorted(entries, key=lambda entry: (entry.state != "running", -(entry.ended or 0.0), entry.key))
    shown = order[:MOST_RUNS]
    lines = _head("runs", "Runs below the folder, by state.")
    states = [entry.shown_state for entry in entries]
    lines += [_line("runs", {"state": state}, states.count(state)) for state in _STATES]
    lines += [*_head("runs_omitted", "Runs without series."), _line("runs_omitted", {}, len(entries) - len(shown))]
    series: dict[str, list[str]] = {name: [] for name in _OF_RUN}
    for entry in shown:
        for name, labels, value in _series(entry):
            if value is not None and math.isfinite(value):
                series[name].append(_line(name, {"run": entry.key, **labels}, value))
    for name, text in _OF_RUN.items():
        if series[name]:
            lines += [*_head(name, text), *series[name]]
    return "\n".join(lines) + "\n"


def _series(entry: RunEntry) -> Iterator[tuple[str, dict[str, str], float | None]]:
    totals, headline = entry.totals, entry.headline
    yield "run_info", {"benchmark": entry.benchmark, "model": entry.model, "state": entry.shown_state}, 1
    yield "run_requested", {}, entry.requested or entry.expected
    yield "run_done", {}, totals.done
    yield "run_failed", {}, totals.error + totals.timeout
    yield "run_tokens", {"direction": "input"}, totals.input_tokens
    yield "run_tokens", {"direction": "output"}, totals.output_tokens
    yield "run_cost_dollars", {}, totals.cost
    yield "run_coverage_ratio", {}, entry.coverage
    yield "run_started_seconds", {}, entry.started
    yield "run_last_record_seconds", {}, entry.ended
    if headline is not None:
        named = {"metric": headline.name, "profile": next(iter(entry.metrics), ""), "unit": headline.unit}
        low, high = headline.ci95 or (None, None)
        for name, value in (("run_score", headline.value), ("run_score_low", low), ("run_score_high", high)):
            yield name, named, value


def _head(name: str, text: str) -> list[str]:
    return [f"# HELP snellen_{name} {text}", f"# TYPE snellen_{name} gauge"]


def _line(name: str, labels: dict[str, str], value: float) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"snellen_{name}{f'{{{written}}}' if written else ''} {value!r}"


def _escaped(text: str) -> str:
    """Return a label's value: names of models and folders are untrusted, and may hold line breaks or a key.

    One that is changed ends with a digest, so that two values never become one.
    """
    text = redact(text)
    plain = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    if plain != text or len(plain) > LABEL_CHARACTERS:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        plain = f"{plain[: LABEL_CHARACTERS - len(digest) - 1]}~{digest}"
    return plain.replace("\\", "\\\\").replace('"', '\\"')
