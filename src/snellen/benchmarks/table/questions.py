"""Questions of a table: each row becomes a question that can be asked, or the reason why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.table.answers import AlikeTexts, options_level
from snellen.benchmarks.table.cells import accepted_texts, letters_of, number_of, plain_answer, truth_of, whole
from snellen.benchmarks.table.column_names import row_options
from snellen.benchmarks.table.declaration import OF_CLIPS, Cell, CellSpec, Declaration
from snellen.benchmarks.table.dialogue import turns_of
from snellen.benchmarks.table.gold_kinds import (
    OPEN,
    ColumnFacts,
    checked,
    context_of,
    kind_named,
    kind_of,
    kind_of_texts,
)
from snellen.benchmarks.table.gold_regions import joined_columns
from snellen.benchmarks.table.images import IMAGE_SUFFIXES, VIDEO_SUFFIXES, ImageRoot, References, images_of, is_video
from snellen.benchmarks.table.languages import ENGLISH, truth_words
from snellen.benchmarks.table.literals import NoLiteralError, is_literal, unmarked
from snellen.benchmarks.table.literals import literal as read_literal
from snellen.benchmarks.table.meta import values_reader
from snellen.benchmarks.table.operations import (
    ALL_LETTERS,
    CellError,
    cell_reader,
    drawn_options,
    lettered,
    shuffled,
    value,
)
from snellen.benchmarks.table.pages import is_pdf, shown
from snellen.benchmarks.table.question import OmittedRow, Question
from snellen.benchmarks.table.rows import plain_text
from snellen.benchmarks.table.stacks import clip_of, frames_named, stack_of
from snellen.benchmarks.table.wording import is_plain, may_hold_mark, numbered_marks, placed, question_text
from snellen.errors import DataError, MediaError
from snellen.media.decode import MaskedImage, open_alpha, open_image
from snellen.media.subtitles import SUBTITLE_SUFFIXES, seconds_of
from snellen.scoring.answers import AnswerContext, GoldError, kinds
from snellen.scoring.areas import mask_runs
from snellen.scoring.coordinates import SIDES, Coordinates
from snellen.scoring.grounding import blob_size, require_gold
from snellen.scoring.rules.vlmevalkit import literal
from snellen.sources.blobs import BytesBlob
from snellen.types import Blob, Image, Kind, MediaSettings, Subtitles, Video

CUT = 80
SLOWEST = 1e-6
"""Frames a second of a clip; of fewer the seconds are no numbers."""
_CLIP_ENDINGS = (*VIDEO_SUFFIXES, *map(str.upper, VIDEO_SUFFIXES))
NO_MEDIA: tuple[tuple[Blob, ...], tuple[Video, ...]] = ((), ())
RUBRIC = "rubric"
"""The role of the column that says what counts in judging a row."""
RULED = ("truth", "count", "number")
"""Kinds of a gold answer that need no judge, whatever the rubric of the row."""
EMPTY_IMAGE = "image missing: its cell is empty"
SETTLED = tuple(kind for kind in kinds() if kind not in ("short", "choice_text"))
"""Kinds that a column or the user may name."""
OPEN_KINDS: Mapping[str, Kind] = {"yes-no": "truth", "number": "count", "judged": "judged"}
"""Reading rule of a declaration to the kind of its open answers; others are short."""


class TableRules(Struct, frozen=True):
    """Rules by which the rows of one table are read, decided from all of its rows.

    Attributes:
        declaration: with the column of each role.
        convention: how an answer names its option: `letter`, `text`, `index0`, `index1`.
        open_kind: how a declared rule reads all answers to questions without options; empty: there is no such rule.
        kind: the declared kind of these answers, and of choices where it is `multi-choice`; empty: each row's own.
        facts: what the column of answers says of cells that leave their kind open.
        all_several: a question with options whose answer is one letter may have had several, as most others of the table.
        alike: which gold texts differ in so little that they need a stricter comparison.
        language: the code of the language of requests.
        truth_form: the words of truth questions, `yes/no` or `T/F`.
        in_question: the options stand in the question.
        needs_cells: prompts or figures may be made from cells that have no role.
        shuffle: the seed by which options are shuffled; None: they stand as in the file.
        classes: the classes of class folders, which are the options of every row.
        labels: every label of the table, from which options are drawn (`make`).
        gold: the space and order of gold boxes and points; None: not known.
        gold_fits: those that fit the column, where several do.
        coordinates: the space and order in which replies are read; None: those of the gold answers.
        asks_space: prompts say in words in which space.
        sent_size: what decides the size of images as the model received them, as the run recorded it.
    """

    declaration: Declaration
    convention: str = "letter"
    open_kind: Kind = ""
    kind: str = ""
    facts: ColumnFacts = ColumnFacts()
    all_several: bool = False
    alike: AlikeTexts = AlikeTexts()
    language: str = ENGLISH
    truth_form: str = "yes/no"
    in_question: bool = False
    needs_cells: bool = False
    shuffle: int | None = None
    classes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    gold: Coordinates | None = None
    gold_fits: tuple[Coordinates, ...] = ()
    coordinates: Coordinates | None = None
    asks_space: bool = False
    sent_size: str = ""

    @property
    def declared(self) -> bool:
        """Return True for a declaration that says how its figures are made."""
        return bool(self.declaration.report)

    @property
    def adds_request(self) -> bool:
        """Return True if a request for boxes or points stands behind questions, since the declared prompt has no words."""
        rule = self.declaration.score
        return rule is not None and rule.read in SIDES and is_plain(self.declaration.prompt)

    @property
    def asks_regions(self) -> bool:
        """Return True if prompts ask for boxes and points in Snellen's words."""
        style = self.declaration.prompt
        in_form = not self.declared and style.style == "letters" and is_plain(style)
        return style.holds_request or self.adds_request or in_form

    def spec(self, role: str) -> CellSpec | None:
        """Return the column of a role."""
        return self.declaration.rows.get(role)


