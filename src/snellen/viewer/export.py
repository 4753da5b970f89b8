"""Static export: the same pages as files, whole from file:// and from any web server.

The export begins with the pages of the navigation and writes every page that one of them links to. Links are relative. Images are
named by the digest of their bytes, so that equal ones are written once. No page holds a key, a path of this machine, or a gold answer
of a restricted benchmark.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from snellen.errors import SnellenError, StorageError, UsageError
from snellen.viewer.cases.opened_runs import OpenedRuns
from snellen.viewer.index import open_index
from snellen.viewer.links import IMAGES, THUMBNAILS, StaticLinks, checked_digest
from snellen.viewer.pages import load_pages
from snellen.viewer.rendering import page_assets, render_page
from snellen.viewer.run_list import Rankings
from snellen.viewer.site import Site, ViewPage, ViewSettings
from snellen.viewer.states import PageState
from snellen.viewer.thumbnails import OfferedThumbnails

MARKER = ".snellen-export"
"""File that marks a folder as an export, which a later one may replace."""
MOST_PAGES = 100_000
NO_IMAGE = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}


@dataclass(frozen=True)
class ExportResult:
    """What was written."""

    folder: Path
    pages: int
    images: int
    size: int
    seconds: float
    problems: tuple[str, ...] = ()


class ExportLinks(StaticLinks):
    """Links of an export that write each image when a page links to it.

    Args:
        folder: of the export.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.site: Site | None = None
        self.written = 0
        self._names: dict[tuple[str, str], str] = {}

    def image(self, digest: str) -> str:
        """Write an image in full; return its file."""
        return self._file(IMAGES, digest)

    def thumbnail(self, digest: str) -> str:
        """Write a small copy; return its file."""
        return self._file(THUMBNAILS, digest)

    def _file(self, kind: str, digest: str) -> str:
        key = (kind, checked_digest(digest))
        if key not in self._names:
            self._names[key] = self._write(kind, digest)
        return self._names[key]

    def _write(self, kind: str, digest: str) -> str:
        assert self.site is not None  # noqa: S101 - set before the first page
        try:
            image = (self.site.thumbnails if kind == THUMBNAILS else self.site.images).get(digest)
        except SnellenError:
            return NO_IMAGE
        if image is None or image[1] not in ENDINGS:
            return NO_IMAGE
        data, mime = image
        path = self.folder / kind / f"{blake2b(data, digest_size=12).hexdigest()}{ENDINGS[mime]}"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            self.written += 1
        return f"{kind}/{path.name}"


