"""snellen answer"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from snellen.cli import options as shared
from snellen.cli.console import note, print_notes
from snellen.cli.option_parsing import argument, option, option_of
from snellen.cli.preview import refuse_run
from snellen.cli.results import ModelOutcome, finish
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.types import MediaSettings

NAMED = 3
"""Rows left out that are named."""


@dataclass(frozen=True)
class AnsweringOptions:
    """Which questions are put to people, and how."""

    PANEL: ClassVar[str] = "Questions"

    limit: int | None = option_of(RunSpec, "limit")
    seed: shared.Seed = 0
    order: Literal["shuffled", "given"] = option(
        "Order of the questions: shuffled by seed and person, or as the benchmark gives them.", "shuffled"
    )
    seconds: float | None = option("Time for each question; later answers count and are marked.", least=0.1)
    frames: int | None = option_of(MediaSettings, "frames")


def answer(
    benchmark: str = argument("Benchmark whose questions people answer.", value="NAME|FILE"),
    *,
    out: Path | None = option("Folder of the people's runs, one for each name.", said="results/BENCHMARK-people"),
    data: shared.DataOptions,
    questions: AnsweringOptions,
    port: shared.Port = 0,
    profile: shared.Profiles = None,
    as_json: shared.JsonResult = False,
) -> None:
    """Let people answer the questions of a benchmark in the browser: a human baseline of your own.

    The page is served on this machine only. Nobody sees gold answers or those of others, and an unfinished set is resumed by
    the same command. Ctrl-C ends the page, and makes a run of each person's answers.
    """
    from snellen.benchmarks import registry
    from snellen.benchmarks.base import checked_data
    from snellen.runs.coordinates import with_coordinates
    from snellen.runs.perform import default_folder
    from snellen.runs.reviews.answer_cases import QuestionCases
    from snellen.runs.scoring import profiles_of
    from snellen.viewer.security import new_token
    from snellen.viewer.serve import serve
    from snellen.viewer.site import ViewSettings

    subject = registry.find(benchmark)
    profiles_of(subject, profile)
    where = checked_data(subject, data.data, data.images, data.benchmark_options(), questions.seed)
    spec = RunSpec(benchmark=registry.lasting_name(benchmark), model="people", data=where)
    out, where = out or default_folder(spec), with_coordinates(spec, subject).data
    shuffled = questions.order == "shuffled"
    refuse_run(out)
    if (reading := subject.reading(where)) is not None and reading.omitted:
        first = "; ".join(reading.omitted[:NAMED])
        note(f"note: {benchmark}: {len(reading.omitted):,} of {reading.rows:,} rows are left out: {first}")
    with (
        RunFolder(out).locked(),
        closing(
            QuestionCases(benchmark, where, out, questions.limit, shuffled, questions.seconds, questions.frames)
        ) as cases,
    ):
        cases.runs()  # a page that was killed has made none
        serve(ViewSettings(root=out, token=new_token(), cases=cases), port, open_browser=False, notify=note)
        runs, agreement = cases.runs(), cases.agreed()
    for run in runs:
        run.remarks = tuple(f"{run.meta.spec.model_with_adapter}: {remark}" for remark in run.remarks)
    finish(ModelOutcome(runs=runs), profile=profile, report=False, as_json=as_json)
    print_notes([remark for run in runs for remark in run.remarks] if as_json else ())
    for pair in agreement.pairs:
        kappa = "not defined" if pair.kappa.value is None else f"{pair.kappa.value:.2f}"
        same = f"{pair.kappa.observed or 0:.1%} of {pair.kappa.units:,} answers are equal"
        note(f"{' and '.join(pair.reviewers)}: {same}, {pair.kappa.name} {kappa}")