class QuestionReader:
    """Reader of the rows of one table: what its rules decide for every row is decided once.

    Args:
        rules: how the table is read.
        root: where images are looked for.
        references: the images of another row, by its id.
    """

    def __init__(self, rules: TableRules, root: ImageRoot, references: References | None = None) -> None:
        rows, made = rules.declaration.rows, rules.spec("options")
        readers = {role: cell_reader(spec) for role, spec in rows.items()}
        self._rules, self._root, self._references = rules, root, references
        self._id, self._options = id_reader(rules), options_reader(rules)
        self._columns = values_reader(rules.declaration)
        self._question = readers["question"]
        self._answer = joined_columns(readers["answer"], rows["answer"])
        self._rubric, self._hint = readers.get(RUBRIC), readers.get("hint")
        self._history, self._system = readers.get("history"), readers.get("system")
        self._mask = readers.get("object_mask")
        self._declared = rules.declared
        self._as_written = bool(rules.declaration.eval_task) and "options" not in rows
        self._has_media = "image" in rows or "video" in rows
        self._kind = None if rules.declared else readers.get("kind")
        self._drawn = (made.make, made.seed) if isinstance(made, Cell) and made.make is not None else None
        self._seed = made.shuffle if isinstance(made, Cell) and made.shuffle is not None else rules.shuffle

    def read(self, row: Mapping[str, Any] | DataError, number: int, place: str) -> Question | OmittedRow | None:
        """Return the question of a row, or why it cannot be asked; None for a row that is no part of the benchmark.

        Args:
            row: the row, or why it cannot be read.
            number: its number, from 0.
        """
        if isinstance(row, DataError):
            return OmittedRow(place, "", row.message)
        sample_id = self._id(row, number)
        try:
            return self._read(row, number, place, sample_id)
        except CellError as error:
            return OmittedRow(place, sample_id, error.message)

    def _read(self, row: Mapping[str, Any], number: int, place: str, sample_id: str) -> Question | None:
        rules = self._rules
        images, videos = NO_MEDIA
        if self._has_media:
            images, videos = media_of(row, number, rules, self._root, self._references)
        if self._has_media and not images and not videos:
            if rules.declaration.without_image == "drop":
                return None
            if rules.declaration.without_image == "stop":
                raise CellError(EMPTY_IMAGE)
        text = plain_text(self._question(row, number))
        if not text.strip():
            raise CellError("its question is empty")
        options = self._options(row, number)
        rubric = "" if self._rubric is None else plain_text(self._rubric(row, number)).strip()
        brackets = may_hold_mark("\n".join((text, *options.values())))
        if brackets and not self._declared and not rules.in_question:
            text, options = numbered_marks(text, options)
        cell = self._answer(row, number)
        wanted = self._wanted_kind(row, number, has_options=len(options) > 1)
        if self._as_written and _answer_in(cell) is not None:
            cell = str(cell)  # inspect_ai compares with Python's text of any cell
        else:
            cell = _region_in(cell, wanted) if wanted in SIDES and (self._declared or cell == []) else _answer_in(cell)
        if self._drawn is not None:
            options, cell = drawn_options(plain_text(cell), rules.labels, *self._drawn, sample_id)
            wanted = self._wanted_kind(row, number, has_options=len(options) > 1)
        is_file = isinstance(cell, str) and cell.lower().endswith(IMAGE_SUFFIXES)
        if wanted in ("point", "points", "region") and (
            is_file or (isinstance(cell, tuple) and hasattr(cell[0], "read"))
        ):
            size = blob_size(images[0]) if images and wanted == "region" and not self._declared else None
            above = rules.declaration.answer.mask_above
            cell = _mask_of(cell, self._root, above, size, may_be_empty=self._declared)
        if len(options) > 1 and wanted in ("", "choice", "multi-choice"):
            answer, kind = _chosen(cell, options, wanted, rules)
            if self._seed is not None:
                options, answer = _reordered(options, answer, self._seed, sample_id)
            known: dict[str, Any] = {} if self._declared else options_level(options)
        elif wanted in ("choice", "multi-choice"):
            raise CellError(f"its kind is {wanted}, and it has {'no options' if not options else 'one option'}")
        elif options and not wanted:
            raise CellError("it has one option; two or more were expected")
        else:
            options = {}
            wanted = "judged" if rubric and _is_for_judge(cell, wanted, rules) else wanted
            answer, kind, known = (
                (cell, rules.open_kind, {}) if self._as_written else _open_answer(cell, text, wanted, rules)
            )
        if self._mask is not None:
            images = _masked(images, self._mask(row, number), self._root)
        hint = "" if self._hint is None else plain_text(self._hint(row, number))
        history = () if self._history is None else turns_of(self._history(row, number))
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
            self._columns(row, number),
            _cells(row) if rules.needs_cells else {},
            history,
            "" if self._system is None else plain_text(self._system(row, number)),
            known,
            rubric,
        )
        # Words of its own around a question may hold a mark; a declared prompt says itself where its images stand.
        if (brackets or rules.needs_cells or (hint and may_hold_mark(hint))) and not self._declared:
            style, form, language = rules.declaration.prompt, rules.truth_form, rules.language
            full = question_text(question, style, in_question=rules.in_question, form=form, language=language)
            placed(full, [*map(Image, images), *videos])
        return question

    def _wanted_kind(self, row: Mapping[str, Any], number: int, *, has_options: bool) -> str:
        """Return the kind that a column or the user says; empty where the cell and its options decide."""
        if self._kind is None:
            kind = self._rules.kind
            if self._declared and kind == "multi-choice" and not has_options:
                return ""  # the rows of other types
            return kind if not has_options or kind in ("choice", "multi-choice") else ""
        text = plain_text(self._kind(row, number)).strip()
        named = kind_named(text) if text else ""
        if named is None:
            raise CellError(f"its kind is {text[:CUT]!r}; one of {', '.join(SETTLED)} or {OPEN} was expected")
        return named