def export_site(
    settings: ViewSettings, out: Path, *, notify: Callable[[str], None] = lambda line: None
) -> ExportResult:
    """Write the pages over a folder of runs as files.

    Args:
        settings: root of the runs; gold answers of restricted benchmarks are never exported.
        out: folder to write; it may be new, empty, or an earlier export, which is replaced.
        notify: gets a line of progress now and then.

    Raises:
        UsageError: `out` holds something else, or gold answers were asked for.
        StorageError: the folder cannot be written.
    """
    begin = time.monotonic()
    if settings.show_gold:
        raise UsageError(
            "an export holds no gold answers of restricted benchmarks, so --export excludes --show-gold",
            "Omit --show-gold; the pages of `snellen view --show-gold` show them on this machine.",
        )
    require_target(out)
    part = out.absolute().with_name(f".{out.absolute().name}.part-{os.getpid()}")
    try:
        shutil.rmtree(part, ignore_errors=True)
        (part / "assets").mkdir(parents=True)
        result = _write_pages(replace(settings, reviewer="", token=None), part, notify)
        (part / MARKER).write_text("Written by snellen view --export.\n", encoding="utf-8")
        size = sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
        if out.exists():
            shutil.rmtree(out)
        part.rename(out)
    except OSError as error:
        raise StorageError(
            f"cannot write the export to {out}: {error.strerror or error}", "Free disk space, or choose another folder."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return replace(result, folder=out, size=size, seconds=time.monotonic() - begin)


def require_target(out: Path) -> None:
    """Raise UsageError unless a folder is new, empty or an earlier export."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UsageError(f"--export {out} is not a folder", "Name a new folder.")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise UsageError(
            f"--export {out} holds other files, and an export replaces its folder", "Name a new or an empty folder."
        )


def _write_pages(settings: ViewSettings, folder: Path, notify: Callable[[str], None]) -> ExportResult:
    index = open_index(settings.root, trust=settings.trust)
    index.refresh()
    links = ExportLinks(folder)
    opened, rankings = OpenedRuns(trust=settings.trust), Rankings(trust=settings.trust)
    site = Site(settings, links, index, opened, thumbnails=OfferedThumbnails(), rankings=rankings)
    links.site = site
    pages = load_pages()
    for page in pages.values():
        assets = page_assets(page.name)
        (folder / "assets" / f"{page.name}.css").write_text(assets.style, encoding="utf-8", newline="\n")
        (folder / "assets" / f"{page.name}.js").write_text(assets.script, encoding="utf-8", newline="\n")
        if page.listed:
            links.to(page.state())
    hide = path_hider(settings.root)
    problems: list[str] = []
    count, last = 0, time.monotonic()
    for name, state in _states(links):
        page = pages[state.page]
        html, problem = _render(site, page, state, list(pages.values()))
        if problem:
            problems.append(problem)
        (folder / name).write_text(hide(html), encoding="utf-8", newline="\n")
        count += 1
        if time.monotonic() - last > 5:
            last = time.monotonic()
            notify(f"{count:,} of {len(links.pages):,} pages written")
    return ExportResult(folder, count, links.written, 0, 0.0, tuple(problems))


def _states(links: StaticLinks) -> Iterator[tuple[str, PageState]]:
    """Yield every page that is linked to, once; pages that are rendered meanwhile add further ones."""
    names: list[str] = []
    place = 0
    while True:
        names += list(links.pages)[len(names) :]
        if place >= len(names):
            return
        if place >= MOST_PAGES:
            raise UsageError(
                f"the export has more than {MOST_PAGES:,} pages", "Export a folder with fewer runs or samples."
            )
        yield names[place], links.pages[names[place]]
        place += 1


def _render(site: Site, page: ViewPage, state: PageState, pages: list[ViewPage]) -> tuple[str, str]:
    """Render a page, or the page of its error; return it with the error in one line."""
    try:
        return render_page(site, page, state, page.view(site, state), pages).html, ""
    except SnellenError as error:
        view = {"message": error.message, "hint": error.hint}
        html = render_page(site, page, state, view, pages, "problem.html.jinja").html
        return html, f"{page.name}: {error.message}"


SYSTEM = frozenset(
    [
        *("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "proc", "run"),
        *("sbin", "sys", "usr", "var"),
    ]
)
"""Folders at the top that are alike on every machine: a path in them says nothing about this one."""
PERSONAL = (
    *("home", "Users", "Volumes", "root", "tmp", "private", "mnt", "media", "data", "scratch"),
    *("workspace", "opt", "srv"),
)
"""Folders at the top that hold what users put there, on the machine of a run from elsewhere too."""
BELOW = ("var/folders", "var/tmp", "var/home", "run/user", "run/media")
_END = r"""[^\s<>"'`&;,|\\/]"""


def path_hider(root: Path) -> Callable[[str], str]:
    """Return a function that shortens absolute paths in HTML to their last name.

    Hidden are the root, the home and the working folder wherever they stand, and every path below a folder for users' files.
    Paths below system folders such as /usr stay, as do addresses of the web.
    """
    from markupsafe import escape

    places = {str(root.absolute()), str(root.resolve()), str(Path.home()), str(Path.cwd())}
    texts = {text for place in places if len(place) > 3 for text in (place, str(escape(place)))}
    known = re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))
    tops = "|".join(re.escape(name) for name in sorted({*PERSONAL, *BELOW, *_top_folders()}, key=len, reverse=True))
    unix = rf"(?<![\w<./%+…-])(?:file://)?/+(?:{tops})(?:/+({_END}+))+/*(?!\w)"
    windows = rf"(?<![\w])[A-Za-z]:[\\/]+Users(?:[\\/]+({_END}+))+"
    pattern = re.compile(f"{unix}|{windows}")

    def hide(html: str) -> str:
        return pattern.sub(lambda match: f"…/{match[1] or match[2]}", known.sub("…", html))

    return hide


def _top_folders() -> list[str]:
    """Return the names of the folders at the top of this machine that are not those of the system."""
    try:
        return [path.name for path in Path("/").iterdir() if path.is_dir() and path.name not in SYSTEM]
    except OSError:
        return []
