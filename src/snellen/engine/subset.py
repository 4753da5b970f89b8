"""Subsets of a benchmark that stand for all of it (`snellen subset`): the file, and the benchmark that asks its items only.

The file holds what the estimator needs: parameters of the items that are asked, and the expected score of all others as a
curve over abilities. It is therefore as small for a hundred thousand items as for a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Benchmark, Data, Forecast, ScoredAnswer
from snellen.errors import DataError, UsageError
from snellen.scoring.coordinates import COORDINATES, COORDINATES_BY, SENT
from snellen.sources.safe_paths import regular_file
from snellen.types import Interval, IntervalMethod, Metric, Sample

if TYPE_CHECKING:
    from snellen.engine.run_folder import RunSpec
    from snellen.scoring.scores import Scores
    from snellen.scoring.statistics.item_response import Floats, WholeScore

ESTIMATE = "estimated_whole_score"
"""Metric of a run of a subset: the mean score over all items of the benchmark, estimated."""
PART = "subset/"
"""Begins the names of all other metrics of such a run, which are of the subset's items alone."""
SUBSET_BYTES = 64 << 20
CURVE = 101
"""Points of the curve `rest` (snellen.scoring.statistics.item_response.ABILITIES)."""


class SubsetItem(Struct, frozen=True, forbid_unknown_fields=True):
    """An item that is asked: its id, and its discrimination `a` and intercept `d` in the 2PL."""

    id: str
    a: float
    d: float


class SubsetError(Struct, frozen=True, forbid_unknown_fields=True):
    """Errors by leaving out one model at a time, as fractions of the score.

    Attributes:
        mean_absolute: of the estimate.
        random: of the plain mean over random subsets of the same size, on the same runs.
        covered: how many of the models lie in an interval whose width the others set.
    """

    mean_absolute: float
    random: float
    covered: int


