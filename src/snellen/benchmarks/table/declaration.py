"""The declaration of a benchmark that is a table: source, columns, prompt, scoring rule, figures.

One form serves three users: a TOML of the package's catalogue, a user's own TOML, and a file without any declaration,
whose columns `snellen.benchmarks.table.recognise` finds. There is no expression language: each key names one of a closed
set of operations, and no cell is ever evaluated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field, structs

from snellen.errors import DataError
from snellen.redaction.arguments import key_among
from snellen.toml_text import parse_toml

DECLARATION_BYTES = 1 << 20
"""Largest TOML that is read: a declaration has a few kilobytes."""

SourceKind: TypeAlias = Literal["file", "tsv", "csv", "json", "folder", "hub"]
SOURCE_KINDS: tuple[SourceKind, ...] = ("file", "tsv", "csv", "json", "folder", "hub")


class Strict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A section of the TOML: an unknown key is an error."""


class Source(Strict, frozen=True):
    """Place of the rows: exactly one of `file`, `tsv`, `csv`, `json`, `folder` and `hub`.

    Attributes:
        file: a path of any kind that is recognised by its suffix or content, relative to the TOML.
        tsv: address or path of a table in VLMEvalKit's form.
        csv: address or path.
        json: address or path; `each` says where in it the rows are.
        folder: a folder of images whose sub-folders are the classes.
        hub: `owner/name` of a data set.
        config: the configuration of a data set of the hub.
        split: its split.
        revision: its commit, tag or branch; default: the branch as it is now.
        files: patterns of the files that are fetched; default: those of the split.
        each: path of the rows in a JSON file: `data.items`, `*[]` for an object of lists.
        sheet: the sheet of an Excel file; default: the first visible one with a header.
        encoding: the encoding of a text file; default: that of its byte order mark, else UTF-8.
        md5: MD5 of the file, hexadecimal.
        sha256: SHA-256 of the file, hexadecimal.
        rows: how many rows it has.
        mirrors: further addresses.
        table: file name under which VLMEvalKit keeps the table; default: the last part of the address.
        images: a folder or archives of the images.
        unpack: each row becomes one row for each element, which sets columns to the cells of others.
        as_kit_reads: cells that pandas takes for missing are empty, as VLMEvalKit reads them.
    """

    file: str = ""
    tsv: str = ""
    csv: str = ""
    json: str = ""
    folder: str = ""
    hub: str = ""
    config: str = ""
    split: str = ""
    revision: str = ""
    files: tuple[str, ...] = ()
    each: str = ""
    sheet: str = ""
    encoding: str = ""
    md5: str = ""
    sha256: str = ""
    rows: int | None = None
    mirrors: tuple[str, ...] = ()
    table: str = ""
    images: str | tuple[str, ...] = ()
    unpack: tuple[Mapping[str, str], ...] = ()
    as_kit_reads: bool = False

    @property
    def kind(self) -> SourceKind:
        """Return which of the six keys names the source."""
        return next(kind for kind in SOURCE_KINDS if getattr(self, kind))


AnswerForm: TypeAlias = Literal[
    "",
    "letter",
    "index0",
    "index1",
    "text",
    "bool",
    "number",
    "choice",
    "multi-choice",
    "truth",
    "count",
    "quantity",
    "date",
    "time",
    "name",
    "list",
    "box",
    "point",
    "formula",
    "json",
    "judged",
]


class Cell(Strict, frozen=True, rename={"as_": "as", "from_": "from"}):
    """One value of a row: a column (or a constant `text`), changed by the operations in the order in which they stand here.

    Attributes:
        column: the column; `#` is the row's number from 0, `@key` the key of an object of lists.
        text: a constant in place of a column.
        rename: value to value.
        cut: a separator; `field` says which part is taken, from 0.
        field: see `cut`.
        before: the text before the first occurrence of this one.
        after: the text after the first occurrence of this one.
        first: that many characters.
        remove: a text that is removed wherever it stands.
        modulo: the remainder of a whole number.
        split: a separator; the value becomes a list.
        repeat_row: with `split`: the row counts once for each element of the list.
        list: the cell is a list written as text, in JSON or Python syntax.
        drop: that many characters at the start of a text, or of each element of a list.
        shuffle: the seed of a shuffle of the options; the answer follows its option.
        make: how many options are drawn for each row, the gold answer among them.
        from_: with `make`: the column of the labels; default: that of the answer.
        seed: with `make`: the seed of the draw.
        as_: how the answer names its option: `letter`, `index0`, `index1`, `text`; or of which kind it is: `bool`, `number`,
            `quantity` and every other kind.
        folder: the value is a path below the images.
        letters: the letters of a row whose list of options is empty, since they stand in the image: `ABCD`.
    """

    column: str = ""
    text: str | None = None
    rename: Mapping[str, str] = {}
    cut: str = ""
    field: int | None = None
    before: str = ""
    after: str = ""
    first: int | None = None
    remove: str = ""
    drop: int = 0
    modulo: int | None = None
    split: str = ""
    repeat_row: bool = False
    list: bool = False
    shuffle: int | None = None
    make: int | None = None
    from_: str = ""
    seed: int = 0
    as_: AnswerForm = ""
    folder: bool = False
    letters: str = ""


