"""The official layout of VLM2-Bench's files: where question files lie in a folder or archive, and images beside them.

`jsonl/<cue>/vanilla/<file>.jsonl` (the released scripts also spell it `vallina`) beside `data/...`, at the root or under
a folder that somebody put on top. An image that cannot be had is an `Unreadable` that names the question's line.

The nine subtasks of VLM2-Bench: where their files lie, how they are answered, and how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.locator import Pictures, ending_in, under
from snellen.sources.tree import FolderTree, Tree, kept_tree

Family: TypeAlias = Literal["pair", "count", "group", "video"]


class Subtask(Struct, frozen=True):
    """One subtask.

    Attributes:
        name: as in the benchmark's name, `gc-mat`.
        title: in words.
        family: how it is answered and scored: pairs of true/false questions, a count, one of four groupings, a
            description of a video.
        questions: the question file's name.
        folders: where that file lies under the data's root; the released scripts misspell one of them.
        media: the folder that `images` (or `vid`) is relative to.
        results: the folder that the authors' scripts write answers to.
        units: how many pairs, questions or videos published figures are made of; what the files hold is counted anew.
        max_tokens: new tokens a reply may have in the released inference scripts.

    Source: the released scripts; units as the published fractions have them (259 and 219 pairs, where the paper's text
    says 260 and 220).
    """

    name: str
    title: str
    family: Family
    questions: str
    folders: tuple[str, ...]
    media: str
    results: str
    units: int
    max_tokens: int

    @property
    def cue(self) -> str:
        """gc, oc or pc: general, object or person cue."""
        return self.name[:2]


def _image(name: str, title: str, family: Family, units: int) -> Subtask:
    cue, _, kind = name.partition("-")
    media = {"gc": "data/gc/processed", "oc": "data/oc/original_obj", "pc": "data/pc/image/picks_face"}[cue]
    return Subtask(
        name=name,
        title=title,
        family=family,
        questions=f"{cue}_{kind}.jsonl",
        folders=(f"jsonl/{cue}/vanilla", f"jsonl/{cue}/vallina"),
        media=media,
        results=f"test_{kind}",
        units=units,
        max_tokens=512 if cue == "gc" else 2048,
    )


SUBTASKS: tuple[Subtask, ...] = (
    _image("gc-mat", "general cue, matching", "pair", 259),
    _image("gc-trk", "general cue, tracking", "pair", 219),
    _image("oc-cpr", "object cue, comparison", "pair", 360),
    _image("oc-cnt", "object cue, counting", "count", 360),
    _image("oc-grp", "object cue, grouping", "group", 200),
    _image("pc-cpr", "person cue, comparison", "pair", 200),
    _image("pc-cnt", "person cue, counting", "count", 120),
    _image("pc-grp", "person cue, grouping", "group", 100),
    Subtask(
        name="pc-vid",
        title="person cue, describing a video",
        family="video",
        questions="pc_v_open-ended.jsonl",
        folders=("jsonl/pc/vallina", "jsonl/pc/vanilla"),
        media="data/pc/video/UNI",
        results="test_vid",
        units=200,
        max_tokens=512,
    ),
)
BY_NAME = {subtask.name: subtask for subtask in SUBTASKS}


QUESTIONS = (".jsonl", ".ndjson", ".json")
VIDEO_ENDINGS = (".mp4", ".mov", ".avi")
LEVELS_UP = 5
REPOSITORY = "Sterzhang/vlm2-bench"
HINT = (
    f"Give vlm2-bench_dataset.zip or the folder it was unpacked to, one question file, or --data hf:{REPOSITORY} "
    "(6.5 GB)."
)


def pictures_in(tree: Tree, subtask: Subtask, prefixes: Sequence[str], hint: str) -> Pictures:
    """Return the images or videos of a subtask in a folder or archive, behind these prefixes of a row's own path."""
    first, *others = VIDEO_ENDINGS if subtask.family == "video" else ("",)
    nor = f" (nor with {', '.join(others)})" if others else ""
    return Pictures(
        str(tree.path),
        (under(tree, prefixes, (first, *others)),),
        lambda path: f"there is no {prefixes[0] + path + first!r} in {tree.path}{nor}",
        hint,
    )


def question_file(tree: Tree, subtask: Subtask) -> str | None:
    """Return the name of a subtask's question file; None where there is none.

    At the root in either spelling of its folder, else the one under the fewest folders.

    Raises:
        DataError: it is there and was left out as unsafe to read.
    """
    wanted = tuple(f"{folder}/{subtask.questions}" for folder in subtask.folders)
    for name in wanted:
        if tree.find(name) is not None:
            return name
    return next(iter(ending_in(tree.names(), *wanted)), None)


def beside_questions(tree: Tree, name: str, subtask: Subtask) -> Pictures:
    """Return the images that belong to a question file of the same folder or archive."""
    top = next((name.removesuffix(f"{folder}/{subtask.questions}") for folder in subtask.folders if folder in name), "")
    own, inner = f"{top}{subtask.media}/", f"{subtask.media}/"
    prefixes = [own]
    if not (isinstance(tree, FolderTree) and (tree.path / own).is_dir()):
        others = {member[: member.index(inner)] + inner for member in tree.names() if f"/{inner}" in f"/{member}"}
        prefixes += [] if own in others else sorted(others)
    return pictures_in(tree, subtask, prefixes, "Fetch or unpack the data again.")


def given_pictures(images: Path, subtask: Subtask) -> Pictures:
    """Images under --images: the data's root, its folder `data`, or the very folder that rows' paths start from."""
    prefixes = (f"{subtask.media}/", f"{subtask.media.removeprefix('data/')}/", "")
    return pictures_in(
        kept_tree(images), subtask, prefixes, f"Check --images {images}: it should hold {subtask.media}."
    )


def above_file(path: Path, subtask: Subtask) -> Pictures:
    """Return the images for a question file that was given alone: `data/...` in a folder above it."""
    for folder in list(path.absolute().parents)[:LEVELS_UP]:
        if (folder / subtask.media).is_dir():
            return pictures_in(FolderTree(folder), subtask, (f"{subtask.media}/",), "Fetch or unpack the data again.")
    hint = f"Give --images: the folder or zip that holds {subtask.media}."
    return Pictures("no images", (), lambda name: f"{name!r} was asked for, and no pictures were found", hint)


def check_right_file(path: Path, subtask: Subtask) -> None:
    """Raises DataError where a file has the name of another subtask's question file."""
    other = {known.questions: known.name for known in SUBTASKS}.get(path.name)
    if other is not None and other != subtask.name:
        raise DataError(
            f"{path} holds the questions of vlm2/{other}; those of vlm2/{subtask.name} were expected",
            f"Run vlm2/{other}, or give {subtask.questions}, or the folder or zip that holds all of them.",
        )


def inside(folder: Path, endings: tuple[str, ...], containing: str) -> Path | None:
    """Return the first file right in a folder whose name contains and ends with these, in lower case."""
    paths = (path for path in folder.iterdir() if containing in path.name.lower())
    return min((path for path in paths if path.name.lower().endswith(endings)), default=None)
