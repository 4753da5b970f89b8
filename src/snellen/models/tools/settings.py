"""Settings of the tools: one small JSON file, with no key and nothing of a sample but the folder of its images."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from snellen.atomic_write import replacing
from snellen.errors import PreflightError, UsageError
from snellen.redaction.arguments import key_among
from snellen.sources.safe_paths import missing_hint
from snellen.text import pretty_json

VARIABLE = "SNELLEN_TOOLS"
WEB = "web"  # in the place of a file: the tools of the network, with WEB_ENGINES and the search engine of SEARXNG
SEARXNG = "SEARXNG_URL"
_FOLDERS = ("pages", "index", "record")
NAMES = ("web_search", "fetch_url", "reverse_image_search", "crop_zoom", "view_image", "python")
SHORT = {"crop": "crop_zoom", "view": "view_image"}  # names of tools on the command line
PYTHON_PACKAGES = ("numpy", "pillow", "matplotlib")
# Engines of PicImageSearch that look for photographs of anything; the others know drawings and films only.
ENGINES = ("Bing", "Copyseeker", "Google", "GoogleLens", "Tineye", "Yandex")
WEB_ENGINES = ("Bing", "GoogleLens", "Yandex")

Positive = Annotated[int, Meta(ge=1)]


class ToolLimits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits of one conversation.

    Attributes:
        calls: tool calls in one conversation.
        turns: replies of the model in one conversation (only our own loop).
        seconds: of one call.
        page_bytes: of a page, unpacked; the rest is not read.
        text_chars: of one result.
        image_bytes: of an image that is fetched.
        image_side: pixels of the longer side of an image that a model is shown.
        results: hits of one search.
        python_seconds: of one call of `python`, by the clock.
        python_memory: bytes of all processes of an interpreter, and of its files, which lie in memory.
        python_disk: bytes of its files.
        python_processes: of an interpreter at the same time; threads at 8 times as many.
        python_images: pictures that one call gives back.
    """

    calls: Positive = 40
    turns: Positive = 20
    seconds: Annotated[float, Meta(gt=0)] = 20.0
    page_bytes: Positive = 2_000_000
    text_chars: Positive = 12_000
    image_bytes: Positive = 10_000_000
    image_side: Positive = 1536
    results: Positive = 10
    python_seconds: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    python_memory: Annotated[int, Meta(ge=256 << 20)] = 1 << 30
    python_disk: Annotated[int, Meta(ge=16 << 20)] = 256 << 20
    python_processes: Annotated[int, Meta(ge=8)] = 16
    python_images: Positive = 4


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of the tools.

    Attributes:
        backend: `local`: a folder of pages and images; `web`: the network.
        pages: the folder of the local backend. Without one, only the tools that need no search are given.
        index: the folder of its index; made and filled in by `prepare`.
        searxng: address of a SearXNG server that answers JSON, for `web_search` over the network. It is the user's
            choice and not the model's, so it may lie on loopback.
        reverse_engines: engines of PicImageSearch for `reverse_image_search` over the network. Each of them is a third
            party that the image is sent to; none is asked unless it is named here.
        record: folder that keeps what every call gave back.
        replay: only what `record` holds is given back, nothing is asked; a call that it does not hold is an error.
        tools: the tools that are given; empty: all that the other settings allow, without `python`, which must be named.
        limits: what a conversation may use.
        images: folder of the sample's images, relative to the file (only for the server and the skill).
    """

    backend: Literal["local", "web"] = "local"
    pages: str | None = None
    index: str | None = None
    searxng: str | None = None
    reverse_engines: tuple[str, ...] = ()
    record: str | None = None
    replay: bool = False
    tools: tuple[str, ...] = ()
    limits: ToolLimits = ToolLimits()
    images: str = "."

    def __post_init__(self) -> None:
        for field, known in (("tools", NAMES), ("reverse_engines", ENGINES)):
            for name in getattr(self, field):
                if name not in known:
                    raise ValueError(f"{field}: there is no {name!r}; known are {', '.join(known)}")
        if self.replay and not self.record:
            raise ValueError("replay needs `record`, the folder to replay from")
        if self.backend == "local" and (self.reverse_engines or self.searxng):
            raise ValueError("reverse_engines and searxng go over the network: they need backend 'web'")

    def given(self) -> tuple[str, ...]:
        """Return the names of the tools that these settings allow, in a fixed order.

        Raises:
            UsageError: a tool is asked for by name that they cannot give.
        """
        local = self.backend == "local" and bool(self.pages or self.index)
        possible = {
            "web_search": local or self.replay or (self.backend == "web" and self.searxng is not None),
            "fetch_url": local or self.replay or self.backend == "web",
            "reverse_image_search": local or self.replay or bool(self.reverse_engines),
            "crop_zoom": True,
            "view_image": True,
            "python": "python" in self.tools,  # programs of a model run only where somebody asks for it
        }
        for name in self.tools:
            if not possible[name]:
                raise UsageError(f"tools: {name} cannot be given with these settings.", _WANTS[name])
        return tuple(name for name in NAMES if possible[name] and (not self.tools or name in self.tools))

    def notices(self) -> list[str]:
        """Return what a user must know before a run: who gets the images."""
        if not self.reverse_engines or self.replay:
            return []
        return [
            "reverse_image_search sends the sample's image to third parties: " + ", ".join(self.reverse_engines) + "."
        ]


_WANTS = {
    "web_search": "Name a folder of pages (`pages`), or backend 'web' and a SearXNG server (`searxng`).",
    "fetch_url": "Name a folder of pages (`pages`), or backend 'web'.",
    "reverse_image_search": "Name a folder of pages (`pages`), or backend 'web' and `reverse_engines`.",
}


def load(path: Path | str) -> ToolSettings:
    """Read settings from a JSON file. Folders in it are relative to the file.

    Raises:
        UsageError: no such file, or a field that is not known or has another form.
    """
    path = Path(path)
    try:
        settings = msgspec.json.decode(path.read_bytes(), type=ToolSettings)
    except OSError as error:
        raise UsageError(f"cannot read the tool settings {path}: {error.strerror}", missing_hint(Path(path))) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the tool settings {path} are not as expected: {error}", "`snellen --help tools` lists them."
        ) from None
    _require_no_key(settings, f"the tool settings {path}")
    return _with_folders(settings, (*_FOLDERS, "images"), path.absolute().parent)


def _require_no_key(settings: ToolSettings, place: str) -> None:
    if (key := key_among(msgspec.to_builtins(settings))) is not None:
        raise UsageError(
            f"{place} hold {key}: a key, by its name or its shape. They are written into the run's record.",
            "Put the key into an environment variable; `snellen --help tools` says which.",
        )


def load_named(file: str | None) -> ToolSettings | None:
    """Return the settings of `--tools`, else of SNELLEN_TOOLS: a file, `web`, or names of tools; None where neither is set."""
    path = file or os.environ.get(VARIABLE)
    names = tuple(SHORT.get(name, name) for name in (path or "").split(","))
    if set(names) <= set(NAMES):
        return ToolSettings(tools=names)
    if path != WEB:
        return load(path) if path else None
    settings = ToolSettings(backend="web", searxng=os.environ.get(SEARXNG) or None, reverse_engines=WEB_ENGINES)
    _require_no_key(settings, f"--tools {WEB} and {SEARXNG}")
    return settings


def write(settings: ToolSettings, path: Path) -> None:
    """Write settings so that `load` reads them from anywhere: folders become absolute, but for a relative `images`."""
    with replacing(path) as part:
        part.write_bytes(pretty_json(_with_folders(settings, _FOLDERS, Path.cwd())))


def _with_folders(settings: ToolSettings, fields: Iterable[str], home: Path) -> ToolSettings:
    """Return settings whose folders are absolute, those in `fields` below `home`."""
    folders = {field: str(home / folder) for field in fields if (folder := getattr(settings, field)) is not None}
    return structs.replace(settings, **folders)


def prepare(settings: ToolSettings) -> ToolSettings:
    """Build the index of the pages, where it is not there yet, and return the settings with it.

    Do this once before many servers or skills are started: they then open the index and look at no page.

    Raises:
        DataError: the folder of pages cannot be read, or holds none.
    """
    settings.given()
    if settings.backend != "local" or settings.pages is None or settings.index is not None or settings.replay:
        return settings
    from snellen.models.tools.local_index import build

    return structs.replace(settings, index=str(build(Path(settings.pages))))


def needed(settings: ToolSettings) -> list[Path]:
    """Return folders that a sandbox must show, for reading; `record` also for writing."""
    return [Path(place) for place in (settings.pages, settings.index, settings.record) if place is not None]


def require_apart(visible: Iterable[Path], hidden: Iterable[Path]) -> None:
    """Refuse folders for tools and agents that hold what they must not see: the data with its answers, the results.

    Raises:
        PreflightError: a shown folder is, or holds, a hidden path.
    """
    for place in hidden:
        for folder in visible:
            if place.resolve().is_relative_to(folder.resolve()):
                raise PreflightError(
                    f"{folder} is shown to the model, and {place} lies in it, where its answers could be found",
                    "Move one of them: the folders of the tool settings hold pages and calls, and nothing else.",
                )


def identity(settings: ToolSettings) -> dict[str, Any]:
    """Return the settings that can change an answer: all but folders; a folder of pages by its digest."""
    from snellen.sources.digests import digest

    fields: dict[str, Any] = msgspec.to_builtins(settings)
    for place in (*_FOLDERS, "images"):
        fields.pop(place, None)
    if settings.backend == "local" and settings.pages is not None:
        fields["pages"] = digest(settings.pages)
    if "python" in settings.given():
        fields["python"] = {name: version(name) for name in PYTHON_PACKAGES} | {"python": platform.python_version()}
    return {**fields, "tools": list(settings.given()), "recorded": settings.record is not None}