CellSpec: TypeAlias = str | tuple[str, ...] | Cell
WithoutImage: TypeAlias = Literal["drop", "keep", "stop"]
OWN_NAMES = ("id", "image", "video", "question", "options", "answer", "hint", "rubric", "history", "system", "kind")
"""Names of a row's values that mean something to Snellen; every other name becomes meta."""


class Group(Strict, frozen=True):
    """A group of rows, where it is no plain list of columns.

    Attributes:
        order: the column by which rows are sorted; groups are `size` rows in that order.
        size: rows of a group.
        same: a column that must be equal in a group.
        of: another group, whose rows `parts` divides by their position.
        parts: positions of the rows of each part.
    """

    order: str = ""
    size: int = 0
    same: str = ""
    of: str = ""
    parts: tuple[tuple[int, ...], ...] = ()


class PromptStyle(Strict, frozen=True):
    """Words around the question.

    Attributes:
        style: `letters` (question, lettered options, a request for the letter), `kit-mcq` (VLMEvalKit's form of that) or
            `question` (the question alone).
        before: text before everything.
        after: text behind everything.
        image_marks: a mark in the question where an image stands: `<image>`, or `<image {n}>` with its number from 1.
        only_when: column to value: `before` and `after` only in such rows.
        request: the request for a letter behind the options, in place of the style's own.
        heading: a line between question and options, for `letters`.
        option: the form of an option, for `letters`.
        by: a column; `values` maps its values to other prompts.
        values: see `by`.
    """

    style: Literal["letters", "kit-mcq", "question"] = "letters"
    before: str = ""
    after: str = ""
    image_marks: str = ""
    only_when: Mapping[str, str] = {}
    request: str | None = None
    heading: str = ""
    option: str = "{letter}. {text}"

    @property
    def is_worded(self) -> bool:
        """Return True if more than style, `before` and `after` is declared, so that the text is the declaration's own."""
        plain = PromptStyle(style=self.style, before=self.before, after=self.after)
        return self.style == "kit-mcq" or self != plain

    by: str = ""
    values: Mapping[str, PromptStyle] = {}


Reading: TypeAlias = Literal[
    "letter-or-text",
    "first-capital",
    "answer-line",
    "yes-no",
    "first-word-of",
    "number",
    "pair",
    "braces",
    "whole",
    "judged",
]
Comparison: TypeAlias = Literal[
    "option", "text", "number", "pair", "contains", "contains-formula", "anls", "vqa-score", "relaxed", "exact"
]


ProfileName: TypeAlias = Literal["strict", "vlmevalkit", "lmms-eval"]


class JudgeRule(Strict, frozen=True):
    """The judge of free-text answers.

    Attributes:
        model: KIND:NAME; empty: the user names it.
        rubric: `match`, `graded`, `judged` (default), or a rubric file relative to the TOML.
    """

    model: str = ""
    rubric: str = ""


class ScoreRule(Strict, frozen=True):
    """How a reply is read, and with what it is compared.

    Attributes:
        read: the reading rule.
        equals: the comparison; empty: the one that fits the reading rule.
        also: further comparisons, any of which is enough.
        yes: the positive answer of yes/no questions.
        words: the words of `first-word-of`.
        by: a column; `values` maps its values to other rules.
        values: see `by`.
        profiles: profile to the rule that it follows in place of this one.
        judge: the judge of free-text answers (`read = "judged"`, or rows with a rubric), unless the user names one.
        reader: KIND:NAME of the model that reads what the rules leave unread, unless the user names one.
        unreadable: always `wrong`; the share of unreadable replies is reported apart.
        open_option: under the profile `vlmevalkit` a question without options is a choice between its gold answer and
            this text.
    """

    read: Reading = "letter-or-text"
    equals: Comparison | Literal[""] = ""
    also: tuple[Comparison, ...] = ()
    yes: str = "Yes"
    words: tuple[str, ...] = ()
    by: str = ""
    values: Mapping[str, ScoreRule] = {}
    unreadable: Literal["wrong"] = "wrong"
    open_option: str = ""
    profiles: Mapping[ProfileName, ScoreRule] = {}
    judge: JudgeRule = JudgeRule()
    reader: str = ""

    @property
    def is_given(self) -> bool:
        """Return True for a rule of reading or comparison, and not of the models alone that are asked."""
        rest: ScoreRule = structs.replace(self, judge=JudgeRule(), reader="")
        return rest != ScoreRule()


