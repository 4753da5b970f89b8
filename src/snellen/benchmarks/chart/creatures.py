"""chart/creatures: drawn creatures of an invented taxonomy, alone, in sets, in scenes and in clips.

Nothing is stored: every image follows from the seed and is drawn when it is read. Evaluation draws under keys that
begin with "chart", training under keys that begin with "train", so no seed of one is a seed of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data, empty_digest
from snellen.benchmarks.chart import questions as ask
from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.digits import DIGITS
from snellen.benchmarks.chart.drawing import Canvas
from snellen.benchmarks.chart.questions import PROFILES, SCORERS, arranged, balanced, sample, summarize
from snellen.benchmarks.chart.rng import Stream
from snellen.benchmarks.chart.world import Creature, Dials, Placed
from snellen.benchmarks.suite import suite
from snellen.errors import UsageError
from snellen.sources.blobs import Drawn, stored_png
from snellen.types import Image, Sample, Video

VERSION = "1"
NAME = "chart/creatures"
FRAMES = 4
MAX_CREATURES = 5
GROUPS = {"1 and 2": (0, 0, 1), "1 and 3": (0, 1, 0), "2 and 3": (1, 0, 0), "none": (0, 1, 2)}
_ATTRIBUTES = tuple(world.ATTRIBUTES)
_FIELDS = ("klass", "genus", "species")
_PER_PICTURE = 14
_OTHER_CELLS = 9
DIALS = tuple(field.name for field in structs.fields(Dials))
OPTIONS = {
    **ask.OPTIONS,
    "key": "yes: put the field guide (which mark means which name) before every question (default no)",
    "difficulty": "all differences at once: 0 plain (default), 1 none left",
    "difficulty.taxa": "contrast of the marks that tell class, genus and species, 0 to 1",
    "difficulty.colour": "contrast of the body colours, 0 to 1",
    "difficulty.shape": "how far every body is bent towards a disc, 0 to 1",
    "difficulty.size": "how close the sizes are, 0 to 1",
    "difficulty.texture": "how faint stripes and spots are, 0 to 1",
    "difficulty.count": "how much the bodies of a scene differ in size, 0 to 1",
    "difficulty.place": "how close left and right, above and below are, 0 to 1",
    "difficulty.depth": "how close near and far are in size, 0 to 1",
    "difficulty.motion": "how short the way of a moving creature is, 0 to 1",
}


@dataclass(frozen=True)
class Drawing:
    """The settings that all images of one run share."""

    seed: int
    size: int
    dials: Dials
    guide: str

    def image(self, name: str, draw: Callable[[Stream], Canvas]) -> Image:
        """Return an image that `draw` makes from the stream of its name, once it is read."""
        dials = ",".join(str(value) for value in structs.astuple(self.dials))
        key = f"{NAME}@{VERSION}/{self.seed}/{name}/{self.size}/{dials}"
        return Image(Drawn(key, partial(_png, draw, ("chart", self.seed, name))))


def _png(draw: Callable[[Stream], Canvas], key: tuple[str | int, ...]) -> bytes:
    stream = Stream(*key)
    return stored_png(world.finished(draw(stream), stream))


def _portrait(who: Creature, size: int, dials: Dials, stream: Stream) -> Canvas:
    return world.portrait(who, stream, size, dials)


def _scene(placed: list[Placed], background: int, size: int, dials: Dials, stream: Stream) -> Canvas:
    return world.scene(placed, background, size, dials)


def siblings(who: Creature, level: str, stream: Stream, place: int) -> list[str]:
    """Option texts for a choice at a level, the right one at `place` (modulo their number), the others around it.

    None is more likely than another to one who only reads them. Classes: all three. Genera and species: two of the
    right branch and two of another one, so that neither the names nor how they group give the answer away.
    Attributes: up to four values.
    """
    own = who.name(level)
    if level in world.ATTRIBUTES:
        values = world.ATTRIBUTES[level]
        return arranged(own, stream.sample([v for v in values if v != own], min(3, len(values) - 1)), place)
    if level == "class":
        return arranged(own, stream.shuffled([name for name in world.CLASSES if name != own]), place)
    field, above = ("genus", "klass") if level == "genus" else ("species", "genus")
    other = (getattr(who, above) + stream.between(1, 2)) % 3
    sibling = (getattr(who, field) + stream.between(1, 2)) % 3
    cousins = structs.replace(who, **{above: other})
    names = [structs.replace(cousins, **{field: value}).name(level) for value in stream.sample(range(3), 2)]
    return arranged(own, stream.shuffled([structs.replace(who, **{field: sibling}).name(level), *names]), place)


def wrong(who: Creature, level: str, stream: Stream) -> str:
    """Return a false value for a truth question: a sibling at that level, or another value of the attribute."""
    if level in world.ATTRIBUTES:
        return stream.pick([value for value in world.ATTRIBUTES[level] if value != who.name(level)])
    field = _FIELDS[world.LEVELS.index(level)]
    return structs.replace(who, **{field: (getattr(who, field) + stream.between(1, 2)) % 3}).name(level)


def number_of(level: str) -> int:
    """Return the number of values of a level or attribute."""
    return {"class": 3, "genus": 9, "species": 27}.get(level) or len(world.ATTRIBUTES[level])


def related(who: Creature, level: str, same: bool, stream: Stream) -> Creature:
    """Another creature that agrees with this one at a level, or differs from it just there.

    Levels above the asked one agree in either case; everything else is drawn anew.
    """
    other = world.creature(stream)
    if level in world.ATTRIBUTES:
        values, own = len(world.ATTRIBUTES[level]), getattr(who, level)
        return structs.replace(other, **{level: own if same else (own + stream.between(1, values - 1)) % values})
    fields = _FIELDS[: world.LEVELS.index(level) + 1]
    fixed = {field: getattr(who, field) for field in fields}
    if not same:
        fixed[fields[-1]] = (fixed[fields[-1]] + stream.between(1, 2)) % 3
    return structs.replace(other, **fixed)


def dials(data: Data) -> Dials:
    """Return the difficulty dials; a dial of its own overrides `difficulty`.

    Raises:
        UsageError: a value is not a number from 0 to 1.
    """
    base = _thousandths(data, "difficulty", 0)
    return Dials(**{name: _thousandths(data, f"difficulty.{name}", base) for name in DIALS})


def _thousandths(data: Data, name: str, default: int) -> int:
    text = data.options.get(name)
    if text is None:
        return default
    try:
        value = int(Decimal(text) * 1000)
    except (InvalidOperation, ValueError, OverflowError):
        value = -1
    if not 0 <= value <= 1000:
        raise UsageError(f"-o {name}={text}: expected a number from 0 (plain) to 1 (no difference left).")
    return value


def samples(data: Data) -> Iterator[Sample]:
    """Yield every question, in a fixed order; images are drawn when they are read.

    Raises:
        UsageError: an option is unknown or out of range.
    """
    data.require_known(NAME, OPTIONS)
    n = data.number("questions", 80, 1, 100_000)
    drawing = Drawing(data.seed, data.number("size", 96, 48, 1024), dials(data), _guide() if data.flag("key") else "")
    yield from _portraits(drawing, n)
    for level in (*world.LEVELS, "attribute"):
        yield from _pairs(drawing, n, level)
    yield from _sets(drawing, n)
    yield from _groups(drawing, n)
    yield from _crowds(drawing, n)
    yield from _couples(drawing, n)
    yield from _clips(drawing, n)


def _portraits(drawing: Drawing, n: int) -> Iterator[Sample]:
    stream = Stream("chart", drawing.seed, "portraits")
    taxa = balanced(stream, n, 27)
    levels = (*world.LEVELS, "attribute")
    flips = {level: balanced(stream, n, 4) for level in levels}
    attributes = {form: balanced(stream, n, len(_ATTRIBUTES)) for form in ("truth", "choice", "short")}
    places = {level: balanced(stream, n, 12) for level in (*levels, "text")}
    texts = balanced(stream, n, 4)
    for i in range(n):
        group = f"portrait-{i:05}"
        who = world.creature(stream, taxa[i])
        images = (drawing.image(group, partial(_portrait, who, drawing.size, drawing.dials)),)
        for kind in ("truth", "choice", "short"):
            for level in levels:
                value = _ATTRIBUTES[attributes[kind][i]] if level == "attribute" else level
                if kind == "truth":
                    right, form = flips[level][i] % 2 == 0, ask.TRUTH_FORMS[flips[level][i] // 2]
                    q = ask.truth(value, who.name(value) if right else wrong(who, value, stream), form, right)
                elif kind == "choice":
                    q = ask.choice(value, siblings(who, value, stream, places[level][i]), who.name(value))
                else:
                    q = ask.short(value, who.name(value), number_of(value))
                yield sample(f"{group}-{kind}-{level}", group, images, q, f"{kind}/{level}", value, drawing.guide)
        value = (*world.LEVELS, "colour")[texts[i]]
        q = ask.choice_text(value, siblings(who, value, stream, places["text"][i]), who.name(value))
        yield sample(f"{group}-text", group, images, q, "choice_text", value, drawing.guide)
        q = ask.legs(world.LEGS[who.legs])
        yield sample(f"{group}-legs", group, images, q, "count/legs", "legs", drawing.guide)


def _several(drawing: Drawing, group: str, members: list[Creature]) -> tuple[Image, ...]:
    return tuple(
        drawing.image(f"{group}-{place}", partial(_portrait, who, drawing.size, drawing.dials))
        for place, who in enumerate(members)
    )


def _pairs(drawing: Drawing, n: int, level: str) -> Iterator[Sample]:
    stream = Stream("chart", drawing.seed, "pairs", level)
    flips, attributes = balanced(stream, n, 4), balanced(stream, n, len(_ATTRIBUTES))
    for i in range(n):
        group = f"pair-{level}-{i:05}"
        value = _ATTRIBUTES[attributes[i]] if level == "attribute" else level
        same, form = flips[i] % 2 == 0, ask.TRUTH_FORMS[flips[i] // 2]
        first = world.creature(stream)
        images = _several(drawing, group, [first, related(first, value, same, stream)])
        yield sample(group, group, images, ask.same(value, 2, form, same), f"pair/{level}", value, drawing.guide)


def _sets(drawing: Drawing, n: int) -> Iterator[Sample]:
    stream = Stream("chart", drawing.seed, "sets")
    draws = balanced(stream, n, 16)
    for i in range(n):
        group, draw = f"set-{i:05}", draws[i]
        same, form = draw % 2 == 0, ask.TRUTH_FORMS[draw // 2 % 2]
        pictures, level = 3 + draw // 4 % 2, ("class", "colour")[draw // 8]
        first = world.creature(stream)
        members = [first, *(related(first, level, True, stream) for _ in range(pictures - 1))]
        if not same:
            members[stream.below(pictures)] = related(first, level, False, stream)
        images = _several(drawing, group, members)
        yield sample(group, group, images, ask.same(level, pictures, form, same), "set", level, drawing.guide)


def _groups(drawing: Drawing, n: int) -> Iterator[Sample]:
    stream = Stream("chart", drawing.seed, "groups")
    draws, places = balanced(stream, n, 8), balanced(stream, n, 4)
    for i in range(n):
        group, draw = f"group-{i:05}", draws[i]
        right, level = tuple(GROUPS)[draw % 4], ("class", "colour")[draw // 4]
        field = "klass" if level == "class" else level
        values = stream.sample(range(3 if level == "class" else len(world.COLOURS)), 3)
        members = [structs.replace(world.creature(stream), **{field: values[index]}) for index in GROUPS[right]]
        options = arranged(right, stream.shuffled([option for option in GROUPS if option != right]), places[i])
        q = ask.grouping(level, options, right)
        yield sample(group, group, _several(drawing, group, members), q, "group", level, drawing.guide)


def _crowds(drawing: Drawing, n: int) -> Iterator[Sample]:
    stream = Stream("chart", drawing.seed, "crowds")
    counts = balanced(stream, n, MAX_CREATURES)
    for i in range(n):
        group = f"crowd-{i:05}"
        placed = world.crowd(stream, counts[i] + 1, drawing.dials)
        image = drawing.image(group, partial(_scene, placed, stream.below(3), drawing.size, drawing.dials))
        yield sample(group, group, (image,), ask.count(counts[i] + 1, MAX_CREATURES), "count", "creatures")


def _couples(drawing: Drawing, n: int) -> Iterator[Sample]:
    stream = Stream("chart", drawing.seed, "couples")
    draws = balanced(stream, n, 24)
    for i in range(n):
        group, draw = f"couple-{i:05}", draws[i]
        axis, side, as_truth, right = tuple(ask.AXES)[draw % 3], draw // 3 % 2, draw // 6 % 2, draw // 12 == 0
        flags = [stream.below(2) == 1 for _ in ask.AXES]
        flags[draw % 3] = (side == 0) if axis == "depth" else (side == 1)
        right_of, below, nearer = flags
        placed = world.couple(stream, right_of, below, nearer, drawing.dials)
        image = drawing.image(group, partial(_scene, placed, stream.below(3), drawing.size, drawing.dials))
        first, second = (body.who.name("colour") for body in placed)
        if as_truth:
            q = ask.relation_truth(axis, side if right else 1 - side, first, second, right)
        else:
            q = ask.relation(axis, side, first, second)
        yield sample(group, group, (image,), q, "relation", axis)


def _clips(drawing: Drawing, n: int) -> Iterator[Sample]:
    stream = Stream("chart", drawing.seed, "clips")
    draws, places = balanced(stream, n, 24), balanced(stream, n, 4)
    for i in range(n):
        group, draw = f"clip-{i:05}", draws[i]
        direction, right = tuple(world.DIRECTIONS)[draw % 4], draw // 12 == 0
        placed, background = world.walk(stream, direction, FRAMES, drawing.dials), stream.below(3)
        frames = tuple(
            drawing.image(f"{group}-{f}", partial(_scene, [body], background, drawing.size, drawing.dials))
            for f, body in enumerate(placed)
        )
        words = tuple(world.DIRECTIONS)
        if draw // 4 % 3 == 0:
            other = stream.pick([word for word in words if word != direction])
            q = ask.motion_truth(direction if right else other, right)
        elif draw // 4 % 3 == 1:
            others = stream.shuffled([word for word in words if word != direction])
            q = ask.motion(arranged(direction, others, places[i]), direction, "letter")
        else:
            q = ask.motion(words, direction, "text")
        yield sample(group, group, (Video(frames=frames),), q, "motion", direction)


def _guide() -> str:
    lines = ["Field guide. The crest on the head tells the class, the belt the genus, the eye the species."]
    for k, klass in enumerate(world.CLASSES):
        belts = ", ".join(f"{world.MARK_NAMES[g]} belt: {genus}" for g, genus in enumerate(world.GENERA[k]))
        lines.append(f"{world.MARK_NAMES[k].capitalize()} crest: class {klass}; its genera by belt: {belts}.")
    eyes = ", ".join(f"{world.MARK_NAMES[s]} eye: {epithet}" for s, epithet in enumerate(world.EPITHETS))
    lines.append(f"The species is the genus and an epithet by eye: {eyes}.")
    lines.append(f"Colours: {', '.join(world.COLOURS)}.")
    lines += [f"{name.capitalize()}s: {', '.join(world.ATTRIBUTES[name])}." for name in ("shape", "size", "texture")]
    return "\n".join(lines)


CREATURES = Benchmark(
    cluster="image",
    name=NAME,
    version=VERSION,
    digest=empty_digest,
    samples=samples,
    score=SCORERS,
    summarize=summarize,
    profiles=PROFILES,
    size=lambda data: (_PER_PICTURE + _OTHER_CELLS) * data.number("questions", 80, 1, 100_000),
    options=OPTIONS,
    about={
        "description": "Drawn creatures of an invented taxonomy: taxonomy, attributes, pairs, sets, counting, space, motion.",
        "source": "Drawn by Snellen from the seed; nothing is stored or downloaded.",
        "licence": "Apache-2.0",
    },
)


CHART = suite(
    "chart",
    (CREATURES, DIGITS),
    version="1",
    about={
        "description": "The whole embedded chart: every kind of question, answered by a small model in half a minute.",
        "source": "Drawn by seed (creatures) and UCI handwritten digits, both in the package; no download.",
        "licence": "Apache-2.0; digits CC BY 4.0",
    },
    summarize=summarize,
)
