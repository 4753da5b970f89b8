"""What `snellen serve MODEL` may mean."""

from __future__ import annotations

from pathlib import Path

from snellen.errors import UsageError


def parse(spec: str) -> tuple[str, str]:
    """(folder or hub id, name for clients) of `embedded`, `local:NAME`, a bare folder or a bare hub id.

    A folder is known to clients by its last part only: where it lies is nobody's business.

    Raises:
        UsageError: a kind of model that is not on this machine, or no name.
    """
    if spec == "embedded":
        from snellen.models import embedded

        return str(embedded.path()), "embedded"
    kind, colon, rest = spec.partition(":")
    if colon and kind in ("api", "replay", "agent", "embedded"):
        raise UsageError(
            f"{spec!r} is not a model of this machine, so there is nothing to serve.",
            "Serve embedded, local:NAME, or the path of a model folder.",
        )
    name = rest if colon and kind == "local" else spec
    if not name:
        raise UsageError("no model is named.", "Serve embedded, local:NAME, or the path of a model folder.")
    return name, Path(name).resolve().name if Path(name).is_dir() else name
