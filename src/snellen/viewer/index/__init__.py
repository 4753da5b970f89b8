"""Index of the viewer: catalogue of runs and table of samples, beside the runs, deletable, made anew when stale."""

from snellen.viewer.index.entries import FailureCount, Origin, Refresh, RunEntry, RunState, SampleState, Skipped
from snellen.viewer.index.sample_page import (
    MOST_ROWS,
    PAGE_ROWS,
    SORTS,
    VERDICTS,
    CellVerdict,
    ImageRef,
    SampleCell,
    SamplePage,
    SampleQuery,
    SampleRow,
    Sort,
    SqlTable,
)
from snellen.viewer.index.view_index import ViewIndex, open_index

__all__ = [
    "MOST_ROWS",
    "PAGE_ROWS",
    "SORTS",
    "VERDICTS",
    "CellVerdict",
    "FailureCount",
    "ImageRef",
    "Origin",
    "Refresh",
    "RunEntry",
    "RunState",
    "SampleCell",
    "SamplePage",
    "SampleQuery",
    "SampleRow",
    "SampleState",
    "Skipped",
    "Sort",
    "SqlTable",
    "ViewIndex",
    "open_index",
]
