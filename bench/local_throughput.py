"""Throughput of `local:` beside plain `generate` of transformers: questions and tokens a second, in one run.

The questions have one JPEG each (320 x 240 to 960 x 720) and texts of 10 to 400 letters, in random order. The plain way
is what one writes by hand: Pillow opens the images of a batch, the processor prepares them, `generate` answers, the
texts are decoded; batches follow the order of the questions. `local:` gets the same questions one by one. Model, device,
precision, batch size and length of the answers are the same. Both are timed from the files to the texts and take turns;
which goes first alternates, and medians count. CPU milliseconds stand beside wall time, since wall time is that of the
machine and of whatever else it does. Ratios are plain / ours, so that more than 1 is faster than plain. Answers end at the end token or after --max-tokens.

--decoding static or compile measures `local:` with that setting too; its first turn includes compilation, is printed
apart and does not count. Then come images a second of feature extraction, and the agreement of the device: scores of
the first token and features, each beside float32 on the CPU, one prompt at a time. The exit status is 1 where they
differ by more than the tolerance.

Without --hidden the model is the embedded one. With it, a LLaVA and a ViT of that size are made with random weights,
which cost what trained ones cost. On a GPU the default is --hidden 2048 --layers 24.

Usage: python bench/local_throughput.py [--device auto] [--dtype auto] [--samples 192] [--batch-size 16]
    [--max-tokens 16] [--rounds 3] [--hidden N] [--layers N] [--decoding static compile]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image as pillow

from snellen.features.encoders import open_encoder
from snellen.features.extract import extract
from snellen.features.store import open_store
from snellen.models import embedded
from snellen.models.base import Model, ModelOptions
from snellen.models.local.checkpoint import pick_device
from snellen.models.registry import open_model
from snellen.sources import FileBlob
from snellen.types import Generation, Image, Prompt, Response, Text

TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}
"""Largest difference from float32 on the CPU, as a share of the largest value."""
DECODING = {"static": {"kv_cache": "static"}, "compile": {"compile": True}}
WORDS = (
    *("what", "which", "shape", "colour", "object", "left", "right", "above", "below", "near", "largest"),
    *("smallest", "how", "many", "animals", "are", "there"),
)
tf: Any = transformers


@dataclass(frozen=True)
class Turn:
    """One pass over all questions: wall and CPU seconds of the process, texts, and tokens of all answers."""

    seconds: float
    cpu: float
    texts: list[str]
    tokens: int


@dataclass(frozen=True)
class Question:
    """A question as files have it."""

    image: Path
    text: str


def write_questions(folder: Path, count: int) -> list[Question]:
    """Write JPEGs of several sizes, smooth with some noise, and pair them with texts of several lengths."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    questions = []
    for number in range(count):
        scale = int(rng.integers(1, 4))
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        image = pillow.fromarray(coarse).resize((320 * scale, 240 * scale), pillow.Resampling.BICUBIC)
        pixels = np.asarray(image, dtype=np.int16) + rng.integers(-8, 9, (240 * scale, 320 * scale, 1))
        path = folder / f"{number}.jpg"
        pillow.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        words = rng.choice(WORDS, int(rng.integers(2, 65)))
        questions.append(Question(path, " ".join(words) + "?"))
    return questions


