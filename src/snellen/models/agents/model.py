"""The agent model: runs one sample in a workdir and a sandbox, and reads the outcome from its transcript."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from snellen import redaction
from snellen.atomic_write import replacing
from snellen.errors import (
    AgentAbortedError,
    AgentLimitError,
    AgentLoopError,
    AgentNoAnswerError,
    AgentRecordError,
    AgentTimeoutError,
    ModelError,
    PreflightError,
    UsageError,
)
from snellen.models import trace
from snellen.models.agents import apptainer, install, own_program, process, sandbox, tool_setup
from snellen.models.agents.limits import NETWORKS, AgentLimits, breach_text, limits_of
from snellen.models.agents.process import ProcessResult
from snellen.models.agents.programs import require_unseen
from snellen.models.agents.runner import NO_KEY, AgentRunner
from snellen.models.agents.transcript import Transcript, loops
from snellen.models.agents.workdir import AgentModelSettings, AgentQuestion
from snellen.models.api.endpoint import parse_endpoint
from snellen.models.api.prices import load_price
from snellen.models.api.services import find_key
from snellen.models.base import Model, ModelOptions, changed_option, effective
from snellen.models.shutdowns import announced
from snellen.models.tools.settings import require_apart
from snellen.text import slug
from snellen.types import Prompt, Response

SESSIONS = "sessions"
BASE_URL = "OPENAI_BASE_URL"
PER_CORE = 4


class AgentModel(Model):
    """OpenClaw or OpenCode around the model that --agent-model names.

    Args:
        name: `openclaw`, `opencode`, or one with @VERSION.
        options: agent_model, agent_config, agent_bin, base_url, key_env, timeout_s, concurrency, sandbox, sif, media, generation, prices.

    Raises:
        UsageError: no such agent or sandbox, no --agent-model, an option that agents cannot use.
    """

    supports = frozenset({"system"})

    def __init__(self, name: str, options: ModelOptions) -> None:
        self.name = f"agent:{name}"
        recipe, self._version = install.recipe_of(name)
        self._kind = recipe.name
        self._options = options
        _refuse(options)
        config_file = options.agent_config
        own = None if config_file is None else own_program.read(self._kind, Path(config_file))
        self._usual = own_program.usual(self._kind) if config_file is None and not options.agent_model else None
        named = own or self._usual  # of a configuration in its usual place, model, endpoint and key alone are used
        provider, _, model = (options.agent_model or (named.model if named else "")).partition("/")
        if not (provider and model):
            raise UsageError(
                f"--model {self.name} needs --agent-model PROVIDER/MODEL{_looked_in(named)}",
                "Example: --agent-model vllm-local/Qwen/Qwen3-VL-8B-Instruct-FP8 --base-url http://127.0.0.1:8000/v1",
            )
        if unknown := [*options.generation.more_sampling()]:
            flag = f"--{unknown[0].replace('_', '-')}"
            raise UsageError(
                f"{flag} is set, and the agent takes only max_tokens, temperature and top_p.",
                f"Omit {flag}, or set it at the server that --base-url names.",
            )
        self._config = own
        self._named_key = ("", "") if named is None else named.key_of(provider)
        self._endpoint = parse_endpoint(options.base_url or (named.base_urls.get(provider) if named else None))
        if named is not None and not (options.base_url or named.base_urls.get(provider) or os.environ.get(BASE_URL)):
            raise UsageError(
                f"{named.path} names {provider}/{model}, and no endpoint of {provider}", "Name it: --base-url URL."
            )
        self._program = None if options.agent_bin is None else own_program.find(self._kind, options.agent_bin)
        if self._program is not None:
            self._version = self._program.version
        if self._endpoint.query:
            raise UsageError("agents cannot send api-version with --base-url", "Name an endpoint without it.")
        self._model_settings = AgentModelSettings(
            provider, model, str(self._endpoint), options.generation, options.timeout_s, own.content if own else {}
        )
        self._price = load_price(options.prices, model) if options.prices else None
        if options.sandbox not in ("auto", *sandbox.KINDS):
            sandbox.choose(options.sandbox)
        self._limits = limits_of(options)
        if options.agent_network not in NETWORKS:
            raise UsageError(
                f"--agent-network {options.agent_network!r}: there is no such network", f"One of {', '.join(NETWORKS)}."
            )
        if options.sandbox == "none" and options.agent_network == "web":
            raise UsageError("--agent-network web bounds nothing without a sandbox", "Omit --sandbox none.")
        self._network = "host" if options.sandbox == "none" else options.agent_network
        self._sessions: Path | None = None
        self._hidden: tuple[Path, ...] = ()
        self._tool_setup = tool_setup.find(options.tools)
        if self._tool_setup is not None and options.sandbox != "none":
            tool_setup.require_bounded(self._tool_setup)
        self._runner: AgentRunner | None = None
        # More would only be slower: start-up is a matter of cores.
        self._most = min(options.concurrency, PER_CORE * (os.cpu_count() or 1))
        self._slots = asyncio.Semaphore(self._most)

    def identity(self) -> Mapping[str, Any]:
        """Return agent, version, model, endpoint, settings and sandbox, which decides what an agent can do."""
        kind = "bubblewrap" if self._options.sandbox == "auto" else self._options.sandbox
        return {
            "kind": "agent",
            "agent": self._kind,
            "version": self._version,
            "model": self._model_settings.name,
            "base_url": self._model_settings.base_url,
            "generation": msgspec.to_builtins(self._options.generation),
            "media": msgspec.to_builtins(self._options.media),
            "timeout_s": self._options.timeout_s,
            **tool_setup.described(self._tool_setup),
            **({} if self._config is None else {"config": self._config.digest}),
            **({} if self._program is None else {"program": self._program.digest}),
            "sandbox": kind,
            "network": self._network,
            "limits": self._limits.plain(),
            "image": apptainer.check(self._options.sif) if kind == "apptainer" else "",
        }

    def attach(self, folder: Path) -> None:
        """Write the raw transcripts to sessions/ of this folder."""
        self._sessions = folder / SESSIONS

    def hide(self, paths: Sequence[Path]) -> None:
        """Refuse, at preflight, tools whose folders hold one of these paths."""
        self._hidden = tuple(paths)

    async def preflight(self) -> None:
        """Check installation, sandbox, key and endpoint. The first start in a sandbox is made here and takes a minute.

        Raises:
            PreflightError: one of them is not there, or the agent does not answer in this sandbox.
        """
        if self._options.agent_model and (ended := announced(self._options.agent_model)) is not None:
            print(f"snellen: warning: {ended.warning()}", file=sys.stderr)
        await self._opened()

    async def _opened(self) -> AgentRunner:
        if self._runner is not None:
            return self._runner
        name = f"{self._kind}@{self._version}"
        installation = self._program or await asyncio.to_thread(install.find, name)
        if installation is None:
            raise PreflightError(
                f"{self._kind} {self._version} is not installed in {install.root()}",
                f"Install it: snellen agents install {name}. --agent-bin PROGRAM uses your own.",
            )
        if self._program is not None:
            require_apart([path for path, _ in self._program.shown(sandbox.AGENT)], self._hidden)
        if self._usual is not None:
            print(
                f"snellen: note: {self._usual.path} names {self._model_settings.name}, which is used", file=sys.stderr
            )
        options = self._options
        kind = sandbox.choose(options.sandbox)
        if kind == "bubblewrap":
            require_unseen(self._hidden)
        key = self._key() or NO_KEY
        for notice in self._reach():
            print(f"snellen: note: {notice}", file=sys.stderr)
        await _reachable(self._endpoint.base)
        setup = self._tool_setup and await asyncio.to_thread(tool_setup.ready, self._tool_setup, self._hidden)
        runner = AgentRunner(installation, kind, options.sif, key, options.media, setup, self._limits, self._network)
        try:
            await runner.start_once(self._model_settings)
        except BaseException:
            await runner.close()
            raise
        self._runner = runner
        return runner

    def _reach(self) -> list[str]:
        """Return what the agent can reach, and who gets its images."""
        tools = None if self._tool_setup is None else self._tool_setup.settings
        alone = "the model, and the web by --tools" if tools and tool_setup.asks_web(tools) else "the model alone"
        requests = f"{self._limits.requests:,} requests a sample at most"
        reach = {
            "endpoint": f"{alone} (--agent-network endpoint); --agent-network web opens the public web to it",
            "web": f"the model and the public web, by a gateway, {requests} (--agent-network web, --agent-requests)",
            "host": "this machine's whole network; --agent-network web opens the public web alone, in a sandbox",
        }
        return [f"the agent can reach {reach[self._network]}", *(() if tools is None else tools.notices())]

    def _key(self) -> str | None:
        """Return the endpoint's key: that of --key-env, else of the agent's configuration, else of OPENAI_API_KEY."""
        literal, variable = self._named_key
        if self._options.key_env is not None or not (literal or variable):
            return find_key(self._options.key_env)
        return literal or find_key(variable)

    async def answer(self, prompt: Prompt) -> Response:
        """Return one answer, to a sample without a name."""
        return await self.answer_for("sample", 0, prompt)

    async def answer_for(self, sample_id: str, repeat: int, prompt: Prompt) -> Response:
        """Let the agent work on one question in a workdir of its own.

        `trace` of the response is its steps (snellen.models.trace); the raw transcript goes to sessions/.
        `finish_reason` is image_never_seen where the agent answered without the image having reached its model.

        Raises:
            AgentTimeoutError, AgentAbortedError, AgentLoopError, AgentNoAnswerError, AgentRecordError: it has no answer; each with what
                it did as `trace`. MediaError, DataError, InputError: the question cannot be put.
        """
        runner = await self._opened()
        settings = structs.replace(
            self._model_settings, generation=effective(self._options.generation, prompt.generation)
        )
        async with self._slots:
            question, result, record = await runner.ask(settings, prompt)
        outcome = _outcome(record, result, question)
        if self._sessions is not None:
            head = self._head(sample_id, repeat, question, result, record, outcome)
            await asyncio.to_thread(_keep, self._sessions / session_name(sample_id, repeat), head, record)
        return self._response(record, result, outcome)

    async def close(self) -> None:
        """Remove the workdirs."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.close()

    def _head(
        self,
        sample_id: str,
        repeat: int,
        question: AgentQuestion,
        result: ProcessResult,
        record: Transcript,
        outcome: str,
    ) -> dict[str, Any]:
        """Return the first line of a session: its outcome, times and counts."""
        return {
            "type": "snellen",
            "sample_id": sample_id,
            "repeat": repeat,
            "agent": f"{self._kind} {self._version}",
            "model": self._model_settings.name,
            "outcome": outcome,
            "fault": record.fault,
            "exit_status": result.status,
            "startup_s": result.startup_s,
            "answer_s": result.answer_s,
            "peak_memory": result.memory,
            "peak_processes": result.processes,
            "turns": trace.turns(record.steps),
            "tool_calls": trace.calls_by_tool(record.steps),
            "images_given": question.digests,
            "images_seen": trace.images_seen(record.steps),
            "input_tokens": record.usage.input_tokens,
            "output_tokens": record.usage.output_tokens,
            "cost": self._cost(record),
            **({} if result.web is None else {"web": result.web}),
        }

    def _cost(self, record: Transcript) -> float | None:
        usage = record.usage
        if self._price is None:
            return None
        return self._price.cost(usage.input_tokens, usage.output_tokens, usage.cached_tokens)

    def _response(self, record: Transcript, result: ProcessResult, outcome: str) -> Response:
        steps = trace.plain(record.steps)
        if outcome in (trace.STOP, trace.IMAGE_NEVER_SEEN):
            return Response(
                text=record.answer,
                usage=structs.replace(record.usage, cost=self._cost(record)),
                latency_s=result.answer_s,
                finish_reason=outcome,
                reasoning=record.reasoning,
                model=self._model_settings.model,
                trace=steps,
            )
        error = _failure(outcome, result, record, self._model_settings.timeout_s, self._limits)
        error.trace = steps
        raise error


