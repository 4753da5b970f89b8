"""The nine subtasks of VLM2-Bench: where their files lie, how they are answered, and how many there are."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

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
