"""A table as a benchmark: by its path, by `hf:owner/name`, or by a declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Data, DataFile
from snellen.benchmarks.table.declaration import Cell, Declaration, PromptStyle, ScoreRule, Source
from snellen.benchmarks.table.gold_regions import OPTION as GOLD_OPTION
from snellen.benchmarks.table.image_checks import OnRead
from snellen.benchmarks.table.meta import groups_by_row
from snellen.benchmarks.table.operations import columns_of
from snellen.benchmarks.table.pages import DPI, MOST, chosen_pages
from snellen.benchmarks.table.paragraph import reading_of
from snellen.benchmarks.table.prompts import prompt as declared_prompt
from snellen.benchmarks.table.prompts import requested_prompt
from snellen.benchmarks.table.question import OmittedRow, Question
from snellen.benchmarks.table.questions import TableRules
from snellen.benchmarks.table.reports import summary
from snellen.benchmarks.table.rows import Rows
from snellen.benchmarks.table.scorers import (
    JUDGE,
    comparisons_of,
    judged_beside,
    kinds_for_judge,
    profiles_of,
    scorers,
)
from snellen.benchmarks.table.summary import (
    CHANCE,
    FORM,
    QUESTION,
    RESERVED,
    ROTATION,
    ROTATIONS,
    TARGET,
    strict,
    summarize,
)
from snellen.benchmarks.table.survey import OnRow, OpenedTable, Survey, opened
from snellen.benchmarks.table.vqa_form import declaration_of, questions_in
from snellen.benchmarks.table.wording import is_plain, prompt_writer
from snellen.errors import DataError, UsageError
from snellen.media.sampling import frames_rule
from snellen.scoring.coordinates import COORDINATES, COORDINATES_BY, REPLY_SPACE, SENT, SIDES, Coordinates
from snellen.scoring.grounding import ALL_INSIDE, BOX_FOR_POINT, GOLD_SPACE, SENT_SIZE
from snellen.scoring.rubric import CRITERIA, Rubric, criteria_of, load_rubric
from snellen.scoring.rules.documents import require_packages
from snellen.scoring.scorers import TEXT_LEVEL, UNJUDGED, is_reference
from snellen.sources.hub import HUB
from snellen.types import MediaSettings, Prompt, Sample

VERSION = "1"
PROFILES = {"strict": "the one answer that the reply names; no answer and two answers are worth 0"}
TILES, MASK = "tiles", "mask"
OPTIONS: Mapping[str, str] = {
    "map": "columns by role: question=prompt,answer=label,options=choices,category=topic,image=left+right",
    "circular": "true: ask each choice question in every rotation of its options",
    "question": "the question of every row, for a table without one",
    "kind": "the kind of the answers: text, number, quantity, date …, or the column that says it; default: each row's own",
    "prompt-language": "the language of requests such as 'Answer with a number.': auto (default, that of the questions), en, de …",
    "prompt": "letters (default), kit-mcq (VLMEvalKit's form), or question: the question as it stands",
    "without_image": "stop (default): leave out rows without an image; keep: ask them",
    "subtitles": "of videos, where a column has them: frames (those spoken at the frames), full, between (the frames), intervals, off",
    DPI: "resolution of the pages of PDFs in pixels an inch; default: 144, or what is declared",
    MOST: "how many pages of a PDF are sent at most, the first ones; default: 120, or what is declared",
    MASK: "the column with the masks of the images' objects, as --mask names it",
    TILES: "COLUMNSxROWS: show behind each image its tiles in full resolution, row by row",
    "file": "the table in a folder, an archive or a data set of the hub",
    "config": "the configuration of a data set of the hub",
    "split": "the split of a data set of the hub",
    "each": "the list of rows in a JSON file: data.items",
    "sheet": "the sheet of an Excel file",
    "encoding": "the encoding of a text file that is not UTF-8 and has no byte order mark",
    COORDINATES: "space and order in which replies write boxes and points: thousand, pixel:xywh (snellen run --coordinates)",
    COORDINATES_BY: "what chose them, as a run records it",
    SENT: "what decides the size of images as the model received them, as a run records it",
    GOLD_OPTION: "space and order of the gold boxes and points; default: recognised from the column",
    "as_kit": "true: read the table as VLMEvalKit does, with pandas: `None` and `NA` are empty, 007 is 7",
}
PromptWriter: TypeAlias = Callable[[Question], Prompt]
OF_ROWS = ("match", "graded")
"""Rubrics of the package that a row's own cell may name; any other text says what counts."""
TRUE = ("true", "1", "yes", "on")
FALSE = ("", "false", "0", "no", "off")


