"""External harnesses, lmms-eval and VLMEvalKit: run them in their own environments and import their results.

`run_backend` is the way in. A benchmark that a harness asked becomes a run folder of ours: its replies are scored by our
profiles, and its own figure stands beside ours.
"""

from snellen.easi.external.run import BACKENDS, run_backend
from snellen.easi.external.settings import HarnessOutcome, HarnessSettings

__all__ = ["BACKENDS", "HarnessOutcome", "HarnessSettings", "run_backend"]
