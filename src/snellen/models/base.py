"""Models as the engine sees them: the base class with its hooks, and the options that users set."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct, field, structs

from snellen.errors import UsageError
from snellen.types import Generation, MediaSettings, Prompt, Response

if TYPE_CHECKING:
    from snellen.models.api.batches.service import BatchService

PATIENCE_S = 900.0
START_PATIENCE_S = 30.0
"""Less than for a sample: at the start, the address may be wrong."""


class ModelOptions(Struct, frozen=True):
    """Options of a model from the command line or `evaluate`. A model kind refuses what it cannot use.

    Attributes:
        generation: sampling settings of the whole run; what is None is left to the benchmark's prompt, then the model.
        media: what is done to images.
        base_url: OpenAI-compatible endpoint, up to and including `/v1`.
        key_env: name of the environment variable that holds the key (never the key itself).
        extra_body: merged into every request body.
        effort: how long a model may think: none, minimal, low, medium, high, xhigh, max; None: the model's own default.
        detail: size at which a service reads images: auto (its own default), low, high, original (never scaled down).
        responses: `openai:` uses the Responses API in place of chat completions.
        stream: replies are read while they are written.
        offline: requests are written to a file that another program answers; nothing is sent (docs/batches.md).
        timeout_s: seconds until a request counts as timed out.
        patience_s: seconds that a sample waits for a server that refuses it (429, 503) or cannot be reached, and that a
            run waits at its start for a server that is down; None: PATIENCE_S and, at the start, START_PATIENCE_S.
        rpm, tpm: requests and tokens a minute at most; None: as many as the server takes.
        concurrency: requests in flight at most, or the local batch size to aim at.
        dtype: torch dtype of a local model: auto, float32, bfloat16, float16.
        device: device map of a local model: auto, cpu, cuda, cuda:1.
        batch_size: prompts a local batch holds at most.
        kv_cache: key-value cache of a local model: auto, dynamic, static (docs/models-local.md).
        compile: torch.compile decodes full batches of a local model; the cache is static then.
        stop_after_first_json: a local model stops once one whole JSON object is written.
        revision: hub revision of a local model.
        engine_args: arguments of an inference engine in this process (`vllm:`, `sglang:`), by its own names.
        prices: file with prices per model, before those of the package's table (docs/cost.md).
        cache: folder of answers that are kept across runs, `auto` for that of Snellen's cache; None: none (docs/cost.md).
        seed: the run's seed, for a local model that samples; an endpoint is sent that of `generation`.
        agent_model: PROVIDER/MODEL that an agent asks, behind `base_url`.
        sandbox: what an agent runs in: auto (bubblewrap), bubblewrap, apptainer, none.
        sif: the image file for apptainer.
        tools: file of tool settings for `tools:` (docs/tools.md).
        id_is: what the ids in a replayed file are: `id`, `position` (from 0), `ordinal` (from 1), or a meta field of the samples.
        agent_config: the user's own configuration file of the agent.
        agent_bin: the user's own program of the agent, a path or a name on PATH.
        agent_network: what an agent can reach: endpoint (the model, and what its tools need), host (all that this machine can).
        agent_memory, agent_disk: bytes that one agent's sample may use; files lie in memory and count for both.
        agent_processes, agent_open_files, agent_files, agent_depth: how many of them, and how deep its folders may lie.
        agent_requests: that one agent's sample may make to its model.
    """

    generation: Generation = Generation()
    media: MediaSettings = MediaSettings()
    base_url: str | None = None
    key_env: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    effort: str | None = None
    detail: str = "auto"
    responses: bool = False
    stream: bool = False
    offline: bool = False
    timeout_s: float = 300.0
    patience_s: float | None = None
    rpm: float | None = None
    tpm: float | None = None
    concurrency: int = 16
    dtype: str = "auto"
    device: str = "auto"
    batch_size: int = 32
    kv_cache: str = "auto"
    compile: bool = False
    stop_after_first_json: bool = False
    revision: str | None = None
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    prices: str | None = None
    cache: str | None = None
    seed: int = 0
    agent_model: str | None = None
    sandbox: str = "auto"
    sif: str | None = None
    tools: str | None = None
    id_is: str = "id"
    agent_network: str = "endpoint"
    agent_memory: int = 2 << 30
    agent_disk: int = 1 << 30
    agent_processes: int = 128
    agent_open_files: int = 2048
    agent_files: int = 65536
    agent_depth: int = 128
    agent_requests: int = 300
    agent_config: str | None = None
    agent_bin: str | None = None

    def sample_patience_s(self) -> float:
        return PATIENCE_S if self.patience_s is None else self.patience_s

    def start_patience_s(self) -> float:
        return START_PATIENCE_S if self.patience_s is None else self.patience_s


class ModelSettings(TypedDict, total=False):
    """Fields of ModelOptions as keywords of Python functions; ModelOptions says what each is and its default."""

    generation: Generation
    media: MediaSettings
    base_url: str | None
    key_env: str | None
    extra_body: Mapping[str, Any]
    effort: str | None
    detail: str
    responses: bool
    stream: bool
    offline: bool
    timeout_s: float
    patience_s: float | None
    rpm: float | None
    tpm: float | None
    concurrency: int
    dtype: str
    device: str
    batch_size: int
    kv_cache: str
    compile: bool
    stop_after_first_json: bool
    revision: str | None
    engine_args: Mapping[str, Any]
    prices: str | None
    cache: str | None
    seed: int
    agent_model: str | None
    sandbox: str
    sif: str | None
    tools: str | None
    id_is: str
    agent_network: str
    agent_memory: int
    agent_disk: int
    agent_processes: int
    agent_open_files: int
    agent_files: int
    agent_depth: int
    agent_requests: int
    agent_config: str | None
    agent_bin: str | None


DEFAULTS = ModelOptions()
AGENT_LIMITS = tuple(
    name
    for name in ModelOptions.__struct_fields__
    if name.startswith("agent_") and name not in ("agent_model", "agent_network", "agent_config", "agent_bin")
)


def changed_option(options: ModelOptions, names: Iterable[str]) -> str | None:
    """Return the first of these options that is not at its default, as typed on the command line; None if all are."""
    changed = (name for name in names if getattr(options, name) != getattr(DEFAULTS, name))
    return next((f"--{name.replace('_', '-')}" for name in changed), None)


class Model:
    """Base class of models: the engine sends prompts, the model returns replies. One instance serves one run.

    A subclass writes `answer`, and `identity` where anything but its class decides an answer. The other methods and
    attributes are hooks with defaults. `answer` is called many times at once.

    Attributes:
        name: as typed after `--model`; the class's name where a subclass sets none.
        in_flight: number of prompts that keep the model busy. The engine sends at least this many at once, whatever
            `concurrency` is.
        seed: the run's seed, for a model that returns the same reply to the same prompt and seed. The engine then gives
            each repeat of a sample a seed of its own. None: the model draws by itself.
        price: price of the model's tokens; None: unknown, so that `--max-cost` is refused.
        batch_limit: prompts that a batch holds at most by now; None: the model has no batches.
        supports: parts of a prompt besides images and text that the model can use: `system`, `history`, and `logprobs`
            where it returns probabilities of tokens. A run whose prompts need another one is refused at its start.

    Example:
        >>> class Adder(Model):
        ...     name = "adder"
        ...
        ...     async def answer(self, prompt: Prompt) -> Response:
        ...         return Response("2")
    """

    name: str = ""
    in_flight: int = 0
    seed: int | None = None
    price: object | None = None
    batch_limit: int | None = None
    supports: frozenset[str] = frozenset()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.name = cls.name or cls.__name__

    @property
    def shareable(self) -> bool:
        """True if several runs or workers may share the model: it keeps no files and does not know samples by id."""
        return type(self).attach is Model.attach and type(self).answer_for is Model.answer_for

    def identity(self) -> Mapping[str, Any]:
        """Return everything that can change an answer, for the run's fingerprint. Never a key."""
        return _plugin_identity(self, self.name)

    def attach(self, folder: Path) -> None:
        """Take the run's folder, before preflight: for a model that keeps files beside the answers."""

    def hide(self, paths: Sequence[Path]) -> None:
        """Take the paths that the model must not show or read, before preflight: data with answers, the run's folder."""

    async def preflight(self) -> None:
        """Fail early: raise PreflightError when key, endpoint, model or files are missing."""

    async def answer(self, prompt: Prompt) -> Response:
        """Return one reply to one prompt. Raises a ModelError when there is none; never returns a made-up one."""
        raise NotImplementedError(f"{type(self).__name__} has no method `answer`")

    async def answer_for(self, sample_id: str, repeat: int, prompt: Prompt) -> Response:
        """Return the reply for one sample: for a model that knows samples by id. The default asks `answer`.

        Args:
            sample_id: as in the run's records.
            repeat: which repeat of the sample, from 0.
            prompt: as for `answer`.
        """
        return await self.answer(prompt)

    def batches(self) -> BatchService:
        """Return the service that answers this model's prompts by batches (`--batch`); nothing is sent yet.

        Raises:
            UsageError: the model has none.
        """
        raise UsageError(
            f"--batch sends the questions to a service that answers them later, and {self.name} has none.",
            "Use --model api:NAME with a service that offers batches, or omit --batch.",
        )

    async def request_identity(self, prompt: Prompt) -> bytes | None:
        """Return everything that decides the reply to a prompt, for `--cache`; None: the reply must not be kept.

        Never a key. The default is None: of most models a prompt is not all that decides.
        """
        return None

    async def executed(self) -> Mapping[str, Any] | None:
        """Return facts about the execution for run_meta.json, after the last reply; None: nothing to record."""
        return None

    def drop_queued(self) -> None:
        """Cancel the prompts that wait inside the model and are not being answered yet; called when the user stops the run.

        Without it, stopping waits for all prompts that the model has accepted.
        """

    async def close(self) -> None:
        """Release connections, threads and memory."""


