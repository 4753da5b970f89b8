"""Export of a run as one Inspect log (.eval): every profile is a scorer, repeats are epochs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from snellen import __version__
from snellen.errors import SnellenError
from snellen.formats.inspect_log import EmbeddedImages, InspectLogWriter, plain_or_parts, safe_id, text_part
from snellen.formats.writers import Exported, gold_text
from snellen.models.trace import Step
from snellen.runs.interchange.source import ACCURACY, ExportSource, InterchangeAnswer
from snellen.scoring.rubric import gold_forms
from snellen.text import shorten, slug
from snellen.types import Image, Metric, Part, Record, Sample, Score, Text, Usage

STATUS = {"complete": "success", "limited": "success", "running": "started", "partial": "cancelled", "failed": "error"}
"""State of a run to the status of a log."""
PROVIDERS = {"api": "openai-api", "gemini": "google", "local": "hf"}
"""Kind of a model to the provider before its name in Inspect; other kinds keep their name."""
_NAME_LENGTH = 60


def write_inspect(source: ExportSource, folder: Path, model: str, stamp: str) -> Exported:
    """One Inspect log (.eval): questions with images, replies, usage, errors, scores of every profile."""
    run, settings = source.run, source.settings
    started, state = source.started_at, source.overview.state
    name = inspect_model(source)
    converted = InspectSamples(name, images=settings.images)
    spec = _spec(source, name, started)
    plan = {"name": "plan", "steps": [], "config": _generation(source)}
    path = folder / f"{iso_time(started)[:19].replace(':', '-')}+00-00_{_task_slug(source)}_{spec['task_id']}.eval"
    finished, completed = started, 0
    with InspectLogWriter(path, {"eval": spec, "plan": plan}) as log:
        for answer in source.answers():
            log.add(*converted.convert(answer))
            finished = max(finished, answer.record.finished_at)
            completed += answer.record.error is None
        header: dict[str, Any] = {
            "status": STATUS[state],
            "eval": spec,
            "plan": plan,
            "results": {
                "total_samples": source.overview.requested or source.expected,
                "completed_samples": completed,
                "logged_samples": log.samples,
                "scores": [_scorer(source, profile, log.samples) for profile in run.benchmark.score],
            },
            "stats": {
                "started_at": iso_time(started),
                "completed_at": "" if state == "running" else iso_time(finished),
                "model_usage": {name: token_counts(converted.usage)},
            },
        }
        if state == "failed":
            header["error"] = error_json("no sample was answered")
        log.finish(header)
    return Exported((path,), tuple(_notes(converted, source)))


def inspect_model(source: ExportSource) -> str:
    """Return the name of the model as Inspect has it, `provider/name`.

    Of a model in a folder of this machine it holds the last part of the path alone.
    """
    kind = source.model_kind
    return f"{PROVIDERS.get(kind, slug(kind))}/{source.model}" if kind != source.model else f"snellen/{kind}"


def _task_slug(source: ExportSource) -> str:
    return slug(source.run.benchmark.name, _NAME_LENGTH).replace("_", "-") or "benchmark"


def _spec(source: ExportSource, model: str, started: float) -> dict[str, Any]:
    """Return the EvalSpec: what was run. Paths, endpoints and the names of key variables are not part of it."""
    run = source.run
    meta, benchmark = run.meta, run.benchmark
    identity = {name: meta.identity[name] for name in ("data", "prompts") if meta.identity.get(name)}
    return {
        "eval_id": _identifier(meta.fingerprint, "eval"),
        "run_id": _identifier(meta.fingerprint, "run"),
        "task_id": _identifier(meta.fingerprint, "task"),
        "created": iso_time(started),
        "task": benchmark.name,
        "task_version": benchmark.version,
        "task_display_name": benchmark.name,
        "dataset": {"name": benchmark.name, "samples": source.size, "shuffled": False},
        "model": model,
        "model_generate_config": _generation(source),
        "config": {"limit": meta.coverage.limit, "epochs": meta.spec.repeats} | {"log_images": source.settings.images},
        "packages": {"snellen": str(_version(meta.environment))},
        "scorers": [{"name": profile} for profile in benchmark.score],
        "metadata": {
            "snellen": {
                "fingerprint": meta.fingerprint,
                "benchmark_version": benchmark.version,
                "model_kind": source.model_kind,
                "seed": meta.spec.data.seed,
                "gold": not source.settings.no_gold,
                **identity,
            }
        },
    }


def _generation(source: ExportSource) -> dict[str, Any]:
    """Return the sampling settings that Inspect knows; extra fields of requests may hold anything and are left out."""
    generation = source.run.meta.spec.options.generation
    config = {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "top_k": generation.top_k,
        "presence_penalty": generation.presence_penalty,
        "frequency_penalty": generation.frequency_penalty,
        "max_tokens": generation.max_tokens,
        "seed": generation.seed,
        "stop_seqs": list(generation.stop) or None,
    }
    return {name: value for name, value in config.items() if value is not None}


def _version(environment: Mapping[str, Any]) -> object:
    versions = environment.get("versions")
    return versions.get("snellen", __version__) if isinstance(versions, Mapping) else __version__


def _scorer(source: ExportSource, profile: str, samples: int) -> dict[str, Any]:
    """Return one profile's metrics: accuracy with the ends of its interval, then the benchmark's other metrics."""
    accuracy = source.accuracies[profile]
    metrics = {} if accuracy.value is None else {ACCURACY: _metric(ACCURACY, accuracy.value, accuracy)}
    if accuracy.ci95 is not None:
        for name, value in zip(("ci_lower", "ci_upper"), accuracy.ci95, strict=True):
            metrics[name] = {"name": name, "value": value, "params": {"level": 0.95}}
    for metric in source.summary.metrics[profile]:
        if metric.value is not None and metric.name not in metrics:
            metrics[metric.name] = _metric(metric.name, metric.value, metric)
    unscored = source.unscored[profile]
    return {
        "name": profile,
        "scorer": profile,
        "scored_samples": samples - unscored,
        "unscored_samples": unscored,
        "params": {},
        "metrics": metrics,
        "metadata": {"about": source.run.benchmark.profiles[profile]},
    }


def _metric(name: str, value: float, metric: Metric) -> dict[str, Any]:
    """Return an EvalMetric, with interval, n and coverage in its metadata."""
    about = {
        "n": metric.n,
        "unit": metric.unit,
        "coverage": metric.coverage,
        "ci95": None if metric.ci95 is None else list(metric.ci95),
        "interval": None if metric.interval is None else metric.interval.text,
        "chance": metric.chance,
    }
    filled_fields = {field: value for field, value in about.items() if value is not None}
    return {"name": name, "value": value, "params": {}, "metadata": filled_fields}


def _identifier(fingerprint: str, part: str) -> str:
    """Return an id of 22 letters and digits that follows from the run's fingerprint."""
    return hashlib.sha256(f"{part}\0{fingerprint}".encode()).hexdigest()[:22]


