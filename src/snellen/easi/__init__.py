"""`snellen easi`: run all EASI benchmarks with one model; resumable.

`names` has the benchmark names, `locate_data` their data, `status` the state of a call, `run` its phases, `unparsed` and `judge` the replies for a judge, `log_file` the log; `result` and `score` have the
scored results that `submit` and `reference` use, `external` the other harnesses.
"""

from __future__ import annotations

from snellen.easi.run import EasiSettings, plan, prepare, work
from snellen.easi.status import BenchmarkRow, Board, EasiWatch

__all__ = ["BenchmarkRow", "Board", "EasiSettings", "EasiWatch", "plan", "prepare", "work"]
