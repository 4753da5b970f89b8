"""A case page of data that takes long to read: it waits in the browser, not in the server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import ask, write_questions
from starlette.testclient import TestClient

from snellen.errors import DataError
from snellen.types import Prompt, Sample, Text
from snellen.viewer import app
from snellen.viewer.app import view_app
from snellen.viewer.cases.opened_runs import SEARCHES, PendingSampleError, SampleShelf
from snellen.viewer.site import ViewSettings

LONG_S = 600.0


class SlowData:
    """A benchmark's samples, of which each after the first is read only when `go` is set."""

    def __init__(self, count: int = 3, error: Exception | None = None) -> None:
        self.go = threading.Event()
        self.starts = 0
        self._count, self._error = count, error

    def __call__(self) -> Iterator[Sample]:
        self.starts += 1
        for number in range(self._count):
            if number:
                assert self.go.wait(LONG_S)
            if self._error is not None and number:
                raise self._error
            yield Sample(f"q{number}", Prompt((Text("?"),)), None, "open")


def ended(shelf: SampleShelf, sample_id: str) -> Sample | None:
    """Ask until the search has ended."""
    while True:
        try:
            return shelf.find(sample_id)
        except PendingSampleError:
            continue


def test_a_search_goes_on_behind_the_page_and_is_found_when_it_is_asked_again():
    data = SlowData()
    shelf = SampleShelf(data, patience_s=0.01)
    messages = []
    while not messages or "1 sample so far" not in messages[-1]:
        with pytest.raises(PendingSampleError, match="data is being read") as caught:
            shelf.find("q2")
        messages.append(caught.value.message)
    data.go.set()
    sample = ended(shelf, "q2")
    assert sample is not None and sample.id == "q2"
    assert data.starts == 1
    assert ended(shelf, "no such sample") is None


def test_without_patience_settings_a_search_waits_for_its_end():
    data = SlowData()
    data.go.set()
    sample = SampleShelf(data).find("q2")
    assert sample is not None and sample.id == "q2"


def test_an_error_of_the_data_reaches_whoever_asks_again():
    data = SlowData(error=DataError("row 2 cannot be read", "Correct it."))
    shelf = SampleShelf(data, patience_s=0.01)
    with pytest.raises(PendingSampleError):
        shelf.find("q2")
    data.go.set()
    with pytest.raises(DataError, match="row 2 cannot be read"):
        ended(shelf, "q2")


def test_the_number_of_searches_that_wait_is_bounded():
    data = SlowData()
    shelf = SampleShelf(data, patience_s=0.001)
    before = threading.active_count()
    for number in range(5 * SEARCHES):
        with pytest.raises(PendingSampleError):
            shelf.find(f"x{number}")
    assert threading.active_count() - before <= SEARCHES
    data.go.set()


def test_a_case_page_of_slow_data_says_so_and_is_loaded_again(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key-of-the-model-0123456789")
    ask(write_questions(tmp_path / "data"), tmp_path / "plain", ["A", "B", "C"])
    monkeypatch.setattr(app, "SAMPLE_PATIENCE_S", 0.0)
    gate = threading.Event()
    search = SampleShelf._search

    def slow_search(shelf: SampleShelf, sample_id: str) -> Sample | None:
        assert gate.wait(LONG_S)
        return search(shelf, sample_id)

    monkeypatch.setattr(SampleShelf, "_search", slow_search)
    client = TestClient(view_app(ViewSettings(Path(tmp_path))), base_url="http://127.0.0.1")
    waiting = client.get("/case?sample=q1")
    assert waiting.status_code == 202 and waiting.headers["Refresh"] == "1"
    assert "The benchmark&#39;s data is being read" in waiting.text
    gate.set()
    answer = client.get("/case?sample=q1")
    while answer.status_code == 202:
        answer = client.get("/case?sample=q1")
    assert answer.status_code == 200 and "Which bird is this, no. 0?" in answer.text
