"""Report of runs on disk: fills the views of snellen.reports and writes one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.errors import DataError, UsageError
from snellen.reports.failures.labels import load_counts
from snellen.reports.views import PageLimits, PairedView, RunView
from snellen.runs.answer_view import AnswerView, answer_view, run_names
from snellen.runs.caveats import (
    GOLD_HELD_BACK,
    changed_settings,
    conditions,
    sampling_text,
    schema_text,
    sentence,
    shown_videos,
)
from snellen.runs.compare import compare_with_first
from snellen.runs.compared_runs import ComparedRun, open_runs
from snellen.runs.coordinates import odd_line
from snellen.runs.costs import cost_text, recorded
from snellen.runs.costs import sentence as sentence_of
from snellen.runs.metric_differences import unit_differences
from snellen.runs.reviews.summary import review_lines
from snellen.runs.run import Run, headline, load_run
from snellen.runs.scoring import profiles_of, scores_of
from snellen.runs.status import distinguishing, overview, present_state
from snellen.runs.suite_overall import suite_overall

if TYPE_CHECKING:
    from snellen.reports.acuity.view import AcuityView


def report(
    runs: str | Path | Run | Sequence[str | Path | Run],
    out: str | Path,
    *,
    max_answers: int = 2_000,
    show_gold: bool = False,
    prices: str | Path | None = None,
    figures: str | Path | None = None,
    trust: bool = False,
) -> Path:
    """Write one self-contained HTML page about runs and return its path.

        >>> run = snellen.evaluate("chart/digits", "embedded", limit=3, out="results/three")
        >>> snellen.report(run, "report.html").name
        'report.html'

    Args:
        runs: open runs or their folders, of one benchmark or of several; those of one benchmark are compared answer by
            answer with the first.
        out: the file.
        max_answers: answers in the gallery over all runs; unusable and wrong ones come first. From four runs on they are
            correct and incorrect ones of every run and slice.
        show_gold: show the gold answers of restricted benchmarks too.
        prices: a file of prices: the recorded usage at these is shown as the cost.
        figures: a folder for every plot as SVG and PDF; None writes none.
        trust: as for `load_run`.

    Raises:
        SnellenError: a run's samples cannot be read again, or the file cannot be written.
    """
    from snellen.reports import write_report

    path = Path(out)
    several = [runs] if isinstance(runs, str | Path | Run) else runs
    opened = [run if isinstance(run, Run) else load_run(run, trust=trust) for run in several]
    names = run_names([run.path for run in opened])
    views = [
        structs.replace(run_view(run, name=name, show_gold=show_gold), settings=settings)
        for run, name, settings in zip(opened, names, distinguishing([run.meta for run in opened]), strict=True)
    ]
    for overall in suite_overall(opened, "all") if len(opened) > 1 else ():
        number = next(at for at, run in enumerate(opened) if run is overall.runs[0])
        by_profile = {**views[number].overall, overall.profile: overall.metrics}
        views[number] = structs.replace(views[number], overall=by_profile)
    if prices is not None:
        paid = [recorded(run.folder, prices) for run in opened]
        views = [
            structs.replace(
                view, facts={**view.facts, "cost": sentence_of(cost)}, cost=cost.dollars, cost_is_least=not cost.whole
            )
            for view, cost in zip(views, paid, strict=True)
        ]
    comparisons = []
    for number, run in enumerate(opened):
        first = next(i for i, other in enumerate(opened) if other.benchmark.name == run.benchmark.name)
        if first == number:
            continue
        pairs, reason = _compared(opened[first], run, names[first], names[number])
        comparisons += pairs
        if reason:
            views[number] = structs.replace(views[number], notes=[*views[number].notes, reason])
    return write_report(
        views,
        path,
        comparisons=comparisons,
        limits=PageLimits(answers=max_answers),
        figures=None if figures is None else Path(figures),
    )


write = report  # the name that version 0.1 documented, for one release


def run_view(run: Run, *, name: str | None = None, show_gold: bool = False) -> RunView:
    """Build the report's view of one run: all profiles' metrics, every answer, and notes."""
    benchmark, spec = run.benchmark, run.meta.spec
    scorers = profiles_of(benchmark, "all")
    show_target = show_gold or not (benchmark.restricted or run.meta.restricted)

    judged = run.verdicts()
    meta = run.sized_meta
    totals = meta.totals
    used = totals.input_tokens or totals.output_tokens

    def answers() -> Iterator[AnswerView]:
        for sample, record in run.answers():
            scores = scores_of(benchmark, sample, record, scorers, judged)
            yield answer_view(sample, record, scores, show_target=show_target)

    return RunView(
        name=name or run.path.name,
        benchmark=benchmark.name,
        model=spec.model_with_adapter,
        metrics=run.summarize("all", save=False).metrics,
        answers=answers,
        facts=facts(run),
        profiles=dict(benchmark.profiles),
        notes=notes(run, show_target=show_target),
        published=[table for table in benchmark.published if table.profile in scorers],
        conditions=conditions(run.meta, run.benchmark),
        labels=load_counts(run),
        media=spec.options.media,
        state=present_state(run.path, meta),
        expected=overview(run.folder, meta).questions,
        tokens=(totals.input_tokens, totals.output_tokens) if used else None,
        cost=totals.cost,
        cost_is_least=bool(totals.uncounted),
        acuity=_acuity(run),
    )


def _acuity(run: Run) -> AcuityView | None:
    """Return what a run of acuity measured; None for another run, whose report loads nothing of acuity."""
    if run.benchmark.name.partition("/")[0] != "acuity":
        return None
    from snellen.reports.acuity.view import acuity_view

    return acuity_view(run)


def _compared(baseline: Run, other: Run, baseline_name: str, other_name: str) -> tuple[list[PairedView], str]:
    """Compare two runs under the default profile, over all questions and in published units, or return why not."""
    sides = ComparedRun(baseline), ComparedRun(other)
    try:
        _, profile = open_runs([baseline, other], None)
        (pairing,) = compare_with_first(sides, profile)
    except (UsageError, DataError) as error:  # two runs that cannot be compared still stand side by side
        return [], f"Not compared with {baseline_name}: {error.message}"
    (overall,) = (part.comparison for part in pairing.parts if part.name == "all")
    units = unit_differences(*sides, profile)
    return [PairedView(other_name, baseline_name, pairing.profile, "all questions", overall, units)], ""


def facts(run: Run) -> dict[str, str]:
    """Return the facts of the header, label to text: configuration, environment and cost."""
    meta = run.sized_meta
    totals, environment = meta.totals, meta.environment
    origin = meta.imported
    batches = environment.get("batches")
    texts = {
        "imported from": "" if origin is None else f"{origin.get('file')} ({origin.get('digest')})",
        "fingerprint": meta.fingerprint,
        "state": present_state(run.path, meta),
        "refused": f"{totals.refused:,}" if totals.refused else "",
        "from --cache": f"{totals.cached:,} answers" if totals.cached else "",
        "tokens": totals.tokens_text.replace(" tokens", "", 1),
        "cost": cost_text(totals, headline(run)) if totals.cost is not None else "",
        "time": f"{totals.seconds:,.1f} s" if totals.seconds else "",
        "by batch": _by_batch(batches) if isinstance(batches, Mapping) else "",
        "system text": _shortened(meta.spec.system),
        "examples": _examples(meta.spec.few_shot, meta.spec.few_shot_draw),
        "schema of replies": schema_text(meta),
        "videos": shown_videos(meta),
        "sampling": sampling_text(meta).removeprefix("sampling "),
        "repeats": str(meta.spec.repeats) if meta.spec.repeats > 1 else "",
        "settings": ", ".join(changed_settings(meta.spec.options.media, meta.spec.options.generation)),
        "seed": str(meta.spec.data.seed),
        "versions": ", ".join(f"{name} {version}" for name, version in environment.get("versions", {}).items()),
        "hardware": ", ".join(f"{name} {value}" for name, value in environment.get("hardware", {}).items()),
    }
    return {label: text for label, text in texts.items() if text}


MOST_CHARACTERS = 500
"""Characters of a system text in the header of a report."""


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _examples(number: int, draw: str) -> str:
    """Describe the examples before each question; empty without."""
    if not number:
        return ""
    order = "drawn for each question" if draw == "each" else "the same before every question"
    return f"{number}, {order}"


def _by_batch(batches: Mapping[str, Any]) -> str:
    """Return how many answers came by batch; empty where the record does not say."""
    answers, count = batches.get("answers"), batches.get("batches")
    if not isinstance(answers, int) or not isinstance(count, int):
        return ""
    return f"{answers:,} answers in {count:,} batch{'es' * (count != 1)}"


def notes(run: Run, *, show_target: bool = True) -> list[str]:
    """Return notes for readers of the metrics, one sentence each."""
    odd = odd_line(next(iter(run.saved_metrics().values()), ())) if run.summary_is_current() else ""
    lines = [sentence(line) for line in (*run.notes(), *filter(None, [odd]), *review_lines(run))]
    if not show_target:
        lines.append(GOLD_HELD_BACK)
    return lines
