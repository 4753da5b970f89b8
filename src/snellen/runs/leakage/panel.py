"""The leakage panel: accuracy under each condition paired with the full one, what samples give away by themselves, tests for leaks, and questions answered blind."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.controls import (
    CHOICES,
    OPTIONS,
    OTHER,
    SHUFFLE,
    SHUFFLES,
    TEXT,
    controlled,
    name_of,
    pictures_of,
)
from snellen.engine.progress import Display, Silent
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import InterruptedRunError, UsageError
from snellen.media import check_settings
from snellen.models.base import Model, ModelOptions
from snellen.runs import scoring
from snellen.runs.compare import same_questions
from snellen.runs.compared_runs import ComparedRun, PairedScores, QuestionScores, pair_scores, question_scores
from snellen.runs.perform import checked, perform
from snellen.runs.plan.cells import PlanCell, execute
from snellen.runs.plan.document import PlanLimits
from snellen.runs.run import Run, load_run
from snellen.scoring import statistics
from snellen.scoring.answers.name import spoken_words
from snellen.scoring.class_names import spelled
from snellen.scoring.rubric import gold_text
from snellen.scoring.scores import question_code
from snellen.scoring.statistics import Comparison
from snellen.scoring.statistics.guessing import above_chance, guesses_tail, uniform_fit
from snellen.scoring.statistics.intervals import mean_of
from snellen.types import MediaSettings, Metric, Sample, Text

FULL, GREY, PATCHES = "full", "grey", "patches"
PATCH_SIDE = 8
BLIND = (TEXT, OPTIONS, GREY, OTHER)
"""Conditions without the sample's own picture: accuracy above chance there needs no sight."""
TITLES = {
    FULL: "with the picture",
    TEXT: "text alone",
    OPTIONS: "options alone",
    GREY: "picture grey",
    OTHER: "picture of another sample",
    PATCHES: "picture in shuffled patches",
    SHUFFLE: "options in another order",
}


