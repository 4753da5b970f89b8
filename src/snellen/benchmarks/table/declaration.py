"""The declaration of a benchmark that is a table: source, columns, prompt, scoring rule, figures.

One form serves four users: a TOML of the package's catalogue, a set that other harnesses run too (`benchmarks/sets`), a
user's own TOML, and a file without any declaration, whose columns `snellen.benchmarks.table.columns.recognise` finds. There is no
expression language: each key names one of a closed set of operations, and no cell is ever evaluated. The sections of a set
alone are in `set_sections`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import field, structs

from snellen.benchmarks.table.cell_form import AnswerForm as AnswerForm
from snellen.benchmarks.table.cell_form import Cell as Cell
from snellen.benchmarks.table.cell_form import CellSpec as CellSpec
from snellen.benchmarks.table.cell_form import Strict
from snellen.benchmarks.table.declaration_errors import declaration_error
from snellen.benchmarks.table.set_sections import (
    Correction,
    DocumentsRule,
    EasiNames,
    Form,
    FramesRule,
    KitNames,
    Layout,
    LmmsNames,
    SetSummary,
    Subsets,
)
from snellen.errors import DataError
from snellen.media.sampling import TIMES
from snellen.redaction.arguments import key_among
from snellen.scoring.rules.final_answers import STAGES
from snellen.scoring.rules.harness_regions import RegionRule
from snellen.scoring.rules.inspect_scorers import REDUCER, rule_of
from snellen.toml_text import parse_toml

DECLARATION_BYTES = 1 << 20
"""Largest TOML that is read: a declaration has a few kilobytes."""

SourceKind: TypeAlias = Literal["file", "tsv", "csv", "json", "folder", "hub"]
SOURCE_KINDS: tuple[SourceKind, ...] = ("file", "tsv", "csv", "json", "folder", "hub")


class Join(Strict, frozen=True):
    """A second file beside a table with further cells of its rows. Rows that it lacks are no part of the table.

    Attributes:
        file: its name, in the folder of the table.
        each: path of its rows, as that of the table.
        on: columns that say which rows belong together; of several the first one counts.
        columns: columns that are added, to those of the file.
    """

    file: str
    on: tuple[str, ...]
    columns: Mapping[str, str]
    each: str = ""


class Source(Strict, frozen=True):
    """Place of the rows: exactly one of `file`, `tsv`, `csv`, `json`, `folder` and `hub`.

    Attributes:
        file: a path relative to the TOML, recognised by suffix or content.
        tsv: address or path of a table in VLMEvalKit's form.
        csv: address or path.
        json: address or path; `each` says where in it the rows are.
        folder: a folder of images; its sub-folders are the classes.
        hub: `owner/name` of a data set.
        config: its configuration.
        split: its split.
        revision: its commit, tag or branch; default: the branch as it is now.
        files: patterns of the files that are fetched; default: those of the split.
        each: path of the rows in a JSON file: `data.items`, `*[]` for an object of lists, `{name}` for every member of an object,
            whose key is the column `name`; a value that is no object is the column `@value`.
        line: the form of a line of a text file: `{video} {start}##{caption}` names columns.
        join: a second file in the table's folder: `file`, `each`, `on` (common columns), `columns` (new to its own).
        packed: name of a ZIP file that may hold the table.
        sheet: the sheet of an Excel file; default: the first visible one with a header.
        encoding: the encoding of a text file; default: that of its byte order mark, else UTF-8.
        md5: MD5 of the file, hexadecimal.
        sha256: SHA-256 of the file, hexadecimal.
        rows: how many rows it has.
        other_rows: of a set: further numbers of rows that are in use.
        mirrors: further addresses.
        table: VLMEvalKit's file name of the table; default: the last part of the address.
        images: a folder or archives of the images, of `hub` patterns of them; a folder that is not there is an error.
        unpack: each row becomes one for each element, which sets columns to other cells, or to the text behind `=`.
        explode: a column of lists: each row becomes one row for each element.
        file_column: a column that is added: the name of the row's file without its ending, or of its folder for
            `test-00000-of-00001`.
        as_kit_reads: cells that pandas takes for missing are empty, as VLMEvalKit reads them.
        configs: of a set: the folders of its files, the first that is there; `*` is every folder, empty the root or `data/`.
        splits: of a set: names of its files, the first that is there.
        together: of a set: splits that are read one behind the other, where none of `splits` is there.
        media: of a set: archives and folders with what is shown; `{subset}` is the subset.
        pictures: of a set: columns of parquet files whose images are shown; default: by their usual names.
        without: of a set: the column that is true in rows of a larger set that are not asked.
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
    line: str = ""
    join: Join | None = None
    packed: str = ""
    sheet: str = ""
    encoding: str = ""
    md5: str = ""
    sha256: str = ""
    rows: int | None = None
    other_rows: tuple[int, ...] = ()
    mirrors: tuple[str, ...] = ()
    table: str = ""
    images: str | tuple[str, ...] = ()
    unpack: tuple[Mapping[str, str], ...] = ()
    explode: str = ""
    file_column: str = ""
    as_kit_reads: bool = False
    configs: tuple[str, ...] = ("",)
    splits: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    without: str = ""

    @property
    def kind(self) -> SourceKind:
        """Return which of the six keys names the source."""
        return next(kind for kind in SOURCE_KINDS if getattr(self, kind))


