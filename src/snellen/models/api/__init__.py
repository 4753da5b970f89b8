"""Models behind an API: `api:` for any OpenAI-compatible endpoint, and providers by name in their own protocol.

`model` ties the parts together. `services` are the providers as data and `protocol` the forms of one model's requests;
`request` and `response` write and read chat completions, `openai_responses`, `anthropic_messages` and `gemini_content`
the other protocols. `transport` sends, `errors` and `rate_limits` classify failures, `preflight` checks before the run,
`services`, `endpoint` and `prices` read the settings.
"""

from snellen.models.api.model import ApiModel

__all__ = ["ApiModel"]
