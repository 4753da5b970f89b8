"""Fingerprint of a run: a digest of its settings, and the differences between two runs line by line."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from snellen import __version__
from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.data_digest import SAMPLES
from snellen.engine.endpoints import rerun_command
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import FingerprintError, MediaError, UsageError
from snellen.media import FRAMES, check_own_frames, describe, effective, frames_rule
from snellen.models.base import Model
from snellen.sources import digest as content_digest
from snellen.types import MediaSettings, Part, Prompt, Text, Video

PROMPTS_READ = 1000


def identity(spec: RunSpec, benchmark: Benchmark, model: Model) -> dict[str, Any]:
    """Return everything that can change an answer: two runs with equal identities are one experiment.

    Package versions and hardware are recorded beside it (`environment`) and not part of it: a run may go on after an
    upgrade or on another host. The prompts' digest is taken over the first 1,000 samples, the data's over all. Where
    questions pick the frames of their videos by a rule, the rules are named.

    Raises:
        UsageError: such questions, and settings that ask for other frames; masks that lie in no folder.
    """
    prompts, picks = _prompts(benchmark, spec, model)
    parts: dict[str, Any] = {
        **settings_identity(spec, benchmark),
        **_plain({"data": benchmark.digest(spec.data), "prompts": prompts, "model": dict(model.identity())}),
    }
    if picks:
        parts["frames"] = picks
    if (mask := spec.options.media.mask) and "mask" not in spec.data.options:  # a column of masks is part of the data
        if not Path(mask).is_dir():
            raise UsageError(
                f"--mask {mask} is {'a file' if Path(mask).exists() else 'not there'}; a folder of masks was expected",
                "Name the folder; a mask in it has the path of its image or the end of it.",
            )
        parts["masks"] = content_digest(mask)
    return parts


def settings_identity(spec: RunSpec, benchmark: Benchmark) -> dict[str, Any]:
    """Return the part of an identity that needs neither the data nor the model."""
    settings = {
        "benchmark": benchmark.name,
        "benchmark_version": benchmark.version,
        "data_options": dict(spec.data.options),
        "generation": spec.options.generation,
        "media": spec.options.media,
        "seed": spec.data.seed,
        "repeats": spec.repeats,
    }
    return {**_plain(settings), **benchmark.study}


def _plain(parts: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(parts, enc_hook=str)
    for media in (plain.get("media") or {}, plain.get("model", {}).get("media") or {}):
        media.pop("mask", None)  # masks count by their content
        if media.get("frames") == FRAMES:
            del media["frames"]  # earlier versions did not tell it from no number
    return plain


def digest(identity: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits over an identity."""
    return blake2b(msgspec.json.encode(identity, order="deterministic"), digest_size=8).hexdigest()


def _prompts(benchmark: Benchmark, spec: RunSpec, model: Model) -> tuple[str, list[str]]:
    """Digest ids, texts and the order of parts of the first samples; name the rules by which they pick frames.

    Raises:
        UsageError: a sample has earlier turns or a system text that the model cannot use, or frames that the settings exclude.
        DataError: none of the samples that are asked has a field that `accuracy` slices by.
    """
    total, picks = blake2b(digest_size=8), set[str]()
    slices = None
    if benchmark.is_plugin:
        from snellen.benchmarks.slices import SliceCheck

        slices = SliceCheck(benchmark)
    for number, sample in enumerate(benchmark.samples(spec.data)):
        if slices is not None and (spec.limit is None or number < spec.limit):
            slices.see(sample)
        if number >= PROMPTS_READ:
            if slices is not None and slices.missing and (spec.limit is None or number < spec.limit):
                continue
            break
        for part, used in (("history", sample.prompt.history), ("system", sample.prompt.system)):
            if used and part not in model.supports and (part == "history" or benchmark.table is not None):
                from snellen.engine.study import unsupported_part

                raise unsupported_part(spec, benchmark, sample, part)
        total.update(sample.id.encode() + b"\0")
        for line in _outline(sample.prompt):
            total.update(line.encode() + b"\0")
        picks |= set(_picks(sample.prompt, spec.options.media))
    if slices is not None:
        slices.require(limit=spec.limit)
    return total.hexdigest(), sorted(picks)


def _picks(prompt: Prompt, settings: MediaSettings) -> Iterator[str]:
    for part in prompt.conversation_parts:
        if isinstance(part, Video):
            rule = part.pick.name if part.pick else "the times in the data" if part.times else ""
            try:
                shown = effective(part, settings)
                if rule:
                    check_own_frames(rule, settings)
            except MediaError as error:  # every question would fail by it
                raise UsageError(error.message, error.hint) from error
            rule = rule or (frames_rule(shown) if shown != settings else "")
            if rule and settings.video != "native":
                yield rule


