"""The sections of a declaration that is a set of several harnesses: its names there, layouts of its rows, prompts, figures.

What is a harness's rule, such as a reader of replies, is a function of the harness's file in `benchmarks/spatial/scorers`,
which [score] `rules` names. `docs/declare-sets.md` shows a whole set.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta

from snellen.benchmarks.table.cell_form import Cell, Strict
from snellen.types import Kind, MediaSettings


class EasiNames(Strict, frozen=True):
    """The set at EASI.

    Attributes:
        id: its key in the payload; default: the name with underscores.
        place: its place among EASI's sets, from 1: the first twelve are those of the payload. Sets without one stand behind.
    """

    id: str = ""
    place: int = 0


class KitNames(Strict, frozen=True):
    """The set at VLMEvalKit.

    Attributes:
        data: its data names.
        needed: columns without which a table is not the set's; of several in a list one is enough.
        tables: MD5 of its tables by file name: the kit fetches a table with another one anew.
        in_parts: each of its data names is a part of the set; else a variant, of which answers to one are read.
        fractions: its figures are fractions, and not percent.
        matched: its table of figures and its matches are those of the exact matcher.
        figures: the ending of the table of figures.
        export: columns of the rows that are written: a field of the sample's meta (`?`: it may be missing) or an `@`
            value.
    """

    data: tuple[str, ...] = ()
    needed: tuple[tuple[str, ...], ...] = ()
    tables: Mapping[str, str] = {}
    in_parts: bool = False
    fractions: bool = False
    matched: bool = False
    figures: str = "extract_matching_acc"
    export: Mapping[str, str] = {}


class LmmsNames(Strict, frozen=True):
    """The set at lmms-eval.

    Attributes:
        tasks: its tasks.
        begins: what the names of all its tasks begin with; empty: variants of `tasks` alone.
        whole: the task with all questions, which makes the files of its parts superfluous.
        in_parts: further tasks are parts of the set; else variants, of which answers to one are read.
        overall: names of the metric that is the overall figure, the newest first.
        percent: what is written in percent: `overall`, `groups`.
        digits: decimals of the figures that are written.
        export: columns of the rows that are written, as for VLMEvalKit.
        logged: columns of the authors' row to a field of a metric (`?`: it may be missing) or an `@` value, for lines
            without a `doc`; `*` takes all fields of that metric.
    """

    tasks: tuple[str, ...] = ()
    begins: str = ""
    whole: str = ""
    in_parts: bool = False
    overall: tuple[str, ...] = ()
    percent: tuple[Literal["overall", "groups"], ...] = ()
    digits: int = 12
    export: Mapping[str, str] = {}
    logged: Mapping[str, str] = {}


class Layout(Strict, frozen=True):
    """What is particular of the rows of one layout: the authors' files (`official`) or VLMEvalKit's table (`kit`).

    Keys of [layout] hold for both layouts, those of [layout.official] and [layout.kit] for one, and so do their `rows`.

    Attributes:
        rows: values by name, over those of [rows].
        kind: of all questions, unless their type says it.
        type_columns: the columns that say a row's type: the first that has one of [types], or, if it ends with `?`,
            anything.
        part: the value whose text goes before the id.
        by_media: where no column says what rows share, it is the first path that is shown.
        tags: rows are tagged for MMSI-Video-Bench's parts.
        pieces: columns that prompts use by name.
        count: how many options there are where no row says.
        lists: how a text is read where a list is looked for: a literal of texts (`texts`), of anything (`literal`), or
            one option where it is none (`whole`); JSON too, or a mapping A, B ... (`decoded`).
        options_plain: letters that options bring along stay.
        options_as_written: the list of options is kept for the prompt.
        options_lines: the column with an option a line.
        options_columns: the letters of columns with one option each.
        options_in: where options stand in words: `text`, `pieces`.
        with_options: the kinds of questions that have options.
        unique_ids: of rows with one id the first is asked.
        own: a function of `benchmarks/spatial/sources/rows.py`, for what no column says.
    """

    rows: Mapping[str, str | Cell] = {}
    kind: Kind = "choice"
    type_columns: tuple[str, ...] = ()
    part: str = ""
    by_media: bool = False
    tags: bool = False
    pieces: tuple[str, ...] = ()
    count: int = 0
    lists: Literal["texts", "whole", "literal", "decoded"] = "texts"
    options_plain: bool = False
    options_as_written: bool = False
    options_lines: str | Cell = ""
    options_columns: str = ""
    options_in: tuple[Literal["text", "pieces"], ...] = ()
    with_options: tuple[str, ...] = ("choice",)
    unique_ids: bool = False
    own: str = ""


class Subsets(Strict, frozen=True):
    """What `-o subset=` selects from.

    Attributes:
        by: the value by which questions are selected; empty where subsets lie in folders of their own.
        names: the subsets.
        one: they are the same questions in other forms: the first is asked unless the option names another.
        tables: VLMEvalKit's table of each subset; without them the first table has the whole set.
    """

    by: str = ""
    names: tuple[str, ...] = ()
    one: bool = False
    tables: Mapping[str, str] = {}


class SetSummary(Strict, frozen=True):
    """The figures of a set.

    Attributes:
        by: the value that figures are broken down by.
        columns: values that figures are broken down by, where there are more than `by`, or others.
        groups: known values of `by`, in any harness's spelling: to the key in EASI's payload, or as a list.
        composite: by profile (`*` is any other), a function of `benchmarks/spatial/scorers/figures.py` for figures
            that are no means over rows.
        composite_by: the value that composite figures are named after; default: `category`.
        averaged: figure to the groups that it is made of, or a kind of [types].
        figures: value (`*` is any other) to the name of a group's figure.
        numbers: the name of the figure of a group that numbers answer.
        adjusted: figures are adjusted for chance, which is 0; the plain accuracy stands beside them.
        extra: further figures: a function of `benchmarks/spatial/metrics.py`.
        unsaid: values that only break figures down, with what stands for them where a file of answers lacks them.
    """

    by: str = ""
    columns: tuple[str, ...] = ()
    groups: Mapping[str, str] | tuple[str, ...] = {}
    composite: Mapping[str, str] = {}
    composite_by: str = "category"
    averaged: Mapping[str, str | tuple[str, ...]] = {}
    figures: Mapping[str, str] = {}
    numbers: str = ""
    adjusted: bool = False
    extra: str = ""
    unsaid: Mapping[str, str] = {}


class FramesRule(Strict, frozen=True):
    """Frames of a video that are shown where the user does not say.

    Attributes:
        count: how many.
        rate: how many a second, in place of a number.
        least, most: bounds of a rate's number of frames.
        rule: of a number: from the first frame to the last (`ends`), in the middle of equal segments (`middle`), or
            between both ends (`inside`). Of a set VLMEvalKit's formula: even steps (`uniform`), the last once more
            (`tail`), or inside of both ends (`inner`).
        timestamps: the time is written before each frame.
        subtitles: which are shown, where [rows] has them: those at the `frames`, in a list behind them; `full`: all; `between`:
            those at the frames, between them; `intervals`: behind each frame what is said until the next; `off`: none.
        subtitles_before, subtitles_after: texts around the list.
        subtitles_absent: a text in place of an empty list; files of subtitles may then be missing.
        lmms: lmms-eval picks frames too; else it hands the file over.
        by_subset: the name of the subset says how many, and `count` is for a subset of all frames.
        clips: questions show clips that are given as frames.
    """

    count: Annotated[int, Meta(ge=1)] = 0
    rate: Annotated[float, Meta(gt=0, le=1000)] = 0.0
    least: Annotated[int, Meta(ge=1)] = 0
    most: Annotated[int, Meta(ge=1)] = 0
    rule: Literal["", "ends", "middle", "inside", "uniform", "tail", "inner"] = ""
    timestamps: bool = False
    subtitles: Literal["", "off", "frames", "full", "between", "intervals"] = ""
    subtitles_before: str = ""
    subtitles_after: str = ""
    subtitles_absent: str = ""
    lmms: bool = False
    by_subset: bool = False
    clips: bool = False

    @property
    def usual(self) -> MediaSettings | None:
        """Return the settings of a table that is no set; None where nothing is declared."""
        if not (self.count or self.rate or self.timestamps):
            return None
        places = cast(Literal["ends", "middle", "inside"] | None, self.rule or None)
        return MediaSettings(
            frames=self.count or None,
            fps=self.rate or None,
            min_frames=self.least or None,
            max_frames=self.most or None,
            frame_places=places,
            timestamps=self.timestamps or None,
        )


class DocumentsRule(Strict, frozen=True):
    """Pages of PDFs that are shown where the user does not say.

    Attributes:
        dpi: pixels an inch.
        max_pages: how many of one document at most, its first ones.
        missing_pages: pages that a row names and its document lacks are an error, or they are skipped.
    """

    dpi: int = 144
    max_pages: int = 120
    missing_pages: Literal["error", "skip"] = "error"


Order: TypeAlias = Literal[
    "front",
    "marks",
    "between",
    "positions",
    "numbered",
    "around",
    "text-first",
    "time-first",
    "mindcube",
    "site",
    "clips",
]
Template: TypeAlias = Literal["text", "number", "short", "open", "video", "boxes"]


class Form(Strict, frozen=True):
    """The words of a harness's prompt, by the name that `-o prompting=` has; the first form is the default.

    Templates have places in braces, which are filled from the row; what stands in `[[...]]` goes where none of its places has
    anything to show. docs/spatial-prompts.md and docs/spatial-more.md list the places.

    Attributes:
        text: the template of a question.
        number, short, open: that of questions of these kinds, where they differ.
        video, boxes: that of questions about a clip, and of those that `templates` names.
        templates: value of `summary.by` (`*` is any other) to the template that it takes, whatever its kind.
        only: values of `summary.by` that the harness has a prompt for; others fail. Empty: all.
        order: the order of texts and images.
        strip: white space is removed around questions.
        options_once: options that the question lists in its own text are not listed again.
        before, after_image: texts in front of the images and right behind them, as parts of their own.
        opening: what {opening} stands for.
        time, unknown_time: what {time} stands for, and what where the clip's rate is not known.
        option, between: how one option is written, with {letter} and {text}, and what stands between two.
        pre, post, post_number, post_video: what these places stand for; {letters} in them are the letters of the options.
        max_tokens, max_tokens_open: new tokens that a reply may have, and that of an open question; 0 leaves it to the model.
        temperature: as the harness asks for it; without one it is left to the model.
        image_label, frame_label: a text before each image, and before each frame of a clip; {k} is its number from 1.
        read: what `snellen prompts import` takes from lmms-eval's task: a key here to its setting, of another task as
            `task.setting`.
        ours: what lmms-eval has in its code, so that the words here remain.
        like: a form whose keys hold where this one has none.
    """

    text: str = ""
    number: str = ""
    short: str = ""
    open: str = ""
    video: str = ""
    boxes: str = ""
    templates: Mapping[str, Template] = {}
    only: tuple[str, ...] = ()
    order: Order = "front"
    strip: bool = False
    options_once: bool = False
    before: str = ""
    after_image: str = ""
    opening: str = ""
    time: str = ""
    unknown_time: str = ""
    option: str = "{letter}. {text}"
    between: str = "\n"
    pre: str = ""
    post: str = ""
    post_number: str = ""
    post_video: str = ""
    max_tokens: int = 0
    max_tokens_open: int = 0
    temperature: float | None = None
    image_label: str = ""
    frame_label: str = ""
    read: Mapping[str, str] = {}
    ours: str = ""
    like: str = ""


Revision: TypeAlias = Literal["before", "after", "other"]
_NUMBER = re.compile(r"(\d+)$")


class TableDigests(Strict, frozen=True):
    """Digests of VLMEvalKit's table."""

    md5: str
    sha256: str