def _region_in(cell: Any, kind: str) -> Any:
    """Return the gold boxes or points in a cell. Raises CellError for an empty one, unless no box may be there."""
    if cell in (None, "", ()) or (cell == [] and kind != "boxes"):
        raise CellError("it has no answer")
    return cell


def _masked(images: tuple[Blob, ...], cell: Any, root: ImageRoot) -> tuple[Blob, ...]:
    """Return the images of a row with the masks of a cell. Raises CellError where there is not one for each."""
    try:
        masks = images_of(cell, root)
    except CellError as error:
        raise CellError(f"its mask: {error.message}") from error
    if len(masks) != len(images):
        raise CellError(f"it has {len(images)} images and {len(masks)} masks; one for each was expected")
    return tuple(map(MaskedImage, images, masks))


def _mask_of(cell: Any, root: ImageRoot, above: int, size: tuple[int, int] | None, *, may_be_empty: bool) -> str:
    """Return the pixels above a grey value as run lengths, of a mask in an image or in the file of that name.

    Opaque pixels of one colour are the mask whatever their colour. JPEG blurs edges, so that half of white is the least in it.

    Raises:
        CellError: it is not found or cannot be decoded, or it is empty, or has another `size` than was given.
    """
    import numpy as np  # few tables have masks

    blob = root.find(cell) if isinstance(cell, str) else cell[0]
    if blob is None:
        raise CellError(f"its mask {cell[:CUT]!r} is not among the images")
    try:
        pixels = np.asarray(open_image(Image(blob), MediaSettings()))[:, :, 0]
        data = blob.read()
        alpha = open_alpha(data)
    except MediaError as error:
        raise CellError(error.message) from error
    mask = pixels > (max(above, 127) if data.startswith(b"\xff\xd8") else above)
    if alpha is not None:
        opaque = np.asarray(alpha)[:, :, 3] > 127
        colours = np.asarray(alpha)[:, :, :3][opaque]
        mask = opaque if (colours == colours[:1]).all() else mask & opaque
    if size is not None and mask.shape != size[::-1]:
        raise CellError(f"its mask has {mask.shape[1]} x {mask.shape[0]} pixels, and its image {size[0]} x {size[1]}")
    if not may_be_empty and not mask.any():
        raise CellError("no pixel of its mask is marked")
    return msgspec.json.encode(mask_runs(mask)).decode()