class Table(Struct, frozen=True):
    """The table behind a benchmark.

    Attributes:
        declaration: what is declared of it; without `rows` its columns are recognised.
        base: the folder at which relative paths of its source begin.
    """

    declaration: Declaration
    base: Path = Path()

    def opened(self, data: Data) -> OpenedTable:
        """Return the table, opened as the user's settings choose. Raises UsageError for an unknown value."""
        return opened(_chosen(self.declaration, data), data, self.base)

    def circular(self, data: Data) -> bool:
        """Return True if each choice question is asked in every rotation of its options."""
        return _circular(data)

    def survey(
        self, data: Data, on_read: OnRead | None = None, begin: Callable[[PromptWriter], OnRow] | None = None
    ) -> Survey:
        """Survey the table; see `OpenedTable.survey`. Raises UsageError where circular evaluation is impossible.

        `begin` takes what writes the prompts, and returns what receives each row as it is read; it is called again where the
        rows are read anew, by other rules.
        """
        told = None if begin is None else lambda rules: begin(prompts_of(rules))
        surveyed = self.opened(data).survey(on_read, told)
        if _circular(data):
            _require_rotatable(surveyed)
        return surveyed


def open_table(name: str) -> Benchmark:
    """Return the benchmark that a table's path or `hf:owner/name` names. Of a JSON file both ends alone are read yet."""
    if name.startswith(HUB):
        repo, _, revision = name[len(HUB) :].partition("@")
        return benchmark_of(Declaration(f"{HUB}{repo}", Source(hub=repo, revision=revision), {}))
    path = Path(name).expanduser()
    if (questions := questions_in(path)) is not None:
        return benchmark_of(declaration_of(questions))
    return benchmark_of(Declaration(path.name or path.absolute().name, Source(file=str(path.absolute())), {}))


def benchmark_of(declaration: Declaration, base: Path = Path()) -> Benchmark:
    """Return a declaration as a benchmark.

    Args:
        declaration: what a TOML declares; without `rows` its columns are recognised.
        base: the folder at which relative paths of its source begin.
    """
    declared, table = bool(declaration.report), Table(declaration, base)
    rule = declaration.score or ScoreRule()
    scored = declared or rule.is_given
    rubric = _rubric(rule, base)
    return Benchmark(
        name=declaration.name,
        version=declaration.version,
        samples=lambda data: samples(table, data),
        score=scorers(rule) if scored else {"strict": strict},
        summarize=summary(declaration) if declared else summarize,
        profiles=_with_faults(profiles_of(rule), declaration.faults) if scored else PROFILES,
        size=lambda data: _size(table.survey(data), data),
        digest=lambda data: table.survey(data).digest,
        options=OPTIONS,
        wording=frozenset((COORDINATES, COORDINATES_BY, SENT)),
        about=_about(declaration) | _known_beside(declaration.faults, profiles_of(rule)),
        files=lambda data: _files(table.opened(data).open()),
        reading=lambda data: reading_of(table.survey(_with_images(table, data))),
        notices=lambda data: _notices(table.survey(data)),
        cluster="image",
        table=table,
        with_media=_with_masks,
        rubric=rubric,
        ruled_correct=lambda sample, reply: rubric(sample) is not None and is_reference(sample, reply),
        rule_first=True,
        judge=rule.judge.model,
        judge_profile=JUDGE if rule.has("judge") else "",
        published_judge=rule.judge.published,
        faults=_faults(declaration.faults),
        reader=rule.reader,
        examples=_examples(declaration.examples, base),
        settings={name: value for name, value in structs.asdict(declaration.run).items() if value is not None},
    )


