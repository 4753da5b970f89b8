"""OpenTelemetry: a span for a run, one for each request, and an event for each score, sent while the run goes on.

Names are those of the semantic conventions for generative AI (opentelemetry-semantic-conventions 0.66b2); Snellen's own begin with
`snellen.`. Prompts and replies are sent only where the conventions' own variable asks for them, and keys never.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from opentelemetry import _logs, trace
from opentelemetry._logs import LogRecord
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from snellen import __version__
from snellen.benchmarks.base import Benchmark
from snellen.engine.questions import Question
from snellen.engine.run_folder import RunSpec
from snellen.errors import ModelError, NetworkError, UsageError
from snellen.models.base import Model
from snellen.redaction import redact
from snellen.runs.trackers.content import TrackedRun
from snellen.types import Prompt, Record, Response, Sample, Score, Text

SCOPE = "snellen"
EVENT = "gen_ai.evaluation.result"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The conventions' variable for prompts and replies: true, span_only or span_and_event."""
_WITH_CONTENT = ("true", "1", "span_only", "span_and_event")
FLUSH_MS = 10_000
CONTENT_CHARACTERS = 20_000
_PROVIDERS = {"gemini": "gcp.gemini", "azure": "azure.ai.openai", "api": "openai", "tools": "openai"}
_PORTS = {"http": 80, "https": 443}


class Providers(NamedTuple):
    """What makes spans and events; `close` sends what waits and says if all was taken, `place` where it goes."""

    tracer: trace.Tracer
    logger: _logs.Logger
    close: Callable[[], bool]
    place: str


def require_address(address: str) -> None:
    """Raise UsageError for an address of a collector that is none; empty: the OTEL_* variables name it."""
    split = urlsplit(address)
    if "@" in split.netloc:
        raise UsageError(
            "--log otel: the address holds a user name or password; it is written into the run's record.",
            "Put it into OTEL_EXPORTER_OTLP_HEADERS.",
        )
    if address and (split.scheme not in _PORTS or not split.hostname):
        raise UsageError(
            f"--log otel:{address} names no address of a collector.",
            "Write --log otel:http://127.0.0.1:4318, or --log otel and set OTEL_EXPORTER_OTLP_ENDPOINT.",
        )


def providers(address: str) -> Providers:
    """Return the process's own providers where it has set any, else those of an OTLP collector over HTTP."""
    from opentelemetry.sdk.trace import TracerProvider

    spans, events = trace.get_tracer_provider(), _logs.get_logger_provider()
    if isinstance(spans, TracerProvider) and not address:
        return Providers(
            spans.get_tracer(SCOPE, __version__),
            events.get_logger(SCOPE, __version__),
            lambda: _flush(spans, events),
            "the process's own provider",
        )
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # a dead collector is told of at the end
    logging.getLogger("opentelemetry").propagate = False
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": SCOPE}
    resource = Resource.create({**named, "service.version": __version__})
    base = address.rstrip("/")
    traces, logs = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces" if base else None)))
    failed: list[str] = []

    class Events(OTLPLogExporter):
        """Exporter that remembers a collector that took nothing; the SDK tells it to its own log alone."""

        def export(self, batch: Sequence[Any]) -> Any:
            result = super().export(batch)
            failed.extend([] if result.name == "SUCCESS" else [result.name])
            return result

    logs.add_log_record_processor(BatchLogRecordProcessor(Events(endpoint=f"{base}/v1/logs" if base else None)))

    def close() -> bool:
        flushed = _flush(traces, logs)
        for provider in (traces, logs):
            provider.shutdown()
        return flushed and not failed

    place = base or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    return Providers(traces.get_tracer(SCOPE, __version__), logs.get_logger(SCOPE, __version__), close, redact(place))


def _flush(*sources: Any) -> bool:
    """Send what waits at each; return False where one did not end in time."""
    ended = [source.force_flush(FLUSH_MS) for source in sources if hasattr(source, "force_flush")]
    return all(ended)


@contextmanager
def follow(address: str, spec: RunSpec, benchmark: Benchmark) -> Iterator[RunTelemetry]:
    """Yield the observer of one run; its span ends, and what waits is sent, when the run does."""
    made = providers(address)
    telemetry = RunTelemetry(made, spec, benchmark)
    try:
        yield telemetry
    except BaseException as error:
        telemetry.end(error)
        raise
    else:
        telemetry.end(None)
    finally:
        made.close()


