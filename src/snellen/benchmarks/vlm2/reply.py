"""What of a reply is scored, and what the question was."""

from __future__ import annotations

from snellen.benchmarks.vlm2.prompts import final
from snellen.types import Sample, Text


def said(sample: Sample, reply: str) -> str:
    """The text that a profile looks at.

    The released inference scripts strip a reply before they store it, so the reply to a question of ours is stripped;
    a row of somebody's results is looked at as it stands. Under a prompting variant whose replies end in an answer
    marker, it is the text after the last marker: our own choice, since the released scorers know no marker.
    """
    if not sample.prompt.parts and "prompting" not in sample.meta:
        return reply
    return final(reply.strip(), str(sample.meta.get("prompting", "vanilla")))


def question(sample: Sample) -> str:
    """The text of a question; empty for a row of results, which brings none."""
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text)).strip()
