"""snellen features acuity"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, print_notes, redraw, show, show_json
from snellen.cli.features.shared import BatchSize, Device, Encoder, group
from snellen.cli.option_parsing import REQUIRED, option
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.acuity.metrics import ConditionResult
    from snellen.features.acuity import EncoderConditions, EncoderThreshold
    from snellen.runs.acuity_results import MeasuredRun


@dataclass(frozen=True)
class DrawingOptions:
    """Drawings and the curve that is fitted to them."""

    PANEL: ClassVar[str] = "What is measured"

    attributes: str | None = option(
        "Conditions by comma, as of `snellen acuity`: gap, contrast@8, colour; chart for the embedded encoder.",
        value="NAMES",
        said="those of --with, else chart for embedded, default for others",
    )
    sides: shared.AcuitySides = None
    levels: int = option("Number of levels of each condition.", 12, least=3, most=100)
    train: int = option("Drawings of each level that train the readouts.", 192, least=16, most=10_000)
    test: int = option("Drawings of each level that test them.", 96, least=8, most=10_000)
    shape: Literal["logistic", "normal", "weibull"] | None = option(
        "Shape of the curve.", said="that of --with, else logistic"
    )
    seed: int = option("Seed of the drawings.", 0)


@dataclass(frozen=True)
class EncodingOptions:
    """The encoder's output and where it computes."""

    PANEL: ClassVar[str] = "Speed"

    output: str | None = option(
        "Output of the encoder, as of `snellen features extract`.", value="NAME", said="its first"
    )
    device: Device = "auto"
    batch_size: BatchSize = 64