MetricName: TypeAlias = Literal[
    "accuracy", "f1", "precision", "recall", "yes-ratio", "count", "anls", "vqa-score", "relaxed"
]


class Report(Strict, frozen=True):
    """One figure, or one figure for each value of some columns.

    Attributes:
        name: the figure's name; default: that of the metric.
        metric: `accuracy`, `f1`, `precision`, `recall`, `yes-ratio`, `count`, `anls`, `vqa-score`, `relaxed`, or several.
        positive: the positive answer of f1, precision and recall.
        all_in: a group; the figure is the share of groups in which every row is right.
        mean_of: a column; the figure is the mean over its values.
        sum_over: a column; the figure is the sum over its values, over `only` these.
        only: see `sum_over`.
        only_where: column to value: only such rows count.
        average: names of figures; this one is their mean.
        add: names of figures; this one is their sum.
        by: columns; one figure for each value.
        repeat: names of figures that are repeated for each value of `by`.
        scale: factor of the figure.
        headline: the one figure that stands first.
    """

    name: str = ""
    metric: MetricName | tuple[MetricName, ...] = "accuracy"
    positive: str = ""
    all_in: str = ""
    mean_of: str = ""
    sum_over: str = ""
    only: tuple[str, ...] = ()
    only_where: Mapping[str, str] = {}
    average: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    by: str | tuple[str, ...] = ()
    repeat: tuple[str, ...] = ()
    scale: float = 1.0
    headline: bool = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics as a tuple."""
        return (self.metric,) if isinstance(self.metric, str) else self.metric

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the figures, one for each metric: the report's name, else that of the metric or the group."""
        if self.name:
            return (self.name,) if len(self.metrics) == 1 else tuple(f"{self.name}/{metric}" for metric in self.metrics)
        if self.all_in:
            return (f"all in {self.all_in}",)
        if self.mean_of:
            return tuple(f"{metric}/mean of {self.mean_of}" for metric in self.metrics)
        return self.metrics


class Figure(Strict, frozen=True):
    """A published figure of the headline, shown beside runs and never as if it had been measured here.

    Attributes:
        model: the model.
        value: in per cent where the headline is a share, else as published.
        by: whose harness.
        date: when.
        source: where it stands.
    """

    model: str
    value: float
    by: str = ""
    date: str = ""
    source: str = ""


class Declaration(Strict, frozen=True):
    """A declared benchmark. Section names and keys are those of the TOML; `rows` maps names to cells.

    Attributes:
        name: as users type it, in lower case.
        title: the name in words.
        probes: what it tests.
        licence: of the data; `UNKNOWN` where no source names it.
        url: its home.
        follows: whose rules it follows, with the commit: `kit@e8e78f05`.
        gated: its terms must be accepted on the hub.
        canary: a text that marks the data for those who train on web pages.
        version: raised when prompts, answers or ids change.
        examples: the pool of few-shot examples: another setting (`split=dev`), or a file relative to the TOML.
    """

    name: str
    source: Source
    rows: Mapping[str, CellSpec]
    title: str = ""
    probes: str = ""
    licence: str = ""
    url: str = ""
    follows: str = ""
    gated: bool = False
    canary: str = ""
    without_image: WithoutImage = "stop"
    group: Mapping[str, tuple[str, ...] | Group] = {}
    prompt: PromptStyle = PromptStyle()
    score: ScoreRule | None = None
    report: tuple[Report, ...] = ()
    figure: tuple[Figure, ...] = field(default_factory=tuple)
    version: str = "1"
    examples: str = ""