def _with_masks(data: Data, media: MediaSettings) -> Data:
    """Return the data with the column that `--mask` names where it is no folder."""
    if not media.mask or Path(media.mask).exists():
        return data
    return structs.replace(data, options={**data.options, MASK: media.mask})


def _with_faults(profiles: Mapping[str, str], faults: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return what is said of each profile, with what is known to be wrong with its harness."""
    return {name: "; known here: ".join((text, *faults.get(name, ()))) for name, text in profiles.items()}


def _known_beside(faults: Mapping[str, tuple[str, ...]], profiles: Mapping[str, str]) -> dict[str, str]:
    """Return what is known of the data, and of harnesses that are no profile, for lists."""
    return {f"known of {name}": "; ".join(texts) for name, texts in faults.items() if name not in profiles}


def _faults(faults: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return what is known to be wrong with harnesses, each with its profile, and with the data."""
    return tuple(f"known of {name}: {text}" for name, texts in faults.items() for text in texts)


def _notices(surveyed: Survey) -> list[str]:
    """Return what is said before a run without a judge."""
    count = surveyed.kinds["judged"]
    golds = "1 gold is a free text" if count == 1 else f"{count:,} golds are free texts"
    return [f"{golds}: {UNJUDGED}"] if count else []


def _rubric(rule: ScoreRule, base: Path) -> Callable[[Sample], Rubric | None]:
    """Return what says by which rubric a judge decides an answer: of a free text its row's, else the table's.

    Args:
        rule: whose `judge` names a rubric of the package, or a file relative to `base`; empty: `judged`.
        base: the folder of the declaration.
    """
    name, kinds = rule.judge.rubric, kinds_for_judge(rule)

    @cache
    def loaded(name: str) -> Rubric:
        return load_rubric(str(base / name) if name.endswith(".toml") else name)

    def rubric(sample: Sample) -> Rubric | None:
        if sample.kind not in kinds and not judged_beside(rule, sample):
            return None
        own = criteria_of(sample)
        return loaded(own if own in OF_ROWS else name or "judged")

    return rubric


def _examples(text: str, base: Path) -> str:
    """Return a declared pool of few-shot examples; a path is relative to the declaration."""
    return text if not text or "=" in text or text.startswith(HUB) else str(base / text)


def _chosen(declaration: Declaration, data: Data) -> Declaration:
    """Return the declaration as the user's options change it. Raises UsageError for an unknown value."""
    style, without = data.options.get("prompt"), data.options.get("without_image")
    _circular(data)
    if style is not None:
        if style not in ("letters", "question", "kit-mcq"):
            raise UsageError(f"-o prompt={style}: letters or question was expected")
        if declaration.prompt.template:
            raise UsageError(
                f"-o prompt={style}: {declaration.name} declares the whole text of its prompts", "Omit -o prompt."
            )
        prompt = structs.replace(declaration.prompt, style=style)
        declaration = structs.replace(declaration, prompt=prompt)
    if without is not None:
        if without not in ("stop", "keep", "drop"):
            raise UsageError(f"-o without_image={without}: stop, keep or drop was expected")
        declaration = structs.replace(declaration, without_image=without)
    if (shown := data.options.get("subtitles")) is not None:
        if shown not in ("off", "frames", "full", "between", "intervals"):
            raise UsageError(f"-o subtitles={shown}: frames, full, between, intervals or off was expected")
        declaration = structs.replace(declaration, frames=structs.replace(declaration.frames, subtitles=shown))
    if tiles := data.options.get(TILES, declaration.tiles):
        from snellen.media.tiles import grid

        grid(tiles)
    documents = chosen_pages(declaration.documents, data.options)
    return structs.replace(declaration, documents=documents, tiles=tiles)


def _circular(data: Data) -> bool:
    text = data.options.get("circular", "").lower()
    if text not in (*TRUE, *FALSE):
        raise UsageError(f"-o circular={text}: true or false was expected")
    return text in TRUE


def _require_rotatable(surveyed: Survey) -> None:
    """Raise UsageError for options that stand in the question, where they cannot be rotated."""
    if surveyed.kinds["choice"] and not surveyed.is_rotatable:
        raise UsageError(
            f"-o circular=true: options of {surveyed.rules.declaration.name} stand in the question, "
            "where they cannot be rotated",
            "Omit -o circular, or give the options columns of their own. No request was sent.",
        )


def samples(table: Table, data: Data) -> Iterator[Sample]:
    """Yield the questions of a table as samples; in circular evaluation each choice in every rotation of its options."""
    require_packages(comparisons_of(table.declaration.score or ScoreRule()))
    surveyed, rows = table.survey(data), table.opened(data)
    circular = _circular(data)
    sample, groups = sample_writer(surveyed.rules), groups_by_row(surveyed.rules.declaration, rows.open)
    for question in rows.questions():
        if isinstance(question, OmittedRow):
            continue
        if circular and question.kind == "choice":
            group = _group_of(question, surveyed)
            yield from (sample(turned, group, meta) for turned, meta in _rotations(question))
            continue
        more = {ROTATION: "0", ROTATIONS: "1", QUESTION: question.id} if circular else groups.get(question.number, {})
        yield sample(question, _group_of(question, surveyed), more)


def _group_of(question: Question, surveyed: Survey) -> str:
    """Return what questions about the same images share; empty where none does."""
    group = surveyed.groups[question.number] if surveyed.repeated else 0
    return f"{group & (1 << 64) - 1:016x}" if group else ""


def prompts_of(rules: TableRules) -> PromptWriter:
    """Return what writes the prompts of a table's questions."""
    style = rules.declaration.prompt
    write: PromptWriter = partial(declared_prompt, style)
    requests = partial(
        prompt_writer,
        form=rules.truth_form,
        language=rules.language,
        coordinates=rules.coordinates,
        asks_space=rules.asks_space,
    )
    asks = requests(PromptStyle()), requests(PromptStyle(), asks_space=False)
    if style.holds_request:
        write = partial(requested_prompt, style, asks)
    elif not rules.declared and not style.is_worded:
        write = requests(style, in_question=rules.in_question)
    asked = partial(requested_prompt, structs.replace(style, after="\n{request}"), asks)
    tiled = None
    if rules.declaration.tiles:
        from snellen.media.tiles import grid, with_tiles

        columns, rows = grid(rules.declaration.tiles)
        tiled = partial(with_tiles, columns=columns, rows=rows)
    shows_letters = isinstance(rules.spec("options"), Cell) and not rules.declared and is_plain(style)

    def written(question: Question) -> Prompt:
        if shows_letters and all(letter == text for letter, text in question.options.items()):
            prompt = write(structs.replace(question, options={}))  # they stand in the image
        else:
            prompt = (asked if rules.adds_request and question.kind in SIDES else write)(question)
        if question.history or question.system:
            prompt = structs.replace(prompt, history=question.history, system=question.system)
        return prompt if tiled is None else tiled(prompt)

    return written


def sample_writer(rules: TableRules) -> Callable[..., Sample]:
    """Return what makes samples of a table's questions: of a question, its group, and further meta."""
    write_prompt = prompts_of(rules)
    kinds = kinds_for_judge(rules.declaration.score or ScoreRule())

    def sample(question: Question, group: str, more: Mapping[str, str] = {}) -> Sample:
        meta: dict[str, Any] = {
            f"{name}_" if name in RESERVED else name: text for name, text in question.columns.items() if text
        }
        if question.kind == "choice":
            meta[CHANCE], meta[TARGET] = str(1 / len(question.options)), question.answer
        elif question.kind == "multi-choice":
            meta[CHANCE] = str(1 / (2 ** len(question.options) - 1))
        elif question.kind == "truth":
            meta |= {CHANCE: "0.5", TARGET: "yes" if question.answer else "no", FORM: rules.truth_form}
        if question.rubric and question.kind in kinds:
            meta[CRITERIA] = (question.rubric,)
        if question.kind in SIDES:
            meta |= _spaces_of(question.kind, rules)
        for name, known in question.known.items():
            meta[TEXT_LEVEL if name == "level" else name] = known
        meta.update(more)
        group = group or more.get(QUESTION, "")
        return Sample(
            question.id, write_prompt(question), question.answer, question.kind, question.options, group, meta
        )

    return sample


def _spaces_of(kind: str, rules: TableRules) -> dict[str, Any]:
    """Return the spaces of replies and gold answers as meta; none where coordinates count in the space of the gold answer."""
    gold, declared = rules.gold, rules.declaration.answer
    coordinates = rules.coordinates
    if kind in ("boxes", "points", "region") and gold is None:
        gold = Coordinates("unit")  # shares of the sides or not, an overlap is the same
    if coordinates is None and gold is not None and (gold.order != "xyxy" or kind not in ("box", "point")):
        coordinates = Coordinates(gold.space)  # a width and a height are no corners
    if coordinates is None or gold is None:
        return {}
    meta: dict[str, Any] = {REPLY_SPACE: str(coordinates), GOLD_SPACE: str(gold)}
    if rules.sent_size and coordinates.space == "sent-pixel":
        meta[SENT_SIZE] = rules.sent_size
    flags = {BOX_FOR_POINT: declared.box_for_point, ALL_INSIDE: declared.all_inside}
    return meta | {name: True for name, is_declared in flags.items() if is_declared}


def _rotations(question: Question) -> Iterator[tuple[Question, dict[str, str]]]:
    """Yield a question with its options in every rotation, the first as it stands."""
    letters, texts = list(question.options), list(question.options.values())
    at = letters.index(question.answer)
    for turn in range(len(letters)):
        turned = dict(zip(letters, (*texts[turn:], *texts[:turn]), strict=True))
        changes: dict[str, Any] = {
            "id": question.id if turn == 0 else f"{question.id}#{turn}",
            "options": turned,
            "answer": letters[(at - turn) % len(letters)],
        }
        meta = {ROTATION: str(turn), ROTATIONS: str(len(letters)), QUESTION: question.id}
        yield structs.replace(question, **changes), meta


def _size(surveyed: Survey, data: Data) -> int:
    if not _circular(data):
        return surveyed.rows
    rotations = sum(options * count for options, count in surveyed.option_counts.items())
    return surveyed.rows - sum(surveyed.option_counts.values()) + rotations


def _with_images(table: Table, data: Data) -> Data:
    """Return the settings of the data. Raises DataError for a declared folder of images that is not there."""
    source = table.declaration.source
    if data.images is None and not source.hub and isinstance(source.images, str) and table.base != Path():
        place = table.base / source.images
        if not place.exists():
            raise DataError(f"[source] images: {place} is not there", "Correct it, or name the images: --images PATH.")
    return data


def _files(table: Rows) -> list[DataFile]:
    return [DataFile(path.name, used=True, note=table.form) for path in table.files]


def _about(declaration: Declaration) -> dict[str, str]:
    source = declaration.source
    place = f"{HUB}{source.hub}" if source.hub else str(getattr(source, source.kind))
    # Exports publish the description: a path of this machine is no part of it.
    shown = place if source.hub else PurePath(place).name
    about = {"description": declaration.title or f"the questions in {shown}", "source": place}
    named = {"licence": declaration.licence, "url": declaration.url, "probes": declaration.probes}
    columns = dict.fromkeys(name for cell in declaration.rows.values() for name in columns_of(cell))
    named["reads columns"] = ", ".join(columns)
    if not declaration.is_set and (usual := declaration.frames.usual) is not None:
        named["frames"] = frames_rule(usual)
    return about | {name: text for name, text in named.items() if text}
