"""`snellen easi`: the spatial benchmarks one after the other with one model, as one thing that can be gone on with.

`keys` are the names, `places` where data lies, `board` how it stands, `phases` what is done in which order, `kept` the model
that stays loaded from benchmark to benchmark, `unread` and `judged` what a judge is asked about, `journal` the log file.
"""

from __future__ import annotations

from snellen.easi.run import EasiSettings, plan, prepare, work
from snellen.easi.status import BenchmarkRow, Board, EasiWatch

__all__ = ["BenchmarkRow", "Board", "EasiSettings", "EasiWatch", "plan", "prepare", "work"]
