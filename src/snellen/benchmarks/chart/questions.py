"""The chart's questions: wording of every form as a function from what is asked to text, gold and options, and samples.

The same functions word the evaluation and the training of the embedded model. Raise the benchmarks' version when a
word changes.

Scorers of the chart: `strict` uses careful extractors, `exact` compares as a naive harness does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from snellen.benchmarks.base import Scorer
from snellen.benchmarks.chart.rng import Stream
from snellen.scoring.extract import correct, read
from snellen.scoring.scores import Scores, guessing
from snellen.scoring.statistics import mean
from snellen.types import Kind, Metric, Part, Prompt, Sample, Score, Text

CELLS = (
    *(
        f"{kind}/{level}"
        for kind in ("short", "truth", "choice", "pair")
        for level in ("class", "genus", "species", "attribute")
    ),
    "choice_text",
    "count",
    "count/legs",
    "set",
    "group",
    "relation",
    "motion",
    *(f"digits/{kind}" for kind in ("short", "truth", "choice", "pair")),
)


def expected(sample: Sample) -> str:
    """Return the gold answer in the form that the question asks for."""
    if sample.kind == "truth":
        words = ("yes", "no") if sample.meta["form"] == "yes/no" else ("t", "f")
        return words[0] if sample.target else words[1]
    return str(int(sample.target)) if sample.kind == "number" else str(sample.target)


def strict(sample: Sample, reply: str) -> Score:
    """Return the answer that a careful reader finds in the reply.

    A reply that names none, or two, is wrong and says why.
    """
    question = sample.prompt.parts[-1].text  # type: ignore[union-attr]
    reading = read(
        sample.kind,
        reply,
        question=question,
        options=sample.options,
        form=str(sample.meta["form"]) if sample.kind == "truth" else None,
    )
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = correct(sample.kind, reading.value, sample.target)
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason)


def exact(sample: Sample, reply: str) -> Score:
    """The whole reply, without case, outer space and one final full stop, equals the gold answer in the asked form."""
    answer = reply.strip().removesuffix(".").lower()
    right = answer == expected(sample).lower()
    return Score(
        float(right), answer, "correct" if right else "wrong", None if right else "the reply is not the gold answer"
    )


SCORERS: Mapping[str, Scorer] = {"strict": strict, "exact": exact}
PROFILES: Mapping[str, str] = {
    "strict": "reads the one answer that the reply gives, whatever the wording; no answer or two count as wrong",
    "exact": "the whole reply must be the gold answer in the asked form, as a naive harness compares",
}


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """`accuracy` over everything, then `accuracy/<cell>` for each kind and level that was asked; all with chance.

    A cell is a kind and a level (`short/species`), or a task of its own (`count`, `group`, `digits/truth`).
    """
    metrics = [mean("accuracy", scores, chance=guessing(scores))]
    tasks = list(scores.by("task"))
    if len(tasks) > 1:
        metrics += [mean(f"accuracy/{task}", part, chance=guessing(part)) for task, part in tasks]
    parts = dict(scores.by("cell"))
    metrics += [mean(f"accuracy/{cell}", parts[cell], chance=guessing(parts[cell])) for cell in CELLS if cell in parts]
    return metrics


OPTIONS = {
    "questions": "questions of each kind (default 80)",
    "size": "side of a picture in pixels, 48 to 1024 (default 96)",
}
"""Options of all benchmarks of the chart."""
LETTERS = "ABCD"
YES_NO = "Answer with yes or no."
T_F = "Answer with T or F."
TRUTH_FORMS = ("yes/no", "T/F")
AXES = {"horizontal": ("left of", "right of"), "vertical": ("above", "below"), "depth": ("nearer than", "farther than")}


class ChartQuestion(Struct, frozen=True):
    """One question without its images.

    `form` says how the answer is to be written: yes/no, T/F, letter, text, name or number. `options` maps letters to
    texts. `chance` is what a guess reaches that knows the options but sees nothing.
    """

    text: str
    target: Any
    kind: Kind
    form: str
    chance: float
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def reply(self) -> str:
        """The answer in the asked form, as a model that knows it would write it."""
        if self.kind == "truth":
            words = ("Yes", "No") if self.form == "yes/no" else ("T", "F")
            return words[0] if self.target else words[1]
        return str(int(self.target)) if self.kind == "number" else str(self.target)


def _truth(question: str, statement: str, form: str, target: bool) -> ChartQuestion:
    text = f"{question} {YES_NO}" if form == "yes/no" else f"{statement} True or false? {T_F}"
    return ChartQuestion(text, target, "truth", form, 0.5)


def _letters(question: str, options: Sequence[str], right: str) -> ChartQuestion:
    lettered = dict(zip(LETTERS, options, strict=False))
    lines = "\n".join(f"{letter}. {option}" for letter, option in lettered.items())
    target = LETTERS[options.index(right)]
    return ChartQuestion(
        f"{question}\n{lines}\nAnswer with the letter.", target, "choice", "letter", 1 / len(options), lettered
    )


def _texts(question: str, options: Sequence[str], right: str) -> ChartQuestion:
    lettered = dict(zip(LETTERS, options, strict=False))
    listed = ", ".join(options[:-1]) + " or " + options[-1]
    return ChartQuestion(f"{question} Answer with {listed}.", right, "choice_text", "text", 1 / len(options), lettered)


def truth(level: str, value: str, form: str, target: bool) -> ChartQuestion:
    """Ask whether this is the level's (class, species, colour …) value."""
    return _truth(
        f"Is the {level} of this creature {value}?", f"The {level} of this creature is {value}.", form, target
    )


