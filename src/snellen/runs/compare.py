"""Comparison of runs over the same questions, paired by question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, structs

from snellen.engine.fingerprint import differences
from snellen.engine.run_folder import JUDGED, READ, RunFolder, RunMeta, derived_run
from snellen.errors import DataError, DifferentSamplesError, RunError, UsageError
from snellen.runs import scoring
from snellen.runs.caveats import caveats
from snellen.runs.compared_runs import (
    MOST_SLICES,
    SLICED_BY,
    ComparedPart,
    ComparedRun,
    compare_parts,
    open_runs,
    pair_scores,
    question_scores,
)
from snellen.runs.metric_differences import MetricDifference, metric_differences
from snellen.runs.run import Run
from snellen.runs.status import MOST_SETTINGS, present_state
from snellen.scoring.scores import question_code


class Flip(Struct, frozen=True):
    """A question on which the runs differ; scores are means over repeats, replies those of the first repeat."""

    sample_id: str
    baseline: float
    other: float
    baseline_reply: str | None
    other_reply: str | None


class Pairing(Struct, frozen=True):
    """Comparison of two runs; differences are other minus baseline, positive where the other is better.

    Attributes:
        baseline, other: the runs' folders.
        profile: the scoring profile.
        n: questions that count, which both runs have a score for.
        only_baseline, only_other: questions that one run alone has; they do not count.
        unscored: questions that both have and at least one run has no score for; they do not count.
        parts: the whole first, then by meta.
        metric: the metric asked for.
        flips: where asked for.
        notes: what a reader must know.
    """

    baseline: str
    other: str
    profile: str
    n: int
    only_baseline: int
    only_other: int
    unscored: int
    parts: Sequence[ComparedPart]
    metric: MetricDifference | None = None
    flips: Sequence[Flip] | None = None
    notes: Sequence[str] = ()


def compare(
    *runs: str | Path | Run,
    profile: str | None = None,
    by: Sequence[str] | None = None,
    metric: str | None = None,
    flips: bool = False,
    force: bool = False,
    data: str | Path | None = None,
    images: str | Path | None = None,
    trust: bool = False,
) -> list[Pairing]:
    """Compare each run with the first, question by question.

    Args:
        runs: two or more folders, or open runs.
        profile: one scoring profile; None: the benchmark's first.
        by: meta columns to slice by; None: kind, level, task and similar ones, and the categories of a user's table.
        metric: a metric of the benchmark to compare too.
        flips: collect the questions on which they differ, with both replies.
        data, images: where the runs' files lie now, if they were moved.
        trust: as for `load_run`.
        force: compare even runs of other questions, by what ids they share.

    Raises:
        UsageError: fewer than two runs, one run twice, no such profile or metric.
        DifferentSamplesError: other questions. NothingAnsweredError: a run without any answer.
        DataError: no question in common. RunError: no run there.
    """
    opened, name = open_runs(runs, profile, data=data, images=images, trust=trust)
    return compare_with_first(
        [ComparedRun(run) for run in opened], name, by=by, metric=metric, flips=flips, force=force
    )


def compare_with_first(
    sides: Sequence[ComparedRun],
    profile: str,
    *,
    by: Sequence[str] | None = None,
    metric: str | None = None,
    flips: bool = False,
    force: bool = False,
) -> list[Pairing]:
    """Compare each run with the first; as `compare`, for runs that are open."""
    pairings = []
    for other in sides[1:]:
        pairing = compare_pair(sides[0], other, profile, by=by, metric=metric, flips=flips, force=force)
        errors = [(side.folder.path.name, side.run.request_errors()) for side in (sides[0], other)]
        failures = [f"{folder}: {error.text}" for folder, error in errors if error.failed]
        pairings.append(structs.replace(pairing, notes=[*pairing.notes, *failures]))
    return pairings


def compare_pair(
    baseline: ComparedRun,
    other: ComparedRun,
    profile: str,
    *,
    by: Sequence[str] | None = None,
    metric: str | None = None,
    flips: bool = False,
    force: bool = False,
) -> Pairing:
    """Compare two runs on the questions that both have a score for, paired by question.

    Args:
        other: what is compared; differences are its own minus the baseline's.
        by: meta columns to slice by, where they are there; None: as for `compare`.
        metric: a metric of the benchmark to compare as well, by the cluster bootstrap of the pair.
        flips: collect the questions on which the two differ.
        force: compare even if the runs are not about the same questions.

    Raises:
        DifferentSamplesError: other questions. UsageError: no such metric, profile or meta column.
        DataError: no question in common.
    """
    notes = same_questions(baseline, other, force=force)
    if settings := list(_differing_settings(baseline.meta, other.meta)):
        omitted = f"; {len(settings) - MOST_SETTINGS} more" if len(settings) > MOST_SETTINGS else ""
        notes.append(f"the settings differ: {'; '.join(settings[:MOST_SETTINGS])}{omitted}")
    changed = [(side.folder.path.name, side.run.changed_data) for side in (baseline, other)]
    notes += [f"{name}: {line}" for name, line in changed if line]
    verdicts = [side.run.verdicts() for side in (baseline, other)]
    judges = [each.by.partition(" in ")[0] for each in verdicts if each is not None and each.by]
    if len(set(judges)) > 1:
        notes.append(f"the judges differ: {' and '.join(judges)}")
    by_verdicts = [side for side in (baseline, other) if profile in side.run.judged_by_rubric]
    notes += [f"{side.folder.path.name}: {side.benchmark.profiles[profile]}" for side in by_verdicts]
    first, second = baseline.scores(profile), other.scores(profile)
    paired = pair_scores(question_scores(first), question_scores(second))
    if not len(paired):
        raise DataError(
            f"{baseline.folder.path} and {other.folder.path} have no scored sample in common "
            f"({len(np.unique(first.question)):,} and {len(np.unique(second.question)):,} samples)",
            "They must be runs of the same benchmark over the same data.",
        )
    if paired.only_baseline or paired.only_other:
        notes.append(
            f"{paired.only_baseline:,} samples only in the baseline and {paired.only_other:,} only in the other "
            "do not count"
        )
    if paired.unscored:
        notes.append(f"{paired.unscored:,} samples without a score in one of the runs do not count")
    if metric is None and profile in baseline.benchmark.score:
        own = next(iter(baseline.benchmark.summarize(first, profile)), None)
        if own is not None and 0 < own.n < len(np.unique(first.question)):
            notes.append(
                f"samples are compared one by one; the benchmark's {own.name} counts {own.n:,} groups of them: "
                f"--metric {own.name}"
            )
    named, by = by or (), by or baseline.slices(profile)
    unknown = [name for name in named if name not in first.meta and name not in SLICED_BY]
    if unknown:
        raise UsageError(
            f"{baseline.folder.path} has no meta column {unknown[0]!r} to slice by",
            f"It has: {', '.join(first.meta) or 'none'}.",
        )
    parts = list(compare_parts(first, paired, by, baseline.cluster(profile)))
    sliced = {part.name.partition("=")[0] for part in parts}
    for name in named:
        if name not in SLICED_BY and name not in sliced:
            notes.append(f"not sliced by {name}: it has one value here, or more than {MOST_SLICES}")
    x, y = paired.baseline, paired.other
    differing = {
        int(code): (float(u), float(v)) for code, u, v in zip(paired.code[x != y], x[x != y], y[x != y], strict=True)
    }
    return Pairing(
        baseline=str(baseline.folder.path),
        other=str(other.folder.path),
        profile=profile,
        n=len(paired),
        only_baseline=paired.only_baseline,
        only_other=paired.only_other,
        unscored=paired.unscored,
        parts=parts,
        metric=None if metric is None else metric_differences([metric], baseline, other, profile)[0],
        flips=list(_flips(baseline, other, differing)) if flips else None,
        notes=notes,
    )


def same_questions(baseline: ComparedRun, other: ComparedRun, *, force: bool = False) -> list[str]:
    """List what differs between two runs besides what is compared.

    Raises:
        DifferentSamplesError: they are not about the same questions, and `force` is False.
    """
    gold = _gold(baseline, other)
    try:
        wording = baseline.benchmark.wording
        same = comparable(_present_meta(baseline), _present_meta(other), wording, force=force)
        return [*same, *gold, *_readers(baseline, other)]
    except DifferentSamplesError as error:
        if not gold:
            raise
        raise DifferentSamplesError("\n  ".join([error.message, *gold]), error.hint) from error


def _readers(baseline: ComparedRun, other: ComparedRun) -> list[str]:
    """Return one line if other models, or one alone, read replies of the two runs."""
    folders = [derived_run(side.folder, READ) for side in (baseline, other)]
    models = ["no model" if folder is None else folder.meta().spec.model for folder in folders]
    if models[0] == models[1]:
        return []
    return [
        f"{models[0]} read replies of the baseline, and {models[1]} those of the other: part of the difference may come from that"
    ]


def _gold(baseline: ComparedRun, other: ComparedRun) -> list[str]:
    """Return one line if the two runs are known to rest on different revisions of the gold answers."""
    names = [
        side.benchmark.gold(side.meta.spec.data, str(side.meta.identity.get("data") or ""))
        for side in (baseline, other)
    ]
    if names[0] == names[1]:
        return []
    was = [name or "gold answers of an unknown revision" for name in names]
    return [f"the baseline has {was[0]}; the other has {was[1]}: part of the difference may come from that"]


def _present_meta(side: ComparedRun) -> RunMeta:
    """Return the meta of a run, with its state as it is now."""
    return structs.replace(side.meta, state=present_state(side.folder.path, side.meta))


def comparable(a: RunMeta, b: RunMeta, wording: frozenset[str] = frozenset(), *, force: bool) -> list[str]:
    """List the differences between two runs besides what is compared; `wording` is `Benchmark.wording`.

    Raises:
        DifferentSamplesError: they are not about the same questions, and `force` is False.
    """
    first, second = questions_of(a), questions_of(b)
    asked = list(_asked_otherwise(first, second, wording))
    notes = [
        f"{name}: {_short(old)} in the baseline, {_short(new)} in the other"
        for name, old, new in differences(first, second)
        if name != "seed" or first.keys() == second.keys()  # data with a digest is not drawn by seed
    ]
    if notes and not force:
        hint = "Compare runs of one benchmark over the same data; --force compares all samples with equal ids."
        if a.spec.benchmark == b.spec.benchmark == "acuity":
            hint = "Compare their thresholds: snellen acuity A B --compare"
        elif [name for name, *_ in differences(first, second)] == ["seed"]:
            hint = (
                "This benchmark draws its questions by --seed. For several replies to the same questions, pass one seed and "
                "--repeats, or in Python generation=Generation(seed=N)."
            )
        raise DifferentSamplesError(
            "these runs did not answer the same samples:\n" + "\n".join(f"  {line}" for line in notes), hint
        )
    notes += asked
    if not notes and (a.imported or b.imported):
        imported = [name for meta, name in ((a, "baseline"), (b, "other")) if meta.imported and not meta.human]
        if imported:
            names = " and ".join(imported)
            notes.append(f"the answers of the {names} were imported: their prompts and settings are unknown")
    elif not notes and a.identity.get("prompts") != b.identity.get("prompts") and not a.judges:
        notes.append("the prompts differ (wording or number): part of the difference may come from that")
    if a.coverage.limit != b.coverage.limit:
        notes.append(f"asked with --limit {a.coverage.limit or 'none'} and {b.coverage.limit or 'none'}")
    if a.spec.repeats != b.spec.repeats:
        notes.append(f"asked {a.spec.repeats} and {b.spec.repeats} times per sample: means over repeats are compared")
    for meta, name in ((a, "baseline"), (b, "other")):
        # Samples without an answer are named by `compare`, with the commonest error.
        notes += [caveat.text for caveat in caveats(meta, state=meta.state, name=name) if caveat.about == "state"]
    return notes


def _asked_otherwise(first: dict[str, Any], second: dict[str, Any], wording: frozenset[str]) -> Iterator[str]:
    """Take the options of wording out of both, and yield those that differ; and what they read beside the data."""
    options = [dict(questions.get("data_options") or {}) for questions in (first, second)]
    for name in sorted(wording):
        old, new = (each.pop(name, None) for each in options)
        if old != new:
            yield f"{name}: {_short(old)} in the baseline, {_short(new)} in the other"
    if wording:
        first["data_options"], second["data_options"] = options
    old, new = str(first.get("data") or ""), str(second.get("data") or "")
    if wording and old and new and (old.startswith(new) or new.startswith(old)):
        first["data"] = second["data"]


def _differing_settings(a: RunMeta, b: RunMeta) -> Iterator[str]:
    """Yield the settings in which two runs differ: of generation and media, and the model's own where it has one name."""
    for section in ("generation", "media", *(["model"] if a.spec.model == b.spec.model else [])):
        pair = [meta.identity.get(section) for meta in (a, b)]
        first, second = (value if isinstance(value, Mapping) else {} for value in pair)
        for name, old, new in differences(first, second):
            if section != "model" or name.partition(".")[0] not in (
                "generation",
                "media",
            ):  # an API model repeats these
                before, after = ("the default" if value is None else _short(value) for value in (old, new))
                yield f"{name}: {before} in the baseline, {after} in the other"