class AuthorsFiles(Strict, frozen=True):
    """The authors' own files, which a folder may have in place of those of [source].

    Attributes:
        source: keys as in [source]; of `files` the first that is there is the table.
        rows: values over those of [rows].
    """

    source: Source
    rows: Mapping[str, CellSpec] = {}


WithoutImage: TypeAlias = Literal["drop", "keep", "stop"]
OF_CLIPS = ("video_start", "video_end", "frame_times", "subtitles", "subtitles_start", "video_fps")
"""Values of a clip: seconds between which its frames lie, seconds of its frames, what is said in it, the second of the subtitles at
which it begins, and how many frames of a folder make a second."""
OWN_NAMES = (
    *OF_CLIPS,
    "id",
    "image",
    "pages",
    "frame",
    "object_mask",
    "video",
    "question",
    "options",
    "answer",
    "hint",
    "rubric",
    "history",
    "system",
    "kind",
)
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


class AnswerSpace(Strict, frozen=True):
    """Coordinates of the answers of a benchmark.

    Attributes:
        space: the space, and the order behind a colon, that prompts ask for: `thousand`, `pixel:xywh`.
        gold: those of the gold answers; default: recognised from the column.
        mask_above: the grey value above which a pixel belongs to a mask.
        all_inside: several points are right only together; default: the share of them that is.
        box_for_point: of a box that answers a question for a point, the centre counts.
    """

    space: str = ""
    gold: str = ""
    mask_above: int = 0
    all_inside: bool = False
    box_for_point: bool = False


class PromptStyle(Strict, frozen=True):
    """Words around the question.

    Attributes:
        style: `letters` (question, lettered options, a request for the letter), `kit-mcq` (VLMEvalKit's form of that) or
            `question` (the question alone); default: `letters`.
        before: text before everything, joined without a line break; `{request}` asks for a box or a point in the space
            in which replies are read, `{space}` names that space; another name in braces is an error.
        after: text behind everything; see `before`.
        image_marks: a mark in the question where an image stands: `<image>`, or `<image {n}>` with its number from 1, with
            `{n0}` from 0.
        only_when: column to value: `before` and `after` only in such rows.
        request: the request for a letter behind the options, in place of the style's own.
        heading: a line between question and options, for `letters`.
        option: the form of an option, for `letters`: `{letter}. {text}`.
        template: in place of all of these the whole text, with `{question}`, `{options}`, `{letters}` (A,B,C), names
            of columns, and images at `{images}`, else before it; `{{` is a brace.
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
    template: str = ""

    @property
    def is_worded(self) -> bool:
        """Return True if more than style, `before` and `after` is declared, so that the text is the declaration's own."""
        plain = PromptStyle(style=self.style, before=self.before, after=self.after)
        return self.style == "kit-mcq" or self != plain

    @property
    def holds_request(self) -> bool:
        """Return True if the words have a place for the request for a box or a point."""
        words = self.before + self.after
        return "{request}" in words or "{space}" in words or any(other.holds_request for other in self.values.values())

    by: str = ""
    values: Mapping[str, PromptStyle] = {}