@group.command()
def acuity(
    encoder: Encoder = REQUIRED,
    *,
    drawing: DrawingOptions,
    run: str | None = option(
        "Compare with the answers of this run of `snellen acuity`: a folder, or a model.",
        names=("--with",),
        value="RUN",
    ),
    encoding: EncodingOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Measure at which size, contrast or difference an encoder's features stop telling drawings apart.

    Draws the pictures of `snellen acuity`. At each level a linear probe and the nearest class centroid are trained on some
    drawings and tested on others. The fitted threshold means the same as that of a model's answers (`snellen --help acuity-method`).
    """
    from msgspec import to_builtins

    from snellen.features.acuity import (
        EncoderSettings,
        encode_pictures,
        encoder_threshold,
        seen_share,
        select_conditions,
    )
    from snellen.features.encoders import open_encoder
    from snellen.features.ranking.similarity import single_threaded

    measured = None if run is None else _measured(run)
    chosen = select_conditions(encoder, drawing.attributes, drawing.sides, None if measured is None else measured.plan)
    settings = EncoderSettings(
        drawing.levels,
        drawing.train,
        drawing.test,
        drawing.shape or ("logistic" if measured is None else measured.plan.shape),
        drawing.seed,
    )
    opened = open_encoder(
        encoder, None if encoding.output is None else [encoding.output], device=encoding.device
    )  # fmt: skip
    answers = {} if measured is None else {each.condition.key: each for each in measured.results}
    scales = {} if measured is None else _scales(measured)
    total = len(chosen.conditions) * drawing.levels * (drawing.train + drawing.test)
    progress = _progress(total)
    with single_threaded():
        thresholds = [
            encoder_threshold(
                condition,
                lambda pictures: encode_pictures(opened, pictures, encoding.batch_size),
                settings,
                scale=scales.get(condition.key, 0.0),
                answers=answers.get(condition.key),
                done=progress,
            )
            for condition in chosen.conditions
        ]
    shares = {side: seen_share(opened.transform, side) for side in sorted({each.side for each in chosen.conditions})}
    notes = [*chosen.omitted, *_crop_notes(shares), *_notes(encoder, measured, chosen, answers)]
    about = {
        "encoder": encoder,
        "output": opened.outputs[0],
        **to_builtins(settings),
        "with": None if measured is None else str(measured.run.path),
        "model": None if measured is None else measured.run.meta.spec.model,
    }
    if as_json:
        labelled = list(zip(chosen.labels, thresholds, strict=True))
        show_json({
            "measure": "acuity",
            "settings": {**about, "identity": opened.identity()},
            "metrics": [metric for label, each in labelled for metric in each.metrics(label)],
            "conditions": [each.as_json(label) for label, each in labelled],
            "notes": notes,
        })  # fmt: skip
        return
    _show(encoder, chosen, thresholds, measured)
    note("; ".join(f"{name}: {value}" for name, value in about.items() if value is not None))
    print_notes(notes)


def _measured(run: str) -> MeasuredRun:
    """Open and measure a run. Raises UsageError for one whose pictures the model did not get."""
    from snellen.cli.acuity import recorded_run
    from snellen.runs.acuity_results import measured_run

    measured = measured_run(recorded_run(run))
    media = measured.run.meta.spec.options.media
    if media.blank or media.corrupt or any(each.through for each in measured.plan.conditions):
        raise UsageError(
            f"{measured.run.path} was asked about pictures that were changed on their way, and the encoder gets them as drawn",
            "Name a run without --blank-images, --corrupt and --through.",
        )
    return measured


def _scales(measured: MeasuredRun) -> dict[str, float]:
    """Return the length by which the pictures of each condition of a run were scaled."""
    from snellen.benchmarks.acuity.questions import place_of

    places = map(place_of, measured.scores)
    return {place.key: place.scale for place in places if place.scale}


def _crop_notes(shares: Mapping[int, float]) -> list[str]:
    return [
        f"the encoder's transform crops the middle {100 * share:.0f} % of each side of {side} px: what is drawn nearer to "
        "the edge is lost, which raises its thresholds"
        for side, share in shares.items()
        if share < 1.0
    ]


def _notes(
    encoder: str,
    measured: MeasuredRun | None,
    chosen: EncoderConditions,
    answers: Mapping[str, ConditionResult],
) -> list[str]:
    from snellen.media import fitted

    lines = [
        "a readout shows what it can use: more drawings, another output or another readout may resolve more",
        "intervals hold for these readouts; which drawings trained them is not part of the intervals",
    ]
    if measured is None:
        return lines
    spec = measured.run.meta.spec
    if encoder.rpartition(":")[2] != spec.model.rpartition(":")[2]:
        lines.append(f"it is not known whether {encoder} is the vision tower of {spec.model}")
    resized = [
        side
        for side in sorted({each.side for each in chosen.conditions})
        if fitted(side, side, spec.options.media) != (side, side)
    ]
    if resized:
        lines.append(
            f"the run's image settings shrank pictures of {', '.join(map(str, resized))} px before they were sent"
        )
    if len(answers) > 1:
        lines.append("the intervals of the ratios are not corrected for the number of conditions")
    return lines


def _progress(total: int) -> Callable[[int], None] | None:
    """Return what shows the number of drawings on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None
    done = 0

    def add(drawn: int) -> None:
        nonlocal done
        done += drawn
        redraw(f"{done:,} of {total:,} drawings" + ("\n" if done >= total else ""))

    return add


def _show(
    encoder: str, chosen: EncoderConditions, thresholds: list[EncoderThreshold], measured: MeasuredRun | None
) -> None:
    headings = ["condition", "linear probe", "cosine"]
    numbers = []
    if measured is not None:
        headings.append(f"answers of {measured.run.meta.spec.model}")
        numbers = ["ratio, probe", "95 % interval"]
    table = new_table(f"thresholds of features · {encoder}", headings, numbers)
    lines: list[str] = []
    for label, each in zip(chosen.labels, thresholds, strict=True):
        cells = [label, *(readout.words for readout in each.readouts)]
        against = each.readouts[0].against
        if measured is not None:
            cells += ["–", "", ""] if against is None else [against.answers, *_ratio(against.ratio, against.ci95)]
        table.add_row(*cells)
        for readout in each.readouts:
            lines += [f"{label}, {readout.readout}: {line}" for line in readout.remarks()]
            if readout.against is not None and readout.against.sentence:
                lines.append(f"{label}: {readout.against.sentence}")
    if measured is not None:
        lines.append(
            "ratio: how many times finer the probe resolves than the answers, or how many times more it tolerates; "
            "its interval comes from both posteriors"
        )
    table.caption = "\n".join(lines)
    show(table)


def _ratio(ratio: float | None, ci95: tuple[float, float] | None) -> list[Any]:
    if ratio is None or ci95 is None:
        return ["", ""]
    return [f"{ratio:.2f}", f"{ci95[0]:.2f} – {ci95[1]:.2f}"]
