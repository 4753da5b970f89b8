"""Judge rubrics: their files, the prompt that they make, and strict parsing of the judge's verdict.

A verdict is one JSON object and nothing else or, where a rubric says so, the number after a literal marker, or the letter
of an option. Anything else is no verdict; no rule guesses one from prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.errors import JudgeError
from snellen.text import normalized, whole_text
from snellen.types import Sample, Score, Text, Verdict

BUILT_IN = (
    "match",
    "graded",
    "judged",
    "attempted",
    "by-row",
    "reader",
    "vlm2-ab",
    "vlm2-aba",
    "fika",
    "easi",
    "option",
    "described",
)
PLACES = ("question", "options", "gold", "criteria", "reply", "nonce", "shape")
ROW_PLACES = ("row_question", "row_options", "row_options_block", "row_answer")
"""Places in VLMEvalKit's form: the row's question without the rest of the prompt, its options one a line, and its answer."""
ROW_QUESTION = "row_question"
"""The name of a sample's meta that has the question of its row, as a tuple of one text."""
GOLD_PLACES = ("gold", "row_answer")
NO_ANSWER = "C"
"""The grade of a reply without an answer, of rubrics that have the answer copied."""
NO_OPTION = "Z"
"""The judge's letter for a reply that means none of the options, as in VLMEvalKit."""
QUOTE, OPTION = "quote", "option"
"""Members of a reader's object."""
CRITERIA = "rubric"
"""The name of a sample's meta that says what counts in judging it, as a tuple of one text."""
REPLY_CHARACTERS = 20_000
RUBRIC_BYTES = 1 << 20
SOURCE, RULE = "judge_source", "rule"
"""The member of a verdict that names its source, and the value for a rule instead of a judge."""
_PLACE = re.compile("{(" + "|".join(PLACES + ROW_PLACES) + ")}")
_BRACED = re.compile("{([a-z]+)}")
_FENCE = re.compile(r"\A```(?:json|JSON)?[ \t]*\n")
_DIGITS = 15  # a double holds every whole number of so many digits
_FEW = 5
_LINE = re.compile(r"(\S+?)(?:(?:\t|\\t)(.*))?")
_LETTER = re.compile(r"(\*{0,2})(?:\(([A-Z])\)|([A-Z]))[.:]?\1")
_NO_REASON = ("", "N/A")
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class Schema(Struct, frozen=True, forbid_unknown_fields=True):
    """The form of a verdict.

    Attributes:
        field: the member that holds the verdict.
        labels: allowed labels, each with its score from 0 to 1; empty for a number.
        range: (low, high) of a number, which is scored (x - low) / (high - low); None for labels.
        reason: the member that holds the judge's reason; empty: no reason is requested.
        marker: literal text before the verdict, a whole number; empty: the verdict is a JSON object.
        reask: whether the judge is asked once more if its verdict cannot be parsed.
        quote: the object is a reader's: it quotes the answer from the reply, and may name an option.
        line: the verdict may also be one line, a label, a tab and the reason, as VLMEvalKit's judge writes it.
        option: the judge names the option that the reply means, by its letter, or Z for none (`for_sample`).
        extracts: the reason is the answer, copied from the reply: a rule scores it where no option is asked for.
    """

    field: str = "verdict"
    labels: Mapping[str, float] = msgspec.field(default_factory=dict)
    range: tuple[float, float] | None = None
    reason: str = ""
    marker: str = ""
    reask: bool = True
    quote: bool = False
    line: bool = False
    option: bool = False
    extracts: bool = False


class _Parts(Struct, frozen=True, forbid_unknown_fields=True):
    template: str
    verdict: Schema
    system: str = ""
    about: str = ""
    max_tokens: int | None = None
    judge: str = ""
    source: str = ""
    verbatim: bool = False