def id_reader(rules: TableRules) -> Callable[[Mapping[str, Any], int], str]:
    """Return what reads the id of a row: the file's own, else the row's number."""
    spec = rules.spec("id")
    if spec is None:
        return lambda row, number: str(number)
    cell_of = cell_reader(spec)

    def read(row: Mapping[str, Any], number: int) -> str:
        try:
            return plain_text(cell_of(row, number)).strip() or str(number)
        except CellError:
            return str(number)

    return read


def media_of(
    row: Mapping[str, Any], number: int, rules: TableRules, root: ImageRoot, references: References | None
) -> tuple[tuple[Blob, ...], tuple[Video, ...]]:
    """Return the images and clips of a row. Raises CellError for one that is not found."""
    blobs: list[Blob] = []
    clips: list[Video] = []
    for role in ("image", "video"):
        spec = rules.spec(role)
        if spec is None:
            continue
        cells = value(spec, row, number)
        if role == "image" and cells in ("", None) and spec == "image":
            cells = row.get("image_path")
        for cell in cells if isinstance(cells, list) else [cells]:
            named = images_of(cell, root, references) if role == "image" else _clips(cell, root, references)
            if isinstance(named, Video):
                clips.append(named)
            else:
                blobs += named
    if any(map(is_pdf, blobs)):
        pages = None if (spec := rules.spec("pages")) is None else value(spec, row, number)
        blobs = shown(blobs, pages, rules.declaration.documents)
    frame = "" if (spec := rules.spec("frame")) is None else value(spec, row, number)
    images: list[Blob] = []
    for blob in blobs:
        if is_video(blob):
            clips.append(Video(blob))
        elif (stack := stack_of(blob)) is not None and frame not in ("", None):
            images += frames_named(blob, stack, frame)
        elif stack is not None and stack.frames > 1:
            clips.append(clip_of(blob, stack))
        else:
            images.append(blob)
    return tuple(images), tuple(_clip(clip, row, number, rules, root) for clip in clips)


def _clip(clip: Video, row: Mapping[str, Any], number: int, rules: TableRules, root: ImageRoot) -> Video:
    """Return a clip with what the row says of it. Raises CellError."""
    cells = {
        role: "" if (cell := value(spec, row, number)) is None or cell != cell else cell
        for role in OF_CLIPS
        if (spec := rules.spec(role)) is not None
    }
    try:
        start, end, begins = (
            None if cells.get(role, "") == "" else seconds_of(cells[role])
            for role in ("video_start", "video_end", "subtitles_start")
        )
        listed = cells.get("frame_times", "")
        if isinstance(listed, str):
            listed = (
                read_literal(listed) if is_literal(listed) else [part for part in listed.split(",") if part.strip()]
            )
        times = tuple(seconds_of(time) for time in (listed if isinstance(listed, list) else [listed]))
        if clip.frames and cells.get("video_fps", "") != "":
            clip = structs.replace(clip, fps=seconds_of(cells["video_fps"]))
            if 0 < clip.fps < SLOWEST:
                raise ValueError(f"a frame rate of {clip.fps:g}; {SLOWEST:g} or more frames a second were expected")
    except (ValueError, NoLiteralError) as error:
        raise CellError(f"its part of the video: {error}") from error
    if end is not None and end <= (start or 0.0):
        raise CellError(f"its part of the video: it starts at {start or 0.0:g} and ends at {end:g} seconds")
    if clip.frames and not clip.fps and (start is not None or end is not None or times):
        raise CellError(
            "its part of the video: its file says no frame rate, and `video_fps` none, so that it has no seconds"
        )
    declared = rules.declaration.frames
    subtitles = None
    if "subtitles" in cells and declared.subtitles != "off":
        words = declared.subtitles_before, declared.subtitles_after, declared.subtitles_absent
        subtitles = Subtitles(
            _subtitles(cells["subtitles"], root, absent=words[2]), declared.subtitles or "frames", *words, begins or 0.0
        )
    return structs.replace(clip, start=start, end=end, times=times, subtitles=subtitles, usual=declared.usual)


