"""Controls of a benchmark: the same samples asked without their picture, without their question, or in another order.

`RunSpec.control` names one, so that a control is an ordinary run of the same benchmark: sample ids stay, so do the scorers,
and runs are paired by id. Samples that a control does not apply to are left out of it. What changes pixels alone is a media
setting instead: `--blank-images`, and `--corrupt patch-shuffle:N`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeAlias

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import UsageError
from snellen.types import Part, Prompt, Sample, Text, Turn, Video

TEXT, OPTIONS, OTHER, SHUFFLE = "text", "options", "other", "shuffle-"
SHUFFLES = 16
"""Orders of the options that are drawn at most."""
CHOICES = ("choice", "choice_text", "multi-choice")
INSTRUCTIONS = {
    "choice": "Answer with the letter of the correct option.",
    "choice_text": "Answer with the text of the correct option.",
    "multi-choice": "Answer with the letters of all correct options.",
}
"""Snellen's own words below the options where they stand alone."""
_GAP = 24
"""Characters at most between two options of a listing without letters."""
_BOUND = re.compile(
    r"\b(?:(?:all|none|both|neither|any) of|(?:above|below|preceding|following)|both|options? [A-H]"
    r"|genannten?|obigen?|beides?|ci-dessus|précédente?s|tou(?:te)?s les (?:deux|réponses)|anteriores|ambos|ambas)\b"
    r"|以上|上述|上記|[都皆]是|\b[A-H](?: (?:and|or|und|oder|et|ou|y|e) | ?[&+/,] ?)[A-H]\b",
    re.I,
)
"""Options that speak of other options, whose order is part of their meaning."""

Change: TypeAlias = Callable[[Sample], Sample | None]


def controlled(benchmark: Benchmark, control: str) -> Benchmark:
    """Return the benchmark under a control; itself for an empty name, and where it is under it already.

    Its digest stays that of the samples as the benchmark has them, and `study` names the control in the fingerprint.

    Args:
        control: `text` (no pictures), `options` (no pictures, no question), `other` (the pictures of another sample), or
            `shuffle-K` (the K-th drawn order of the options, K from 1 to 16).

    Raises:
        UsageError: no such control, or the benchmark's questions follow from answers.
    """
    if not control or benchmark.study.get("control") == control:
        return benchmark
    prepare = _PREPARED.get(control) or _shuffling(control)
    if prepare is None:
        raise UsageError(
            f"there is no control {control!r}", f"Known: {', '.join(_PREPARED)}, shuffle-1 to shuffle-{SHUFFLES}."
        )
    if benchmark.grow is not None:
        raise UsageError(
            f"{benchmark.name} chooses its questions by the answers, so that no two runs have the same ones",
            "Name a benchmark with fixed questions.",
        )

    def samples(data: Data) -> Iterator[Sample]:
        change = prepare(benchmark, data)
        return (changed for sample in benchmark.samples(data) if (changed := change(sample)) is not None)

    return replace(
        benchmark,
        samples=samples,
        size=lambda data: sum(1 for _ in samples(data)),
        study={**benchmark.study, "control": control},
    )


def without_pictures(sample: Sample) -> Sample | None:
    """Return a sample without images and videos; None where it has none, or nothing else."""
    parts = _texts(sample.prompt.parts)
    if not any(part.text.strip() for part in parts) or not pictures_of(sample):
        return None
    history = tuple(Turn(turn.role, _texts(turn.parts) or (Text(""),)) for turn in sample.prompt.history)
    return structs.replace(sample, prompt=structs.replace(sample.prompt, parts=parts, history=history))


def options_alone(sample: Sample) -> Sample | None:
    """Return a sample whose prompt is its options and how to answer; None for one that is no choice between texts."""
    if (
        sample.kind not in CHOICES
        or len(sample.options) < 2
        or not all(text.strip() for text in sample.options.values())
    ):
        return None
    lettered = sample.kind != "choice_text"
    lines = [f"{letter}. {text}" if lettered else text for letter, text in sample.options.items()]
    shown = Text("\n".join([*lines, INSTRUCTIONS[sample.kind]]))
    return structs.replace(sample, prompt=Prompt((shown,), sample.prompt.system, sample.prompt.generation))


def shuffled(sample: Sample, number: int, seed: int) -> Sample | None:
    """Return a sample with its options in another order, in the prompt, in `options` and in the gold letters.

    Every order is equally likely, the given one too, so that a model that goes by what the options say picks each position
    equally often. The order depends on the sample's id, the number and the seed alone.

    Returns:
        None for a sample that is no choice, whose options speak of each other ("all of the above"), or whose options are
        not found in its prompt in their order.
    """
    letters, texts = list(sample.options), list(sample.options.values())
    gold = [sample.target] if isinstance(sample.target, str) else sample.target
    if sample.kind not in CHOICES or len(letters) < 2 or not isinstance(gold, (list, tuple)):
        return None
    by_letter = sample.kind != "choice_text"
    if any(_BOUND.search(text) for text in texts) or (by_letter and any(letter not in letters for letter in gold)):
        return None
    places = [
        (at, _listing(part.text, sample)) for at, part in enumerate(sample.prompt.parts) if isinstance(part, Text)
    ]
    place = next(((at, spans) for at, spans in places if spans), None)
    if place is None:
        return None
    order = draw_order(sample.id, len(letters), number, seed)
    at, spans = place
    shown, parts = sample.prompt.parts[at].text, list(sample.prompt.parts)  # type: ignore[union-attr]
    for (start, end), source in reversed(list(zip(spans, order, strict=True))):
        shown = shown[:start] + texts[source].strip() + shown[end:]
    parts[at] = Text(shown)
    moved = {letters[source]: letters[to] for to, source in enumerate(order)}
    target: Any = sample.target
    if by_letter:
        target = moved[target] if isinstance(target, str) else tuple(sorted(moved[letter] for letter in target))
    options = {letter: texts[source] for letter, source in zip(letters, order, strict=True)}
    prompt = structs.replace(sample.prompt, parts=tuple(parts))
    return structs.replace(sample, prompt=prompt, target=target, options=options)


