"""VLM2-Bench: linking the same thing across images and video, in nine subtasks.

Source: Zhang et al. 2025, arXiv 2502.12084 (ACL 2025); scoring as in the released scripts. docs/vlm2.md has the rules of
each profile in words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache, partial

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Headline, Published, Scorer
from snellen.benchmarks.published import column, load
from snellen.benchmarks.suite import suite
from snellen.benchmarks.vlm2 import interop, metrics, prompts, samples, scorers
from snellen.benchmarks.vlm2.layout import BY_NAME, SUBTASKS, Subtask
from snellen.scoring.scores import COUNT_AS_WRONG, LEFT_OUT
from snellen.types import Metric

VERSION = "1"
PROFILES = {
    "official": "the authors' scripts, faults included: the published figures, but for videos, whose judge is asked in Snellen's words",
    "paper": "the paper's formula: as official, and a count that cannot be read is worth 0 in the headline",
    "vlmevalkit": "VLMEvalKit since August 2026: percentages of its table as fractions",
    "vlmevalkit-legacy": "VLMEvalKit before: every miss of a count is worth 0",
    "strict": "careful extractors; not comparable with the published table",
}
ABOUT = {
    "source": "Zhang et al. 2025, VLM2-Bench, arXiv 2502.12084v4 (ACL 2025); Sterzhang/vlm2-bench on the hub",
    "licence": "code Apache-2.0; data CC BY-NC 4.0 by its card (the paper's appendix says CC BY 4.0)",
}

_COUNTS = f"{COUNT_AS_WRONG}, but count_score_usable leaves them out"


@cache
def published_tables() -> tuple[Published, ...]:
    """Return the main table of the paper's fourth version, that of the README and of earlier versions, and that of resolutions.

    Source: Zhang et al. 2025, arXiv 2502.12084 (v1 to v4), and the README of the released code.
    """
    return load(__package__)


def published_column(name: str) -> Published:
    """Return the fourth version's column of one subtask (`oc-cnt`); the older table has the same cells for all models."""
    published = column(published_tables()[0], name)
    notes = tuple(note for note in published.notes if not note.startswith("Against people"))
    return structs.replace(published, notes=notes, whole=published_tables()[0])


def _scorers(subtask: Subtask) -> Mapping[str, Scorer]:
    if subtask.family == "pair":
        own = scorers.score_truth_exact if subtask.cue == "gc" else scorers.score_truth_official
        kit = scorers.score_truth_vlmevalkit
        return _all(own, own, kit, kit, scorers.score_truth_strict)
    if subtask.family == "count":
        own = scorers.score_count_official
        kits = scorers.score_count_vlmevalkit, scorers.score_count_vlmevalkit_legacy
        return _all(own, own, *kits, scorers.score_count_strict)
    if subtask.family == "group":
        return _all(*[scorers.score_group_official] * 4, scorers.score_group_strict)
    return _all(*[scorers.score_unjudged] * 5)


def _all(*scorers: Scorer) -> Mapping[str, Scorer]:
    return dict(zip(PROFILES, scorers, strict=True))


def declare(subtask: Subtask) -> Benchmark:
    """Declare the benchmark of one subtask."""
    return Benchmark(
        name=f"vlm2/{subtask.name}",
        version=VERSION,
        samples=partial(samples.samples, subtask),
        score=_scorers(subtask),
        summarize=partial(metrics.summarize_subtask, subtask),
        profiles=PROFILES,
        size=partial(samples.size, subtask),
        digest=partial(samples.digest, subtask),
        options=prompts.OPTIONS,
        wording=frozenset(prompts.OPTIONS),
        about={"description": f"VLM2-Bench, {subtask.title}.", **ABOUT},
        results=partial(interop.read_subtask_results, subtask),
        notices=partial(samples.notices, subtask),
        rubric=scorers.video_rubric if subtask.family == "video" else None,
        published=(published_column(subtask.name),),
        exports=interop.exports(_scorers, subtask),
        unanswered=LEFT_OUT if subtask.family == "video" else _COUNTS if subtask.family == "count" else COUNT_AS_WRONG,
    )


def against_people(measured: Sequence[Metric]) -> Headline | None:
    """Return the overall scores with their distance from people, each by its own table and rule; None without a score."""
    by_name = {metric.name: metric.value for metric in measured}
    texts, figures = [], {}
    for table in published_tables():
        value = by_name.get(table.against)
        if value is None:
            continue
        at = table.metrics.index(table.against)
        people = next(row.values[at] for row in table.rows if row.kind == "human") or 0.0
        texts.append(
            f"{table.against} {100 * value:.2f}, people {100 * people:.2f}: {100 * (value - people):+.2f} points"
        )
        figures[f"{table.against}_against_people"] = value - people
    return Headline("; ".join(texts), figures) if texts else None


GC_MAT, GC_TRK, OC_CPR, OC_CNT, OC_GRP, PC_CPR, PC_CNT, PC_GRP, PC_VID = map(declare, SUBTASKS)
_SUITE = suite(
    "vlm2",
    (GC_MAT, GC_TRK, OC_CPR, OC_CNT, OC_GRP, PC_CPR, PC_CNT, PC_GRP, PC_VID),
    version=VERSION,
    about={"description": "VLM2-Bench: all nine subtasks in one run.", **ABOUT},
    summarize=metrics.summarize_suite,
    results=interop.read_suite_results,
    published=published_tables(),
    exports=interop.exports(_scorers),
    fit=lambda task, data: prompts.fitted(data, BY_NAME[task]),
    notices=prompts.suite_notices,
    overall=metrics.OVERALL,
    headline=against_people,
)
VLM2 = dataclasses.replace(_SUITE, unanswered=f"{_COUNTS}, as the scores of videos do")
