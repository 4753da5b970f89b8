"""snellen view"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from snellen.cli import options as shared
from snellen.cli.console import note, show_json
from snellen.cli.option_parsing import argument, option
from snellen.errors import UsageError

TOKEN_VARIABLE = "SNELLEN_VIEW_TOKEN"  # noqa: S105 - a name, no token
LEAST_TOKEN = 16


@dataclass(frozen=True)
class ViewServerOptions:
    """Address of the pages, and who may open them."""

    PANEL: ClassVar[str] = "Server"

    port: shared.Port = 8765
    host: str = option("Address to listen on. Any other than the default requires --token.", "127.0.0.1")
    token: bool = option(
        "Require a random token, printed as part of the address; a cookie keeps it in the browser. "
        "SNELLEN_VIEW_TOKEN sets a fixed one.",
        False,
    )
    open_browser: bool | None = option(
        "Open the browser.", names=("--open/--no-open",), said="open on a desktop, not over SSH or in CI"
    )


def view(
    root: Path = argument(
        "Folder of the runs; nested ones and imported ones are included.", Path("results"), value="FOLDER"
    ),
    *,
    review: str | None = option(
        "Review verdicts under this name, or choose among several in each browser; without it the pages only show.",
        value="NAME[,NAME]",
    ),
    export: Path | None = option(
        "Write the pages as static files instead of serving them; replaces an earlier export.", value="FOLDER"
    ),
    show_gold: bool = option("Show the gold answers of restricted benchmarks too.", False),
    trust: shared.Trust = False,
    server: ViewServerOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Browse all runs of a folder in the browser: runs, samples, comparisons, review.

    The pages are served on this machine only and follow runs in progress. Ctrl-C ends the server.
    """
    if not root.is_dir():
        problem = "is a file" if root.exists() else "does not exist"
        raise UsageError(
            f"the folder of the runs, {root}, {problem}",
            "Name the folder that holds the run folders, such as: snellen view results/",
        )
    if review is not None:
        from snellen.runs.reviews.decisions import reviewer_name
        from snellen.text import comma_list

        for name in comma_list(review) or [""]:
            reviewer_name(name)
    if export is not None:
        _export(root, export, show_gold=show_gold, trust=trust, as_json=as_json)
        return
    from snellen.viewer.serve import serve
    from snellen.viewer.site import ViewSettings

    settings = ViewSettings(
        root=root,
        host=server.host,
        token=_fixed_token() if server.token else None,
        reviewer=(review or "").strip(),
        show_gold=show_gold,
        trust=trust,
    )
    wanted = browser_wanted() if server.open_browser is None else server.open_browser
    told = (lambda address: show_json({"address": address})) if as_json else None
    serve(settings, server.port, open_browser=wanted, notify=note, on_address=told)


def _export(root: Path, out: Path, *, show_gold: bool, trust: bool, as_json: bool) -> None:
    from snellen.viewer.export import export_site
    from snellen.viewer.site import ViewSettings

    result = export_site(ViewSettings(root=root, show_gold=show_gold, trust=trust), out, notify=note)
    if as_json:
        counts = {"pages": result.pages, "images": result.images, "bytes": result.size, "seconds": result.seconds}
        show_json({"index": str(out / "index.html"), **counts, "problems": list(result.problems)})
        return
    print(out / "index.html")
    note(f"{result.pages:,} pages, {result.images:,} images, {result.size / 1e6:,.1f} MB, {result.seconds:.1f} s")
    for problem in result.problems[:10]:
        note(f"note: {problem}")


def browser_wanted() -> bool:
    """Return True on a desktop: a terminal, no SSH session, no CI, and a display where one is needed."""
    if not sys.stderr.isatty() or any(os.environ.get(name) for name in ("CI", "SSH_CONNECTION", "SSH_TTY")):
        return False
    return sys.platform in ("win32", "darwin") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER")
    )


def _fixed_token() -> str:
    """Return the token of SNELLEN_VIEW_TOKEN, or a new random one. Raises UsageError for one that is easily guessed."""
    from snellen.viewer.security import new_token

    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        return new_token()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise UsageError(
            f"{TOKEN_VARIABLE} must have {LEAST_TOKEN} characters or more, all letters, digits, - or _",
            "Unset it to get a random token.",
        )
    return token
