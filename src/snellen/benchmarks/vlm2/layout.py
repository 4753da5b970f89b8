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
from snellen.sources import FileBlob, FolderTree, Tree, Unreadable, ZipBlob, kept_tree, member_name
from snellen.sources.tree import TARS
from snellen.types import Blob

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


ARCHIVES = (".zip", *TARS)
QUESTIONS = (".jsonl", ".ndjson", ".json")
VIDEO_ENDINGS = (".mp4", ".mov", ".avi")
LEVELS_UP = 5
REPOSITORY = "Sterzhang/vlm2-bench"
HINT = (
    f"Give vlm2-bench_dataset.zip or the folder it was unpacked to, one question file, or --data hf:{REPOSITORY} "
    "(6.5 GB)."
)


class SubtaskImages(Struct, frozen=True):
    """The images or videos of one subtask.

    Attributes:
        tree: the folder or archive; None: none was found, and every image is Unreadable.
        prefixes: what may stand before a row's own path, in the order in which they are tried; each ends with `/` or
            is empty.
        hint: what to do where an image is not there.
    """

    tree: Tree | None
    prefixes: tuple[str, ...] = ()
    hint: str = ""

    def find(self, name: str, at: str, endings: Sequence[str] = ("",)) -> Blob:
        """Return the image or video of a row, to be read when needed.

        Args:
            name: the path as the row gives it.
            at: file and line of the row, for messages.
            endings: what may stand behind the path, in the order in which they are tried.

        Returns:
            A blob; an Unreadable where the path leads out of its root, nothing is there, or what is there is empty.
        """
        key = f"{at}: {name}"
        try:
            plain = member_name(name, at)
            if self.tree is None:
                return Unreadable(key, f"{at}: {name!r} was asked for, and no pictures were found", self.hint)
            for prefix in self.prefixes:
                for ending in endings:
                    place = prefix + plain + ending
                    if place in self.tree.left_out or self.tree.exists(place):
                        blob = self.tree.blob(place)
                        if _is_empty(blob):
                            return Unreadable(key, f"{at}: {blob.key} is empty (0 bytes)", "Fetch the data again.")
                        return blob
        except OSError as error:
            return Unreadable(key, f"{at}: {name!r} cannot be read: {error.strerror or error}", self.hint)
        except DataError as error:
            return Unreadable(key, error.message if at in error.message else f"{at}: {error.message}", error.hint)
        looked = f"{self.prefixes[0]}{plain}{endings[0]}"
        others = f" (nor with {', '.join(endings[1:])})" if len(endings) > 1 else ""
        return Unreadable(key, f"{at}: there is no {looked!r} in {self.tree.path}{others}", self.hint)


def _is_empty(blob: Blob) -> bool:
    if isinstance(blob, ZipBlob):
        return blob.tree.size(blob.name) == 0
    return isinstance(blob, FileBlob) and blob.path.stat().st_size == 0


def question_file(tree: Tree, subtask: Subtask) -> str | None:
    """Return the name of a subtask's question file; None where there is none.

    At the root in either spelling of its folder, else the one under the fewest folders.

    Raises:
        DataError: it is there and was left out as unsafe to read.
    """
    wanted = tuple(f"{folder}/{subtask.questions}" for folder in subtask.folders)
    for name in wanted:
        if name in tree.left_out:
            raise tree.left_out[name]
        if tree.exists(name):
            return name
    return _shallowest(tree, tuple(f"/{name}" for name in wanted))


def _shallowest(tree: Tree, endings: tuple[str, ...]) -> str | None:
    names = [name for name in tree.names() if name.endswith(endings)]
    return min(names, key=lambda name: (name.count("/"), name), default=None)


def beside_questions(tree: Tree, name: str, subtask: Subtask) -> SubtaskImages:
    """Return the images that belong to a question file of the same folder or archive."""
    top = next((name.removesuffix(f"{folder}/{subtask.questions}") for folder in subtask.folders if folder in name), "")
    own, inner = f"{top}{subtask.media}/", f"{subtask.media}/"
    prefixes = [own]
    if not (isinstance(tree, FolderTree) and (tree.path / own).is_dir()):
        others = {member[: member.index(inner)] + inner for member in tree.names() if f"/{inner}" in f"/{member}"}
        prefixes += [] if own in others else sorted(others)
    return SubtaskImages(tree, tuple(prefixes), "Fetch or unpack the data again.")


def given_pictures(images: Path, subtask: Subtask) -> SubtaskImages:
    """Images under --images: the data's root, its folder `data`, or the very folder that rows' paths start from."""
    tree = kept_tree(images)
    inner = subtask.media.removeprefix("data/")
    return SubtaskImages(
        tree, (f"{subtask.media}/", f"{inner}/", ""), f"Check --images {images}: it should hold {subtask.media}."
    )


def above_file(path: Path, subtask: Subtask) -> SubtaskImages:
    """Return the images for a question file that was given alone: `data/...` in a folder above it."""
    for folder in list(path.absolute().parents)[:LEVELS_UP]:
        if (folder / subtask.media).is_dir():
            return SubtaskImages(FolderTree(folder), (f"{subtask.media}/",), "Fetch or unpack the data again.")
    return SubtaskImages(None, (), f"Give --images: the folder or zip that holds {subtask.media}.")


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