def _outline(prompt: Prompt) -> Iterator[str]:
    yield prompt.system
    for turn in prompt.history:  # none: the digest is that of versions without earlier turns
        yield f"\0{turn.role}"
        yield from _outline_parts(turn.parts)
    if prompt.history:
        yield "\0user"
    yield from _outline_parts(prompt.parts)
    if prompt.generation is not None:
        yield msgspec.json.encode(prompt.generation, order="deterministic").decode()


def _outline_parts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        yield part.text if isinstance(part, Text) else type(part).__name__
        if isinstance(part, Video):
            if part.pick is not None:
                yield part.pick.name
            if choice := tuple(value for value in (part.start, part.end, part.times, part.subtitles) if value):
                yield repr(choice)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted name, old value, new value) for every leaf in which two identities differ."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from differences(before, after, f"{path}{name}.")
        elif (before is None and after and isinstance(after, Mapping)) or (
            after is None and before and isinstance(before, Mapping)
        ):
            yield from differences(before or {}, after or {}, f"{path}{name}.")
        elif before != after:
            yield f"{path}{name}", before, after


_OF_DATA = {"data", "prompts"}
"""What differs where the data changed, which `rerun` does not bring back. The prompts of a table follow from its rows."""
_NEW_IN_0_2 = ("model.limits.", "model.network")  # of agents


def require_same(folder: RunFolder, new: Mapping[str, Any]) -> None:
    """Refuse to mix two experiments in one folder.

    Raises:
        FingerprintError: one line per difference, and the two ways to proceed.
    """
    old = folder.meta().identity
    changed = list(differences(old, new))
    if old.get("data") == "":  # 0.1 gave plug-ins without a digest none; such a run goes on, and has one from here on
        changed = [change for change in changed if change[0] != "data"]
    if not changed:
        return
    width = max(len(name) for name, _, _ in changed)
    lines = "\n".join(f"  {name:<{width}}  {'  ->  '.join(_short(*both))}" for name, *both in changed)
    hint = f"To resume it with its settings: {rerun_command(folder, folder.meta())}     To start a new run: --out {folder.path}-2"
    names = {name for name, _, _ in changed}
    if "data" in names and names <= _OF_DATA:
        hint = (
            f"If the run used other data, name it: --data PATH, --images PATH. If it changed, put it back as it was. "
            f"To start a new run: --out {folder.path}-2"
        )
        before, after = str(old.get("data")), str(new.get("data"))
        if names == {"data"} and before.startswith(SAMPLES) and after.startswith(SAMPLES):
            hint = (
                "If only gold answers or meta were corrected, score the recorded replies with them: "
                f"snellen score {folder.path} --trust     If the run used other data, name it: --data PATH, --images PATH. "
                f"To ask again: --out {folder.path}-2"
            )
    if folder.meta().imported is not None:
        hint = f"Its answers were imported, and cannot be resumed. To start a new run: --out {folder.path}-2"
    elif all(name.startswith(_NEW_IN_0_2) and before is None for name, before, _ in changed):
        hint = (
            "Agents of 0.1 had no limits and this machine's network; this version limits both. "
            f"Its answers can be scored: snellen score {folder.path}     To start a new run: --out {folder.path}-2"
        )
    raise FingerprintError(
        f"run '{folder.path}' was started with other settings; resuming would mix two experiments.\n{lines}",
        hint,
        [name for name, *_ in changed],
    )


def _short(before: Any, after: Any) -> tuple[str, str]:
    """Cut both values to at most 60 characters that include their difference."""
    a, b = ("(none)" if value is None else str(value) for value in (before, after))
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, same - 20) if max(len(a), len(b)) > 60 and same > 40 else 0
    return _window(a, start), _window(b, start)


def _window(text: str, start: int) -> str:
    text = text if start == 0 else "..." + text[start:]
    return text if len(text) <= 60 else text[:57] + "..."


@cache
def _installed_version(package: str) -> str | None:
    """Return a package's version, once for all runs of a process: reading ten of them takes 3 ms."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def environment(media: MediaSettings) -> dict[str, Any]:
    """Return package versions, hardware, and the decoder and resampler of images, for the record."""
    packages = (
        "torch",
        "transformers",
        "aiohttp",
        "msgspec",
        "numpy",
        "pillow",
        "simplejpeg",
        "pyarrow",
        "av",
        "pypdfium2",
    )
    versions = {"snellen": __version__, "python": platform.python_version()}
    versions |= {name: version for name in packages if (version := _installed_version(name)) is not None}
    return {
        "versions": versions,
        "media": describe(media),
        "hardware": {"machine": platform.machine(), "system": platform.system(), "cpus": os.cpu_count() or 0},
    }
