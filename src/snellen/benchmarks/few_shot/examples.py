"""Few-shot examples of a run: chosen from a pool by a seed, each as a user's turn and the gold answer as the model's."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.few_shot.pool import PoolCandidates, candidates, draw_order, find_pool
from snellen.errors import SnellenError, UsageError
from snellen.scoring.rubric import gold_forms
from snellen.types import Sample, Text, Turn, Video

MOST_EXAMPLES = 64
Draw: TypeAlias = Literal["fixed", "each"]
DRAWS: Mapping[str, str] = {
    "fixed": "the same examples, in the same order, before every question",
    "each": "other examples before each question, drawn by the seed and the question's id",
}
_LETTERS = re.compile(r"\bT\s*(?:or|/|\|)\s*F\b|\(T\)|'T'|\"T\"|answer with T\b")
_TRUE_FALSE = re.compile(r"\btrue\b[^.\n]{0,20}\bfalse\b", re.IGNORECASE)
_LOWER_YES = re.compile(r"\byes or no\b")


class ExampleTurns(Struct, frozen=True):
    """One example as turns; `digest` is over its words, images and answer."""

    id: str
    turns: tuple[Turn, ...]
    digest: str


class FewShotExamples(Struct, frozen=True):
    """The examples of a run and how they are drawn.

    Attributes:
        count: examples before each question.
        draw: `fixed` or `each`.
        seed: that of the run.
        gold: the answers of all examples, which a restricted benchmark never writes.
        examples: what is shown (`fixed`), or drawn from (`each`).
        identity: what the run's fingerprint holds of it: count, draw, digests of pool and examples. No gold answer.
    """

    count: int
    draw: Draw
    seed: int
    examples: tuple[ExampleTurns, ...]
    identity: Mapping[str, Any]
    gold: tuple[str, ...] = ()

    def before(self, sample_id: str) -> tuple[Turn, ...]:
        """Return the turns that stand before a question."""
        chosen = self.examples
        if self.draw == "each":
            chosen = tuple(
                heapq.nsmallest(
                    self.count, self.examples, key=lambda each: (draw_order(self.seed, sample_id, each.id), each.id)
                )
            )
        return tuple(turn for example in chosen for turn in example.turns)

    def shown(self, sample: Sample) -> Sample:
        """Return a sample with the examples before its own turns."""
        history = (*self.before(sample.id), *sample.prompt.history)
        return structs.replace(sample, prompt=structs.replace(sample.prompt, history=history))


def choose_examples(
    benchmark: Benchmark, benchmark_name: str, data: Data, *, count: int, named: str | None, draw: Draw
) -> FewShotExamples:
    """Choose the few-shot examples of a run. The same data, pool and seed give the same examples.

    Args:
        benchmark, benchmark_name, data: what is tested.
        count: examples before each question.
        named: the pool; None: the one that the benchmark declares.
        draw: `fixed` or `each`.

    Raises:
        UsageError: no pool, too few examples in it that are no tested samples, an adaptive benchmark.
        DataError: the pool cannot be read.
    """
    if draw not in DRAWS:
        raise UsageError(f"--few-shot-draw {draw}: {' or '.join(DRAWS)} was expected.")
    if not 1 <= count <= MOST_EXAMPLES:
        raise UsageError(f"--few-shot {count}: 1 to {MOST_EXAMPLES} examples were expected.")
    if benchmark.grow is not None:
        raise UsageError(
            f"--few-shot: {benchmark.name} chooses each question by the answers before it, and has no pool of examples.",
            "Omit --few-shot.",
        )
    pool = find_pool(benchmark, benchmark_name, data, named)
    chosen = candidates(benchmark, data, pool, data.seed)
    excluded: Counter[str] = Counter(chosen.excluded)
    examples: list[ExampleTurns] = []
    gold: list[str] = []
    most = count if draw == "fixed" else len(chosen.samples)
    for sample in chosen.samples:
        if len(examples) == most:
            break
        answer = gold_reply(pool.benchmark, sample)
        if answer is None:
            excluded["have no gold answer that can be written as a reply"] += 1
            continue
        turns = (*sample.prompt.history, Turn("user", sample.prompt.parts), Turn("assistant", (Text(answer),)))
        examples.append(ExampleTurns(sample.id, turns, _digest_of(sample.id, turns)))
        gold += [answer, *gold_forms(sample)]
    if len(examples) < count:
        raise _too_few(pool.text, chosen, excluded, len(examples), count)
    identity = {
        "count": count,
        "draw": draw,
        "pool": pool.benchmark.digest(pool.data),
        "examples": blake2b("".join(each.digest for each in examples).encode(), digest_size=8).hexdigest(),
    }
    return FewShotExamples(count, draw, data.seed, tuple(examples), identity, tuple(dict.fromkeys(gold)))


def gold_reply(benchmark: Benchmark, sample: Sample) -> str | None:
    """Return the gold answer of a sample as a model should write it; None if it has none.

    It is the first of the usual forms of its kind that the benchmark's default profile reads as correct. A benchmark that
    wants another form declares `gold_reply`.
    """
    if benchmark.gold_reply is not None:
        return benchmark.gold_reply(sample)
    scorer: Callable[[Sample, str], Any] = next(iter(benchmark.score.values()))
    for form in _forms(sample):
        try:
            verdict = scorer(sample, form).verdict
        except SnellenError:  # this form cannot be scored; the next may be
            continue
        if verdict in ("correct", "unscored"):  # a judge decides about the latter
            return form
    return None


def _forms(sample: Sample) -> Iterator[str]:
    """Yield the usual forms of a gold answer, the one that the question asks for first."""
    target, kind = sample.target, sample.kind
    if kind == "truth" and isinstance(target, bool):
        words = "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
        pairs = [("Yes", "No"), ("True", "False"), ("T", "F")]
        if _LETTERS.search(words):
            pairs.insert(0, ("T", "F"))
        elif _TRUE_FALSE.search(words):
            pairs.insert(0, ("true", "false") if "true or false" in words else ("True", "False"))
        elif _LOWER_YES.search(words):
            pairs.insert(0, ("yes", "no"))
        yield from (pair[0] if target else pair[1] for pair in pairs)
    elif kind in ("count", "number") and isinstance(target, (int, float)):
        yield str(int(target)) if float(target).is_integer() else repr(target)
    elif isinstance(target, str):
        yield target
        if target in sample.options:
            yield f"({target})"
            yield sample.options[target]
    elif isinstance(target, (tuple, list)) and target and isinstance(target[0], str):
        yield ", ".join(target) if kind == "multi-choice" else target[0]


def _digest_of(sample_id: str, turns: tuple[Turn, ...]) -> str:
    total = blake2b(sample_id.encode("utf-8", "surrogatepass"), digest_size=8)
    for turn in turns:
        total.update(f"\0{turn.role}\0".encode())
        for part in turn.parts:
            if isinstance(part, Text):
                total.update(part.text.encode("utf-8", "surrogatepass"))
            else:
                frames = part.frames if isinstance(part, Video) else ()
                blobs = [part.blob, *(frame.blob for frame in frames)]
                for blob in blobs:
                    if blob is not None:
                        total.update(blake2b(blob.read(), digest_size=16).digest())
    return total.hexdigest()


def _too_few(text: str, chosen: PoolCandidates, excluded: Mapping[str, int], usable: int, count: int) -> UsageError:
    reasons = "".join(f"\n  {number:,} {reason}" for reason, number in sorted(excluded.items()))
    return UsageError(
        f"--few-shot {count}: the pool {text} has {usable:,} usable examples among {chosen.total:,} samples.{reasons}",
        "Name a pool that shares no samples with the tested ones: --few-shot-from. No request was sent.",
    )
