"""Linking questions over own images, in the layout and with the constructions of VLM2-Bench.

Objects and people (oc, pc): sequences of two to four images of one identity and of distractors, whose patterns say who is who
(AAB: two images of one, one of another). General cues (gc): an image and its edited copy. What is written is what `snellen run
vlm2/...` reads; the words of the questions are Snellen's.

Source: Zhang et al. 2025 (arXiv 2502.12084), section 3 and appendices B to D. No code of the construction was released.

Videos of one or two people, joined of own clips: AB is one person and then another, ABA the first one again.

`ACTIVITY/PERSON.mp4`, or `ACTIVITY/PERSON/` with pictures in the order of their names, is what one person does. Two people of
one activity make an AB and an ABA. All clips of a video have one length, and the third one follows on the first in its source.

Source: Zhang et al. 2025 (arXiv 2502.12084), section 3 and appendix C (10 activities, 10 pairs each, both forms).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen import __version__
from snellen.benchmarks.vlm2.layout import BY_NAME, Subtask
from snellen.errors import DataError, MediaError, MissingExtraError, StorageError, UsageError
from snellen.installation import install_hint
from snellen.questions.image_rows import strip_metadata
from snellen.questions.rng import permutation, turns
from snellen.sources import numbered
from snellen.sources.safe_paths import member_name
from snellen.sources.tree import Tree
from snellen.text import pretty_json
from snellen.types import DECODED_SUFFIXES

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage


PATTERNS = ("AA", "AB", "AAA", "AAB", "ABC", "AAAA", "AAAB", "AABC", "ABCD")
Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[int | str, ...]
Vectors: TypeAlias = Mapping[str, NDArray[np.floating]]

TRUTH = "Reply with one letter and nothing else: T for true, F for false."
CPR = {
    "oc": ("All of these images show one and the same {kind}.", "These images do not all show the same {kind}."),
    "pc": ("All of these images show one and the same person.", "These images do not all show the same person."),
}
CNT = {
    "oc": "Count the different things of the kind `{kind}` in these images: one that is in several images counts once.",
    "pc": "Count the different people in these images: one who is in several images counts once.",
}
GRP = {
    "oc": "Images are numbered from 1. Which of them show the same {kind}?",
    "pc": "Images are numbered from 1. Which of them show the same person?",
}
CHANGES = {
    "add": "What is in image 2 that was not in image 1?",
    "remove": "What was in image 1 that is not in image 2?",
    "swap": "What stands in image 2 in the place of something else?",
}
CHANGED, TRACKED = "What is different in image 2?", "What happened between image 1 and image 2?"


class ImageSequence(Struct, frozen=True):
    """Images in the order shown, and who is who in that order: `A` is the main identity."""

    kind: str
    pattern: str
    images: tuple[str, ...]
    who: str


class ImageSpace(Struct, frozen=True, eq=False):
    """Unit vectors [n, d] of images, and each image's row."""

    row: Mapping[str, int]
    vectors: NDArray[np.float64]


def read_identities(cue: str, tree: Tree) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the images of each identity with its kind: `KIND/OBJECT/IMAGE` for oc, `PERSON/IMAGE` for pc.

    Raises:
        DataError: an image lies in too few folders, or no identity has two images.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    needed = 2 if cue == "oc" else 1
    for name in sorted(tree.names()):
        parts = name.split("/")
        if not name.lower().endswith(DECODED_SUFFIXES) or any(part.startswith(".") for part in parts):
            continue
        if len(parts) <= needed:
            form = "KIND/OBJECT/IMAGE" if cue == "oc" else "PERSON/IMAGE"
            raise DataError(f"{tree.path}: {name} was found; {form} was expected", "Sort the images into folders.")
        found["/".join(parts[-1 - needed : -1])].append(name)
    if not any(len(images) > 1 for images in found.values()):
        raise DataError(f"{tree.path}: no {'object' if cue == 'oc' else 'person'} has two images", "Four are enough.")
    return {
        identity: (identity.split("/")[0] if cue == "oc" else "person", tuple(names))
        for identity, names in found.items()
    }