def chosen_conditions(named: str | None, shuffles: int) -> list[str]:
    """Return the conditions of a panel, `full` first; orders of the options are `shuffle-1` and so on.

    Args:
        named: names by comma, as typed; None: all.
        shuffles: orders of the options.

    Raises:
        UsageError: an unknown name, or a number of orders out of range.
    """
    known = [FULL, TEXT, OPTIONS, GREY, OTHER, PATCHES, "shuffle"]
    words = known if named is None else [word.strip() for word in named.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise UsageError(f"--conditions: there is no condition {word!r}", f"Known: {', '.join(known)}.").near(
                word, known
            )
    if not 0 <= shuffles <= SHUFFLES:
        raise UsageError(
            f"--shuffles {shuffles}: expected a whole number from 0 to {SHUFFLES}", "Example: --shuffles 3"
        )
    orders = [f"{SHUFFLE}{number}" for number in range(1, shuffles + 1)] if "shuffle" in words else []
    return [*(name for name in known[:-1] if name == FULL or name in words), *orders]


def title_of(condition: str) -> str:
    """Return what a condition shows, in words."""
    number = condition.removeprefix(SHUFFLE)
    return TITLES[condition] if number == condition else f"{TITLES[SHUFFLE]}, {number}"


def cells_of(spec: RunSpec, benchmark: Benchmark, out: Path, conditions: Sequence[str]) -> list[PlanCell]:
    """Make the runs of a panel, each in a folder of its own; a condition that applies to no sample is left out.

    With a limit, each condition is asked about those of the first N samples that it applies to.

    Raises:
        UsageError: settings that are a condition themselves, or that the benchmark or a condition excludes.
    """
    media = spec.options.media
    if media.blank:
        raise UsageError("--blank-images is a condition of the panel (grey)", "Omit --blank-images.")
    ids = None if spec.limit is None else {sample.id for sample in islice(benchmark.samples(spec.data), spec.limit)}
    cells = []
    for name in conditions:
        control = name if name in (TEXT, OPTIONS, OTHER) or name.startswith(SHUFFLE) else ""
        subject = controlled(benchmark, control)
        limit = spec.limit
        if ids is not None and control:
            limit = sum(1 for _ in takewhile(lambda sample: sample.id in ids, subject.samples(spec.data)))
        if limit == 0 or next(iter(subject.samples(spec.data)), None) is None:
            continue
        shown = check_settings(_media(name, media))
        each = structs.replace(spec, control=control, limit=limit, options=structs.replace(spec.options, media=shown))
        each, subject = checked(each, RunFolder(out / name), subject, trust=True)
        cells.append(PlanCell(spec.model, benchmark.name, name, each, out / name, subject))
    return cells


def _media(condition: str, media: MediaSettings) -> MediaSettings:
    if condition == GREY:
        return structs.replace(media, blank=True, corrupt="", mask="")
    if condition == PATCHES:
        return structs.replace(media, corrupt=",".join(filter(None, [media.corrupt, f"patch-shuffle:{PATCH_SIDE}"])))
    return media


def measure(
    cells: Sequence[PlanCell],
    *,
    opened: Callable[[ModelOptions], Model] | None = None,
    display: Callable[[PlanCell], Display] = lambda cell: Silent(),
    note: Callable[[str], None] = lambda line: None,
) -> dict[str, Run]:
    """Ask all conditions, or resume them; return the runs by condition. A checkpoint is loaded once for all of them.

    `max_cost` of the cells bounds all of them together: they are then asked one after the other.

    Args:
        cells: as `cells_of` makes them.
        opened: makes the model from its options, which hold what is done to pictures; None: as the cells name it.
        note: takes a line for people.

    Raises:
        SnellenError: the first error of a run, such as a budget that is used up; what was answered is on disk, and the same
            call goes on.
    """
    if opened is not None:
        return {
            cell.setting: perform(
                cell.spec,
                RunFolder(cell.folder),
                benchmark=cell.subject,
                model=opened(cell.spec.options),
                display=display(cell),
                trust=True,
            )
            for cell in cells
        }
    bound = cells[0].spec.max_cost
    if bound is None:
        return _executed(cells, display, note)
    spent = {cell.setting: _cost(cell) for cell in cells}
    runs: dict[str, Run] = {}
    for cell in cells:
        left = bound - sum(cost for name, cost in spent.items() if name != cell.setting)
        priced = structs.replace(cell.spec, max_cost=max(0.0, left))
        runs |= _executed(
            [PlanCell(cell.model, cell.benchmark, cell.setting, priced, cell.folder, cell.subject)], display, note
        )
        spent[cell.setting] = runs[cell.setting].meta.totals.cost or 0.0
    return runs


def _executed(
    cells: Sequence[PlanCell], display: Callable[[PlanCell], Display], note: Callable[[str], None]
) -> dict[str, Run]:
    most = cells[0].spec.options.concurrency
    outcome = execute(cells, PlanLimits(concurrency=most, per_endpoint=most), display=display, note=note)
    if error := next((end.error for end in outcome.cells if end.error is not None), None):
        raise error
    if outcome.interrupted:
        raise InterruptedRunError("the panel was stopped", "Run the same command to go on with it.")
    return {end.cell.setting: end.run for end in outcome.cells if end.run is not None}


def _cost(cell: PlanCell) -> float:
    folder = RunFolder(cell.folder)
    return (folder.meta().totals.cost or 0.0) if folder.exists() else 0.0


FEWEST = 10
"""Rows below which a test is not made."""
MOST_GOLDS = 500
"""Different gold texts of open questions that names are compared with."""
MOST_FOLDERS = 8
"""Last parts of a path that are looked for in a prompt."""
_GLUED = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[a-z])(?=[A-Z])")
"""Borders of words in `wren12` and `BarnOwl`."""
_TRUTH = {True: ("yes", "true"), False: ("no", "false")}


class LeakTest(Struct, frozen=True):
    """One test of the panel: a share compared with what guessing, or no bias, gives.

    Attributes:
        name: of the test.
        what: what the share counts.
        share: the share with its interval, and as `chance` what it would be without a leak.
        test: how the p-value was made.
        p_value: under "no leak".
        about: `benchmark` where the samples give something away, `model` where its answers are biased.
        reaches: a model is shown what gives the answer away; False for names that stand in no prompt.
        note: what else a reader must know.
        p_adjusted: after Holm, over all tests of the panel.
        found: the adjusted p-value is below 5 %, and `reaches`.
    """

    name: str
    what: str
    share: Metric
    test: str
    p_value: float
    about: str = "benchmark"
    reaches: bool = True
    note: str = ""
    p_adjusted: float = 1.0
    found: bool = False