def choice(level: str, options: Sequence[str], right: str) -> ChartQuestion:
    """Ask for one of 2 to 4 lettered options."""
    return _letters(f"What is the {level} of this creature?", options, right)


def choice_text(level: str, options: Sequence[str], right: str) -> ChartQuestion:
    """Ask for one of 2 to 4 options without letters, to be written out."""
    return _texts(f"What is the {level} of this creature?", options, right)


def short(level: str, right: str, values: int) -> ChartQuestion:
    """Ask for the name, without options; `values` is the number of names."""
    text = f"What is the {level} of this creature? Answer with the name."
    return ChartQuestion(text, right, "short", "name", 1 / values)


def legs(right: int) -> ChartQuestion:
    """Ask for the number of legs."""
    return ChartQuestion(
        "How many legs does this creature have? Answer with a number.", right, "count", "number", 1 / 3
    )


def count(right: int, largest: int) -> ChartQuestion:
    """Ask for the number of creatures in a scene of 1 to `largest`."""
    return ChartQuestion(
        "How many creatures are in this picture? Answer with a number.", right, "count", "number", 1 / largest
    )


def same(level: str, pictures: int, form: str, target: bool) -> ChartQuestion:
    """Ask whether two to four images agree at a level."""
    noun = f"creatures of the same {level}"
    if pictures == 2:
        return _truth(f"Do these pictures show {noun}?", f"These pictures show {noun}.", form, target)
    return _truth(f"Do all these pictures show {noun}?", f"All these pictures show {noun}.", form, target)


def grouping(level: str, options: Sequence[str], right: str) -> ChartQuestion:
    """Ask which of three images agree at a level, or none."""
    return _letters(f"Which pictures show creatures of the same {level}?", options, right)


def relation_truth(axis: str, side: int, first: str, second: str, target: bool) -> ChartQuestion:
    """Ask whether the creature of colour `first` is on that side (index into AXES) of the one of colour `second`."""
    text = f"{_depth(axis)}Is the {first} creature {AXES[axis][side]} the {second} one? {YES_NO}"
    return ChartQuestion(text, target, "truth", "yes/no", 0.5)


def relation(axis: str, side: int, first: str, second: str) -> ChartQuestion:
    """Ask on which side of the second creature the first one is."""
    words = [phrase.split()[0] for phrase in AXES[axis]]
    first_side, second_side = AXES[axis]
    if axis == "vertical":
        question = f"Is the {first} creature above or below the {second} one?"
    else:
        question = f"{_depth(axis)}Is the {first} creature {first_side.split()[0]} or {second_side} the {second} one?"
    return _texts(question, words, words[side])


def _depth(axis: str) -> str:
    return "All creatures are equally tall. " if axis == "depth" else ""


def motion_truth(direction: str, target: bool) -> ChartQuestion:
    """Ask whether the creature moves in that direction."""
    text = f"Does the creature move {direction}? {YES_NO}"
    return ChartQuestion(text, target, "truth", "yes/no", 0.5)


def motion(options: Sequence[str], right: str, form: str) -> ChartQuestion:
    """Ask for the direction of a move, by letter or by text."""
    ask = _letters if form == "letter" else _texts
    return ask("Which way does the creature move?", options, right)


def digit(right: int) -> ChartQuestion:
    """Ask which digit it is."""
    return ChartQuestion("Which digit is this? Answer with a number.", float(right), "number", "number", 0.1)


def digit_truth(value: int, form: str, target: bool) -> ChartQuestion:
    """Ask whether it is this digit."""
    return _truth(f"Is this digit a {value}?", f"This digit is a {value}.", form, target)


def digit_choice(options: Sequence[str], right: str) -> ChartQuestion:
    """Ask which of four digits it is."""
    return _letters("Which digit is this?", options, right)


def digit_same(form: str, target: bool) -> ChartQuestion:
    """Ask whether two scans show the same digit."""
    return _truth("Do these pictures show the same digit?", "These pictures show the same digit.", form, target)


def balanced(stream: Stream, n: int, values: int) -> list[int]:
    """[n] integers below `values`, each as often as the others (to within one), in random order."""
    return stream.shuffled([i % values for i in range(n)])


def arranged(right: str, others: Sequence[str], place: int) -> list[str]:
    """Return the options with the right one at `place`, modulo their number."""
    at = place % (len(others) + 1)
    return [*others[:at], right, *others[at:]]


def sample(
    name: str,
    group: str,
    media: tuple[Part, ...],
    q: ChartQuestion,
    cell: str,
    level: str,
    guide: str = "",
    task: str = "creatures",
) -> Sample:
    """Return one question of the chart; `cell` is the figure that it counts for."""
    meta: Mapping[str, Any] = {
        "task": task,
        "cell": cell,
        "level": level,
        "form": q.form,
        "chance": round(q.chance, 6),
    }
    prompt = Prompt((*media, Text(q.text)), system=guide)
    return Sample(name, prompt, q.target, q.kind, q.options, group, meta)
