"""Misleading hints, `-o hint=wrong`: below each question a sentence that names a wrong class of the same level.

How far a model follows words against what it sees is told by two runs, with and without the hint. Which class is named
follows from the run's seed and the sample's id alone (BLAKE2b), so a hint is the same in every run and on every machine:

- a choice: one of its wrong options;
- a truth question whose answer is no: the class that was asked for; whose answer is yes: another class of the level;
- a short answer: another class of the level.

No class is named that is part of a right name or holds one (`warbler` beside `yellow warbler`): it might not be wrong.
Where no wrong class is known, the question stays as it was and its `hint` says `none`. `-o hint-text=TEXT` is a sentence in
place of Snellen's own, such as the one that the project page of FG-BMK quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.errors import UsageError
from snellen.toml_text import packaged_toml
from snellen.types import Prompt, Sample, Text

OPTIONS = {
    "hint": "wrong: below every question a sentence that names a wrong class of the same level; no hint unless given",
    "hint-text": "the sentence, with {wrong} where the class stands, and {attribute} where the attribute does: "
    "`It seems to be a {wrong}.`; gives a hint by itself (default: Snellen's own sentence)",
}
_SLOT = re.compile(r"\{(\w*)\}")


def wanted(data: Data) -> bool:
    """Return True if the user asks for hints.

    Raises:
        UsageError: a hint other than `wrong`, or a sentence that is no line with one `{wrong}`.
    """
    hint, text = data.options.get("hint"), data.options.get("hint-text")
    if hint not in (None, "wrong"):
        raise UsageError(f"-o hint={hint}: the only kind of hint is wrong.", "Write --hint wrong, or omit it.")
    if text is None:
        return hint == "wrong"
    slots = _SLOT.findall(text)
    if slots.count("wrong") != 1 or set(slots) - {"wrong", "attribute"} or len(text.splitlines()) != 1:
        raise UsageError(
            f"--hint-text {text!r} is not one line with {{wrong}} once, and {{attribute}} at most beside it",
            'Write for example --hint-text "It seems to be a {wrong}."',
        )
    return True


def misled(samples: Iterator[Sample], data: Data, classes: Callable[[str], Sequence[str]]) -> Iterator[Sample]:
    """Yield the samples, each with a misleading sentence at the end of its last text.

    Args:
        samples: of meta, `level`, `attribute`, `label`, `asked` and `aliases` are read. A sample without a gold answer
            (a row that cannot be read) goes by unchanged.
        data: its seed draws the classes.
        classes: the names of a level, or the values of an attribute, in a fixed order; empty where they are not known.
            Asked for once a level, and not for choices, which have their own options.

    Yields:
        the sample with the hint, `hint` in its meta ("wrong", or "none" where no wrong class is known) and the class
        that was named as `hinted`.
    """
    known: dict[str, Mapping[str, str]] = {}
    listed: dict[str, Sequence[str]] = {}
    for sample in samples:
        if sample.target is None:
            yield sample
            continue
        about = "" if sample.options else str(sample.meta.get("attribute") or sample.meta.get("level") or "")
        if about not in known and not sample.options:
            known[about] = {name.casefold(): name for name in classes(about)}
            listed[about] = tuple(known[about].values())
        name = wrong_class(sample, listed.get(about, ()), data.seed)
        if name is None:
            yield structs.replace(sample, meta={**sample.meta, "hint": "none"})
            continue
        # Names in meta are in lower case; the level knows how they are written.
        name = known.get(about, {}).get(name.casefold(), name)
        meta = {**sample.meta, "hint": "wrong", "hinted": name}
        text = sentence(sample, name, data.options.get("hint-text"))
        yield structs.replace(sample, prompt=_with(sample.prompt, text), meta=meta)


def wrong_class(sample: Sample, classes: Sequence[str], seed: int) -> str | None:
    """Return the class that the hint of a sample names; None where no wrong one is known."""
    if sample.options:
        names: Sequence[str] = tuple(sample.options.values())
    elif sample.kind == "truth" and sample.target is False and sample.meta.get("asked"):
        return str(sample.meta["asked"])
    else:
        names = classes
    right = [name.casefold() for name in _right(sample)]
    if not names or not right:
        return None
    key = f"{seed}\x1fhint\x1f{sample.id}".encode()
    start = int.from_bytes(blake2b(key, digest_size=8).digest(), "little") % len(names)
    # Classes are many and right names few: the first one from a drawn place on that is wrong.
    for step in range(len(names)):
        name = names[(start + step) % len(names)]
        folded = name.casefold()
        if not any(folded in right_name or right_name in folded for right_name in right):
            return name
    return None


def sentence(sample: Sample, name: str, text: str | None = None) -> str:
    """Return the hint itself; `text` is the user's sentence with its slots, None is Snellen's."""
    attribute = str(sample.meta.get("attribute") or "")
    text = text or _sentences()["attribute" if attribute else "class"]
    return _SLOT.sub(lambda slot: name if slot[1] == "wrong" else attribute, text)


def _right(sample: Sample) -> list[str]:
    """Return every name of the right class that is known."""
    names: list[str] = []
    if sample.kind == "choice":
        names.append(sample.options.get(str(sample.target), ""))
    elif isinstance(sample.target, str):
        names.append(sample.target)
    elif isinstance(sample.target, tuple):
        names.extend(sample.target)
    elif sample.target is True:
        names.append(str(sample.meta.get("asked") or ""))
    names.append(str(sample.meta.get("label") or ""))
    aliases = sample.meta.get("aliases") or ()
    names.extend([aliases] if isinstance(aliases, str) else aliases)
    return [name for name in names if name]


def _with(prompt: Prompt, hint: str) -> Prompt:
    parts = list(prompt.parts)
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if isinstance(part, Text):
            parts[at] = Text(f"{part.text}\n{hint}")
            return structs.replace(prompt, parts=tuple(parts))
    return structs.replace(prompt, parts=(*parts, Text(hint)))


@cache
def _sentences() -> Mapping[str, str]:
    return packaged_toml("snellen.benchmarks", "hints.toml")
