"""The viewer's tests ask for a page and read it at once: a page waits for the benchmark's data however slow the machine is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

PATIENCE_S = 120.0


@pytest.fixture(scope="session", autouse=True)
def patient_pages() -> Iterator[None]:
    """Let a case page wait for its data; test_view_slow_data.py tests the page that does not."""
    from snellen.viewer import app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "SAMPLE_PATIENCE_S", PATIENCE_S)
        yield