class Correction(Strict, frozen=True):
    """A correction of gold answers that came after figures had been published.

    Attributes:
        title: the authors' name of the set.
        group: the category whose answers were corrected.
        rows, of: how many rows that category has, and how many the whole set has.
        hub, vlmevalkit: when the hub's files and VLMEvalKit's table were corrected.
        first: gold letters of the group's first rows before the correction, by which data in any layout is recognised.
        before, after: digests of VLMEvalKit's table.
    """

    title: str
    group: str
    rows: int
    of: int
    hub: dt.date
    vlmevalkit: dt.date
    first: str
    before: TableDigests
    after: TableDigests

    def name(self, revision: Revision) -> str:
        """Return the revision in words, for a reader of a figure."""
        if revision == "before":
            return f"gold answers of {self.title} from before their correction of {self.hub}"
        if revision == "other":
            return f"gold answers of {self.title} other than those from before their correction of {self.hub}"
        return f"gold answers of {self.title} as corrected on {self.hub}"

    def sentence(self) -> str:
        """Return the correction and its dates in words."""
        return (
            f"The answers to {self.group}, {self.rows:,} of the {self.of:,} questions, were corrected on {self.hub} on the "
            f"hub and on {self.vlmevalkit} in VLMEvalKit's table"
        )

    def by_digest(self, digest: str) -> Revision | None:
        """Return the revision of a table with this MD5, or of data whose digest contains this SHA-256.

        None for any other.
        """
        if self.before.md5 == digest or self.before.sha256 in digest:
            return "before"
        return "after" if self.after.md5 == digest or self.after.sha256 in digest else None

    def of_data(self, digest: str, questions: Iterable[Any]) -> Revision | None:
        """Return the revision in data: by the digest, else by the answers; None where neither tells."""
        return self.by_digest(digest) or self.by_rows(questions)

    def by_rows(self, questions: Iterable[Any]) -> Revision | None:
        """Return "before" where the group's first answers are those from before the correction, else "other".

        Rows go by the number at the end of their ids where all of them have one, as those of the hub have, else by their
        order. Other answers may be the corrected ones or anybody's own. None where there are too few rows.
        """
        letters = [
            (_NUMBER.search(question.id), question.gold)
            for question in questions
            if self.group in question.groups.values()
        ]
        if len(letters) < len(self.first):
            return None
        if all(number for number, _ in letters):
            letters.sort(key=lambda pair: int(pair[0][1]) if pair[0] else 0)
        return "before" if "".join(gold for _, gold in letters)[: len(self.first)] == self.first else "other"
