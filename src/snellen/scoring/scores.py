"""Scores of records, and scores as columns with their clusters: the input of a benchmark's `summarize`.

Clusters are correlated rows that share an image, a pair or a target, or repeat a question. A million rows take about 40 MB.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace as replace_fields
from numpy.typing import NDArray

from snellen.errors import PluginError, SampleNote, SnellenError
from snellen.text import whole_text
from snellen.types import CUT_OFF, VERDICTS, Record, Sample, Score, Verdict

SLICES = "slices"
"""Attribute of a summary that `accuracy` returns: the names of the meta columns that it slices by."""
Scorer: TypeAlias = Callable[[Sample, str], Score]
UNSCORED = Score(None, None, "unscored")
COUNT_AS_WRONG, LEFT_OUT = "count as wrong", "are left out of the score"
"""What metrics do with samples without an answer, in words that follow "have no answer and"."""
_CODE = {name: code for code, name in enumerate(VERDICTS)}


@dataclass(frozen=True)
class Column:
    """A dictionary-encoded column of meta: `names[codes[i]]` is row i's value; a code of -1 means no value."""

    codes: NDArray[np.int32]
    names: tuple[str, ...]

    def numbers(self) -> NDArray[np.float64] | None:
        """Return the value of each row as a number; None unless every row has one."""
        if bool((self.codes < 0).any()):
            return None
        try:
            return np.array([float(name) for name in self.names])[self.codes]
        except ValueError:
            return None


@dataclass(frozen=True)
class Scores:
    """The scores of one run under one profile, one row per sample (and repeat).

    The order of rows depends on their content alone, not on the order of answers. Metrics of the same answers are
    therefore equal to the last digit.

    Attributes:
        value: [n] float64, NaN where unscored.
        verdict: [n] uint8, an index into VERDICTS.
        group: [n] int64, equal for rows of one cluster (image, pair, target).
        question: [n] int64, equal for repeats of one question.
        meta: name to column; `kind` is always there.
        expected: number of rows of a complete run.
        missing: rows that a complete run has beside these, unscored and with the same names of meta; None: not counted.
        derived: names of meta that come from replies, which `missing` cannot have.
        answer: [n] int64, equal for rows of one question whose replies were read alike; None: not known.
    """

    value: NDArray[np.float64]
    verdict: NDArray[np.uint8]
    group: NDArray[np.int64]
    question: NDArray[np.int64]
    meta: Mapping[str, Column]
    expected: int
    missing: Scores | None = None
    derived: frozenset[str] = frozenset()
    answer: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.value)

    def select(self, mask: NDArray[np.bool_], missing: NDArray[np.bool_] | None = None) -> Scores:
        """Select the rows where `mask` ([n] bool) is True, and those of `self.missing` where `missing` is True.

        `expected` counts both. Rows of which nothing is known are shared out in proportion: all that are not here,
        where `missing` is None, else those that are neither here nor in `self.missing`.
        """
        meta = {name: Column(column.codes[mask], column.names) for name, column in self.meta.items()}
        return Scores(
            self.value[mask],
            self.verdict[mask],
            self.group[mask],
            self.question[mask],
            meta,
            self._expected(mask, missing),
            None if self.missing is None or missing is None else self.missing.select(missing),
            self.derived,
            None if self.answer is None else self.answer[mask],
        )

    def _expected(self, mask: NDArray[np.bool_], missing: NDArray[np.bool_] | None) -> int:
        known, selected = len(self), int(np.count_nonzero(mask))
        if self.missing is not None and missing is not None:
            known += len(self.missing)
            selected += int(np.count_nonzero(missing))
        return round(self.expected * selected / known) if known else 0

    def where(self, **meta: str) -> Scores:
        """Select the rows whose meta has all these values."""
        return self.select(self._having(meta), self._missing_having(meta))

    def expected_where(self, meta: Mapping[str, str]) -> int:
        """Count the rows of a complete run whose meta has all these values."""
        return self._expected(self._having(meta), self._missing_having(meta))

    def _having(self, meta: Mapping[str, str]) -> NDArray[np.bool_]:
        mask = np.ones(len(self), dtype=bool)
        for name, wanted in meta.items():
            mask &= self._passing(name, lambda value, wanted=wanted: value == wanted, without=False)  # type: ignore[misc]
        return mask

    def _missing_having(self, meta: Mapping[str, str]) -> NDArray[np.bool_] | None:
        if self.missing is None or not self.derived.isdisjoint(meta):
            return None
        return self.missing._having(meta)

    def among(self, name: str, test: Callable[[str], bool], *, without: bool = False) -> Scores:
        """Select the rows whose value of one meta column passes `test`, and those without a value if `without`."""
        missing = None
        if self.missing is not None and name not in self.derived:
            missing = self.missing._passing(name, test, without=without)
        return self.select(self._passing(name, test, without=without), missing)

    def _passing(self, name: str, test: Callable[[str], bool], *, without: bool) -> NDArray[np.bool_]:
        """Return a mask ([n] bool) of the rows whose value passes `test`; `without` is that of rows without a value."""
        column = self.meta.get(name)
        if column is None:
            return np.full(len(self), without)
        return np.array([*(test(value) for value in column.names), without], dtype=bool)[column.codes]

    def by(self, name: str) -> Iterator[tuple[str, Scores]]:
        """Yield (value, rows) for each value of one meta column that these rows have, in alphabetical order."""
        column = self.meta.get(name)
        rest = None if self.missing is None or name in self.derived else self.missing
        other = Column(np.zeros(0, dtype=np.int32), ()) if rest is None else rest.column(name)
        places = {value: code for code, value in enumerate(other.names)}
        for code, value in enumerate(column.names if column is not None else ()):
            mask = column.codes == code  # type: ignore[union-attr]
            if mask.any():
                yield value, self.select(mask, None if rest is None else other.codes == places.get(value, -2))

    @property
    def repeat(self) -> NDArray[np.int64]:
        """The repeat of each row, [n], counted from 0."""
        column = self.column("repeat")
        numbers = [int(name) if name.isdecimal() else 0 for name in column.names]
        return np.array([*numbers, 0], dtype=np.int64)[column.codes]

    def column(self, name: str) -> Column:
        """Return one meta column, without any value if these rows do not have it."""
        return self.meta.get(name) or Column(np.full(len(self), -1, dtype=np.int32), ())

    def has(self, verdict: Verdict) -> NDArray[np.bool_]:
        """Return a mask ([n] bool) of the rows with this verdict."""
        return np.equal(self.verdict, _CODE[verdict])


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def guessing(scores: Scores) -> float | None:
    """Return the chance level of these rows: the mean of meta `chance` (0 to 1); None unless every row has it."""
    column = scores.meta.get("chance")
    chances = column.numbers() if column is not None and len(scores) else None
    return None if chances is None else float(chances.mean())


