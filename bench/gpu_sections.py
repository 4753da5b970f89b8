"""What bench/gpu.py measures. Each section, a function of this name, makes its models and data and returns its cases."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import retrieval as retrieval_bench
import torch
import transformers
from local_throughput import Plain, Turn, ask_local, write_questions
from PIL import Image as pillow
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from snellen.features.attacks.classifier import build_classifier
from snellen.features.attacks.pgd import pgd, predictions
from snellen.features.encoders import open_encoder
from snellen.features.extract import extract
from snellen.features.knn import knn
from snellen.features.probes import probe
from snellen.features.probes.head import ProbeHead, scaling
from snellen.features.probes.network_probe import NetworkTraining, network_probe
from snellen.features.probes.networks import rate_at
from snellen.features.store import open_store
from snellen.models.base import ModelOptions
from snellen.models.local.checkpoint import prepared
from snellen.models.local.model import LocalModel, SharedWeights
from snellen.types import Generation

tf: Any = transformers
tf.utils.logging.disable_progress_bar()
tf.utils.logging.set_verbosity_error()
functional: Any = torch.nn.functional
EPS, STEPS = 1 / 255, 10
TEMPERATURE, NEIGHBOURS = 0.07, 20
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}{% if c.type == 'image' %}<|vision_start|>"
    "<|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

Row = dict[str, Any]
Case = Callable[[float], list[Row]]
"""Measures until a time of `time.monotonic()` at which no further round begins, and returns rows of the table."""


@dataclass(frozen=True)
class Place:
    """Where a section measures: the sizes of bench/gpu.toml, the device as torch names it, and a folder for files."""

    size: Mapping[str, Any]
    device: str
    folder: Path

    @property
    def on_card(self) -> bool:
        return self.device.startswith("cuda")

    def random_model(self, kind: Any, config: Any) -> Any:
        """Make a model with random weights on the device itself, which takes a card seconds."""
        torch.manual_seed(0)
        with torch.device(self.device):
            return kind.from_config(config, dtype=self.size["dtype"]).eval()

    def in_turns(
        self,
        ways: Mapping[str, Callable[[], Any]],
        counts: Mapping[str, float],
        until: float,
        note: Callable[[Row, Any, Any], None] = lambda row, returned, by_peer: None,
    ) -> list[Row]:
        """Time the ways in turns, the last of which is the peer, and return their rows.

        Args:
            counts: what a turn gets done, as in questions.
            note: adds to a row what follows from what its way and the peer returned.
        """
        spent: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        peak, returned = dict.fromkeys(ways, 0.0), dict[str, Any]()
        for number in range(-1, self.size["rounds"]):
            if number > 0 and time.monotonic() > until:
                break
            for way in ways if number % 2 else reversed(list(ways)):
                if self.on_card:
                    torch.cuda.reset_peak_memory_stats(self.device)
                    torch.cuda.synchronize(self.device)
                started = time.perf_counter(), time.process_time()
                returned[way] = ways[way]()
                if self.on_card:
                    torch.cuda.synchronize(self.device)
                    peak[way] = max(peak[way], torch.cuda.max_memory_allocated(self.device) / 2**30)
                if number >= 0:
                    spent[way].append((time.perf_counter() - started[0], time.process_time() - started[1]))
        rows: list[Row] = []
        for way, turns in spent.items():
            wall, cpu = zip(*turns, strict=True)
            ratios = [peer / this for (peer, _), this in zip(spent[list(ways)[-1]], wall, strict=True)]
            row = {"way": way, "seconds": statistics.median(wall), "cpu_seconds": statistics.median(cpu)}
            row |= {"rounds": len(turns), "peer_over_this": [statistics.median(ratios), min(ratios), max(ratios)]}
            row |= {"peak_gib": peak[way]} if self.on_card else {}
            row["per_second"] = {what: count / row["seconds"] for what, count in counts.items()}
            note(row, returned[way], returned[list(ways)[-1]])
            rows.append(row)
        return rows

    def beside_torch(
        self,
        ours: Callable[[], float],
        theirs: Callable[[], float],
        what: str,
        counts: Mapping[str, float],
        until: float,
    ) -> list[Row]:
        """Time two ways that return one figure, which stands in their rows."""

        def note(row: Row, value: float, by_peer: float) -> None:
            row["agreement"] = {what: round(value, 7)}

        return self.in_turns({"snellen": ours, "torch by hand": theirs}, counts, until, note)

    def floor(self, what: str, go: Callable[[], Any], counts: Mapping[str, float], until: float) -> Row:
        """Time what no way can do without."""
        return floor(what, self.in_turns({what: go}, counts, until)[0]["seconds"], counts)

    def bytes_per_second(self) -> float:
        """Return what a copy within the device's memory reads and writes, the best of five."""
        data = torch.ones(2**29 if self.on_card else 2**24, dtype=torch.uint8, device=self.device)
        seconds = []
        for _ in range(6):
            started = time.perf_counter()
            float(data.clone()[-1])  # waits for the device
            seconds.append(time.perf_counter() - started)
        return 2 * data.nbytes / min(seconds[1:])


