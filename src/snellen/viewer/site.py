"""The site: settings of `snellen view`, and what every page's view is given."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError
from snellen.local_server import LOOPBACK
from snellen.reports.acuity.view import AcuityView, acuity_view
from snellen.runs.reviews.cases import CaseSource
from snellen.viewer.cases.opened_runs import OpenedRun, OpenedRuns
from snellen.viewer.cases.pictures import ImageStore
from snellen.viewer.index import ViewIndex
from snellen.viewer.links import Links
from snellen.viewer.reviews.desk import ReviewDesk
from snellen.viewer.run_list import Rankings
from snellen.viewer.states import PageState
from snellen.viewer.thumbnails import OfferedThumbnails

HELD = 24


class AcuityViews:
    """Views of runs by folder and state of the journal, the least recently used dropped first. Callers may be threads."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[object, ...], AcuityView | str] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, opened: OpenedRun) -> AcuityView | str:
        """Return what a run measured, or in words why that cannot be said; it takes a second for a thousand questions."""
        if opened.run is None:
            return opened.problem or "the run cannot be read"
        try:
            journal = (opened.path / "results.jsonl").stat()
        except OSError as error:
            return f"results.jsonl cannot be read: {error.strerror or type(error).__name__}"
        key = (str(opened.path), journal.st_mtime_ns, journal.st_size)
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
            try:
                view: AcuityView | str = acuity_view(opened.run)
            except SnellenError as error:
                view = error.message
            except Exception as error:  # noqa: BLE001 - a journal may hold anything; its fault must not end the page
                view = f"{type(error).__name__} while its answers were read"
            self._views[key] = view
            while len(self._views) > HELD:
                self._views.popitem(last=False)
        return view


class MissingPageError(SnellenError):
    """A page was asked for that does not exist: its run or its sample is not there."""


class PendingPageError(MissingPageError):
    """A page was asked for whose runs are still being indexed: it is there in a moment."""


@dataclass(frozen=True)
class ViewSettings:
    """Settings of the viewer.

    Attributes:
        root: folder of the runs, nested ones too.
        host: address to listen on.
        token: what a browser must present once; None on loopback.
        reviewer: name under which decisions are recorded; empty for read-only pages.
        show_gold: show gold answers of restricted benchmarks.
        trust: import the code and read the files that run folders name.
        port: port that the server listens on; names its cookie, because cookies do not tell ports apart.
        cases: cases to review in place of the runs; the review is then the only page.
    """

    root: Path
    host: str = LOOPBACK
    token: str | None = None
    reviewer: str = ""
    show_gold: bool = False
    trust: bool = False
    port: int = 0
    cases: CaseSource | None = None


@dataclass(frozen=True)
class Site:
    """What a view is given: settings, links of the way out, the index, opened runs, and the images that pages show.

    `images` holds images in full by SHA-256; `thumbnails` the small copies that views offer; `rankings` those of the runs page;
    `acuity` what runs of acuity measured.
    """

    settings: ViewSettings
    links: Links
    index: ViewIndex
    opened: OpenedRuns = field(default_factory=OpenedRuns)
    images: ImageStore = field(default_factory=ImageStore)
    thumbnails: OfferedThumbnails = field(default_factory=OfferedThumbnails)
    rankings: Rankings = field(default_factory=Rankings)
    acuity: AcuityViews = field(default_factory=AcuityViews)
    reviews: ReviewDesk = field(default_factory=ReviewDesk)

    @property
    def live(self) -> bool:
        """Return True for the server, False for an export."""
        return self.links.live


View = Callable[[Site, Any], Mapping[str, Any]]
Submit = Callable[[Site, Any, Mapping[str, str]], PageState]


@dataclass(frozen=True)
class ViewPage:
    """A page: its state, its view, and its title.

    Attributes:
        state: class of its address; `state.page` names its path, template, style and script.
        view: makes the template's variables.
        title: its name in the navigation.
        submit: takes a form, and returns the page that the browser is sent to; None for pages that only show.
        listed: whether it stands in the navigation.
    """

    state: type[PageState]
    view: View
    title: str
    submit: Submit | None = None
    listed: bool = True

    @property
    def name(self) -> str:
        """Return the name of its path, template, style and script."""
        return self.state.page
