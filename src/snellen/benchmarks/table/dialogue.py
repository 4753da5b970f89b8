"""Dialogues in a cell, as LLaVA and chat data sets write them: the first question, the first answer, and the system text before them.

LLaVA: `conversations`, a list of {from: human | gpt, value}. Chat: `messages`, a list of {role: user | assistant, content},
whose content is a text or a list of parts. Images that parts hold or name become a column too.

Earlier turns of a row: the cell of its column `history`, as turns of a prompt.

A cell is a list of {role: user | assistant, content: text} as chat data sets write them, a list of [user, assistant] pairs,
or either written as JSON. The turns alternate, from the user's first to the assistant's last; the question follows them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from snellen.benchmarks.table.literals import NoLiteralError, is_literal, literal
from snellen.benchmarks.table.operations import CellError
from snellen.sources.blobs import Base64Blob
from snellen.sources.text_tables import is_inline
from snellen.types import Blob, Text, Turn, TurnRole

COLUMNS = ("conversations", "conversation", "messages", "dialogue", "dialog")
QUESTION, ANSWER, TURNS = "conversations:question", "conversations:answer", "conversations:turns"
IMAGES, SYSTEM = "conversations:images", "conversations:system"
_IMAGE_PARTS = ("image", "image_url", "input_image")
_ASKS = ("human", "user")
_SETS = ("system", "developer")
_ANSWERS = ("gpt", "assistant", "model", "chatgpt", "bot")


def with_dialogue(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the first question and answer of its dialogue as columns; any other row as it is."""
    column = next((name for name in COLUMNS if name in row), None)
    if column is None:
        return row
    turns = row[column]
    if isinstance(turns, str) and is_literal(turns):
        try:
            turns = literal(turns)
        except NoLiteralError:
            return row
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        return row
    pairs = [(str(turn.get("from", turn.get("role", ""))).lower(), turn) for turn in turns]
    first_question = next((at for at, (who, _) in enumerate(pairs) if who in _ASKS), None)
    if first_question is None:
        return row
    answer: dict[str, Any] = next((turn for who, turn in pairs[first_question + 1 :] if who in _ANSWERS), {})
    turn_count = sum(who in _ASKS for who, _ in pairs)
    images = _images(pairs[first_question][1])
    system = "\n\n".join(filter(None, (_content(turn) for who, turn in pairs[:first_question] if who in _SETS)))
    further: dict[str, Any] = {IMAGES: images} if images else {}
    if system:
        further[SYSTEM] = system
    return {
        **row,
        **further,
        QUESTION: _content(pairs[first_question][1]),
        ANSWER: _content(answer),
        TURNS: turn_count,
    }


def _images(turn: dict[str, Any]) -> list[str] | tuple[Blob, ...]:
    """Return the images that the parts of a turn hold or name; empty if its parts only say where images stand."""
    content = turn.get("value", turn.get("content", ""))
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [text for part in parts if _is_image(part) and (text := _image_text(part))]
    if not texts or not all(map(is_inline, texts)):
        return texts
    return tuple(
        Base64Blob(f"inline image {blake2b(text.encode(), digest_size=8).hexdigest()}", text) for text in texts
    )


def _is_image(part: dict[str, Any]) -> bool:
    return part.get("type", "image" if "image" in part else "") in _IMAGE_PARTS


def _image_text(part: dict[str, Any]) -> str:
    for name in ("image_url", "image", "url", "path", "source", "data"):
        value = part.get(name)
        if isinstance(value, dict):
            value = _image_text(value)
        if isinstance(value, str) and value:
            return value
    return ""


def _content(turn: dict[str, Any]) -> str:
    """Return the text of a turn; an image among its parts is the mark `<image>`."""
    content = turn.get("value", turn.get("content", ""))
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content]
        return "".join("<image>" if _is_image(part) else _text(part) for part in parts)
    return content if isinstance(content, str) else ""


def _text(part: dict[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else ""


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
        return [("user", _text_of_part(item[0])), ("assistant", _text_of_part(item[1]))]
    if not isinstance(item, dict):
        raise CellError("a turn of its history is neither {role, content} nor [user, assistant]")
    role = _ROLES.get(str(item.get("role", item.get("from", ""))).lower())
    if role is None:
        raise CellError(
            f"a turn of its history has the role {str(item.get('role'))[:40]!r}; expected user or assistant"
        )
    return [(role, _text_of_part(item.get("content", item.get("value"))))]


def _text_of_part(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise CellError("a turn of its history holds more than text; images belong to the question")
        content = "".join(texts)
    if not isinstance(content, str) or not content.strip():
        raise CellError("a turn of its history has no text")
    return content
