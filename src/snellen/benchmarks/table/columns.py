"""Columns recognised by name and content: which holds the question, the options, the answer, the images.

Names are compared without case and punctuation. Where two columns could have one role and their cells differ, none is chosen:
the error names both and the --map that decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from msgspec import Struct, field

from snellen.benchmarks.table import dialogue
from snellen.benchmarks.table.cells import (
    CONVENTIONS,
    letter_in,
    letter_of,
    letters_of,
    options_in,
    plain_answer,
    separator_of,
    whole,
)
from snellen.benchmarks.table.column_names import (
    IMAGE_IDS,
    holds_list,
    is_option_column,
    option_columns,
    options_or_none,
    plain_name,
    role_names,
    row_options,
)
from snellen.benchmarks.table.declaration import OF_CLIPS, OWN_NAMES, AnswerForm, Cell, CellSpec
from snellen.benchmarks.table.dialogue import turns_of
from snellen.benchmarks.table.gold_kinds import OPEN, checked, kind_named
from snellen.benchmarks.table.gold_regions import box_columns, moment_columns
from snellen.benchmarks.table.images import is_address, names_media
from snellen.benchmarks.table.languages import language_of
from snellen.benchmarks.table.literals import is_literal, unmarked
from snellen.benchmarks.table.operations import CellError
from snellen.benchmarks.table.operations import value as declared_value
from snellen.benchmarks.table.rows import columns_of, plain_text
from snellen.errors import UsageError
from snellen.media.subtitles import seconds_of
from snellen.scoring.answers import AnswerContext, GoldError

HEAD = 500
"""Rows that are looked at for the roles of columns."""
ROLES = (
    *(
        "id",
        "image",
        "pages",
        "frame",
        "video",
        "question",
        "options",
        "answer",
        "kind",
        "hint",
        "rubric",
        "history",
        "system",
    ),
    *OF_CLIPS,
    "category",
)
FORMS = tuple(form for form in get_args(AnswerForm) if form)
"""Forms and kinds of an answer that --map answer=COLUMN:FORM names."""
NO_COLUMN = "none"
_NUMBERED = re.compile(r"(?P<stem>.*?[^\W\d_])[ _.\-]*(?P<number>\d{1,2})")
"""Columns of one name with numbers: image_1 and image_2, ending0 to ending3."""
MULTIPLE_CHOICE = frozenset("ABCDEFGH")
"""Letters that are answers to questions with options, if a table holds nothing else."""
FEWEST_SMALL_LETTERS = 5


_FEWEST_FIT = 0.5


class Recognition(Struct):
    """Roles of the columns of a table.

    Attributes:
        rows: role (or the name of a slice) to its column, as `Declaration.rows` has them.
        unused: columns without a role.
        notes: what a reader must know about the choice, in words.
        id_candidates: columns that may hold ids, the likeliest first: the first unique one does.
    """

    rows: dict[str, CellSpec]
    unused: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    id_candidates: tuple[str, ...] = ()


def parse_map(text: str) -> dict[str, str]:
    """Parse `question=prompt,answer=label:index0` to role and column.

    Raises:
        UsageError: a part is no `role=column`, or a role comes twice.
    """
    mapping: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, sign, column = (word.strip() for word in part.partition("="))
        if not sign or not role or not column:
            raise UsageError(
                f"--map {part!r}: ROLE=COLUMN was expected",
                f"For example: --map question=prompt,answer=label. The roles are {', '.join(ROLES)}.",
            )
        if role in mapping:
            raise UsageError(f"--map names {role} twice", "Several columns of one role: --map image=left+right")
        mapping[role] = column
    return mapping


def recognise(
    header: Sequence[str], rows: Sequence[Mapping[str, Any]], mapping: Mapping[str, str], name: str
) -> Recognition:
    """Find the role of each column.

    Args:
        header: the columns that are known before the rows.
        mapping: role to column, as the user says; see `parse_map`.

    Raises:
        UsageError: two columns could have one role, a role that is needed has no column, or a mapped column is missing.
    """
    return _Table(tuple(columns_of(header, rows)), rows, mapping, name).recognition()


class _Problem(NamedTuple):
    """A role that no column has for certain: what was found, the --map that decides, and the likeliest columns."""

    role: str
    found: str
    hint: str
    likely: tuple[str, ...] = ()


class _Table:
    """The head of a table, and the roles found so far."""

    def __init__(
        self, columns: tuple[str, ...], rows: Sequence[Mapping[str, Any]], mapping: Mapping[str, str], name: str
    ) -> None:
        self.columns, self.rows, self.mapping, self.name = columns, rows, mapping, name
        self.roles: dict[str, CellSpec] = {}
        self.notes: list[str] = []
        self.in_use: set[str] = set()
        self.problems: list[_Problem] = []

    def recognition(self) -> Recognition:
        self._map()
        if "history" not in self.mapping and "history" in self.columns and self._holds_turns("history"):
            self._take("history", "history")
        for role in ("image", "video"):
            if role not in self.mapping:
                self._find_media(role)
        if "options" not in self.mapping:
            self._find_options()
        if "question" not in self.mapping:
            self._find_question()
        if "options" not in self.roles and "options" not in self.mapping:
            self._find_options_in_question()
        if "answer" not in self.mapping:
            self._find_answer()
        if "kind" not in self.mapping:
            self._find_kind()
        if not {"options", "kind"} & (self.roles.keys() | self.mapping.keys()):
            self._find_lost_options()
        if self.problems:
            if not {"image", "video"} & (self.roles.keys() | self.mapping.keys()) and (likely := self._likely("image")):
                self.problems.append(_Problem("image", "no column holds names of images", "", tuple(likely)))
            raise self._refusal()
        if "hint" not in self.mapping and (hints := self._named("hint", strong=True)):
            self._take("hint", hints[0])
        if "video" in self.roles:
            self._find_parts()
        if "rubric" not in self.mapping and (rubrics := self._named("rubric", strong=True)):
            self._take("rubric", rubrics[0])
        ids = () if "id" in self.mapping else tuple(self._named("id", strong=True))
        if "category" not in self.mapping:
            for column in self._named("category", strong=True):
                if self._is_category(column):
                    self._take(f"{column}_" if column in OWN_NAMES else column, column)
        unused = tuple(
            column
            for column in self.columns
            if column not in self.in_use
            and column not in (*ids[:1], self.roles.get("kind"))
            and not column.startswith("conversations:")
        )
        return Recognition(self.roles, unused, self.notes, ids)

    def _take(self, role: str, spec: CellSpec) -> None:
        self.roles[role] = spec
        columns = spec if isinstance(spec, tuple) else (spec.column if isinstance(spec, Cell) else spec,)
        self.in_use.update(columns)

    def _map(self) -> None:
        for role, text in self.mapping.items():
            if text == NO_COLUMN and text not in self.columns:
                continue
            form = ""
            if text not in self.columns and ":" in text and text.rpartition(":")[2] in FORMS:
                text, _, form = text.rpartition(":")
            columns = (text,) if text in self.columns else tuple(part.strip() for part in text.split("+"))
            for column in columns:
                if column not in self.columns and column != "#":
                    raise UsageError(
                        f"{self.name}: --map {role}={column}: there is no such column",
                        f"Its columns: {', '.join(self.columns[:40])}.",
                    ).near(column, self.columns)
            if form:
                self._take(role, Cell(column=columns[0], as_=form))  # type: ignore[arg-type]
            elif role == "category":
                for column in columns:
                    self._take(column if len(columns) > 1 else role, column)
            else:
                self._take(role, columns if len(columns) > 1 else columns[0])

    def _named(self, role: str, *, strong: bool) -> list[str]:
        """Return the unused columns whose name fits a role and that have a value, in the order of the names."""
        names = role_names()[role].strong if strong else role_names()[role].weak
        by_name: dict[str, list[str]] = {}
        for column in self.columns:
            if column not in self.in_use:
                by_name.setdefault(plain_name(column), []).append(column)
        return [column for name in names for column in by_name.get(name, ()) if self._values(column)]

    def _values(self, column: str) -> list[Any]:
        return [value for row in self.rows if (value := row.get(column)) is not None and value != "" and value == value]

    def _candidates(self, role: str, fits: Callable[[str], bool]) -> list[str]:
        return [column for column in self._named(role, strong=True) if fits(column)] or [
            column for column in self._named(role, strong=False) if fits(column)
        ]

    def _refusal(self) -> UsageError:
        """Return one error for all roles that are open."""
        if len(self.problems) == 1:
            (problem,) = self.problems
            columns = (
                f"; its columns are {', '.join(self.columns[:40])}" if problem.found.startswith("no column") else ""
            )
            return UsageError(f"{self.name}: {problem.found}{columns}", problem.hint)
        lines = [
            f"{len(self.problems)} roles have no column for certain; its columns are {', '.join(self.columns[:40])}"
        ]
        for problem in self.problems:
            likely = f" Likely: {', '.join(problem.likely)}." if problem.likely else ""
            lines.append(f"  {problem.role}: {problem.found}.{likely}")
        maps, taken = [], set[str]()
        for problem in self.problems:
            column = next((name for name in problem.likely if name not in taken), "COLUMN")
            taken.add(column)
            maps.append(f"{problem.role}={column}")
        return UsageError(
            f"{self.name}: " + "\n".join(lines), f"Name all of them: --map {','.join(maps)}. No request was sent."
        )

    def _missing(self, role: str, found: str, hint: str) -> None:
        """Note a role without a column."""
        likely = tuple(self._likely(role))
        named = f" The likeliest: {', '.join(likely)}." if likely else ""
        self.problems.append(_Problem(role, found, f"{hint}{named}", likely))

    def _likely(self, role: str) -> list[str]:
        """Return the unused columns whose cells look most like those of a role, at most three."""
        judge = {"question": self._like_question, "answer": self._like_answer, "image": self._like_image}[role]
        scores = {
            column: judge([plain_text(value).strip() for value in self._values(column)[:50]])
            for column in self.columns
            if column not in self.in_use and self._values(column) and not self._holds_media(column)
        }
        return sorted((column for column, score in scores.items() if score > 0.3), key=lambda column: -scores[column])[
            :3
        ]

    @staticmethod
    def _like_question(texts: Sequence[str]) -> float:
        asked = sum(text.endswith(("?", "？", "؟")) for text in texts)
        return (2 * asked + sum(bool(language_of(text)) and " " in text for text in texts)) / len(texts)

    @staticmethod
    def _like_answer(texts: Sequence[str]) -> float:
        if any(text.endswith(("?", "？")) for text in texts):
            return 0.0
        counted = (
            texts == [str(at) for at in range(int(texts[0]), int(texts[0]) + len(texts))]
            if texts[0].isdecimal()
            else False
        )
        short = sum(len(text) <= 60 for text in texts) / len(texts)
        return 0.0 if counted else short * (1.5 if len(set(texts)) < len(texts) or len(texts) < 3 else 1.0)

    @staticmethod
    def _like_image(texts: Sequence[str]) -> float:
        names = sum(" " not in text and any(map(str.isalpha, text)) and any(map(str.isdecimal, text)) for text in texts)
        return names / len(texts) if len(set(texts)) > len(texts) / 2 else 0.0

    def _one_of(self, role: str, columns: Sequence[str], form: str = "") -> str:
        """Return the first of the columns of a role; note the problem if cells of several differ."""
        first, *others = columns
        for other in others:
            if any(not _alike(row.get(first), row.get(other)) for row in self.rows):
                self.problems.append(self._ambiguous(role, columns, form))
                break
        self.in_use.update(others)
        return first

    def _ambiguous(self, role: str, columns: Sequence[str], form: str = "") -> _Problem:
        named = " and ".join(f"{column!r}" for column in columns[:4])
        choices = " or ".join(f"--map {role}={column}{form}" for column in columns[:4])
        return _Problem(
            role,
            f"{len(columns)} columns could be the {role}: {named}",
            f"Choose one: {choices}. No request was sent.",
            tuple(columns[:4]),
        )

    def _find_media(self, role: str) -> None:
        holding = [column for column in self.columns if column not in self.in_use and self._holds_media(column)]
        named = [column for column in self._named(role, strong=True) if not self._is_prose(column)]
        if role == "image":
            blobs = [column for column in holding if isinstance(self._values(column)[0], tuple)]
            clips = set(self._named("video", strong=True))
            holding = [column for column in blobs or holding if column not in clips and not is_option_column(column)]
        else:
            holding = [column for column in holding if column in named]
        addresses = {column for column in (*holding, *named) if is_address(self._values(column)[0])}
        local = [column for column in holding if column not in addresses]
        candidates = [column for column in named if column in local] or local
        candidates = candidates or [column for column in named if column not in addresses] or sorted(addresses)
        candidates = with_numbered(self.columns, [column for column in self.columns if column in candidates], holding)
        if not candidates and role == "image":
            candidates = [column for column in self._named(role, strong=False) if plain_name(column) in IMAGE_IDS][:1]
        if not candidates and role == "image":  # questions about pictures are not asked without them in silence
            candidates = [column for column in self.columns if self._is_empty_image(column)][:1]
        if not candidates:
            return
        stems = {stem_of(column) for column in candidates}
        if len(candidates) > 1 and len(stems) > 1:
            names = {plain_name(column): column for column in candidates}
            if "image" in names and set(names) <= {"image", "imagepath", "filename", "imagename", "imagefile"}:
                self.in_use.update(candidates)
                candidates = [names["image"]]
            else:
                problem = self._ambiguous(role, candidates)
                joined = "+".join(candidates[:4])
                self.problems.append(problem._replace(hint=f"{problem.hint} All of them: --map {role}={joined}."))
        self._take(role, tuple(candidates) if len(candidates) > 1 else candidates[0])

    def _find_parts(self) -> None:
        """Find columns of subtitles and of parts of clips. A part has start and end: one alone may be what is asked for."""
        found: dict[str, str] = {}
        for role in OF_CLIPS:
            columns = [column for column in self._named(role, strong=True) if self._fits(role, column)]
            if role not in self.mapping and columns:
                found[role] = columns[0]
        if len({"video_start", "video_end"} & (found.keys() | self.mapping.keys())) < 2:
            found = {role: column for role, column in found.items() if role not in ("video_start", "video_end")}
        for role, column in found.items():
            self._take(role, column)

    def _fits(self, role: str, column: str) -> bool:
        """Return True if a free column holds what its name says of a clip, and not what is asked for."""
        if column in self.in_use or role in ("subtitles", "frame_times"):
            return column not in self.in_use
        answer = self.roles.get("answer")
        try:
            times = [seconds_of(value) for value in self._values(column)[:100]]
        except ValueError:
            return False
        gold = self._values(answer)[:100] if isinstance(answer, str) else []
        asked = sum(str(time) in (str(value), f"{value}.0") for time, value in zip(times, gold, strict=False))
        return 2 * asked <= len(times)

    def _is_empty_image(self, column: str) -> bool:
        """Return True for a column of images by its name that no row has a value in."""
        if "video" in self.mapping or any(self._values(name) for name in self._named("video", strong=True)):
            return False
        return plain_name(column) in role_names()["image"].strong and not self._values(column)

    def _holds_media(self, column: str) -> bool:
        values = self._values(column)[:100]
        return bool(values) and sum(names_media(value) for value in values) > _FEWEST_FIT * len(values)

    def _is_prose(self, column: str) -> bool:
        """Return True for a column of sentences, which names no file."""
        values = [value for value in self._values(column)[:50] if isinstance(value, str)]
        return (
            bool(values) and sum(value.count(" ") > 3 and not is_literal(value) for value in values) > len(values) / 2
        )

    def _find_options(self) -> None:
        letters = option_columns(self.columns)
        listed = self._candidates("options", self._holds_options)
        if letters:
            if listed:
                self.problems.append(self._ambiguous("options", ("+".join(letters), *listed)))
            self._take("options", tuple(letters))
        elif listed:
            column = self._one_of("options", listed)
            self._take("options", self._separated(column))

    def _separated(self, column: str) -> CellSpec:
        """Return the column with the separator that all of its cells have; the column alone for any other form."""
        texts = [value if isinstance(value, str) else "[]" for value in self._values(column)]
        if any(is_literal(text) or options_in(text) for text in texts):
            return column
        marks = {separator_of(text) for text in texts}
        mark = marks.pop() if len(marks) == 1 else ""
        return Cell(column=column, split=mark) if mark.strip() else column

    def _holds_turns(self, column: str) -> bool:
        """Return True if a column holds earlier turns of a conversation, and nothing else."""
        values = self._values(column)[:100]
        try:
            return bool(values) and any(turns_of(value) for value in values)
        except CellError:  # another kind of history
            return False

    def _holds_options(self, column: str) -> bool:
        values = self._values(column)[:100]
        return sum(len(options_or_none(value)) > 1 for value in values) > _FEWEST_FIT * len(values)

    def _find_question(self) -> None:
        columns = self._candidates("question", lambda column: not self._holds_media(column))
        spoken = [column for column in columns if column.startswith("conversations:")]
        if spoken:
            self._take("question", dialogue.QUESTION)
            self.in_use.update(column for column in self.columns if column in dialogue.COLUMNS)
            if dialogue.SYSTEM in self.columns and "system" not in self.mapping:
                self._take("system", dialogue.SYSTEM)
            if any(row.get(dialogue.TURNS, 1) > 1 for row in self.rows):
                self.notes.append("of dialogues the first question is asked")
            return
        if columns:
            self._take("question", self._one_of("question", columns))
            return
        self._missing(
            "question",
            "no column could be the question",
            'Name it: --map question=COLUMN. The same question about every row: -o question="What is it?"',
        )

    def _find_options_in_question(self) -> None:
        """Take options from the questions if most have them, or if some have them and their answers name them."""
        column = self.roles.get("question")
        if not isinstance(column, str):
            return
        texts = [plain_text(value) for value in self._values(column)]
        lettered = sum(bool(options_in(text)) for text in texts)
        if not lettered:
            return
        self.roles["options"] = column
        mapped = self.mapping.get("answer")
        answers = [mapped] if isinstance(mapped, str) else self._named("answer", strong=True)
        if lettered < 0.8 * len(texts) and not any(self._share(CONVENTIONS, answer) >= 0.9 for answer in answers):
            del self.roles["options"]

    def _find_answer(self) -> None:
        columns = self._candidates("answer", self._fits_answer)
        if not columns and "options" in self.roles:
            columns = [
                column
                for column in self.columns
                if column not in self.in_use and self._share(("letter",), column) == 1.0 and self._values(column)
            ]
        if len(columns) > 1 and "options" in self.roles:
            columns = self._agreeing(columns)
        free = [name for name in self.columns if name not in self.in_use]
        if not columns and (several := box_columns(free) or moment_columns(free)):
            self._take("answer", several)
            return
        if not columns:
            for column in self._named("answer", strong=True)[:1]:
                texts = [plain_text(value) for value in self._values(column)[:3]]
                found = (
                    f"column {column!r} could be the answer, but most of its cells name none of their row's options: "
                    f"{', '.join(map(repr, texts))}"
                )
                hint = "Another column: --map answer=COLUMN. Options of their own: --map options=COLUMN, or none."
                self.problems.append(_Problem("answer", found, hint))
                return
            self._missing(
                "answer",
                "no column could be the answer",
                "Name it: --map answer=COLUMN. No request was sent.",
            )
            return
        self._take("answer", self._one_of("answer", columns))

    def _find_lost_options(self) -> None:
        """Look for options under any name, where answers are letters or indexes; refuse letters without options."""
        column = self.roles.get("answer")
        if not isinstance(column, str):
            return
        values = [plain_answer(value) for value in self._values(column)]
        letters = len(values) > 1 and all(letter_in(value) in MULTIPLE_CHOICE for value in values)
        if letters and len(values) < FEWEST_SMALL_LETTERS and all(str(value).islower() for value in values):
            return  # answers a and b of two rows are texts
        indexes = len(values) > 1 and all(whole(value) is not None for value in values)
        if not letters and not indexes:
            return
        free = [name for name in self.columns if name not in self.in_use]
        lists: list[str | tuple[str, ...]] = [
            name for name in free if (cells := self._values(name)) and all(holds_list(cell) for cell in cells[:100])
        ]
        lists += [tuple(group) for group in series(free) if not any(self._holds_media(name) for name in group)]
        forms = ("letter",) if letters else ("index0", "index1")
        fitting = [spec for spec in lists if any(self._fits_options(spec, column, form) for form in forms)]
        if letters and len(fitting) == 1:
            self._take("options", fitting[0])
            return
        named = [spec if isinstance(spec, str) else "+".join(spec) for spec in fitting]
        choices = "".join(f"--map options={name} or " for name in named[:4]) or "--map options=COLUMN or "
        others = {
            name for role in ("id", "answer", "hint", "rubric", "category") for name in self._named(role, strong=True)
        }
        if letters and not named and all(name in others or not self._values(name) for name in free):
            self.notes.append(f"the answers in `{column}` are letters, and no column could hold their options")
            return
        if letters:
            problem = _Problem(
                "options",
                f"the answers in {column!r} are letters, and "
                f"{'several columns' if named else 'no column'} could hold their options",
                f"Name it: {choices}--map options=FIRST+SECOND; --map options=none if the image shows them. "
                "No request was sent.",
                tuple(named[:4]),
            )
            self.problems.append(problem)
        elif named:
            problem = _Problem(
                "options",
                f"the answers in {column!r} are numbers, or indexes of {' or '.join(map(repr, named))}",
                f"Say which: {choices}--map options=none. No request was sent.",
                tuple(named[:4]),
            )
            self.problems.append(problem)

    def _find_kind(self) -> None:
        """Look for a column whose cells name kinds of answers that fit the answers."""
        answer = self.roles.get("answer")
        for column in self._named("kind", strong=True):
            kinds = [kind_named(plain_text(value)) for value in self._values(column)]
            if kinds and None not in kinds and answer is not None and self._kinds_fit(column, answer):
                self.roles["kind"] = column  # it may be a slice, too
                return

    def _kinds_fit(self, column: str, answer: CellSpec) -> bool:
        """Return True if the answers of most rows are of the kinds that a column names."""
        fits = total = 0
        for number, row in enumerate(self.rows[:100]):
            kind = kind_named(plain_text(row.get(column))) or OPEN
            cell = plain_answer(declared_value(answer, row, number))
            if kind in (OPEN, "text", "name", "judged", "list") or cell in (None, ""):
                continue
            total += 1
            try:
                if kind in ("choice", "multi-choice"):
                    fits += len(self._options(row)) > 1
                else:
                    checked(kind, unmarked(cell) if isinstance(cell, str) else cell, AnswerContext())
                    fits += 1
            except GoldError:
                continue
        return 2 * fits >= total

    def _fits_options(self, spec: CellSpec, answer: str, form: str) -> bool:
        for row in self.rows[:100]:
            value = plain_answer(row.get(answer))
            if value not in (None, "") and letter_of(value, row_options(spec, row), form) is None:
                return False
        return True

    def _fits_answer(self, column: str) -> bool:
        if self._holds_media(column):
            return False
        if "options" not in self.roles:
            return True
        return self._share(CONVENTIONS, column) > _FEWEST_FIT

    def _agreeing(self, columns: list[str]) -> list[str]:
        """Return the first of columns that name the same option in every row, or all of them."""
        letters = [[self._letters(column, row) for row in self.rows] for column in columns]
        if all(own == letters[0] and all(len(names) == 1 for names in own) for own in letters):
            self.in_use.update(columns)
            return columns[:1]
        return columns

    def _letters(self, column: str, row: Mapping[str, Any]) -> set[tuple[str, ...]]:
        """Return the letters that a cell may name under a convention that fits its whole column."""
        forms = [form for form in CONVENTIONS if self._share((form,), column) == 1.0]
        options = self._options(row)
        named = (letters_of(plain_answer(row.get(column)), options, form) for form in forms)
        return {letters for letters in named if letters}

    def _share(self, forms: Sequence[str], column: str) -> float:
        """Return the share of the head's answers that one of some conventions reads."""
        fits = total = 0
        for row in self.rows[:100]:
            options, value = self._options(row), plain_answer(row.get(column))
            if len(options) < 2 or value is None or value == "":
                continue
            total += 1
            fits += any(letters_of(value, options, form) for form in forms)
        return fits / total if total else 1.0

    def _options(self, row: Mapping[str, Any]) -> dict[str, str]:
        try:
            return row_options(self.roles.get("options"), row, self.roles.get("question"))
        except CellError:
            return {}

    def _is_category(self, column: str) -> bool:
        values = [plain_text(value) for value in self._values(column)]
        distinct = len(set(values))
        return 1 < distinct <= 50 and distinct < len(values) and all(len(value) <= 80 for value in values)