def cluster_index(group: NDArray[np.int64]) -> tuple[NDArray[np.intp], int]:
    """Number the clusters from 0.

    Args:
        group: [n] int64, equal for rows of one cluster. Repeats of a question carry the question's group, so they
            are clustered too.

    Returns:
        [n] cluster of each row, and the number of clusters.
    """
    if len(group) == 0:
        return np.zeros(0, dtype=np.intp), 0
    names, index = np.unique(group, return_inverse=True)
    return index.reshape(-1), len(names)


def cluster_sums(columns: NDArray[np.float64], index: NDArray[np.intp], clusters: int) -> NDArray[np.float64]:
    """Sum [n, k] columns within each cluster: [clusters, k]."""
    return np.stack(
        [np.bincount(index, weights=columns[:, k], minlength=clusters) for k in range(columns.shape[1])], axis=1
    )


def finite(values: Any) -> NDArray[np.float64]:
    """Return `values` as [n] float64.

    Raises:
        ValueError: if it is not one-dimensional or holds NaN or infinity.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"found values of shape {array.shape}, expected [n]")
    if not np.isfinite(array).all():
        raise ValueError(
            f"found {int((~np.isfinite(array)).sum())} values that are not finite; leave unscored rows out"
        )
    return array


def question_code(sample_id: str) -> int:
    """Return the code of a sample's id in `Scores.question`."""
    return _digest(sample_id)


