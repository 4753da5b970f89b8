"""Metadata of the package that depend on where it is built: the addresses of the project, and the links of its README."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)\)")


class RepositoryMetadata(MetadataHookInterface):
    """The README, and the addresses, if SNELLEN_REPOSITORY says where the repository is on the web."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and `urls`. A package index shows the README outside of the repository, so links are made whole.

        Raises:
            ValueError: if SNELLEN_REPOSITORY is no address of a web page.
        """
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("SNELLEN_REPOSITORY", "").rstrip("/")
        if repository and not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", repository):
            raise ValueError(f"SNELLEN_REPOSITORY is {repository!r}; expected https://HOST/OWNER/NAME")
        if repository:
            tag = f"v{metadata['version']}"
            text = LINK.sub(lambda m: f"{m[1]}{m[2]}{repository}/{'raw' if m[1] else 'blob'}/{tag}/{m[3]})", text)
            metadata["urls"] = {
                "Source": repository,
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/{tag}/docs/changelog.md",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