def floor(what: str, seconds: float, counts: Mapping[str, float]) -> Row:
    """Return a floor's row."""
    per_second = {name: count / seconds for name, count in counts.items()}
    return {"way": f"floor: {what}", "seconds": seconds, "per_second": per_second}


def make_processor(vocabulary: int) -> Any:
    """Make Qwen3-VL's processor with a token a byte. Every other token reads as its number, so that texts tell tokens apart."""
    known = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    known += [f"Ġ{number}" for number in range(len(known), vocabulary)]
    core = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(known)}, merges=[]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_special_tokens(SPECIAL)
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    images = tf.Qwen2VLImageProcessor(patch_size=16, min_pixels=256 * 256, max_pixels=4096 * 4096)
    videos = tf.Qwen3VLVideoProcessor()
    return tf.Qwen3VLProcessor(
        image_processor=images, tokenizer=tokenizer, video_processor=videos, chat_template=TEMPLATE
    )


def local(place: Place) -> dict[str, Case]:
    """`local:` and a plain loop over batches, with one model in memory."""
    size = place.size
    tokens = {"image_token_id": 5, "vision_start_token_id": 3, "vision_end_token_id": 4}  # places in SPECIAL
    config = tf.Qwen3VLConfig(text_config=size["text"], vision_config=size["vision"], **tokens)
    model = place.random_model(tf.AutoModelForImageTextToText, config)
    model.generation_config = tf.GenerationConfig(eos_token_id=2, pad_token_id=0)
    with torch.no_grad():  # Plain random weights are undecided between tokens far more often than a trained model.
        model.lm_head.weight.mul_(torch.randn(len(model.lm_head.weight), 1, device=place.device).mul(2).exp())
    processor = make_processor(size["text"]["vocab_size"])
    weights, plain = SharedWeights(prepared(processor, model)), Plain(processor, model)
    questions = write_questions(place.folder / "images", max(size["batches"].values()))
    layers = sum(weight.nbytes for name, weight in model.named_parameters() if "language_model.layers" in name)
    token_s = layers / place.bytes_per_second()
    alone: list[str] = []

    def case(batch_size: int, until: float) -> list[Row]:
        asked = questions[: size["batches"][str(batch_size)]]
        generation = Generation(max_tokens=size["max_tokens"], temperature=0.0)
        ours = LocalModel("", ModelOptions(batch_size=batch_size, generation=generation), "local:")
        ours.share(weights)

        def note(row: Row, turn: Turn, by_peer: Turn) -> None:
            row["per_second"]["tokens"] = turn.tokens / row["seconds"]
            if batch_size == 1:
                alone[:] = by_peer.texts
            row["agreement"] = {"as the peer": same(turn.texts, by_peer.texts)}
            if alone:
                row["agreement"]["as one by one"] = same(turn.texts, alone)

        counts = {"questions": len(asked)}
        with asyncio.Runner() as runner:
            runner.run(ours.preflight())
            ways = {
                "local:": lambda: runner.run(ask_local(ours, asked)),
                "plain transformers": lambda: plain.answer(asked, batch_size, size["max_tokens"]),
            }
            rows = place.in_turns(ways, counts, until, note)
            runner.run(ours.close())
        steps = size["max_tokens"] * -(-len(asked) // batch_size)
        return [*rows, floor("weights read once a token", steps * token_s, counts)]

    return {f"batches of {batch_size}": partial(case, int(batch_size)) for batch_size in size["batches"]}


def same(texts: Sequence[str], others: Sequence[str]) -> str:
    """Return how many of the texts are equal, as in 3 of 4; a longer list's rest has no partner."""
    return f"{sum(one == other for one, other in zip(texts, others, strict=False))} of {min(len(texts), len(others))}"


def random_tower(place: Place, name: str) -> Path:
    """Write an encoder with random weights and the image processor of its family."""
    config = tf.AutoConfig.for_model(**place.size["towers"][name])
    sides = {"height": config.image_size, "width": config.image_size}
    kind = tf.SiglipImageProcessor if config.model_type.startswith("siglip") else tf.DINOv3ViTImageProcessor
    place.random_model(tf.AutoModel, config).save_pretrained(place.folder / name)
    kind(size=sides).save_pretrained(place.folder / name)
    return place.folder / name


def features(place: Place) -> dict[str, Case]:
    """`features extract` of JPEGs, and plain loops of transformers; one of them reads in threads."""
    drawn = [question.image for question in write_questions(place.folder / "images", min(96, place.size["images"]))]
    files = [place.folder / "images" / f"{number}.jpg" for number in range(place.size["images"])]
    for number, file in enumerate(files[len(drawn) :]):
        file.hardlink_to(drawn[number % len(drawn)])
    split = place.folder / "train.csv"
    split.write_text("".join(f"{file.name},{number % 9}\n" for number, file in enumerate(files)))
    batches = [files[start : start + 64] for start in range(0, len(files), 64)]
    counts = {"images": len(files)}

    def case(name: str, until: float) -> list[Row]:
        tower = random_tower(place, name)
        encoder = open_encoder(str(tower), ["patch_mean"], device=place.device, compute=place.size["dtype"])
        model = tf.AutoModel.from_pretrained(tower, dtype=place.size["dtype"]).to(place.device).eval()
        processor = tf.AutoImageProcessor.from_pretrained(tower)
        patches = (model.config.image_size // model.config.patch_size) ** 2

        def read(batch: Sequence[Path]) -> torch.Tensor:
            pictures = [pillow.open(file).convert("RGB") for file in batch]
            pixels: torch.Tensor = processor(images=pictures, return_tensors="pt")["pixel_values"]
            return pixels

        def encode(pixels: torch.Tensor) -> np.ndarray:
            with torch.inference_mode():
                tokens = model(pixels.to(place.device, model.dtype)).last_hidden_state
                means: np.ndarray = tokens[:, -patches:].mean(1).float().cpu().numpy()
                return means

        def threads() -> np.ndarray:
            with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
                return np.concatenate([encode(pixels) for pixels in pool.map(read, batches)])

        def ours() -> np.ndarray:
            with tempfile.TemporaryDirectory(dir=place.folder) as folder:
                store = Path(folder) / "store"
                extract(encoder, [split], place.folder / "images", store)
                return np.array(open_store(store, "patch_mean").values)

        ways = {
            "features extract": ours,
            "plain, reading in threads": threads,
            "plain transformers": lambda: np.concatenate([encode(read(batch)) for batch in batches]),
        }

        def note(row: Row, ours: np.ndarray, theirs: np.ndarray) -> None:
            row["agreement"] = {"apart": apart(ours, theirs)}

        rows = place.in_turns(ways, counts, until, note)
        ready = read(batches[0])
        alone = {"images": len(ready) * len(batches)}
        return [*rows, place.floor("the encoder alone", lambda: [encode(ready) for _ in batches], alone, until)]

    return {name: partial(case, name) for name in place.size["towers"]}


def apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the length of the difference as a share of the peer's length, rounded to two digits."""
    return float(f"{np.linalg.norm(ours - theirs) / np.linalg.norm(theirs):.1e}")


def labelled_rows(place: Place) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return features and labels of bench/retrieval.py, and the numbers of rows to train on and to test."""
    rows = place.size["rows"]
    retrieval_bench.write(place.folder, rows)
    order = np.random.default_rng(1).permutation(rows)
    return np.load(place.folder / "x.npy"), np.load(place.folder / "y.npy"), order[rows // 5 :], order[: rows // 5]


def search(place: Place) -> dict[str, Case]:
    """`retrieval` and `knn`, and the same with torch on the device."""
    x, y, *parts = labelled_rows(place)
    device = place.device
    labels, train, test = (torch.from_numpy(rows).to(device) for rows in (y, *parts))

    def unit() -> torch.Tensor:
        rows: torch.Tensor = functional.normalize(torch.from_numpy(x).to(device), dim=1)
        return rows

    def mean_precision() -> float:
        rows, total = unit(), 0.0
        for start in range(0, len(rows), 1024):
            scores = rows[start : start + 1024] @ rows.T
            own = torch.arange(len(scores), device=device)
            scores[own, own + start] = -torch.inf
            order = scores.argsort(dim=1, descending=True)[:, :-1]
            hits = (labels[order] == labels[start : start + 1024, None]).double()
            ranks = torch.arange(1, hits.shape[1] + 1, device=device)
            total += float(((hits.cumsum(1) / ranks * hits).sum(1) / hits.sum(1)).sum())
        return total / len(rows)

    def vote() -> float:
        rows = unit()
        scores, places = (rows[test] @ rows[train].T).topk(NEIGHBOURS, dim=1)
        votes = torch.zeros(len(test), int(y.max()) + 1, device=device)
        votes.scatter_add_(1, labels[train][places], (scores / TEMPERATURE).exp())
        return float((votes.argmax(1) == labels[test]).double().mean())

    def nearest() -> float:
        settings: Any = {"train": parts[0], "queries": parts[1], "ks": [NEIGHBOURS], "temperatures": [TEMPERATURE]}
        return float(knn(x, y, **settings).values[f"knn@{NEIGHBOURS}"].mean())

    def products(queries: torch.Tensor, gallery: torch.Tensor) -> None:
        for part in queries.split(1024):
            part @ gallery.T

    def retrieval_case(until: float) -> list[Row]:
        counts, rows = {"queries": len(x)}, unit()
        found = place.beside_torch(retrieval_bench.ours(x, y), mean_precision, "mAP", counts, until)
        return [*found, place.floor("the products alone", partial(products, rows, rows), counts, until)]

    def knn_case(until: float) -> list[Row]:
        counts, rows = {"queries": len(test)}, unit()
        found = place.beside_torch(nearest, vote, "accuracy", counts, until)
        return [*found, place.floor("the products alone", partial(products, rows[test], rows[train]), counts, until)]

    return {"retrieval": retrieval_case, "k-NN": knn_case}


def probes(place: Place) -> dict[str, Case]:
    """`probe` and `network_probe`, and the same losses, penalties and steps with torch's L-BFGS and AdamW."""
    x, y, train, test = labelled_rows(place)
    device, steps, width, classes = place.device, place.size["steps"], x.shape[1], int(y.max()) + 1
    training = NetworkTraining(rates=[1e-3], decays=[0.01], steps=steps, device=device)
    named: Any = {"train_rows": train, "test_rows": test}

    def on_device() -> list[torch.Tensor]:
        return [torch.from_numpy(part[rows]).to(device) for rows in (train, test) for part in (x, y)]

    def lbfgs() -> float:
        rows, targets, tested, truth = on_device()
        weights = torch.zeros(width, classes, device=device, requires_grad=True)
        bias = torch.zeros(classes, device=device, requires_grad=True)
        optimiser = torch.optim.LBFGS([weights, bias], max_iter=300, tolerance_grad=1e-3, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimiser.zero_grad()
            value: torch.Tensor = functional.cross_entropy(rows @ weights + bias, targets, reduction="sum")
            value = value + weights.square().sum() / 2
            value.backward()
            return value

        optimiser.step(loss)
        return float(((tested @ weights + bias).argmax(1) == truth).double().mean())

    def adamw() -> float:
        rows, targets, tested, truth = on_device()
        spread, mean = torch.std_mean(rows, dim=0, correction=0)
        torch.manual_seed(0)
        first, last = torch.nn.Linear(width, training.hidden), torch.nn.Linear(training.hidden, classes)
        for layer, variance in ((first, 2 / width), (last, 1 / training.hidden)):
            torch.nn.init.normal_(layer.weight, std=variance**0.5)
            torch.nn.init.zeros_(layer.bias)
        network = torch.nn.Sequential(first, torch.nn.GELU(), last).to(device)
        optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, partial(rate_at, steps=steps))
        for _ in range(steps):
            picked = torch.randint(len(rows), (training.batch,), device=device)
            optimiser.zero_grad()
            functional.cross_entropy(network((rows[picked] - mean) / spread), targets[picked]).backward()
            optimiser.step()
            schedule.step()
        with torch.inference_mode():
            return float((network((tested - mean) / spread).argmax(1) == truth).double().mean())

    def logistic() -> float:
        return float(probe(x, y, strengths=[1.0], **named).correct.mean())

    def mlp() -> float:
        return float(network_probe(x, y, kind="mlp", training=training, **named).correct.mean())

    return {
        "logistic probe": lambda until: place.beside_torch(logistic, lbfgs, "accuracy", {"fits": 1}, until),
        "MLP probe": lambda until: place.beside_torch(mlp, adamw, "accuracy", {"steps": steps}, until),
    }


def attack(place: Place) -> dict[str, Case]:
    """PGD without random starts on an encoder with a linear head, and the loop that one writes by hand."""
    name = list(place.size["towers"])[-1]
    tower = str(random_tower(place, name))
    encoder = open_encoder(tower, ["patch_mean"], device=place.device, compute=place.size["dtype"])
    torch.manual_seed(0)
    images = torch.rand(place.size["attacked"], 3, *encoder.transform.size)
    with torch.inference_mode():
        parts = [encoder.forward_pixels(part)["patch_mean"].cpu().numpy() for part in images.split(32)]
    rows = np.concatenate(parts)
    weights = np.random.default_rng(0).standard_normal((rows.shape[1], 10))
    model = build_classifier(encoder, ProbeHead(weights, np.zeros(10), scaling("standardise", rows), np.arange(10)))
    labels = predictions(model, images)
    settings: Any = {"eps": EPS, "steps": STEPS, "alpha": 2.5 * EPS / STEPS, "starts": None, "batch_size": 64}

    def by_hand() -> torch.Tensor:
        done = []
        for part, wanted in zip(images.split(64), torch.from_numpy(labels).split(64), strict=True):
            points = clean = part.to(place.device)
            for _ in range(STEPS):
                points = points.detach().requires_grad_()
                loss = functional.cross_entropy(model(points), wanted.to(place.device), reduction="sum")
                (slope,) = torch.autograd.grad(loss, points)
                points = points.detach() + settings["alpha"] * slope.sign()
                points = points.clamp(clean - EPS, clean + EPS).clamp(0, 1)
            done.append(points.cpu())
        return torch.cat(done)

    def case(until: float) -> list[Row]:
        ways = {"snellen": lambda: pgd(model, images, labels, **settings).images, "torch by hand": by_hand}

        def note(row: Row, ours: torch.Tensor, theirs: torch.Tensor) -> None:
            row["agreement"] = {"apart": apart((ours - images).numpy(), (theirs - images).numpy())}

        return place.in_turns(ways, {"images": len(images)}, until, note)

    return {f"PGD, {STEPS} steps, {name}": case}
