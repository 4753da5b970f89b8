"""snellen build boxes, masks and linking: boxes for VLM2-Bench's vp-zoom, masks of objects, and linking questions over own images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from snellen.cli.option_parsing import REQUIRED, argument, option
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.questions.detected_boxes import Detection

DETECTOR = "A zero-shot detector of transformers (OWLv2, Grounding DINO): hf:NAME or a folder; or face_recognition."


def boxes(
    variant: Literal["vp-zoom-o", "vp-zoom-p"] = argument("vp-zoom-o: boxes of objects; vp-zoom-p: boxes of faces."),
    data: Path = option("VLM2-Bench, or a set of its layout: a folder, zip or question file.", REQUIRED),
    detector: str = option(DETECTOR, REQUIRED, value="NAME"),
    out: Path = option("The file to write, .jsonl.", Path("boxes.jsonl"), value="FILE"),
    *,
    images: Path | None = option("Folder or archive of the images, where --data has none."),
    query: str = option("What to look for.", "", value="TEXT", said="the question's type; a face"),
    min_score: float = option("Lowest score of a box.", 0.1, least=0, most=1),
    missing: Literal["fail", "whole"] = option(
        "An image in which nothing is found: its samples fail, or it is shown whole.", "fail"
    ),
    device: str = option("Device of the detector.", "auto"),
    as_json: bool = option("Print the counts as one JSON object.", False, names=("--json",)),
) -> None:
    """Find the boxes for VLM2-Bench's prompting vp-zoom, once before the run.

    The run takes the file: `-o prompting=vp-zoom -o boxes=FILE`. The box with the highest score counts.
    """
    from msgspec import structs

    from snellen.benchmarks.base import Data
    from snellen.cli.console import show_json
    from snellen.engine.output_file import require_output_file
    from snellen.questions.detected_boxes import detect_boxes, open_detector

    require_output_file(out, "--out", (".jsonl",))
    opened = open_detector(detector, device, min_score)
    result = detect_boxes(variant, Data(path=data, images=images), opened, out, query=query, whole=missing == "whole")
    if as_json:
        show_json(structs.asdict(result))
        return
    _note_failed(result, f"nothing was found ({missing})")
    print(f"{out}: boxes of {result.found:,} images")
    print(
        f"Use them: snellen run vlm2/{'oc' if variant == 'vp-zoom-o' else 'pc'}-cpr --data {data} -o prompting=vp-zoom -o boxes={out} ..."
    )


def masks(
    images: Path = option("Folder or archive of the images.", REQUIRED),
    query: str = option("What to outline, such as bird.", REQUIRED, value="TEXT"),
    detector: str = option(DETECTOR, REQUIRED, value="NAME"),
    segmenter: str = option("A SAM or SAM 2 of transformers: hf:NAME or a folder.", REQUIRED, value="NAME"),
    out: Path = option("The folder to write.", Path("masks")),
    *,
    min_score: float = option("Lowest score of a box.", 0.1, least=0, most=1),
    device: str = option("Device of the models.", "auto"),
    as_json: bool = option("Print the counts as one JSON object.", False, names=("--json",)),
) -> None:
    """Outline the object in each image, for runs with `--corrupt grey@background --mask FOLDER`.

    The box with the detector's highest score is what the segmenter outlines.
    """
    from msgspec import structs

    from snellen.cli.console import show_json
    from snellen.cli.preview import refuse_run
    from snellen.questions.detected_boxes import detect_masks, open_detector, open_outline

    refuse_run(out)
    opened, outline = open_detector(detector, device, min_score), open_outline(segmenter, device)
    result = detect_masks(images, query, opened, outline, out)
    if as_json:
        show_json(structs.asdict(result))
        return
    _note_failed(result, "nothing was found, and samples with them will fail")
    print(f"{out}: masks of {result.found:,} images")
    print(f"Use them: snellen run BENCHMARK --images {images} --corrupt grey@background --mask {out} ...")


def _note_failed(result: Detection, nothing: str) -> None:
    """Say of how many images there is no box or mask, and why."""
    from snellen.cli.console import note

    for names, what in ((result.empty, nothing), (result.unreadable, "cannot be read")):
        if names:
            note(f"note: {len(names):,} images: {what}; the first is {names[0]}")


@dataclass(frozen=True)
class LinkingOptions:
    """What is linked, and how it is drawn."""

    PANEL: ClassVar[str] = "Questions"

    features: Path | None = option(
        "oc, pc: feature store of the images; the nearest ones are the distractors.", said="drawn"
    )
    output: str | None = option("oc, pc: output of the store.", said="the first")
    patterns: str = option("oc, pc: who is who in a sequence.", "AA,AB,AAA,AAB,ABC,AAAA,AAAB,AABC,ABCD", value="A,B")
    pairs: Path | None = option("gc: table of image_1, image_2, edit, changed, other, forward, backward, change …")
    salience: float = option("gc: keep pairs below this salience.", -2.0)
    scorer: str | None = option("gc: language model that measures the salience, hf:NAME or a folder.", value="NAME")
    seconds: float = option("vid: length of a clip.", 3.0, least=0)
    rate: int = option("vid: frames a second.", 8, least=1)


def linking(
    cue: Literal["oc", "pc", "gc", "vid"] = argument(
        "oc: objects, pc: people, in sequences; gc: pairs of an image and its edit; vid: joined clips."
    ),
    images: Path = option(
        "oc: KIND/OBJECT/IMAGE; pc: PERSON/IMAGE; gc: the images of --pairs; vid: ACTIVITY/PERSON.mp4.", REQUIRED
    ),
    out: Path = option("Folder to write; several cues may share one.", REQUIRED),
    *,
    drawn: LinkingOptions,
    seed: int = option("Seed of all random draws.", 0),
    device: str = option("Device of --scorer.", "auto"),
    as_json: bool = option("Print the questions by subtask as one JSON object.", False, names=("--json",)),
) -> None:
    """Make linking questions over own images as VLM2-Bench is made, for `snellen run vlm2/... --data OUT`."""
    from snellen.cli.console import note, show_json
    from snellen.cli.preview import refuse_run
    from snellen.questions import linking as build
    from snellen.questions.detected_boxes import open_salience, salient_pairs
    from snellen.questions.linking import join_clips
    from snellen.sources import digest, open_tree

    refuse_run(out)
    settings: dict[str, Any] = {"cue": cue, "seed": seed}
    if cue == "vid":
        videos, media = join_clips(images, drawn.seconds, drawn.rate, seed)
        settings |= {"seconds": drawn.seconds, "rate": drawn.rate}
        counts = build.write_linking(out, {"pc-vid": videos}, settings, media)
    else:
        tree = open_tree(images)
        if cue == "gc":
            if drawn.pairs is None:
                raise UsageError("gc needs the table of pairs", "Give --pairs FILE.")
            pairs = build.read_pairs(drawn.pairs)
            measure = None if drawn.scorer is None else open_salience(drawn.scorer, device)
            kept = salient_pairs(pairs, drawn.salience, measure)
            note(f"note: {len(kept):,} of {len(pairs):,} pairs are below a salience of {drawn.salience:g}")
            rows = build.pair_questions(kept)
            settings |= {"pairs": digest(drawn.pairs), "salience": drawn.salience, "scorer": drawn.scorer}
        else:
            patterns = tuple(comma_list(drawn.patterns))
            sequences, impossible = build.draw_sequences(
                build.read_identities(cue, tree), patterns, _vectors(drawn), seed
            )
            for pattern, count in impossible.items():
                note(f"note: {pattern}: {count:,} identities have too few images, or too few others of their kind")
            if not sequences:
                raise UsageError(
                    "no sequence is possible with these images", "Four images of four identities are enough."
                )
            rows = build.sequence_questions(cue, sequences, seed)
            settings |= {"patterns": patterns, "distractors": "nearest" if drawn.features else "drawn"}
        names = {name: tree for each in rows.values() for row in each for name in row["images"]}
        counts = build.write_linking(out, rows, settings, names)
    if as_json:
        show_json(counts)
        return
    for name, count in counts.items():
        print(f"{out}: {count:,} questions of vlm2/{name}")
    print(f"Ask them: snellen run vlm2/{next(iter(counts))} --data {out} --model MODEL")


def _vectors(drawn: LinkingOptions) -> dict[str, Any] | None:
    if drawn.features is None:
        return None
    from snellen.features.store import open_store

    store = open_store(drawn.features, drawn.output)
    return dict(zip(map(str, store.ids), store.values, strict=True))
