"""A model of this machine behind an OpenAI-compatible endpoint: `protocol` reads and writes requests and replies, `app` is the
web application, `run` binds a port and serves it.

Other programs' model servers, started and ended by us. Today: vLLM, which the user brings (docs/serving.md).
"""

from __future__ import annotations