def _alike(first: Any, second: Any) -> bool:
    return plain_text(first).strip().casefold() == plain_text(second).strip().casefold()


def stem_of(column: str) -> str:
    """Return a column's name without its number, case and signs, in the singular."""
    match = _NUMBERED.fullmatch(column)
    stem = match["stem"] if match else column
    return plain_name(stem).rstrip("s")


def with_numbered(columns: Sequence[str], candidates: list[str], holding: Sequence[str]) -> list[str]:
    """Return the candidates with their numbered brothers: image_2 belongs to image_1, by number."""
    stems = {stem_of(column) for column in candidates if _NUMBERED.fullmatch(column)} or {
        stem_of(column) for column in candidates
    }
    brothers = [
        column for column in columns if _NUMBERED.fullmatch(column) and stem_of(column) in stems and column in holding
    ]
    whole = list(dict.fromkeys([*candidates, *brothers]))

    def order(column: str) -> tuple[int, int]:
        match = _NUMBERED.fullmatch(column)
        return (int(match["number"]) if match else -1, columns.index(column))

    return sorted(whole, key=order)


def series(columns: Sequence[str]) -> list[list[str]]:
    """Return columns of one name with numbers that follow each other from 0 or 1: ending0, ending1 …"""
    stems: dict[str, dict[int, str]] = {}
    for column in columns:
        if match := _NUMBERED.fullmatch(column):
            stems.setdefault(match["stem"].lower(), {})[int(match["number"])] = column
    several = [[places[at] for at in sorted(places)] for places in stems.values() if _consecutive(sorted(places))]
    return [group for group in several if len(group) > 1]


def _consecutive(places: Sequence[int]) -> bool:
    return places[0] in (0, 1) and list(places) == list(range(places[0], places[0] + len(places)))