class ScoreBuilder:
    """A builder of `Scores`, row by row. It holds numbers only, so memory does not grow with replies."""

    def __init__(self) -> None:
        self._value = array("d")
        self._verdict = array("B")
        self._group = array("q")
        self._question = array("q")
        self._answer = array("q")
        self._meta: dict[str, tuple[array[int], dict[str, int]]] = {}
        self._derived: set[str] = set()

    def add(self, sample: Sample, score: Score, repeat: int = 0) -> None:
        """Append one scored sample.

        A `repeat` above 0 becomes a meta column, and so do the texts of a score's detail.
        """
        row = len(self._value)
        self._value.append(float("nan") if score.value is None else score.value)
        self._verdict.append(_CODE[score.verdict])
        self._answer.append(_answer_code(score))
        question = _digest(sample.id)
        self._question.append(question)
        self._group.append(_digest(sample.group) if sample.group else question)
        self._put(row, "kind", sample.kind)
        if repeat:
            self._put(row, "repeat", str(repeat))
        columns = self._meta
        for name, value in sample.meta.items():
            if type(value) is not str:
                if not isinstance(value, (str, int, float)):
                    continue
                value = str(value)
            # The common case of _put, without a call: a million rows come by here several times each.
            column = columns.get(name)
            if column is None or len(column[0]) != row:
                self._put(row, name, value)
                continue
            codes, names = column
            code = names.get(value)
            if code is None:
                code = names[value] = len(names)
            codes.append(code)
        if score.detail:
            self._add_detail(row, score)

    def _add_detail(self, row: int, score: Score) -> None:
        for name, value in score.detail.items():
            if type(value) is str:
                self._derived.add(name)
                self._put(row, name, value)

    def replace(self, row: int, score: Score) -> None:
        """Replace the score of a row whose own had no detail: that of a failed request, or none."""
        self._value[row] = float("nan") if score.value is None else score.value
        self._verdict[row] = _CODE[score.verdict]
        self._answer[row] = _answer_code(score)
        self._add_detail(row, score)

    def _put(self, row: int, name: str, value: str) -> None:
        column = self._meta.get(name)
        if column is None:
            column = self._meta[name] = (array("i"), {})
        codes, names = column
        if len(codes) < row:
            codes.extend([-1] * (row - len(codes)))
        code = names.get(value)
        if code is None:
            code = names[value] = len(names)
        if row < len(codes):
            codes[row] = code
        else:
            codes.append(code)

    def missing(self, samples: Iterable[Sample], repeats: int = 1, most: int | None = None) -> Scores | None:
        """Return the rows that a complete run has beside these, unscored; None if they are more than `most`.

        Args:
            samples: of the whole benchmark.
            repeats: how often each is asked.
            most: rows after which no sample is looked at.
        """
        here = set(zip(self._question, self._repeats(), strict=True))
        builder, rows = ScoreBuilder(), 0
        for sample in samples:
            question = _digest(sample.id)
            for repeat in range(repeats):
                if (question, repeat) not in here:
                    if rows == most:
                        return None
                    builder.add(sample, UNSCORED, repeat)
                    rows += 1
        return builder.build()

    def _repeats(self) -> Iterator[int]:
        """Yield the repeat of each row; a row without the column is the first one."""
        codes, names = self._meta.get("repeat", (array("i"), {}))
        numbers = {code: int(name) for name, code in names.items() if name.isdecimal()}
        for row in range(len(self._question)):
            yield numbers.get(codes[row], 0) if row < len(codes) else 0

    def build(self, expected: int | None = None, missing: Scores | None = None) -> Scores:
        """Build the columns.

        Args:
            expected: number of rows of a complete run; None means these are all.
            missing: rows that it has beside these.
        """
        n = len(self._value)
        value = np.array(self._value, dtype=np.float64)
        question = np.array(self._question, dtype=np.int64)
        order = np.lexsort((value, question))
        return Scores(
            value=value[order],
            verdict=np.array(self._verdict, dtype=np.uint8)[order],
            group=np.array(self._group, dtype=np.int64)[order],
            question=question[order],
            meta={name: _column(codes, names, order) for name, (codes, names) in self._meta.items()},
            expected=n if expected is None else expected,
            missing=missing,
            derived=frozenset(self._derived),
            answer=np.array(self._answer, dtype=np.int64)[order],
        )


def _answer_code(score: Score) -> int:
    """Return a number that scores of one reading share: what was read but for case, else the value alone.

    Python's own hash differs from process to process, so that nothing but equality may depend on it.
    """
    return hash(score.value if score.extracted is None else str(score.extracted).casefold())


def _column(codes: array[int], names: dict[str, int], order: NDArray[np.intp]) -> Column:
    """Build a column with codes in alphabetical order, since the order of first appearance depends on timing."""
    codes.extend([-1] * (len(order) - len(codes)))
    alphabet = sorted(names)
    renumbered = np.full(len(names) + 1, -1, dtype=np.int32)  # the last one serves -1, a row without a value
    for new, name in enumerate(alphabet):
        renumbered[names[name]] = new
    return Column(renumbered[np.array(codes, dtype=np.int32)][order], tuple(alphabet))


