"""The page of raw exchanges: requests and replies of one run about one sample as JSON, images by digest, keys struck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snellen.viewer.cases.exchanges import judge_exchange, raw_trace
from snellen.viewer.site import MissingPageError, Site, ViewPage
from snellen.viewer.states import CaseState, ExchangeState


def view(site: Site, state: ExchangeState) -> Mapping[str, Any]:
    """Show the raw exchanges of one reply.

    Raises:
        MissingPageError: there is no such run, or it has no record of the sample.
    """
    entry = next((entry for entry in site.index.runs() if entry.key == state.run), None)
    if entry is None:
        raise MissingPageError(f"no run {state.run[:200]!r} lies below this folder", "Choose one under Runs.")
    opened = site.opened.open(entry.key, entry.path)
    record = opened.record(state.sample, state.repeat)
    if record is None:
        raise MissingPageError(
            f"run {state.run[:200]!r} has no record of sample {state.sample[:200]!r}, repeat {state.repeat}",
            "Choose a sample under Samples.",
        )
    sample, _ = opened.sample(state.sample)
    seal = opened.seal(sample, show_gold=site.settings.show_gold)
    return {
        "model": opened.model,
        "trace": raw_trace(opened, state.sample, state.repeat, seal, whole=True),
        "judge": judge_exchange(opened, record, seal),
        "case": site.links.to(CaseState(benchmark=entry.benchmark, sample=state.sample, repeat=state.repeat)),
    }


PAGE = ViewPage(state=ExchangeState, view=view, title="Raw exchange", listed=False)