def draw_sequences(
    identities: Mapping[str, tuple[str, tuple[str, ...]]], patterns: Sequence[str], vectors: Vectors | None, seed: int
) -> tuple[list[ImageSequence], Counter[str]]:
    """Return one sequence of each pattern for each identity with two images or more, and how many were not possible.

    Distractors are of the same kind and of different identities: with vectors those nearest by cosine to the first image of
    the main identity, as the authors choose them by CLIP, else drawn.

    Raises:
        UsageError: a pattern that the benchmark does not have.
    """
    odd = [pattern for pattern in patterns if pattern not in PATTERNS]
    if odd or not patterns:
        raise UsageError(f"--patterns {','.join(odd) or '(none)'}: some of {', '.join(PATTERNS)} were expected")
    drawn, impossible = [], Counter[str]()
    space = (
        None if vectors is None else image_space([name for _, names in identities.values() for name in names], vectors)
    )
    for main, (kind, own) in identities.items():
        others = {
            name: other for other, (of, names) in identities.items() if of == kind and other != main for name in names
        }
        for pattern in patterns if len(own) > 1 else ():
            key = (main, pattern)
            shown = [own[at] for at in permutation(len(own), seed, *key, "own")[: pattern.count("A")]]
            near = _nearest(shown[0], others, len(set(pattern)) - 1, space, (seed, *key, "others"))
            if len(shown) < pattern.count("A") or len(near) < len(set(pattern)) - 1:
                impossible[pattern] += 1
                continue
            order = permutation(len(pattern), seed, *key, "order")
            images = [*shown, *near]
            drawn.append(
                ImageSequence(kind, pattern, tuple(images[at] for at in order), "".join(pattern[at] for at in order))
            )
    return drawn, impossible


def _nearest(anchor: str, others: Mapping[str, str], count: int, space: ImageSpace | None, key: Key) -> list[str]:
    """Return images of `count` different identities, the nearest first; in drawn order without a space."""
    names = list(others)
    if space is None or not names:
        order = permutation(len(names), *key)
    else:
        rows = space.vectors[[space.row[name] for name in names]]
        order = np.argsort(-np.round(rows @ space.vectors[space.row[anchor]], 9), kind="stable")
    first: dict[str, str] = {}
    for at in order:
        first.setdefault(others[names[at]], names[at])
    return list(first.values())[:count]


