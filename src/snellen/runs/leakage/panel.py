"""The panel itself: accuracy under each condition paired with the full one, tests for leaks, and questions answered blind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.controls import CHOICES, OPTIONS, SHUFFLE, TEXT
from snellen.errors import UsageError
from snellen.runs import scoring
from snellen.runs.compare import same_questions
from snellen.runs.compared_runs import ComparedRun, PairedScores, QuestionScores, pair_scores, question_scores
from snellen.runs.leakage.conditions import BLIND, FULL, title_of
from snellen.runs.leakage.static import (
    FEWEST,
    LeakTest,
    cluster_numbers,
    gold_position,
    position_name,
    static_tests,
    tested,
)
from snellen.runs.run import Run, load_run
from snellen.scoring import statistics
from snellen.scoring.rubric import gold_text
from snellen.scoring.scores import question_code
from snellen.scoring.statistics import Comparison
from snellen.scoring.statistics.goodness_of_fit import uniform_fit
from snellen.scoring.statistics.guessing import guesses_tail
from snellen.scoring.statistics.intervals import mean_of
from snellen.types import Metric, Sample, Text

ALPHA = 0.05
QUESTION = 300
"""Characters of a question that lists show."""


class ConditionRow(Struct, frozen=True):
    """Accuracy under one condition, on the questions that it shares with the full one.

    Attributes:
        condition, title: its name and what it shows.
        run: the folder.
        score: mean score with its interval, and what guessing reaches, where that is known of any question.
        unread: share of the replies from which no answer is read.
        full: mean score with the picture, on the same questions.
        paired: this condition compared with the full one, question by question.
        explained: share of the accuracy explained without seeing: (score - chance) / (full - chance) on questions of known
            chance, by the paired cluster bootstrap; None where the sample's own picture is shown, and where the full
            condition is not above chance.
    """

    condition: str
    title: str
    run: str
    score: Metric
    unread: float
    full: float
    paired: Comparison
    explained: Metric | None


class PositionRow(Struct, frozen=True):
    """One position of the options: the share of gold answers that stand there as given, chosen ones, and its recall.

    `chosen` counts replies over shuffled orders, where no position is right more often than others; its `chance` is the
    uniform share. `recall` is the accuracy where the gold answer stands there, over all orders.
    """

    position: str
    gold: float
    chosen: Metric
    recall: Metric


class BlindQuestion(Struct, frozen=True):
    """A question that was answered right without its picture.

    `conditions` are those in which this model was right; `models` of `asked` models were right by text alone.
    """

    sample_id: str
    question: str
    gold: str
    conditions: tuple[str, ...]
    models: int
    asked: int


class Agreement(Struct, frozen=True):
    """Questions that most of several models answer blind, beside how many that would be if all of them guessed."""

    models: int
    questions: int
    of: int
    by_guessing: float


class Panel(Struct, frozen=True):
    """Results of the panel.

    Attributes:
        benchmark, model, profile: what was measured; no model where the samples alone were looked at.
        rows: the conditions, the full one first.
        tests: all tests, found or not.
        positions: of the options, where orders were shuffled.
        consistency: share of the choices with the same option picked in every order.
        blind: questions answered right by text alone, those of most models first.
        agreement: of several models.
        notes: what a reader must know.
    """

    benchmark: str
    model: str
    profile: str
    rows: list[ConditionRow]
    tests: list[LeakTest]
    positions: list[PositionRow]
    consistency: Metric | None
    blind: list[BlindQuestion]
    agreement: Agreement | None
    notes: list[str]

    @property
    def found(self) -> list[LeakTest]:
        """The tests that found something, those of the benchmark first."""
        return sorted((test for test in self.tests if test.found), key=lambda test: test.about)


class _Pick(Struct, frozen=True):
    """One reply to a choice: gold and chosen position (None: unread), the chosen text, the score."""

    sample_id: str
    group: str
    options: int
    gold: int
    chosen: int | None
    text: str
    value: float


def chance_of(sample: Sample) -> float | None:
    """Return what guessing reaches on a sample: as its meta says, else by its kind and options; None where neither does."""
    with suppress(TypeError, ValueError):
        if 0.0 <= (stated := float(sample.meta.get("chance", ""))) <= 1.0:
            return stated
    if sample.kind == "truth":
        return 0.5
    if sample.kind not in CHOICES or not sample.options:
        return None
    if sample.kind == "multi-choice":
        return 1.0 / (2.0 ** min(len(sample.options), 60) - 1.0)
    accepted: int = len(sample.target) if isinstance(sample.target, (list, tuple)) else 1  # each of them is right
    return min(1.0, accepted / len(sample.options))


def panel(
    benchmark: Benchmark,
    data: Data,
    runs: Mapping[str, Run],
    *,
    profile: str | None = None,
    limit: int | None = None,
    others: Sequence[Path] = (),
    trust: bool = False,
) -> Panel:
    """Make the panel of a benchmark from runs by condition, and blind runs of other models.

    Args:
        benchmark: as it is, without a control.
        data: the user's settings of it.
        runs: by condition, `full` among them; empty: samples and other models alone are looked at.
        profile: one scoring profile; None: the benchmark's first.
        limit: the first N samples are looked at.
        others: folders of panels, or of runs without pictures (text alone, options alone, or grey).
        trust: as for `load_run`.

    Raises:
        UsageError: no such profile, or a run that was asked with its pictures.
        DifferentSamplesError: another model was asked other questions.
    """
    name, *further = scoring.profiles_of(benchmark, profile)
    if further:
        raise UsageError("a panel is scored under one profile, and several were named", "Name one with --profile.")
    samples = list(islice(benchmark.samples(data), limit))
    sides = {condition: ComparedRun(run) for condition, run in runs.items()}
    asked = {condition: question_scores(side.scores(name)) for condition, side in sides.items()}
    by_code = {question_code(sample.id): level for sample in samples if (level := chance_of(sample)) is not None}
    rows, tests, notes = [], static_tests(samples), []
    for condition, side in sides.items():
        paired = pair_scores(asked[FULL], asked[condition])
        if not len(paired):
            notes.append(f"{condition}: no question has a score here and in the full condition")
            continue
        chance = np.array([by_code.get(int(code), np.nan) for code in paired.code])
        known = np.isfinite(chance)
        groups = list(map(str, paired.group[known]))
        made = tested(
            f"blind: {condition}",
            f"questions answered right: {title_of(condition)}",
            list(zip(paired.other[known], chance[known], groups, strict=True)),
        )
        tests += [made] if condition in BLIND and made is not None else []
        seeing = tested("", "", list(zip(paired.baseline[known], chance[known], groups, strict=True)))
        word = sides[FULL].cluster(name)
        explained = None
        if condition in BLIND and seeing is not None and seeing.p_value < ALPHA:
            explained = _explained(paired, chance, word)
        level = float(chance[known].mean()) if known.any() else None
        rows.append(
            ConditionRow(
                condition,
                title_of(condition),
                str(side.folder.path),
                mean_of("accuracy", paired.other, paired.group, cluster=word, chance=level),
                float(side.scores(name).has("invalid").mean()),
                float(paired.baseline.mean()),
                statistics.compare(paired.other, paired.baseline, paired.group, cluster=word),
                explained,
            )
        )
    if unknown := len(samples) - len(by_code):
        notes.append(f"{unknown:,} of {len(samples):,} questions have no known chance level: tests leave them out")
    picks = [
        list(_picks(side, name))
        for condition, side in sides.items()
        if condition == FULL or condition.startswith(SHUFFLE)
    ]
    orders = [pick for each in picks[1:] for pick in each]
    positions = _positions(orders, picks[0] if picks else [])
    if (bias := _position_bias(orders, positions)) is not None:
        tests.append(bias)
    blind, agreement = _blind(benchmark, samples, asked, _opened(benchmark, others, sides, trust=trust), name)
    adjusted = statistics.holm([test.p_value for test in tests])
    tests = [
        structs.replace(test, p_adjusted=p, found=p < ALPHA and test.reaches)
        for test, p in zip(tests, adjusted, strict=True)
    ]
    model = runs[FULL].meta.spec.model if runs else ""
    return Panel(benchmark.name, model, name, rows, tests, positions, _consistency(picks), blind, agreement, notes)


def _explained(paired: PairedScores, chance: NDArray[np.float64], word: str) -> Metric:
    known = np.isfinite(chance)
    columns = np.stack([paired.other - chance, paired.baseline - chance], axis=1)[known]
    value, ends = statistics.of_sums(
        columns,
        paired.group[known],
        lambda sums: np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.nan),
        cluster=word,
    )
    return Metric("explained", value, int(known.sum()), ends)


def _picks(side: ComparedRun, profile: str) -> Iterator[_Pick]:
    """Yield the replies to choices with one gold position, as the profile reads them."""
    scorer = {profile: side.benchmark.score[profile]}
    replies = side.run.verdicts()
    for sample, record in scoring.recorded_answers(side.folder, side.meta, side.benchmark):
        place = None if sample.kind == "truth" else gold_position(sample)
        if place is None:
            continue
        score = scoring.scores_of(side.benchmark, sample, record, scorer, replies)[profile]
        letters, texts = list(sample.options), list(sample.options.values())
        read = str(score.extracted)
        chosen = letters.index(read) if read in letters else texts.index(read) if read in texts else None
        text = "" if chosen is None else texts[chosen]
        yield _Pick(sample.id, sample.group or sample.id, place[1], place[0], chosen, text, score.value or 0.0)


def _position_bias(picks: Sequence[_Pick], positions: Sequence[PositionRow]) -> LeakTest | None:
    """Test whether a model picks each position equally often, over orders that were drawn.

    Every order was equally likely, so that the picks of a model that goes by the options' texts are uniform and
    independent, whatever it sees and however questions are alike.
    """
    read = [pick for pick in picks if pick.chosen is not None]
    if len(read) < FEWEST:
        return None
    strata = [
        [sum(pick.options == size and pick.chosen == at for pick in read) for at in range(size)]
        for size in sorted({pick.options for pick in read})
    ]
    fit = uniform_fit(strata)
    top = max(positions, key=lambda row: (row.chosen.value or 0.0) - (row.chosen.chance or 0.0))
    what = f"replies that pick position {top.position}, over shuffled orders"
    return LeakTest("position bias", what, top.chosen, fit.test, fit.p_value, about="model")


def _positions(orders: Sequence[_Pick], full: Sequence[_Pick]) -> list[PositionRow]:
    """Return the positions of the options over shuffled orders; recall and gold count the given order too."""
    read = [pick for pick in orders if pick.chosen is not None]
    groups = cluster_numbers(pick.group for pick in read)
    rows = []
    for at in range(max((pick.options for pick in orders), default=0)):
        uniform = sum(1.0 / pick.options for pick in read if pick.options > at) / max(1, len(read))
        chosen = mean_of("chosen", np.array([float(pick.chosen == at) for pick in read]), groups, chance=uniform)
        there = [pick for pick in (*orders, *full) if pick.gold == at]
        values, clusters = np.array([pick.value for pick in there]), cluster_numbers(pick.group for pick in there)
        gold = sum(pick.gold == at for pick in full) / max(1, len(full))
        rows.append(PositionRow(position_name(at), gold, chosen, mean_of("recall", values, clusters)))
    return rows


def _consistency(runs: Sequence[Sequence[_Pick]]) -> Metric | None:
    """Return the share of questions with the same option picked in every order; None without orders."""
    by_id: dict[str, list[_Pick]] = {}
    for pick in (pick for picks in runs for pick in picks):
        by_id.setdefault(pick.sample_id, []).append(pick)
    whole = [picks for picks in by_id.values() if len(picks) >= len(runs) > 1]
    same = [float(len({pick.text for pick in picks}) == 1 and picks[0].chosen is not None) for picks in whole]
    clusters = cluster_numbers(picks[0].group for picks in whole)
    return mean_of("consistency", np.array(same), clusters) if whole else None


def _opened(
    benchmark: Benchmark, others: Sequence[Path], sides: Mapping[str, ComparedRun], *, trust: bool
) -> list[ComparedRun]:
    """Open blind runs of other models; of a panel's folder, the run by text alone."""
    opened = []
    for path in others:
        folder = path / TEXT if (path / TEXT / "run_meta.json").is_file() else path
        run = ComparedRun(load_run(folder, benchmark=benchmark, trust=trust))
        if run.meta.spec.control not in (TEXT, OPTIONS) and not run.meta.spec.options.media.blank:
            raise UsageError(
                f"{folder} was asked with its pictures, and blind runs were expected",
                "Name folders of snellen leakage, or runs with --blank-images.",
            )
        own = {side.folder.path.resolve() for side in sides.values()}
        if folder.resolve() not in own:
            opened.append(run)
    for run in opened[1:] if not sides else opened:
        same_questions(sides[FULL] if sides else opened[0], run)
    return opened