def write_model(folder: Path, hidden: int, layers: int, dtype: str) -> Path:
    """Write a LLaVA with random weights and the processor of the embedded model; heads have 64 columns."""
    config = tf.LlavaConfig.from_pretrained(embedded.path())
    text, vision = config.text_config, config.vision_config
    for part, depth in ((text, layers), (vision, max(1, layers // 2))):
        part.hidden_size, part.num_hidden_layers, part.intermediate_size = hidden, depth, 4 * hidden
        part.num_attention_heads = max(1, hidden // 64)
    text.num_key_value_heads, text.head_dim = text.num_attention_heads, hidden // text.num_attention_heads
    text.initializer_range = 0.5 / hidden**0.5
    config.dtype = dtype
    torch.manual_seed(0)
    model = tf.LlavaForConditionalGeneration(config).to(getattr(torch, dtype))
    model.generation_config = tf.GenerationConfig.from_pretrained(embedded.path())
    model.save_pretrained(folder)
    tf.AutoProcessor.from_pretrained(embedded.path()).save_pretrained(folder)
    return folder


def write_tower(folder: Path, hidden: int, layers: int) -> Path:
    """Write a ViT with random weights: 224 x 224 pixels, patches of 16."""
    torch.manual_seed(0)
    heads = max(1, hidden // 64)
    config = tf.ViTConfig(
        hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers, num_attention_heads=heads
    )
    tf.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    tf.ViTImageProcessor(size={"height": 224, "width": 224}).save_pretrained(folder)
    return folder


class Plain:
    """transformers by hand: a processor, a model, and a loop over batches."""

    def __init__(self, processor: Any, model: Any) -> None:
        self.processor, self.model = processor, model.eval()

    @classmethod
    def opened(cls, folder: Path, device: str, dtype: str) -> Plain:
        """Open a checkpoint."""
        model = tf.AutoModelForImageTextToText.from_pretrained(folder, dtype=getattr(torch, dtype))
        return cls(tf.AutoProcessor.from_pretrained(folder), model.to(device))

    def inputs(self, questions: Sequence[Question]) -> Any:
        messages = [
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "image": pillow.open(question.image).convert("RGB")},
                        {"type": "text", "text": question.text},
                    ],
                }
            ]
            for question in questions
        ]
        made = self.processor.apply_chat_template(
            messages,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True, "padding_side": "left"},
        )
        return made.to(self.model.device, dtype=self.model.dtype)

    def answer(self, questions: Sequence[Question], batch_size: int, max_tokens: int) -> Turn:
        texts: list[str] = []
        tokens = 0
        started, cpu = time.perf_counter(), time.process_time()
        for start in range(0, len(questions), batch_size):
            inputs = self.inputs(questions[start : start + batch_size])
            with torch.inference_mode():
                output = self.model.generate(**inputs, max_new_tokens=max_tokens, do_sample=False)
            answers = output[:, inputs["input_ids"].shape[1] :]
            ends = answers == self.processor.tokenizer.eos_token_id
            tokens += int(((ends.cumsum(dim=1) - ends.long()) == 0).sum())
            texts += self.processor.batch_decode(answers, skip_special_tokens=True)
        return Turn(time.perf_counter() - started, time.process_time() - cpu, texts, tokens)

    def scores(self, questions: Sequence[Question], batch_size: int) -> torch.Tensor:
        """Return scores of the first token, float32 on the CPU."""
        rows = []
        for start in range(0, len(questions), batch_size):
            with torch.inference_mode():
                rows.append(
                    self.model(**self.inputs(questions[start : start + batch_size])).logits[:, -1].float().cpu()
                )
        return torch.cat(rows)


async def ask_local(model: Model, questions: Sequence[Question]) -> Turn:
    """Ask a loaded model as a run does: as many questions in flight as it names."""
    replies: dict[int, Response] = {}
    remaining = iter(enumerate(questions))

    async def worker() -> None:
        for number, question in remaining:
            image = Image(FileBlob(question.image))
            replies[number] = await model.answer(Prompt((image, Text(question.text))))

    started, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(model.in_flight):
            group.create_task(worker())
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    ordered = [replies[number] for number in range(len(questions))]
    tokens = sum(reply.usage.output_tokens or 0 for reply in ordered)
    return Turn(seconds, cpu, [reply.text for reply in ordered], tokens)