HOOKS = (
    *("name", "in_flight", "seed", "price", "batch_limit", "supports", "identity", "attach", "hide", "preflight"),
    *("answer", "answer_for", "request_identity", "batches", "executed", "drop_queued", "close"),
)


class AdaptedModel(Model):
    """An object that has `answer` but does not inherit from `Model`: its own hooks, and defaults for those it lacks."""

    def __init__(self, model: Any) -> None:
        self.name = type(model).__name__
        self.model = model
        for hook in HOOKS:
            if hasattr(model, hook):
                setattr(self, hook, getattr(model, hook))

    @property
    def shareable(self) -> bool:
        return not {"attach", "answer_for"} & vars(self).keys()

    def identity(self) -> Mapping[str, Any]:
        return _plugin_identity(self.model, self.name)


def as_model(model: Any) -> Model:
    """Return the model itself, or an adapter for an object that does not inherit from `Model`, with a DeprecationWarning.

    Raises:
        UsageError: the object has no method `answer`.
    """
    if isinstance(model, Model):
        return model
    if not callable(getattr(model, "answer", None)):
        raise UsageError(
            f"{type(model).__name__} is not a model: it has no method `answer`.", "Inherit from snellen.Model."
        )
    warnings.warn(
        f"{type(model).__name__} does not inherit from snellen.Model; version 0.3 will require it",
        DeprecationWarning,
        stacklevel=3,
    )
    return AdaptedModel(model)


