"""Registry of model kinds: open the model of `--model KIND:NAME`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, cast

from snellen.errors import SnellenError, UsageError
from snellen.models.base import Model, ModelOptions, as_model, changed_option
from snellen.plugin_errors import plugin_fault
from snellen.redaction import register_environment

GROUP = "snellen.models"
KINDS_ELSEWHERE = {
    **dict.fromkeys(("openai-api", "litellm", "ollama"), "api"),
    **dict.fromkeys(("claude", "claude-api"), "anthropic"),
    **dict.fromkeys(("google", "google-genai", "googleai"), "gemini"),
    **dict.fromkeys(("aws", "amazon", "amazon-bedrock"), "bedrock"),
    **dict.fromkeys(("vertexai", "vertex-ai", "vertex_ai", "google-vertex"), "vertex"),
    **dict.fromkeys(("azure-openai", "openai-azure", "azureai"), "azure"),
    **dict.fromkeys(("hf", "huggingface", "transformers", "hub"), "local"),
}
"""What other programs write before the colon to a kind of ours."""
PROVIDER_OF = {"claude-": "anthropic", "gemini-": "gemini"}
"""How the names of models begin that a provider of another protocol than OpenAI's has."""
API_ORGANISATIONS = ("openai/", "anthropic/", "google/gemini", "x-ai/", "openrouter/")
"""Heads of names under which routers list models that no hub has."""


class Runtime(NamedTuple):
    """Where a kind of model runs, and what follows from that for a run.

    Attributes:
        remote: behind a server that others may use too: a run begins gently, and its pace follows refusals.
        here: loaded by this process. Such models run one after the other, and refuse options of endpoints.
        priced: replies may be paid for by the token; otherwise there are no --prices.
        decodes: Snellen takes frames out of videos before they are sent.
        open_files: how many files one request opens; one connection where nothing else is known.
    """

    remote: bool = False
    here: bool = False
    priced: bool = True
    decodes: bool = True
    open_files: int = 1


class Kind(NamedTuple):
    """A kind of model: where it runs, `module:function` that opens it, and a line for `snellen list`."""

    runtime: Runtime
    factory: str
    help: str


SERVER = Runtime(remote=True)
IN_PROCESS = Runtime(here=True, priced=False, open_files=0)
PLUGIN = Runtime(decodes=False)
"""Runtime of a kind that is not in KINDS, of which nothing is known."""
_API = "snellen.models.api:ApiModel"
KINDS = {
    "api": Kind(SERVER, _API, "an OpenAI-compatible endpoint: api:gpt-6-astra --base-url https://…/v1"),
    "openai": Kind(SERVER, _API, "OpenAI's own API: openai:gpt-6-astra, with --responses the newer one"),
    "anthropic": Kind(SERVER, _API, "Anthropic's own API: anthropic:claude-…"),
    "gemini": Kind(SERVER, _API, "Google's Gemini API: gemini:gemini-…"),
    "openrouter": Kind(SERVER, _API, "OpenRouter: openrouter:qwen/qwen3-vl-8b-instruct"),
    "azure": Kind(SERVER, _API, "a deployment at Azure OpenAI: azure:DEPLOYMENT --base-url https://…"),
    "bedrock": Kind(SERVER, _API, "Amazon Bedrock: bedrock:MODEL or its inference profile; needs the extra `bedrock`"),
    "vertex": Kind(SERVER, _API, "Vertex AI: vertex:gemini-… or vertex:claude-…; needs the extra `vertex`"),
    "local": Kind(
        IN_PROCESS,
        "snellen.models.local.model:open_model",
        "a Hugging Face folder or hub name, by transformers: local:Qwen/Qwen3-VL-8B-Instruct",
    ),
    "vllm": Kind(
        IN_PROCESS,
        "snellen.models.in_process:open_vllm",
        "the same checkpoints in vLLM, inside this process: vllm:Qwen/Qwen3-VL-8B-Instruct; a server's: api:NAME",
    ),
    "sglang": Kind(
        IN_PROCESS,
        "snellen.models.in_process:open_sglang",
        "the same in SGLang, inside this process: sglang:Qwen/Qwen3-VL-8B-Instruct; a server's: api:NAME",
    ),
    "embedded": Kind(
        IN_PROCESS,
        "snellen.models.embedded:open_model",
        "the small VLM in the package, by NumPy; needs no extra and no network",
    ),
    "agent": Kind(
        Runtime(open_files=12),
        "snellen.models.agents:open_model",
        "an agent around a model: agent:openclaw, agent:opencode or agent:snellen --agent-model PROVIDER/MODEL --base-url https://…/v1",
    ),
    "tools": Kind(
        SERVER,
        "snellen.models.tools.model:open_model",
        "an API model that may search, fetch pages and zoom before it answers: tools:gpt-6-astra --tools tools.json",
    ),
    "replay": Kind(
        Runtime(priced=False, decodes=False, open_files=0),
        "snellen.models.replay:open_model",
        "answers from any results file: replay:results/run or replay:answers.jsonl",
    ),
}
API_KINDS = tuple(kind for kind, row in KINDS.items() if row.factory == _API)
"""Kinds that send questions to a server, without tools."""
ENGINE_KINDS = ("vllm", "sglang")
"""Kinds that run a checkpoint in an inference engine inside this process."""
CHECKPOINT_KINDS = ("local", *ENGINE_KINDS)
"""Kinds of models whose own sampling is the default."""
TORCH_KINDS = ("local", "embedded")
"""Kinds that transformers runs inside this process; `embedded` only where an option needs torch."""
_KIND_THEN = re.compile(
    rf"\s*({'|'.join(kind for kind in KINDS if kind != 'embedded')})\s*[:/=]\s*(\S.*)", re.IGNORECASE
)
"""A kind of ours in other capitals, or with another sign behind it than a colon: API:NAME, api/NAME."""
_AGENT_OPTIONS = [name for name in ModelOptions.__struct_fields__ if name.startswith(("agent_", "sandbox", "sif"))]


