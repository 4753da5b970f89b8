"""From `--model KIND:NAME` to a model."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from snellen.errors import UsageError
from snellen.models.base import Model, ModelOptions

GROUP = "snellen.models"
KINDS = {
    "api": ("snellen.models.api:open_model", "an OpenAI-compatible endpoint: api:gpt-6-astra --base-url https://…/v1"),
    "local": (
        "snellen.models.local:open_model",
        "a Hugging Face folder or hub name, by transformers: local:Qwen/Qwen3-VL-8B-Instruct",
    ),
    "embedded": (
        "snellen.models.embedded:open_model",
        "the small VLM in the package; needs the extra `local` and no network",
    ),
    "agent": (
        "snellen.models.agents:open_model",
        "a real agent around a model: agent:openclaw or agent:opencode --agent-model PROVIDER/MODEL --base-url https://…/v1",
    ),
    "tools": (
        "snellen.models.tools.loop:open_model",
        "an API model that may search, fetch pages and zoom before it answers: tools:gpt-6-astra --tools tools.json",
    ),
    "replay": (
        "snellen.models.replay:open_model",
        "answers from any results file: replay:results/run or replay:answers.jsonl",
    ),
}


def open_model(spec: str, options: ModelOptions) -> Model:
    """Make the model that `spec` names; nothing is loaded or contacted before preflight.

    Third parties add kinds through the entry-point group `snellen.models`: a function (name, options) -> Model.

    Raises:
        UsageError: there is no such kind; the message lists those there are.
    """
    kind, _, name = spec.partition(":")
    if kind != "agent" and (options.agent_model, options.sandbox, options.sif) != (None, "auto", None):
        raise UsageError(
            f"--agent-model, --sandbox and --sif are for agents, not for --model {spec}.", "Write --model agent:NAME."
        )
    if kind in ("api", "local", "embedded", "replay") and options.tools is not None:
        raise UsageError(f"--tools is not for --model {spec}.", "Write --model tools:NAME.")
    if kind in KINDS:
        module, _, attribute = KINDS[kind][0].partition(":")
        factory = getattr(import_module(module), attribute)
    else:
        found = {point.name: point for point in entry_points(group=GROUP)}
        if kind not in found:
            known = [*KINDS, *sorted(found)]
            near = difflib.get_close_matches(kind, known, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"--model {spec!r}: there is no model kind {kind!r}",
                f"{hint}Kinds: {', '.join(known)}. Write it as KIND:NAME, e.g. api:gpt-6-astra.",
            )
        factory = found[kind].load()
    return cast(Model, factory(name, options))
