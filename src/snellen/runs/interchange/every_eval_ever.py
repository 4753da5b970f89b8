"""Export of a run in the schema of Every Eval Ever 0.3.0: an aggregate file, and one row per answer and profile.

Layout: data/<collection>/<developer>/<model>/<uuid4>.json and <uuid4>_samples.jsonl. The UUID follows from the run's
fingerprint and the settings of the export, so the same run gives the same files. The schema holds text only: images are named
by their SHA-256 in `metadata`. Source: PyPI every-eval-ever 0.3.0, schemas/eval.schema.json and instance_level_eval.schema.json.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from snellen import __version__
from snellen.errors import SnellenError, UsageError
from snellen.formats.writers import Exported, gold_text, prompt_text
from snellen.models.registry import runtime_of
from snellen.models.trace import Step
from snellen.redaction import redact_bytes
from snellen.runs.interchange.source import ACCURACY, ExportSource, InterchangeAnswer
from snellen.scoring.rubric import gold_forms
from snellen.text import pretty_json, slug
from snellen.types import Image, Metric, Sample, Usage

SCHEMA = "0.3.0"
UNKNOWN = "unknown"
EXTERNAL = ("openai", "anthropic", "gemini", "openrouter")
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_NAME_LENGTH = 96

_encode = msgspec.json.Encoder(enc_hook=str).encode


def write_every_eval_ever(source: ExportSource, folder: Path, model: str, stamp: str) -> Exported:
    """Every Eval Ever 0.3.0: one aggregate file, and one line per answer and profile."""
    settings = source.settings
    if settings.relationship not in RELATIONSHIPS:
        raise UsageError(
            f"--relationship {settings.relationship!r} is unknown", f"There is: {', '.join(RELATIONSHIPS)}."
        )
    names = ModelNames(source)
    identifier = _uuid4(source, names.id)
    place = Path("data") / (slug(source.run.benchmark.name, _NAME_LENGTH) or "benchmark") / names.developer / names.name
    path = folder / place / f"{identifier}.json"
    path.parent.mkdir(parents=True)
    started = str(int(source.started_at))
    rows = InstanceRows(source, evaluation_id=f"{source.run.benchmark.name}/{names.id}/{started}", model_id=names.id)
    samples = path.with_name(f"{identifier}_samples.jsonl")
    checksum = hashlib.sha256()
    with samples.open("wb") as file:
        for row in rows.rows():
            line = redact_bytes(_encode(row)) + b"\n"
            checksum.update(line)
            file.write(line)
    results, omitted = _results(source)
    aggregate = {
        "schema_version": SCHEMA,
        "evaluation_id": rows.evaluation_id,
        "retrieved_timestamp": started,
        "evaluation_timestamp": started,
        "source_metadata": {
            "source_name": "snellen",
            "source_type": "evaluation_run",
            "source_organization_name": settings.organization or UNKNOWN,
            "evaluator_relationship": settings.relationship,
        },
        "eval_library": {"name": "snellen", "version": __version__},
        "model_info": names.info(source.model_kind),
        "evaluation_results": results,
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": (place / samples.name).as_posix(),
            "hash_algorithm": "sha256",
            "checksum": checksum.hexdigest(),
            "total_rows": rows.count,
        },
    }
    path.write_bytes(redact_bytes(pretty_json(aggregate)))
    return Exported((path, samples), tuple(_notes(source, names, rows, omitted)))


DEVELOPERS = {
    "embedded": ("snellen", ""),
    "openai": ("openai", r"gpt-|chatgpt-|o\d"),
    "anthropic": ("anthropic", "claude-"),
    "gemini": ("google", "gemini-"),
}
"""Kind of model to its developer and the heads of its model names: the protocol alone is spoken by other servers too."""


class ModelNames:
    """The names of a model as the schema has them.

    Attributes:
        id: `developer/name`.
        developer, name: folders of the layout.
    """

    def __init__(self, source: ExportSource) -> None:
        written = source.settings.model_id or source.model
        developer, slash, name = written.partition("/")
        if not slash:
            developer, names = DEVELOPERS.get(source.model_kind, (UNKNOWN, ""))
            is_own = source.own_endpoint and re.match(names, written, re.IGNORECASE) is not None
            developer, name = developer if is_own else UNKNOWN, written
        self.developer = slug(developer, _NAME_LENGTH) or UNKNOWN
        self.name = slug(name.replace("/", "_"), _NAME_LENGTH) or "model"
        self.id = f"{developer or UNKNOWN}/{name}" if slash else f"{self.developer}/{name}"

    def info(self, kind: str) -> dict[str, Any]:
        """Return `model_info`. What the kind of model does not tell is unknown."""
        self_deployed = runtime_of(kind).here
        external = "externally_managed" if kind in EXTERNAL else UNKNOWN
        return {
            "name": self.name,
            "id": self.id,
            "developer": self.developer,
            "additional_details": {
                "deployment_type": "self_deployed" if self_deployed else external,
                "model_availability": "open_weights" if self_deployed else UNKNOWN,
                "snellen_kind": kind,
            },
        }


class InstanceRows:
    """The rows of the instance file.

    Attributes:
        count: how many rows were made.
        unscored: answers that a profile does not score, which have no row.
    """

    def __init__(self, source: ExportSource, *, evaluation_id: str, model_id: str) -> None:
        self.evaluation_id = evaluation_id
        self.count = self.unscored = 0
        self._source = source
        self._shared_fields = {"schema_version": SCHEMA, "evaluation_id": evaluation_id, "model_id": model_id}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one row per answer and profile."""
        benchmark = self._source.run.benchmark
        for answer in self._source.answers():
            shared = self._answer(answer)
            for profile, score in answer.scores.items():
                if score.value is None:
                    self.unscored += 1
                    continue
                self.count += 1
                extracted = "" if score.extracted is None else str(score.extracted)
                yield {
                    **self._shared_fields,
                    "evaluation_name": benchmark.name,
                    "evaluation_result_id": result_id(benchmark.name, profile, ACCURACY),
                    **shared,
                    "answer_attribution": [
                        {
                            "turn_idx": len(shared["messages"]) - 1 if "messages" in shared else 0,
                            "source": "messages[turn_idx].content" if "messages" in shared else "output.raw",
                            "extracted_value": extracted,
                            "extraction_method": f"snellen:{profile}",
                            "is_terminal": True,
                        }
                    ],
                    "evaluation": {
                        "score": score.value,
                        "is_correct": score.verdict == "correct",
                        **_turn_counts(answer.steps),
                    },
                }

    def _answer(self, answer: InterchangeAnswer) -> dict[str, Any]:
        """Return what the rows of all profiles of one answer share."""
        sample, record = answer.sample, answer.record
        raw = prompt_text(sample)
        reference = [] if self._source.settings.no_gold else references(sample)
        shared: dict[str, Any] = {"sample_id": sample.id, "sample_hash": sample_hash(raw, reference)}
        shared["input"] = {"raw": raw, "reference": reference}
        if sample.options:
            shared["input"]["choices"] = list(sample.options.values())
        response = record.response
        messages = _messages(sample, answer.steps) if answer.steps else []
        if messages:
            shared |= {"interaction_type": "agentic", "messages": messages}
        else:
            output: dict[str, Any] = {"raw": [] if response is None else [response.text]}
            if response is not None and response.reasoning:
                output["reasoning_trace"] = [response.reasoning]
            shared |= {"interaction_type": "single_turn", "output": output}
        if response is not None:
            shared["token_usage"] = _token_usage(response.usage)
            if response.latency_s > 0:
                shared["performance"] = {"latency_ms": round(response.latency_s * 1000, 3)}
        if record.error is not None:
            shared["error"] = f"{record.error.kind}: {record.error.message}"
        elif record.status == "refused":
            shared["error"] = "refused"
        meta = {name: str(value) for name, value in sample.meta.items()}
        own = {"status": record.status, "repeat": str(record.repeat), "kind": sample.kind}
        images = [digest for part in sample.prompt.parts if isinstance(part, Image) for digest in _digest(part)]
        shared["metadata"] = {**meta, **own, **({"images_sha256": ",".join(images)} if images else {})}
        return shared