def _subtitles(cell: Any, root: ImageRoot, *, absent: str) -> Blob | None:
    """Return the subtitles of a cell: a file, their text, or a list of lines; None where there are none.

    Raises:
        CellError: the file is not there, and no text stands in its place.
    """
    if isinstance(cell, (list, dict)):
        return BytesBlob("its subtitles", msgspec.json.encode(cell)) if cell else None
    text = str(cell).strip()
    if not text or "-->" in text or is_literal(text):
        return BytesBlob("its subtitles", text.encode()) if text else None
    for suffix in ("", *SUBTITLE_SUFFIXES):
        if (blob := root.find(f"{text}{suffix}")) is not None:
            return blob
    if absent:
        return None
    raise CellError(
        f"its subtitles {text[:80]!r} are not among the files; add their folder with --images, or pass -o subtitles=off"
    )


def _clips(cell: Any, root: ImageRoot, references: References | None) -> tuple[Blob, ...] | Video:
    """Return the clips of a cell: files, whose names may lack their ending, or a folder of frames; both before the id of a row."""
    if isinstance(cell, (str, int)) and "\n" not in str(cell) and cell != "":
        has_ending = str(cell).lower().endswith(VIDEO_SUFFIXES)
        for suffix in ("",) * has_ending + _CLIP_ENDINGS:
            if (blob := root.find(f"{cell}{suffix}")) is not None:
                return (blob,)
        if not has_ending and (frames := root.frames(str(cell))):
            return Video(frames=tuple(map(Image, frames)), fps=0.0)
    return images_of(cell, root, references)


def options_reader(rules: TableRules) -> Callable[[Mapping[str, Any], int], dict[str, str]]:
    """Return what reads the options of a row; they are empty where they are drawn from all labels."""
    spec, question = rules.spec("options"), rules.spec("question")
    if rules.classes:
        return lambda row, number: dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", rules.classes, strict=False))
    if spec is None or (isinstance(spec, Cell) and spec.make is not None):
        return lambda row, number: {}
    if rules.declared or spec == ALL_LETTERS or (isinstance(spec, Cell) and spec.letters):
        return partial(lettered, spec)
    return lambda row, number: row_options(spec, row, question)


def _answer_in(cell: Any) -> Any:
    """Return the gold answer in a cell. Raises CellError for an empty one."""
    cell = plain_answer(cell)
    is_empty = not cell.strip() if isinstance(cell, str) else cell is None or cell in ([], {}) or cell != cell
    if is_empty:
        raise CellError("it has no answer")
    return cell


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in row.items() if isinstance(cell, (str, int, float))}


def _chosen(cell: Any, options: Mapping[str, str], wanted: str, rules: TableRules) -> tuple[Any, Kind]:
    """Return the letter that an answer names, or its letters, with the kind."""
    letters = letters_of(cell, options, rules.convention)
    if not letters and rules.convention in ("letter", "text"):
        letters = letters_of(cell, options, "text" if rules.convention == "letter" else "letter")
    if not letters:
        known = f"{next(iter(options))} to {list(options)[-1]}"
        expected = {
            "letter": f"a letter from {known}",
            "text": "the text of an option",
            "index0": f"an index from 0 to {len(options) - 1}",
            "index1": f"an index from 1 to {len(options)}",
            "letter-index0": f"a letter from {known}, or an index from 0 to {len(options) - 1},",
            "bool": "yes or no",
        }[rules.convention]
        raise CellError(
            f"answer {plain_text(cell)[:CUT]!r} is not among its {len(options)} options; {expected} was expected"
        )
    if len(letters) > 1 and (wanted == "choice" or (rules.declared and wanted != "multi-choice")):
        raise CellError(f"answer {plain_text(cell)[:CUT]!r} names {len(letters)} options; its kind is choice")
    if len(letters) > 1 or wanted == "multi-choice" or (rules.all_several and not wanted):
        return letters, "multi-choice"
    return letters[0], "choice"


