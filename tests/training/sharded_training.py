"""One process of small trainings whose weights lie on two: python sharded_training.py RANK FOLDER CHECKPOINT

Each kind of sharding is trained without and with the callback. A training scales all weights, evaluates them, takes two
steps, and writes its losses.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from transformers import AutoModelForImageTextToText, AutoProcessor

from snellen.training import EvaluationCallback
from snellen.types import Generation

SCALE = 0.9
KINDS = ("fsdp1", "fsdp1-flat", "fsdp2")


def sharded(kind: str, model: Any) -> Any:
    layers = model.model.language_model.layers
    if kind.startswith("fsdp1"):
        policy = ModuleWrapPolicy({type(layers[0])})
        device = torch.device("cpu")
        return FullyShardedDataParallel(
            model, auto_wrap_policy=policy, device_id=device, use_orig_params=kind == "fsdp1"
        )
    mesh = init_device_mesh("cpu", (2,))
    for part in (*layers, model):
        fully_shard(part, mesh=mesh)
    return model


def train(kind: str, rank: int, folder: Path, checkpoint: str, *, evaluated: bool) -> None:
    model = sharded(kind, AutoModelForImageTextToText.from_pretrained(checkpoint))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(SCALE)
    model.train()
    torch.manual_seed(rank)
    if evaluated:
        evaluate(model, rank, folder, AutoProcessor.from_pretrained(checkpoint))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = [float(torch.rand(()))]  # the random state is what it was
    for _ in range(2):
        tokens = torch.randint(7, 200, (2, 12))
        loss = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    (folder / f"losses-{rank}.json").write_text(json.dumps([losses, model.training]))


def evaluate(model: Any, rank: int, folder: Path, processor: Any) -> None:
    """Evaluate as the Trainer lets the callback, at its first step."""
    logged: list[dict[str, float]] = []
    callback = EvaluationCallback(
        "chart/digits",
        every_steps=1,
        limit=8,
        out=folder / "evals",
        generation=Generation(max_tokens=4),
        trainer=SimpleNamespace(log=logged.append),
    )
    arguments = SimpleNamespace(output_dir=str(folder), device="cpu", load_best_model_at_end=False)
    state = SimpleNamespace(global_step=0, is_world_process_zero=rank == 0)
    control = SimpleNamespace(should_log=False)
    callback.on_train_begin(arguments, state, control, model=model, processing_class=processor)
    state.global_step = 1
    callback.on_step_end(arguments, state, control, model=model, processing_class=processor)
    (folder / f"logged-{rank}.json").write_text(json.dumps(logged))


def main(rank: int, folder: Path, checkpoint: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    for kind in KINDS:
        for evaluated in (False, True):
            place = folder / kind / ("watched" if evaluated else "plain")
            place.mkdir(parents=True, exist_ok=True)
            train(kind, rank, place, checkpoint, evaluated=evaluated)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
