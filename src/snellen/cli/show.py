"""snellen show"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins

from snellen.benchmarks.table.question import shown_answer
from snellen.cli import options as shared
from snellen.cli.console import note, print_notes, show_json
from snellen.cli.option_parsing import argument, option
from snellen.errors import UsageError
from snellen.text import one_line, shorten
from snellen.types import VERDICTS, Failure, Image, Text

if TYPE_CHECKING:
    from snellen.reports.thumbnails import ThumbnailAlbum
    from snellen.runs.answer_view import AnswerView
    from snellen.runs.run import Run
    from snellen.types import MediaSettings, Part

CHARACTERS = 4_000
"""Length at which a text is cut."""
SIDE, PICTURE_BYTES, PICTURES = 768, 4_000_000, 20
"""Pixels of a picture's longer side, and bytes and number of all pictures of one call."""


class ShownPart(Struct, frozen=True, omit_defaults=True):
    """Part of a question. A picture that is shown has the number of its data in `pictures`, from 0."""

    type: str
    text: str = ""
    picture: int | None = None


class ShownScore(Struct, frozen=True):
    """Score of an answer under one profile, as `snellen --help scoring` describes it."""

    value: float | None
    verdict: str
    extracted: Any
    reason: str | None


class ShownAnswer(Struct, frozen=True):
    """Answer with its question. `gold` is None where it is restricted, and where a question has none."""

    sample_id: str
    repeat: int
    kind: str
    status: str
    question: list[ShownPart]
    options: Mapping[str, str]
    gold: Any
    reply: str | None
    scores: Mapping[str, ShownScore]
    meta: Mapping[str, Any]
    error: Failure | None


class ShownPicture(Struct, frozen=True):
    """Picture as it was sent to the model, made smaller: media type, and bytes in Base64."""

    mime_type: str
    data: str


class ShownRun(Struct, frozen=True):
    """What `snellen show --json` prints."""

    run: str
    benchmark: str
    model: str
    answers: list[ShownAnswer]
    pictures: list[ShownPicture] = field(default_factory=list)