def image_space(names: Sequence[str], vectors: Vectors) -> ImageSpace:
    """Return the unit vectors of these images. Raises DataError for an image without one."""
    missing = next((name for name in names if name not in vectors), None)
    if missing is not None:
        raise DataError(
            f"--features: there is no row for the image {missing}; the first is {next(iter(vectors), '(none)')}",
            "Extract the features of the same folder: snellen features extract --images.",
        )
    values = np.array([vectors[name] for name in names], dtype=np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return ImageSpace({name: at for at, name in enumerate(names)}, values / np.where(lengths > 0, lengths, 1))


def sequence_questions(cue: str, sequences: Sequence[ImageSequence], seed: int) -> dict[str, list[Row]]:
    """Return the rows of comparison, counting and grouping by subtask; a comparison is a statement and its denial."""
    rows: dict[str, list[Row]] = {f"{cue}-{task}": [] for task in ("cpr", "cnt", "grp")}
    grouped = [sequence for sequence in sequences if len(sequence.who) > 2 and len(set(sequence.who)) > 1]
    places = iter((turns(np.zeros(len(grouped), dtype=np.int8), seed, cue, "place") % 4).tolist())
    for number, each in enumerate(sequences, 1):
        about = {
            "type": each.kind,
            "images": list(each.images),
            "image_seq_len": len(each.images),
            "image_seq": list(each.who),
        }
        same, things = len(set(each.who)) == 1, len(set(each.who))
        for half, statement, true in zip("pn", CPR[cue], (same, not same), strict=True):
            text = f"Is this statement true? {statement.format(kind=each.kind)} {TRUTH}"
            rows[f"{cue}-cpr"].append(
                {"q_id": f"{number}_{half}", "question": text, "gt_answer": "T" if true else "F", **about}
            )
        text = f"{CNT[cue].format(kind=each.kind)} Reply with one number and nothing else."
        rows[f"{cue}-cnt"].append({"q_id": str(number), "question": text, "gt_answer": things, **about})
        if len(each.who) > 2 and things > 1:
            options, right = _groupings(each.who, next(places), (seed, cue, number))
            text = f"{GRP[cue].format(kind=each.kind)} Copy one option, its letter with the bracket and its text: {'; '.join(options)}"
            rows[f"{cue}-grp"].append({"q_id": str(number), "question": text, "gt_answer": right, **about})
    return rows


def _groupings(who: str, place: int, key: tuple[int, str, int]) -> tuple[list[str], str]:
    """Return four options, `None` among them, and the right one, which stands at `place`."""
    same = [at for at, letter in enumerate(who, 1) if letter == "A"]
    right = _listing(same) if len(same) > 1 else "None"
    groups = [_listing(each) for size in range(2, len(who) + 1) for each in combinations(range(1, len(who) + 1), size)]
    wrong = [groups[at] for at in permutation(len(groups), *key, "groups") if groups[at] != right]
    wrong = wrong[:3] if right == "None" else ["None", *wrong[:2]]
    wrong = [wrong[at] for at in permutation(3, *key, "options")]
    options = [
        f"{letter}) {text}" for letter, text in zip("ABCD", [*wrong[:place], right, *wrong[place:]], strict=True)
    ]
    return options, options[place]


def _listing(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"


PAIR_COLUMNS = ("image_1", "image_2", "edit")
ANSWERS = {"gc-mat": ("changed", "other"), "gc-trk": ("forward", "backward")}


class EditedPair(Struct, frozen=True):
    """A row of the table of pairs, with its place for messages."""

    where: str
    row: Mapping[str, str]


def read_pairs(path: Path) -> list[EditedPair]:
    """Read pairs from a table: image_1, image_2, edit, and changed and other (matching), forward and backward (tracking).

    Further columns: `change` (add, remove, swap, attribute, environment), `salience`, or `caption_1` and `caption_2`.

    Raises:
        DataError: a column is missing, a cell empty, or a row with neither pair of answers.
    """
    pairs = []
    for line, row in numbered(path):
        pair = EditedPair(f"{path}, line {line:,}", {name: str(value or "").strip() for name, value in row.items()})
        for name in PAIR_COLUMNS[:2]:
            if pair.row.get(name):
                member_name(pair.row[name], pair.where)
        empty = [name for name in PAIR_COLUMNS if not pair.row.get(name)]
        if empty or not any(all(pair.row.get(name) for name in names) for names in ANSWERS.values()):
            missing = ", ".join(empty) or "changed and other, or forward and backward,"
            raise DataError(f"{pair.where}: {missing} are empty", "Fill in the cells, or remove the row.")
        pairs.append(pair)
    if not pairs:
        raise DataError(f"{path}: there are no pairs")
    return pairs


def pair_questions(pairs: Iterable[tuple[EditedPair, float | None]]) -> dict[str, list[Row]]:
    """Return the rows of matching and tracking: of each pair one candidate that is right, and one that is not."""
    rows: dict[str, list[Row]] = {name: [] for name in ANSWERS}
    for number, (pair, salience) in enumerate(pairs, 1):
        change = pair.row.get("change", "")
        about: Row = {"q_id": number, "task": change, "edited_prompt": pair.row["edit"]}
        about |= {"images": [pair.row["image_1"], pair.row["image_2"]]} | (
            {} if salience is None else {"salience": salience}
        )
        for name, columns in ANSWERS.items():
            inner = TRACKED if name == "gc-trk" else CHANGES.get(change, CHANGED)
            for column, gold in zip(columns, "TF", strict=True):
                if all(pair.row.get(each) for each in columns):
                    text = f'The question about these images is: "{inner}" Is "{pair.row[column]}" a right answer to it? {TRUTH}'
                    rows[name].append({**about, "question": text, "gt_answer": gold})
    return {name: each for name, each in rows.items() if each}


def write_linking(
    out: Path, rows: Mapping[str, Sequence[Row]], settings: Mapping[str, Any], media: Mapping[str, bytes | Path | Tree]
) -> dict[str, int]:
    """Write question files, their images or videos, and how they were made; return the questions of each subtask.

    Args:
        out: the set's folder; sets of several cues may share one.
        settings: for `built_<cue>.json`.
        media: by name as the rows refer to it; a tree is where the file of that name is read.

    Raises:
        UsageError: a question file is there already.
        DataError: an image is missing or cannot be decoded.
        StorageError: the folder cannot be written.
    """
    subtasks = [BY_NAME[name] for name in rows]
    files = {subtask.name: out / subtask.folders[0] / subtask.questions for subtask in subtasks}
    for file in files.values():
        if file.exists():
            raise UsageError(f"{file} exists; nothing is overwritten", "Name another --out.")
    copies = {name: _content(name, source) for name, source in media.items()}
    try:
        for name, content in copies.items():
            path = out / subtasks[0].media / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(json.dumps(row) + "\n" for row in rows[name]), encoding="utf-8")
        counts = {name: len(each) for name, each in rows.items()}
        made = {"snellen": __version__, **settings, "questions": counts}
        (out / f"built_{_cue(subtasks[0])}.json").write_bytes(pretty_json(made))
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror or error}", "Name another --out.") from error
    return counts


def _cue(subtask: Subtask) -> str:
    return "vid" if subtask.family == "video" else subtask.cue


def _content(name: str, source: bytes | Path | Tree) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, Path):
        return source.read_bytes()
    if not source.exists(name):
        raise DataError(f"{source.path}: there is no image {name!r}", "Check --images, or the table's cells.")
    try:
        return strip_metadata(source.read(name), name)
    except MediaError as error:
        raise DataError(f"{source.path}: {error.message}", error.hint) from error