def _blind(
    benchmark: Benchmark,
    samples: Sequence[Sample],
    asked: Mapping[str, QuestionScores],
    others: Sequence[ComparedRun],
    profile: str,
) -> tuple[list[BlindQuestion], Agreement | None]:
    """List the questions that were answered right by text alone, and count those that most models answer so."""
    own = {condition: _right(asked[condition]) for condition in BLIND if condition in asked}
    models = [_right(question_scores(run.scores(profile)), every=True) for run in others]
    models += [_right(asked[TEXT], every=True)] if TEXT in asked else []
    listed, most, of, expected = [], 0, 0, 0.0
    for sample in samples:
        code = question_code(sample.id)
        known = [right[code] for right in models if code in right]
        conditions = tuple(name for name, right in own.items() if right.get(code))
        if len(known) > 1 and (chance := chance_of(sample)) is not None:
            half = len(known) // 2 + 1
            of, most = of + 1, most + (sum(known) >= half)
            expected += guesses_tail(half, np.full(len(known), chance))
        majority = len(known) > 1 and 2 * sum(known) > len(known)
        if TEXT in conditions or majority:
            question = " ".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
            gold = "" if benchmark.restricted else gold_text(sample)
            listed.append(
                BlindQuestion(sample.id, question[:QUESTION], gold[:QUESTION], conditions, sum(known), len(known))
            )
    listed.sort(key=lambda each: (-each.models, -len(each.conditions)))
    return listed, Agreement(len(models), most, of, expected) if len(models) > 1 else None


def _right(scores: QuestionScores, *, every: bool = False) -> dict[int, bool]:
    """Return which questions were answered wholly right, by code; `every`: the others too, as False."""
    return {
        int(code): bool(value == 1.0)
        for code, value in zip(scores.code, scores.value, strict=True)
        if every or value == 1.0
    }