Reading: TypeAlias = Literal[
    "letter-or-text",
    "first-capital",
    "lone-letter",
    "mmmu-option",
    "first-mmmu-option",
    "line-letter",
    "answer-line",
    "yes-no",
    "first-word-of",
    "number",
    "pair",
    "braces",
    "final",
    "most-named",
    "chinese-truth",
    "extracted",
    "whole",
    "judged",
    "caption",
    "box",
    "boxes",
    "point",
    "points",
]
Comparison: TypeAlias = Literal[
    "option", "text", "number", "pair", "contains", "contains-formula", "anls", "vqa-score", "relaxed", "exact",
    "formula", "letters", "nearest-option", "only-letter", "within", "in-gold", "typed", "typed-exact", "typed-as-written",
    "marked-letter",
    "edit", "teds", "teds-of-mapping", "outline", "page", "page-parse", "page-parse-cdm", "cdm", "letters-or-page", "letters-only", "fields", "count-share", "iou",
    "answer-and-box", "spotting", "contains-or-anls", "contains-or-anls-cased", "contains-or-anls-unspaced",
    "contains-untagged-formula", "fills-blank", "math-v", "math-v-unrooted", "math-v-whole", "emma", "reasoned", "crpe", "crpe-option",
    "opening-word", "moment", "slake", "mmmu-open", "video-mmmu-open", "mmvu",
    "generalised", "generalised-lmms",
]  # fmt: skip


ProfileName: TypeAlias = Literal["strict", "authors", "judge", "vlmevalkit", "lmms-eval"]
OF_SCORE = ("authors", "judge")
"""Profiles of a table whose [score] has them."""


class InspectScorer(Strict, frozen=True):
    """A scorer of Inspect, which becomes the profile `inspect-NAME`, before all others.

    Attributes:
        name: `includes`, `match`, `pattern`, `answer`, `exact`, `f1`, `choice` or `math`.
        args: its arguments, as in an eval.yaml.
    """

    name: str
    args: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        try:
            rule_of(self.name, self.args)
        except DataError as error:
            raise ValueError(error.message) from error


class JudgeRule(Strict, frozen=True):
    """The judge of free-text answers.

    Attributes:
        model: KIND:NAME; empty: the user names it.
        rubric: `match`, `graded`, `judged` (default), `attempted` (correct, incorrect, not attempted), `by-row` (as the row's
            own `rubric` says, 0 to 1), or a rubric file relative to the TOML.
        published: the model behind published figures; a run says so where another one judged.
    """

    model: str = ""
    rubric: str = ""
    published: str = ""


