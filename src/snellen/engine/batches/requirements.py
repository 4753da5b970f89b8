"""What a run by batches needs, checked before anything is sent."""

from __future__ import annotations

from snellen.benchmarks.base import Benchmark
from snellen.engine.batches.log import open_batches, read_log
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import UsageError
from snellen.models.base import Model


def require_batches(spec: RunSpec, benchmark: Benchmark, model: Model, folder: RunFolder) -> None:
    """Refuse `--batch` where it cannot be, and a run without it whose batches are still open.

    Raises:
        UsageError: an adaptive benchmark, workers, --retry-empty, a model without a batch service; or open batches.
    """
    if not spec.batch:
        if read_log(folder.path).service == "file" and (written := open_batches(folder.path)) > 0:
            raise UsageError(
                f"{written} file{'s' * (written != 1)} of requests of {folder.path} may still be answered by another program",
                f"Read the results: snellen batch read {folder.path} RESULTS.jsonl --ended     "
                f"To give them up: snellen batch drop {folder.path} LABEL",
            )
        if (count := open_batches(folder.path)) > 0:
            raise UsageError(
                f"{count} batch{'es' * (count != 1)} of {folder.path} may still be answered; asking the same samples now would "
                "pay for them twice",
                f"Add --batch to take them up, or cancel them first: snellen batch cancel {folder.path}",
            )
        return
    if benchmark.grow is not None:
        raise UsageError(
            f"{benchmark.name} chooses each question by the answers before it, and a batch is answered as a whole.",
            "Omit --batch.",
        )
    if spec.ray is not None or spec.nproc not in (None, 1):
        raise UsageError(
            "--nproc and --ray start workers of this machine or cluster, and a batch is answered by a service.",
            "Omit them, or omit --batch.",
        )
    if spec.retry_empty:
        raise UsageError(
            "--retry-empty asks at once again for a reply that says nothing, and a batch is answered as a whole.",
            "Omit --retry-empty, or omit --batch.",
        )
    model.batches()