Hit: TypeAlias = tuple[float, float, str]
"""One row of a test: whether it is one, the chance that it is, and its cluster."""


def tested(name: str, what: str, rows: Sequence[Hit], **more: Any) -> LeakTest | None:
    """Test whether hits are more than their chances give; None for fewer than 10 rows."""
    if len(rows) < FEWEST:
        return None
    hits, chance = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    group = cluster_numbers(row[2] for row in rows)
    result = above_chance(hits, chance, group)
    share = mean_of(name, hits, group, chance=float(chance.mean()))
    return LeakTest(name, what, share, result.test, result.p_value, **more)


def static_tests(samples: Iterable[Sample]) -> list[LeakTest]:
    """Test gold positions, the longest option, the names of images and the ids of samples."""
    rows = list(samples)
    made = [_gold_positions(rows), _longest(rows)]
    made += [
        _named("answer in the image's name", "questions with the gold answer in an image's path", rows, _image_names),
        _named(
            "answer in the id", "questions with the gold answer in the sample's id", rows, lambda sample: [sample.id]
        ),
    ]
    return [test for test in made if test is not None]


def gold_position(sample: Sample) -> tuple[int, int] | None:
    """Return the gold answer's place, from 0, and how many there are; None where one place alone is not right."""
    if sample.kind == "truth" and isinstance(sample.target, bool):
        return int(sample.target), 2
    letters = list(sample.options)
    if sample.kind not in CHOICES or len(letters) < 2:
        return None
    if sample.kind == "choice_text":
        places = [at for at, text in enumerate(sample.options.values()) if text == sample.target]
        return (places[0], len(letters)) if len(places) == 1 else None
    return (letters.index(sample.target), len(letters)) if sample.target in letters else None