def questions_of(meta: RunMeta) -> dict[str, Any]:
    """Return the parts of a run's identity that must be equal for two runs to have the same questions.

    Of judged runs: the questions that the judged model was asked, and the rubric. Data without a digest is drawn by
    seed, so the seed counts there.
    """
    identity: Mapping[str, Any] = meta.identity
    if meta.spec.benchmark in (JUDGED, READ) and meta.spec.data.path is not None:
        source = RunFolder(meta.spec.data.path).meta()
        if source.spec.benchmark in (JUDGED, READ):
            raise RunError(
                f"{meta.spec.data.path} is a judge's run, and run_meta.json names it as what was judged",
                "The file was edited by hand; judge the run again.",
            )
        questions = questions_of(source)
        return {**questions, "rubric": str(identity.get("data")).rpartition(" ")[2]}
    names = ["benchmark", "benchmark_version", "data", "data_options"]
    if not identity.get("data"):
        names.append("seed")
    return {name: identity.get(name) for name in names}


def _short(value: Any) -> str:
    text = "none" if value is None or value == "" else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _flips(baseline: ComparedRun, other: ComparedRun, changed: Mapping[int, tuple[float, float]]) -> Iterator[Flip]:
    """Yield the changed questions in the order of the baseline's journal; `changed` maps a code to both scores."""
    first, second = _replies(baseline, changed), _replies(other, changed)
    for code, (sample_id, reply) in first.items():
        yield Flip(sample_id, *changed[code], reply, second[code][1])


def _replies(side: ComparedRun, wanted: Mapping[int, Any]) -> dict[int, tuple[str, str | None]]:
    """Map the code of each wanted question to its sample id and the reply of the lowest repeat."""
    replies: dict[int, tuple[str, str | None]] = {}
    repeats: dict[int, int] = {}
    for sample, record in scoring.recorded_answers(side.folder, side.meta, side.benchmark):
        code = question_code(sample.id)
        if code in wanted and record.repeat < repeats.get(code, record.repeat + 1):
            repeats[code] = record.repeat
            replies[code] = (sample.id, None if record.response is None else record.response.text)
    return replies
