"""Counts of replies that EASI's rules cannot parse; they decide whether a judge is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from snellen.easi.judged_scores import PROFILE
from snellen.runs.run import Run
from snellen.types import Score

WHOLE = ""


class ReplyCounts(Struct, frozen=True):
    """The number of replies, and of unparseable ones."""

    replies: int
    failed: int

    @property
    def share(self) -> float:
        return self.failed / self.replies if self.replies else 0.0


class UnparsedReplies(Struct, frozen=True):
    """Counts by part: the halves of SITE, or the whole benchmark."""

    parts: Mapping[str, ReplyCounts]

    @property
    def all(self) -> ReplyCounts:
        return ReplyCounts(
            sum(part.replies for part in self.parts.values()), sum(part.failed for part in self.parts.values())
        )

    def over(self, threshold: float) -> bool:
        """Return True if one part exceeds the threshold; both halves of SITE are then judged."""
        return any(part.share > threshold for part in self.parts.values())

    def as_json(self) -> dict[str, Any]:
        """Return the counts as `easi.json` has them, by part."""
        return {
            name or "all": {"replies": part.replies, "failed": part.failed, "share": round(part.share, 4)}
            for name, part in self.parts.items()
        }


def count_unparsed(run: Run) -> UnparsedReplies:
    """Count unparseable replies of a run; failed and refused requests have no reply and are excluded."""
    rule = run.benchmark.score[PROFILE]
    counts: dict[str, list[int]] = {}
    for sample, record in run.answers():
        if record.status == "ok" and record.response is not None:
            half = str(sample.meta["task"]) if run.benchmark.members else WHOLE
            count = counts.setdefault(half, [0, 0])
            count[0] += 1
            count[1] += is_unparsed(rule(sample, record.response.text))
    return UnparsedReplies({name: ReplyCounts(*count) for name, count in sorted(counts.items())})


def is_unparsed(score: Score) -> bool:
    """Return True if the rule found no answer. An answer of 0 is one; a missing number is none.

    Where VLMEvalKit can read neither the reply nor the gold answer it counts a hit; the reply is unread all the same.
    """
    return score.verdict == "invalid" or score.detail.get("gold_unread") is True