def runtime_of(model: str) -> Runtime:
    """Return where the model KIND:NAME runs; PLUGIN for a kind that is not ours."""
    kind = model.partition(":")[0]
    return KINDS[kind].runtime if kind in KINDS else PLUGIN


def suggested(spec: str) -> str:
    """Suggest KIND:NAME for a name without a kind: a run or a file of answers, a checkpoint's folder, the hub, or an API.

    Returns "" for a name that has a kind, whether there is such a kind or not.
    """
    kind, colon, name = spec.partition(":")
    if not spec.strip() or kind.lower() in ("http", "https"):
        return ""
    path = Path(spec).expanduser()
    head = _KIND_THEN.match(spec)
    if head is not None and not path.exists() and kind not in KINDS:
        return f"{head[1].lower()}:{head[2].strip()}"
    if colon and name and not path.exists() and (equivalent := KINDS_ELSEWHERE.get(kind.lower())):
        return f"{equivalent}:{name}"
    if (colon and not path.exists()) or kind in KINDS:
        return ""
    if path.is_dir():
        return (
            f"replay:{spec}"
            if (path / "run_meta.json").is_file() or (path / "results.jsonl").is_file()
            else f"local:{spec}"
        )
    if path.is_file():
        return f"replay:{spec}"
    if spec.startswith(("./", "../", "/", "~")):  # a path, though nothing is there
        return f"local:{spec}"
    if provider := _provider_of(spec):
        return f"{provider}:{spec}"
    return f"local:{spec}" if spec.count("/") == 1 and not spec.lower().startswith(API_ORGANISATIONS) else f"api:{spec}"


def _provider_of(spec: str) -> str:
    """Return the kind of the provider whose models have such a name; "" for none."""
    return next((kind for head, kind in PROVIDER_OF.items() if spec.lower().startswith(head) and ":" not in spec), "")


def require_kind(spec: str) -> None:
    """Refuse a model whose kind there is not, without opening it. Raises UsageError as `open_model` does."""
    kind = spec.partition(":")[0]
    if kind not in KINDS and kind not in (plugins := {point.name: point for point in entry_points(group=GROUP)}):
        raise _no_kind(spec, kind, [*KINDS, *sorted(plugins)])