def cluster_numbers(rows: Iterable[str]) -> NDArray[np.int64]:
    """Number clusters by name, from 0: [n], in the order of the rows."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in rows], dtype=np.int64)


def _gold_positions(samples: list[Sample]) -> LeakTest | None:
    """Test whether a fixed reply does better than chance; the first question of each cluster alone counts."""
    seen: set[str] = set()
    strata: defaultdict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for sample in samples:
        if (place := gold_position(sample)) is not None and (sample.group or sample.id) not in seen:
            seen.add(sample.group or sample.id)
            strata["yes/no" if sample.kind == "truth" else "option", place[1]][place[0]] += 1
    total = sum(counts.total() for counts in strata.values())
    if total < FEWEST:
        return None
    fit = uniform_fit([[counts[at] for at in range(size)] for (_, size), counts in strata.items()])
    chance = sum(counts.total() / size for (_, size), counts in strata.items()) / total
    best = sum(max(counts.values()) for counts in strata.values())
    share = mean_of("gold position", np.repeat([1.0, 0.0], [best, total - best]), chance=chance)
    (kind, size), counts = max(strata.items(), key=lambda item: item[1].total())
    names = ("no", "yes") if kind == "yes/no" else tuple(map(position_name, range(size)))
    note = ", ".join(f"{name} {counts[at] / counts.total():.0%}" for at, name in enumerate(names))
    what = "questions whose gold answer is at its most frequent position"
    return LeakTest("gold position", what, share, fit.test, fit.p_value, note=note)


def position_name(at: int) -> str:
    """Return the letter of a position, from 0; beyond Z its number from 1."""
    return chr(65 + at) if at < 26 else str(at + 1)


def _longest(samples: list[Sample]) -> LeakTest | None:
    """Test whether the longest option is right more often than by chance; options of equal length share the place."""
    rows: list[Hit] = []
    ranks = Counter[int]()
    for sample in samples:
        place = gold_position(sample)
        lengths = [len(text.strip()) for text in sample.options.values()]
        if place is None or sample.kind == "truth" or len(set(lengths)) < 2:
            continue
        gold, longest = lengths[place[0]], max(lengths)
        rows.append((float(gold == longest), lengths.count(longest) / len(lengths), sample.group or sample.id))
        ranks[sum(length > gold for length in lengths) + 1] += 1
    note = "gold by rank of length: " + ", ".join(f"{rank}. {ranks[rank] / len(rows):.0%}" for rank in sorted(ranks))
    return tested("longest option", "questions whose gold answer is the longest option", rows, note=note)


def _named(name: str, what: str, samples: list[Sample], names: Any) -> LeakTest | None:
    """Test whether names hold the gold answer more often than another answer.

    Of a choice, the other options are compared with, or their letters where a name holds no option; of open questions, the gold answers of the other questions. Rows
    whose name holds none of the answers, or all, say nothing.
    """
    pool = Counter(_plain(_gold(sample)) for sample in samples if _is_open(sample))
    pool = Counter(dict(pool.most_common(MOST_GOLDS)))
    rows: list[Hit] = []
    shown = 0
    for sample in samples:
        own = list(names(sample))
        held, sent = (_held(sample, each, pool) if each else None for each in (own, list(_sent(sample, own))))
        if held is not None:
            rows.append((float(held[0]), held[1], sample.group or sample.id))
            shown += sent is not None and sent[0]
    note = f"the name stands in the prompt of {shown:,} of these questions" if shown else "no prompt holds these names"
    return tested(name, what, rows, note=note, reaches=bool(shown))


def _held(sample: Sample, names: Sequence[str], pool: Counter[str]) -> tuple[bool, float] | None:
    """Return whether names hold the gold answer, and the share of answers that they hold; None where it is 0 or 1."""
    given = " ".join(map(spelled, names))
    apart = _plain(given)
    text = apart + _plain(_GLUED.sub(" ", given))
    if sample.kind == "truth" and isinstance(sample.target, bool):
        answers = [(any(_plain(word) in text for word in _TRUTH[value]), value == sample.target, 1) for value in _TRUTH]
    elif (place := gold_position(sample)) is not None:
        answers = [(_plain(option) in text, at == place[0], 1) for at, option in enumerate(sample.options.values())]
        if sample.kind != "choice_text" and not any(held for held, *_ in answers):
            answers = [(_plain(letter) in apart, at == place[0], 1) for at, letter in enumerate(sample.options)]
    elif _is_open(sample):
        gold = _plain(_gold(sample))
        answers = [(each in text, each == gold, count) for each, count in pool.items()]
    else:
        return None
    share = sum(count for held, _, count in answers if held) / max(1, sum(count for *_, count in answers))
    return (any(held and right for held, right, _ in answers), share) if 0.0 < share < 1.0 else None


def _is_open(sample: Sample) -> bool:
    return not sample.options and isinstance(sample.target, (str, int, float)) and not isinstance(sample.target, bool)


def _gold(sample: Sample) -> str:
    return f"{sample.target:g}" if isinstance(sample.target, float) else str(sample.target)


def _plain(text: str) -> str:
    """Return the words of a text between spaces, so that words are found whole; an empty text is found nowhere."""
    words = " ".join(spoken_words(text))
    return f" {words} " if words else "\0"


def _image_names(sample: Sample) -> Iterator[str]:
    yield from filter(None, map(name_of, pictures_of(sample)))


def _sent(sample: Sample, names: Sequence[str]) -> Iterator[str]:
    """Yield the ends of names that the prompt holds, with folders where it has them; one that reads as an answer is one."""
    texts = [part.text.replace("\\", "/") for part in sample.prompt.conversation_parts if isinstance(part, Text)]
    shown = "\n".join([*texts, *map(unquote, texts)]).lower()
    answers = {_plain(text) for text in (*sample.options.values(), _gold(sample))}
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        for start in range(-min(len(path.parts), MOST_FOLDERS), 0):
            end = str(PurePosixPath(*path.parts[start:]))
            for each in (end, end.removesuffix(path.suffix)):
                stands = each.lower() in shown and re.search(rf"(?<!\w){re.escape(each.lower())}(?!\w)", shown)
                if stands and _plain(spelled(each)) not in answers:
                    yield each


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
    model = runs[FULL].meta.spec.model_with_adapter if runs else ""
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
