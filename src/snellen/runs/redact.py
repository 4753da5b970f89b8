"""Redaction of a run for publication: answers and verdicts without gold answers.

The folder holds no evidence, no reason of a judge, no raw exchange, no trace, no session and no image. Answers that determine
the gold answer are withheld, as `runs.gold_removal` says. Their verdicts stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from snellen.engine.journal import storage_error
from snellen.engine.run_folder import JUDGE_RUNS, JUDGED, READ, RunFolder
from snellen.errors import UsageError
from snellen.models.base import ModelOptions
from snellen.redaction.gold import WITHHELD, quotes
from snellen.runs.gold_removal import GOLD_FIELDS, GoldRemoval, public_meta
from snellen.runs.judge.benchmark import UNANSWERED
from snellen.runs.run import Run
from snellen.runs.scoring import Scored, scores_of, summary_json
from snellen.sources.journal_lines import sealed
from snellen.text import pretty_json
from snellen.types import Record, Sample, Score

RESULTS, SUMMARY, META = "results.jsonl", "summary.json", "run_meta.json"
GOLD = GOLD_FIELDS | {UNANSWERED}
_JUDGE_DETAIL = "judge_"
"""Begins the names of details that a judge said; all others may repeat what was read from the reply."""
LEFT_OUT = (
    "gold answers, and predictions that determine them",
    "evidence and reasoning",
    "judge's reasons and raw exchanges",
    "traces, sessions and pictures",
    "messages of errors",
    "paths and endpoints",
)


def redact(run: Run, folder: str | Path) -> list[Path]:
    """Write results.jsonl, summary.json and run_meta.json of a run without gold answers, and return their paths.

    Args:
        run: the run; its verdicts are those of <run>_judged beside it.
        folder: where to write; must be empty, hold only an earlier redaction, or not be there.

    Raises:
        UsageError: the run is a judge's, or the folder holds other files.
        SnellenError: the run's samples cannot be read again, or the folder cannot be written.
    """
    if run.meta.spec.benchmark in JUDGE_RUNS:
        kind = {JUDGED: "verdicts", READ: "readings"}.get(run.meta.spec.benchmark, "labels of failures")
        raise UsageError(f"{run.path} holds {kind}", "Give the run that they are about; its verdicts are included.")
    target = RunFolder(folder)
    _require_free(target.path, run.path)
    profile = next(iter(run.benchmark.score))
    rows: list[dict[str, Any]] = []
    removal = GoldRemoval(run.benchmark, run.meta.spec.data, _scored(run))
    summary = run.summarize("all", each=lambda scored: rows.append(_row(run, scored, profile, removal)), save=False)
    headline = run.headline(summary.metrics)
    files = {
        RESULTS: b"".join(sealed(msgspec.json.encode(row), number) for number, row in enumerate(rows, 1)),
        SUMMARY: pretty_json({**({} if headline is None else headline.figures), **summary_json(summary)}),
        META: pretty_json(_meta(run)),
    }
    try:
        target.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(target.path, error) from error
    for name, content in files.items():
        target.write(target.path / name, content)
    return [target.path / name for name in files]


def _require_free(folder: Path, run: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir() or folder.resolve() == run.resolve():
        raise UsageError(f"--redact {folder}: a separate folder is needed", "Name a new folder.")
    others = sorted({path.name for path in folder.iterdir()} - {RESULTS, SUMMARY, META})
    meta = folder / META
    own = not meta.exists() or b'"redacted"' in meta.read_bytes()
    if others or not own:
        name = others[0] if others else META
        raise UsageError(
            f"--redact {folder}: it holds {name}, which does not belong to a redacted run",
            "Name an empty or new folder: all of its contents will be published.",
        )


def _scored(run: Run) -> Iterator[tuple[Sample, Record, Mapping[str, Score]]]:
    verdicts = run.verdicts()
    for sample, record in run.answers():
        yield sample, record, scores_of(run.benchmark, sample, record, run.benchmark.score, verdicts)


def _row(run: Run, scored: Scored, profile: str, removal: GoldRemoval) -> dict[str, Any]:
    sample, record, score = scored.sample, scored.record, scored.scores[profile]
    forms = removal.forms(sample)
    prediction = _prediction(run, scored, profile)
    withheld = prediction is not None and removal.tells_gold(sample, scored.scores, (prediction,))
    if withheld:
        prediction = WITHHELD
    row: dict[str, Any] = {"sample_id": WITHHELD if quotes(sample.id, forms) else sample.id}
    if record.repeat:
        row["repeat"] = record.repeat
    row["status"] = record.status
    row["prediction"] = prediction
    row["verdict"] = score.verdict
    row["value"] = score.value
    for name, value in score.detail.items():
        repeats_answer = withheld and not name.startswith(_JUDGE_DETAIL)
        if isinstance(value, str) and not repeats_answer and not quotes(value, forms):
            row[name] = value
    if record.error is not None:
        row["error"] = record.error.kind
    if record.response is not None:
        row["input_tokens"] = record.response.usage.input_tokens
        row["output_tokens"] = record.response.usage.output_tokens
        row["latency_s"] = round(record.response.latency_s, 3)
        reason = record.response.finish_reason
        row["finish_reason"] = WITHHELD if quotes(reason, forms) else reason
    row["attempts"] = record.attempts
    row["meta"] = dict(public_meta(sample, forms, GOLD))
    return row


def _prediction(run: Run, scored: Scored, profile: str) -> str | None:
    """Return the answer as it was read from the reply; None if there is none."""
    response = scored.record.response
    if response is None:
        return None
    if run.benchmark.judged_text is not None:
        judged = run.benchmark.judged_text(scored.sample, response.text)
        return None if judged is None else judged.reply
    extracted = scored.scores[profile].extracted
    return None if extracted is None else str(extracted)


def _meta(run: Run) -> dict[str, Any]:
    """Describe the run for publication. Paths and endpoints are omitted for privacy."""
    meta, spec = run.meta, run.meta.spec
    judge = run.verdicts()
    return {
        "redacted": list(LEFT_OUT),
        "benchmark": run.benchmark.name,
        "benchmark_version": run.benchmark.version,
        "model": _model(spec.model),
        **_agent(spec.options),
        **({} if meta.imported is None else {"imported": dict(meta.imported)}),
        "fingerprint": meta.fingerprint,
        "data": meta.identity.get("data"),
        "prompts": meta.identity.get("prompts"),
        "options": {name: value for name, value in spec.data.options.items() if not set("/\\") & set(value)},
        "generation": msgspec.to_builtins(spec.options.generation),
        "media": msgspec.to_builtins(spec.options.media),
        "seed": spec.data.seed,
        "repeats": spec.repeats,
        "coverage": msgspec.to_builtins(meta.coverage),
        "state": run.state,
        "totals": msgspec.to_builtins(meta.totals),
        "versions": meta.environment.get("versions", {}),
        "judge": None if judge is None or not judge.by else judge.model,
        "reader": None if judge is None or not judge.reader else judge.reader,
    }


def _model(name: str) -> str:
    """Return KIND:NAME; for a model in a folder, only the folder's own name."""
    kind, colon, rest = name.partition(":")
    own = Path(rest).name if Path(rest).is_absolute() or rest.startswith((".", "~")) else rest
    return f"{kind}{colon}{own}"


def _agent(options: ModelOptions) -> dict[str, str]:
    """Return an agent's model and sandbox; they are part of what was measured."""
    if options.agent_model is None:
        return {}
    provider, _, model = options.agent_model.partition("/")
    own = Path(model).name if model.startswith(("/", ".", "~")) else model
    return {"agent_model": f"{provider}/{own}", "sandbox": options.sandbox}