class Rubric(Struct, frozen=True):
    """A parsed and checked rubric file. `digest` is the digest of what the judge is asked.

    `max_tokens` limits the judge's reply, unless the user sets a limit; None leaves it to the model. `judge` is the model
    that published figures were judged by, and `source` says whose words they are; both may be empty.
    """

    name: str
    about: str
    system: str
    template: str
    verdict: Schema
    digest: str
    max_tokens: int | None = None
    judge: str = ""
    source: str = ""

    @property
    def guarded(self) -> bool:
        """Return True if marks with a code that its writer cannot know stand around the reply."""
        return "{nonce}" in self.system + self.template

    def for_sample(self, sample: Sample) -> Rubric:
        """Return the rubric for one sample: where the judge names an option, its labels are the sample's letters."""
        if not self.verdict.option:
            return self
        golds = sample.target if isinstance(sample.target, (list, tuple)) else (sample.target,)
        labels = {NO_OPTION: 0.0, **{letter: float(letter in golds) for letter in sample.options}}
        return structs.replace(self, verdict=structs.replace(self.verdict, labels=labels))

    @property
    def shape(self) -> str:
        """The requested form of the verdict, as the judge would write it: the object, or the line with the marker."""
        schema = self.verdict
        if schema.option:
            letters = ", ".join(letter for letter in schema.labels if letter != NO_OPTION) or "the option's letter"
            return f"{letters}, or {NO_OPTION} for none"
        if schema.quote:
            copied = "<the answer, copied from the reply character by character>"
            return f'{{"{QUOTE}": "{copied}" | null, "{OPTION}": "<letter of the option>" | null}}'
        if schema.marker and schema.range is not None:
            low, high = (int(end) for end in schema.range)
            if high - low < _FEW:
                return " or ".join(f"{schema.marker} {number}" for number in range(low, high + 1))
            return f"{schema.marker} N (N is a whole number from {low} to {high})"
        if schema.range is None:
            value = " | ".join(json.dumps(label, ensure_ascii=False) for label in schema.labels)
        else:
            value = f"<number from {schema.range[0]:g} to {schema.range[1]:g}>"
        reason = f', "{schema.reason}": "<one short sentence>"' if schema.reason else ""
        return f'{{"{schema.field}": {value}{reason}}}'


def built_in(name: str) -> Rubric:
    """Return a rubric of the package. Raises JudgeError for an unknown name."""
    if name not in BUILT_IN:
        raise JudgeError(
            f"there is no rubric {name!r}",
            f"Rubrics: {', '.join(BUILT_IN)}; or give a file, .toml (`snellen --help judge`).",
        ).near(name, BUILT_IN)
    return parse_rubric(files(__package__).joinpath("rubrics", f"{name}.toml").read_text("utf-8"), name)


class Rubrics(Struct, frozen=True):
    """The rubrics of one file: one for every reply (`""`), or one for each name of a benchmark or of a benchmark's own rubric."""

    name: str
    rubrics: Mapping[str, Rubric]

    @property
    def alone(self) -> Rubric | None:
        """Return the rubric for every reply; None for a file of several."""
        return self.rubrics.get("")

    def of(self, own: Rubric | None, benchmark: str) -> Rubric | None:
        """Return the rubric for a reply that a benchmark's own rubric decides (None: it has none); None if it has none here."""
        return self.alone or self.rubrics.get(benchmark.partition("/")[0] if own is None else own.name)


def usable_rubrics(name: str) -> Rubrics:
    """Load rubrics for a judge. Raises JudgeError as `load_rubrics` and `require_known_places`."""
    loaded = load_rubrics(name)
    for rubric in loaded.rubrics.values():
        require_known_places(rubric)
    return loaded


def load_rubric(name: str) -> Rubric:
    """Load the rubric of a file that holds one, as `load_rubrics`; raises JudgeError for one that holds several."""
    loaded = load_rubrics(name)
    if loaded.alone is None:
        raise JudgeError(
            f"rubric {name} holds several: {', '.join(loaded.rubrics)}", "Name a file that holds one rubric."
        )
    return loaded.alone


