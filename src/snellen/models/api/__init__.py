"""Models behind an OpenAI-compatible chat completions endpoint: `--model api:NAME`.

`model` ties the parts together; `request` writes bodies, `transport` sends them, `response` reads replies, `errors` and
`rate_limits` classify failures, `preflight` checks before the run, `keys`, `endpoint` and `prices` read the settings.
"""

from snellen.models.api.model import ApiModel, open_model

__all__ = ["ApiModel", "open_model"]
