"""`--model agent:snellen`: Snellen's own tool loop as an agent, with any provider that speaks the OpenAI protocol.

It needs no installation: the model calls the tools of `--tools`. What it writes is run by the tool `python` alone, in its
own sandbox.
"""

from __future__ import annotations

import os

from msgspec import Struct, structs

from snellen.errors import UsageError
from snellen.models.base import AGENT_LIMITS, DEFAULTS, ModelOptions, changed_option
from snellen.models.tools.model import ToolsModel
from snellen.models.tools.model import open_model as open_tools

NAME = "snellen"
SANDBOX_OPTIONS = ("sandbox", "sif", "agent_network", "agent_config", "agent_bin", *AGENT_LIMITS)


class Provider(Struct, frozen=True):
    """A provider's endpoint for the OpenAI protocol, and the variable that usually holds its key."""

    base_url: str
    key_env: str


PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "google": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
}
"""Providers whose endpoint need not be named."""


def open_model(options: ModelOptions) -> ToolsModel:
    """Return the tool loop around the model of --agent-model.

    Raises:
        UsageError: there is no model, no endpoint is known, or an option is for agents in a sandbox.
    """
    if flag := changed_option(options, SANDBOX_OPTIONS):
        raise UsageError(f"{flag} is for agents in a sandbox, and agent:{NAME} runs no program.", f"Omit {flag}.")
    provider, _, model = (options.agent_model or "").partition("/")
    if not (provider and model):
        raise UsageError(
            f"--model agent:{NAME} needs --agent-model PROVIDER/MODEL",
            f"Providers: {', '.join(PROVIDERS)}; any other name with --base-url URL.",
        )
    known = PROVIDERS.get(provider)
    base_url, key_env = options.base_url, options.key_env
    if base_url is None and known is not None:
        base_url, key_env = known.base_url, key_env or known.key_env
    if base_url is None and not os.environ.get("OPENAI_BASE_URL"):
        raise UsageError(
            f"--agent-model {options.agent_model}: the endpoint of {provider} is not known",
            f"Name it: --base-url URL. Known are {', '.join(PROVIDERS)}.",
        )
    plain = {name: getattr(DEFAULTS, name) for name in ("agent_model", *SANDBOX_OPTIONS)}
    loop = open_tools(model, structs.replace(options, **plain, base_url=base_url, key_env=key_env))
    loop.name = f"agent:{NAME}"
    return loop
