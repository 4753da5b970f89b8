"""Reverse image search by third parties, through PicImageSearch (extra `search`). Only engines that the user named.

The image is uploaded to each of them. Their answers are scraped from pages by PicImageSearch and may fail at any time;
an engine that fails is told in the result and does not hold up the others.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from snellen.errors import MissingExtraError
from snellen.installation import install_hint
from snellen.models.tools.base import ImageHit, ToolError

DEPENDENCIES = "PICS_DEPS_DIR"


def require() -> Any:
    """Return the module PicImageSearch, also from the folder that PICS_DEPS_DIR names. Raises MissingExtraError with what to install."""
    folder = os.environ.get(DEPENDENCIES)
    if folder and folder not in sys.path:
        sys.path.append(folder)  # behind all else: it adds what is missing, and replaces nothing
    try:
        import PicImageSearch
    except ImportError:
        raise MissingExtraError(
            "reverse_engines needs PicImageSearch, which is not installed.", install_hint("search")
        ) from None
    return PicImageSearch


async def search(
    names: Sequence[str], data: bytes, k: int, seconds: float, network: Any = None, **bases: str
) -> list[ImageHit]:
    """Return the hits of all engines in turns: the first of each, the second of each …

    Args:
        names: classes of PicImageSearch.
        data: the encoded image, which is sent to all of them.
        k: how many at most, of all engines together.
        seconds: for each engine.
        network, bases: for tests: an HTTP client in place of the network, and another address for an engine.

    Raises:
        ToolError: none of the engines answered.
    """
    module = require()
    answers = await asyncio.gather(
        *(_one(module, name, data, seconds, network, bases.get(name)) for name in names), return_exceptions=True
    )
    results: list[list[ImageHit]] = []
    faults: list[str] = []
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, list):
            results.append(answer)
        elif isinstance(answer, Exception):
            faults.append(f"{name}: {type(answer).__name__}")
        else:
            raise answer
    if not results:
        raise ToolError(f"no engine answered ({'; '.join(faults)})", transient=True)
    turns = [hits[rank] for rank in range(max(map(len, results), default=0)) for hits in results if rank < len(hits)]
    known: dict[str, ImageHit] = {}
    for hit in turns:
        known.setdefault(hit.url, hit)
    return list(known.values())[:k]


async def _one(module: Any, name: str, data: bytes, seconds: float, client: Any, base: str | None) -> list[ImageHit]:
    settings = {"base_url": base} if base else {}
    async with asyncio.timeout(seconds):
        if client is not None:
            answer = await getattr(module, name)(client=client, **settings).search(file=data)
        else:
            async with module.Network(timeout=seconds) as own:
                answer = await getattr(module, name)(client=own, **settings).search(file=data)
    return [hit for item in answer.raw if (hit := _hit(item, name)) is not None]


def _hit(item: Any, engine: str) -> ImageHit | None:
    url = getattr(item, "url", "") or ""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return None
    similarity = getattr(item, "similarity", 0.0)
    return ImageHit(
        url=url,
        title=str(getattr(item, "title", "") or "")[:300],
        image=str(getattr(item, "thumbnail", "") or ""),
        similarity=float(similarity) if isinstance(similarity, (int, float)) else 0.0,
        source=engine,
    )
