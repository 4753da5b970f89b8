"""Survey of a table before its first request: roles of columns, forms of answers, rows that cannot be asked, repeated images.

It goes through the rows twice, or once where the first ones say already how all are read, and reads each image once. It is kept while the process lasts and the file stays as it is.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct, field, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.table.answers import AnswerCounts, GoldTexts
from snellen.benchmarks.table.cells import CONVENTIONS, LETTER_INDEX
from snellen.benchmarks.table.columns import HEAD, Recognition, parse_map, recognise
from snellen.benchmarks.table.declaration import Cell, CellSpec, Declaration
from snellen.benchmarks.table.gold_kinds import kind_named
from snellen.benchmarks.table.gold_regions import (
    GoldRegions,
    draw_of,
    joined_columns,
    may_hold_regions,
    order_of_columns,
    spaces_of,
)
from snellen.benchmarks.table.image_checks import ImageChecks, OnRead
from snellen.benchmarks.table.images import IMAGE_SUFFIXES, AbsentImages, ImageRoot, codes_of_names
from snellen.benchmarks.table.kit_reading import FORMS as KIT_FORMS
from snellen.benchmarks.table.kit_reading import OPTION as KIT_OPTION
from snellen.benchmarks.table.kit_reading import difference_note, is_kit_reading
from snellen.benchmarks.table.languages import AUTO, ENGLISH, LanguageVotes, chosen_language
from snellen.benchmarks.table.languages import OPTION as LANGUAGE_OPTION
from snellen.benchmarks.table.literals import unmarked
from snellen.benchmarks.table.locate import with_authors_files
from snellen.benchmarks.table.operations import (
    ALL_LETTERS,
    LETTERS,
    ROW_NUMBER,
    CellError,
    cell_reader,
    columns_of,
    first_is_always_right,
    value,
)
from snellen.benchmarks.table.pages import documents_note
from snellen.benchmarks.table.question import OmittedRow, Question, shown_answer
from snellen.benchmarks.table.questions import (
    EMPTY_IMAGE,
    OPEN_KINDS,
    SETTLED,
    QuestionReader,
    TableRules,
    id_reader,
    media_of,
    options_reader,
)
from snellen.benchmarks.table.rows import (
    CLASSES,
    Placed,
    Row,
    Rows,
    files_of,
    image_places,
    open_rows,
    plain_text,
)
from snellen.benchmarks.table.rows import columns_of as header_of
from snellen.benchmarks.table.wording import is_plain, lists_options
from snellen.errors import DataError, UsageError
from snellen.media.decode import MaskedImage
from snellen.media.pdf import PdfPage
from snellen.scoring.coordinates import SIDES
from snellen.scoring.grounding import blob_size
from snellen.sources.digests import digest
from snellen.sources.pandas_cells import ColumnForms
from snellen.types import Kind

MOST_CLASSES = 26
CLASS_QUESTION = "Which of these does the image show?"
SEED = 0
FEWEST_IDS = 0.9
"""A column holds ids if at least that share of its values is unique."""
REFERENCE_STEPS = 10
HELD_BYTES = 1 << 22
"""Bytes of the files of a table whose rows, fewer than HEAD, are held: a run goes over them six times."""
_KIND_OF_FORM = {"bool": "truth"}
"""Kinds by forms of an answer that have another name."""
REQUIRED, MEDIA = ("question", "options", "answer"), ("image", "video")
PARTS = ("video_start", "video_end", "frame_times")
"""Without their columns another part of the clip would be shown. Files of a packaged set may lack them: those of some of MVBench's tasks."""
OnRow: TypeAlias = Callable[[Question | OmittedRow], None]
"""Receives a row as it was read."""
OnRules: TypeAlias = Callable[[TableRules], OnRow]
"""Receives the rules of a table, and returns what receives its rows."""
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
        kinds, letters: counts over the questions.
        examples: by kind, the first gold answer.
        notes: what a reader must know, in words.
        unused: columns without a role.
        digest: digest of the table and its images.
        kit_differs: rows that VLMEvalKit reads otherwise; 0 unless that was asked.
        absent: no image of any row is there, and the table can only be scored; the first row's reason.
        lacking: roles none of whose declared columns is there.
        documents: digest of a PDF to how many of its pages the limit leaves out.
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
    examples: dict[str, str] = field(default_factory=dict)
    option_counts: Counter[int] = field(default_factory=Counter)
    listed: int = 0
    letters: Counter[str] = field(default_factory=Counter)
    option_letters: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    unused: tuple[str, ...] = ()
    digest: str = ""
    kit_differs: int = 0
    absent: str = ""
    lacking: frozenset[str] = frozenset()
    documents: dict[str, int] = field(default_factory=dict)

    def count(self, question: Question) -> None:
        """Count a question that can be asked."""
        kind, rules = question.kind, self.rules
        self.samples += 1
        self.kinds[kind] += 1
        for page in question.images:
            if isinstance(page, PdfPage):
                self.documents[page.content] = max(page.omitted, self.documents.get(page.content, 0))
        if kind not in self.examples:
            self.examples[kind] = shown_answer(question.answer)
        if kind in ("choice", "multi-choice") and lists_options(question):
            self.listed += not rules.declared and not rules.in_question
        if kind == "choice":
            self.option_counts[len(question.options)] += 1
            if not self.option_letters.issuperset(question.options):
                self.option_letters.update(question.options)
            self.letters[question.answer] += 1

    @property
    def is_rotatable(self) -> bool:
        """Return True if options can be asked in another order: they stand in no question."""
        rules = self.rules
        return not (rules.in_question or self.listed or rules.declaration.prompt.style == "question")

    def root_of(self, table: Rows) -> ImageRoot:
        """Return where the images of an opened table are looked for."""
        return AbsentImages(table.root.trees, named=table.root.named) if self.absent else table.root