def load_rubrics(name: str) -> Rubrics:
    """Load a rubric of the package by name, or those of a user's file by path (.toml).

    Raises:
        JudgeError: there is none, or it is not a rubric.
    """
    path = Path(name)
    if path.suffix != ".toml":
        if name not in BUILT_IN and path.exists():
            kind = "a folder" if path.is_dir() else "a file that does not end in .toml"
            raise JudgeError(
                f"rubric {name} is {kind}; a rubric file is TOML", "Name it with its ending: --rubric FILE.toml"
            )
        return Rubrics(name, {"": built_in(name)})
    try:
        if path.stat().st_size > RUBRIC_BYTES:
            raise JudgeError(f"rubric {name}: larger than {RUBRIC_BYTES:,} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JudgeError(f"rubric {name}: cannot be read: {error}", "Check the path; it is a TOML file.") from error
    return parse_rubrics(text, name)


def parse_rubrics(text: str, name: str) -> Rubrics:
    """Parse a file of rubrics: a rubric, or `[rubrics.NAME]` tables, each with the `names` that it is for in place of its own.

    Raises:
        JudgeError: as `parse_rubric`.
    """
    several = _document(text, name).get("rubrics")
    if not isinstance(several, dict) or not several or not all(isinstance(table, dict) for table in several.values()):
        return Rubrics(name, {"": parse_rubric(text, name)})
    rubrics: dict[str, Rubric] = {}
    for key, table in several.items():
        names = table.pop("names", [key])
        rubric = _rubric(table, text, f"{name}, {key}")
        rubrics |= dict.fromkeys(map(str, names if isinstance(names, list) else [names]), rubric)
    return Rubrics(name, rubrics)


def _document(text: str, name: str) -> dict[str, Any]:
    from snellen.toml_text import parse_toml  # patterns are compiled, and a run without a judge reads no rubric

    try:
        return parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise JudgeError(f"rubric {name}: {error}", "`snellen --help judge` shows what a rubric file holds.") from error


def parse_rubric(text: str, name: str) -> Rubric:
    """Parse the text of a rubric file.

    Raises:
        JudgeError: not TOML, a member is missing or unknown, no place for the reply, or an invalid schema.
    """
    return _rubric(_document(text, name), text, name)


def _rubric(table: Mapping[str, Any], text: str, name: str) -> Rubric:
    """Return a checked rubric; `text` is the file that it stands in."""
    try:
        parts = msgspec.convert(table, _Parts)
    except msgspec.ValidationError as error:
        raise JudgeError(
            f"rubric {name}{_line_of(text, str(error))}: {error}",
            "`snellen --help judge` shows what a rubric file holds.",
        ) from error
    schema = parts.verdict
    prompt = parts.system + parts.template
    checks = {
        "{reply} does not occur in it": "{reply}" in prompt,
        "{reply} does not occur in its template": "{reply}" in parts.template or "{reply}" not in prompt,
        "its verdict needs labels, a range or a quote, or option = true, and one of them": (
            bool(schema.labels) + (schema.range is not None) + schema.quote + schema.option == 1
        ),
        "a letter stands alone, without a marker or a reason": not (schema.option and (schema.marker or schema.reason)),
        "what is copied stands in the reason": not schema.extracts or bool(schema.reason),
        "a reader must not see the gold answer: {gold}": not schema.quote
        or not any(f"{{{place}}}" in prompt for place in GOLD_PLACES),
        "behind a marker stands a number, not a quote": not (schema.quote and schema.marker),
        "a verdict of one line has a label and no marker": not schema.line or bool(schema.labels and not schema.marker),
        "the scores of its labels must lie between 0 and 1": all(0 <= value <= 1 for value in schema.labels.values()),
        "its range must go from low to high": schema.range is None or schema.range[0] < schema.range[1],
        "the verdict and the reason need names of their own": schema.field not in ("", schema.reason),
        **(_marker_checks(schema) if schema.marker else {}),
        "its max_tokens must be at least 1": parts.max_tokens is None or parts.max_tokens >= 1,
    }
    faults = [fault for fault, passed in checks.items() if not passed]
    if faults:
        raise JudgeError(
            f"rubric {name}: {'; '.join(faults)}", "`snellen --help judge` shows what a rubric file holds."
        )
    system, template = parts.system, parts.template
    if not parts.verbatim:
        system, template = system.strip(), template.strip()
    return Rubric(
        name, parts.about, system, template, schema, _digest(parts), parts.max_tokens, parts.judge, parts.source
    )


def _line_of(text: str, message: str) -> str:
    """Return the line of the member that the message names (`, line 3`); empty if it is not in the file."""
    names = re.findall(r"unknown field `([^`]+)`", message) or re.findall(r"\.(\w+)(?:\[\.\.\.\])?`", message)
    if not names:
        return ""
    member = re.compile(rf"\s*(?:{re.escape(names[-1])}\s*=|\[(?:\w+\.)*{re.escape(names[-1])}\])")
    return next((f", line {number}" for number, line in enumerate(text.splitlines(), 1) if member.match(line)), "")


def _marker_checks(schema: Schema) -> dict[str, bool]:
    """Return each fault that a rubric with a marker can have, and whether this one is free of it."""
    ends = schema.range or (-1.0,)
    whole = all(end.is_integer() and 0 <= end < 10**_DIGITS for end in ends)
    alone = not schema.reason and schema.field == Schema().field
    return {
        "with a marker it needs a range of whole numbers from 0 up": whole,
        "behind a marker stands a number alone, without a field or a reason": alone,
        "its marker must not begin or end with white space": schema.marker == schema.marker.strip(),
    }


def _digest(parts: _Parts) -> str:
    """Return the digest of the file's content; unused members of later versions do not change it."""
    described = msgspec.to_builtins(parts)
    described["verdict"]["labels"] = dict(sorted(described["verdict"]["labels"].items()))
    for name in ("line", "extracts"):  # the judge is asked the same, so what it said before can be read too
        del described["verdict"][name]
    del described["judge"], described["source"]
    for holder, name, unused in (
        (described, "max_tokens", None),
        (described, "verbatim", False),
        (described["verdict"], "marker", ""),
        (described["verdict"], "reask", True),
        (described["verdict"], "quote", False),
        (described["verdict"], "option", False),
    ):
        if holder[name] == unused:
            del holder[name]
    return blake2b(msgspec.json.encode(described), digest_size=8).hexdigest()


def require_known_places(rubric: Rubric) -> None:
    """Raise JudgeError if a rubric holds a misspelt place, such as `{qestion}`: the judge would be sent it verbatim.

    Other words in braces stay: a rubric may show the judge a form of answer.
    """
    for word in dict.fromkeys(_BRACED.findall(rubric.system + rubric.template)):
        matches = get_close_matches(word, PLACES, 1, 0.7) if word not in PLACES else []
        if matches:
            places = ", ".join(f"{{{place}}}" for place in PLACES)
            raise JudgeError(
                f"rubric {rubric.name}: {{{word}}} is no place of a rubric",
                f"Write {{{matches[0]}}}. The places: {places}.",
            )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values into the places of a template, in one pass: a reply that contains `{gold}` stays as it is.

    A place without a value stays empty.
    """
    return _PLACE.sub(lambda match: values.get(match[1], ""), template)


def nonce(seed: int, sample_id: str, reply: str) -> str:
    """Return the code on the marks around a reply: reproducible, but unknown to the reply's author."""
    return blake2b(f"{seed}\0{sample_id}\0{reply}".encode(errors="surrogatepass"), digest_size=8).hexdigest()


def places(rubric: Rubric, sample: Sample, reply: str, seed: int) -> dict[str, str]:
    """Return the values of a rubric's places for one sample; a reply over 20,000 characters is cut in the middle.

    Source of the row's places: `build_option_str` and `extract_ans_by_llm` of VLMEvalKit's spatial benchmarks.
    """
    options = "\n".join(f"{letter}. {text}" for letter, text in sample.options.items())
    own = {letter: text for letter, text in sample.options.items() if text}
    listed = "".join(f"{letter}. {text}\n" for letter, text in own.items())
    answer = str(sample.meta.get("gold", sample.target))
    letter = answer.strip().upper()
    return {
        "question": "\n".join(
            p.text if isinstance(p, Text) else f"[{type(p).__name__.lower()}]" for p in sample.prompt.parts
        ),
        "options": f"\nOptions:\n{options}\n" if options else "",
        "gold": "" if rubric.verdict.quote else gold_text(sample),
        "criteria": f"\nWhat counts here: {criteria}\n" if (criteria := criteria_of(sample)) else "",
        "reply": shortened(reply, REPLY_CHARACTERS),
        "nonce": nonce(seed, sample.id, reply),
        "shape": rubric.shape,
        "row_question": _meta_text(sample, ROW_QUESTION) or sample.prompt.words,
        "row_options": listed,
        "row_options_block": f"Options:\n{listed}\n" if listed else "",
        "row_answer": f"{letter}. {own[letter]}" if letter in own else answer,
    }


def _meta_text(sample: Sample, name: str) -> str:
    """Return a text of a sample's meta that is no column of scores: a tuple of one text; empty without."""
    texts = sample.meta.get(name, ())
    return "\n".join(map(str, texts)) if isinstance(texts, tuple) else ""


def criteria_of(sample: Sample) -> str:
    """Return what a sample says that counts in judging it; empty without."""
    return _meta_text(sample, CRITERIA)


def gold_forms(sample: Sample) -> tuple[str, ...]:
    """Return the gold answer in each accepted form, as text."""
    target = sample.target
    golds = list(target) if isinstance(target, (list, tuple, set, frozenset)) else [] if target is None else [target]
    aliases = sample.meta.get("aliases") or ()
    golds += [aliases] if isinstance(aliases, str) else list(aliases)
    texts = [("yes" if gold else "no") if isinstance(gold, bool) else str(gold) for gold in golds]
    texts += [sample.options[text] for text in texts if text in sample.options]
    return tuple(dict.fromkeys(texts))


def gold_text(sample: Sample) -> str:
    """Return the gold answer for the judge: the letter with its text, then other accepted forms."""
    forms = gold_forms(sample)
    if not forms:
        return "(none is given; go by the question)"
    also = f" (also accepted: {'; '.join(forms[1:])})" if len(forms) > 1 else ""
    if sample.kind == "choice" and len(forms) > 1:
        also = f" ({'; '.join(forms[1:])})"
    return forms[0] + also


def shortened(text: str, characters: int) -> str:
    """Cut the middle out of a long text: a reply begins with its subject and ends with its answer."""
    parts = shown_parts(len(text), characters)
    return f"\n[… {len(text) - characters:,} characters left out …]\n".join(text[start:end] for start, end in parts)


def shown_parts(length: int, characters: int) -> list[tuple[int, int]]:
    """Return start and end of the parts of a text that `shortened` keeps: all of it, or head and tail."""
    if length <= characters:
        return [(0, length)]
    head = characters // 4
    return [(0, head), (length + head - characters, length)]


def plain_letters(text: str) -> str:
    """Return letters and digits only, normalised (NFKC) and without case: the key by which a rule compares names."""
    if text.isascii():
        return "".join(filter(str.isalnum, text.lower()))
    return "".join(filter(str.isalnum, normalized("NFKC", text).casefold()))


class JudgeVerdict(Struct, frozen=True):
    """A parsed verdict: `answer` is the label or number, `value` its score, `source` who gave it.

    After a marker a number outside its range is a verdict too: its value then lies below 0 or above 1.
    """

    answer: str | float
    value: float
    reason: str
    source: str = "judge"


def verdict_object(reply: str) -> dict[str, Any]:
    """Parse a reply that is one JSON object; a surrounding code fence and a preceding closed <think> block are ignored.

    Raises:
        ValueError: it is anything else; the message tells the judge how to correct it.
    """
    text = _THOUGHT.sub("", reply).strip()
    fence = _FENCE.match(text)
    if fence is not None and text.endswith("```") and len(text) >= fence.end() + 3:
        text = text[fence.end() : -3].strip()
    try:
        verdict = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not one JSON object and nothing else ({error.msg} at character {error.pos})") from None
    if not isinstance(verdict, dict):
        raise ValueError("it is JSON, but not an object")
    return verdict


def read_verdict(reply: str, schema: Schema) -> JudgeVerdict:
    """Parse the verdict in a judge's reply.

    With a marker: the number after its first hit (`read_marked`). Else the whole reply must be one JSON object that
    holds the verdict. A surrounding code fence and a preceding closed <think> block are ignored, and so are further
    members. With `line` it may be a label, a tab (or `\\t` in two characters) and the reason, on one line and alone; with
    `option` the letter alone, also in brackets, bold or with a point.

    Raises:
        ValueError: it is anything else; the message tells the judge how to correct it.
    """
    if schema.marker:
        return read_marked(reply, schema)
    if schema.line and (line := _LINE.fullmatch(_THOUGHT.sub("", reply).strip())) and line[1] in schema.labels:
        reason = (line[2] or "").strip()
        return JudgeVerdict(line[1], schema.labels[line[1]], "" if reason in _NO_REASON else reason)
    if schema.option and (found := _LETTER.fullmatch(_THOUGHT.sub("", reply).strip())):
        verdict: dict[str, Any] = {schema.field: found[2] or found[3]}
    else:
        verdict = verdict_object(reply)
    if schema.field not in verdict:
        raise ValueError(f"the object has no {schema.field!r}")
    answer, reason = verdict[schema.field], verdict.get(schema.reason, "") if schema.reason else ""
    if not isinstance(reason, str):
        raise ValueError(f"{schema.reason!r} must be a text")
    reason = whole_text(reason)
    source = RULE if verdict.get(SOURCE) == RULE else "judge"
    if schema.range is None:
        if not isinstance(answer, str) or answer not in schema.labels:
            raise ValueError(f"{schema.field!r} is {_shown(answer)}; expected one of {', '.join(schema.labels)}")
        return JudgeVerdict(answer, schema.labels[answer], reason, source)
    low, high = schema.range
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not low <= answer <= high:
        raise ValueError(f"{schema.field!r} is {_shown(answer)}; expected a number from {low:g} to {high:g}")
    return JudgeVerdict(answer, (answer - low) / (high - low), reason, source)


def read_marked(reply: str, schema: Schema) -> JudgeVerdict:
    """Parse the verdict after a marker: its first hit with decimal digits after it, with or without white space
    between.

    The marker is literal and case-sensitive; digits are any Unicode decimal digits, and parsing stops at the first
    other character: `1.5` is 1, `2/2` is 2, and with a sign or markup before the digits there is none. The value is (x
    - low) / (high - low) and is not clamped; `reason` says if x is out of range.

    Raises:
        ValueError: there is no such number, or one that is too long for a float.

    Source: VLM2-Bench, the released evaluator of pc-vid.
    """
    match = re.search(re.escape(schema.marker) + r"\s*(\d+)", reply)
    if match is None:
        raise ValueError(f"it has no {schema.marker!r} with a whole number behind it")
    # Leading zeros of any script count for nothing.
    digits = "".join(str(int(digit)) for digit in match[1]).lstrip("0") or "0"
    if len(digits) > _DIGITS:
        raise ValueError(f"the number behind {schema.marker!r} has {len(match[1]):,} digits")
    number = int(digits)
    low, high = schema.range or (0.0, 1.0)
    reason = "" if low <= number <= high else f"out of range: {number}, expected {low:g} to {high:g}"
    return JudgeVerdict(number, (number - low) / (high - low), reason)


def marked_or_object(answer: str | float, schema: Schema) -> str:
    """Return a judge's reply that holds this verdict and nothing else."""
    if schema.marker:
        return f"{schema.marker} {answer}"
    return msgspec.json.encode({schema.field: answer}).decode()


def ruled(schema: Schema) -> str:
    """Return the reply that stands for a judge's if a rule found an answer correct: a label worth 1, or the highest number.

    Raises:
        JudgeError: no label is worth 1, so that none means "correct".
    """
    if schema.range is not None:
        high = schema.range[1]
        if schema.marker:
            return marked_or_object(int(high), schema)
        return msgspec.json.encode({schema.field: high, SOURCE: RULE}).decode()
    label = next((label for label, value in schema.labels.items() if value == 1.0), None)
    if label is None:
        raise JudgeError("the rubric has no label worth 1, which a rule could give", "Judge without --rule.")
    return msgspec.json.encode({schema.field: label, SOURCE: RULE}).decode()


def score_verdict(reply: str, schema: Schema) -> Score:
    """Score a judge's reply; unscored, with the reason, if it holds no verdict.

    A number out of its range is neither right nor wrong: `partial`, with a value below 0 or above 1. With more than two
    labels, `detail` holds the label as `judge_verdict`, with its `judge_source`; with fewer the source alone where it is a rule.
    """
    try:
        read = read_verdict(reply, schema)
    except ValueError as error:
        return Score(None, None, "unscored", f"no verdict: {error}")
    if schema.option and read.answer == NO_OPTION and not read.value:
        detail: dict[str, Any] = {"judge_verdict": NO_OPTION, SOURCE: read.source}
        return Score(0.0, None, "invalid", "the judge found none of the options in it", detail)
    verdict: Verdict = "correct" if read.value == 1.0 else "wrong" if read.value == 0.0 else "partial"
    source = {SOURCE: read.source} if read.source == RULE or len(schema.labels) > 2 else {}
    detail = {"judge_verdict": read.answer, **source} if len(schema.labels) > 2 else source
    return Score(read.value, read.answer, verdict, read.reason or None, detail)


def score_judged(sample: Sample, reply: str, rubric: Rubric, rule: Callable[[Sample, str], Score]) -> Score:
    """Score a judge's reply about a sample; where the rubric has the answer copied, `rule` scores it, but for options.

    A judge may say what a reply says; the arithmetic of a score is not left to it.
    """
    schema = rubric.for_sample(sample).verdict
    score = score_verdict(reply, schema)
    if not schema.extracts or score.value is None:
        return score
    read = read_verdict(reply, schema)
    detail: dict[str, Any] = {"judge_verdict": read.answer, SOURCE: read.source}
    if read.answer == NO_ANSWER:
        return Score(0.0, None, "invalid", "the judge found no answer in it", detail)
    if sample.kind == "choice":
        right = read.value == 1.0
        return Score(float(right), read.reason, "correct" if right else "wrong", None, detail)
    score = rule(sample, read.reason)
    return Score(score.value, score.extracted, score.verdict, score.reason, detail)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member occurs twice, so that there are two verdicts")
    return members


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), 60)