def _reordered(
    options: dict[str, str], answer: str | tuple[str, ...], seed: int, sample_id: str
) -> tuple[dict[str, str], str | tuple[str, ...]]:
    if isinstance(answer, str):
        return shuffled(options, answer, seed, sample_id)
    moved = [shuffled(options, letter, seed, sample_id) for letter in answer]
    return moved[0][0], tuple(sorted(letter for _, letter in moved))


def _is_for_judge(cell: Any, wanted: str, rules: TableRules) -> bool:
    """Return True for the gold answer of a row with a rubric, unless rules alone decide it: yes, no, a number, a named kind."""
    if rules.open_kind:
        return rules.open_kind == "short"
    if wanted not in ("", OPEN):
        return wanted in ("text", "name")
    return kind_of(unmarked(cell.strip()) if isinstance(cell, str) else cell, rules.facts) not in RULED


def _open_answer(cell: Any, question: str, wanted: str, rules: TableRules) -> tuple[Any, Kind, dict[str, Any]]:
    """Return the gold answer of a question without options, its kind, and what a type must know of it."""
    if rules.open_kind == "moment":
        return _typed_answer(cell, "moment", question, rules, is_certain=True)
    if rules.open_kind:
        if wanted == "json" and _has_object(cell):
            return plain_text(cell).strip(), "short", {}
        return *_declared_answer(cell, wanted if wanted == "judged" else rules.open_kind), {}
    if isinstance(cell, str):
        cell = unmarked(cell.strip())
    texts = (
        accepted_texts(cell)
        if isinstance(cell, (list, tuple, dict)) or (isinstance(cell, str) and cell[:1] == "[")
        else ()
    )
    is_several = (
        len(texts) > 1
        and kind_of(cell, rules.facts) not in (*SIDES, "moment")
        and wanted in ("", OPEN, "text", "name", "judged")
    )
    kind = (
        wanted
        if wanted not in ("", OPEN)
        else kind_of_texts(texts, question)
        if is_several
        else kind_of(cell, rules.facts, question)
    )
    if is_several:
        return texts, kind, {}
    if len(texts) == 1 and kind in ("text", "name", "judged"):
        cell = texts[0]
    return _typed_answer(cell, kind, question, rules, is_certain=wanted not in ("", OPEN))


def _typed_answer(
    cell: Any, kind: str, question: str, rules: TableRules, *, is_certain: bool
) -> tuple[Any, Kind, dict[str, Any]]:
    """Return an answer of one kind, read by its type; one of an uncertain kind that its type does not read is a text."""
    if kind == "truth":
        truth = truth_of(cell, numbers=True)
        if truth is not None:
            return truth, kind, {}
        named = truth_words().get(plain_text(cell).strip().rstrip(".").casefold())
        if named is not None:
            return named[0], kind, {}
    known = context_of(kind, cell, rules.facts)
    if kind in ("count", "number") and "decimal" not in known and (number := number_of(cell)) is not None:
        exact = whole(number)
        if exact is not None and (kind == "count" or (is_certain and rules.facts.whole)):
            return exact, "count", {}
        if kind == "number" and not isinstance(cell, str):
            return number, kind, {}  # of a text the place of the last digit counts
    text = plain_text(cell).strip()
    if not text:
        raise CellError("it has no answer")
    if kind == "text":
        return text, kind, rules.alike.level_of(text)
    if kind in SIDES and rules.gold is not None:
        try:
            require_gold(text, kind, rules.gold)
        except DataError as error:
            raise CellError(error.message) from error
        return text, kind, known
    try:
        gold = checked(kind, text, AnswerContext(question=question, **known))
    except GoldError as error:
        if is_certain or kind in SIDES or kind == "moment":
            raise CellError(f"answer {error}") from error
        return text, "text", rules.alike.level_of(text)
    return (gold if kind == "truth" else text), kind, known


def _has_object(cell: Any) -> bool:
    """Return True for an object, alone or in a list, as such or as text: its members are no further gold answers."""
    value = literal(cell.strip()) if isinstance(cell, str) else cell
    items = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(literal(item) if isinstance(item, str) else item, Mapping) for item in items)


def _declared_answer(cell: Any, kind: Kind) -> tuple[Any, Kind]:
    """Return an answer of a table whose declaration says how all of them are read."""
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
    return (texts[0] if len(texts) == 1 else texts), "judged" if kind == "judged" else "short"