def safe_name(text: str) -> str:
    """Return a text as a part of a file's name, in lower case: `ABA` in a video's name says its form."""
    return re.sub(r"[^\w\-]+", "_", text).strip("_").lower()


VIDEOS = (".mp4", ".mov", ".avi", ".mkv", ".webm")
REQUEST = (
    "Describe in full what happens in this video, and above all who is seen: what each person looks like and does."
)


def join_clips(folder: Path, seconds: float, rate: int, seed: int) -> tuple[list[Row], dict[str, bytes]]:
    """Return the questions, and the videos by name (MP4), of all pairs; the last of an odd number of people is left out.

    Args:
        folder: the activities.
        seconds: the length of a clip, at most; shorter where half of the first source, or the second one, is.
        rate: frames a second; pictures of a folder are one frame each.
        seed: who is paired with whom.

    Raises:
        DataError: no activity has two people, or a source is too short or cannot be decoded.
        MissingExtraError: PyAV is not installed.
    """
    rows, videos = [], {}
    for activity, sources in _people(folder).items():
        order = [sources[at] for at in permutation(len(sources), seed, activity)]
        for number, (first, second) in enumerate(zip(order[::2], order[1::2], strict=False), 1):
            wanted = max(1, round(seconds * rate))
            one, two = list(_frames(first, rate, 2 * wanted)), list(_frames(second, rate, wanted))
            length = min(wanted, len(one) // 2, len(two))
            if length < 1:
                raise DataError(
                    f"{first}: {len(one)} frames at {rate} a second; two or more are needed", "Give a longer one."
                )
            clips = {"AB": one[:length] + two[:length]}
            clips["ABA"] = clips["AB"] + one[length : 2 * length]
            for form, frames in clips.items():
                vid = f"{safe_name(activity)}_{number}_{form}"
                videos[f"{vid}.mp4"] = _encoded(frames, rate)
                rows.append(
                    {"vid": vid, "question": REQUEST, "gt_answer": "", "first": first.name, "second": second.name}
                )
    return rows, videos


def _people(folder: Path) -> dict[str, list[Path]]:
    """Return the sources of each activity with two people or more."""
    people: defaultdict[str, list[Path]] = defaultdict(list)
    if folder.is_dir():
        for activity in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."):
            people[activity.name] = sorted(
                path
                for path in activity.iterdir()
                if path.name[0] != "." and (path.is_dir() or path.suffix.lower() in VIDEOS)
            )
    several = {name: sources for name, sources in people.items() if len(sources) > 1}
    if not several:
        raise DataError(
            f"{folder}: no activity has two people",
            "ACTIVITY/PERSON.mp4 is expected, or ACTIVITY/PERSON/ with pictures.",
        )
    return several


def _frames(source: Path, rate: int, count: int) -> Iterator[PillowImage]:
    """Yield up to `count` frames of a video, those shown at 0, 1 / rate, 2 / rate ... seconds, or pictures of a folder."""
    from PIL import Image as pillow

    if source.is_dir():
        names = sorted(path for path in source.iterdir() if path.suffix.lower() in DECODED_SUFFIXES)
        try:
            yield from (pillow.open(path).convert("RGB") for path in names[:count])
        except (OSError, ValueError) as error:
            raise DataError(f"{source}: a picture cannot be decoded: {error}", "Replace or remove it.") from error
        return
    av = _pyav()
    try:
        with av.open(str(source)) as container:
            taken = 0
            for frame in container.decode(video=0):
                while taken < count and (frame.time or 0.0) >= taken / rate - 1e-6:
                    yield frame.to_image()
                    taken += 1
                if taken == count:
                    return
    except (av.FFmpegError, IndexError) as error:
        raise DataError(f"{source} cannot be decoded: {error}", "Convert it to MP4, or remove it.") from error


def _encoded(frames: list[PillowImage], rate: int) -> bytes:
    """Return an MP4 of frames, each fitted into the size of the first one, with black around it."""
    from PIL import ImageOps

    av, out = _pyav(), BytesIO()
    size = (max(2, frames[0].width // 2 * 2), max(2, frames[0].height // 2 * 2))
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264" if "libx264" in av.codecs_available else "mpeg4", rate=rate)
        stream.width, stream.height = size
        stream.pix_fmt, stream.codec_context.thread_count = "yuv420p", 1
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(ImageOps.pad(frame, size))))
        container.mux(stream.encode())
    return out.getvalue()


def _pyav() -> Any:
    try:
        import av
    except ImportError as error:
        raise MissingExtraError("videos need PyAV, which is not installed", install_hint("video")) from error
    return av
