"""EASI's spatial benchmarks and ReVSI, asked and scored as lmms-eval does, as VLMEvalKit does, as EASI reports, and strictly.

A row of any layout (`sources`) becomes a `question`; `prompts` words it, `scorers` reads the reply by the profile's rules, and
`metrics` aggregates scores. `interop` reads and writes the two harnesses' files; `reference` holds published results. The
benchmarks are declared here, from the names in `tasks`; SITE is a suite of its images and its videos. docs/spatial.md and
docs/spatial-rules.md describe all of it. Twelve are those of EASI's payload (`SPATIAL`); no payload has a place for the others
(`FURTHER`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.spatial import prompts, samples
from snellen.benchmarks.spatial.interop import export, results
from snellen.benchmarks.spatial.metrics import summarize
from snellen.benchmarks.spatial.reference import published
from snellen.benchmarks.spatial.scorers import FURTHER_PROFILES, PROFILES, SCORERS
from snellen.benchmarks.spatial.tasks import MORE, TASKS, Task
from snellen.benchmarks.suite import suite

VERSION = "1"
VARIABLES = {"LMUData": "data"}
"""The folder in which VLMEvalKit keeps its tables, by the kit's own name for it."""


def declare(task: Task, part: str = "") -> Benchmark:
    """Return the benchmark of a task, or of one half of SITE."""
    of_payload = task.name in TASKS
    profiles = PROFILES if of_payload else FURTHER_PROFILES
    return Benchmark(
        cluster="scene",
        name=f"{task.name}/{part}" if part else task.name,
        version=VERSION,
        samples=partial(samples.samples, task, part),
        score=SCORERS[task.name],
        summarize=partial(summarize, task),
        profiles={name: profiles[name] for name in SCORERS[task.name]},
        size=partial(samples.size, task, part),
        digest=partial(samples.digest, task, part),
        options=prompts.options(task),
        about=_about(task),
        notices=partial(samples.notices, task, part),
        results=partial(results.read_task_results, task, part),
        exports=export.exports(task, part) if of_payload else {},
        published=() if part else published.published_column(task.name),
        gold=partial(samples.gold, task, part),
        variables=VARIABLES,
    )


def _about(task: Task) -> dict[str, str]:
    of_easi = "; one of the benchmarks of EASI" if task.name in TASKS else ""
    return {"description": f"{task.title}.", "source": f"{task.hub} on the hub{of_easi}"}


def _site(task: Task) -> Benchmark:
    """Both halves in one run: EASI's figure pools their samples."""
    members = (declare(task, "image"), declare(task, "video"))
    made = suite(
        "site",
        members,
        version=VERSION,
        about=_about(task),
        summarize=partial(summarize, task),
        results=results.read_site_results,
        exports=export.exports(task),
        published=published.published_column(task.name),
    )
    return replace(
        made,
        variables=VARIABLES,
        notices=lambda data: [*made.notices(data), *samples.size_notices(task, data)],
    )


SPATIAL: dict[str, Benchmark] = {name: _site(task) if name == "site" else declare(task) for name, task in TASKS.items()}
"""By name, in EASI's order; the halves of SITE are its members."""

FURTHER: dict[str, Benchmark] = {name: declare(task) for name, task in MORE.items()}
"""The benchmarks that EASI's payload has no place for, by name."""


(VSI_BENCH, MMSI_BENCH, MINDCUBE_TINY, VIEWSPATIAL, SITE, BLINK, THREE_DSR, EMBSPATIAL) = list(SPATIAL.values())[:8]
(MMSI_VIDEO_BENCH, OMNISPATIAL, SPAR_BENCH, VSI_DEBIASED) = list(SPATIAL.values())[8:]
SITE_IMAGE, SITE_VIDEO = SITE.members
(STARE, SPATIALVIZ, ERQA, REFSPATIAL, ROBOSPATIAL_HOME, SPBENCH_SI, SPBENCH_MV) = list(FURTHER.values())[:7]
(VSI_SUPER_RECALL, VSI_SUPER_COUNT, STI_BENCH, CV_BENCH, LEGO_PUZZLES) = list(FURTHER.values())[7:12]
(SPATIAL457, DSR_BENCH, ERIQ, OSI_BENCH, REVSI) = list(FURTHER.values())[12:]
