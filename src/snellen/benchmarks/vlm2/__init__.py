"""VLM2-Bench: linking the same thing across images and video, in nine subtasks.

Source: Zhang et al. 2025, arXiv 2502.12084 (ACL 2025); scoring as in the released scripts. docs/vlm2.md has the rules of
each profile in words.
"""

from __future__ import annotations

from collections.abc import Mapping

from snellen.benchmarks.base import Benchmark, Scorer
from snellen.benchmarks.suite import suite
from snellen.benchmarks.vlm2 import (
    counting,
    data,
    grouping,
    interop,
    metrics,
    prompts,
    published,
    truth,
    video,
)
from snellen.benchmarks.vlm2.subtasks import SUBTASKS, Subtask

VERSION = "1"
PROFILES = {
    "official": "the authors' scripts, faults included: the published figures",
    "paper": "the paper's formula: as official, and a count that cannot be read is worth 0 in the headline",
    "vlmevalkit": "VLMEvalKit since August 2026: percentages of its table as fractions",
    "vlmevalkit-legacy": "VLMEvalKit before: every miss of a count is worth 0",
    "strict": "careful extractors; not comparable with the published table",
}
ABOUT = {
    "source": "Zhang et al. 2025, VLM2-Bench, arXiv 2502.12084v4 (ACL 2025); Sterzhang/vlm2-bench on the hub",
    "licence": "code Apache-2.0; data CC BY-NC 4.0 by its card (the paper's appendix says CC BY 4.0)",
}


def _scorers(subtask: Subtask) -> Mapping[str, Scorer]:
    if subtask.family == "pair":
        own = truth.exact if subtask.cue == "gc" else truth.official
        return _all(own, own, truth.vlmevalkit, truth.vlmevalkit, truth.strict)
    if subtask.family == "count":
        kits = counting.vlmevalkit, counting.vlmevalkit_legacy
        return _all(counting.official, counting.official, *kits, counting.strict)
    if subtask.family == "group":
        return _all(grouping.official, grouping.official, grouping.official, grouping.official, grouping.strict)
    return _all(*[video.unjudged] * 5)


def _all(*scorers: Scorer) -> Mapping[str, Scorer]:
    return dict(zip(PROFILES, scorers, strict=True))


def declare(subtask: Subtask) -> Benchmark:
    """The benchmark of one subtask."""
    return Benchmark(
        name=f"vlm2/{subtask.name}",
        version=VERSION,
        samples=data.samples(subtask),
        score=_scorers(subtask),
        summarize=metrics.of_subtask(subtask),
        profiles=PROFILES,
        size=data.size(subtask),
        digest=data.digest(subtask),
        options=prompts.OPTIONS,
        about={"description": f"VLM2-Bench, {subtask.title}.", **ABOUT},
        results=interop.of_subtask(subtask),
        notices=data.notices(subtask),
        rubric=video.rubric if subtask.family == "video" else None,
        published=published.of_subtask(subtask.name),
        exports=interop.exports(subtask),
    )


GC_MAT, GC_TRK, OC_CPR, OC_CNT, OC_GRP, PC_CPR, PC_CNT, PC_GRP, PC_VID = map(declare, SUBTASKS)
VLM2 = suite(
    "vlm2",
    (GC_MAT, GC_TRK, OC_CPR, OC_CNT, OC_GRP, PC_CPR, PC_CNT, PC_GRP, PC_VID),
    version=VERSION,
    about={"description": "VLM2-Bench: all nine subtasks in one run.", **ABOUT},
    summarize=metrics.of_suite({subtask.name: subtask for subtask in SUBTASKS}),
    results=interop.of_suite,
    published=published.tables(),
    exports=interop.exports(),
)