def _looked_in(config: own_program.OwnConfig | None) -> str:
    return "" if config is None else f", and {config.path} names no model"


def session_name(sample_id: str, repeat: int) -> str:
    """Return the file name in sessions/: the id where it can be one, else made safe and told apart by a digest."""
    safe = slug(sample_id, 100)
    if safe != sample_id:
        safe = f"{safe or 'sample'}-{hashlib.sha256(sample_id.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return f"{safe}.{repeat}.jsonl" if repeat else f"{safe}.jsonl"


def _keep(path: Path, head: dict[str, Any], record: Transcript) -> None:
    """Write a session: its head, then the agent's own record, keys and images taken out."""
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as part:
        part.write_bytes(
            b"".join(redaction.redact_bytes(line) + b"\n" for line in (msgspec.json.encode(head), *record.raw))
        )


def _outcome(record: Transcript, result: ProcessResult, question: AgentQuestion) -> str:
    """Return the outcome, by the transcript first: a whole answer counts however the process ended.

    A loop that used up the requests is a loop: on a busy machine the last request may come before the loop is noticed.
    """
    if record.finished and record.answer:
        unseen = question.images and not trace.images_seen(record.steps)
        return trace.IMAGE_NEVER_SEEN if unseen else trace.STOP
    looped = result.end == "loop" or loops(record.steps)
    if result.limit and not (looped and result.limit == "requests"):
        return "limit"
    if looped:
        return trace.LOOP
    if record.replaced:
        return "record"
    if result.end in ("time", "start"):
        return "timeout"
    if record.finished:
        return trace.NO_ANSWER
    return trace.ABORTED