class ScoreRule(Strict, frozen=True):
    """How a reply is read, and with what it is compared.

    Attributes:
        read: the reading rule.
        equals: the comparison; empty: the one that fits the reading rule.
        also: further comparisons, any of which is enough: `contains`, and under `vlmevalkit` `option`.
        stages: of `final`: what is looked at, the first that decides: `box` (the last `\\boxed{}`), `box-letter`, `tag`
            (`<answer>`), `phrase` (behind "the answer is"), `ends` (a letter that opens or ends the reply), `json` and
            `behind` (see `word`), `letter`, `number`, `capitals` and `whole` (all of the reply), and, by patterns of harnesses,
            `logicvista`, `is-number`, `mmmu-letter`, `emma`, `bare-box-letter`, `visulogic`, `tag-letter`, `phrase-letter`,
            `option-letter`, `bracket-letter`, `word-letter`, `answer-letter`, `colon-letter`, `json-text`, `braced`, `short-letter`,
            `seedbench`, `cv-bench`, `scienceqa`, `ai2d`, `mmvp`, `vstar`, `prefix-truth`; of videos `led-letter` (the first of the letters in
            `word` behind a phrase; also `video-mme`, `video-mme-kit`, `longvideobench`), `closed-letter`, `polished-letter`,
            `any-letter`, `opening-letter`, `opening-truth`, `lone-capital`; of others `first-behind` (the first letter behind `word`), `xlrs`.
        word: the member of `json`, or the word of `behind` and `first-behind`, whose last place counts.
        tolerance: of `within`, and of `formula`, which else rounds to two decimals.
        yes: the positive answer of yes/no questions.
        words: the words of `first-word-of`.
        by: a column, or `kind`; `values` maps its values to other rules.
        values: see `by`.
        profiles: profile to the rule that it follows in place of this one; `authors` is a profile where it stands here, and so is
            `judge`, in which alone the verdicts of `read = "judged"` count, beside the others' rules.
        judge: the judge of free-text answers (`read = "judged"`, or rows with a rubric), unless the user names one.
        reader: KIND:NAME of the model that reads what the rules leave unread, unless the user names one.
        unreadable: always `wrong`; the share of unreadable replies is reported apart.
        region: of `box`, `boxes`, `point` and `points`: how a harness reads them.
        recall: the share of the gold answer's words in the reply is the metric `token-recall`.
        evidence: the value with the gold boxes of a choice: the overlap with those of the reply is the metric `iou`.
        open_option: under `vlmevalkit` a question without options is a choice between its gold answer and this text.
        inspect: scorers of Inspect, each a profile of its own.
        rules: of a set: profile to a function of its harness's file in `benchmarks/spatial/scorers`; `easi` follows
            `vlmevalkit`, and `strict` is `strict.strict`, unless they are given.
    """

    read: Reading = "letter-or-text"
    equals: Comparison | Literal[""] = ""
    also: tuple[Comparison, ...] = ()
    stages: tuple[str, ...] = ()
    word: str = ""
    tolerance: float | None = None
    yes: str = "Yes"
    words: tuple[str, ...] = ()
    by: str = ""
    values: Mapping[str, ScoreRule] = {}
    unreadable: Literal["wrong"] = "wrong"
    region: RegionRule = RegionRule()
    recall: bool = False
    evidence: str = ""
    open_option: str = ""
    profiles: Mapping[ProfileName, ScoreRule] = {}
    judge: JudgeRule = JudgeRule()
    reader: str = ""
    inspect: tuple[InspectScorer, ...] = ()
    rules: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if unknown := next((name for name in self.stages if name not in STAGES), ""):
            raise ValueError(f"stages has {unknown!r}; one of {', '.join(STAGES)} was expected")

    def has(self, profile: ProfileName) -> bool:
        """Return True if this rule, or one of its `values`, has a rule of its own for a profile."""
        return profile in self.profiles or any(rule.has(profile) for rule in self.values.values())

    @property
    def is_given(self) -> bool:
        """Return True for a rule of reading or comparison, and not of the models alone that are asked."""
        rest: ScoreRule = structs.replace(self, judge=JudgeRule(), reader="")
        return rest != ScoreRule()


MetricName: TypeAlias = Literal[
    "accuracy", "f1", "precision", "recall", "yes-ratio", "count", "anls", "vqa-score", "relaxed",
    "attempted", "correct-if-attempted", "attempted-f", "token-recall", "answerable-f1", "answerable-f1-of-all",
    "iou", "accuracy@0.25", "accuracy@0.3", "accuracy@0.5", "accuracy@0.7", "accuracy@0.75", "accuracy@0.9", "centre-in-box", "coco-map", "coco-ap50",
    "centre_in_box", "coco_map", "coco_ap50",
    "text-edit", "formula-edit", "formula-cdm", "table-edit", "order-edit", "table-teds", "table-teds-structure",
]  # fmt: skip


