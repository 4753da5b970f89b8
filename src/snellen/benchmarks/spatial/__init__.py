"""EASI's spatial benchmarks and ReVSI, asked and scored as lmms-eval does, as VLMEvalKit does, as EASI reports, and strictly.

A row of any layout (`sources`) becomes a `question`; `prompts` words it, `scorers` reads the reply by the profile's rules, and
`metrics` aggregates scores. `interop` reads and writes the two harnesses' files; `reference` holds published results. The
benchmarks are made here of the declarations in `benchmarks/sets`; SITE is a suite of its images and its videos. docs/spatial.md
and docs/spatial-rules.md describe all of it. Twelve are those of EASI's payload (`SPATIAL`); no payload has a place for the
others (`FURTHER`). Each has a constant too: VSI_BENCH.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from snellen.benchmarks.base import Benchmark, Published
from snellen.benchmarks.registry import constant_of
from snellen.benchmarks.spatial import prompts, samples
from snellen.benchmarks.spatial.interop import export, results
from snellen.benchmarks.spatial.metrics import EXTRA, summarize
from snellen.benchmarks.spatial.prompts.words import check
from snellen.benchmarks.spatial.reference import published
from snellen.benchmarks.spatial.scorers import FURTHER_PROFILES, PROFILES, scorers_of
from snellen.benchmarks.spatial.scorers.figures import COMPOSITES
from snellen.benchmarks.spatial.sources.rows import OWN_RULES
from snellen.benchmarks.spatial.tasks import EVERY, MORE, TASKS, Task
from snellen.benchmarks.suite import suite
from snellen.errors import DataError

VARIABLES = {"LMUData": "data"}
"""The folder in which VLMEvalKit keeps its tables, by the kit's own name for it."""


def declare(task: Task, part: str = "") -> Benchmark:
    """Return the benchmark of a task, or of one half of SITE.

    Raises:
        DataError: the declaration names a rule, a figure or an operation that does not exist, or a form shows no question.
    """
    _require_known(task)
    profiles, score = PROFILES if task.in_payload else FURTHER_PROFILES, scorers_of(task)
    return Benchmark(
        cluster="scene",
        name=f"{task.name}/{part}" if part else task.name,
        version=task.declared.version,
        samples=partial(samples.samples, task, part),
        score=score,
        summarize=partial(summarize, task),
        profiles={name: profiles[name] for name in score},
        size=partial(samples.size, task, part),
        digest=partial(samples.digest, task, part),
        options=prompts.options(task),
        about=_about(task),
        notices=partial(samples.notices, task, part),
        results=partial(results.read_task_results, task, part),
        exports=export.exports(task, part) if task.declared.lmms_eval.export else {},
        published=() if part else _published(task),
        gold=partial(samples.gold, task, part),
        variables=VARIABLES,
    )


def _require_known(task: Task) -> None:
    """Raise DataError for a name of the declaration that nothing has, and for a form that shows no question."""
    summary = task.declared.summary
    uses: list[tuple[str, str, Iterable[str]]] = [("[summary] extra", summary.extra, EXTRA)]
    uses += [("[summary] composite", name, COMPOSITES) for name in summary.composite.values()]
    uses += [("[layout] own", layout.own, OWN_RULES) for layout in task.columns.values()]
    for key, name, known in uses:
        if name and name not in known:
            raise DataError(f"{task.name}: {key} is {name!r}; one of {', '.join(known)} was expected")
    for name, words in task.declared.form.items():
        check(words, f"{task.name}: [form.{name}]")


def _published(task: Task) -> tuple[Published, ...]:
    if not task.declared.figure:
        return published.published_column(task.name) if EVERY.get(task.name) is task else ()
    from snellen.benchmarks.table.entries import published as declared_figures  # of few sets

    return declared_figures(task.declared)


def _about(task: Task) -> dict[str, str]:
    of_easi = "; one of the benchmarks of EASI" if task.in_payload else ""
    return {"description": f"{task.declared.title}.", "source": f"{task.hub} on the hub{of_easi}"}


def _site(task: Task) -> Benchmark:
    """Both halves in one run: EASI's figure pools their samples."""
    members = (declare(task, "image"), declare(task, "video"))
    made = suite(
        "site",
        members,
        version=task.declared.version,
        about=_about(task),
        summarize=partial(summarize, task),
        results=results.read_site_results,
        exports=export.exports(task),
        published=_published(task),
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


def __getattr__(constant: str) -> Benchmark:
    """Return the benchmark that a constant names."""
    halves: dict[str, Benchmark] = {member.name: member for member in SPATIAL["site"].members}
    for name, benchmark in {**SPATIAL, **FURTHER, **halves}.items():
        if constant_of(name) == constant:
            return benchmark
    raise AttributeError(f"module {__name__!r} has no attribute {constant!r}")
