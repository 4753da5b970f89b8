"""snellen version"""

from __future__ import annotations

import snellen


def version() -> None:
    """Print the version."""
    print(f"snellen {snellen.__version__}")
