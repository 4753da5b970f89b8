"""Removal of gold answers from one answer, for files that are published: `snellen report --redact` and exports without gold.

Whatever determines the gold answer is withheld. That is a reply

- that was found correct, for it is the gold answer in other words;
- that has part of a point, for reply and value together say how far the gold answer is;
- that quotes the gold answer of its sample, or of another sample of the same group;
- to a question with two possible answers, since the verdict tells the right one, or to a count over several images;
- to a question of whose possible answers the published wrong ones leave only one: over all profiles, repeats, and samples of
  the same group with the same gold answer. All replies to such a question are withheld.

Verdicts and values stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.redaction.gold import WITHHELD, quotes
from snellen.scoring.rubric import gold_forms
from snellen.types import Failure, Image, Prompt, Record, Response, Sample, Score

GOLD_FIELDS = frozenset({"aliases", "answer", "answers", "evidence", "gold", "target"})
"""Fields of meta that repeat the gold answer."""
_FEWEST_OPTIONS = 3
_UNNAMED = "\0"
"""Begins the entry of a wrong reply in which no option was read; no plain text begins so."""


def gold_by_group(benchmark: Benchmark, data: Data) -> dict[str, set[str]]:
    """Return the gold answers of each group: a sample's alias may be missing at another of the same target."""
    by_group: dict[str, set[str]] = {}
    for sample in benchmark.samples(data):
        if sample.group:
            by_group.setdefault(sample.group, set()).update(gold_forms(sample))
    return by_group


def public_meta(
    sample: Sample, forms: tuple[str, ...], gold_fields: frozenset[str] = GOLD_FIELDS
) -> Iterator[tuple[str, str | int | float]]:
    """Yield the fields of a sample's meta that neither repeat nor quote the gold answer; only texts and numbers."""
    for name, value in sample.meta.items():
        if name not in gold_fields and isinstance(value, (str, int, float)) and not quotes(str(value), forms):
            yield name, value


class GoldRemoval:
    """Removes the gold answers from the answers of one run.

    Args:
        benchmark, data: of the run.
        scored: every answer of the run with its scores under all profiles, in any order.
    """

    def __init__(
        self, benchmark: Benchmark, data: Data, scored: Iterable[tuple[Sample, Record, Mapping[str, Score]]]
    ) -> None:
        self._by_group = gold_by_group(benchmark, data)
        self._ruled_out: dict[tuple[str, str], set[str]] = {}
        for sample, record, scores in scored:
            if len(possible_answers(sample)) >= _FEWEST_OPTIONS and record.response is not None:
                ruled_out = self._ruled_out.setdefault(_question(sample), set())
                ruled_out.update(_wrong_answers(sample, record.response, scores))

    def forms(self, sample: Sample) -> tuple[str, ...]:
        """Return the gold answers of a sample and of its group, in each accepted form."""
        return (*gold_forms(sample), *self._by_group.get(sample.group, ()))

    def tells_gold(self, sample: Sample, scores: Mapping[str, Score], texts: Iterable[str]) -> bool:
        """Return True if an answer, its verdicts and its values determine the gold answer.

        Args:
            sample, scores: the question, and the answer's score under each profile.
            texts: what would be published of the answer.
        """
        possible = possible_answers(sample)
        # Of a count, a wrong number far from the gold one scores 0 and a near one may not: each excludes several answers.
        if 0 < len(possible) < _FEWEST_OPTIONS or (possible and sample.kind == "count"):
            return True
        if any(score.verdict in ("correct", "partial") or score.value for score in scores.values()):
            return True
        ruled_out = self._ruled_out.get(_question(sample), set()) if possible else set()
        # Wrong answers that name no option may each stand for another one.
        if possible and len(possible - ruled_out) - sum(answer.startswith(_UNNAMED) for answer in ruled_out) <= 1:
            return True
        forms = self.forms(sample)
        return any(quotes(text, forms) for text in texts)

    def public_answer(
        self, sample: Sample, record: Record, scores: Mapping[str, Score], position: int
    ) -> tuple[Sample, Record, dict[str, Score]]:
        """Return an answer without its gold answer: no target, no example turns, no reasons, no messages of errors.

        Args:
            sample, record, scores: the answer and its score under each profile.
            position: number of the sample from 1, which names it where its id quotes the gold answer.
        """
        forms = self.forms(sample)
        withheld = False
        if record.response is not None:
            extracted = (str(score.extracted) for score in scores.values() if score.extracted is not None)
            withheld = self.tells_gold(sample, scores, (record.response.text, *extracted))
        # The question stays as it was asked: it names every option, and an option struck from it would be the right one.
        public = Sample(
            id=f"sample-{position}" if quotes(sample.id, forms) else sample.id,
            prompt=Prompt(sample.prompt.parts, sample.prompt.system),
            target=None,
            kind=sample.kind,
            options=sample.options,
            group="" if quotes(sample.group, forms) else sample.group,
            meta=dict(public_meta(sample, forms)),
        )
        error = None if record.error is None else Failure(record.error.kind, record.error.kind)
        response = None if record.response is None else _public_response(record.response, forms, withheld=withheld)
        answer = structs.replace(record, sample_id=public.id, response=response, error=error)
        return public, answer, {profile: _public_score(score, withheld=withheld) for profile, score in scores.items()}