def _plugin_identity(model: object, name: str) -> Mapping[str, Any]:
    kind = type(model)
    return {"kind": "plugin", "class": f"{kind.__module__}.{kind.__qualname__}", "name": name}


def effective(options: Generation, prompt: Generation | None) -> Generation:
    """Return the settings for one prompt: what the user set for the run, else what the prompt asks for.

    The seed is the exception: the prompt's wins, since the engine sets it there to tell repeats of a question apart.
    """
    if prompt is None or prompt is options:
        return options
    key = (id(options), id(prompt))
    known = _EFFECTIVE.get(key)
    if known is not None and known[0] is options and known[1] is prompt:
        return known[2]
    chosen = {name: getattr(prompt, name) for name in _FIELDS if getattr(options, name) in (None, (), {})}
    if prompt.seed is not None:
        chosen["seed"] = prompt.seed
    result = structs.replace(options, **chosen)
    if len(_EFFECTIVE) > 64:
        _EFFECTIVE.clear()
    _EFFECTIVE[key] = (options, prompt, result)
    return result


_FIELDS = Generation.__struct_fields__
# Prompts of one benchmark share a few settings objects, so merging is done once a pair and not once a question.
_EFFECTIVE: dict[tuple[int, int], tuple[Generation, Generation, Generation]] = {}