class RunTelemetry:
    """Observer of one run: spans of its requests below its own, and events of its scores at the request that was scored."""

    def __init__(self, made: Providers, spec: RunSpec, benchmark: Benchmark) -> None:
        self._made, self._spec, self._benchmark = made, spec, benchmark
        kind, _, name = spec.model.partition(":")
        chosen = spec.options.generation
        self._name = name or kind
        self._request: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(kind, kind),
            "gen_ai.request.model": self._name,
            **_set(
                {
                    "gen_ai.request.temperature": chosen.temperature,
                    "gen_ai.request.top_p": chosen.top_p,
                    "gen_ai.request.max_tokens": chosen.max_tokens,
                    "gen_ai.request.seed": chosen.seed,
                    "gen_ai.output.type": "json" if spec.schema else None,
                }
            ),
        }
        captures = os.environ.get(CONTENT, "").strip().lower() in _WITH_CONTENT
        self._captures = captures and not benchmark.concealed and not benchmark.restricted
        self._asked: dict[tuple[str, int], SpanContext] = {}
        self._run = made.tracer.start_span(
            f"evaluate {benchmark.name}",
            attributes={"snellen.benchmark": benchmark.name, "gen_ai.request.model": self._name},
        )
        self._parent = trace.set_span_in_context(self._run)

    def begin(self, model: Model) -> None:
        """Take the address of the server that the model asks."""
        endpoint = getattr(getattr(model, "protocol", None), "endpoint", None)
        split = urlsplit(str(endpoint or ""))
        if split.hostname:
            self._request |= {
                "server.address": split.hostname,
                "server.port": split.port or _PORTS.get(split.scheme, 443),
            }

    def requested(
        self, question: Question, prompt: Prompt, began_s: float, response: Response | None, error: BaseException | None
    ) -> None:
        """Send the span of one request."""
        attributes = {**self._request, "snellen.sample_id": question.sample.id, "snellen.repeat": question.repeat}
        if response is not None:
            usage = response.usage
            attributes |= _set(
                {
                    "gen_ai.response.model": response.model or None,
                    "gen_ai.response.id": response.request_id or None,
                    "gen_ai.response.finish_reasons": (response.finish_reason,) if response.finish_reason else None,
                    "gen_ai.usage.input_tokens": usage.input_tokens or None,
                    "gen_ai.usage.output_tokens": usage.output_tokens or None,
                    "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
                    "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
                    "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
                    "gen_ai.response.time_to_first_chunk": response.first_token_s or None,
                    "snellen.cost_dollars": usage.cost,
                }
            )
        if self._captures:
            attributes |= _content(prompt, response)
        span = self._made.tracer.start_span(
            f"chat {self._name}",
            context=self._parent,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=int(began_s * 1e9),
        )
        if error is not None:
            span.set_attribute("error.type", error.kind if isinstance(error, ModelError) else type(error).__name__)
            span.set_status(StatusCode.ERROR)
        span.end()
        self._asked[question.sample.id, question.repeat] = span.get_span_context()

    def recorded(self, sample: Sample, record: Record, score: Score | None) -> None:
        """Send the event of a score, at the last request for its sample."""
        at = self._asked.pop((sample.id, record.repeat), None)
        if score is None:
            return
        profile = next(iter(self._benchmark.score))
        attributes: dict[str, Any] = {
            "gen_ai.evaluation.name": f"{self._benchmark.name}/{profile}",
            "gen_ai.evaluation.score.label": score.verdict,
            "snellen.sample_id": sample.id,
            "snellen.repeat": record.repeat,
            **_set({"gen_ai.evaluation.score.value": score.value}),
        }
        if record.response is not None and record.response.request_id:
            attributes["gen_ai.response.id"] = record.response.request_id
        if self._captures and score.reason:  # it may quote the reply
            attributes["gen_ai.evaluation.explanation"] = redact(score.reason)[:CONTENT_CHARACTERS]
        context = self._parent if at is None else trace.set_span_in_context(trace.NonRecordingSpan(at))
        self._made.logger.emit(LogRecord(event_name=EVENT, attributes=attributes, context=context))

    def end(self, error: BaseException | None) -> None:
        """End the run's span."""
        if error is not None:
            self._run.set_attribute("error.type", type(error).__name__)
            self._run.set_status(StatusCode.ERROR)
        self._run.end()


def log_metrics(address: str, run: TrackedRun) -> str:
    """Send an event for each metric of a run, with the ends of its interval; return where they went.

    Raises:
        NetworkError: the collector did not take them.
    """
    made = providers(address)
    try:
        for profile, metric, value, low, high, n, coverage, chance, unit, _ in run.rows:
            attributes = {
                "gen_ai.evaluation.name": f"{run.benchmark}/{metric}",
                "gen_ai.evaluation.score.value": value,
                "snellen.run": run.name,
                "snellen.step": run.step,
                "snellen.profile": profile,
                "snellen.ci95_low": low,
                "snellen.ci95_high": high,
                "snellen.n": n,
                "snellen.coverage": coverage,
                "snellen.chance": chance,
                "snellen.unit": unit,
            }
            made.logger.emit(LogRecord(event_name=EVENT, attributes=_set(attributes)))
    finally:
        taken = made.close()
    if not taken:
        raise NetworkError(f"{made.place} did not take the metrics", "Check that the collector is running.")
    return made.place


def _set(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _content(prompt: Prompt, response: Response | None) -> dict[str, str]:
    """Return prompt and reply in the conventions' JSON: texts alone, images and videos by the name of their kind."""
    parts: Sequence[dict[str, str]] = [
        {"type": "text", "content": redact(part.text)[:CONTENT_CHARACTERS]}
        if isinstance(part, Text)
        else {"type": type(part).__name__.lower()}
        for part in prompt.conversation_parts
    ]
    content = {"gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}])}
    if prompt.system:
        content["gen_ai.system_instructions"] = json.dumps([{"type": "text", "content": redact(prompt.system)}])
    if response is not None:
        said = [{"type": "text", "content": redact(response.text)[:CONTENT_CHARACTERS]}]
        reply = {"role": "assistant", "parts": said, "finish_reason": response.finish_reason}
        content["gen_ai.output.messages"] = json.dumps([reply])
    return content
