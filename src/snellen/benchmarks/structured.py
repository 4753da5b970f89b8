"""Benchmarks whose replies follow a JSON Schema: what is asked carries it, and profile `strict` reads the field `answer`.

Without a schema a benchmark is untouched, and so is the fingerprint of its runs.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import UsageError
from snellen.scoring.answers.base import fields_schema
from snellen.scoring.readings import PROFILE
from snellen.scoring.scorers import answer_schema
from snellen.scoring.scores import RepeatScorer
from snellen.scoring.structured import ANSWER, reading_answers
from snellen.sources.safe_paths import regular_file
from snellen.types import Generation, Sample

AUTO, WITH_REASONING = "auto", "auto+reasoning"
AUTOMATIC = (AUTO, WITH_REASONING)
MOST_BYTES = 64 << 10
"""Size of a schema. It goes out with every request."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_HINT = "`snellen --help structured-output` has an example; auto makes the schema of each question."
_MOST_SETTINGS = 256


def structured(benchmark: Benchmark, schema: Mapping[str, Any] | str) -> Benchmark:
    """Return the benchmark with a schema of the reply in each prompt; itself where it has this one already.

    Args:
        schema: as `checked_schema` returns it.
    """
    if benchmark.study.get("schema") == schema:
        return benchmark
    # Prompts of one benchmark share few settings, and writers of requests keep what they made of the last ones.
    known: dict[tuple[int, str], tuple[Generation | None, Generation]] = {}

    def change(sample: Sample) -> Sample:
        own = sample.prompt.generation
        wanted = (
            automatic_schema(sample, reasoning=schema == WITH_REASONING) if isinstance(schema, str) else dict(schema)
        )
        key = (id(own), json.dumps(wanted) if isinstance(schema, str) else "")
        if key not in known or known[key][0] is not own:
            if len(known) >= _MOST_SETTINGS:
                known.clear()
            known[key] = (own, structs.replace(own or Generation(), reply_schema=wanted))
        return structs.replace(sample, prompt=structs.replace(sample.prompt, generation=known[key][1]))

    def samples(data: Data) -> Iterator[Sample]:
        return map(change, benchmark.samples(data))

    grow, make, strict = benchmark.grow, benchmark.sample, benchmark.score.get(PROFILE)
    score = dict(benchmark.score)
    if strict is not None and not isinstance(strict, RepeatScorer):
        score[PROFILE] = reading_answers(strict)
    return replace(
        benchmark,
        samples=samples,
        score=score,
        grow=None if grow is None else lambda data, answers: [change(sample) for sample in grow(data, answers)],
        sample=None if make is None else lambda data, name: change(make(data, name)),
        study={**benchmark.study, "schema": schema},
    )


def automatic_schema(sample: Sample, *, reasoning: bool = False) -> dict[str, Any]:
    """Return the schema of a question's reply by its kind: {"answer": …}, with `reasoning` before it if asked for.

    A choice is one of the letters of this question. Kinds without a form of their own are texts.

    Raises:
        UsageError: the kind is `json`, whose fields only the gold answer knows.
    """
    if sample.kind == "json":
        raise UsageError(
            f"--schema auto: {sample.id} asks for a JSON object, whose fields are part of the gold answer.",
            "Write a schema with these fields, and name it: --schema FILE. No request was sent.",
        )
    steps: dict[str, Any] = {"reasoning": {"type": "string"}} if reasoning else {}
    return fields_schema(**steps, **{ANSWER: answer_schema(sample)})


def checked_schema(schema: Mapping[str, Any] | str | Path) -> dict[str, Any] | str:
    """Return `auto`, `auto+reasoning`, or the content of a schema that is given or stands in a file.

    Raises:
        UsageError: the file cannot be read, or holds no JSON Schema of at most 64 KiB that refers to itself alone.
    """
    if isinstance(schema, str) and schema in AUTOMATIC:
        return schema
    if isinstance(schema, Mapping):
        where, content = "the schema", msgspec.json.encode(schema)
    else:
        where, path = f"--schema {schema}", Path(schema).expanduser()
        if not path.is_file() and isinstance(schema, str) and not path.suffix:
            error = UsageError(f"{where}: there is no such file", f"Name a file, {', or '.join(AUTOMATIC)}. {_HINT}")
            raise error.near(schema, AUTOMATIC, "{}")
        try:
            regular_file(path)
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{where}: the file cannot be read: {error.strerror or error}", _HINT) from None
    if len(content) > MOST_BYTES:
        raise UsageError(f"{where} has more than {MOST_BYTES:,} bytes; every request would carry it.", "Shorten it.")
    try:
        # json would take NaN and halves of surrogate pairs, which no request can carry.
        value = msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}", _HINT) from None
    if not isinstance(value, dict) or not value:
        raise UsageError(f"{where} is {type(value).__name__}; a JSON Schema, which is an object, was expected.", _HINT)
    _require_schema(value, where)
    return value


def _require_schema(value: dict[str, Any], where: str) -> None:
    """Raise UsageError for what is no JSON Schema, or refers to anything but itself."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not isinstance(value.get("$schema", ""), str):
        raise UsageError(f"{where} is no JSON Schema: $schema: an address was expected", _HINT)
    try:
        validator_for(value, default=Draft202012Validator).check_schema(value)
        references = list(_references(value))
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "its top"
        raise UsageError(f"{where} is no JSON Schema: {place}: {error.message[:200]}", _HINT) from None
    except RecursionError:
        raise UsageError(f"{where} is nested too deeply.", "Shorten it.") from None
    resolver = Registry().with_resource("", DRAFT202012.create_resource(value)).resolver()
    for reference in references:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise UsageError(
                f"{where} refers to {str(reference)[:200]!r}; a schema may refer to itself alone.",
                'Copy that schema in, under "$defs", and refer to it as "#/$defs/NAME".',
            )
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise UsageError(f"{where} refers to {reference[:200]!r}, which it does not hold.", _HINT) from None


def _references(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _REFERENCES:
                yield inner
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
