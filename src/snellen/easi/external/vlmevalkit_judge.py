"""Evidence that VLMEvalKit's judge ran, from the files that only a judge writes and from the log.

Without a usable key the kit warns, scores by rules and exits with 0. Its spatial benchmarks then write no `_llm_<judge>` file;
BLINK and 3DSRBench write `_<judge>_result` all the same, and only the column `log` of each row tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.formats.base import Problems
from snellen.formats.readers import table_rows

FALLBACK = re.compile(
    r"will use exact[_ ]matching|fall(?:s|ing)? ?back to (?:the )?(?:rule|exact|extract)|exact matching mode"
    r"|no GPT-based answer matching|(?:judge|OPENAI API|LLM judge)\b.{0,30}\bis not working|OPENAI_API_KEY is not"
    r"|failed to build (?:the )?judge|(?:judge|API) is not available",
    re.IGNORECASE,
)
"""A line of the log that announces scoring by rules in place of a judge."""
NO_VERDICT = re.compile(r"LLM extract failed after max_retry", re.IGNORECASE)
"""A line of the log for each reply that the judge graded in none of its attempts; the kit grades it C."""
UNREAD = "Failed in Prefetch"
DRAWN = "Failed to predict, thus randomly generate one"
GRADES = ("A", "B", "C")
INVALID = "C"
"""The grade of a reply without an answer, and of one that the kit's judge did not grade."""
NOT_EXTRACTED = ("", "N/A", "NAN", "NONE")
"""What the kit writes as the extracted answer of a reply that no attempt of the judge read; a table may lose it."""
LONGEST = 200


class JudgeEvidence(Struct, frozen=True):
    """The evidence that a judge run left behind.

    Attributes:
        replies: replies that were for the judge.
        verdicts: those of them that it gave a verdict on.
        reason: why no judge is credited; empty where one is.
    """

    replies: int = 0
    verdicts: int = 0
    reason: str = ""

    @property
    def judged(self) -> bool:
        return self.verdicts > 0 and not self.reason

    def __add__(self, other: JudgeEvidence) -> JudgeEvidence:
        """Add the evidence of both halves of SITE: an unjudged half leaves the whole unjudged."""
        return JudgeEvidence(self.replies + other.replies, self.verdicts + other.verdicts, self.reason or other.reason)


def evidence(path: Path | None, lines: Iterable[str]) -> JudgeEvidence:
    """Read whether a judge graded the replies of one data set.

    Args:
        path: the judge's table, written by the judge run itself; None: there is none.
        lines: the log of the judge run.

    Raises:
        DataError: the table cannot be read.
    """
    listed = list(lines)
    fallback = next((line for line in listed if FALLBACK.search(line)), "")
    words = " ".join(fallback.split())[:LONGEST]
    if path is None:
        return JudgeEvidence(reason=words or "the judge run wrote no judge's file and exited without an error")
    graded, put, answered, decided = _counts(path)
    if graded:
        failed = sum(1 for line in listed if NO_VERDICT.search(line))
        answered = max(0, answered - failed)
    if fallback and (not graded or answered == put):
        return JudgeEvidence(put, 0, words)
    if graded and answered > 1 and not decided:
        return JudgeEvidence(
            put,
            0,
            f"every grade in {path.name} is {INVALID} with no extracted answer, which the kit also writes without a judge",
        )
    if not put:
        return JudgeEvidence(reason=f"no reply in {path.name} was for a judge")
    return JudgeEvidence(put, answered, "" if answered else f"{path.name} has no verdict on any of {put:,} replies")


def _counts(path: Path) -> tuple[bool, int, int, int]:
    """Return what a judge's table holds.

    Returns:
        Whether rows carry a grade, replies for the judge, replies with a verdict, and those of them that a judge must have
        read: graded right or wrong, or with an answer that it extracted.
    """
    graded, put, answered, decided = False, 0, 0, 0
    for _, row in table_rows(path, Problems()):
        if "judge_grade" in row:
            graded = True
            put += 1
            grade = str(row["judge_grade"] or "").strip().upper()
            answered += grade in GRADES
            is_read = str(row.get("pred_extracted") or "").strip().upper() not in NOT_EXTRACTED
            decided += grade in GRADES and (grade != INVALID or is_read)
        elif row.get("log") is not None:
            log = str(row["log"])
            put += not _by_rules(log, row)
            answered += not _by_rules(log, row) and UNREAD not in log and DRAWN not in log
        else:
            put, answered = put + 1, answered + 1
    return graded, put, answered, decided


def _by_rules(log: str, row: Mapping[str, Any]) -> bool:
    """Return True if a row's log repeats the reply: the rules read it, and no judge was called."""
    prediction = " ".join(str(row.get("prediction") or "").split())
    return " ".join(log.split()).rstrip(" .") == f"Match Log: {prediction}".rstrip(" .")