def read_declaration(path: Path) -> Declaration:
    """Read a declaration from a TOML.

    Raises:
        DataError: the file is missing, no TOML, has an unknown key, lacks a section, or contradicts itself; the message
            names file and key.
    """
    try:
        with path.open("rb") as file:
            text = file.read(DECLARATION_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > DECLARATION_BYTES:
        raise DataError(f"{path}: more than {DECLARATION_BYTES:,} bytes; a declaration in TOML was expected")
    try:
        values = parse_toml(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path}: it is no TOML: {error}") from error
    # `rows` names columns, which may be called `key` and hold none.
    if (key := key_among({name: part for name, part in values.items() if name != "rows"})) is not None:
        raise DataError(f"{path} holds {key}: a key, by its name or its shape", "Remove it: a declaration needs none.")
    return declaration(values, str(path))


def declaration(values: Mapping[str, Any], place: str) -> Declaration:
    """Convert parsed TOML to a declaration and check it; `place` names the file in errors. Raises DataError."""
    tables = dict(values)
    rows = tables.get("rows")
    if isinstance(rows, dict) and "without_image" in rows:
        tables["without_image"] = rows["without_image"]
        tables["rows"] = {name: cell for name, cell in rows.items() if name != "without_image"}
    try:
        declared = msgspec.convert(tables, Declaration)
    except msgspec.ValidationError as error:
        raise DataError(f"{place}: {error}", "docs: Declare a benchmark lists the sections and keys.") from error
    _check(declared, place)
    return declared


def _check(declared: Declaration, place: str) -> None:
    sources = [kind for kind in SOURCE_KINDS if getattr(declared.source, kind)]
    if len(sources) != 1:
        have = " and ".join(sources) or "none"
        raise DataError(f"{place}: [source] names {have}; exactly one of {', '.join(SOURCE_KINDS)} was expected")
    for needed in ("question", "answer"):
        if needed not in declared.rows:
            raise DataError(f"{place}: [rows] has no {needed!r}; it says which column holds the {needed}")
    headlines = [report for report in declared.report if report.headline]
    if declared.report and len(headlines) != 1:
        raise DataError(f"{place}: {len(headlines)} of the [[report]] sections have headline = true; one was expected")
    for name, group in declared.group.items():
        if isinstance(group, Group) and group.of and group.of not in declared.group:
            raise DataError(f"{place}: group {name!r} is part of {group.of!r}, and there is no such group")
    for report in declared.report:
        if report.all_in and report.all_in not in declared.group:
            raise DataError(
                f"{place}: the report {report.name!r} is over {report.all_in!r}, and there is no such group"
            )
    _check_columns(declared, place)
    _check_named(declared, place)


OF_EVERY_SAMPLE = ("kind", "target", "repeat")
"""Values that every sample has, beside those that a declaration names."""


def _check_columns(declared: Declaration, place: str) -> None:
    """Check that figures and rules are by values that [rows] names."""
    known = [*(name for name in declared.rows if name not in OWN_NAMES), *OF_EVERY_SAMPLE]
    uses = [("[score] by", declared.score.by)] if declared.score is not None and declared.score.by else []
    for report in declared.report:
        section = f"[[report]] {report.name!r}" if report.name else "[[report]]"
        by = (report.by,) if isinstance(report.by, str) else report.by
        uses += [(f"{section}: by", name) for name in by if name]
        uses += [(f"{section}: {key}", getattr(report, key)) for key in ("mean_of", "sum_over") if getattr(report, key)]
        uses += [(f"{section}: only_where", name) for name in report.only_where]
    for key, name in uses:
        if name not in known:
            raise DataError(
                f"{place}: {key} names {name!r}; [rows] has {', '.join(known)}", f'Add it to [rows]: {name} = "COLUMN".'
            )


def _check_named(declared: Declaration, place: str) -> None:
    """Check that sums, means and repetitions name figures that are there, and none of them itself."""
    named = {name: report for report in declared.report if not report.by for name in report.names}
    for report in declared.report:
        for key in ("add", "average", "repeat"):
            for name in getattr(report, key):
                if name not in named:
                    raise DataError(
                        f"{place}: [[report]] {report.name!r}: {key} names {name!r}, and no report without `by` has that name",
                        f"The names are {', '.join(named) or 'none'}.",
                    )
    for name, report in named.items():
        open_names, seen = [*report.add, *report.average], set[str]()
        while open_names:
            part = open_names.pop()
            if part == name:
                raise DataError(f"{place}: [[report]] {name!r} is a sum or mean of itself")
            if part not in seen:
                seen.add(part)
                open_names += [*named[part].add, *named[part].average]
