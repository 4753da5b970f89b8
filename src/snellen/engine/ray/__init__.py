"""Scale-out on Ray: workers on several GPUs and hosts hold the model, the starting process does the rest.

`cluster` starts or finds a Ray, `pool` shares work out and asks again what a lost worker held, `worker` is what runs
over there, `carrying` brings images there, `model` is the pool as a model of the engine. Ray is imported only where
a cluster is entered.
"""

from __future__ import annotations

from msgspec import structs

from snellen.models.base import Model, ModelOptions
from snellen.models.registry import open_model


def open_scattered(spec: str, options: ModelOptions, nproc: int | None, address: str | None) -> Model:
    """Open the model that `spec` names, in this process or in workers. Raise as `RayModel`."""
    if address is None and nproc in (None, 1):
        return open_model(spec, options)
    from snellen.engine.ray.model import RayModel  # a run in this process has no use for it

    return RayModel(spec, structs.replace(options), nproc, address)
