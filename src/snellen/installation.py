"""This installation: where it came from, and the command that adds one of its extras."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

SOURCE = Path(__file__).parents[1]


def install_command(extra: str) -> str:
    """Return the pip command that adds an extra to this installation, from where the package itself came.

    That is the checkout that runs, the folder, archive or repository that pip noted in `direct_url.json`, or the index.
    """
    if SOURCE.name == "src" and _is_checkout(SOURCE.parent):
        return f"pip install -e {shlex.quote(f'{SOURCE.parent}[{extra}]')}"
    url, revision = _origin()
    folder = Path(unquote(urlsplit(url).path))
    if not url or (url.startswith("file:") and folder.suffix == ".whl" and not folder.exists()):
        return f"pip install 'snellen[{extra}]'"
    if url.startswith("file:") and _is_checkout(folder):
        return f"pip install {shlex.quote(f'{folder}[{extra}]')}"
    if url.startswith("file:") and not folder.exists():
        return f"pip install '.[{extra}]' in a checkout of Snellen ({folder}, where it came from, is gone)"
    return f"pip install {shlex.quote(f'snellen[{extra}] @ {revision}')}"


def documentation() -> Path:
    """Return the folder of the documentation's pages: a wheel brings them, a checkout has them in its root."""
    shipped = Path(__file__).with_name("docs")
    return shipped if shipped.is_dir() else SOURCE.parent / "docs"


def install_hint(extra: str) -> str:
    """Return the hint of an error about a missing extra."""
    return f"Install it with: {install_command(extra)}"


def _is_checkout(folder: Path) -> bool:
    try:
        return 'name = "snellen"' in (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _origin() -> tuple[str, str]:
    """Return the address that pip noted for this installation, and as a requirement; ("", "") for one of an index."""
    try:
        noted = json.loads(metadata.distribution("snellen").read_text("direct_url.json") or "{}")
        url, source = str(noted.get("url") or ""), noted.get("vcs_info") or {}
    except (metadata.PackageNotFoundError, ValueError, AttributeError):  # not installed, or no JSON object
        return "", ""
    return url, f"{source['vcs']}+{url}@{source['commit_id']}" if "vcs" in source and "commit_id" in source else url
