"""What the samples themselves give away, before any model is asked: gold positions, lengths of options, and names of files."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.benchmarks.controls import CHOICES, name_of, pictures_of
from snellen.scoring.answer_mentions import spelled
from snellen.scoring.answers.name import spoken_words
from snellen.scoring.statistics.goodness_of_fit import uniform_fit
from snellen.scoring.statistics.guessing import above_chance
from snellen.scoring.statistics.intervals import mean_of
from snellen.types import Metric, Sample, Text

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