async def compare(folder: Path, questions: Sequence[Question], device: str, dtype: str, chosen: Any) -> None:
    """Measure all ways in turns and print them."""
    plain = Plain.opened(folder, device, dtype)
    models: dict[str, Model] = {}
    for kind in ("", *chosen.decoding):
        options = ModelOptions(
            device=device,
            dtype=dtype,
            batch_size=chosen.batch_size,
            generation=Generation(max_tokens=chosen.max_tokens, temperature=0.0),
            **DECODING.get(kind, {}),
        )
        models[f"local: {kind}".strip()] = model = open_model(f"local:{folder}", options)
        await model.preflight()
    parameters = sum(parameter.numel() for parameter in plain.model.parameters())
    print(
        f"{parameters / 1e6:.1f} million parameters, {dtype} on {device}, attention "
        f"{plain.model.config._attn_implementation}, {len(questions)} questions, batches of {chosen.batch_size}, "
        f"at most {chosen.max_tokens} tokens, {chosen.rounds} rounds"
    )

    async def turn(way: str) -> Turn:
        if way == "plain":
            return plain.answer(questions, chosen.batch_size, chosen.max_tokens)
        return await ask_local(models[way], questions)

    ways = ["plain", *models]
    turns: dict[str, list[Turn]] = {way: [] for way in ways}
    for way in ways:
        first = await turn(way)
        print(f"first turn of {way}, not counted: {first.seconds:.1f} s")
    for number in range(chosen.rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            turns[way].append(await turn(way))
    for model in models.values():
        await model.close()
    print(f"{'':14} questions/s  tokens/s  wall, plain/ours      CPU ms  CPU, plain/ours       equal answers")
    for way, done in turns.items():
        seconds = statistics.median(part.seconds for part in done)
        cpu = 1000 * statistics.median(part.cpu for part in done) / len(questions)
        pairs = list(zip(turns["plain"], done, strict=True))
        wall_ratios, cpu_ratios = [a.seconds / b.seconds for a, b in pairs], [a.cpu / b.cpu for a, b in pairs]
        equal = sum(a == b for a, b in zip(turns["plain"][0].texts, done[0].texts, strict=True))
        print(
            f"{way:14} {len(questions) / seconds:11.1f} {done[0].tokens / seconds:9.0f}  {spread(wall_ratios)}"
            f"  {cpu:6.1f}  {spread(cpu_ratios)}  {equal} of {len(questions)}",
            flush=True,
        )


def spread(ratios: Sequence[float]) -> str:
    """Return median and range of ratios."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def agreement(folder: Path, questions: Sequence[Question], device: str, dtype: str, batch_size: int) -> float:
    """Return the largest difference of a first token's score from float32 on the CPU, as a share of the largest score."""
    ours = Plain.opened(folder, device, dtype).scores(questions, batch_size)
    reference = Plain.opened(folder, "cpu", "float32").scores(questions, 1)
    return float((ours - reference).abs().max() / reference.abs().max())


def features(folder: Path, tower: str, questions: Sequence[Question], device: str, rounds: int) -> float:
    """Print images a second of `extract`; return the largest difference of a feature from that of the CPU."""
    (folder / "train.csv").write_text("".join([f"{item.image.name},0\n" for item in questions]))
    values, seconds = [], []
    for place in (device, "cpu"):
        encoder = open_encoder(tower, device=place, compute="float32")
        for number in range(rounds if place == device and not values else 1):
            started = time.perf_counter()
            store = folder / f"store-{len(values)}-{number}"
            extract(
                encoder, [folder / "train.csv"], questions[0].image.parent, store, batch_size=64 if not values else 1
            )
            if not values:
                seconds.append(time.perf_counter() - started)
        values.append(open_store(store, encoder.outputs[0]).values.astype(np.float32))
    print(f"extract, {Path(tower).name} in float32: {len(questions) / statistics.median(seconds):.1f} images/s")
    return float(np.abs(values[0] - values[1]).max() / np.abs(values[1]).max())


def machine(device: str) -> Iterator[str]:
    """Yield lines that name the machine and what else it does."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    processor = names[0] if info.exists() and names else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpu = torch.cuda.get_device_name() if device.startswith("cuda") else "no GPU used"
    yield f"{processor}, {cores} cores, {torch.get_num_threads()} torch threads; {gpu}"
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    yield f"torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}{load}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto", choices=["auto", *TOLERANCE])
    parser.add_argument("--samples", type=int, default=192)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hidden", type=int, help="width of a model with random weights, a multiple of 64")
    parser.add_argument("--layers", type=int, default=24, help="layers of its language model")
    parser.add_argument("--decoding", nargs="*", choices=list(DECODING), default=[])
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    hidden = chosen.hidden or (2048 if device.startswith("cuda") else None)
    usual = "bfloat16" if device.startswith("cuda") else "float32"
    dtype = usual if chosen.dtype == "auto" else chosen.dtype
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for line in machine(device):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        questions = write_questions(folder / "images", chosen.samples)
        model = embedded.path() if hidden is None else write_model(folder / "model", hidden, chosen.layers, dtype)
        tower = "embedded" if hidden is None else str(write_tower(folder / "tower", hidden, chosen.layers))
        asyncio.run(compare(model, questions, device, dtype, chosen))
        apart = {
            "scores of the first token": (agreement(model, questions[:16], device, dtype, 16), TOLERANCE[dtype]),
            "features": (features(folder, tower, questions, device, chosen.rounds), TOLERANCE["float32"]),
        }
    for label, (difference, tolerance) in apart.items():
        print(f"{label}: {difference:.1e} of the largest from float32 on the CPU one by one (tolerance {tolerance:g})")
    return int(any(difference > tolerance for difference, tolerance in apart.values()))


if __name__ == "__main__":
    sys.exit(main())
