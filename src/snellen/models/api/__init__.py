"""Models behind an OpenAI-compatible chat completions endpoint: `--model api:NAME`.

`model` ties the parts together; `body` writes requests, `transport` carries them, `reply` reads what comes back,
`faults` names what went wrong, `preflight` checks before the run, `keys`, `endpoint` and `prices` read the settings.
"""

from snellen.models.api.model import ApiModel, open_model

__all__ = ["ApiModel", "open_model"]
