"""Models as the engine sees them: the base class with its hooks, and the options that users set."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Struct, field, structs

from snellen.errors import UsageError
from snellen.setting import Setting
from snellen.types import Generation, MediaSettings, Prompt, Response

if TYPE_CHECKING:
    from snellen.models.api.batches.service import BatchService

MAX_CONCURRENCY = 65_536
AUTO, CHECKPOINT, GREEDY, NONE = "auto", "checkpoint", "greedy", "none"
"""Values of `sampling` besides recipes. AUTO, the default of new runs: CHECKPOINT where the checkpoint samples by itself, and
the benchmark's own temperature before it."""
PATIENCE_S = 900.0
START_PATIENCE_S = 30.0
"""Less than for a sample: at the start, the address may be wrong."""


class ModelOptions(Struct, frozen=True):
    """Options of a model from the command line or `evaluate`. A model kind refuses what it cannot use.

    What None means is said by the setting; `evaluate` and `snellen run` take each by its name (docs/cli.md).
    """

    generation: Annotated[
        Generation, Setting("Sampling; what is None is left to the benchmark's prompt, then to the model.")
    ] = Generation()
    sampling: Annotated[
        str | None,
        Setting(
            "Sampling as the vendor means it: checkpoint (its generation_config.json), greedy, none, a recipe of `snellen "
            "recipes`, or your own recipe (TOML). Settings that you give count before it.",
            value="NAME|FILE",
            default="checkpoint, for local:, vllm: and sglang: where it samples",
        ),
    ] = None
    media: Annotated[MediaSettings, Setting("Preparation of images and videos.")] = MediaSettings()
    base_url: Annotated[str | None, Setting("OpenAI-compatible endpoint, up to and including /v1.")] = None
    key_env: Annotated[
        str | None,
        Setting(
            "Name of the environment variable (or line of .env) that holds the key. "
            "The key cannot be an argument: other users could read it with ps.",
            value="NAME",
            default="OPENAI_API_KEY",
        ),
    ] = None
    extra_body: Annotated[
        Mapping[str, Any], Setting("JSON object merged into every request body, or @FILE.", value="JSON")
    ] = field(default_factory=dict)
    effort: Annotated[
        str | None,
        Setting("How much the model thinks; a provider refuses what it does not have.", default="the model's own"),
    ] = None
    detail: Annotated[str, Setting("Size at which the service reads images; original: never scaled down.")] = "auto"
    prompt_cache: Annotated[
        str,
        Setting(
            "Have the service keep what questions share, such as a system text, examples or an image, for its own time (auto) "
            "or for one that it offers; replies are the same."
        ),
    ] = "off"
    responses: Annotated[bool, Setting("openai:MODEL: use the Responses API, not chat completions.")] = False
    stream: Annotated[bool, Setting("Read replies while they are written; records the time to the first token.")] = (
        False
    )
    offline: Annotated[
        bool,
        Setting(
            "Requests are written to a file that another program answers; nothing is sent (`snellen --help batches`)."
        ),
    ] = False
    timeout_s: Annotated[
        float, Setting("Maximum wait for a reply.", 0.001, 31_536_000.0, value="SECONDS", options=("--timeout",))
    ] = 300.0
    patience_s: Annotated[
        float | None,
        Setting(
            "Maximum time that a sample waits for a server that refuses it (429, 503) or cannot be reached, and that a run "
            "waits at its start for a server that is down. Without it: 900 s, and 30 s at the start.",
            0.0,
            604_800.0,
            value="SECONDS",
            options=("--patience",),
        ),
    ] = None
    rpm: Annotated[
        float | None, Setting("Maximum requests per minute.", 0.001, 1e9, value="NUMBER", default="unlimited")
    ] = None
    tpm: Annotated[
        float | None,
        Setting("Maximum tokens per minute, input and output.", 1.0, 1e12, value="NUMBER", default="unlimited"),
    ] = None
    concurrency: Annotated[
        int,
        Setting(
            "Maximum concurrent requests; lowered while the server rate-limits (429) or is too slow.",
            1,
            MAX_CONCURRENCY,
            options=("--concurrency", "-c"),
        ),
    ] = 16
    dtype: Annotated[str, Setting("torch dtype: auto, float32, bfloat16 or float16.")] = "auto"
    device: Annotated[str, Setting("auto, cpu, cuda, cuda:N or mps.")] = "auto"
    batch_size: Annotated[int, Setting("Maximum prompts per batch.", 1, MAX_CONCURRENCY)] = 32
    kv_cache: Annotated[str, Setting("Key-value cache: auto, dynamic or static.")] = "auto"
    compile: Annotated[bool, Setting("Decode full batches with torch.compile and a static cache.")] = False
    stop_after_first_json: Annotated[bool, Setting("End a reply after its first complete JSON object.")] = False
    revision: Annotated[str | None, Setting("Branch, tag or commit on the hub.")] = None
    adapter: Annotated[
        str | None, Setting("LoRA adapter of PEFT over local:, vllm: or sglang:NAME, by its folder.", value="DIR")
    ] = None
    engine_args: Annotated[
        Mapping[str, Any],
        Setting("Arguments of the engine of vllm:NAME or sglang:NAME, as a JSON object or @FILE.", value="JSON"),
    ] = field(default_factory=dict)
    prices: Annotated[
        str | None,
        Setting(
            "TOML or JSON: US dollars per million tokens by model; before the table of prices (`snellen --help cost`).",
            value="FILE",
        ),
    ] = None
    cache: Annotated[
        str | None,
        Setting(
            "Keep answers in this folder across runs, and take answers to the same requests from it; without a folder "
            "in that of Snellen's cache. For models behind an API.",
            value="[DIR]",
        ),
    ] = None
    seed: Annotated[int, Setting("Seed of the benchmark's random draws and of a local model's sampling.")] = 0
    agent_model: Annotated[str | None, Setting("Model that the agent uses, at --base-url.", value="PROVIDER/MODEL")] = (
        None
    )
    sandbox: Annotated[str, Setting("Sandbox of the agent; auto is bubblewrap, none must be named.")] = "auto"
    sif: Annotated[str | None, Setting("Image for apptainer.", value="FILE")] = None
    tools: Annotated[
        str | None,
        Setting(
            "Tools of tools:NAME and of agents: a file of settings, names of tools by comma, such as python,crop, or web for "
            "pages, images, and reverse image search by third parties. By default SNELLEN_TOOLS.",
            value="FILE|NAMES|web",
        ),
    ] = None
    id_is: Annotated[
        str,
        Setting(
            "What the ids in a replayed file are: sample ids, positions from 0, numbers from 1, or a meta field of the "
            "samples.",
            value="id|position|ordinal|META",
        ),
    ] = "id"
    agent_network: Annotated[
        str,
        Setting(
            "Network of the agent. endpoint: --base-url, and the web only through --tools. web: the public web too, by a "
            "gateway that bounds requests and bytes. host: everything that this machine can reach, including its own "
            "servers on loopback and abstract sockets."
        ),
    ] = "endpoint"
    agent_memory: Annotated[
        int,
        Setting("Memory per sample, including its files, which are kept in memory.", value="SIZE", default="2G"),
    ] = 2 << 30
    agent_disk: Annotated[int, Setting("Size of all files per sample.", value="SIZE", default="1G")] = 1 << 30
    agent_processes: Annotated[int, Setting("Concurrent processes per sample.", value="N", default="128")] = 128
    agent_open_files: Annotated[int, Setting("Simultaneously open files per sample.", value="N", default="2048")] = 2048
    agent_files: Annotated[int, Setting("Files and folders per sample.", value="N", default="65536")] = 65536
    agent_depth: Annotated[int, Setting("Folder depth per sample.", value="N", default="128")] = 128
    agent_requests: Annotated[
        int, Setting("Requests to the model per sample, and to the web.", value="N", default="300")
    ] = 300
    agent_config: Annotated[
        str | None,
        Setting(
            "Your own configuration of the agent (JSON, comments allowed); it may name model, endpoint and key.",
            value="FILE",
        ),
    ] = None
    agent_bin: Annotated[
        str | None, Setting("Your own program of the agent, instead of an installed one.", value="PROGRAM")
    ] = None

    def sample_patience_s(self) -> float:
        return PATIENCE_S if self.patience_s is None else self.patience_s

    def start_patience_s(self) -> float:
        return START_PATIENCE_S if self.patience_s is None else self.patience_s


class ModelSettings(TypedDict, total=False):
    """Fields of ModelOptions as keywords of Python functions; ModelOptions says what each is and its default."""

    generation: Generation
    sampling: str | None
    media: MediaSettings
    base_url: str | None
    key_env: str | None
    extra_body: Mapping[str, Any]
    effort: str | None
    detail: str
    prompt_cache: str
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
    adapter: str | None
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

    def may_differ(self, prompt: Prompt) -> bool:
        """Return False if a prompt gets the same reply whatever its seed, as by greedy decoding in this process."""
        return True

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
    *("may_differ", "answer", "answer_for", "request_identity", "batches", "executed", "drop_queued", "close"),
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
