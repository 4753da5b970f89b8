"""Questions of a table: each row becomes a question that can be asked, or the reason why it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from snellen.benchmarks.table.cells import accepted_texts, letter_of, number_of, plain_answer, truth_of, whole
from snellen.benchmarks.table.declaration import Cell, CellSpec, Declaration
from snellen.benchmarks.table.history import turns_of
from snellen.benchmarks.table.images import VIDEO_SUFFIXES, ImageRoot, References, images_of, is_video
from snellen.benchmarks.table.meta import declared_values
from snellen.benchmarks.table.operations import ALL_LETTERS, CellError, drawn_options, lettered, shuffled, value
from snellen.benchmarks.table.option_columns import row_options
from snellen.benchmarks.table.question import OmittedRow, Question
from snellen.benchmarks.table.rows import plain_text
from snellen.benchmarks.table.wording import is_plain, may_hold_mark, numbered_marks, placed, question_text
from snellen.errors import DataError
from snellen.types import Blob, Image, Kind, Video

CUT = 80
RUBRIC = "rubric"
"""The role of the column that says what counts in judging a row; rows with one are free text."""
OPEN_KINDS: Mapping[str, Kind] = {"yes-no": "truth", "number": "count", "judged": "judged"}
"""Reading rule of a declaration to the kind of its open answers; others are short."""


class TableRules(Struct, frozen=True):
    """Rules by which the rows of one table are read, decided from all of its rows.

    Attributes:
        declaration: with the column of each role.
        convention: how an answer names its option: `letter`, `text`, `index0`, `index1`.
        open_kind: the kind of answers to questions without options.
        truth_form: the words of truth questions, `yes/no` or `T/F`.
        in_question: the options stand in the question.
        shuffle: the seed by which options are shuffled; None: they stand as in the file.
        classes: the classes of class folders, which are the options of every row.
        labels: every label of the table, from which options are drawn (`make`).
    """

    declaration: Declaration
    convention: str = "letter"
    open_kind: Kind = "short"
    truth_form: str = "yes/no"
    in_question: bool = False
    shuffle: int | None = None
    classes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def declared(self) -> bool:
        """Return True for a declaration that says how its figures are made."""
        return bool(self.declaration.report)

    def spec(self, role: str) -> CellSpec | None:
        """Return the column of a role."""
        return self.declaration.rows.get(role)


def read_question(
    row: Mapping[str, Any] | DataError,
    number: int,
    place: str,
    rules: TableRules,
    root: ImageRoot,
    references: References | None = None,
) -> Question | OmittedRow | None:
    """Return the question of a row, or why it cannot be asked; None for a row that is no part of the benchmark.

    Args:
        row: the row, or why it cannot be read.
        number: its number, from 0.
        place: its place, for messages.
        rules: how the table is read.
        root: where images are looked for.
        references: the images of another row, by its id.
    """
    if isinstance(row, DataError):
        return OmittedRow(place, "", row.message)
    sample_id = row_id(row, number, rules)
    try:
        return _question(row, number, place, sample_id, rules, root, references)
    except CellError as error:
        return OmittedRow(place, sample_id, error.message)


def row_id(row: Mapping[str, Any], number: int, rules: TableRules) -> str:
    """Return the id of a row: the file's own, else the row's number."""
    spec = rules.spec("id")
    text = "" if spec is None else plain_text(value(spec, row, number)).strip()
    return text or str(number)


def _question(
    row: Mapping[str, Any],
    number: int,
    place: str,
    sample_id: str,
    rules: TableRules,
    root: ImageRoot,
    references: References | None,
) -> Question | None:
    declared = rules.declaration
    images, videos = _media(row, number, rules, root, references)
    if not images and not videos and any(role in declared.rows for role in ("image", "video")):
        if declared.without_image == "drop":
            return None
        if declared.without_image == "stop":
            raise CellError("image missing: its cell is empty")
    text = plain_text(value(declared.rows["question"], row, number))
    if not text.strip():
        raise CellError("its question is empty")
    options = _options(row, number, rules)
    rubric = plain_text(value(declared.rows[RUBRIC], row, number)).strip() if RUBRIC in declared.rows else ""
    if not rules.declared and not rules.in_question:
        text, options = numbered_marks(text, options)
    cell = _answer_cell(row, number, rules)
    made = rules.spec("options")
    if isinstance(made, Cell) and made.make is not None:
        options, cell = drawn_options(plain_text(cell), rules.labels, made.make, made.seed, sample_id)
    if len(options) > 1:
        answer: Any = _letter(cell, options, rules)
        kind: Kind = "choice"
        options, answer = _reordered(options, answer, sample_id, rules)
    elif options:
        raise CellError("it has one option; two or more were expected")
    else:
        answer, kind = _open_answer(cell, rules)
        if kind == "short" and rubric:
            answer, kind = plain_text(cell).strip(), "judged"
    hint = plain_text(value(declared.rows["hint"], row, number)) if "hint" in declared.rows else ""
    history = turns_of(value(declared.rows["history"], row, number)) if "history" in declared.rows else ()
    question = Question(
        sample_id,
        place,
        number,
        text,
        answer,
        kind,
        images,
        videos,
        options,
        hint,
        declared_values(declared, row, number),
        {name: cell for name, cell in row.items() if isinstance(cell, (str, int, float))},
        history,
        rubric,
    )
    if not rules.declared and _may_hold_mark(question, rules):  # a declared prompt says itself where its images stand
        full = question_text(question, declared.prompt, in_question=rules.in_question, form=rules.truth_form)
        placed(full, [*map(Image, images), *videos])
    return question


def _may_hold_mark(question: Question, rules: TableRules) -> bool:
    """Return False if neither the words of a row nor those around them can hold an image mark."""
    if not is_plain(rules.declaration.prompt) or may_hold_mark(question.question) or may_hold_mark(question.hint):
        return True
    return any(map(may_hold_mark, question.options.values()))


def _media(
    row: Mapping[str, Any], number: int, rules: TableRules, root: ImageRoot, references: References | None
) -> tuple[tuple[Blob, ...], tuple[Video, ...]]:
    rows = rules.declaration.rows
    if "image" not in rows and "video" not in rows:
        return (), ()
    blobs: list[Blob] = []
    for role in ("image", "video"):
        spec = rules.spec(role)
        if spec is None:
            continue
        cells = value(spec, row, number)
        if role == "image" and cells in ("", None) and spec == "image":
            cells = row.get("image_path")
        look = images_of if role == "image" else _clips
        blobs += [
            blob for cell in (cells if isinstance(cells, list) else [cells]) for blob in look(cell, root, references)
        ]
    images = tuple(blob for blob in blobs if not is_video(blob))
    return images, tuple(Video(blob) for blob in blobs if is_video(blob))


def _clips(cell: Any, root: ImageRoot, references: References | None) -> tuple[Blob, ...]:
    """Return the clips of a cell, whose names may lack their ending."""
    try:
        return images_of(cell, root, references)
    except CellError:
        if isinstance(cell, (str, int)) and "\n" not in str(cell):
            for suffix in VIDEO_SUFFIXES:
                if (blob := root.find(f"{cell}{suffix}")) is not None:
                    return (blob,)
        raise


def _options(row: Mapping[str, Any], number: int, rules: TableRules) -> dict[str, str]:
    spec = rules.spec("options")
    if rules.classes:
        return dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", rules.classes, strict=False))
    if spec is None:
        return {}
    if isinstance(spec, Cell) and spec.make is not None:
        return {}
    if rules.declared or spec == ALL_LETTERS:
        return lettered(spec, row, number)
    return row_options(spec, row, rules.spec("question"))


def _answer_cell(row: Mapping[str, Any], number: int, rules: TableRules) -> Any:
    cell = value(rules.declaration.rows["answer"], row, number)
    cell = plain_answer(cell)
    if cell is None or cell in ("", [], {}) or cell != cell or (isinstance(cell, str) and not cell.strip()):
        raise CellError("it has no answer")
    return cell


def _letter(cell: Any, options: Mapping[str, str], rules: TableRules) -> str:
    letter = letter_of(cell, options, rules.convention)
    if letter is None and rules.convention in ("letter", "text"):
        letter = letter_of(cell, options, "text" if rules.convention == "letter" else "letter")
    if letter is None:
        known = f"{next(iter(options))} to {list(options)[-1]}"
        expected = {
            "letter": f"a letter from {known}",
            "text": "the text of an option",
            "index0": f"an index from 0 to {len(options) - 1}",
            "index1": f"an index from 1 to {len(options)}",
            "bool": "yes or no",
        }[rules.convention]
        raise CellError(
            f"answer {plain_text(cell)[:CUT]!r} is not among its {len(options)} options; {expected} was expected"
        )
    return letter


def _reordered(options: dict[str, str], answer: str, sample_id: str, rules: TableRules) -> tuple[dict[str, str], str]:
    spec = rules.spec("options")
    seed = spec.shuffle if isinstance(spec, Cell) and spec.shuffle is not None else rules.shuffle
    return (options, answer) if seed is None else shuffled(options, answer, seed, sample_id)


def _open_answer(cell: Any, rules: TableRules) -> tuple[Any, Kind]:
    kind = rules.open_kind
    if kind == "truth":
        truth = truth_of(cell, numbers=True)
        if truth is None:
            raise CellError(f"answer {plain_text(cell)[:CUT]!r} is neither yes nor no")
        return truth, kind
    if kind == "judged":
        return plain_text(cell).strip(), kind
    texts = accepted_texts(cell)
    if kind in ("count", "number"):
        number = number_of(texts[0]) if len(texts) == 1 else None
        if number is None:
            raise CellError(f"answer {plain_text(cell)[:CUT]!r} is no number")
        exact = whole(number)
        return (exact, "count") if kind == "count" and exact is not None else (float(number), "number")
    if not texts:
        raise CellError("it has no answer")
    return (texts[0] if len(texts) == 1 else texts), "short"