def _failure(
    outcome: str, result: ProcessResult, record: Transcript, timeout_s: float, limits: AgentLimits
) -> ModelError:
    turns, why = trace.turns(record.steps), _why(result, record)
    if outcome == "limit":
        return AgentLimitError(f"{breach_text(result.limit, result.used, limits)}, after {turns} turns", result.limit)
    if outcome == trace.LOOP:
        last = next(step for step in reversed(record.steps) if step.tool)
        return AgentLoopError(f"it called {last.tool[:100]} with the same arguments again and again, in {turns} turns")
    if outcome == "record":
        return AgentRecordError(f"it put something else in the place of its own record: {record.replaced}")
    if outcome == "timeout" and result.end == "start":
        return AgentTimeoutError(f"the model was not asked within {process.STARTUP_S:.0f} s of start-up: {why}")
    if outcome == "timeout":
        return AgentTimeoutError(f"no answer within {timeout_s:g} s, after {turns} turns")
    if outcome == trace.NO_ANSWER:
        return AgentNoAnswerError(f"it ended after {turns} turns and said nothing")
    return AgentAbortedError(f"it broke off after {turns} turns: {why}")


def _why(result: ProcessResult, record: Transcript) -> str:
    if record.fault:
        return record.fault
    if result.end == "output":
        return f"it wrote more than {process.MAX_OUTPUT >> 20} MB"
    stderr = f"; it said: {result.stderr_head}" if result.stderr_head else ""
    return f"exit status {result.status} after {result.startup_s + result.answer_s:.1f} s{stderr}"


async def _reachable(base_url: str) -> None:
    from urllib.parse import urlsplit

    split = urlsplit(base_url)
    port = split.port or (443 if split.scheme == "https" else 80)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(split.hostname, port), 15)
        writer.close()
    except (OSError, TimeoutError) as error:
        raise PreflightError(
            f"nothing answers at {base_url}: {error or 'no connection within 15 s'}",
            "Start the server, or correct --base-url.",
        ) from None


def _refuse(options: ModelOptions) -> None:
    unused = ("dtype", "device", "batch_size", "stop_after_first_json", "revision", "extra_body")
    if flag := changed_option(options, unused):
        raise UsageError(f"{flag} cannot be passed on by an agent.", f"Omit {flag}.")