def _no_kind(spec: str, kind: str, known: list[str]) -> UsageError:
    """Return the error for a model without a kind or of an unknown kind, with a suggestion."""
    if not spec.strip():
        return UsageError("--model is empty; KIND:NAME was expected", "Write --model api:NAME, or --model embedded.")
    if kind.lower() in ("http", "https"):
        return UsageError(
            f"--model {spec!r} is an address; KIND:NAME was expected",
            f"Write --model api:NAME --base-url {spec}, with NAME as the server lists it ({spec.rstrip('/')}/models).",
        )
    similar = difflib.get_close_matches(kind, known, n=1)
    if (better := suggested(spec)) and not (similar and better == f"api:{spec}"):
        elsewhere = better.startswith("local:") and not Path(spec).expanduser().exists()
        elsewhere = elsewhere or better == f"{_provider_of(spec)}:{spec}"
        other = f", or --model api:{spec} --base-url URL for an endpoint" if elsewhere else ""
        return _with_correction(
            UsageError(
                f"--model {spec!r} names no kind of model", f"Write --model {better}{other}. Kinds: {', '.join(known)}."
            ),
            spec,
            better,
        )
    hint = f"Did you mean {similar[0]}? " if similar else ""
    if kind and ":" in spec and not similar:  # qwen2.5vl:7b, as Ollama writes names
        hint = f"If a server has a model of this name, write --model api:{spec}. "
    error = UsageError(
        f"--model {spec!r}: there is no model kind {kind!r}",
        f"{hint}Kinds: {', '.join(known)}. Write it as KIND:NAME, e.g. api:gpt-6-astra.",
    )
    return _with_correction(error, spec, f"{similar[0]}:{spec.partition(':')[2]}") if similar and ":" in spec else error


def _with_correction(error: UsageError, typed: str, meant: str) -> UsageError:
    error.correction = (typed, meant)
    return error


def open_model(spec: str, options: ModelOptions) -> Model:
    """Make the model that `spec` names; nothing is loaded or contacted before preflight.

    Third parties add kinds through the entry-point group `snellen.models`: a function (name, options) -> Model.

    Raises:
        UsageError: there is no such kind; the message lists those there are.
    """
    kind, _, name = spec.partition(":")
    if kind != "agent" and (option := changed_option(options, _AGENT_OPTIONS)):
        raise UsageError(
            f"--agent-model, --sandbox, --sif and --agent-… are for agents, and {option} is set for --model {spec}.",
            f"Write --model agent:NAME, or omit {option}.",
        )
    if kind in KINDS and kind not in ("agent", "tools") and options.tools is not None:
        raise UsageError(f"--tools is not for --model {spec}.", "Write --model tools:NAME.")
    if kind in KINDS and kind not in ENGINE_KINDS and options.engine_args:
        raise UsageError(
            f"--engine-args is for an engine in this process, and is set for --model {spec}.",
            "Write --model vllm:NAME or sglang:NAME, or omit --engine-args.",
        )
    if kind in KINDS and kind not in TORCH_KINDS and (option := changed_option(options, ("kv_cache", "compile"))):
        raise UsageError(f"{option} is for --model local:NAME, not for --model {spec}.", f"Omit {option}.")
    if kind in KINDS and kind not in (*TORCH_KINDS, *ENGINE_KINDS) and options.adapter is not None:
        raise UsageError(
            f"--adapter is for models that this process loads, not for --model {spec}.",
            "Write --model local:BASE --adapter DIR. A server loads adapters itself: name the adapter there, api:NAME.",
        )
    if kind != "replay" and options.id_is != "id":
        raise UsageError(f"--id-is {options.id_is} is for replayed files, not for --model {spec}.", "Omit --id-is.")
    _refuse_service_options(kind, spec, options)
    if kind in KINDS:
        module, _, attribute = KINDS[kind].factory.partition(":")
        factory = getattr(import_module(module), attribute)
        if kind in API_KINDS:
            return cast(Model, factory(name, options, kind))
    else:
        plugins = {point.name: point for point in entry_points(group=GROUP)}
        if kind not in plugins:
            raise _no_kind(spec, kind, [*KINDS, *sorted(plugins)])
        register_environment(os.environ)  # a plug-in may read any key, and its server may echo it
        factory = _of_plugin(plugins[kind].load, kind)
        return as_model(_of_plugin(lambda: factory(name, options), kind))
    return cast(Model, factory(name, options))


def _refuse_service_options(kind: str, spec: str, options: ModelOptions) -> None:
    """Refuse options of services for models that have no service behind them, or use another protocol's forms."""
    if kind in API_KINDS or kind not in KINDS:
        return
    names = ("responses", "stream", "prompt_cache", *(() if kind == "tools" else ("effort", "detail")))
    if option := changed_option(options, names):
        raise UsageError(f"{option} is for models behind an API, not for --model {spec}.", f"Omit {option}.")


def _of_plugin(call: Callable[[], Any], kind: str) -> Any:
    """Call a plug-in's code; its exceptions name the file and line. Raises PluginError."""
    try:
        return call()
    except SnellenError:
        raise
    except Exception as error:
        fault = plugin_fault(error, f"model kind {kind!r}")
        if fault is None:
            raise
        raise fault from error