def _notes(converted: InspectSamples, source: ExportSource) -> list[str]:
    texts = {
        f"{converted.unreadable:,} images are not embedded: unreadable, or of an unknown format": converted.unreadable,
        f"{converted.too_large:,} images are not embedded: their samples have too many bytes": converted.too_large,
        f"{converted.videos:,} videos are not embedded": converted.videos,
        f"{converted.renamed:,} ids have another form in the log; metadata.snellen.sample_id has them": converted.renamed,
    }
    return [*(text for text, count in texts.items() if count), *source.notes(images=source.settings.images)]


LARGEST_SAMPLE = 64 << 20
"""Bytes of images that one sample embeds at most; readers, this package's too, bound what they unpack of a member."""
SHORT, SHORT_FIELD = 500, 100
"""Characters of a question, and of a field of metadata, in the list of samples."""
OWN = "snellen"
"""Field of the metadata that holds what Inspect has no place for."""
STOP_REASONS = {
    **dict.fromkeys(("stop", "done", "end_turn", "stop_sequence", "completed", "STOP", "eos"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "cut_off", "cut off", "MAX_TOKENS", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("model_context_window_exceeded", "model_length"), "model_length"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("content_filter", "refusal", "refused", "SAFETY"), "content_filter"),
}
"""Words of Snellen and of providers for the end of a reply, to those of Inspect."""


class InspectSamples:
    """Converts answers to samples of an Inspect log, and counts what had to be left out.

    Attributes:
        unreadable: images that cannot be read or have no format that pages show.
        too_large: images beyond LARGEST_SAMPLE.
        videos: videos, which are not embedded.
        renamed: ids that cannot be the name of a member.
        usage: tokens of all samples.
    """

    def __init__(self, model: str, *, images: bool) -> None:
        self._model, self._images = model, images
        self.unreadable = self.too_large = self.videos = self.renamed = 0
        self.usage = Usage()

    def convert(self, answer: InterchangeAnswer) -> tuple[dict[str, Any], dict[str, Any], EmbeddedImages]:
        """Return a sample (EvalSample), its line in the list of samples, and its images."""
        sample, record = answer.sample, answer.record
        images = EmbeddedImages()
        question = self._question(sample, images)
        conversation = _conversation(answer.steps) or _reply_messages(record)
        usage = {} if record.response is None else {self._model: token_counts(record.response.usage)}
        if record.response is not None:
            self.usage += record.response.usage
        sample_id = safe_id(sample.id)
        self.renamed += sample_id != sample.id
        snellen_fields = {
            "sample_id": sample.id,
            "status": record.status,
            "kind": sample.kind,
            "group": sample.group,
            "attempts": record.attempts,
            "finish_reason": None if record.response is None else record.response.finish_reason,
        }
        metadata = {
            **_plain_meta(sample.meta),
            OWN: {name: value for name, value in snellen_fields.items() if value not in (None, "")},
        }
        scores = {profile: score_json(score) for profile, score in answer.scores.items() if score.value is not None}
        seconds = max(record.finished_at - record.started_at, 0.0)
        short_row = {
            "id": sample_id,
            "epoch": record.repeat + 1,
            "target": target_of(sample),
            "scores": scores,
            "model_usage": usage,
            "total_time": round(seconds, 3),
            "working_time": round(seconds if record.response is None else record.response.latency_s, 3),
            "uuid": f"{answer.position}-{record.repeat + 1}",
        }
        content = question[0]["content"] if len(question) == 1 else None
        messages = [*question, *conversation]
        full_row = {
            **short_row,
            "input": content if isinstance(content, str) else question,
            "choices": list(sample.options.values()) or None,
            "messages": messages,
            "output": self._output(record),
            "metadata": metadata,
            "store": {},
            "events": [],
            "started_at": iso_time(record.started_at),
            "completed_at": iso_time(record.finished_at),
            "error": None if record.error is None else error_json(f"{record.error.kind}: {record.error.message}"),
            "attachments": {},
        }
        summary = {
            **short_row,
            "input": shorten(sample.prompt.words, SHORT),
            "metadata": {name: shorten(str(value), SHORT_FIELD) for name, value in metadata.items() if name != OWN},
            "error": None if record.error is None else shorten(f"{record.error.kind}: {record.error.message}", SHORT),
            "completed": True,
            "message_count": len(messages),
        }
        return _without_none(full_row), _without_none(summary), images

    def _question(self, sample: Sample, images: EmbeddedImages) -> list[dict[str, Any]]:
        """Return what the model was sent: the system prompt, earlier turns, and the question with its images."""
        prompt = sample.prompt
        system = [{"role": "system", "content": prompt.system}] if prompt.system else []
        turns = [(turn.role, turn.parts) for turn in prompt.history] + [("user", prompt.parts)]
        return [
            *system,
            *({"role": role, "content": plain_or_parts(self._content(parts, images))} for role, parts in turns),
        ]

    def _content(self, parts: Sequence[Part], images: EmbeddedImages) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        for part in parts:
            if isinstance(part, Text):
                content.append(text_part(part.text))
            elif isinstance(part, Image):
                content.append(self._image(part, images))
            elif part.frames:
                content += [self._image(frame, images) for frame in part.frames]
            else:
                self.videos += 1
                content.append(text_part("[video left out]"))
        return content

    def _image(self, image: Image, images: EmbeddedImages) -> dict[str, Any]:
        if not self._images:
            return text_part("[image left out]")
        try:
            data = image.blob.read()
        except (SnellenError, OSError):
            self.unreadable += 1
            return text_part("[image left out: it cannot be read]")
        if images.bytes + len(data) > LARGEST_SAMPLE:
            self.too_large += 1
            return text_part(f"[image left out: the sample has more than {LARGEST_SAMPLE:,} bytes of images]")
        mark = images.add(data)
        if mark is None:
            self.unreadable += 1
            return text_part("[image left out: its format is unknown]")
        return {"type": "image", "image": mark, "detail": "auto"}

    def _output(self, record: Record) -> dict[str, Any]:
        response = record.response
        error = {} if record.error is None else {"error": f"{record.error.kind}: {record.error.message}"}
        if response is None:
            return {"model": self._model, "choices": [], "completion": "", **error}
        stop = "content_filter" if record.status == "refused" else STOP_REASONS.get(response.finish_reason, "unknown")
        return {
            "model": response.model or self._model,
            "choices": [{"message": _assistant(response.text, response.reasoning), "stop_reason": stop}],
            "completion": response.text,
            "usage": token_counts(response.usage),
            "time": round(response.latency_s, 3),
            **error,
        }


def token_counts(usage: Usage) -> dict[str, Any]:
    """Return Inspect's ModelUsage, whose input tokens do not count those from the cache."""
    counts: dict[str, Any] = {
        "input_tokens": max(usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens, 0),
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cache_write_tokens:
        counts["input_tokens_cache_write"] = usage.cache_write_tokens
    if usage.cached_tokens:
        counts["input_tokens_cache_read"] = usage.cached_tokens
    if usage.reasoning_tokens:
        counts["reasoning_tokens"] = usage.reasoning_tokens
    if usage.cost is not None and not usage.lacks:
        counts["total_cost"] = usage.cost
    return counts


def score_json(score: Score) -> dict[str, Any]:
    """Return a Score of Inspect: C and I for right and wrong, a number for part of a point."""
    value: str | float = {1.0: "C", 0.0: "I"}.get(score.value or 0.0, score.value or 0.0)
    answer = None if score.extracted is None else str(score.extracted)
    content = {"value": value, "answer": answer, "explanation": score.reason, "metadata": {"verdict": score.verdict}}
    return _without_none(content)


def target_of(sample: Sample) -> str | list[str]:
    """Return the gold answer: a text, a list of the accepted ones, or an empty text where there is none."""
    if isinstance(sample.target, (list, tuple)) and all(isinstance(text, str) for text in sample.target):
        return list(sample.target)
    aliases = sample.meta.get("aliases")
    forms = gold_forms(sample) if aliases else ()
    return list(forms) if len(forms) > 1 else gold_text(sample) or ""


def error_json(message: str) -> dict[str, str]:
    """Return Inspect's EvalError; there is no trace of Python's stack."""
    return {"message": message, "traceback": "", "traceback_ansi": ""}


def iso_time(seconds: float) -> str:
    """Format a time as ISO 8601 in UTC, with its offset."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _assistant(text: str, reasoning: str = "") -> dict[str, Any]:
    parts = [{"type": "reasoning", "reasoning": reasoning}, text_part(text)]
    return {"role": "assistant", "content": parts if reasoning else text, "source": "generate"}


def _reply_messages(record: Record) -> list[dict[str, Any]]:
    return [] if record.response is None else [_assistant(record.response.text, record.response.reasoning)]


def _conversation(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return the turns of an agent after the question: its messages with tool calls, their results, and images shown."""
    messages: list[dict[str, Any]] = []
    turn: dict[str, Any] | None = None
    for number, step in enumerate(steps, 1):
        images = [f"[image {digest}]" for digest in step.images]
        if step.role == "user":
            if step.turn > 0:
                messages.append({"role": "user", "content": "\n".join([step.text, *images]).strip()})
                turn = None
        elif step.role == "assistant":
            turn = _assistant(step.text)
            messages.append(turn)
        else:
            if turn is None:
                turn = _assistant("")
                messages.append(turn)
            call_id = f"call_{number}"
            arguments = dict(step.arguments) if isinstance(step.arguments, Mapping) else {"arguments": step.arguments}
            call = {"id": call_id, "function": step.tool or "unknown", "arguments": arguments, "type": "function"}
            turn.setdefault("tool_calls", []).append(call)
            result = {
                "role": "tool",
                "content": "\n".join([step.result, *images]).strip(),
                "tool_call_id": call_id,
                "function": step.tool or "unknown",
            }
            if step.error:
                result["error"] = {"type": "unknown", "message": step.result or "the tool failed"}  # type: ignore[assignment]
            messages.append(result)
    return messages


def _plain_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return meta as plain JSON; the name of our own field is free."""
    plain: dict[str, Any] = msgspec.to_builtins(dict(meta), enc_hook=str, str_keys=True, order="deterministic")
    plain.pop(OWN, None)
    return plain


def _without_none(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}
