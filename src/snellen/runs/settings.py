"""Settings of a run by name, the same for the Python functions, the command line and a run's record; and its benchmark."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from msgspec import structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.run_folder import JUDGE_RUNS, JUDGED, LABELLED, READ, RunFolder, RunSpec
from snellen.engine.subset import Subset, parse_adaptive, read_subset, with_subset
from snellen.models.base import AUTO, DEFAULTS, ModelOptions, ModelSettings
from snellen.models.registry import CHECKPOINT_KINDS
from snellen.runs.trust import as_asked, find_named
from snellen.setting import explain, settings_of
from snellen.types import Generation, MediaSettings

SAMPLING, TOKENS, PIXELS = ("temperature", "top_p"), ("max_tokens",), ("max_pixels", "min_pixels", "max_long_side")
F = TypeVar("F", bound=Callable[..., Any])


class RunLimits(TypedDict, total=False):
    """Part of a benchmark that is run, and what ends a run early."""

    limit: int | None
    max_attempts: int
    retry_empty: int
    max_cost: float | None
    max_tokens_total: int | None


class JudgeSettings(ModelSettings, RunLimits, total=False):
    """Settings of a judge's run."""


class RunSettings(JudgeSettings, total=False):
    """Settings of a run: those of its model (ModelOptions), its limits, its data and its workers.

    data, images: where the benchmark's files are.
    benchmark_options: the options that `-o key=value` sets.
    The others are described by RunSpec and ModelOptions (snellen.setting).
    """

    data: str | Path | None
    images: str | Path | None
    benchmark_options: Mapping[str, str] | None
    subset: str | Path | Subset | None
    adaptive: int | str | None
    repeats: int
    nproc: int | None
    ray: str | None
    strict_data: bool
    system: str
    schema: Mapping[str, Any] | str | Path | None
    few_shot: int
    few_shot_from: str | None
    few_shot_draw: str
    shard: str
    batch: bool
    poll_s: float | None
    control: str


class RerunSettings(TypedDict, total=False):
    """Settings that a rerun may replace; None: as recorded. The endpoint: see snellen.engine.endpoints."""

    base_url: str | None
    key_env: str | None
    patience_s: float | None
    rpm: float | None
    tpm: float | None
    prices: str | Path | None


class AnswerFields(TypedDict, total=False):
    """How a file of another harness names its rows; `id_is`: `id`, `position` (from 0) or a meta field of the samples."""

    id_field: str | None
    reply_field: str | None
    id_is: str


_MODEL_FIELDS = frozenset(ModelOptions.__struct_fields__)
_SPEC_FIELDS = frozenset(RunSpec.__struct_fields__)
_DEFAULTS = {
    **structs.asdict(RunSpec(benchmark="", model="")),
    **structs.asdict(DEFAULTS),
    **dict.fromkeys(("data", "images", "benchmark_options")),
}


def run_spec(benchmark: str, model: str, settings: JudgeSettings) -> RunSpec:
    """Build a run's record from its settings (RunSettings are JudgeSettings and more); None stands for the default."""
    chosen: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    options = ModelOptions(**{name: value for name, value in chosen.items() if name in _MODEL_FIELDS})
    data = Data(
        path=Path(chosen["data"]) if "data" in chosen else None,
        images=Path(chosen["images"]) if "images" in chosen else None,
        options=dict(chosen.get("benchmark_options", {})),
        seed=options.seed,
    )
    spec = {name: value for name, value in chosen.items() if name in _SPEC_FIELDS}
    if isinstance(file := spec.get("subset"), str | Path):
        spec["subset"] = read_subset(file)
    if "adaptive" in spec and (rule := parse_adaptive(spec["adaptive"])).width is None:
        spec["adaptive"] = rule.most
    if spec.get("schema"):
        from snellen.benchmarks.structured import checked_schema

        spec["schema"] = checked_schema(spec["schema"])
    if spec.get("shard"):
        from snellen.engine.sharding import parse_shard  # few runs are divided

        spec["shard"] = str(parse_shard(spec["shard"]))  # 01/3 is the part 1/3
    return RunSpec(**{**spec, "benchmark": benchmark, "model": model, "data": data, "options": options})


