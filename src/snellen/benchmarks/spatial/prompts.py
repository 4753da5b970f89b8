"""How a question is put: which words, which frames, as each harness has it."""

from __future__ import annotations

from msgspec import Struct


class Prompting(Struct, frozen=True):
    """Settings of how a question is put: `form` is lmms-eval or vlmevalkit; `frames` how many of a video."""

    form: str = "vlmevalkit"
    frames: int = 32
