"""Training questions about pooled pictures, in the chart's own words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from pictures import Pool

from snellen.benchmarks.chart import creatures, world
from snellen.benchmarks.chart import questions as ask
from snellen.benchmarks.chart.questions import ChartQuestion
from snellen.benchmarks.chart.world import Creature

LEVELS = ("class", "genus", "species", "colour", "shape", "size", "texture")
_PAIR_LEVELS = (*("class", "genus", "species") * 2, "colour", "shape", "size", "texture")


@dataclass(frozen=True)
class Asked:
    """A question, the figure it counts for, and what auxiliary targets predict inside the question.

    `truth` is the true value, predicted where the asked one is about to stand. `readings` are (word, reader, label):
    at that word of the question, a reader that is thrown away afterwards tells the label from the hidden state. They
    lead to comparing two things by first finding each: the value in every picture, the place of each creature.
    """

    question: ChartQuestion
    cell: str
    truth: str | None = None
    readings: tuple[tuple[str, str, int], ...] = ()


# Readers and how many labels each tells apart: the value at a level in picture 1 to 4, and places in sixths of the side.
READERS = {
    **{
        f"{picture}/{level}": 8 if level == "colour" else 10 if level == "digit" else 3
        for picture in range(4)
        for level in ("class", "genus", "species", "colour", "shape", "size", "texture", "digit")
    },
    **{f"{which}/{axis}": 6 for which in ("first", "second", "start", "end") for axis in ("x", "y")},
    **{f"{which}/near": 2 for which in ("first", "second")},
}


def _mark(who: Creature, level: str) -> int:
    """The index of what shows the level: a mark's colour or the attribute's value."""
    return getattr(who, "klass" if level == "class" else level)


def _in_pictures(members: Sequence[Creature], level: str) -> tuple[tuple[str, str, int], ...]:
    return tuple((f" {level}", f"{picture}/{level}", _mark(who, level)) for picture, who in enumerate(members))


class Draw(Random):
    """Python's generator with the few methods of the chart's stream: training need not be the same to the byte."""

    def below(self, n: int) -> int:
        return self.randrange(n)

    def between(self, low: int, high: int) -> int:
        return self.randint(low, high)

    def pick(self, items):
        return self.choice(items)

    def shuffled(self, items):
        return super().sample(list(items), len(items))

    def sample(self, items, k, *, counts=None):
        return super().sample(list(items), k)


def _figure(kind: str, level: str) -> str:
    return f"{kind}/{level if level in world.LEVELS else 'attribute'}"


def about_portrait(who: Creature, draw: Draw) -> Asked:
    """One question about a single creature; truth and choice get the largest shares, as they are learned last."""
    kind = draw.choices(("truth", "choice", "text", "short", "legs"), (34, 36, 8, 18, 4))[0]
    if kind == "legs":
        return Asked(ask.legs(world.LEGS[who.legs]), "count/legs")
    level = draw.choices(LEVELS, (20, 24, 26, 9, 7, 7, 7))[0]
    own = who.name(level)
    if kind == "truth":
        right = draw.random() < 0.5
        value = own if right else creatures.wrong(who, level, draw)
        return Asked(ask.truth(level, value, draw.pick(ask.TRUTH_FORMS), right), _figure("truth", level), own)
    if kind == "short":
        return Asked(ask.short(level, own, creatures.number_of(level)), _figure("short", level), own)
    options = creatures.siblings(who, level, draw, draw.below(12))
    if kind == "text":
        return Asked(ask.choice_text(level, options, own), "choice_text", own)
    return Asked(ask.choice(level, options, own), _figure("choice", level), own)


def about_pair(first: Creature, second: Creature, level: str, draw: Draw) -> Asked:
    """Whether two creatures agree at a level."""
    same = agree(first, second, level)
    readings = _in_pictures((first, second), level)
    return Asked(ask.same(level, 2, draw.pick(ask.TRUTH_FORMS), same), _figure("pair", level), readings=readings)


def agree(first: Creature, second: Creature, level: str) -> bool:
    """Whether two creatures have one name at a level."""
    return first.name(level) == second.name(level)


def balanced_level(first: Creature, second: Creature, draw: Draw) -> str:
    """A level at which this pair is the same, or one at which it is not, with equal odds."""
    wanted = draw.random() < 0.5
    levels = [level for level in LEVELS if agree(first, second, level) == wanted]
    return draw.pick(levels or LEVELS)


class Finder:
    """Finds pictures of a pool that show a creature with given values."""

    def __init__(self, pool: Pool) -> None:
        self._at: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.shows: list[Creature] = pool.shows
        for i, who in enumerate(pool.shows):
            for level in LEVELS:
                self._at[level, who.name(level)].append(i)
            self._at["branch", f"{who.klass}"].append(i)

    def like(self, who: Creature, level: str, draw: Draw) -> int:
        """A picture that has this creature's value at the level."""
        return draw.pick(self._at[level, who.name(level)])

    def pair(self, level: str, draw: Draw) -> tuple[int, int]:
        """Two pictures that agree at a level, or differ just there, with equal odds."""
        first = draw.below(len(self.shows))
        wanted = creatures.related(self.shows[first], level, draw.random() < 0.5, draw)
        return first, self.like(wanted, level, draw)

    def set(self, draw: Draw) -> tuple[list[int], Callable[[], Asked]]:
        """Three or four pictures and a question: do all agree, or (of three) which two do?"""
        level = draw.pick(("class", "colour"))
        if draw.random() < 0.5:
            first = draw.below(len(self.shows))
            members = [first, *(self.like(self.shows[first], level, draw) for _ in range(draw.between(2, 3)))]
            if draw.random() < 0.5:
                odd = creatures.related(self.shows[first], level, False, draw)
                members[draw.below(len(members))] = self.like(odd, level, draw)
            names = {self.shows[i].name(level) for i in members}
            readings = _in_pictures([self.shows[i] for i in members], level)

            def question() -> Asked:
                form, same = draw.pick(ask.TRUTH_FORMS), len(names) == 1
                return Asked(ask.same(level, len(members), form, same), "set", readings=readings)

            return members, question
        right = draw.pick(tuple(creatures.GROUPS))
        values = draw.sample(world.CLASSES if level == "class" else tuple(world.COLOURS), 3)
        members = [draw.pick(self._at[level, values[which]]) for which in creatures.GROUPS[right]]
        readings = _in_pictures([self.shows[i] for i in members], level)
        options = tuple(creatures.GROUPS)
        return members, lambda: Asked(ask.grouping(level, draw.shuffled(options), right), "group", readings=readings)


