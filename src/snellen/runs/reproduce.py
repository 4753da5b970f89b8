"""Published figures beside those of a run, and the settings that differ between the two, for `snellen reproduce`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from snellen.benchmarks.base import Benchmark, Published
from snellen.engine.run_folder import RunSpec
from snellen.runs.caveats import changed_settings
from snellen.runs.run import Run
from snellen.runs.scoring import profiles_of
from snellen.runs.settings import PIXELS, SAMPLING, TOKENS
from snellen.scoring.metric_text import percent
from snellen.types import Generation, MediaSettings, Metric

STATED = frozenset((*SAMPLING, *TOKENS, *PIXELS, "repeats"))
_SNAPSHOT = re.compile(r"-(\d{4}-\d\d-\d\d|\d{8})\Z")


class ProtocolSetting(Struct, frozen=True):
    """One setting of published figures (None: no source says it) and of a run; `state` is same, differs or unknown."""

    name: str
    published: str | None
    own: str
    state: str


class ReproducedFigure(Struct, frozen=True):
    """A published figure; `inside` says whether the run's interval holds it, None where `reason` says why that is no question.

    `reason` is also empty where the run has no interval, or the figure is no model's.
    """

    row: str
    kind: str
    metric: str
    value: float
    text: str
    inside: bool | None
    reason: str = ""


class Reproduction(Struct, frozen=True):
    """A published table, its figures, the run's own metrics by name under the nearest profile, and the settings of both.

    `part` says why the run is a part and no reproduction; empty for a whole one.
    """

    table: Published
    profile: str
    own: Mapping[str, Metric]
    figures: Sequence[ReproducedFigure]
    settings: Sequence[ProtocolSetting]
    part: str = ""


def published_settings(benchmark: Benchmark) -> Mapping[str, Any]:
    """Return the settings of the first published figures whose sampling, tokens or pixels a source says; empty without."""
    known = (dict(table.settings) for table in benchmark.published)
    return next((settings for settings in known if STATED & settings.keys()), {})


def reproductions(run: Run, profile: str | None = None, more: Sequence[Published] = ()) -> list[Reproduction]:
    """Set each published table about a run's benchmark beside the run's own figures.

    Args:
        profile: one scoring profile; None: that of the published figures where it is known, else the nearest one.
        more: tables beside those that the benchmark knows.

    Raises:
        UsageError: there is no such profile.
    """
    profiles_of(run.benchmark, profile)  # one that nobody knows is refused, also where nothing is published
    made = []
    for table in (*run.benchmark.published, *more):
        name = profile or _scored_by(table) or table.profile
        if profile is None and name not in run.benchmark.score:
            name = next(iter(run.benchmark.score))
        name, metrics = next(iter(run.figures(name).items()))
        own = {metric.name: metric for metric in metrics if metric.name in table.metrics}
        part = part_of(run, own.values(), dict(table.settings).get("questions"))
        figures = _figures(table, own, run.meta.spec.model, part)
        made.append(Reproduction(table, name, own, figures, _settings(run, table, name), part))
    return made


def part_of(run: Run, own: Iterable[Metric] = (), questions: int | None = None) -> str:
    """Return why a run is a part of its set and no reproduction, in words; empty for a whole one.

    Args:
        own: its metrics; what has no score lowers their coverage.
        questions: how many questions published figures are over; None: nobody says.
    """
    meta = run.meta
    failed, of = meta.totals.error + meta.totals.timeout, meta.coverage.of or 0
    there, known = meta.truncated or (of, questions or 0)
    least = min((metric.coverage for metric in own), default=1.0)
    said = (
        meta.coverage.part,
        f"a table of only {there:,} of {known:,} rows" if there < known else "",
        f"{meta.not_there:,} of {of:,} questions are missing" if meta.not_there else "",
        f"{failed:,} without an answer" if failed else "",
        f"only {percent(least)} % of the samples have a score" if least < 1.0 else "",
    )
    return "; ".join(filter(None, said))


def same_model(published: str, own: str) -> bool:
    """Return True if a published row and a run name one model: but for case, signs, a snapshot's date and `instruct` of a run.

    >>> same_model("Qwen2.5-VL-7B", "local:Qwen/Qwen2.5-VL-7B-Instruct"), same_model("GPT-4V", "api:gpt-4o")
    (True, False)
    """
    wanted, name = (re.sub(r"[\W_]", "", _SNAPSHOT.sub("", text.lower())) for text in (published, _model(own)))
    return wanted in (name, name.removesuffix("instruct"))


def _scored_by(table: Published) -> str | None:
    """Return the profile by whose rules published figures were scored; None where nobody says."""
    known = dict(table.settings)
    if not table.by or "profile" in known:
        return str(known.get("profile", table.profile))
    return None


def _figures(table: Published, own: Mapping[str, Metric], model: str, part: str) -> list[ReproducedFigure]:
    figures = []
    for row in table.rows:
        other = row.kind == "model" and not same_model(row.name, model)
        reason = ", ".join(["another model"] * other + ["a part"] * bool(part and row.kind == "model"))
        for at, (metric, value) in enumerate(zip(table.metrics, row.values, strict=True)):
            if value is not None:
                ends = own[metric].ci95 if metric in own and row.kind == "model" and not reason else None
                inside = None if ends is None else ends[0] <= value <= ends[1]
                figures.append(
                    ReproducedFigure(row.name, row.kind, metric, value, table.text(at, value), inside, reason)
                )
    return figures


def _settings(run: Run, table: Published, profile: str) -> list[ProtocolSetting]:
    known, spec = dict(table.settings), run.meta.spec
    options, first = spec.options, next(iter(run.answers()), None)
    asked = (None if first is None else first[0].prompt.generation) or Generation()
    own: dict[str, Any] = {  # what was chosen, else what the prompts ask for
        name: options.extra_body.get(name, default if (chosen := getattr(options.generation, name)) is None else chosen)
        for name, default in ((name, getattr(asked, name)) for name in (*SAMPLING, *TOKENS))
    }
    sampling = {**{name: own[name] for name in SAMPLING}, "repeats": spec.repeats}
    pixels = {name: getattr(options.media, name) for name in PIXELS}
    changed = ", ".join(changed_settings(options.media, Generation())) or "sent as they are"
    only = all(name in known for name in PIXELS) or options.media == MediaSettings(**pixels)
    judge, judged_by = known.get("judge"), _judge(run, profile)
    return [
        _compared("judge", judge, judged_by, same=_model(judged_by) == _model(str(judge))),
        _values("pixels", known, pixels, changed, only=only),
        _values("sampling", known, sampling, _listed(sampling)),
        _values("tokens", known, {name: own[name] for name in TOKENS}, _listed({name: own[name] for name in TOKENS})),
        _compared("prompt", None, _prompt(spec)),
        _subset(run, known),
        _compared("profile", scored := _scored_by(table), profile, same=scored == profile),
    ]


def _compared(name: str, published: str | None, own: str, *, same: bool = False) -> ProtocolSetting:
    return ProtocolSetting(name, published, own, "unknown" if published is None else "same" if same else "differs")


def _values(
    name: str, known: Mapping[str, Any], own: Mapping[str, Any], text: str, *, only: bool = True
) -> ProtocolSetting:
    """Return a setting of several values; `only` says that nothing beside them was changed."""
    stated = {each: known[each] for each in own if each in known}
    same = only and all(own[each] == value for each, value in stated.items())
    return _compared(name, _listed(stated) or None, text, same=same)


def _listed(values: Mapping[str, Any]) -> str:
    texts = ((name, "of the model" if value is None else f"{value:g}") for name, value in values.items())
    return ", ".join(f"{name} {text}" for name, text in texts)


def _model(name: str) -> str:
    return name.rpartition(":")[2].rpartition("/")[2]


def _judge(run: Run, profile: str) -> str:
    """Return the judge of the run's figures; `none` where no verdict is there."""
    if profile in run.judged_by_rubric:
        return run.judged_by_rubric[profile].meta().spec.model
    said = None if run.benchmark.rubric is None else run.verdicts()
    return "none" if said is None else said.model or "none"


def _prompt(spec: RunSpec) -> str:
    options = spec.data.options
    parts = [f"{name} {options[name]}" for name in ("prompt", "prompts", "prompting", "protocol") if name in options]
    parts = parts or ["the declared words"]
    parts += (
        ["a system text"] * bool(spec.system)
        + ["a schema"] * bool(spec.schema)
        + [f"{spec.few_shot} examples"] * bool(spec.few_shot)
    )
    return ", ".join(parts)


def _subset(run: Run, known: Mapping[str, Any]) -> ProtocolSetting:
    """Return how much of the set was asked; figures of a published table are over the whole set."""
    questions = known.get("questions")
    part = part_of(run, questions=questions)
    published = "the whole set" if questions is None else f"{questions:,} rows"
    of = run.meta.coverage.of
    return _compared(
        "subset",
        published,
        part or f"all {of or 0:,} of the data",
        same=not part and (of or 0) <= (questions or of or 0),
    )
