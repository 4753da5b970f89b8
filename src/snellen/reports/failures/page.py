"""One page an answer (image, question, answer, how it came about, verdict, label), and an index over them.

Each page is a file that asks no network for anything. All text is untrusted: whatever was to be kept from a reader (keys,
gold) has been taken out by whoever fills the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from snellen.models import trace
from snellen.models.trace import Step
from snellen.reports.escape import clip, escape_invisible, json_for_page, text_of_value
from snellen.reports.failures.labels import RunLabels, draw_labels, label_rows, label_text
from snellen.reports.render import fill_template, read_asset
from snellen.reports.table_copies import labels_copy
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import PageLimits
from snellen.runs.answer_view import AnswerView
from snellen.text import pretty_json
from snellen.types import MediaSettings, Text

LIMITS = PageLimits(picture_bytes=1_500_000, long_side=720, characters=20_000)
MAX_STEPS = 200
STEP_CHARACTERS, TRACE_CHARACTERS = 8_000, 600_000
"""Of one text in a trace, and of all texts of one trace."""
OPEN_CHARACTERS = 700
"""A tool's result of at most so many characters is shown at once."""


class Evidence(Struct, frozen=True):
    """Evidence cited by a reply; `met` is True if the address is in the trace, None without a trace."""

    url: str
    note: str
    met: bool | None = None


class FailureView(Struct, frozen=True):
    """One answer.

    Attributes:
        file, index: names of its page and, from there, of the index.
        run, model, colour: whose it is, and its colour on the pages (1 to 6).
        answer: question and reply; `target` is None where it is not to be shown.
        verdict: as the judge or the scorer has it; reason: in the judge's words.
        extracted: the answer as extracted from the reply.
        question: the data set's own, where the prompt says more; the whole prompt can then be unfolded.
        label: why it is not correct; empty where it is, or is unscored.
        source, rule, judge, signals, review: as in snellen.runs.failures.Labelled.
        people: (who, label, why) of each person.
        judge_reason: why the judge gave its label.
        evidence, steps: what the reply names, and how it came about; None where there is no trace.
        notes: what a reader must know (the data set is away, gold is not shown).
        others: (model, file) of the pages of other runs on the same question.
        media: what was done to images on their way to the model.
    """

    file: str
    run: str
    model: str
    colour: int
    answer: AnswerView
    verdict: str
    reason: str = ""
    extracted: str | None = None
    question: str = ""
    label: str = ""
    source: str = "none"
    rule: str = ""
    judge: str | None = None
    judge_reason: str = ""
    people: Sequence[tuple[str, str, str]] = ()
    signals: Sequence[str] = ()
    review: str = ""
    evidence: Sequence[Evidence] = ()
    steps: Sequence[Step] | None = None
    notes: Sequence[str] = ()
    others: Sequence[tuple[str, str]] = ()
    index: str = "../index.html"
    media: MediaSettings = MediaSettings()


class IndexRow(Struct, frozen=True):
    """One line of the index."""

    file: str
    run: str
    model: str
    colour: int
    sample_id: str
    repeat: int
    verdict: str
    right: bool
    label: str
    source: str
    rule: str
    judge: str
    people: str
    review: str
    extracted: str


def index_row(view: FailureView, *, right: bool) -> IndexRow:
    """Build the index row of one page."""
    return IndexRow(
        view.file,
        view.run,
        view.model,
        view.colour,
        view.answer.sample_id,
        view.answer.repeat,
        view.verdict,
        right,
        view.label,
        view.source if view.label else "",
        view.rule if view.label else "",
        view.judge or "",
        ", ".join(f"{by}: {label}" for by, label, _ in view.people),
        view.review,
        clip(view.extracted or "", 120),
    )


