"""Prompt studies: a system text and few-shot examples that a run puts before a benchmark's own prompts.

The benchmark stays as it is: what is scored, judged and shown later are its own questions. Only what is sent is changed, and
the run's fingerprint says how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.run_folder import RunSpec
from snellen.errors import MissingExtraError, UsageError
from snellen.installation import install_hint
from snellen.models.base import Model
from snellen.models.registry import TORCH_KINDS
from snellen.types import Sample

_NEEDS = {
    "system": ("--system", "a system text"),
    "history": ("--few-shot", "earlier turns"),
    "logprobs": ("--logprobs", "probabilities of tokens"),
    "schema": ("--schema", "a schema of its reply"),
}
_OF_SCHEMA = ("response_format", "structured_outputs", "guided_json", "json_schema", "text")
"""Members of a request body that would replace the schema."""
_REASONS = {
    ("embedded", "history"): "The embedded model was trained on single questions.",
    ("agent", "history"): "An agent holds a conversation of its own, which begins with the question.",
    ("agent", "logprobs"): "An agent's answer is made of several replies.",
    ("tools", "history"): "The loop of tools begins with the question.",
    ("tools", "logprobs"): "An answer with tools is made of several replies.",
    ("replay", "logprobs"): "A file of answers has no probabilities.",
    (
        "local",
        "logprobs",
    ): "Local models return text alone, and so does snellen serve. A server such as vLLM's gives them to api:NAME.",
    ("embedded", "logprobs"): "Local models return text alone.",
    ("anthropic", "logprobs"): "Anthropic's Messages have no probabilities.",
    ("agent", "schema"): "An agent decides by itself how it answers.",
    ("tools", "schema"): "The loop of tools has several replies.",
    ("replay", "schema"): "A file of answers was written already.",
}


def studied(benchmark: Benchmark, spec: RunSpec) -> Benchmark:
    """Return the benchmark with the system text and the examples of a run before its prompts; itself without them.

    A benchmark's own system text stays: it belongs to the question. The text of `--system` stands before it, with a blank
    line between them.

    Raises:
        UsageError: no pool of examples, or too few in it.
        DataError: the pool cannot be read.
    """
    if not spec.system and not spec.few_shot:
        return benchmark
    study: dict[str, Any] = {**benchmark.study, **({"system": spec.system} if spec.system else {})}
    change: Callable[[Sample], Sample] = lambda sample: _with_system(sample, spec.system)  # noqa: E731
    concealed: tuple[str, ...] = ()
    if spec.few_shot:
        from snellen.benchmarks.few_shot import choose_examples  # few runs have examples

        shots = choose_examples(
            benchmark,
            spec.benchmark,
            spec.data,
            count=spec.few_shot,
            named=spec.few_shot_from,
            draw=spec.few_shot_draw,
        )
        study["few_shot"] = dict(shots.identity)
        change = lambda sample: _with_system(shots.shown(sample), spec.system)  # noqa: E731
        concealed = shots.gold if benchmark.restricted else ()
    grow, make = benchmark.grow, benchmark.sample

    def samples(data: Data) -> Iterator[Sample]:
        return map(change, benchmark.samples(data))

    return replace(
        benchmark,
        samples=samples,
        grow=None if grow is None else lambda data, answers: [change(sample) for sample in grow(data, answers)],
        sample=None if make is None else lambda data, name: change(make(data, name)),
        study={**benchmark.study, **study},
        concealed=concealed,
    )


def _with_system(sample: Sample, system: str) -> Sample:
    if not system:
        return sample
    own = sample.prompt.system
    return structs.replace(
        sample, prompt=structs.replace(sample.prompt, system=f"{system}\n\n{own}" if own else system)
    )


def require_supported(spec: RunSpec, model: Model) -> None:
    """Refuse a run whose settings give prompts a part that the model cannot use.

    Earlier turns of a benchmark's own are looked for when the fingerprint reads its first samples.

    Raises:
        UsageError: with the part and the reason.
        MissingExtraError: of a local model, what masks its tokens is not installed.
    """
    needed = [
        *["system"] * bool(spec.system),
        *["history"] * bool(spec.few_shot),
        *["logprobs"] * (spec.options.generation.logprobs is not None),
        *["schema"] * bool(spec.schema),
    ]
    if spec.schema and (name := next((name for name in _OF_SCHEMA if name in spec.options.extra_body), None)):
        raise UsageError(
            f"--schema and {name!r} of --extra-body both say which form replies have.", "Omit one of them."
        )
    for part in needed:
        if part not in model.supports:
            if part == "schema" and spec.model.partition(":")[0] in TORCH_KINDS:
                raise MissingExtraError(
                    "--schema: tokens of a local model are masked by llguidance, which is not installed",
                    install_hint("structured"),
                )
            option, words = _NEEDS[part]
            raise UsageError(
                f"{option}: --model {spec.model} cannot use {words}. {_reason(spec.model, part)}".rstrip(),
                f"Omit {option}, or name another model. No request was sent.",
            )


def unsupported_part(spec: RunSpec, benchmark: Benchmark, sample: Sample, part: str) -> UsageError:
    """Return the error of a benchmark's own earlier turns, or system text, for a model that cannot use them."""
    return UsageError(
        f"{benchmark.name} has questions with {_NEEDS[part][1]} ({sample.id}), which --model {spec.model} cannot use. "
        f"{_reason(spec.model, part)}".rstrip(),
        "Name another model, such as api:NAME or local:NAME. No request was sent.",
    )


def _reason(model: str, part: str) -> str:
    kind = model.partition(":")[0]
    return _REASONS.get(
        (kind, part), f"A model of your own declares what it can use: supports = frozenset({{{part!r}}})."
    )