class OpenedTable:
    """A table as its files and the user's settings are now: its survey, and the rows of a small one.

    Args:
        declaration: what is declared, as the user's options change it.
        data: the user's settings of the data.
        base: the folder at which relative paths of the source begin.
    """

    def __init__(self, declaration: Declaration, data: Data, base: Path) -> None:
        declaration = with_authors_files(declaration, data, base)
        self.declaration, self.data, self.base = declaration, data, base
        files = files_of(declaration.source, data, base)
        stats = [(str(path), *_times(path)) for path in (*files, *image_places(declaration.source, data, base, files))]
        settings = [str(base), str(data.path), str(data.images), data.options, data.seed]
        self._identity = msgspec.json.encode([declaration, stats, settings], enc_hook=str, order="deterministic")
        self._held: tuple[Rows, list[tuple[str, Row | DataError]]] | None = None
        self._survey: Survey | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenedTable) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def open(self) -> Rows:
        """Open the table for one pass over its rows."""
        if self._held is None:
            return open_rows(self.declaration.source, self.data, self.base)
        table, rows = self._held
        return structs.replace(table, rows=iter(rows), root=table.root.anew())

    def begin(self) -> tuple[Rows, list[Row | DataError]]:
        """Open the table for one pass, and return its first rows too. The rows of a small table are held from here on."""
        table = self.open()
        head = list(itertools.islice(table.rows, HEAD))
        if len(head) < HEAD and sum(path.stat().st_size for path in table.files) <= HELD_BYTES:
            self._held = table, head
        return structs.replace(table, rows=itertools.chain(head, table.rows)), [row for _, row in head]

    def survey(self, on_read: OnRead | None = None, on_rules: OnRules | None = None) -> Survey:
        """Survey the table, unless that was done; raise as `questions`.

        Args:
            on_read: receives the images that are read for it.
            on_rules: receives the rules before the rows, each of which goes to what it returns; not called for a table
                that was surveyed before.
        """
        if self._survey is None:
            self._survey = _Surveyor(self, on_read, on_rules).survey()
        return self._survey

    def questions(self) -> Iterator[Question | OmittedRow]:
        """Yield every row, in order: as a question, or why it cannot be asked.

        Raises:
            DataError: the table cannot be read.
            UsageError: two columns could have one role; see `columns.recognise`.
        """
        surveyed = self.survey()
        table = self.open()
        reader = QuestionReader(surveyed.rules, surveyed.root_of(table), References(surveyed.rules, self.open))
        for number, (place, row) in enumerate(table.rows):
            if (omitted := surveyed.omitted.get(number)) is not None:
                yield omitted
                continue
            question = reader.read(row, number, place)
            if question is not None:
                yield question


