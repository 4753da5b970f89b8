"""Earlier turns of a row: the cell of its column `history`, as turns of a prompt.

A cell is a list of {role: user | assistant, content: text} as chat data sets write them, a list of [user, assistant] pairs,
or either written as JSON. The turns alternate, from the user's first to the assistant's last; the question follows them.
"""

from __future__ import annotations

from typing import Any

from snellen.benchmarks.table.literals import NoLiteralError, is_literal, literal
from snellen.benchmarks.table.operations import CellError
from snellen.types import Text, Turn, TurnRole

MOST_TURNS = 128
_ROLES: dict[str, TurnRole] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot"), "assistant"),
}


def turns_of(cell: Any) -> tuple[Turn, ...]:
    """Return the earlier turns that a cell holds; none for an empty cell.

    Raises:
        CellError: another form, a turn that is no text, or turns that do not alternate.
    """
    if cell is None or cell == "" or cell != cell:
        return ()
    if isinstance(cell, str) and is_literal(cell):
        try:
            cell = literal(cell)
        except NoLiteralError as error:
            raise CellError(f"its history is no list of turns: {error}") from error
    if not isinstance(cell, (list, tuple)):
        raise CellError("its history is no list of turns: [{role, content}, …] was expected")
    entries = [entry for item in cell for entry in _entries(item)]
    if len(entries) > MOST_TURNS:
        raise CellError(f"its history has {len(entries):,} turns; {MOST_TURNS} are sent at most")
    roles = [role for role, _ in entries]
    if len(roles) % 2 or roles != ["user", "assistant"] * (len(roles) // 2):
        raise CellError(
            f"its history has the turns {', '.join(roles[:6])}; user and assistant in turn were expected, up to the "
            "assistant's last"
        )
    return tuple(Turn(role, (Text(text),)) for role, text in entries)


def _entries(item: Any) -> list[tuple[TurnRole, str]]:
    if isinstance(item, (list, tuple)) and len(item) == 2:
        return [("user", _text(item[0])), ("assistant", _text(item[1]))]
    if not isinstance(item, dict):
        raise CellError("a turn of its history is neither {role, content} nor [user, assistant]")
    role = _ROLES.get(str(item.get("role", item.get("from", ""))).lower())
    if role is None:
        raise CellError(
            f"a turn of its history has the role {str(item.get('role'))[:40]!r}; expected user or assistant"
        )
    return [(role, _text(item.get("content", item.get("value"))))]


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise CellError("a turn of its history holds more than text; images belong to the question")
        content = "".join(texts)
    if not isinstance(content, str) or not content.strip():
        raise CellError("a turn of its history has no text")
    return content