def with_sampling(spec: RunSpec, *, trust: bool = True) -> RunSpec:
    """Return a run's settings with those of the recipe that they name. Raises as `snellen.runs.recipes.with_recipe`."""
    if spec.options.sampling is None:
        return spec
    from snellen.runs.recipes import with_recipe

    return with_recipe(spec, trust=trust)


def as_published(spec: RunSpec, settings: Mapping[str, Any]) -> RunSpec:
    """Return a run's settings with others in place of those that nobody chose: published ones, or a benchmark's own."""

    def filled(chosen: Any, names: Sequence[str]) -> Any:
        wanted = {name: settings[name] for name in names if name in settings and getattr(chosen, name) is None}
        return structs.replace(chosen, **wanted)

    generation = filled(spec.options.generation, (*SAMPLING, *TOKENS))
    options = structs.replace(spec.options, generation=generation, media=filled(spec.options.media, PIXELS))
    repeats = settings.get("repeats", 1) if spec.repeats == 1 else spec.repeats
    return structs.replace(spec, options=options, repeats=repeats)


def settled(spec: RunSpec, folder: RunFolder, *, trust: bool) -> RunSpec:
    """Return a run's settings with its recipe, and what new runs have: seeds a sample, and the checkpoint's own sampling.

    A run that is there goes on by the rules with which it began. Judges decode greedily. Raises as
    `snellen.runs.recipes.with_recipe`.
    """
    spec = with_sampling(spec, trust=trust)
    before = folder.meta().spec if folder.exists() else None
    sampling = spec.options.sampling
    if sampling is None and spec.model.partition(":")[0] in CHECKPOINT_KINDS and spec.benchmark not in JUDGE_RUNS:
        sampling = AUTO if before is None or before.options.sampling is not None else None
    seeds = "sample" if before is None else before.seeds
    return structs.replace(spec, seeds=seeds, options=structs.replace(spec.options, sampling=sampling))


def find_benchmark(spec: RunSpec, folder: RunFolder | None = None, *, trust: bool = False) -> Benchmark:
    """Find the benchmark that a spec names; a judge's is built from the run that it is about.

    Args:
        folder: the run folder that the spec comes from, for messages.
        trust: the spec may name code to import; the user typed it, or trusts the folder's author.

    Raises:
        UntrustedRunError: it names code, and is not trusted.
    """
    if spec.benchmark == JUDGED:
        from snellen.runs.judge.benchmark import judged_benchmark

        return judged_benchmark(spec.data, trust=trust)
    if spec.benchmark == READ:
        from snellen.runs.judge.reading import reading_benchmark

        return reading_benchmark(spec.data, trust=trust)
    if spec.benchmark == LABELLED:
        from snellen.runs.failures.benchmark import labelling_benchmark

        return labelling_benchmark(spec.data, trust=trust)
    named = registry.find(spec.benchmark) if trust else find_named(spec.benchmark, folder, trust=False)
    return as_asked(with_subset(named, spec), spec)


def _place_of(name: str) -> str:
    """Say to which argument a setting of the reply or of images belongs; empty for any other name."""
    for argument, kind in (("generation", Generation), ("media", MediaSettings)):
        field = {"blank_images": "blank"}.get(name, name)
        if field in kind.__struct_fields__:
            return f". Write {argument}={kind.__name__}({field}=…)"
    return ""


def takes(settings: type[Any], defaults: Mapping[str, Any] = _DEFAULTS) -> Callable[[F], F]:
    """Decorate a function with `**settings: Unpack[...]`: its signature and help list each with its default.

    A name that is no setting is a TypeError that suggests the nearest one.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        listed = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind.__forward_arg__
            )
            for name, kind in settings.__annotations__.items()
        ]
        names = [each.name for each in (*own, *listed)]

        @functools.wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            for name in keywords.keys() - set(names):
                hint = _place_of(name) if {"generation", "media"} <= set(names) else ""
                if not hint and (near := difflib.get_close_matches(name, names, 1, 0.7)):
                    hint = f". Did you mean {near[0]!r}?"
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}{hint}")
            return function(*arguments, **keywords)

        vars(checked)["__signature__"] = signature.replace(parameters=[*own, *listed])
        described = {**settings_of(RunSpec), **settings_of(ModelOptions)}
        listed_texts = {name: described[name] for name in settings.__annotations__ if name in described}
        return explain(listed_texts)(checked)  # type: ignore[return-value]

    return decorate
