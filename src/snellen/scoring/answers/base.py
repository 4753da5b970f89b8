"""Answer types: what a gold cell and a reply's answer mean, when two are the same, and how one is shown.

A type is made for one question from its `AnswerContext`. Gold cells and replies go through the same `parse`, so that neither is
read by rules of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct

from snellen.scoring.answers.dress import undressed
from snellen.scoring.replies.sentences import Sentence

WORDS: dict[str, Any] = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
"""Words of numbers, months and mathematics."""
UNITS = {word: value for value, word in enumerate(WORDS["below_twenty"].split())}
ENGLISH_BELOW_HUNDRED = UNITS | {word: 10 * at for at, word in enumerate(WORDS["tens"].split(), 2)}
"""English words of one number each: twenty-one is two words."""
LEVELS = ("folded", "accents", "exact")
"""How strictly texts are compared: without case and accents, without case, or character by character."""


class AnswerContext(Struct, frozen=True):
    """What a question says of its answer.

    Attributes:
        options: letter to text, in order; empty for open questions.
        question: the question's text.
        unit: the unit in which a number is asked for; empty without one.
        form: `yes/no` or `T/F`, the words of a truth question; empty if either will do.
        decimal: the decimal sign of the table's numbers, `.` or `,`.
        day_first: whether `01/02/2024` is the first of February; None if the column does not tell.
        level: how strictly texts are compared, see `LEVELS`.
        tolerance: relative tolerance of numbers; None for the type's own rule.
    """

    options: Mapping[str, str] = {}
    question: str = ""
    unit: str = ""
    form: str = ""
    decimal: str = "."
    day_first: bool | None = None
    level: str = LEVELS[0]
    tolerance: float | None = None


class GoldError(ValueError):
    """A gold cell that is no value of its type; the message says what was expected."""


class Found(NamedTuple):
    """A value named in a text, with the place of the characters that name it."""

    value: Any
    start: int
    end: int


def fields_schema(**fields: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with these fields and no others, in their order."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def corners_schema(sides: int) -> dict[str, Any]:
    """Return the JSON Schema of a box (4 numbers) or a point (2) by names: not every provider takes a length of lists."""
    names = ("x1", "y1", "x2", "y2") if sides == 4 else ("x", "y")
    return fields_schema(**{name: {"type": "number"} for name in names})


class AnswerType:
    """A type of answers to one question. Subclasses define `parse`, and `same` where equality is not `==`.

    Attributes:
        kind: the name by which a column or an option chooses the type.
        expected: what a gold cell holds, for messages.
        is_closed: an answer can be told from prose, since few values are possible.
        takes_lists: a gold value may be a list; of other types a list is several accepted answers.
    """

    kind: ClassVar[str] = ""
    expected: ClassVar[str] = "a value"
    is_closed: ClassVar[bool] = False
    takes_lists: ClassVar[bool] = False

    def __init__(self, context: AnswerContext = AnswerContext()) -> None:
        self.context = context

    def parse(self, text: str) -> Any | None:
        """Return the value that a whole text writes, its outer markup already removed; None if it writes none."""
        raise NotImplementedError

    def as_gold(self, text: str) -> Any | None:
        """Return the value of a reply that is a gold cell, character by character."""
        return self.parse(text)

    def parse_gold(self, cell: Any) -> Any:
        """Return the value of a gold cell: a text is read as a reply would be, in any markup.

        Raises:
            GoldError: the cell holds no value of this type.
        """
        text = cell if isinstance(cell, str) else str(cell)
        value = self.parse(undressed(text))
        if value is None:
            raise GoldError(f"{text[:80]!r} is not {self.expected}")
        return value

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if a reply's value answers as the gold value does."""
        return bool(value == gold)

    def forms(self, value: Any) -> tuple[Any, ...]:
        """Return the value and others that a reply gives with it: `Red Kite (Milvus milvus)` gives two names."""
        return (value,)

    def show(self, value: Any) -> str:
        """Return a value as people write it."""
        return str(value)

    def plain(self, value: Any) -> Any:
        """Return a value as JSON holds it: itself, or its text."""
        return value if value is None or isinstance(value, (str, bool, int, float)) else self.show(value)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a value, in keywords that every provider has; `parse` takes the value as text or JSON."""
        return {"type": "string"}

    def candidates(self, text: str) -> Iterable[int]:
        """Yield the places of a text around which a sentence may name a value; of closed types alone."""
        return ()

    def find(self, sentence: Sentence) -> Sequence[Found]:
        """Return every value that a sentence names, in order; empty for types that prose does not name."""
        return ()

    def anywhere(self, text: str) -> Found | None:
        """Return the only value that a text names anywhere, of types whose values are told by their form; None for others."""
        return None

    def bare(self, sentence: Sentence) -> Any | None:
        """Return the value that a sentence is from its first word to its last."""
        return self.parse(undressed(sentence.text))

    def short(self, sentence: Sentence) -> Found | None:
        """Return the value of a reply of one short sentence: the only one that it names."""
        found = self.find(sentence)
        return found[0] if found and all(self.same(other.value, found[0].value) for other in found[1:]) else None
