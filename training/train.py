"""Train the embedded model from scratch. Fixed seeds and step counts: the schedule never looks at the clock.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 python training/train.py OUT    (and RANK=1 beside it)

training/run.sh starts both. Trained on drawings of training keys and on the digits' train split alone; about 40
minutes on 2 cores. training/evaluate.py measures the result and writes the model card.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import asking
import language
import network
import parallel
import pictures
import torch
import vision

SEED = 20
VISION_STEPS, VISION_BATCH = 4200, 48
LANGUAGE_STEPS = 9000
GUESSING_STEPS = 1240
TOKENS = 640
PORTRAITS, CROWDS, COUPLES, WALKS, DIGITS = 14000, 8000, 4000, 1500, 9000


def main(out: Path) -> None:
    """All stages; rank 0 writes the model folder. `--tower` and `--language` take up a stage that is already done."""
    parallel.start()
    rank, began = parallel.RANK, time.monotonic()

    def log(*what: object) -> None:
        if rank == 0:
            print(round(time.monotonic() - began), *what, flush=True)

    pools = {
        "portrait": pictures.portraits(rank, PORTRAITS),
        "crowd": pictures.crowds(rank, CROWDS),
        "couple": pictures.couples(rank, COUPLES),
        "walk": pictures.walks(rank, WALKS),
        "digit": pictures.digits(rank, DIGITS),
    }
    log("pools", {name: len(pool) for name, pool in pools.items()})
    tokens = network.tokenizer(asking.corpus(4000), TOKENS)
    processor = network.processor(tokens)
    model = network.network(tokens, SEED)
    tower = model.model.vision_tower
    log("tokens", len(tokens), "parameters", sum(p.numel() for p in model.parameters()))

    def save() -> None:
        if rank == 0:
            out.mkdir(parents=True, exist_ok=True)
            weights = {name: value.half() for name, value in model.state_dict().items()}
            model.save_pretrained(out, state_dict=weights)
            processor.save_pretrained(out)

    vision.filter_bank(tower)
    heads = vision.Heads(model.config.vision_config.hidden_size)
    tower_file = out.parent / "tower.pt"
    if "--tower" in sys.argv:
        tower.load_state_dict(torch.load(tower_file))
    else:
        vision.train(tower, heads, list(pools.values()), VISION_STEPS, VISION_BATCH, SEED + rank, log)
        if rank == 0:
            torch.save(tower.state_dict(), tower_file)
    tower.requires_grad_(False)
    features = {name: vision.cached(tower, pool) for name, pool in pools.items()}
    log("features cached")
    source = language.Source(pools, features, asking.Draw(SEED + 100 + rank))
    if "--language" in sys.argv:
        model.load_state_dict(type(model).from_pretrained(out, dtype=torch.float32).state_dict())
    else:
        language.train(model, tokens, source, LANGUAGE_STEPS, log, save)
        save()
    grey = vision.features(tower, torch.full((1, 3, pictures.SIDE, pictures.SIDE), (128 / 255 - 0.5) / 0.25))[
        0
    ].detach()
    source.draw.seed(SEED + 200 + rank)  # so that taking it up here gives what a whole training gives
    language.learn_to_guess(model, tokens, source, grey, GUESSING_STEPS, log)
    save()
    log("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