def draw_order(sample_id: str, options: int, number: int, seed: int) -> list[int]:
    """Draw an order of options: at each place the number of the option, from 0, that stands there."""
    drawn = [blake2b(f"{seed}/{number}/{place}/{sample_id}".encode()).digest() for place in range(options)]
    return sorted(range(options), key=drawn.__getitem__)


def other_pictures(samples: Iterator[Sample], seed: int) -> dict[tuple[str, ...], tuple[Part, ...]]:
    """Map the pictures of each sample, by their keys, to those of another one with as many: none keeps its own.

    Among sets of as many images and videos, each goes to the next in a drawn order; one that shares a picture with the next
    gets the first that it shares none with. A set that shares a picture with all others has no entry.
    """
    sets: dict[tuple[str, ...], tuple[str, tuple[Part, ...]]] = {}
    for sample in samples:
        if own := pictures_of(sample):
            sets.setdefault(_keys(own), (sample.id, own))
    alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for keys in sorted(sets, key=lambda keys: blake2b(f"{seed}/{sets[keys][0]}".encode()).digest()):
        alike.setdefault(tuple(type(part).__name__ for part in sets[keys][1]), []).append(keys)
    others = {}
    for bucket in alike.values():
        for at, keys in enumerate(bucket):
            turned = (bucket[(at + step) % len(bucket)] for step in range(1, len(bucket)))
            if (other := next((each for each in turned if set(keys).isdisjoint(each)), None)) is not None:
                others[keys] = sets[other][1]
    return others


def pictures_of(sample: Sample) -> tuple[Part, ...]:
    """Return the images and videos of a sample, those of earlier turns first."""
    return tuple(part for part in sample.prompt.conversation_parts if not isinstance(part, Text))


def name_of(part: Part) -> str:
    """Return where a picture comes from: its path, or what else its source is called; empty for a text."""
    if isinstance(part, Text):
        return ""
    if isinstance(part, Video):
        return part.blob.key if part.blob is not None else " ".join(frame.blob.key for frame in part.frames)
    return part.blob.key


def _keys(parts: tuple[Part, ...]) -> tuple[str, ...]:
    return tuple(name_of(part) for part in parts)


def _texts(parts: tuple[Part, ...]) -> tuple[Text, ...]:
    return tuple(part for part in parts if isinstance(part, Text))


def _listing(text: str, sample: Sample) -> list[tuple[int, int]]:
    """Return start and end of each option's text in a prompt, in order; empty where they do not stand there in order."""
    found = _lettered(text, sample.options)
    return found or ([] if sample.kind != "choice_text" else _spans(text, sample.options, lettered=False))


def _lettered(text: str, options: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return the last listing with letters, since a question may begin with "A cat"; empty where another could be meant."""
    spans: list[tuple[int, int]] = []
    starts = [len(text)]
    for letter, option in reversed(list(options.items())):
        mark = re.compile(rf"(?<!\w){re.escape(letter)}[\W_]{{1,6}}?({re.escape(option.strip())})(?!\w)")
        found = list(mark.finditer(text, 0, starts[-1]))
        if not found or not option.strip():
            return []
        spans.insert(0, found[-1].span(1))
        starts.append(found[-1].start())
    in_lines = all(re.search(r"(?:^|\n)[ \t*(\[]*\Z", text[:start]) for start in starts[1:])
    return spans if in_lines or spans == _spans(text, options, lettered=True) else []


def _spans(text: str, options: Mapping[str, str], *, lettered: bool) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for letter, option in options.items():
        mark = rf"(?<!\w){re.escape(letter)}[\W_]{{1,6}}?" if lettered else r"(?<!\w)"
        start = spans[-1][1] if spans else 0
        found = (
            re.compile(rf"{mark}({re.escape(option.strip())})(?!\w)").search(text, start) if option.strip() else None
        )
        if found is None or (spans and not lettered and found.start() - start > _GAP):
            return []
        spans.append(found.span(1))
    return spans


def _with_others(benchmark: Benchmark, data: Data) -> Change:
    """Prepare the control `other`, over all samples of the benchmark, so that it does not depend on `--limit`."""
    others = other_pictures(benchmark.samples(data), data.seed)

    def change(sample: Sample) -> Sample | None:
        own = _keys(pictures_of(sample))
        if own not in others:
            return None
        pictures = iter(others[own])

        def taken(parts: tuple[Part, ...]) -> tuple[Part, ...]:
            return tuple(part if isinstance(part, Text) else next(pictures) for part in parts)

        history = tuple(Turn(turn.role, taken(turn.parts)) for turn in sample.prompt.history)
        parts = taken(sample.prompt.parts)
        return structs.replace(sample, prompt=structs.replace(sample.prompt, history=history, parts=parts))

    return change


def _shuffling(control: str) -> Callable[[Benchmark, Data], Change] | None:
    known = re.fullmatch(rf"{SHUFFLE}([1-9]\d?)", control)
    if known is None or int(known[1]) > SHUFFLES:
        return None
    return lambda benchmark, data: lambda sample: shuffled(sample, int(known[1]), data.seed)


_PREPARED: dict[str, Callable[[Benchmark, Data], Change]] = {
    TEXT: lambda benchmark, data: without_pictures,
    OPTIONS: lambda benchmark, data: options_alone,
    OTHER: _with_others,
}
