"""How a table was read, in one paragraph: printed before the first request, and part of the run's record."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.benchmarks.base import DataReading
from snellen.benchmarks.table.answers import WORDS
from snellen.benchmarks.table.declaration import OF_CLIPS, OWN_NAMES, Cell, CellSpec
from snellen.benchmarks.table.languages import ENGLISH, languages
from snellen.benchmarks.table.survey import Survey, described
from snellen.benchmarks.table.wording import is_plain
from snellen.errors import DataError
from snellen.text import one_line, shorten

NAMED = 10
"""Rows left out that the paragraph names."""
UNUSED_NAMED = 12
MOST_ENDS = 3
"""Endings of prompts that are listed."""
EXAMPLE = 40
"""Characters of a gold answer that is shown as an example of its kind."""
SAME = ("choice", "truth")
"""Kinds whose answers need no example."""
NOUNS = {
    "multi-choice": ("choice of several options", "choices of several options"),
    "count": ("whole number", "whole numbers"),
    "quantity": ("quantity", "quantities"),
    "short": ("short answer", "short answers"),
    "box": ("box", "boxes"),
    "boxes": ("set of boxes", "sets of boxes"),
    "points": ("set of points", "sets of points"),
    "json": ("object", "objects"),
    "judged": ("free text", "free texts"),
}
"""Kinds in words, one and several, that are not the kind itself with an s."""
ENDS = {
    "choice": "lettered options and a request for the letter",
    "multi-choice": "lettered options and a request for all right letters",
    "truth": "a request for yes or no",
    "short": "a request for a short answer",
    "text": "a request for a short answer",
    "name": "a request for a short answer",
    "count": "a request for a number",
    "judged": "no request for a form",
}
"""What stands behind a question, by its kind."""


def reading_of(surveyed: Survey) -> DataReading:
    """Return how a table was read: its size, columns, prompts, and the rows that are left out.

    Raises:
        DataError: no image of any row is there.
    """
    if surveyed.absent:
        raise DataError(
            f"none of the {surveyed.rows:,} rows can be asked; {surveyed.absent}",
            "Name the folder or archive of the images: --images PATH. No request was sent.",
        )
    omitted = [described(row) for row in surveyed.omitted.values()]
    parts = [_size(surveyed), _kinds(surveyed), *_columns(surveyed), _prompt(surveyed)]
    parts += surveyed.notes
    if surveyed.repeated:
        parts.append(f"questions about the same {_media(surveyed)} form a cluster")
    if surveyed.dropped:
        parts.append(f"{surveyed.dropped:,} rows without an image are no part of it")
    if surveyed.unused:
        more = f" and {len(surveyed.unused) - UNUSED_NAMED} more" if len(surveyed.unused) > UNUSED_NAMED else ""
        parts.append(f"not used: {', '.join(f'`{column}`' for column in surveyed.unused[:UNUSED_NAMED])}{more}")
    if omitted:
        more = f"; and {len(omitted) - NAMED:,} more" if len(omitted) > NAMED else ""
        rows = "row" if len(omitted) == 1 else "rows"
        parts.append(f"{len(omitted):,} {rows} left out: {'; '.join(omitted[:NAMED])}{more}")
    return DataReading(
        text="; ".join(filter(None, parts)), rows=surveyed.rows, samples=surveyed.samples, omitted=tuple(omitted)
    )


def _size(surveyed: Survey) -> str:
    images = f", {surveyed.images:,} {_media(surveyed, surveyed.images)}" if surveyed.images else ", no images"
    return f"{surveyed.samples:,} sample{'' if surveyed.samples == 1 else 's'}{images} ({surveyed.form})"


def _kinds(surveyed: Survey) -> str:
    texts = []
    for kind, count in surveyed.kinds.most_common():
        share = f"{count:,} " if len(surveyed.kinds) > 1 else ""
        example = f", e.g. “{shorten(one_line(surveyed.examples.get(kind, '')), EXAMPLE)}”" if kind not in SAME else ""
        texts.append(f"{share}{_kind(kind, surveyed, several=count != 1)}{example}")
    return "; ".join(texts)


def _kind(kind: str, surveyed: Survey, *, several: bool) -> str:
    if kind == "choice":
        counts = sorted(surveyed.option_counts)
        span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        letters = sorted(surveyed.option_letters)
        choices = "choices" if len(surveyed.kinds) > 1 and several else "choice"
        return f"{choices} of {span} from {letters[0]}…{letters[-1]}"
    if kind == "truth":
        return surveyed.rules.truth_form
    one, more = NOUNS.get(kind, (kind, f"{kind}s"))
    return more if several else one


def _media(surveyed: Survey, count: int = 2) -> str:
    """Return what a table shows, in words: images, clips, or both."""
    rows, more = surveyed.rules.declaration.rows, "" if count == 1 else "s"
    shown = [name for role, name in (("image", "image"), ("video", "clip")) if rows.get(role)]
    return " or ".join(f"{name}{more}" for name in shown or ["image"])


def _columns(surveyed: Survey) -> Iterator[str]:
    rules = surveyed.rules
    rows = rules.declaration.rows
    for role in (
        "question",
        "options",
        "answer",
        "kind",
        "image",
        "pages",
        "frame",
        "object_mask",
        "video",
        *OF_CLIPS,
        "hint",
        "rubric",
        "history",
        "system",
    ):
        if not rows.get(role) or role in surveyed.lacking or (role == "options" and rules.in_question):
            continue
        form = ""
        if role == "answer":
            form = rows[role].as_ if isinstance(rows[role], Cell) else ""  # type: ignore[union-attr]
            form = f" ({WORDS.get(form, form)})" if form else ""
        yield f"{role} ← {_column(rows[role])}{form}"
    if rules.in_question:
        yield "options stand in the question"
    for name, spec in rows.items():
        if name not in OWN_NAMES and name not in surveyed.lacking:
            yield f"{name} ← {_column(spec)}" if name != _column(spec).strip("`") else f"by `{name}`"
    yield f"ids ← {_column(rows['id'])}" if "id" in rows and "id" not in surveyed.lacking else "ids: row numbers from 0"


def _column(spec: CellSpec) -> str:
    if isinstance(spec, tuple):
        first, last = spec[0], spec[-1]
        return f"`{first}`…`{last}`" if len(spec) > 2 else f"`{first}`, `{last}`"
    if isinstance(spec, Cell):
        return f"“{spec.text}”" if spec.text is not None else f"`{'` or `'.join(spec.first_of) or spec.column}`"
    return f"`{spec}`"


def _prompt(surveyed: Survey) -> str:
    rules = surveyed.rules
    if not rules.adds_request and (rules.declared or not is_plain(rules.declaration.prompt)):
        return f"prompt: {'a declared text' if rules.declaration.prompt.template else rules.declaration.prompt.style}"
    media = f"{_media(surveyed)}, " if surveyed.images else ""
    choices = {"choice", "multi-choice"} if rules.in_question else set()
    plain = rules.declaration.prompt.style == "question" and not rules.adds_request
    if plain or (choices and choices.issuperset(surveyed.kinds)):
        return f"prompt: {media}the question as it stands"
    ends = []
    for kind in surveyed.kinds:
        end = "nothing where it holds options" if kind in choices else ENDS.get(kind, f"a request for {_article(kind)}")
        ends.append(end)
    if "truth" in surveyed.kinds and rules.truth_form == "T/F":
        ends = [end.replace("yes or no", "true or false") for end in ends]
    if len(set(ends)) > MOST_ENDS:
        options = "lettered options, " if "choice" in surveyed.kinds and not choices else ""
        ends = [f"{options}and a request that fits its kind{' but where it holds options' if choices else ''}"]
    language = f", in {languages()[rules.language].name}" if rules.language != ENGLISH else ""
    return f"prompt: {media}the question, {' or '.join(dict.fromkeys(ends))}{language}"


def _article(kind: str) -> str:
    noun = NOUNS.get(kind, (kind, ""))[0]
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