def opened(declaration: Declaration, data: Data, base: Path = Path()) -> OpenedTable:
    """Return an opened table: the one that was opened before, while its files stay as they are.

    Raises:
        DataError: it is not found.
    """
    return _first_opened(OpenedTable(declaration, data, base))


@lru_cache(maxsize=4)
def _first_opened(table: OpenedTable) -> OpenedTable:
    """Return the first of equal tables: several runs of one table share its survey."""
    return table


def _times(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


class _Surveyor:
    """The passes over one table: one that decides how it is read, and one that reads it.

    Attributes:
        repeated_ids: hashes of the ids that come more than once; None: not known.
        places: of ids that may come more than once, where they came first.
        kit_differs: rows that VLMEvalKit reads otherwise, where that was asked.
        begun: the table whose first rows were read, until it is gone through.
        lacking: see `Survey`.
    """

    def __init__(self, opened: OpenedTable, on_read: OnRead | None, on_rules: OnRules | None) -> None:
        self.opened, self.declaration, self.data = opened, opened.declaration, opened.data
        self.on_read, self.on_rules = on_read, on_rules
        self.begun: Rows | None = None
        self.repeated_ids: frozenset[int] | None = None
        self.kit_differs = 0
        self.places: dict[str, str] = {}
        self.lacking: frozenset[str] = frozenset()

    def _open(self) -> Rows:
        """Return the table for a pass: the one that was begun, else opened again."""
        begun, self.begun = self.begun, None
        return begun or self.opened.open()

    def survey(self) -> Survey:
        table, first_rows = self.opened.begin()
        self.begun = table
        head = [row for row in first_rows if isinstance(row, dict)]
        if not head:
            first = next((row for row in first_rows if isinstance(row, DataError)), None)
            reason = "it has no rows" if first is None else f"no row of it can be read: {first.message}"
            raise DataError(f"{table.name}: {reason}", "Check the file." if first is None else first.hint)
        try:
            recognised = self._recognised(table, head)
            recognised.rows |= (masks := self._column_of_masks(table, head))
            recognised.unused = tuple(name for name in recognised.unused if name not in masks.values())
        except UsageError as error:
            raise _with_sheets(error, table.other_sheets) from error
        recognised.notes[:0] = table.notes
        guess, guessed_ids = self._guessed(recognised, table, head), self.repeated_ids
        surveyed = None if guess is None else Survey(guess, table.form)
        rows = self._open().rows if surveyed is None else self._examined(surveyed, only_choices=True)
        rules = self._settled(recognised, table, rows)
        if surveyed is None or not surveyed.digest or guess != rules or guessed_ids != self.repeated_ids:
            surveyed = Survey(rules, table.form)
            deque(self._examined(surveyed), maxlen=0)
        surveyed.notes[:0] = recognised.notes
        surveyed.unused, surveyed.kit_differs, surveyed.lacking = recognised.unused, self.kit_differs, self.lacking
        if surveyed.samples:
            return surveyed
        reason = described(next(iter(surveyed.omitted.values()))) if surveyed.omitted else "no row has an image"
        column = _named(rules.declaration.rows["image"]) if "image" in rules.declaration.rows else ""
        if column and surveyed.omitted and all(row.reason == EMPTY_IMAGE for row in surveyed.omitted.values()):
            raise DataError(
                f"{table.name}: the column of images, {column!r}, is empty in every row",
                "Put the names of the images into it (in Excel: place the pictures in its cells, or over them), or name another: "
                "--map image=COLUMN. To ask without images: --map image=none. No request was sent.",
            )
        if not surveyed.omitted or not all(row.reason.startswith("image") for row in surveyed.omitted.values()):
            raise DataError(
                f"{table.name}: none of its {surveyed.rows:,} rows can be asked; {reason}",
                "Correct the file. Other columns: --map ROLE=COLUMN. No request was sent.",
            )
        surveyed = Survey(rules, table.form, notes=list(recognised.notes), unused=recognised.unused, absent=reason)
        deque(self._examined(surveyed), maxlen=0)
        return surveyed

    def _guessed(self, recognised: Recognition, table: Rows, head: Sequence[Row]) -> TableRules | None:
        """Return the rules that the first rows suggest, for a table of choices without images; None for any other."""
        options = recognised.rows.get("options")
        is_drawn = isinstance(options, Cell) and options.make is not None
        if options is None or is_drawn or not recognised.rows.keys().isdisjoint(MEDIA):
            return None
        try:
            return self._settled(structs.replace(recognised, notes=[]), table, (("", row) for row in head))
        except UsageError:  # all rows may decide what these leave open
            return None

    def _recognised(self, table: Rows, head: Sequence[Row]) -> Recognition:
        """Return the declared columns, or those that are found."""
        mapping = parse_map(self.data.options.get("map", ""))
        if self.declaration.rows:
            rows, header = dict(self.declaration.rows), header_of(table.header, head)
            if mapping:
                own = {
                    role: name if name in header or role in REQUIRED else "none"
                    for role, name in _as_mapping(rows).items()
                }
                rows = {role: spec for role, spec in rows.items() if mapping.get(role) != "none"}
                rows |= recognise(table.header, head, {**own, **mapping}, table.name).rows
            if not table.header and len(head) == HEAD:  # later rows may have more columns
                later = rows.keys() - {"question", "answer", *MEDIA}
                header += tuple(name for role in later for name in columns_of(rows[role]))
            declared = structs.replace(self.declaration, rows=rows)
            _require_columns(declared, structs.replace(table, header=header), is_packaged=self.opened.base == Path())
            rows |= self._chosen_kind(table, head)
            of_roles = {role: {*columns_of(spec)} - {*header} for role, spec in rows.items() if role not in REQUIRED}
            if KIT_NAMES in header:
                of_roles.pop("image", None)
            absent = dict.fromkeys(f"`{name}`" for names in of_roles.values() for name in sorted(names))
            self.lacking = frozenset(
                role for role, names in of_roles.items() if names and names == {*columns_of(rows[role])}
            )
            return Recognition(rows, notes=[f"no column {', '.join(absent)}"] if absent else [])
        if table.form == CLASSES:
            constant = self.data.options.get("question", CLASS_QUESTION)
            answer = Cell(column="class", as_="text")
            return Recognition({"id": "image", "image": "image", "question": Cell(text=constant), "answer": answer})
        constant = self.data.options.get("question", "")
        if constant:
            mapping = {"question": "none", **mapping}
        kind = self._chosen_kind(table, head)
        if table.gold and not mapping:
            found: dict[str, CellSpec] = {role: role for role in table.header}
            return Recognition(found | kind | ({"question": Cell(text=constant)} if constant else {}))
        recognised = recognise(table.header, head, {**dict.fromkeys(kind, "none"), **mapping}, table.name)
        recognised.rows.update(kind)
        if constant:
            recognised.rows["question"] = Cell(text=constant)
        return recognised

    def _column_of_masks(self, table: Rows, head: Sequence[Row]) -> dict[str, CellSpec]:
        """Return the column of masks that the user chose, by its role. Raises UsageError where there is none."""
        text, columns = self.data.options.get("mask", ""), header_of(table.header, head)
        if not text or text in columns:
            return {"object_mask": text} if text else {}
        raise UsageError(
            f"--mask {text}: neither a folder nor a column of {table.name}", f"Columns are {', '.join(columns[:40])}."
        ).near(text, columns)

    def _chosen_kind(self, table: Rows, head: Sequence[Row]) -> dict[str, CellSpec]:
        """Return the kind that the user chose, or the column that says it, as the role `kind`; empty without a choice.

        Raises:
            UsageError: it is neither.
        """
        text = self.data.options.get("kind", "").strip()
        if not text:
            return {}
        rule = self.declaration.score
        if self.declaration.report or (rule is not None and rule.is_given):
            raise UsageError(
                f"--kind {text}: the declaration of {table.name} says how its answers are read", "Omit --kind."
            )
        if (kind := kind_named(text)) is not None:
            return {"kind": Cell(text=kind)}
        columns = header_of(table.header, head)
        if text not in columns:
            raise UsageError(
                f"--kind {text}: neither a kind of answer nor a column of {table.name}",
                f"Kinds are {', '.join(SETTLED)}; columns are {', '.join(columns[:40])}.",
            ).near(text, (*SETTLED, *columns))
        return {"kind": text}

    def _settled(self, recognised: Recognition, table: Rows, rows_read: Placed) -> TableRules:
        """Decide the forms of the answers, the language and the column of ids from the rows."""
        rows = recognised.rows
        declaration = structs.replace(self.declaration, rows=rows)
        made = rows.get("options")
        counts, ids, classes, labels = AnswerCounts(), IdCounts(_id_columns(recognised)), set[str](), set[str]()
        golds, votes, regions = GoldTexts(), LanguageVotes(), GoldRegions(order_of_columns(rows["answer"]))
        kit = ColumnForms() if self._is_compared(table) else None
        used = {column for spec in rows.values() for column in columns_of(spec)} | set(LETTERS)
        options_of = options_reader(TableRules(declaration))
        answer_of = joined_columns(cell_reader(rows["answer"]), rows["answer"])
        drawn = isinstance(made, Cell) and made.make is not None
        rule = declaration.score
        # Lists of numbers are no boxes.
        is_text = rule is not None and (rule.read == "extracted" or rule.equals == "vqa-score")
        question_of = cell_reader(rows["question"])
        for number, (_, row) in enumerate(rows_read):
            if isinstance(row, DataError):
                continue
            ids.add(row)
            if kit is not None:
                kit.add({column: cell for column, cell in row.items() if column in used})
            try:
                text, cell = plain_text(question_of(row, number)), answer_of(row, number)
                if table.form == CLASSES:
                    classes.add(plain_text(cell))
                    continue
                votes.add(text)
                if drawn:
                    labels.add(plain_text(value(made.from_, row, number) if made.from_ else cell))  # type: ignore[union-attr]
                    continue
                options = options_of(row, number)
                counts.add(cell, options, text)
                if isinstance(cell, str) and len(options) < 2:
                    golds.add(unmarked(cell.strip()))
                if len(options) < 2 and not is_text and may_hold_regions(cell):
                    size = partial(_first_size, row, number, TableRules(declaration), table.root)
                    regions.add(cell, size, *draw_of(row, rows.get("image")))
            except CellError:
                continue
        rows = self._with_ids(rows, ids, recognised)
        spec = rows.get("id", "")
        self.repeated_ids = ids.repeated(spec) if isinstance(spec, str) and spec else None if spec else frozenset()
        if kit is not None:
            self.kit_differs = kit.differing_rows(used)
            recognised.notes.extend(filter(None, [difference_note(self.kit_differs)]))
        return self._rules(
            structs.replace(declaration, rows=rows),
            counts,
            table.name,
            recognised.notes,
            {
                "language": votes.decided(),
                "alike": golds.alike(),
                "labels": tuple(sorted(labels - {""})),
                "classes": tuple(sorted(classes)) if 1 < len(classes) <= MOST_CLASSES else (),
                **spaces_of(regions, self.data.options, self.declaration.answer, recognised.notes, table.gold),
            },
        )

    def _is_compared(self, table: Rows) -> bool:
        """Return True if the user asks for the difference to VLMEvalKit's reading: -o as_kit=false."""
        asked = KIT_OPTION in self.data.options and table.form in KIT_FORMS
        return asked and not is_kit_reading(self.declaration.source, self.data)

    def _with_ids(self, rows: dict[str, CellSpec], ids: IdCounts, recognised: Recognition) -> dict[str, CellSpec]:
        """Return the roles with the column of ids, the first one that is unique or nearly so."""
        if "id" not in rows and (chosen := ids.chosen()):
            return {"id": chosen, **rows}
        if "id" not in rows and recognised.id_candidates:
            recognised.notes.append(f"`{recognised.id_candidates[0]}` repeats, so that ids are row numbers from 0")
        return rows

    def _rules(
        self, declaration: Declaration, counts: AnswerCounts, name: str, notes: list[str], found: Mapping[str, Any]
    ) -> TableRules:
        """Decide by which rules the rows are read, from what was counted over all of them."""
        rows, rule = declaration.rows, declaration.score
        declared = bool(declaration.report)
        column = _named(rows["answer"])
        form = rows["answer"].as_ if isinstance(rows["answer"], Cell) else ""
        convention = form if form in (*CONVENTIONS, LETTER_INDEX) else counts.convention(column, name)
        about_clips = "video" in rows and "image" not in rows
        open_kind: Kind = ""
        read = rule.read if rule else ""
        if read in SIDES:
            open_kind = ""
        elif declared or read == "judged":
            open_kind = "moment" if form == "moment" else OPEN_KINDS.get(read, "short")
        elif rule is not None and rule.is_given:
            open_kind = {"bool": "truth", "text": "short"}.get(form) or counts.single_kind(column, name)
        elif not form and "kind" not in rows:
            counts.require_kind(column, name)
            if about_clips:
                counts.require_moment_or_point(column, name)
        facts = structs.replace(counts.open.facts(), about_clips=about_clips)
        if facts.decimal == "," and not facts.mixed_decimals:
            notes.append(f"numbers of `{column}` have a decimal comma")
        elif facts.mixed_decimals:
            sign = "comma" if facts.decimal == "," else "point"
            notes.append(
                f"some numbers of `{column}` have a decimal comma, others a point; where one does not tell, it is a {sign}"
            )
        if counts.open.forms["slashed"]:
            order = {True: "begin with the day", False: "begin with the month"}.get(facts.day_first)  # type: ignore[arg-type]
            unknown = "could begin with day or month, and are compared as texts where they do: write year-month-day"
            notes.append(f"dates of `{column}` {order or unknown}")
        if counts.closed and not declared and not form:
            declaration = structs.replace(declaration, rows={**rows, "answer": _with_form(rows["answer"], convention)})
        chosen = chosen_language(self.data.options.get(LANGUAGE_OPTION, ""))
        return TableRules(
            declaration,
            convention=convention,
            open_kind=open_kind,
            needs_cells=declared or not is_plain(declaration.prompt),
            kind=read
            if read in SIDES
            else _KIND_OF_FORM.get(form, form if form in SETTLED else "")
            if form != "text" or not counts.closed
            else "",
            facts=facts,
            all_several=not declared and 2 * counts.several[convention] > counts.closed > 0,
            truth_form=counts.truth_form,
            in_question="options" in rows and rows["options"] == rows.get("question"),
            **{**found, "language": found["language"] if chosen == AUTO else chosen},
        )

    def _examined(self, surveyed: Survey, *, only_choices: bool = False) -> Placed:
        """Read every row and every image once, and yield the rows.

        With `only_choices`, a question of another kind ends the survey, which then has no digest.
        """
        table = self._open()
        self.places.clear()
        rules = surveyed.rules
        checks = ImageChecks(table.name, self.on_read)
        reader = QuestionReader(rules, surveyed.root_of(table), References(rules, self.opened.open))
        content = _Content()
        answers: list[tuple[str, Mapping[str, str]]] = []
        on_row = None if self.on_rules is None else self.on_rules(rules)
        for number, (place, row) in enumerate(table.rows):
            yield place, row
            surveyed.rows += 1
            question = reader.read(row, number, place)
            if question is None:
                surveyed.dropped += 1
                surveyed.rows -= 1
                surveyed.groups.append(0)
                continue
            if isinstance(question, Question):
                checked = [] if surveyed.absent else self._checked(question, checks)
                if isinstance(checked, OmittedRow):
                    question = checked
                else:
                    content.add(question.id, checked)
                    codes = checked or codes_of_names(question.images) if question.images or question.videos else ()
                    surveyed.groups.append(_group(tuple(codes[: len(question.images) + len(question.videos)])))
                    surveyed.count(question)
                    if only_choices and question.kind not in ("choice", "multi-choice"):
                        yield from table.rows
                        return
                    if question.kind == "choice" and len(answers) < HEAD:
                        answers.append((question.answer, question.options))
                    if on_row is not None:
                        on_row(question)
                    continue
            surveyed.groups.append(0)
            surveyed.omitted[number] = question
            if on_row is not None:
                on_row(question)
        checks.save()
        surveyed.images = checks.images
        surveyed.repeated = _repeats(surveyed.groups)
        if surveyed.listed:
            surveyed.notes.append(f"{surveyed.listed:,} questions list their options, which are not repeated")
        if note := documents_note(surveyed.documents, rules.declaration.documents):
            surveyed.notes.append(note)
        self._shuffle(surveyed, answers)
        files = [digest(path) for path in table.files] if table.form != CLASSES else []
        whole = blake2b("\n".join(files).encode(), digest_size=16).hexdigest()
        language = f"+{rules.language}" if rules.language != ENGLISH else ""
        surveyed.digest = f"{whole}+{content.hexdigest()}{language}"

    def _checked(self, question: Question, checks: ImageChecks) -> list[int] | OmittedRow:
        """Return the checksums of a question's images, clips and masks, or why it is omitted."""
        repeats = self.repeated_ids is None or hash(question.id) in self.repeated_ids
        if repeats and (before := self.places.get(question.id)) is not None:
            return OmittedRow(question.place, question.id, f"duplicate id: {before} has it too")
        codes: list[int] = []
        masked = [blob for blob in question.images if isinstance(blob, MaskedImage)]
        for blob in (blob.image if isinstance(blob, MaskedImage) else blob for blob in question.images):
            code = checks.check(blob)
            if isinstance(code, str):
                return OmittedRow(question.place, question.id, code)
            codes.append(code)
        for video in question.videos:
            code = checks.check_clip(video)
            if isinstance(code, str):
                return OmittedRow(question.place, question.id, code)
            codes.append(code)
        for blob in masked:
            code = checks.check(blob.mask)
            if isinstance(code, str):
                return OmittedRow(question.place, question.id, f"its mask: {code}")
            codes.append(code)
        if repeats:
            self.places[question.id] = question.place
        return codes

    def _shuffle(self, surveyed: Survey, answers: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        """Shuffle the options of a table whose first option is always right."""
        rules = surveyed.rules
        if rules.in_question or surveyed.listed or rules.classes or len(surveyed.letters) != 1:
            return
        style = rules.declaration.prompt
        if rules.declared and (_is_shuffled(rules) or style.style == "question" or style.template):
            return  # a prompt that holds its options cannot be shuffled, and a whole text is another program's
        if first_is_always_right(answers):
            surveyed.rules = structs.replace(rules, shuffle=SEED)
            surveyed.notes.append(f"the first option is always right, so that options are shuffled with seed {SEED}")


def _first_size(row: Row, number: int, rules: TableRules, root: ImageRoot) -> tuple[int, int] | None:
    """Return width and height of the first image of a row; None without a readable one."""
    try:
        images, _ = media_of(row, number, rules, root, None)
    except CellError:
        return None
    return blob_size(images[0]) if images else None


def _with_sheets(error: UsageError, sheets: Sequence[str]) -> UsageError:
    """Return an error about the columns of a sheet with the other sheets of its workbook."""
    if not sheets:
        return error
    named = ", ".join(sheets[:20])
    changed = UsageError(error.message, f"{error.hint} Another sheet: -o sheet={sheets[0]!r}. The others are {named}.")
    changed.correction = error.correction
    return changed


def _require_columns(declared: Declaration, table: Rows, *, is_packaged: bool) -> None:
    """Check that the declared question, options, answer, images and parts of clips are columns of the table. Raises DataError."""
    lacking: dict[str, str] = {}
    media = {name: role for role in MEDIA for name in columns_of(declared.rows.get(role, ""))}
    if declared.without_image == "stop" and media and not {*media, KIT_NAMES}.intersection(table.header):
        lacking |= dict(itertools.islice(media.items(), 1))
    for role in REQUIRED if is_packaged else (*REQUIRED, *PARTS):
        cell = declared.rows.get(role, "")
        columns = list(columns_of(cell))
        if isinstance(cell, Cell) and cell.first_of and not set(table.header).isdisjoint(columns):
            continue
        lacking |= {column: role for column in columns if column not in table.header}
    if lacking:
        roles = dict.fromkeys(lacking.values())
        named = "; ".join(f"[rows] {role}: there is no column {column!r}" for column, role in lacking.items())
        change = "" if is_packaged else f"Correct {' and '.join(roles)} in the declaration, or name"
        maps = ",".join(f"{role}=COLUMN" for role in roles)
        raise DataError(
            f"{table.name}: {named}; the columns are {', '.join(table.header[:30])}",
            f"{change or f'Is it the file of {declared.name}? If so, name'} the column{'s' * (len(roles) > 1)}: --map {maps}.",
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
    """Counts of the values of columns that may hold ids: 8 bytes a cell."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._values = {column: array("q") for column in columns}
        self._empty: Counter[str] = Counter()

    def add(self, row: Mapping[str, Any]) -> None:
        """Count the values of one row."""
        for column, values in self._values.items():
            text = plain_text(row.get(column)).strip()
            values.append(hash(text))
            if not text:
                self._empty[column] += 1

    def chosen(self) -> str:
        """Return the first column whose values are unique, else the first one that nearly is; empty without any."""
        different = {column: len(np.unique(np.frombuffer(values, np.int64))) for column, values in self._values.items()}
        for least in (1.0, FEWEST_IDS):
            for column, values in self._values.items():
                if not self._empty[column] and different[column] >= least * len(values):
                    return column
        return ""

    def repeated(self, column: str) -> frozenset[int] | None:
        """Return the hashes of values that a column has more than once; None if it was not counted, or has empty cells."""
        if column not in self._values or self._empty[column]:
            return None
        values, counts = np.unique(np.frombuffer(self._values[column], np.int64), return_counts=True)
        return frozenset(values[counts > 1].tolist())


class _Content:
    """Digest of ids and images, row by row."""

    def __init__(self) -> None:
        self._digest, self._encoder, self._waiting = blake2b(digest_size=16), msgspec.json.Encoder(), bytearray()

    def add(self, sample_id: str, codes: Sequence[int]) -> None:
        """Add one row."""
        self._encoder.encode_into((sample_id, codes), self._waiting, -1)
        if len(self._waiting) > 1 << 16:
            self._digest.update(self._waiting)
            self._waiting.clear()

    def hexdigest(self) -> str:
        """Return the digest of all rows."""
        self._digest.update(self._waiting)
        self._waiting.clear()
        return self._digest.hexdigest()


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
            self._cells, id_of = {}, id_reader(self._rules)
            for number, (_, row) in enumerate(self._open_again().rows):
                if isinstance(row, dict) and row.get(spec):
                    self._cells[id_of(row, number)] = row[spec]
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


@lru_cache(maxsize=4_096)
def _group(codes: tuple[int, ...]) -> int:
    """Return a number that questions about the same images share, whatever their order; 0 without images."""
    if not codes:
        return 0
    content = msgspec.json.encode(sorted(set(codes)))
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little", signed=True) or 1


def _repeats(groups: array[int]) -> bool:
    """Return True if several questions have one group."""
    known = np.frombuffer(groups, np.int64)
    known = known[known != 0]
    return len(np.unique(known)) < len(known)


def _id_columns(recognised: Recognition) -> tuple[str, ...]:
    """Return the columns whose values may be ids: the one that is decided, or those that could be."""
    spec = recognised.rows.get("id")
    return recognised.id_candidates if spec is None else (spec,) if isinstance(spec, str) and spec != ROW_NUMBER else ()


def _named(spec: CellSpec) -> str:
    return spec if isinstance(spec, str) else "+".join(spec) if isinstance(spec, tuple) else spec.column


def _with_form(spec: CellSpec, form: str) -> CellSpec:
    if isinstance(spec, str):
        return Cell(column=spec, as_=form)  # type: ignore[arg-type]
    return structs.replace(spec, as_=form) if isinstance(spec, Cell) else spec


def _as_mapping(rows: Mapping[str, CellSpec]) -> dict[str, str]:
    return {role: spec for role, spec in rows.items() if isinstance(spec, str) and spec != ALL_LETTERS}
