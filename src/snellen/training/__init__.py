"""Evaluation while a model is trained: a callback of transformers' Trainer, and a watch over a folder of checkpoints.

`EvaluationCallback` is imported on first use, since it needs transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snellen.training.callback import EvaluationCallback

__all__ = ["EvaluationCallback"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name != "EvaluationCallback":
        raise AttributeError(f"module 'snellen.training' has no attribute {name!r}")
    from importlib.util import find_spec

    from snellen.errors import MissingExtraError
    from snellen.installation import install_hint

    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"EvaluationCallback needs {package}, which is not installed.",
                install_hint("local"),
            )
    from snellen.training.callback import EvaluationCallback

    return EvaluationCallback
