"""Survey of a table before its first request: roles of columns, forms of answers, rows that cannot be asked, repeated images.

It goes through the rows twice and reads each image once. It is kept while the process lasts and the file stays as it is.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.table.answers import AnswerCounts
from snellen.benchmarks.table.cells import CONVENTIONS
from snellen.benchmarks.table.columns import HEAD, Recognition, parse_map, recognise
from snellen.benchmarks.table.declaration import Cell, CellSpec, Declaration
from snellen.benchmarks.table.image_checks import ImageChecks, OnRead
from snellen.benchmarks.table.images import IMAGE_SUFFIXES, AbsentImages, ImageRoot, codes_of_names
from snellen.benchmarks.table.kit_reading import FORMS, difference_note, is_kit_reading, is_kit_table
from snellen.benchmarks.table.operations import (
    ALL_LETTERS,
    LETTERS,
    CellError,
    columns_of,
    first_is_always_right,
    lettered,
    value,
)
from snellen.benchmarks.table.option_columns import row_options
from snellen.benchmarks.table.question import OmittedRow, Question
from snellen.benchmarks.table.questions import OPEN_KINDS, TableRules, read_question, row_id
from snellen.benchmarks.table.rows import CLASSES, EXCEL, Row, Rows, open_rows, plain_text
from snellen.benchmarks.table.wording import lists_options
from snellen.errors import DataError
from snellen.sources.digests import digest
from snellen.sources.pandas_cells import ColumnForms

MOST_CLASSES = 26
CLASS_QUESTION = "Which of these does the image show?"
SEED = 0
FEWEST_IDS = 0.9
"""A column holds ids if at least that share of its values is unique."""
REFERENCE_STEPS = 10
REQUIRED, MEDIA = ("question", "options", "answer"), ("image", "video")
KIT_NAMES = "image_path"
"""The column of VLMEvalKit that names images, for tables without a column of images."""


class Survey(Struct):
    """What is known of a table before its first request.

    Attributes:
        rules: how its rows are read.
        form: the kind of file, in words.
        rows: how many rows it has, those included that cannot be asked.
        samples: how many can be asked.
        omitted: number of a row to the reason why it cannot be asked.
        dropped: rows without an image that are no part of the benchmark.
        groups: by row, a number that questions about the same images share.
        repeated: some images are asked about more than once.
        images: different images.
        listed: questions with a column of options whose text holds these options too.
        kinds, letters, categories: counts over the questions.
        notes: what a reader must know, in words.
        unused: columns without a role.
        digest: digest of the table and its images.
        absent: no image of any row is there, and the table can only be scored; the first row's reason.
    """

    rules: TableRules
    form: str
    rows: int = 0
    samples: int = 0
    omitted: dict[int, OmittedRow] = field(default_factory=dict)
    dropped: int = 0
    groups: array[int] = field(default_factory=lambda: array("q"))
    repeated: bool = False
    images: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    option_counts: Counter[int] = field(default_factory=Counter)
    listed: int = 0
    letters: Counter[str] = field(default_factory=Counter)
    option_letters: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    unused: tuple[str, ...] = ()
    digest: str = ""
    absent: str = ""

    @property
    def is_rotatable(self) -> bool:
        """Return True if options can be asked in another order: they stand in no question."""
        rules = self.rules
        return not (rules.in_question or self.listed or rules.declaration.prompt.style == "question")

    def root_of(self, table: Rows) -> ImageRoot:
        """Return where the images of an opened table are looked for."""
        return AbsentImages(table.root.trees, named=table.root.named) if self.absent else table.root


def questions(declaration: Declaration, data: Data, base: Path = Path()) -> Iterator[Question | OmittedRow]:
    """Yield every row of a table, in order: as a question, or why it cannot be asked.

    Raises:
        DataError: the table cannot be read.
        UsageError: two columns could have one role; see `columns.recognise`.
    """
    return _questions(declaration, data, base, survey(declaration, data, base))


def _questions(declaration: Declaration, data: Data, base: Path, surveyed: Survey) -> Iterator[Question | OmittedRow]:
    table = open_rows(declaration.source, data, base)
    root = surveyed.root_of(table)
    references = References(surveyed.rules, lambda: open_rows(declaration.source, data, base))
    for number, (place, row) in enumerate(table.rows):
        if (omitted := surveyed.omitted.get(number)) is not None:
            yield omitted
            continue
        question = read_question(row, number, place, surveyed.rules, root, references)
        if question is not None:
            yield question


def survey(declaration: Declaration, data: Data, base: Path = Path(), on_read: OnRead | None = None) -> Survey:
    """Survey a table, unless that was done; raise as `questions`. `on_read` receives the images that are read for it."""
    key = msgspec.json.encode([declaration, str(base)], enc_hook=str)
    return _surveyed(key, _stamp(declaration, data, base), _Request(declaration, data, base, on_read))


class _Request:
    """Arguments of a survey, all equal: the key and the stamp of the files say which survey it is."""

    def __init__(self, declaration: Declaration, data: Data, base: Path, on_read: OnRead | None) -> None:
        self.declaration, self.data, self.base, self.on_read = declaration, data, base, on_read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Request)

    def __hash__(self) -> int:
        return 0


def _stamp(declaration: Declaration, data: Data, base: Path) -> bytes:
    table = open_rows(declaration.source, data, base)
    stats = [(str(path), *_times(path)) for path in table.files]
    settings = [str(data.path), str(data.images), dict(data.options), data.seed]
    return msgspec.json.encode([stats, settings], order="deterministic")


def _times(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


@lru_cache(maxsize=4)
def _surveyed(key: bytes, stamp: bytes, request: _Request) -> Survey:
    return _Surveyor(request).survey()


class _Surveyor:
    """The passes over one table."""

    def __init__(self, request: _Request) -> None:
        self.declaration, self.data, self.base = request.declaration, request.data, request.base
        self.on_read = request.on_read

    def _open(self) -> Rows:
        return open_rows(self.declaration.source, self.data, self.base)

    def survey(self) -> Survey:
        table = self._open()
        head = [row for _, row in itertools.islice(table.rows, HEAD) if isinstance(row, dict)]
        if not head:
            first = next((row for _, row in self._open().rows if isinstance(row, DataError)), None)
            reason = "it has no rows" if first is None else f"no row of it can be read: {first.message}"
            raise DataError(f"{table.name}: {reason}", "Check the file." if first is None else first.hint)
        recognised = self._recognised(table, head)
        rules = self._settled(recognised, table)
        surveyed = Survey(rules, table.form, notes=list(recognised.notes), unused=recognised.unused)
        self._examine(surveyed)
        if surveyed.samples:
            return surveyed
        reason = described(next(iter(surveyed.omitted.values()))) if surveyed.omitted else "no row has an image"
        if not surveyed.omitted or not all(row.reason.startswith("image") for row in surveyed.omitted.values()):
            raise DataError(
                f"{table.name}: none of its {surveyed.rows:,} rows can be asked; {reason}",
                "Correct the file. Other columns: --map ROLE=COLUMN. No request was sent.",
            )
        surveyed = Survey(rules, table.form, notes=list(recognised.notes), unused=recognised.unused, absent=reason)
        self._examine(surveyed)
        return surveyed

    def _recognised(self, table: Rows, head: Sequence[Row]) -> Recognition:
        """Return the declared columns, or those that are found."""
        mapping = parse_map(self.data.options.get("map", ""))
        if self.declaration.rows:
            _require_columns(self.declaration, table)
            rows = dict(self.declaration.rows)
            if mapping:
                rows |= recognise(table.header, head, {**_as_mapping(rows), **mapping}, table.name).rows
            return Recognition(rows, notes=_absent_columns(self.declaration, table))
        if table.form == CLASSES:
            constant = self.data.options.get("question", CLASS_QUESTION)
            answer = Cell(column="class", as_="text")
            return Recognition({"id": "image", "image": "image", "question": Cell(text=constant), "answer": answer})
        constant = self.data.options.get("question", "")
        if constant:
            mapping = {"question": "none", **mapping}
        recognised = recognise(table.header, head, mapping, table.name)
        if constant:
            recognised.rows["question"] = Cell(text=constant)
        return recognised

    def _settled(self, recognised: Recognition, table: Rows) -> TableRules:
        """Decide the form of the answers and the column of ids from all rows."""
        rows = recognised.rows
        declared = bool(self.declaration.report)
        in_question = "options" in rows and rows["options"] == rows.get("question")
        counts, ids, classes = AnswerCounts(), IdCounts(recognised.id_candidates), set[str]()
        labels, made = set[str](), rows.get("options")
        forms, used = ColumnForms(), [column for spec in rows.values() for column in columns_of(spec)] + list(LETTERS)
        compared = table.form in FORMS and is_kit_table(table.header)
        with_options = TableRules(structs.replace(self.declaration, rows=rows))
        formulas = 0
        for number, (_, row) in enumerate(self._open().rows):
            if isinstance(row, DataError):
                continue
            ids.add(row)
            if compared:
                forms.add({column: row[column] for column in used if column in row})
            try:
                cell = value(rows["answer"], row, number)
                formulas += table.form == EXCEL and isinstance(cell, str) and cell.startswith("=")
                if table.form == CLASSES:
                    classes.add(plain_text(cell))
                elif isinstance(made, Cell) and made.make is not None:
                    labels.add(plain_text(value(made.from_, row, number) if made.from_ else cell))
                elif isinstance(cell, (str, int, float, list, dict)):
                    counts.add(cell, self._options(with_options, row, number, declared))
            except CellError:
                continue
        if compared and not is_kit_reading(self.declaration.source, self.data):
            recognised.notes.extend(filter(None, [difference_note(forms.differing_rows(set(used)))]))
        column = _named(rows["answer"])
        if formulas:
            recognised.notes.append(f"`{column}` holds formulas, whose texts are the answers ({formulas:,} rows)")
        form = rows["answer"].as_ if isinstance(rows["answer"], Cell) else ""
        convention = form if form in CONVENTIONS else counts.convention(column, table.name)
        rule = self.declaration.score
        if rule is not None and rule.read == "judged":
            open_kind = "judged"
        elif form in ("bool", "number"):
            open_kind = "truth" if form == "bool" else "count" if counts.whole_numbers == counts.open else "number"
        elif declared:
            open_kind = OPEN_KINDS.get(rule.read if rule else "", "short")
        else:
            open_kind = "short" if form == "text" else counts.open_kind(column, table.name)
        if "id" not in rows and (chosen := ids.chosen()):
            rows = {"id": chosen, **rows}
        elif "id" not in rows and recognised.id_candidates:
            recognised.notes.append(f"`{recognised.id_candidates[0]}` repeats, so that ids are row numbers from 0")
        if counts.closed and not declared and not form:
            rows = {**rows, "answer": _with_form(rows["answer"], convention)}
        return TableRules(
            structs.replace(self.declaration, rows=rows),
            convention=convention,
            open_kind=open_kind,  # type: ignore[arg-type]
            truth_form=counts.truth_form,
            in_question=in_question,
            labels=tuple(sorted(labels - {""})),
            classes=tuple(sorted(classes)) if 1 < len(classes) <= MOST_CLASSES else (),
        )

    def _options(self, rules: TableRules, row: Row, number: int, declared: bool) -> Mapping[str, str]:
        spec = rules.spec("options")
        if spec is None or (isinstance(spec, Cell) and spec.make is not None):
            return {}
        if declared or spec == ALL_LETTERS:
            return lettered(spec, row, number)
        return row_options(spec, row, rules.spec("question"))

    def _examine(self, surveyed: Survey) -> None:
        """Read every row and every image once."""
        table = self._open()
        root, rules = surveyed.root_of(table), surveyed.rules
        checks = ImageChecks(table.name, self.on_read)
        references = References(rules, self._open)
        places: dict[str, str] = {}
        content = blake2b(digest_size=16)
        answers: list[tuple[str, Mapping[str, str]]] = []
        for number, (place, row) in enumerate(table.rows):
            surveyed.rows += 1
            question = read_question(row, number, place, rules, root, references)
            if question is None:
                surveyed.dropped += 1
                surveyed.rows -= 1
                surveyed.groups.append(0)
                continue
            if isinstance(question, Question):
                checked = [] if surveyed.absent else self._checked(question, checks, places)
                if isinstance(checked, OmittedRow):
                    question = checked
                else:
                    content.update(msgspec.json.encode([question.id, checked]))
                    surveyed.groups.append(_group(checked or codes_of_names(question.images)))
                    surveyed.samples += 1
                    surveyed.kinds[question.kind] += 1
                    if question.kind == "choice":
                        surveyed.option_counts[len(question.options)] += 1
                        surveyed.listed += not rules.declared and not rules.in_question and lists_options(question)
                        surveyed.letters[question.answer] += 1
                        surveyed.option_letters.update(question.options)
                        if len(answers) < HEAD:
                            answers.append((question.answer, question.options))
                    continue
            surveyed.groups.append(0)
            surveyed.omitted[number] = question
        checks.save()
        surveyed.images = checks.images
        counted = Counter(surveyed.groups)
        counted.pop(0, None)
        surveyed.repeated = any(count > 1 for count in counted.values())
        if surveyed.listed:
            surveyed.notes.append(f"{surveyed.listed:,} questions list their options, which are not repeated")
        self._shuffle(surveyed, answers)
        files = [digest(path) for path in table.files] if table.form != CLASSES else []
        whole = blake2b("\n".join(files).encode(), digest_size=16).hexdigest()
        surveyed.digest = f"{whole}+{content.hexdigest()}"

    def _checked(self, question: Question, checks: ImageChecks, places: dict[str, str]) -> list[int] | OmittedRow:
        """Return the checksums of a question's images, or why it is omitted."""
        if (before := places.get(question.id)) is not None:
            return OmittedRow(question.place, question.id, f"duplicate id: {before} has it too")
        codes: list[int] = []
        for blob in (*question.images, *(video.blob for video in question.videos if video.blob is not None)):
            code = checks.check(blob)
            if isinstance(code, str):
                return OmittedRow(question.place, question.id, code)
            codes.append(code)
        places[question.id] = question.place
        return codes

    def _shuffle(self, surveyed: Survey, answers: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        """Shuffle the options of a table whose first option is always right."""
        rules = surveyed.rules
        if rules.in_question or surveyed.listed or rules.classes or len(surveyed.letters) != 1:
            return
        if rules.declared and (_is_shuffled(rules) or rules.declaration.prompt.style == "question"):
            return  # a prompt that holds its options cannot be shuffled
        if first_is_always_right(answers):
            surveyed.rules = structs.replace(rules, shuffle=SEED)
            surveyed.notes.append(f"the first option is always right, so that options are shuffled with seed {SEED}")


def _absent_columns(declared: Declaration, table: Rows) -> list[str]:
    """Return a note that names the columns of slices, ids and the like that the table lacks."""
    absent = [
        name
        for role, spec in declared.rows.items()
        if role not in (*REQUIRED, *MEDIA)
        for name in columns_of(spec)
        if table.header and name not in table.header
    ]
    return [f"no column {', '.join(f'`{name}`' for name in dict.fromkeys(absent))}"] if absent else []


def _require_columns(declared: Declaration, table: Rows) -> None:
    """Check that the declared question, options, answer and images are columns of the table. Raises DataError."""
    if not table.header:
        return
    media = {name: role for role in MEDIA for name in columns_of(declared.rows.get(role, ""))}
    if declared.without_image == "stop" and media and not {*media, KIT_NAMES}.intersection(table.header):
        name, role = next(iter(media.items()))
        raise DataError(
            f"{table.name}: [rows] {role}: there is no column {name!r}; the columns are {', '.join(table.header[:30])}",
            f"Correct {role} in the declaration, or name the column: --map {role}=COLUMN.",
        )
    for role in REQUIRED:
        for column in columns_of(declared.rows.get(role, "")):
            if column not in table.header:
                listed = ", ".join(table.header[:30])
                raise DataError(
                    f"{table.name}: [rows] {role}: there is no column {column!r}; the columns are {listed}",
                    f"Correct {role} in the declaration, or name the column: --map {role}=COLUMN.",
                )

    if declared.rows.get("options") == ALL_LETTERS and sum(letter in table.header for letter in LETTERS) < 2:
        raise DataError(
            f"{table.name}: [rows] options: columns A, B and so on were expected; the columns are "
            f"{', '.join(table.header[:30])}",
            "Name the file that the declaration describes, or its options: --map options=COLUMN.",
        )
    for group, spec in declared.group.items():
        names = spec if isinstance(spec, tuple) else tuple(filter(None, (spec.order, spec.same)))
        for name in names:
            if name not in declared.rows and name not in table.header:
                raise DataError(
                    f"{table.name}: [group] {group}: {name!r} is neither in [rows] nor a column",
                    f"The columns are {', '.join(table.header[:30])}.",
                )


def _is_shuffled(rules: TableRules) -> bool:
    spec = rules.spec("options")
    return isinstance(spec, Cell) and spec.shuffle is not None


class IdCounts:
    """Counts of the values of columns that may hold ids."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._values: dict[str, set[int]] = {column: set() for column in columns}
        self._rows = 0
        self._empty: Counter[str] = Counter()

    def add(self, row: Mapping[str, Any]) -> None:
        """Count the values of one row."""
        self._rows += 1
        for column, values in self._values.items():
            text = plain_text(row.get(column)).strip()
            if text:
                values.add(hash(text))
            else:
                self._empty[column] += 1

    def chosen(self) -> str:
        """Return the first column whose values are unique, else the first one that nearly is; empty without any."""
        for least in (1.0, FEWEST_IDS):
            for column, values in self._values.items():
                if not self._empty[column] and len(values) >= least * self._rows:
                    return column
        return ""


class References:
    """Images of other rows by id, read when the first reference is met."""

    def __init__(self, rules: TableRules, open_again: Callable[[], Rows]) -> None:
        self._rules, self._open_again = rules, open_again
        self._cells: dict[str, Any] | None = None

    def __call__(self, text: str) -> Sequence[Any] | None:
        """Return the image cells of the row with an id; None if there is none, or it has no image of its own."""
        spec = self._rules.spec("image")
        if not isinstance(spec, str) or text.lower().endswith(IMAGE_SUFFIXES):
            return None
        if self._cells is None:
            self._cells = {}
            for number, (_, row) in enumerate(self._open_again().rows):
                if isinstance(row, dict) and row.get(spec):
                    self._cells[row_id(row, number, self._rules)] = row[spec]
        seen = text
        for _ in range(REFERENCE_STEPS):
            cell = self._cells.get(seen)
            if cell is None or cell == seen:
                return None
            if not isinstance(cell, (str, int)) or str(cell) not in self._cells:
                return None if str(cell).isdigit() else [cell]  # a bare number names a file that is missing
            seen = str(cell)
        return None


def described(omitted: OmittedRow) -> str:
    """Return row, id and reason in one line."""
    sample_id = f" (id {omitted.id[:60]})" if omitted.id else ""
    return f"{omitted.place}{sample_id}: {omitted.reason}"


def _group(codes: Sequence[int]) -> int:
    """Return a number that questions about the same images share, whatever their order; 0 without images."""
    if not codes:
        return 0
    content = msgspec.json.encode(sorted(set(codes)))
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little", signed=True) or 1


def _named(spec: CellSpec) -> str:
    return spec if isinstance(spec, str) else "+".join(spec) if isinstance(spec, tuple) else spec.column


def _with_form(spec: CellSpec, form: str) -> CellSpec:
    if isinstance(spec, str):
        return Cell(column=spec, as_=form)  # type: ignore[arg-type]
    return structs.replace(spec, as_=form) if isinstance(spec, Cell) else spec


def _as_mapping(rows: Mapping[str, CellSpec]) -> dict[str, str]:
    return {role: spec for role, spec in rows.items() if isinstance(spec, str) and spec != ALL_LETTERS}
