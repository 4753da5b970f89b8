"""Torch's number of threads: no more than a batch keeps busy.

The threads of a product wait for each other by spinning. For an encoder of a few hundred thousand weights the waiting
costs more than the help is worth, and the more cores there are the more it costs. What is computed stays the same: the
number says who adds, not what is added; a sum may be rounded otherwise in its last bit, as on a machine of other cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snellen.features.encoders.base import Encoder

A_THREAD = 2e9
"""Multiply-adds of a batch that keep one thread busy: some 40 ms of a core, against some microseconds a barrier."""


def threads_for(work: float, available: int) -> int:
    """Return the threads for a batch of `work` multiply-adds, at most `available` and at least 1."""
    return max(1, min(available, int(work // A_THREAD)))


@contextmanager
def torch_threads(encoder: Encoder, batch_size: int, threads: int | None = None) -> Iterator[int]:
    """Set torch's threads for encoding batches of this size, yield their number, and restore the setting.

    Args:
        threads: their number; None uses `threads_for`, and never more than torch's own setting.
    """
    import torch

    before = torch.get_num_threads()
    chosen = threads_for(encoder.work() * batch_size, before) if threads is None else threads
    torch.set_num_threads(chosen)
    try:
        yield chosen
    finally:
        torch.set_num_threads(before)