def render_answer(view: FailureView, limits: PageLimits = LIMITS) -> str:
    """Render the page of one answer. The same answer gives the same text, byte for byte."""
    album = ThumbnailAlbum(limits)
    parts: list[dict[str, str]] = []
    texts: list[str] = []
    pictures = 0
    for part in view.answer.parts:
        if isinstance(part, Text):
            texts.append(clip(part.text, limits.characters))
        elif pictures < limits.pictures:
            thumbnails = album.add(part, view.media)
            pictures += len(thumbnails)
            parts += [
                {**thumbnail, **{name: album.uris[thumbnail[name]] for name in ("p", "o") if name in thumbnail}}
                for thumbnail in thumbnails
            ]
    steps, left_out = _steps(view.steps or ())
    return fill_template(
        "failure.html.jinja",
        _style(),
        script="",
        view=view,
        answer=view.answer,
        shown=parts,
        question=clip(view.question, limits.characters),
        texts=texts,
        target=text_of_value(view.answer.target),
        reply=None if view.answer.reply is None else clip(view.answer.reply, limits.characters),
        reasoning=clip(view.answer.reasoning, limits.characters),
        extracted=None if view.extracted is None else clip(view.extracted, 2_000),
        facts=_facts(view),
        steps=steps,
        left_out=left_out,
        spoken=label_text,
        clip=clip,
    )


def _facts(view: FailureView) -> list[tuple[str, str]]:
    answer, facts = view.answer, []
    if answer.latency_s is not None:
        facts.append(("time", f"{answer.latency_s:,.1f} s"))
    if answer.tokens is not None:
        facts.append(("output tokens", f"{answer.tokens:,}"))
    if view.steps is not None:
        calls = trace.calls_by_tool(view.steps)
        facts.append(("turns", f"{trace.turns(view.steps):,}"))
        facts.append(("tool calls", ", ".join(f"{clip(tool, 60)} {n:,}" for tool, n in calls.items()) or "none"))
    for name, value in answer.meta.items():
        if isinstance(value, (str, int, float)):
            facts.append((clip(name, 60), text_of_value(value, 200) or ""))
    return facts


def _steps(steps: Sequence[Step]) -> tuple[list[dict[str, Any]], int]:
    """Return the steps for the page, and the number of texts and steps omitted to limit its size."""
    step_rows: list[dict[str, Any]] = []
    room, left_out = TRACE_CHARACTERS, max(0, len(steps) - MAX_STEPS)
    for step in steps[:MAX_STEPS]:
        arguments = "" if step.arguments is None else pretty_json(step.arguments).decode().rstrip()
        arguments = trace.code_of(step) or arguments
        texts = {}
        for name, text in (("text", step.text), ("given", arguments), ("result", step.result)):
            cut = clip(text, STEP_CHARACTERS)
            if len(cut) > room:
                left_out, cut = left_out + 1, ""
            room -= len(cut)
            texts[name] = cut
        copies = trace.copies_by_digest(step, room)
        room -= sum(map(len, copies.values()))
        facts = [f"{step.seconds:,.1f} s"] if step.seconds else []
        if step.tokens_in or step.tokens_out:
            facts.append(f"{step.tokens_in:,} tokens in, {step.tokens_out:,} out")
        step_rows.append(
            {
                **texts,
                "turn": step.turn,
                "role": step.role,
                "tool": clip(step.tool, 100),
                "error": step.error,
                "open": len(texts["result"]) <= OPEN_CHARACTERS,
                "length": f"{len(step.result):,}",
                "images": [(escape_invisible(image[:12]), copies.get(image, "")) for image in step.images[:12]],
                "facts": " · ".join(facts),
            }
        )
    return step_rows, left_out


def render_index(title: str, rows: Sequence[IndexRow], labelled: Sequence[RunLabels], labels: Sequence[str]) -> str:
    """Render the index: table and plot of labels, and a list of all answers, filtered by label, run and verdict.

    A reader can decide on labels there and save them as a file of decisions.
    """
    from markupsafe import Markup

    counted = [run for run in labelled if run.labels.answers]
    ordered = sorted(rows, key=lambda row: (not row.review, row.right, row.label == ""))
    return fill_template(
        "failures.html.jinja",
        _style(),
        read_asset("failures.js") + read_asset("copies.js"),
        title=title,
        rows=ordered,
        runs=list(dict.fromkeys((row.run, row.model) for row in rows)),
        verdicts=sorted({row.verdict for row in rows}),
        held=[label for label in labels if any(row.label == label for row in rows)],
        labels=labels,
        spoken=label_text,
        labelled=counted,
        label_rows=label_rows(counted),
        label_plots=[(plot, Markup(plot.svg)) for plot in draw_labels(counted, linked=True)],
        copies=Markup(json_for_page({"labels": labels_copy(counted)})),
        data=Markup(json_for_page([[row.run, row.sample_id, row.repeat] for row in ordered])),
    )


def _style() -> str:
    return read_asset("report.css") + read_asset("failures.css")