def wrong_by_length(sample: Sample, record: Record) -> bool:
    """Return True for a reply that was cut off at the limit of its tokens, where the sample's meta has `cut_off: wrong`."""
    ended = None if record.response is None else record.response.finish_reason
    return ended == CUT_OFF and sample.meta.get("cut_off") == "wrong"


class RepeatScorer:
    """A scorer that must know which of a sample's replies it scores, such as one by verdicts."""

    def __call__(self, sample: Sample, reply: str) -> Score:
        return self.of_repeat(sample, reply, 0)

    def of_repeat(self, sample: Sample, reply: str, repeat: int) -> Score:
        """Score the reply of one repeat, counted from 0."""
        raise NotImplementedError


def score_record(sample: Sample, record: Record, score: Scorer) -> Score:
    """Score one record: a failed sample is worth 0 and stays in the denominator, a refusal is `invalid`.

    So is a reply that is `wrong_by_length`.

    Raises:
        PluginError: the scorer returned something else than a Score, or one with a field of a wrong type.
    """
    if record.status == "ok" and record.response is not None:
        if wrong_by_length(sample, record):
            return Score(0.0, None, "invalid", "cut off at the token limit")
        try:
            text = record.response.text
            result: object = (
                score.of_repeat(sample, text, record.repeat) if isinstance(score, RepeatScorer) else score(sample, text)
            )
        except SnellenError:
            raise
        except BaseException as error:
            if isinstance(error, TypeError) and error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise PluginError(
                    f"the scorer {_name(score)} cannot be called with a sample and a reply: {error}",
                    "Expected: def scorer(sample, reply), which returns a Score.",
                ) from error
            error.add_note(SampleNote(f"at the reply to sample {sample.id!r}"))
            raise
        plain = _plain_score(sample, score, result)
        return (
            plain
            if "\\u" not in text.lower()
            else replace_fields(
                plain, **{name: _whole(getattr(plain, name)) for name in ("extracted", "reason", "detail")}
            )
        )
    if record.status == "refused":
        return Score(0.0, None, "invalid", "refused")
    return Score(0.0, None, "error", record.error.kind if record.error is not None else record.status)


def _plain_score(sample: Sample, scorer: Scorer, result: object) -> Score:
    """Return what a scorer returned, with a number of numpy's as Python's own. Raises PluginError for a wrong type."""
    if not isinstance(result, Score):
        raise PluginError(
            f"the scorer {_name(scorer)} returned {result!r}, a {type(result).__name__}, for sample {sample.id!r}",
            "Return a Score: Score(1.0, extracted, 'correct') or Score(0.0, extracted, 'wrong').",
        )
    value: object = result.value
    if value is not None and not isinstance(value, (float, int)):
        if not isinstance(value, np.generic) or not isinstance(value.item(), (float, int)):
            raise _wrong_field(scorer, sample, "value", value, "a number from 0 to 1, or None")
        result = replace_fields(result, value=float(value.item()))
    if result.value is not None and not isfinite(result.value):
        raise _wrong_field(scorer, sample, "value", result.value, "a number from 0 to 1, or None")
    if result.reason is not None and not isinstance(result.reason, str):
        raise _wrong_field(scorer, sample, "reason", result.reason, "a text, or None")
    if type(result.detail) is not dict and not isinstance(result.detail, Mapping):
        raise _wrong_field(scorer, sample, "detail", result.detail, "a dict")
    return result


def _whole(value: Any) -> Any:
    """Return a value of JSON without halves of surrogate pairs, which its escapes can write and no file of scores can hold."""
    if isinstance(value, str):
        return whole_text(value)
    if type(value) is list or type(value) is tuple:
        return type(value)(map(_whole, value))
    return {_whole(name): _whole(item) for name, item in value.items()} if type(value) is dict else value


def _wrong_field(scorer: Scorer, sample: Sample, field: str, value: object, expected: str) -> PluginError:
    return PluginError(
        f"the scorer {_name(scorer)} returned a Score whose {field} is {value!r}, a {type(value).__name__}, for sample {sample.id!r}; "
        f"expected {expected}",
        "Return a Score: Score(1.0, extracted, 'correct', 'a reason', {}).",
    )


def _name(scorer: Scorer) -> str:
    return getattr(scorer, "__qualname__", repr(scorer))
