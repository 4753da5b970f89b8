"""Benchmark names: EASI's keys and Snellen's names, in a fixed order."""

from __future__ import annotations

from difflib import get_close_matches

from snellen.benchmarks.spatial.tasks import EIGHT, EVERY, MORE, TASKS, Task
from snellen.errors import UsageError
from snellen.text import comma_list
from snellen.types import EASI_PAPER

PARTS = ("image", "video")
HALVES = tuple(f"site/{part}" for part in PARTS)
"""The halves of SITE, which are benchmarks of their own."""
COUNTED: tuple[str, ...] = tuple(name for task in TASKS for name in ((task, *HALVES) if task == "site" else (task,)))
"""Every name of a run that a submission can hold: EASI's order, the halves of SITE behind the whole."""
PAPER = ("vsi-bench", "site", "mmsi-bench", "omnispatial", "mindcube-tiny", "stare", "corecognition", "spatialviz")
"""The eight of EASI's paper (arXiv 2508.13142), which are others than those of its leaderboard's average."""
ORDER: tuple[str, ...] = (*COUNTED, *MORE)
"""Every name that a run can have: those, then the further benchmarks, which no payload has a place for."""


def find(word: str) -> str | None:
    """Return the benchmark that a word names, None if it names none."""
    return spellings().get(plain(word))


def spellings() -> dict[str, str]:
    """Map accepted spellings to benchmark names: those of both harnesses, EASI's keys with its group `sitebench`, and Snellen's.

    Case, and whether `-`, `_` or `/` parts words, make no difference.
    """
    names: dict[str, str] = {}
    for task in EVERY.values():
        kit, lmms = task.declared.vlmevalkit, task.declared.lmms_eval
        if task.name != "site" and not kit.in_parts:  # the first is how the set is asked; of parts none is the whole
            names |= dict.fromkeys((*kit.data[:1], *lmms.tasks[:1]), task.name)
        names |= dict.fromkeys((task.name, task.id), task.name)
    names |= {"sitebench": "site", **{half: half for half in HALVES}}
    return {plain(spelled): name for spelled, name in names.items()}


def chosen(text: str | None, *, extra: bool = False) -> tuple[str, ...]:
    """Return the selected benchmarks in ORDER, each once; both halves of SITE become the whole.

    Args:
        text: `--benchmarks`, by comma, blanks around them, `easi-paper` being the paper's eight; None: the eight of the average.
            It is then all that counts.
        extra: with nothing given the four others of the payload too.

    Raises:
        UsageError: a name that nobody knows (all of them at once, with the nearest), or none at all.
    """
    if text is None:
        return tuple(TASKS) if extra else EIGHT
    words = [name for word in comma_list(text) for name in (PAPER if plain(word) == plain(EASI_PAPER) else (word,))]
    unknown = [word for word in words if find(word) is None]
    if unknown or not words:
        message = f"--benchmarks {text!r}: " + ("it names none" if not words else "".join(map(_nearest, unknown)))
        keys = ", ".join(
            [
                *(task.id for task in TASKS.values()),
                "sitebench (= site)",
                "site_image",
                "site_video",
                f"{EASI_PAPER} (the paper's eight)",
            ]
        )
        further = ", ".join(task.id for task in MORE.values())
        hint = f"Keys, parted by commas: {keys}; without a place in the payload: {further}; the names of `snellen list` too."
        raise UsageError(message.rstrip("; "), hint)
    names = set(map(find, words))
    if "site" in names or names.issuperset(HALVES):
        names = {*names, "site"}.difference(HALVES)
    return tuple(name for name in ORDER if name in names)


def task_of(name: str) -> tuple[Task, str]:
    """Return the task of a benchmark and its half: image, video, or empty for the whole."""
    if name in MORE:
        return MORE[name], ""
    task, _, part = name.partition("/")
    return TASKS[task], part


def _nearest(word: str) -> str:
    matches = get_close_matches(plain(word), spellings(), n=2, cutoff=0.5)
    meant = f" (did you mean {' or '.join(matches)}?)" if matches else ""
    return f"{word!r} is not known{meant}; "


def plain(word: str) -> str:
    """Return a name without case, its separators as underscores."""
    return word.strip().lower().replace("-", "_").replace("/", "_")