def result_id(benchmark: str, profile: str, metric: str) -> str:
    """Return the id that joins the rows of a profile with its aggregate."""
    return f"{benchmark}/{profile}/{metric}"


def references(sample: Sample) -> list[str]:
    """Return the accepted gold answers; none where there is none."""
    if isinstance(sample.target, (list, tuple)) or sample.meta.get("aliases"):
        return list(gold_forms(sample))
    text = gold_text(sample)
    return [] if text is None else [text]


def sample_hash(raw: str, reference: list[str]) -> str:
    """Return the SHA-256 of question and gold answers, as compact JSON with sorted keys."""
    return hashlib.sha256(msgspec.json.encode({"raw": raw, "reference": reference})).hexdigest()


def _results(source: ExportSource) -> tuple[list[dict[str, Any]], int]:
    """Return `evaluation_results` of every profile, and how many metrics have no value."""
    results, omitted = [], 0
    for profile in source.run.benchmark.score:
        accuracy = source.accuracies[profile]
        others = [metric for metric in source.summary.metrics[profile] if metric.name != ACCURACY]
        for metric in (accuracy, *others):
            if metric.value is None:
                omitted += 1
                continue
            results.append(_result(source, profile, metric, metric.value))
    return results, omitted


def _result(source: ExportSource, profile: str, metric: Metric, value: float) -> dict[str, Any]:
    benchmark, meta = source.run.benchmark, source.run.meta
    bounded = metric.unit == "fraction" and 0.0 <= value <= 1.0
    details = {"profile": profile, "coverage": repr(metric.coverage)}
    if metric.chance is not None:
        details["chance"] = repr(metric.chance)
    uncertainty: dict[str, Any] = {"num_samples": metric.n}
    if metric.ci95 is not None:
        uncertainty["confidence_interval"] = {
            "lower": metric.ci95[0],
            "upper": metric.ci95[1],
            "confidence_level": 0.95 if metric.interval is None else metric.interval.level,
            **({} if metric.interval is None else {"method": metric.interval.text}),
        }
    return {
        "evaluation_result_id": result_id(benchmark.name, profile, metric.name),
        "evaluation_name": benchmark.name,
        "source_data": {
            "dataset_name": benchmark.name,
            "source_type": "other",
            "additional_details": {
                "benchmark_version": benchmark.version,
                "samples": str(source.size),
                "data_digest": str(meta.identity.get("data") or ""),
            },
        },
        "metric_config": {
            "evaluation_description": benchmark.profiles[profile],
            "metric_id": metric.name,
            "metric_name": metric.name,
            "metric_kind": metric.name.partition("/")[0],
            "metric_unit": "proportion" if metric.unit == "fraction" else metric.unit,
            "metric_parameters": {"profile": profile},
            "lower_is_better": metric.lower_is_better,
            "score_type": "continuous",
            "min_score": 0 if bounded else "-Infinity",
            "max_score": 1 if bounded else "Infinity",
        },
        "score_details": {"score": value, "details": details, "uncertainty": uncertainty},
        "generation_config": _generation(source),
    }


