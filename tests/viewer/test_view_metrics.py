"""`GET /metrics`: what Prometheus reads of runs, while one goes on too, and what names of runs cannot do to it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from browser_checks import serving
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from run_folders import right_reply, samples_of, write_run
from test_view_security import TOKEN, ask

import snellen
from snellen.engine.run_folder import Totals
from snellen.models.base import Model
from snellen.types import Metric, Prompt, Response, Usage
from snellen.viewer.index import RunEntry
from snellen.viewer.metrics import CONTENT_TYPE, MOST_RUNS, metrics_text

RIGHT = {sample.id: right_reply(sample) for sample in samples_of("chart/digits", 6)}
ENTRY = RunEntry(
    key="a",
    path=Path("a"),
    benchmark="chart",
    model="m",
    state="complete",
    totals=Totals(ok=3, error=1, input_tokens=30, cost=0.5),
)


def series(text: str) -> dict[tuple[str, ...], float]:
    """Return value by name and sorted labels, read by Prometheus' own parser."""
    families = list(text_string_to_metric_families(text))
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {
        (
            sample.name.removeprefix("snellen_"),
            *(f"{name}={value}" for name, value in sorted(sample.labels.items())),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def scraped(address: str, **headers: str) -> dict[tuple[str, ...], float]:
    status, fields, text = ask(address, "/metrics", **headers)
    assert status == 200 and {**fields}["content-type"] == CONTENT_TYPE
    return series(text)


class Slow(Model):
    """Answers one question after the other, when it is told to."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked = 0

    async def answer(self, prompt: Prompt) -> Response:
        self.asked += 1
        if self.asked > 2:
            await asyncio.to_thread(self.goes_on.wait, 300)
        return Response("7", usage=Usage(input_tokens=100, output_tokens=2, cost=0.25))


def wait_for(found, seconds: float = 600.0):
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
    return value


def test_a_run_is_read_while_it_goes_on_and_after_its_end(tmp_path: Path):
    model = Slow()
    work = threading.Thread(
        target=lambda: snellen.evaluate("chart/digits", model, limit=120, concurrency=1, out=tmp_path / "live"),
        daemon=True,
    )
    with serving(tmp_path) as address:
        work.start()
        try:
            during = wait_for(lambda: (now := scraped(address)).get(("run_done", "run=live")) == 2 and now)
            assert during["runs", "state=running"] == 1 and during["run_requested", "run=live"] == 120
            assert during["run_tokens", "direction=input", "run=live"] == 200
        finally:
            model.goes_on.set()
            work.join(600)
        after = wait_for(lambda: (now := scraped(address)).get(("runs", "state=limited")) == 1 and now)
    assert after["run_done", "run=live"] == 120 and after["run_cost_dollars", "run=live"] == 30.0
    low, value, high = (
        next(after[labels] for labels in after if labels[0] == name and "run=live" in labels)
        for name in ("run_score_low", "run_score", "run_score_high")
    )
    assert low <= value <= high and 0 < after["run_coverage_ratio", "run=live"] < 1


def test_figures_are_behind_the_gate_of_the_pages(tmp_path: Path):
    write_run(tmp_path / "run", "chart/digits", RIGHT, limit=6)
    with serving(tmp_path, token=TOKEN, host="0.0.0.0") as address:
        for headers in ({}, {"Authorization": "Bearer another"}, {"Authorization": TOKEN}):
            assert ask(address, "/metrics", **headers)[0] == 403
        assert ask(address, "/metrics", Host="evil.example", Authorization=f"Bearer {TOKEN}")[0] == 421
        assert ("run_done", "run=run") in wait_for(lambda: scraped(address, Authorization=f"Bearer {TOKEN}"))


@given(names=st.lists(st.text(max_size=300), min_size=3, max_size=3))
def test_no_name_of_a_run_breaks_the_format(names: list[str]):
    key, benchmark, model = names
    entry = replace(ENTRY, key=key, benchmark=benchmark, model=model)
    read = series(metrics_text([entry]))
    (info,) = (labels for labels in read if labels[0] == "run_info")
    if all(name.isprintable() and len(name) <= 200 for name in names):
        assert info == ("run_info", f"benchmark={benchmark}", f"model={model}", f"run={key}", "state=complete")
    assert len(read) == 7 + 1 + 6


def test_the_number_of_series_is_bounded_and_what_is_not_finite_is_left_out():
    headline = Metric("accuracy", math.nan, 4, (0.1, math.inf))
    many = [replace(ENTRY, key=f"{at:05}", ended=float(at), headline=headline) for at in range(MOST_RUNS + 20)]
    read = series(metrics_text([*many, replace(ENTRY, key="now", state="running")]))
    assert read["runs_omitted",] == 21 and read["runs", "state=complete"] == MOST_RUNS + 20
    assert ("run_info", "benchmark=chart", "model=m", "run=now", "state=running") in read
    assert len({labels for labels in read if labels[0] == "run_done"}) == MOST_RUNS
    assert not any(labels[0][4:9] == "score" and labels[0] != "run_score_low" for labels in read)


@given(names=st.lists(st.text(max_size=30), min_size=2, max_size=2, unique=True), length=st.sampled_from([0, 180, 300]))
def test_two_names_never_become_one_label(names: list[str], length: int):
    first, second = (series(metrics_text([replace(ENTRY, key="a" * length + name)])) for name in names)
    assert not set(first) & {labels for labels in second if labels[0] == "run_done"}


@pytest.mark.parametrize("key", ["sk-" + "a1B2" * 12])
def test_a_key_in_a_name_is_not_shown(key: str):
    assert key not in metrics_text([replace(ENTRY, model=key)])
