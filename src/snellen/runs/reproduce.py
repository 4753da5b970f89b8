"""Published figures beside those of a run, and the settings that differ between the two, for `snellen reproduce`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Published
from snellen.engine.run_folder import RunSpec
from snellen.runs.caveats import changed_settings
from snellen.runs.run import Run
from snellen.runs.scoring import profiles_of
from snellen.types import Generation, MediaSettings, Metric

SAMPLING, TOKENS, PIXELS = (
    ("temperature", "top_p", "repeats"),
    ("max_tokens",),
    ("max_pixels", "min_pixels", "max_long_side"),
)
AUTHORS = "authors"
State = Literal["same", "differs", "unknown"]


class ProtocolSetting(Struct, frozen=True):
    """One setting of published figures (None: no source says it) and of a run."""

    name: str
    published: str | None
    own: str
    state: State


class ReproducedFigure(Struct, frozen=True):
    """A published figure; `inside` says whether the run's interval holds it, None where there is none or no model's."""

    row: str
    kind: str
    metric: str
    value: float
    text: str
    inside: bool | None


class Reproduction(Struct, frozen=True):
    """A published table, the run's figures under the nearest profile, and the settings of both.

    Attributes:
        title, source, by: of the table; `by` may be empty.
        profile: the profile of `own`.
        own: the run's metrics by name; one that the run lacks is missing.
        figures: what is published.
        settings: what may differ.
        settings_source: where the published settings stand; empty: nowhere.
    """

    title: str
    source: str
    by: str
    profile: str
    own: Mapping[str, Metric]
    figures: tuple[ReproducedFigure, ...]
    settings: tuple[ProtocolSetting, ...]
    settings_source: str = ""


def published_settings(benchmark: Benchmark) -> Mapping[str, Any]:
    """Return the settings of the first published figures whose sampling, tokens or pixels a source says; empty without."""
    known = (dict(table.settings) for table in benchmark.published)
    stated = (settings for settings in known if {*SAMPLING, *TOKENS, *PIXELS} & settings.keys())
    return next(stated, {})


def as_published(spec: RunSpec, settings: Mapping[str, Any]) -> RunSpec:
    """Return a run's settings with published ones in place of those that nobody chose."""

    def filled(chosen: Any, names: tuple[str, ...]) -> Any:
        return structs.replace(
            chosen, **{n: settings[n] for n in names if n in settings and getattr(chosen, n) is None}
        )

    options = structs.replace(
        spec.options,
        generation=filled(spec.options.generation, ("temperature", "top_p", *TOKENS)),
        media=filled(spec.options.media, PIXELS),
    )
    repeats = settings.get("repeats", 1) if spec.repeats == 1 else spec.repeats
    return structs.replace(spec, options=options, repeats=repeats)


def reproductions(run: Run, profile: str | None = None) -> list[Reproduction]:
    """Set each published table about a run's benchmark beside the run's own figures.

    Args:
        run: the run.
        profile: one scoring profile; None: that of the published figures where it is known, else the nearest one.

    Raises:
        UsageError: there is no such profile.
    """
    profiles_of(run.benchmark, profile)  # one that nobody knows is refused, also where nothing is published
    made = []
    for table in run.benchmark.published:
        wanted = profile or _scored_by(table, run.benchmark) or table.profile
        name = wanted if profile or wanted in run.benchmark.score else next(iter(run.benchmark.score))
        name, metrics = next(iter(run.figures(name).items()))
        own = {metric.name: metric for metric in metrics if metric.name in table.metrics}
        made.append(
            Reproduction(
                table.title,
                table.source,
                table.by,
                name,
                own,
                tuple(_figures(table, own)),
                tuple(_settings(run, table, name)),
                str(dict(table.settings).get("source", "")),
            )
        )
    return made


def _scored_by(table: Published, benchmark: Benchmark) -> str | None:
    """Return the profile by whose rules published figures were scored; None where nobody says."""
    known = dict(table.settings)
    if not table.by or "profile" in known:
        return str(known.get("profile", table.profile))
    return AUTHORS if table.by.startswith("the authors") and AUTHORS in benchmark.score else None


