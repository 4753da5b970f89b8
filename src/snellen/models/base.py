"""What a model is to the engine: a name, a check before the run, and one coroutine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct, field, structs

from snellen.types import Generation, MediaSettings, Prompt, Response


class ModelOptions(Struct, frozen=True):
    """What the command line or `evaluate` may set for a model. A model kind refuses what it cannot use.

    Attributes:
        generation: sampling settings of the whole run; what is None is left to the benchmark's prompt, then the model.
        media: what is done to pictures.
        base_url: OpenAI-compatible endpoint, up to and including `/v1`.
        key_env: name of the environment variable that holds the key (never the key itself).
        extra_body: merged into every request body.
        timeout_s: seconds until a request counts as timed out.
        patience_s: seconds that a sample waits for a server that refuses it (429, 503) or cannot be reached.
        rpm, tpm: requests and tokens a minute at most; None: as many as the server takes.
        concurrency: requests in flight at most, or the local batch size to aim at.
        dtype: torch dtype of a local model: auto, float32, bfloat16, float16.
        device: device map of a local model: auto, cpu, cuda, cuda:1.
        batch_size: prompts a local batch holds at most.
        stop_after_first_json: a local model stops once one whole JSON object is written.
        revision: hub revision of a local model.
        prices: file with prices per model, for cost and `--max-cost`.
        seed: the run's seed, for a local model that samples; an endpoint is sent that of `generation`.
        agent_model: PROVIDER/MODEL that an agent asks, behind `base_url`.
        sandbox: what an agent runs in: auto (bubblewrap), bubblewrap, apptainer, none.
        sif: the image file for apptainer.
        tools: file of tool settings for `tools:` (docs/tools.md).
        id_is: what the ids in a replayed file are: `id`, `position` (from 0), or the name of a meta field of the samples.
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
    timeout_s: float = 300.0
    patience_s: float = 900.0
    rpm: float | None = None
    tpm: float | None = None
    concurrency: int = 16
    dtype: str = "auto"
    device: str = "auto"
    batch_size: int = 32
    stop_after_first_json: bool = False
    revision: str | None = None
    prices: str | None = None
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


DEFAULTS = ModelOptions()
AGENT_LIMITS = (
    "agent_memory",
    "agent_disk",
    "agent_processes",
    "agent_open_files",
    "agent_files",
    "agent_depth",
    "agent_requests",
)


class Model(Protocol):
    """Answers prompts. One instance serves one run; `answer` is called many times at once.

    `name` is what the user typed after `--model`. `identity` is what goes into the fingerprint: everything that can
    change an answer, and never a key. A model may have `in_flight: int`, the number of prompts that keep it busy; the
    engine then asks no fewer at once, whatever `concurrency` says. One that gives the same answer to the same prompt
    and seed has `seed: int`, the run's; the engine then asks each repeat of a question with a seed of its own. One
    that knows samples by id has `answer_for(sample_id, repeat, prompt)`, asked in place of `answer`; one that keeps
    files beside the answers has `attach(folder)`, called with the run's folder before preflight. One that is spread
    over workers has `executed()`, a coroutine: what run_meta.json is to say about them at the end.
    """

    name: str

    def identity(self) -> Mapping[str, Any]: ...

    async def preflight(self) -> None:
        """Fail early: raise PreflightError when key, endpoint, model or files are not there."""
        ...

    async def answer(self, prompt: Prompt) -> Response:
        """One reply to one prompt. Raises a ModelError when there is none; never returns a made-up one."""
        ...

    async def close(self) -> None: ...


def effective(options: Generation, prompt: Generation | None) -> Generation:
    """The settings for one prompt: what the user set for the run, else what the prompt asks for.

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
