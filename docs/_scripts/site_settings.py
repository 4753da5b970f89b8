"""Settings of the site that mkdocs.yml cannot hold: the version in the footer, the link to the repository, heads of tables."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from snellen import __version__

ROOT = Path(__file__).resolve().parent.parent.parent


def repository() -> str:
    """Return the web address of the repository, or "" if it is unknown.

    It is SNELLEN_REPOSITORY, else the http(s) address of the remote `origin`, without a user name or a password.
    """
    address = os.environ.get("SNELLEN_REPOSITORY", "")
    if not address:
        command = ["git", "config", "--get", "remote.origin.url"]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        except OSError:  # no git on this machine
            return ""
        address = done.stdout.strip()
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
    return urlunsplit((parts.scheme, host, parts.path.removesuffix(".git"), "", ""))


def on_config(config: Any) -> Any:
    """Set the footer and the link to the repository. MkDocs calls this."""
    config.copyright = f"Snellen {__version__} · Apache-2.0"
    config.repo_url = repository() or None
    if config.repo_url:
        config.repo_name = "Repository"
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Return a page whose empty heads of columns are cells: a screen reader announces a head. MkDocs calls this."""
    return html.replace("<th></th>", "<td></td>")