class Report(Strict, frozen=True):
    """One figure, or one figure for each value of some columns.

    Attributes:
        name: the figure's name; default: that of the metric.
        metric: `accuracy`, `f1`, `precision`, `recall`, `yes-ratio`, `count`, `anls`, `vqa-score`, `relaxed`, or
            several; of the rubric `attempted` also `attempted` (the share of such replies), `correct-if-attempted` and
            their harmonic mean `attempted-f`; of rules with `recall` also `token-recall`; of boxes and moments `iou`,
            `accuracy@0.25`, `@0.3`, `@0.5`, `@0.7`, `@0.75`, `@0.9`, `centre_in_box`, `coco_map`, `coco_ap50` (the last
            three with hyphens too); of `page-parse` `text-edit`, `formula-edit`, `table-edit`, `order-edit` (lower is
            better), `table-teds`, `table-teds-structure`, and of `page-parse-cdm` also `formula-cdm`; `answerable-f1` (MMLongBench-Doc's) and `answerable-f1-of-all`
            (its precision counts the score of all replies other than `Not answerable`).
        positive: the positive answer of f1, precision and recall.
        negative: of `answerable-f1`: column to value of the questions that have no answer.
        all_in: a group; the figure is the share of groups in which every row is right.
        steps: of groups of a composite question and its steps: `mastery` (the share with all right, plus half of those
            with only the composite wrong), `mastery-loose` (one right step is enough beside a right composite), or the
            share of a class: `complete`, `inadequate` (only the composite wrong), `rote` (it is right, a step wrong),
            `insufficient`; `consecutive`: the score of Video-MME-v2, by the values `structure` and `number`.
        whole: with `steps`: column to value of the composite question.
        mean_of: a column; the figure is the mean over its values.
        sum_over: a column; the figure is the sum over its values, over `only` these.
        only: see `sum_over`.
        only_where: column to value: only such rows count.
        average: names of figures; this one is their mean, with 1 less a distance beside other figures.
        add: names of figures; this one is their sum.
        gain: names of two figures, after and before: (after - before) / (1 - before). Rows of one declared group are
            drawn together.
        by: columns; one figure for each value.
        repeat: names of figures that are repeated for each value of `by`.
        unread: profile to what a reply that is missing or cannot be read is worth in this figure, or `omitted`; default: 0.
        over_repeats: the score of a question that was asked several times: `max`, `mode`, `median`, `pass_at_K`,
            `at_least_K`; default: their mean.
        scale: factor of the figure.
        headline: the one figure that stands first.
    """

    name: str = ""
    metric: MetricName | tuple[MetricName, ...] = "accuracy"
    positive: str = ""
    negative: Mapping[str, str] = {}
    all_in: str = ""
    steps: Literal["", "mastery", "mastery-loose", "complete", "inadequate", "rote", "insufficient", "consecutive"] = ""
    whole: Mapping[str, str] = {}
    mean_of: str = ""
    sum_over: str = ""
    only: tuple[str, ...] = ()
    only_where: Mapping[str, str] = {}
    average: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    gain: tuple[str, str] | None = None
    by: str | tuple[str, ...] = ()
    repeat: tuple[str, ...] = ()
    unread: Mapping[ProfileName, float | Literal["omitted"]] = {}
    over_repeats: str = ""
    scale: float = 1.0
    headline: bool = False

    def __post_init__(self) -> None:
        if self.over_repeats and not REDUCER.fullmatch(self.over_repeats):
            raise ValueError(
                f"over_repeats is {self.over_repeats!r}; max, mode, median, pass_at_K or at_least_K was expected"
            )
        if endless := [worth for worth in self.unread.values() if worth != "omitted" and not isfinite(worth)]:
            raise ValueError(f"unread is {endless[0]}; a finite number or 'omitted' was expected")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics as a tuple."""
        return (self.metric,) if isinstance(self.metric, str) else self.metric

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of the figures that this one is made of."""
        return self.add or self.average or self.gain or ()

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
        by: whose harness; `authors` or `the authors` at its beginning: beside the profile `authors`; `VLMEvalKit` in
            it: beside `vlmevalkit`; else beside `strict`.
        date: when.
        source: where it stands.
    """

    model: str
    value: float
    by: str = ""
    date: str = ""
    source: str = ""


class Protocol(Strict, frozen=True):
    """Settings by which published figures were measured, as far as a source says them; what is omitted is not known.

    Attributes:
        by: whose figures, as `by` of a figure begins.
        temperature, top_p: sampling.
        repeats: how many passes the figures are the mean of.
        max_tokens: the limit of a reply.
        max_pixels, min_pixels, max_long_side: the size of images.
        judge: the judge's model.
        source: where that stands.
    """

    by: str
    source: str
    temperature: float | None = None
    top_p: float | None = None
    repeats: int | None = None
    max_tokens: int | None = None
    max_pixels: int | None = None
    min_pixels: int | None = None
    max_long_side: int | None = None
    judge: str = ""


class RunDefaults(Strict, frozen=True):
    """Settings of a run that the set declares; what the user chooses comes first.

    Attributes:
        repeats: how often each question is asked.
        temperature, top_p: sampling.
        max_tokens: the limit of a reply.
    """

    repeats: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


class Cards(Strict, frozen=True):
    """Which model cards report the set.

    Attributes:
        count: how many of 18 vendors' cards of October 2025 to September 2026.
        vendors: vendor to what its card or report gives, where a source says it.
    """

    count: int = 0
    vendors: Mapping[str, str] = {}


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
        like: a set or entry of the package; what it declares holds where this file does not.
        omit: sections of that set that do not hold here.
        types: the types of a set's questions by the kind of their answer: `choice`, `number`, `short`.
        authors: the authors' own files, where they differ from those of [source].
        places: of a set's templates: place to its text by the value of `summary.by`.
        tiles: COLUMNSxROWS of the tiles that are shown behind each image; empty: none.
        faults: profile (or `data`) to what is known to be wrong with its harness here, a sentence each.
        eval_task: the task of an eval.yaml that this is the translation of; exports write it again.
    """

    name: str
    source: Source
    rows: Mapping[str, CellSpec] = {}
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
    answer: AnswerSpace = AnswerSpace()
    report: tuple[Report, ...] = ()
    figure: tuple[Figure, ...] = field(default_factory=tuple)
    protocol: tuple[Protocol, ...] = ()
    run: RunDefaults = RunDefaults()
    eval_task: Mapping[str, Any] = {}
    version: str = "1"
    examples: str = ""
    like: str = ""
    omit: tuple[str, ...] = ()
    types: Mapping[str, tuple[str, ...]] = {}
    authors: AuthorsFiles | None = None
    places: Mapping[str, Mapping[str, str]] = {}
    faults: Mapping[str, tuple[str, ...]] = {}
    cards: Cards = Cards()
    easi: EasiNames = EasiNames()
    vlmevalkit: KitNames = KitNames()
    lmms_eval: LmmsNames = field(default=LmmsNames(), name="lmms-eval")
    layout: Mapping[str, Layout] = {}
    form: Mapping[str, Form] = {}
    frames: FramesRule = FramesRule()
    documents: DocumentsRule = DocumentsRule()
    tiles: str = ""
    subset: Subsets = Subsets()
    summary: SetSummary = SetSummary()
    correction: Correction | None = None

    @property
    def is_set(self) -> bool:
        """Return True for a set that is asked and scored as harnesses do, by the forms of its prompts."""
        return bool(self.form)


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
    tables = _with_shared_keys(_like(values, place), place)
    rows = tables.get("rows")
    if isinstance(rows, dict) and "without_image" in rows:
        tables["without_image"] = rows["without_image"]
        tables["rows"] = {name: cell for name, cell in rows.items() if name != "without_image"}
    try:
        declared = msgspec.convert(tables, Declaration)
    except msgspec.ValidationError as error:
        raise declaration_error(error, tables, Declaration, place) from error
    _check(declared, place)
    return declared