def _figures(table: Published, own: Mapping[str, Metric]) -> list[ReproducedFigure]:
    figures = []
    for row in table.rows:
        for at, (metric, value) in enumerate(zip(table.metrics, row.values, strict=True)):
            if value is not None:
                ends = own[metric].ci95 if metric in own and row.kind == "model" else None
                inside = None if ends is None else ends[0] <= value <= ends[1]
                figures.append(ReproducedFigure(row.name, row.kind, metric, value, table.text(at, value), inside))
    return figures


def _settings(run: Run, table: Published, profile: str) -> list[ProtocolSetting]:
    known, spec = dict(table.settings), run.meta.spec
    own = _own_generation(run)
    sampling = {**{name: getattr(own, name) for name in SAMPLING[:2]}, "repeats": spec.repeats}
    pixels = {name: getattr(spec.options.media, name) for name in PIXELS}
    changed = ", ".join(changed_settings(spec.options.media, Generation())) or "sent as they are"
    scored = _scored_by(table, run.benchmark)
    return [
        _judge(run, known, profile),
        _values("pixels", known, pixels, changed, others=spec.options.media != MediaSettings()),
        _values("sampling", known, sampling, _listed(sampling), others=False),
        _values("tokens", known, {"max_tokens": own.max_tokens}, _listed({"max_tokens": own.max_tokens}), others=False),
        ProtocolSetting("prompt", None, _prompt(spec), "unknown"),
        _subset(run, known),
        ProtocolSetting(
            "profile", scored, profile, "unknown" if scored is None else "same" if scored == profile else "differs"
        ),
    ]


def _values(name: str, known: Mapping[str, Any], own: Mapping[str, Any], text: str, *, others: bool) -> ProtocolSetting:
    """Return a setting of several values; it is the same where every published one is, and no other was changed."""
    stated = {each: known[each] for each in own if each in known}
    if not stated:
        return ProtocolSetting(name, None, text, "unknown")
    same = all(own[each] == value for each, value in stated.items()) and (
        not others or all(each in stated for each in own)
    )
    return ProtocolSetting(name, _listed(stated), text, "same" if same else "differs")


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {'of the model' if value is None else format(value, 'g')}" for name, value in values.items()
    )


def _own_generation(run: Run) -> Generation:
    """Return the sampling of the first question: what was chosen, else what the question's prompt asks for."""
    options = run.meta.spec.options
    first = next(iter(run.answers()), None)
    asked = None if first is None else first[0].prompt.generation
    chosen = {
        name: options.extra_body.get(name, getattr(options.generation, name)) for name in (*SAMPLING[:2], *TOKENS)
    }
    return structs.replace(
        asked or Generation(), **{name: value for name, value in chosen.items() if value is not None}
    )


def _judge(run: Run, known: Mapping[str, Any], profile: str) -> ProtocolSetting:
    published, own = known.get("judge"), "none"
    if profile in run.judged_by_rubric:
        own = run.judged_by_rubric[profile].meta().spec.model
    elif run.benchmark.rubric is not None and (said := run.verdicts()) is not None:
        own = said.model or own
    if published is None:
        return ProtocolSetting("judge", None, own, "unknown")
    same = own.rpartition(":")[2].rpartition("/")[2] == str(published).rpartition("/")[2]
    return ProtocolSetting("judge", str(published), own, "same" if same else "differs")


def _prompt(spec: RunSpec) -> str:
    chosen = {
        name: spec.data.options[name]
        for name in ("prompt", "prompts", "prompting", "protocol")
        if name in spec.data.options
    }
    parts = [*(f"{name} {value}" for name, value in chosen.items())] or ["the declared words"]
    parts += ["a system text"] if spec.system else []
    parts += [f"{spec.few_shot} examples"] if spec.few_shot else []
    return ", ".join(parts)


def _subset(run: Run, known: Mapping[str, Any]) -> ProtocolSetting:
    """Return how much of the set was asked; figures of a published table are over the whole set."""
    coverage, asked = run.meta.coverage, run.meta.totals
    questions = known.get("questions")
    of = coverage.of
    own = coverage.part.removesuffix(" samples") or ("the whole set" if of is None else f"all {of:,} of the data")
    failed = asked.error + asked.timeout
    own += f", {failed:,} without an answer" if failed else ""
    published = "the whole set" if questions is None else f"{questions:,} rows"
    whole = (
        coverage.full and not run.meta.not_there and not failed and (questions is None or of is None or of >= questions)
    )
    return ProtocolSetting("subset", published, own, "same" if whole else "differs")
