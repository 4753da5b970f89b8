"""Structured replies: the JSON Schema that a question's reply follows, and the answer in a reply that follows it.

The answer is the field `answer` of the reply, or all of the reply where the schema has no such field. Profile `strict` reads it
by the question's type; other profiles read the reply as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from snellen.scoring.answers.structure import MOST_CHARACTERS
from snellen.scoring.replies.reply import outside_thinking, visible
from snellen.types import Sample, Score

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

ANSWER = "answer"
"""The field of a reply that is its answer."""
MOST_CHECKS = 100_000
"""Keywords of a schema that are checked for one reply. A run folder may bring any schema, and a model any reply."""
MESSAGE_CHARACTERS = 120
_FENCE = re.compile(r"\A```(?:json)?", re.IGNORECASE)
_BYTE_ORDER_MARK = "\ufeff"
_UNCHECKED = ("pattern", "patternProperties", "format")
"""Keywords that the server alone enforces: a pattern can take for ever, and formats are notes."""


class StructuredAnswer(NamedTuple):
    """The answer of a reply that follows a schema, in a tag that marks it, and its place; `fault` says why there is none."""

    text: str
    place: tuple[int, int] = (0, 0)
    fault: str = ""


def schema_of(sample: Sample) -> Mapping[str, Any] | None:
    """Return the schema that the replies to a question follow; None without one."""
    generation = sample.prompt.generation
    return None if generation is None else generation.reply_schema


def without_schema(sample: Sample) -> Sample:
    """Return a sample whose reply is read as plain text."""
    generation = sample.prompt.generation
    if generation is None or generation.reply_schema is None:
        return sample
    prompt = structs.replace(sample.prompt, generation=structs.replace(generation, reply_schema=None))
    return structs.replace(sample, prompt=prompt)


def answer_in(schema: Mapping[str, Any], reply: str) -> StructuredAnswer:
    """Return the answer of a reply, outside of thinking and of a code fence, after a check against the schema."""
    start, bare = 0, _bare(reply)
    if not _is_json(bare):  # marks of thinking inside of JSON are text
        if visible(reply).unfinished:
            return StructuredAnswer("", fault="reasoning not finished")
        start, end = outside_thinking(reply)[-1]
        bare = _bare(reply[start:end])
    if not bare:
        return StructuredAnswer("", fault="empty reply")
    if len(bare) > MOST_CHARACTERS:
        return StructuredAnswer(
            "", fault=f"the reply has {len(bare):,} characters, and JSON is read up to {MOST_CHARACTERS:,}"
        )
    try:
        value = json.loads(bare, object_pairs_hook=_once_each, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(bare) or error.msg.startswith("Unterminated")
        return StructuredAnswer("", fault=f"invalid JSON: {'it ends too early' if cut else error.msg.lower()}")
    except _TwiceGiven:
        return StructuredAnswer("", fault="invalid JSON: a field occurs twice, so that there are two answers")
    except (ValueError, RecursionError):  # NaN, a number of too many digits, brackets nested too deeply
        return StructuredAnswer("", fault="invalid JSON: a number or its nesting is out of bounds")
    if fault := _fault(schema, value):
        return StructuredAnswer("", fault=f"outside the schema: {fault}")
    place = reply.find(bare, start)
    properties = schema.get("properties")
    is_field = isinstance(value, dict) and ANSWER in value and isinstance(properties, Mapping) and ANSWER in properties
    if is_field:
        value = value[ANSWER]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    inner = reply.rfind(text, place, place + len(bare)) if text else -1
    span = (inner, inner + len(text)) if inner >= 0 else (place, place + len(bare))
    return StructuredAnswer(f"<answer>{text}</answer>" if is_field else text, span)


def reading_answers(scorer: Callable[[Sample, str], Score]) -> Callable[[Sample, str], Score]:
    """Return a scorer that is given the answer of a structured reply; a reply that breaks its schema is unparseable."""

    def scored(sample: Sample, reply: str) -> Score:
        schema = schema_of(sample)
        if schema is None:
            return scorer(sample, reply)
        answer = answer_in(schema, reply)
        return Score(0.0, None, "invalid", answer.fault) if answer.fault else scorer(sample, answer.text)

    return scored


def _bare(text: str) -> str:
    """Return a text without a byte order mark and a code fence around it."""
    return _FENCE.sub("", text.strip().removeprefix(_BYTE_ORDER_MARK)).removesuffix("```").strip()


def _is_json(text: str) -> bool:
    if len(text) > MOST_CHARACTERS:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class _TwiceGiven(Exception):
    pass


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _TwiceGiven
    return fields


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _fault(schema: Mapping[str, Any], value: Any) -> str:
    """Return why a value does not follow a schema; empty if it does."""
    try:
        error = next(_checker(json.dumps(schema))(value), None)
    except _TooManyChecks:
        return f"it takes more than {MOST_CHECKS:,} checks"
    except RecursionError:
        return "it is nested too deeply"
    except Exception as cause:  # noqa: BLE001 - a schema of another user's run: a reference to nothing, a value of a wrong type
        return f"the schema cannot be used: {type(cause).__name__}"
    if error is None:
        return ""
    where = "/".join(map(str, error.absolute_path))
    return f"{f'{where}: ' if where else ''}{' '.join(error.message.split())[:MESSAGE_CHARACTERS]}"


class _TooManyChecks(Exception):
    pass


@lru_cache(maxsize=256)
def _checker(schema: str) -> Callable[[Any], Iterator[Any]]:
    """Return what yields the faults of a value; the schemas of a run are few, and making one takes a millisecond."""
    from jsonschema.validators import Draft202012Validator, extend, validator_for
    from referencing import Registry

    content, left = json.loads(schema), [0]

    def counted(check: Any) -> Any:
        def run(*arguments: Any) -> Iterator[Any]:
            left[0] -= 1
            if left[0] < 0:
                raise _TooManyChecks
            yield from check(*arguments) or ()

        return run

    known = validator_for(content, default=Draft202012Validator)
    checks = {**known.VALIDATORS, "uniqueItems": _unique_items, "multipleOf": _multiple_of}
    keywords = {name: counted(check) for name, check in checks.items() if name not in _UNCHECKED}
    nothing = {name: lambda *_: () for name in _UNCHECKED}
    # An empty registry: jsonschema's own fetches what a reference names.
    validator = extend(known, {**keywords, **nothing})(content, registry=Registry())

    def faults(value: Any) -> Iterator[Any]:
        left[0] = MOST_CHECKS
        yield from validator.iter_errors(value)

    return faults


def _unique_items(_: Any, wanted: Any, items: Any, __: Any) -> Iterator[ValidationError]:
    """Yield the fault of a list with two equal items. jsonschema compares objects in pairs: minutes for a long reply."""
    from jsonschema.exceptions import ValidationError

    if wanted is True and isinstance(items, list) and len(set(map(_item_key, items))) < len(items):
        yield ValidationError("the list has equal items")


def _item_key(value: Any) -> Any:
    """Return what is equal for equal values of JSON, and can be in a set; true is not 1 there."""
    if isinstance(value, dict):
        return frozenset((name, _item_key(item)) for name, item in value.items())
    return tuple(map(_item_key, value)) if isinstance(value, list) else (isinstance(value, bool), value)


def _multiple_of(_: Any, step: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    """Yield the fault of a number that is no multiple, by its decimal digits: 19.99 is one of 0.01, though not in binary."""
    from jsonschema.exceptions import ValidationError

    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and (not isfinite(value) or Fraction(str(value)) % Fraction(str(step))):
        yield ValidationError(f"{value} is not a multiple of {step}")