def pair_level(draw: Draw) -> str:
    """A level for a pair; those of the taxonomy twice as often."""
    return draw.pick(_PAIR_LEVELS)


def _at(one: world.Placed, word: str, who: str) -> tuple[tuple[str, str, int], ...]:
    """Where a body is, told at a word of the question, in sixths of the side."""
    return ((word, f"{who}/x", one.cx * 6 // 1000), (word, f"{who}/y", one.cy * 6 // 1000))


def about_couple(shown: tuple, draw: Draw) -> Asked:
    """Where one of two creatures is, seen from the other."""
    placed, right, below, nearer = shown
    axis = draw.pick(tuple(ask.AXES))
    side = {"horizontal": int(right), "vertical": int(below), "depth": int(not nearer)}[axis]
    order = list(placed)
    if draw.random() < 0.5:
        order, side, nearer = order[::-1], 1 - side, not nearer
    names = [one.who.name("colour") for one in order]
    readings = (
        *_at(order[0], f" {names[0]}", "first"),
        *_at(order[1], f" {names[1]}", "second"),
        (f" {names[0]}", "first/near", int(nearer)),
        (f" {names[1]}", "second/near", int(not nearer)),
    )
    if draw.random() < 0.5:
        target = draw.random() < 0.5
        question = ask.relation_truth(axis, side if target else 1 - side, *names, target)
    else:
        question = ask.relation(axis, side, *names)
    return Asked(question, "relation", readings=readings)


def about_walk(direction: str, start: world.Placed, end: world.Placed, draw: Draw) -> Asked:
    """Where a creature moves."""
    words = tuple(world.DIRECTIONS)
    form = draw.pick(("truth", "letter", "text"))
    if form == "truth":
        right = draw.random() < 0.5
        value = direction if right else draw.pick([word for word in words if word != direction])
        question = ask.motion_truth(value, right)
    else:
        question = ask.motion(draw.shuffled(words) if form == "letter" else words, direction, form)
    readings = (*_at(start, " creature", "start"), *_at(end, " move", "end"))
    return Asked(question, "motion", readings=readings)


def about_digits(first: int, second: int, draw: Draw) -> Asked:
    """Whether two digits are the same."""
    question = ask.digit_same(draw.pick(ask.TRUTH_FORMS), first == second)
    return Asked(question, "digits/pair", readings=((" digit", "0/digit", first), (" digit", "1/digit", second)))


def about_digit(label: int, draw: Draw) -> Asked:
    """One question about a digit."""
    kind = draw.choices(("short", "truth", "choice"), (2, 3, 4))[0]
    others = draw.sample([digit for digit in range(10) if digit != label], 3)
    if kind == "short":
        return Asked(ask.digit(label), "digits/short", str(label))
    if kind == "truth":
        right = draw.random() < 0.5
        value = label if right else others[0]
        return Asked(ask.digit_truth(value, draw.pick(ask.TRUTH_FORMS), right), "digits/truth", str(label))
    options = [str(digit) for digit in draw.shuffled([label, *others])]
    return Asked(ask.digit_choice(options, str(label)), "digits/choice", str(label))


def corpus(lines: int) -> list[str]:
    """Questions and replies for the tokenizer, and the printable characters."""
    draw = Draw(1)
    out: list[str] = []
    for _ in range(lines):
        first, second = world.creature(draw), world.creature(draw)
        pair = world.couple(draw, True, False, True, world.Dials())
        asked = [
            about_portrait(first, draw),
            about_pair(first, second, draw.pick(LEVELS), draw),
            about_couple((pair, True, False, True), draw),
            about_walk("left", *pair, draw),
            about_digit(draw.below(10), draw),
            Asked(ask.count(draw.between(1, 5), 5), "count"),
            Asked(ask.same("class", 3, draw.pick(ask.TRUTH_FORMS), True), "set"),
            Asked(ask.grouping("class", tuple(creatures.GROUPS), "none"), "group"),
            about_digits(1, 1, draw),
        ]
        for one in asked:
            out += [one.question.text, one.question.reply]
    return out + [chr(i) for i in range(32, 127)]