def show(
    run: Path = argument("Run folder."),
    *,
    verdict: str | None = option(f"Show answers with this verdict: {', '.join(VERDICTS)}.", value="|".join(VERDICTS)),
    sample: list[str] | None = option("Show this sample; may be repeated.", value="ID"),
    limit: int = option("Number of answers to show.", 10, least=1, most=1_000),
    skip: int = option("Answers to skip before them.", 0, least=0),
    profile: str | None = option("Scoring profile, or all.", said="the benchmark's first"),
    pictures: int = option(
        "With --json: number of pictures to include, in Base64. Of clips, frames.", 0, least=0, most=PICTURES
    ),
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Show answers of a run: the question, the reply, the gold answer and the verdict.

    Calls no model. Restricted gold answers are not shown. `snellen view` has the same as pages.
    """
    from snellen.engine.run_folder import JUDGE_RUNS
    from snellen.runs.run import load_run

    if verdict is not None and verdict not in VERDICTS:
        raise UsageError(f"--verdict {verdict}: there is no such verdict", f"Verdicts: {', '.join(VERDICTS)}.").near(
            verdict, VERDICTS
        )
    if pictures and not as_json:
        raise UsageError("--pictures is for --json", "Add --json, or look at the pictures with `snellen view`.")
    opened = load_run(run, trust=moved.trust).moved(moved.data, moved.images)
    if opened.meta.restricted and opened.meta.spec.benchmark in JUDGE_RUNS:
        raise UsageError(
            f"{run} holds questions to a judge, which quote gold answers that are restricted",
            "Show the answers that were judged: the run without _judged in its name.",
        )
    chosen = islice(_views(opened, profile, verdict, frozenset(sample or ())), skip, skip + limit)
    if as_json:
        show_json(shown_run(opened, chosen, pictures))
    else:
        count = 0
        for view in chosen:
            _print(view)
            count += 1
        if not count:
            note("note: no answer of the run is like that")
    print_notes(filter(None, [opened.unverified]))


def _views(run: Run, profile: str | None, verdict: str | None, samples: frozenset[str]) -> Iterator[AnswerView]:
    """Yield answers in the order of the journal, restricted gold left out."""
    from snellen.runs.answer_view import answer_view
    from snellen.runs.scoring import profiles_of, scores_of

    benchmark = run.benchmark
    scorers, judged = profiles_of(benchmark, profile), run.verdicts()
    show_target = not (benchmark.restricted or run.meta.restricted)
    for question, record in run.answers():
        if samples and question.id not in samples:
            continue
        scores = scores_of(benchmark, question, record, scorers, judged)
        if verdict is None or next(iter(scores.values())).verdict == verdict:
            yield answer_view(question, record, scores, show_target=show_target)


def shown_run(run: Run, views: Iterator[AnswerView], pictures: int) -> ShownRun:
    """Return answers of a run with at most so many pictures, as they were sent and made smaller."""
    from snellen.reports.thumbnails import ThumbnailAlbum
    from snellen.reports.views import PageLimits

    album = ThumbnailAlbum(PageLimits(picture_bytes=PICTURE_BYTES, long_side=SIDE, pictures=max(1, pictures)))
    media, places = run.meta.spec.options.media, dict[str, int]()
    answers = [_answer(view, album, media, places, pictures) for view in views]
    made = [album.uris[name].removeprefix("data:").split(";base64,", 1) for name in places]
    return ShownRun(
        str(run.path),
        run.benchmark.name,
        run.meta.spec.model_with_adapter,
        answers,
        [ShownPicture(*each) for each in made],
    )


def _answer(
    view: AnswerView, album: ThumbnailAlbum, media: MediaSettings, places: dict[str, int], most: int
) -> ShownAnswer:
    return ShownAnswer(
        sample_id=view.sample_id,
        repeat=view.repeat,
        kind=view.kind,
        status=view.status,
        question=[shown for part in view.parts for shown in _parts(part, album, media, places, most)],
        options=view.options,
        gold=None if view.target is None else to_builtins(view.target, enc_hook=str),
        reply=None if view.reply is None else shorten(view.reply, CHARACTERS),
        scores={
            name: ShownScore(score.value, score.verdict, to_builtins(score.extracted, enc_hook=str), score.reason)
            for name, score in view.scores.items()
        },
        meta={name: to_builtins(value, enc_hook=str) for name, value in view.meta.items()},
        error=view.error,
    )


def _parts(
    part: Part, album: ThumbnailAlbum, media: MediaSettings, places: dict[str, int], most: int
) -> Iterator[ShownPart]:
    """Yield a part of a question; a picture while there is room for one."""
    if isinstance(part, Text):
        yield ShownPart("text", shorten(part.text, CHARACTERS))
        return
    kind = "image" if isinstance(part, Image) else "video"
    entries = album.add(part, media) if len(places) < most else []
    for entry in entries:
        name = entry.get("p")
        if name is not None and (name in places or len(places) < most):
            yield ShownPart(kind, picture=places.setdefault(name, len(places)))
        elif "note" in entry:
            yield ShownPart(kind, entry["note"])
    if not entries:
        yield ShownPart(kind)


def _print(view: AnswerView) -> None:
    print(f"--- {one_line(view.sample_id)}" + (f", repeat {view.repeat}" if view.repeat else "") + f" ({view.kind})")
    for part in view.parts:
        print(shorten(part.text, CHARACTERS) if isinstance(part, Text) else f"[{type(part).__name__.lower()}]")
    if view.target is not None:
        print(f"    gold     {one_line(shorten(shown_answer(view.target), 200))}")
    said = f"(no answer: {view.error.kind}: {view.error.message})" if view.error is not None else view.reply or ""
    print(f"    reply    {one_line(shorten(said, CHARACTERS))}")
    for name, score in view.scores.items():
        value = "–" if score.value is None else f"{score.value:g}"
        reason = "" if score.reason is None else f": {one_line(score.reason)}"
        print(f"    {name:<8} {score.verdict}, {value}{reason}")
