"""Scores by sample: the file of `snellen score --per-sample`, and the samples on which profiles disagree.

What a benchmark reports beside its metrics: for JSON, for the terminal, and for pages about a run.

A page gets it by `details(run)`: the fields that the benchmark's `details` returned for the first profile, with the lines
for people under `lines`. Of acuity these are `conditions`, `pictures`, `resizing` and `prescription`
(snellen.benchmarks.acuity.prescription).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from snellen.atomic_write import replacing
from snellen.benchmarks.base import ModelFacts
from snellen.engine.journal import storage_error
from snellen.engine.output_file import JSON_LINES, require_output_file
from snellen.engine.run_folder import RunMeta
from snellen.runs.scoring import LINES, Scored, differing
from snellen.types import ProcessedImage

if TYPE_CHECKING:
    from snellen.runs.run import Run


BUFFERED_BYTES = 1 << 20


@contextmanager
def per_sample_file(path: Path, answers: Path) -> Iterator[Callable[[Scored], None]]:
    """Yield a function that writes the scores of one row as JSON lines, one for each profile.

    A line has sample_id, profile, value, extracted, verdict and reason; `repeat` from the second reply to a sample on;
    and `detail` where the profile has some. The file appears once it is complete.

    Raises:
        UsageError: `path` is no name for such a file, or that of `answers`, which is read. StorageError: it cannot be written.
    """
    require_output_file(path, "--per-sample", JSON_LINES, [answers])
    encode = msgspec.json.Encoder(enc_hook=str).encode
    with ExitStack() as files:
        with _storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = files.enter_context(replacing(path))
            file = files.enter_context(part.open("wb", buffering=BUFFERED_BYTES))

        def add(scored: Scored) -> None:
            with _storage_errors(path):
                for row in _rows(scored):
                    file.write(encode(row) + b"\n")

        yield add
        with _storage_errors(path):
            files.close()


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


def _rows(scored: Scored) -> Iterator[dict[str, Any]]:
    for profile, score in scored.scores.items():
        row: dict[str, Any] = {
            "sample_id": scored.sample.id,
            "profile": profile,
            "value": score.value,
            "extracted": score.extracted,
            "verdict": score.verdict,
            "reason": score.reason,
        }
        if score.detail:
            row["detail"] = score.detail
        if scored.record.repeat:
            row["repeat"] = scored.record.repeat
        yield row


def disagreement(scored: Scored) -> list[str]:
    """Format what each profile read and why, if they differ in value or verdict; else return nothing."""
    if not differing(scored.scores):
        return []
    width = max(map(len, scored.scores))
    repeat = f" (repeat {scored.record.repeat})" if scored.record.repeat else ""
    lines = [f"{scored.sample.id}{repeat}"]
    for profile, score in scored.scores.items():
        read = "nothing" if score.extracted is None else repr(score.extracted)
        worth = "unscored" if score.value is None else f"{score.value:g}"
        reason = f" ({score.reason})" if score.reason else ""
        lines.append(f"  {profile:<{width}}  {score.verdict} {worth}, read {read}{reason}")
    return lines


def model_facts(meta: RunMeta) -> ModelFacts:
    """Return what a run recorded about its model. Sizes of images that cannot be read count as unknown."""
    executor = meta.environment.get("executor")
    recorded = executor.get("images") if isinstance(executor, Mapping) else None
    try:
        images = msgspec.convert(recorded or (), tuple[ProcessedImage, ...])
    except msgspec.ValidationError:  # a folder from elsewhere may hold anything
        images = ()
    usable = tuple(
        each for each in images if min(each.sent_width, each.sent_height, each.width or 1, each.height or 1) > 0
    )
    return ModelFacts(meta.spec.model, meta.spec.options.media, usable)


def details(run: Run, profile: str | None = None) -> Mapping[str, Any]:
    """Return the details of one profile (None: the first); from summary.json where it is current, else by scoring again.

    It is empty for a benchmark that reports metrics alone, and for a run without answers.
    """
    if run.benchmark.details is None:
        return {}
    name = profile or next(iter(run.benchmark.score))
    if run.summary_is_current():
        saved = msgspec.json.decode(run.folder.summary.read_bytes(), type=dict[str, Any])
        rows = [row for row in saved.get("profiles") or () if row.get("profile") == name and LINES in row]
        if rows:
            return {field: value for field, value in rows[0].items() if field not in ("profile", "metrics")}
    return run.summarize(name, save=False).details.get(name, {})


def detail_lines(run: Run, profile: str | None = None) -> list[str]:
    """Return the lines for people."""
    return [str(line) for line in details(run, profile).get(LINES, ())]