def _generation(source: ExportSource) -> dict[str, Any]:
    """Return the sampling settings that the user set; extra fields of requests may hold anything and are left out."""
    spec = source.run.meta.spec
    generation, media = spec.options.generation, spec.options.media
    settings = {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "max_tokens": generation.max_tokens,
    }
    details = {
        "fingerprint": source.run.meta.fingerprint,
        "seed": str(spec.data.seed),
        "repeats": str(spec.repeats),
        "limit": "" if source.run.meta.coverage.full else str(source.run.meta.coverage.limit),
        "media": msgspec.json.encode(media).decode(),
    }
    return {
        "generation_args": {name: value for name, value in settings.items() if value is not None},
        "additional_details": {name: value for name, value in details.items() if value},
    }


def _token_usage(usage: Usage) -> dict[str, int]:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    extra = {
        "input_tokens_cache_write": usage.cache_write_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {**counts, **{name: count for name, count in extra.items() if count}}


def _messages(sample: Sample, steps: list[Step]) -> list[dict[str, Any]]:
    """Return the transcript of an agent."""
    turns: list[dict[str, Any]] = []
    if sample.prompt.system:
        turns.append({"role": "system", "content": sample.prompt.system})
    turns.append({"role": "user", "content": prompt_text(sample)})
    for number, step in enumerate(steps, 1):
        if step.role == "user":
            if step.turn > 0:
                turns.append({"role": "user", "content": step.text})
        elif step.role == "assistant":
            turns.append({"role": "assistant", "content": step.text})
        else:
            if turns[-1]["role"] not in ("assistant", "tool"):
                turns.append({"role": "assistant", "content": ""})
            caller = next(turn for turn in reversed(turns) if turn["role"] == "assistant")
            arguments = step.arguments if isinstance(step.arguments, Mapping) else {"arguments": step.arguments}
            texts = {
                name: value if isinstance(value, str) else _encode(value).decode() for name, value in arguments.items()
            }
            call = {"id": f"call_{number}", "name": step.tool or UNKNOWN, "arguments": texts}
            caller.setdefault("tool_calls", []).append(call)
            turns.append({"role": "tool", "content": step.result, "tool_call_id": [f"call_{number}"]})
    return [{"turn_idx": number, **turn} for number, turn in enumerate(turns)]


def _turn_counts(steps: list[Step]) -> dict[str, int]:
    if not steps:
        return {}
    replies = sum(step.role == "assistant" for step in steps)
    return {"num_turns": max(replies, 1), "tool_calls_count": sum(step.role == "tool" for step in steps)}


def _digest(image: Image) -> list[str]:
    try:
        return [hashlib.sha256(image.blob.read()).hexdigest()]
    except (SnellenError, OSError):
        return []  # counted as unreadable when the run was made; the row holds no image anyway


def _uuid4(source: ExportSource, model_id: str) -> str:
    """Return a UUID in the form of version 4 that follows from the run and the settings of the export."""
    content = f"{source.run.meta.fingerprint}\0{source.started_at!r}\0{model_id}\0{source.settings.no_gold}"
    return str(uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4))


def _notes(source: ExportSource, names: ModelNames, rows: InstanceRows, omitted: int) -> Iterator[str]:
    if omitted:
        yield f"{omitted:,} metrics are left out: they have no value"
    if rows.unscored:
        yield f"{rows.unscored:,} scores are left out: a judge decides them, or nothing could be scored"
    if names.developer == UNKNOWN:
        yield "the model's developer is unknown: name it with --model-id DEVELOPER/MODEL"
    if not source.settings.organization:
        yield "the evaluating organization is unknown: name it with --organization"
    yield from source.notes(images=False)
