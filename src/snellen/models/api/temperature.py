"""Temperatures that a provider accepts: one outside of its range is refused before the first request."""

from __future__ import annotations

import sys

from snellen.errors import UsageError
from snellen.models.api.endpoint import Endpoint

MOST = {
    "api.openai.com": 2.0,
    "api.anthropic.com": 1.0,
    "generativelanguage.googleapis.com": 2.0,
    "openrouter.ai": 2.0,
    "api.mistral.ai": 1.5,
}
"""Largest temperature by host, as the providers' references have it."""
USUAL_MOST = 2.0


def check_temperature(temperature: float | None, endpoint: Endpoint) -> None:
    """Refuse a temperature that the provider refuses. Raises UsageError."""
    most = MOST.get(endpoint.host)
    if temperature is not None and most is not None and temperature > most:
        raise UsageError(
            f"--temperature {temperature:g}: {endpoint.host} accepts 0 to {most:g}",
            "Give one of that range, or omit it.",
        )


def warn_of_temperature(temperature: float | None, endpoint: Endpoint) -> None:
    """Print a warning of a temperature that most servers refuse, where the server's own range is not known."""
    if temperature is not None and endpoint.host not in MOST and temperature > USUAL_MOST:
        print(
            f"snellen: warning: --temperature {temperature:g} is above {USUAL_MOST:g}, the most that OpenAI-compatible servers "
            "accept; replies may be refused, or be random text.",
            file=sys.stderr,
        )
