"""OpenTelemetry: spans of a run and its requests, events of scores, and what they never hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from servers.loopback import JsonHandler, LoopbackServer
from servers.oracle import OracleServer
from snellen.benchmarks.registry import find
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import ServerError, UsageError
from snellen.models.base import Model, ModelOptions
from snellen.runs.perform import perform
from snellen.runs.trackers import log_run, parse_targets, telemetry
from snellen.runs.trackers.content import tracked_run
from snellen.types import Generation, Prompt, Response, Usage

CHART = find("chart/digits")


class Memory:
    """Providers that keep spans and events."""

    def __init__(self) -> None:
        self.kept, self.events = InMemorySpanExporter(), InMemoryLogRecordExporter()
        traces, logs = TracerProvider(), LoggerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self.kept))
        logs.add_log_record_processor(SimpleLogRecordProcessor(self.events))
        self.providers = telemetry.Providers(traces.get_tracer("t"), logs.get_logger("t"), lambda: True, "memory")

    @property
    def spans(self) -> list[Any]:
        return list(self.kept.get_finished_spans())

    @property
    def records(self) -> list[Any]:
        return [each.log_record for each in self.events.get_finished_logs()]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    kept = Memory()
    monkeypatch.setattr(telemetry, "providers", lambda address: kept.providers)
    monkeypatch.delenv(telemetry.CONTENT, raising=False)
    return kept


class FailsOnce(Model):
    """Fails its first request, and answers the others with words that no span may hold."""

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, prompt: Prompt) -> Response:
        self.asked += 1
        if self.asked == 1:
            raise ServerError("the server quotes the reply: PURPLE")
        usage = Usage(input_tokens=100, output_tokens=7, reasoning_tokens=3, cached_tokens=50, cost=0.5)
        return Response("PURPLE 4", usage, finish_reason="stop", model="m-2026", request_id=f"r{self.asked}")


def followed(folder: Path, model: Any = None, **settings: Any) -> None:
    generation = Generation(temperature=0.25, max_tokens=64)
    options = ModelOptions(generation=generation, concurrency=1, **settings)
    spec = RunSpec(benchmark="chart/digits", model="api:m-1", options=options, limit=3)
    with telemetry.follow("", spec, CHART) as observer:
        perform(spec, RunFolder(folder), benchmark=CHART, model=model, backoff=Backoff(base_s=0.001), observer=observer)


def test_a_run_has_a_span_and_one_for_each_request_with_its_tokens(memory: Memory, tmp_path: Path):
    followed(tmp_path / "run", FailsOnce())
    *requests, run = memory.spans
    assert run.name == "evaluate chart/digits" and run.parent is None and len(requests) == 4
    assert all(span.parent.span_id == run.context.span_id and span.kind is SpanKind.CLIENT for span in requests)
    failed, first = requests[:2]
    assert failed.attributes["error.type"] == "server" and failed.status.status_code is StatusCode.ERROR
    assert not failed.status.description and failed.end_time >= failed.start_time
    named = {name.removeprefix("gen_ai."): value for name, value in first.attributes.items()}
    assert named["operation.name"] == "chat" and first.name == "chat m-1"
    assert (named["request.model"], named["response.model"], named["response.id"]) == ("m-1", "m-2026", "r2")
    assert (named["request.temperature"], named["request.max_tokens"]) == (0.25, 64)
    assert [named[f"usage.{name}"] for name in ("input_tokens", "output_tokens", "cache_read.input_tokens")] == [
        100,
        7,
        50,
    ]
    assert named["response.finish_reasons"] == ("stop",) and named["usage.reasoning.output_tokens"] == 3


def test_each_score_is_an_event_at_the_request_that_was_scored(memory: Memory, tmp_path: Path):
    followed(tmp_path / "run", FailsOnce())
    answered = {span.attributes["snellen.sample_id"]: span for span in memory.spans[1:-1]}
    assert len(memory.records) == 3
    for event in memory.records:
        span = answered[event.attributes["snellen.sample_id"]]
        assert (event.trace_id, event.span_id) == (span.context.trace_id, span.context.span_id)
        assert event.event_name == "gen_ai.evaluation.result"
        assert event.attributes["gen_ai.evaluation.name"] == f"chart/digits/{next(iter(CHART.score))}"
        value, label = (event.attributes[f"gen_ai.evaluation.score.{name}"] for name in ("value", "label"))
        assert (value, label) in ((1.0, "correct"), (0.0, "wrong"), (0.0, "invalid"))
        assert event.attributes["gen_ai.response.id"] == span.attributes["gen_ai.response.id"]


@pytest.mark.parametrize(("switch", "shown"), [("", False), ("no_content", False), ("true", True), ("SPAN_ONLY", True)])
def test_prompts_and_replies_are_sent_only_where_the_variable_says_so(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str, shown: bool
):
    monkeypatch.setenv(telemetry.CONTENT, switch)
    followed(tmp_path / "run", FailsOnce())
    everything = repr([(span.attributes, span.events, span.status) for span in memory.spans])
    everything += repr([(event.attributes, event.body) for event in memory.records])
    assert ("PURPLE" in everything) == shown and ("Answer" in everything) == shown
    if shown:
        (said,) = json.loads(memory.spans[1].attributes["gen_ai.output.messages"])
        assert said["parts"] == [{"type": "text", "content": "PURPLE 4"}]


def test_content_of_a_benchmark_with_hidden_gold_is_never_sent(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    from dataclasses import replace

    monkeypatch.setenv(telemetry.CONTENT, "true")
    spec = RunSpec(benchmark="chart/digits", model="api:m")
    assert not telemetry.RunTelemetry(memory.providers, spec, replace(CHART, restricted=True))._captures
    assert not telemetry.RunTelemetry(memory.providers, spec, replace(CHART, concealed=("owl",)))._captures


def test_a_run_that_fails_ends_its_span_with_the_error(memory: Memory):
    spec = RunSpec(benchmark="chart/digits", model="api:m")
    with pytest.raises(RuntimeError), telemetry.follow("", spec, CHART):
        raise RuntimeError("PURPLE")
    (run,) = memory.spans
    assert run.attributes["error.type"] == "RuntimeError" and "PURPLE" not in repr(run.to_json())


class Collector(LoopbackServer):
    """An OTLP collector over HTTP that decodes protobuf as the real one does."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.events: list[Any] = []
        self.headers: list[Any] = []
        self.services: set[str] = set()
        collector = self

        class Handler(JsonHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.headers.append(dict(self.headers))
                assert self.headers["Content-Type"] == "application/x-protobuf"
                if self.path == "/v1/traces":
                    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                        collector.services |= {
                            a.value.string_value for a in resource.resource.attributes if a.key == "service.name"
                        }
                        collector.spans += [span for scope in resource.scope_spans for span in scope.spans]
                elif self.path == "/v1/logs":
                    for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                        collector.events += [each for scope in resource.scope_logs for each in scope.log_records]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        super().__init__(Handler, seconds=300)


def test_a_collector_gets_spans_with_the_servers_address_and_the_metrics(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "q9W8" * 10)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-collector=secret-of-the-collector")
    with Collector() as collector, OracleServer(lambda question: "4") as server:
        (target,) = parse_targets([f"otel:{collector.origin}"])
        spec = RunSpec(benchmark="chart/digits", model="api:oracle", options=ModelOptions(base_url=server.url), limit=5)
        with telemetry.follow(target.name, spec, CHART) as observer:
            run = perform(spec, RunFolder(tmp_path / "run"), benchmark=CHART, observer=observer)
        (result,) = log_run([target], tracked_run(run, run.figures()))
        assert result.line == f"logged to otel:{collector.origin}: {collector.origin}"
    requests = [span for span in collector.spans if span.name == "chat oracle"]
    assert len(requests) == 5 and len(collector.spans) == 6 and collector.services == {"snellen"}
    values = {a.key: a.value for a in requests[0].attributes}
    assert values["server.address"].string_value == "127.0.0.1"
    assert values["server.port"].int_value == int(server.origin.rpartition(":")[2])
    assert values["gen_ai.usage.input_tokens"].int_value == 10
    names = [
        next(a.value.string_value for a in event.attributes if a.key == "gen_ai.evaluation.name")
        for event in collector.events
    ]
    assert names.count("chart/digits/strict") == 5 and "chart/digits/accuracy" in names
    assert all(headers["x-collector"] == "secret-of-the-collector" for headers in collector.headers)
    assert not any(
        "secret" in text or "sk-q9" in text
        for text in (tmp_path / "run").rglob("*")
        if text.is_file()
        for text in [text.read_bytes().decode("latin-1")]
    )


def test_a_dead_collector_is_no_fault_of_the_run(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(telemetry, "FLUSH_MS", 200)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    spec = RunSpec(benchmark="chart/digits", model="api:m", limit=2)
    with telemetry.follow("http://127.0.0.1:9", spec, CHART) as observer:
        run = perform(
            spec,
            RunFolder(tmp_path / "run"),
            benchmark=CHART,
            model=FailsOnce(),
            backoff=Backoff(base_s=0.001),
            observer=observer,
        )
    assert run.meta.totals.ok == 2
    [result] = log_run(parse_targets(["otel:http://127.0.0.1:9"]), tracked_run(run, run.figures()))
    assert "not logged" in result.line and "did not take the metrics" in result.line


@pytest.mark.parametrize(
    "text", ["otel:", "otel:collector:4318", "otel:ftp://x", "otel:http://me:secret@127.0.0.1:4318"]
)
def test_an_address_that_is_none_is_refused(text: str):
    with pytest.raises(UsageError, match="otel") as fault:
        parse_targets([text])
    assert "secret" not in str(fault.value)
    assert parse_targets(["otel"])[0].text == "otel"
