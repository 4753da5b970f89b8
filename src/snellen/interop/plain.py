"""Tables with a column of ids and a column of replies, VLMEvalKit's among them (`index`, `prediction`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from snellen.errors import DataError
from snellen.interop.answers import Answer, AnswerFile, Problems, missing
from snellen.interop.fields import Fields, choose, id_of, known, repeat_of, text_of
from snellen.interop.lines import table_rows

PEEKED = 50


def plain(path: Path, id_field: str | None, reply_field: str | None) -> AnswerFile:
    """A table as answers. Raises DataError where the columns cannot be told."""
    names: dict[str, None] = {}
    for _, row in itertools.islice(table_rows(path, Problems()), PEEKED):
        names.update(dict.fromkeys(row))
    if not names:
        raise DataError(f"{path}: no row in it can be read", "Check that this is the file with the answers.")
    toolkit = id_field is None and reply_field is None and "index" in names and "prediction" in names
    fields = Fields("index", "prediction") if toolkit else choose(list(names), str(path), id_field, reply_field)
    form = "vlmevalkit" if toolkit else "plain"
    failed = frozenset(known().failed_replies) if toolkit else frozenset()
    return AnswerFile(
        path,
        form,
        lambda problems: _answers(path, fields, failed, problems),
        f"ids from {fields.id!r}, replies from {fields.reply!r}",
    )


def _answers(path: Path, fields: Fields, failed: frozenset[str], problems: Problems) -> Iterator[Answer]:
    columns = [fields.id, fields.reply, *([fields.repeat] if fields.repeat else [])]
    id_name, reply_name, repeat_name = fields.id, fields.reply, fields.repeat
    for where, row in table_rows(path, problems, columns):
        value, reply = row.get(id_name), row.get(reply_name)
        repeat = 0
        try:
            sample_id = value if type(value) is str and value else id_of(value)
            if repeat_name is not None:
                repeat = repeat_of(row.get(repeat_name))
        except ValueError as error:
            problems.add(where, str(error))
            continue
        try:
            text = reply if type(reply) is str else text_of(reply)
        except ValueError as error:
            problems.add(where, str(error))
            yield missing(sample_id, where, str(error), repeat)
            continue
        if text is None:
            yield missing(sample_id, where, "the row holds no reply", repeat)
        elif text in failed:
            yield missing(sample_id, where, text, repeat)
        else:
            yield Answer(sample_id, text, where, repeat)