class Subset(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of a subset's file.

    Attributes:
        benchmark, version, data, options: what the items belong to; `data` is the digest of its data.
        profile: the scoring profile that was fitted.
        seed: of the selection. `data_seed` is that of the benchmark's data.
        total: number of items of the benchmark.
        items: those that are asked, in the order of the benchmark.
        rest: [101] expected mean score over the other items, at abilities from -5 to 5.
        outside: [101] variance of `rest` at abilities beyond those of the fitted models; empty: 0, as in older files.
        factor: half the width of a 95 % interval, in standard errors.
        models: names of the models that were fitted.
        copies: models that hardly differ from one of these, and are fitted as one with it: their names to its name.
        error: of the estimate.
    """

    format: int = 1
    benchmark: str
    version: str
    data: str
    options: Mapping[str, str] = {}
    profile: str
    seed: int = 0
    data_seed: int = 0
    total: int
    items: tuple[SubsetItem, ...]
    rest: tuple[float, ...]
    outside: tuple[float, ...] = ()
    factor: float
    models: tuple[str, ...]
    copies: Mapping[str, str] = {}
    error: SubsetError

    @property
    def digest(self) -> str:
        """Return 16 hexadecimal digits over the content, for the fingerprint of a run."""
        content = msgspec.to_builtins(self)
        for later in ("copies", "outside"):
            if not content[later]:  # the digest of files that were made before there were any
                del content[later]
        return blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=8).hexdigest()

    def fault(self) -> str:
        """Return what no subset has; empty for a valid one."""
        numbers = [value for item in self.items for value in (item.a, item.d)]
        checks = {
            f"format {self.format}; this version reads 1": self.format == 1,
            "no items": bool(self.items),
            "one id twice": len({item.id for item in self.items}) == len(self.items),
            f"{len(self.items):,} items of {self.total:,}": len(self.items) < self.total < 2**31,
            "a discrimination or an intercept out of range": all(isfinite(each) and abs(each) < 1e3 for each in numbers)
            and all(item.a > 0.0 for item in self.items),
            f"a curve of {len(self.rest):,} points from 0 to 1; {CURVE} were expected": len(self.rest) == CURVE
            and all(0.0 <= each <= 1.0 for each in self.rest),
            "variances out of range": len(self.outside) in (0, CURVE)
            and all(0.0 <= each <= 1.0 for each in self.outside),
            f"an interval of {self.factor} standard errors": 0.0 < self.factor < 1e6,
        }
        return next((said for said, holds in checks.items() if not holds), "")


def read_subset(path: str | Path) -> Subset:
    """Read a subset's file.

    Raises:
        DataError: it is missing, too large, no JSON, or holds what no subset has.
    """
    path = Path(path)
    hint = "Make it again: snellen subset BENCHMARK --from RUNS --out FILE"
    if regular_file(path).st_size > SUBSET_BYTES:
        raise DataError(f"{path} is larger than {SUBSET_BYTES:,} bytes", "It is no subset of `snellen subset`.")
    try:
        subset = msgspec.json.decode(path.read_bytes(), type=Subset)
    except (ValueError, RecursionError, OSError) as error:  # msgspec's errors are ValueErrors
        raise DataError(f"{path} cannot be read as a subset: {error}", hint) from error
    if fault := subset.fault():
        raise DataError(f"{path} cannot be read as a subset: it has {fault}", hint)
    return subset


class AdaptiveRule(NamedTuple):
    """When an adaptive run ends: after `most` items, or once the 95 % interval is within ± `width`, where that is given."""

    most: int
    width: float | None = None

    def __str__(self) -> str:
        return str(self.most) if self.width is None else f"{self.most}:{self.width:g}"


def parse_adaptive(value: int | str) -> AdaptiveRule:
    """Return the rule of --adaptive, N or N:WIDTH. Raises UsageError."""
    count, colon, width = str(value).partition(":")
    try:
        rule = AdaptiveRule(int(count), float(width) if colon else None)
        if rule.most < 2 or (rule.width is not None and not 0.0 < rule.width < 0.5):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--adaptive {value!r}: a number of items from 2 was expected, and after a colon half the width of the interval "
            "at which to stop, a share above 0 and below 0.5",
            "Example: --adaptive 40, or --adaptive 100:0.03.",
        ) from None
    return rule


def asked_text(spec: RunSpec, asked: int, *, ended: bool) -> str:
    """Return how many items of a subset a run asked, and why it stopped there.

    Args:
        spec: of the run, with a subset.
        asked: samples that it has a record of.
        ended: it is complete.
    """
    assert spec.subset is not None  # noqa: S101 - asked by the caller
    chosen, total = len(spec.subset.items), spec.subset.total
    if spec.adaptive is None:
        return f"only {chosen:,} chosen ones of {total:,} samples were run"
    count, width = parse_adaptive(spec.adaptive)
    if width is None or not ended:
        return f"only {count:,} chosen ones of {total:,} samples were run"
    allowed = f"the {count:,} that --adaptive allows"
    why = (
        f"before {allowed}: its interval is within ±{width:g}" if asked < count else f"at {allowed} to reach ±{width:g}"
    )
    return f"only {asked:,} chosen ones of {total:,} samples were run (stopped {why})"


def data_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a run's data that are the same for every model: not in which space its boxes are read."""
    return {name: text for name, text in sorted(options.items()) if name not in (COORDINATES, COORDINATES_BY, SENT)}


def require_subset(benchmark: Benchmark, subset: Subset, data: Data) -> None:
    """Refuse a subset of other data than is asked.

    Raises:
        DataError: of another version, other data or options, or with ids that are not there.
    """
    if fault := subset.fault():
        raise DataError(f"the subset has {fault}", "Make it again with snellen subset.")
    digest = benchmark.digest(data)
    pairs: dict[str, tuple[Any, Any]] = {
        "version": (subset.version, benchmark.version),
        "data": (subset.data, digest),
        "options": (dict(sorted(subset.options.items())), data_options(data.options)),
    }
    if not digest:  # all of the data then follows from the seed
        pairs["--seed"] = (subset.data_seed, data.seed)
    lines = [f"  {name}  {made}  ->  {now}" for name, (made, now) in pairs.items() if made != now]
    if lines:
        raise DataError(
            f"the subset was made of other data of {benchmark.name} than is asked now:\n" + "\n".join(lines),
            "Pass the data and the options that its runs had, or make a subset of runs with these: snellen subset.",
        )
    ids = {item.id for item in subset.items}
    for sample in benchmark.samples(data):
        ids.discard(sample.id)
        if not ids:
            return
    named = ", ".join(sorted(ids)[:5])
    raise DataError(
        f"{len(ids):,} of {len(subset.items):,} items of the subset are not in {benchmark.name}: {named}",
        "Make the subset again from runs with this data: snellen subset.",
    )


def with_subset(benchmark: Benchmark, spec: RunSpec) -> Benchmark:
    """Return the benchmark that asks the items of a run's subset only, and estimates the whole score; itself without one.

    Its own metrics are of the subset's items, and their names begin with `subset/`. What compares a score with published
    ones, or sums up in another form, is left out.

    Raises:
        UsageError: the subset is of another benchmark, or this one chooses its questions by the answers; `adaptive` without
            a subset, or with more items than it has. Where a judge decides an item, the first choice of items raises it.
    """
    subset, rule = spec.subset, None if spec.adaptive is None else parse_adaptive(spec.adaptive)
    if subset is None:
        if rule is not None:
            raise UsageError(
                f"--adaptive {rule} chooses items of a subset, and none is named", "Pass --subset-file FILE."
            )
        return benchmark
    if benchmark.study.get("subset") == subset.digest:
        return benchmark
    if subset.benchmark != benchmark.name:
        raise UsageError(
            f"--subset-file is of {subset.benchmark}, and {benchmark.name} is run", "Name a subset of this benchmark."
        )
    if benchmark.grow is not None:
        raise UsageError(
            f"--subset-file: {benchmark.name} chooses each question by the answers before it, so that it has no fixed items",
            "Omit --subset-file.",
        )
    if subset.profile not in benchmark.score:
        raise UsageError(
            f"the subset was fitted on the profile {subset.profile!r}, which {benchmark.name} does not have",
            "Make it again: snellen subset BENCHMARK --from RUNS --out FILE",
        )
    if rule is not None and rule.most > len(subset.items):
        raise UsageError(
            f"--adaptive {rule}: the subset has {len(subset.items):,} items",
            f"Choose a number from 2 to {len(subset.items):,}, or make a larger subset.",
        )
    asked = {item.id for item in subset.items}

    def samples(data: Data) -> Iterator[Sample]:
        left = len(asked)
        for sample in benchmark.samples(data):
            if sample.id in asked:
                yield sample
                left -= 1
                if not left:
                    return

    def summarize(scores: Scores, profile: str) -> list[Metric]:
        own = benchmark.summarize(scores, profile)
        if benchmark.is_plugin:
            from snellen.benchmarks.plugin_checks import require_metrics

            own = require_metrics(benchmark, profile, own)
        parts = [msgspec.structs.replace(metric, name=f"{PART}{metric.name}") for metric in own]
        return [estimate(subset, scores, rule), *parts] if profile == subset.profile else parts

    limited = replace(
        benchmark,
        samples=samples,
        size=lambda data: len(asked),
        summarize=summarize,
        headline=None,
        details=None,
        tables=None,
        published=(),
        overall=(),
        members=(),
        study={**benchmark.study, "subset": subset.digest},
    )
    return limited if rule is None else _adaptive(limited, subset, rule)


def _adaptive(benchmark: Benchmark, subset: Subset, rule: AdaptiveRule) -> Benchmark:
    """Return a benchmark that grows: its next items are those of the subset that tell most, after the answers so far."""
    places = {item.id: place for place, item in enumerate(subset.items)}
    kept: dict[str, Sample] = {}
    kept_of: list[Data] = []

    def sample(data: Data, name: str) -> Sample:
        if kept_of != [data]:
            kept_of[:] = [data]
            kept.clear()
            kept.update((each.id, each) for each in benchmark.samples(data))
            decides = None if benchmark.judge_profile else benchmark.rubric
            if decides is not None and any(decides(each) is not None for each in kept.values()):
                raise UsageError(
                    f"--adaptive chooses by scores, and a judge scores items of {benchmark.name} after the run",
                    "Omit --adaptive.",
                )
        return kept[name]

    def grow(data: Data, answers: Mapping[str, ScoredAnswer]) -> list[Sample]:
        from snellen.scoring.statistics.item_response import next_items

        scores = {places[name]: _value(answer) for name, answer in answers.items() if name in places}
        chosen = next_items(*_parameters(subset), scores, rule.most, lambda asked: _is_enough(subset, asked, rule))
        return [sample(data, subset.items[place].id) for place in chosen]

    return replace(
        benchmark,
        size=lambda data: rule.most,
        grow=grow,
        sample=sample,
        forecast=None if rule.width else lambda data: Forecast(rule.most, rule.most),
        study={**benchmark.study, "adaptive": rule.most if rule.width is None else str(rule)},
    )


def _is_enough(subset: Subset, values: Floats, rule: AdaptiveRule) -> bool:
    """Return True if the interval by these scores is as narrow as the rule asks for."""
    if rule.width is None:
        return False
    whole = _whole(subset, values)
    return whole is not None and subset.factor * whole.error <= rule.width


def _whole(subset: Subset, values: Floats) -> WholeScore | None:
    import numpy as np

    from snellen.scoring.statistics.item_response import estimate_whole

    rest, outside = np.array(subset.rest), np.array(subset.outside or 0.0)
    return estimate_whole(*_parameters(subset), rest, subset.total, np.clip(values, 0.0, 1.0), outside)


def _value(answer: ScoredAnswer) -> float:
    """Return the score of an answer as an estimate takes it: 0 for an unread one, NaN for none."""
    if answer.verdict in ("error", "unscored"):
        return float("nan")
    return min(max(answer.value or 0.0, 0.0), 1.0)


def _parameters(subset: Subset) -> tuple[Floats, Floats]:
    import numpy as np

    a, d = np.array([(item.a, item.d) for item in subset.items], dtype=np.float64).T
    return a, d


def estimate(subset: Subset, scores: Scores, rule: AdaptiveRule | None = None) -> Metric:
    """Return the estimated mean score over all items, with its interval; without a value where no item has an answer.

    Args:
        subset: the items.
        scores: of the run.
        rule: which of the items are asked; None: all.
    """
    import numpy as np

    from snellen.scoring.statistics.item_response import item_scores

    values = item_scores(scores, [item.id for item in subset.items])
    answered, size = int(np.isfinite(values).sum()), len(values) if rule is None else rule.most
    if (whole := _whole(subset, values)) is None:
        return Metric(ESTIMATE, None, 0, coverage=0.0)
    if rule is not None and _is_enough(subset, values, rule):
        size = len(np.unique(scores.question))
    half = subset.factor * whole.error
    about = IntervalMethod("item response theory, models left out", clusters=answered)
    low, high = max(0.0, whole.value - half), min(1.0, whole.value + half)
    return Metric(ESTIMATE, whole.value, answered, Interval(low, high, about), coverage=min(1.0, answered / size))