def possible_answers(sample: Sample) -> frozenset[str]:
    """Return the answers among which the gold answer of a sample is known to be; empty where nothing limits them.

    Options with the same text are one answer. A count over several images is 1 to their number, as in VLM2-Bench.
    """
    if sample.kind == "truth":
        return frozenset(("yes", "no"))
    if sample.options:
        return frozenset(_option_name(sample, letter) for letter in sample.options)
    images = sum(isinstance(part, Image) for part in sample.prompt.parts) if sample.kind == "count" else 0
    return frozenset(str(number) for number in range(1, images + 1)) if images > 1 else frozenset()


def _option_name(sample: Sample, letter: str) -> str:
    """Return an option's text, by which it is known in other orders of the options; its letter if it has none."""
    return _plain(str(sample.options[letter])) or letter


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _question(sample: Sample) -> tuple[str, str]:
    """Return what samples with one gold answer have in common: their group and that answer, or the sample's id."""
    if not sample.group:
        return "id", sample.id
    forms = gold_forms(sample)
    return f"group {sample.group}", _plain(forms[-1]) if sample.options and forms else str(sorted(forms))


def _wrong_answers(sample: Sample, response: Response, scores: Mapping[str, Score]) -> Iterator[str]:
    """Yield the possible answers that the verdicts rule out; a reply that names none stands for itself, after a mark."""
    for score in scores.values():
        if score.verdict == "wrong":
            name = _named(sample, score.extracted)
            yield _UNNAMED + response.text if name is None else name


def _named(sample: Sample, extracted: Any) -> str | None:
    text = "" if extracted is None else str(extracted).strip()
    if text in sample.options:
        return _option_name(sample, text)
    return _plain(text) if _plain(text) in possible_answers(sample) else None


def _public_response(response: Response, forms: tuple[str, ...], *, withheld: bool) -> Response:
    """Return a response without its trace, and without words that tell the gold answer."""
    hides_reasoning = withheld or quotes(response.reasoning, forms)
    return Response(
        text=WITHHELD if withheld else response.text,
        usage=response.usage,
        latency_s=response.latency_s,
        finish_reason="" if quotes(response.finish_reason, forms) else response.finish_reason,
        reasoning="" if hides_reasoning else response.reasoning,
        model="" if quotes(response.model, forms) else response.model,
    )


def _public_score(score: Score, *, withheld: bool) -> Score:
    return Score(score.value, None if withheld else score.extracted, score.verdict)