SETS = resources.files("snellen.benchmarks") / "sets"
"""The folder of the sets that harnesses know: a file each, called as the set."""
ENTRIES = resources.files("snellen.benchmarks.table") / "catalogue"
LAYOUTS = ("official", "kit")


def _like(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return what is declared, and what the set that it is like declares where it does not; sections are joined key by key."""
    like = values.get("like")
    if not isinstance(like, str):
        return dict(values)
    file = next(
        (file for folder in (SETS, ENTRIES) if (file := folder / f"{like}.toml").is_file()), SETS / f"{like}.toml"
    )
    if not re.fullmatch(r"[\w-]+(?:/[\w-]+)?", like) or not file.is_file():
        raise DataError(f"{place}: like is {like!r}; a set of the package was expected, such as vsi-bench")
    joined = _like(tomllib.loads(file.read_text(encoding="utf-8")), like)
    for section in values.get("omit", ()):
        if joined.pop(section, None) is None:
            raise DataError(f"{place}: omit has {section!r}, and {like} has no such section")
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(joined.get(key), dict)
        joined[key] = {**joined[key], **value} if both else value
    if "form" not in joined:
        del joined["like"]  # an entry is whole now; a set's prompts may be those of the set that it is like
    return joined


def _with_shared_keys(tables: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the tables of a set with each layout and form whole: its own keys, over those that it shares with others."""
    forms, shared, rows = (tables.get(name, {}) for name in ("form", "layout", "rows"))
    if not forms or not all(isinstance(part, dict) for part in (forms, shared, rows, *forms.values())):
        return tables
    for name, form in forms.items():
        if form.get("like", name) not in forms:
            raise DataError(f"{place}: the form {name!r} is like {form['like']!r}, and there is no such form")
    common = {key: value for key, value in shared.items() if key not in LAYOUTS}
    layouts = {}
    for name in LAYOUTS:
        own = shared.get(name, {})
        layouts[name] = {**common, **own, "rows": {**rows, **own.get("rows", {})}}
    whole = {name: {**forms[form.get("like", name)], **form, "like": ""} for name, form in forms.items()}
    return {**tables, "layout": layouts, "form": whole}


def _check(declared: Declaration, place: str) -> None:
    sources = [kind for kind in SOURCE_KINDS if getattr(declared.source, kind)]
    if len(sources) != 1:
        have = " and ".join(sources) or "none"
        raise DataError(f"{place}: [source] names {have}; exactly one of {', '.join(SOURCE_KINDS)} was expected")
    if declared.is_set:
        _check_set(declared, place)
        return
    for needed in ("question", "answer"):
        if needed not in declared.rows:
            raise DataError(f"{place}: [rows] has no {needed!r}; it says which column holds the {needed}")
    for name, cell in declared.rows.items():
        if isinstance(cell, Cell) and (cell.subset or cell.place):
            raise DataError(f"{place}: [rows] {name}: `subset` and `place` are of sets with [form] alone")
    headlines = [report for report in declared.report if report.headline]
    if declared.report and len(headlines) != 1:
        raise DataError(f"{place}: {len(headlines)} of the [[report]] sections have headline = true; one was expected")
    for name, group in declared.group.items():
        if isinstance(group, Group) and group.of and group.of not in declared.group:
            raise DataError(f"{place}: group {name!r} is part of {group.of!r}, and there is no such group")
    for report in declared.report:
        if report.steps and not (report.all_in and (report.whole or report.steps == "consecutive")):
            raise DataError(
                f"{place}: the report {report.name!r} has steps; all_in (the group) and whole (which row is the composite "
                "question) were expected beside it"
            )
        if report.all_in and report.all_in not in declared.group:
            raise DataError(
                f"{place}: the report {report.name!r} is over {report.all_in!r}, and there is no such group"
            )
        rule = declared.score or ScoreRule()
        profiles = [name for name in get_args(ProfileName) if name not in OF_SCORE or rule.has(name)]
        if undeclared := next((name for name in report.unread if name not in profiles), ""):
            raise DataError(
                f"{place}: the report {report.name!r} has unread for {undeclared!r}; one of {', '.join(profiles)} was expected",
                f"Declare the profile, [score.profiles.{undeclared}], or remove it from unread.",
            )
    if declared.authors and not declared.authors.source.files:
        raise DataError(f"{place}: [authors.source] has no 'files'; they say which file is the authors' table")
    _check_frames(declared.frames, place)
    _check_columns(declared, place)
    _check_named(declared, place)
    _check_words(declared.prompt, place)


def _check_frames(rule: FramesRule, place: str) -> None:
    """Check that a table's frames are chosen by a number or by a rate, and that each key has an effect."""
    of_sets = [name for name in ("lmms", "by_subset", "clips") if getattr(rule, name)]
    if rule.rule in ("uniform", "tail", "inner"):
        of_sets.append(f"rule = {rule.rule!r}")
    if of_sets:
        raise DataError(
            f"{place}: [frames] {of_sets[0]} is of sets with [form] alone",
            "Remove it. The rules of a table are ends, middle and inside.",
        )
    if rule.count and rule.rate:
        raise DataError(f"{place}: [frames] has count and rate, which exclude each other", "Remove one of them.")
    for name, needed in (("rule", "count"), ("least", "rate"), ("most", "rate")):
        if getattr(rule, name) and not getattr(rule, needed):
            raise DataError(
                f"{place}: [frames] has {name} without {needed}, and it would have no effect",
                f"Add {needed}, or remove {name}.",
            )
    if rule.least > (rule.most or TIMES):
        raise DataError(
            f"{place}: [frames] least = {rule.least} is more than most = {rule.most or TIMES}",
            "Give a smaller minimum.",
        )


def _check_set(declared: Declaration, place: str) -> None:
    """Check that a set's parts name each other; what its functions are called is checked where they are looked for."""
    for name, layout in declared.layout.items():
        if "question" not in layout.rows:
            raise DataError(f"{place}: [rows] has no 'question' for the layout {name!r}; it says which column holds it")
    own = [name for name in ("line", "join", "packed") if getattr(declared.source, name)]
    if own or declared.authors:
        raise DataError(f"{place}: {(*own, 'authors')[0]} is of tables without [form] alone", "Remove it.")
    if not declared.summary.by:
        raise DataError(f"{place}: [summary] has no 'by'; it says by which value figures are broken down")
    if unknown := sorted(set(declared.subset.tables) - set(declared.subset.names)):
        raise DataError(f"{place}: [subset] tables names {unknown[0]!r}, which is none of its names")


PLACES = {"option": ("letter", "text"), "before": ("request", "space"), "after": ("request", "space")}
"""Names in braces that a prompt's words are made with; what a backslash begins, as `\\boxed{Answer}`, is text."""


def _check_words(style: PromptStyle, place: str, section: str = "[prompt]") -> None:
    """Check that the words of a prompt name in braces what is put there."""
    for key, known in PLACES.items():
        for name in re.findall(r"(?<![\w{}\\])\{([a-z_]+)\}", getattr(style, key)):
            if name not in known:
                listed = " and ".join(f"{{{one}}}" for one in known)
                raise DataError(f"{place}: {section} {key} has {{{name}}}; {listed} are known", "Correct or remove it.")
    for value, other in style.values.items():
        _check_words(other, place, f"{section} values.{value}")


OF_EVERY_SAMPLE = ("kind", "target", "repeat")
"""Values that every sample has, beside those that a declaration names."""


def _check_columns(declared: Declaration, place: str) -> None:
    """Check that figures and rules are by values that [rows] names."""
    known = [*(name for name in declared.rows if name not in OWN_NAMES), *OF_EVERY_SAMPLE]
    rule = declared.score or ScoreRule()
    uses = [(f"[score] {key}", name) for key, name in (("by", rule.by), ("evidence", rule.evidence)) if name]
    for report in declared.report:
        section = f"[[report]] {report.name!r}" if report.name else "[[report]]"
        by = (report.by,) if isinstance(report.by, str) else report.by
        uses += [(f"{section}: by", name) for name in by if name]
        uses += [(f"{section}: {key}", getattr(report, key)) for key in ("mean_of", "sum_over") if getattr(report, key)]
        uses += [(f"{section}: only_where", name) for name in report.only_where]
        uses += [(f"{section}: whole", name) for name in report.whole]
        uses += [(f"{section}: negative", name) for name in report.negative]
    for key, name in uses:
        if name not in known:
            raise DataError(
                f"{place}: {key} names {name!r}; [rows] has {', '.join(known)}", f'Add it to [rows]: {name} = "COLUMN".'
            )


def _check_named(declared: Declaration, place: str) -> None:
    """Check that sums, means and repetitions name figures that are there, and none of them itself."""
    named = {name: report for report in declared.report if not report.by for name in report.names}
    for report in declared.report:
        for key in ("add", "average", "repeat", "gain"):
            for name in getattr(report, key) or ():
                if name not in named:
                    raise DataError(
                        f"{place}: [[report]] {report.name!r}: {key} names {name!r}, and no report without `by` has that name",
                        f"The names are {', '.join(named) or 'none'}.",
                    )
    for name, report in named.items():
        open_names, seen = [*report.parts], set[str]()
        while open_names:
            part = open_names.pop()
            if part == name:
                raise DataError(
                    f"{place}: [[report]] {name!r} is a {'gain' if report.gain else 'sum or mean'} of itself"
                )
            if part not in seen:
                seen.add(part)
                open_names += named[part].parts
