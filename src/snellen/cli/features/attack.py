"""snellen features attack"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.features.shared import BatchSize, Device, Images, Precision, TorchThreads, group, show_result
from snellen.cli.option_parsing import REQUIRED, option, typed
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.types import Metric

OF_PGD = ("eps", "alpha", "norm", "random_start", "restarts", "seed", "starts", "target")
OF_SETS = ("general", "general_images", "general_head")
UNUSED = {
    "--corrupt": ("method", "steps", *OF_PGD, *OF_SETS),
    "--method fgbmk-legacy": (*OF_PGD, *OF_SETS),
    "--method autoattack": ("steps", "alpha", "random_start", "restarts", "starts", "target", *OF_SETS),
    "--method fgsm": ("steps", "alpha", "norm", "random_start", "restarts", "seed", "starts"),
}
"""Options without effect by method; naming one is an error, so that none is ignored silently."""


@dataclass(frozen=True)
class AttackedOptions:
    """Encoder, head and images of an attack."""

    encoder: str = option(
        "Encoder whose features the head was trained on.",
        REQUIRED,
        value="hf:NAME|FOLDER|embedded|timm:NAME|open_clip:NAME/WEIGHTS",
    )
    head: Path = option(
        "Head written by `snellen features probe --save`: STORE/probe.npz.", REQUIRED, value="STORE|FILE"
    )
    split: str = option("CSV of path,label: the images to attack.", REQUIRED, value="[NAME=]FILE")
    images: Images = REQUIRED
    output: str | None = option("Output of the encoder.", value="NAME", said="the one the head was trained on")
    limit: int | None = option("Attack only N images, spread over the split.", least=1)


@dataclass(frozen=True)
class AttackOptions:
    """Method and strength of an attack."""

    eps: str = option(
        "Strengths, separated by commas, for pixel values from 0 to 1.",
        "0.25/255,0.5/255,1/255,2/255,4/255,8/255",
        value="LIST",
    )
    steps: int = option("Number of steps.", 10, least=1)
    alpha: str | None = option("Step size.", value="NUMBER", said="2.5 * eps / steps")
    norm: Literal["linf", "l2"] = option("Norm that eps bounds.", "linf")
    method: Literal["pgd", "fgsm", "autoattack", "fgbmk-legacy"] = option(
        "fgsm: one step of eps. autoattack: its authors' ensemble (extra autoattack). fgbmk-legacy: the parameters of FG-BMK's demo code, 10 or 20 --steps.",
        "pgd",
    )
    random_start: bool = option(
        "Start at a random point of the ball.", True, names=("--random-start/--no-random-start",)
    )
    restarts: int = option("Number of random starts; the worst result is kept.", 1, least=1)
    seed: int = option("Seed of the random starts.", 0)
    starts: Path | None = option(
        "Start at these images instead: .npz with ids and images, [n, 3, H, W] from 0 to 1 at the encoder's size.",
        value="FILE",
    )
    target: str | None = option("Attack towards this class id.", value="CLASS|least-likely")
    corrupt: list[str] | None = option(
        "Instead of an attack: blur:5, salt-pepper:10, grey, jitter:0.4, or A+B; may be repeated.", value="OPERATION"
    )


@dataclass(frozen=True)
class GeneralSetOptions:
    """A general set, attacked in the same way."""

    PANEL: ClassVar[str] = "A general set"

    general: str | None = option("CSV of a general set, attacked in the same way.", value="[NAME=]FILE")
    general_images: Path | None = option("Folder, zip or tar of its images.", said="--images")
    general_head: Path | None = option("Head for its classes.", value="STORE|FILE")


@dataclass(frozen=True)
class ComputeOptions:
    """Batch size, precision and device of the encoder."""

    batch_size: BatchSize = 64
    compute: Precision = "float32"
    device: Device = "auto"
    threads: TorchThreads = None


@group.command()
def attack(
    context: typer.Context,
    subject: AttackedOptions,
    options: AttackOptions,
    second: GeneralSetOptions,
    compute: ComputeOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Measure the accuracy of encoder and head on adversarial images, within eps of the originals.

    PGD in pixel space, at the encoder's own input size. With --corrupt: on blurred, noisy, grey or jittered images.
    """
    from msgspec import to_builtins

    from snellen.features.attacks import classifier
    from snellen.features.attacks.pgd import read_starts
    from snellen.features.encoders import open_encoder
    from snellen.features.extract.loop import torch_threads
    from snellen.features.probes.head import load_head
    from snellen.features.published import figures_of, name_dataset, split_folder

    _require_used(context, "--corrupt" if options.corrupt else f"--method {options.method}")
    if second.general is None and (second.general_images is not None or second.general_head is not None):
        raise UsageError("--general-images and --general-head require --general.", "Add --general FILE.")
    target = _target(options.target)
    if options.starts is not None and (options.restarts > 1 or second.general is not None):
        raise UsageError(
            "--starts takes no --restarts (save several starts of each image instead) and no --general.", "Omit these."
        )
    if second.general is not None and isinstance(target, int):
        raise UsageError(
            f"--target {target} is a class of --split; --general has other classes.",
            "Use --target least-likely for both, or attack one of them alone.",
        )
    head = load_head(subject.head)
    names = classifier.head_outputs(head, subject.output)
    encoder = open_encoder(subject.encoder, names, device=compute.device, compute=compute.compute)
    outputs = names or encoder.outputs[:1]
    logits = classifier.build_classifier(encoder, head, outputs)
    mismatch = classifier.require_same_encoder(head, encoder, _store_of(subject.head))
    notes = [mismatch] if mismatch else []
    general_head, general_mismatch = head, None
    if second.general_head is not None:
        general_head = load_head(second.general_head)
        general_mismatch = classifier.require_same_encoder(general_head, encoder, _store_of(second.general_head))
    settings: dict[str, Any] = {
        "encoder": subject.encoder,
        "output": "+".join(outputs),
        "head": str(subject.head),
        "features": head.settings.get("store"),
        "identity": (head.settings.get("identity") or None) if as_json else None,
        "split": subject.split,
        "limit": subject.limit,
    }
    metrics: list[Metric] = []
    inputs = (subject.split, subject.images, encoder.transform, head)
    size: dict[str, Any] = {"limit": subject.limit, "batch_size": compute.batch_size}
    with torch_threads(encoder, compute.batch_size, compute.threads):
        if options.corrupt:
            corrupted, total = classifier.measure_corruptions(logits, *inputs, options.corrupt, **size)
            metrics = classifier.with_coverage(corrupted.metrics(), total)
            settings["corrupt"] = list(corrupted.specs)
            notes += _limit_note(len(corrupted.clean), total)
        elif options.method == "fgbmk-legacy":
            metrics, total = classifier.attack_as_fgbmk(logits, *inputs, steps=options.steps, **size)
            settings |= {
                "attack": "fgbmk-legacy",
                "steps": options.steps,
                "alpha": 1 / 255,
                "eps": 0.2,
                "space": "normalised",
            }
            metrics = classifier.with_coverage(metrics, total)
            notes.append("fgbmk-legacy is for comparison with scores of FG-BMK's demo code: its eps never binds.")
            notes += _limit_note(metrics[0].n, total)
        else:
            strength = {**_strength(options, target), **size}
            if options.starts is not None:
                strength["start_images"] = read_starts(options.starts)
                settings["starts"] = str(options.starts)
            attacked, total = classifier.attack_split(logits, *inputs, **strength)
            settings |= to_builtins(attacked.settings)
            metrics = classifier.with_coverage(attacked.metrics(), total)
            notes += [*attacked.notes(), *_limit_note(len(attacked.clean), total)]
            if second.general is not None:
                general_logits = classifier.build_classifier(encoder, general_head, outputs)
                images = second.general_images or subject.images
                general, general_total = classifier.attack_split(
                    general_logits, second.general, images, encoder.transform, general_head, **strength
                )
                metrics += classifier.compare_with_general(attacked, general, general_total)
                settings["general"] = second.general
                remarks = [*general.notes(), *_limit_note(len(general.clean), general_total)]
                remarks += [general_mismatch] if general_mismatch else []
                notes += [f"General set: {remark}" for remark in remarks]
    dataset = name_dataset([split_folder(str(subject.split)), _store_of(subject.head).absolute().name])
    published = ([], []) if options.corrupt else figures_of(dataset, "attack", subject.encoder)
    show_result(subject.head, "attack", settings, metrics, notes, as_json, published)


def _store_of(head: Path) -> Path:
    """Return the store of a head's file, or of the folder that holds it."""
    return head if head.is_dir() else head.parent


def _strength(options: AttackOptions, target: Any) -> dict[str, Any]:
    """Return the settings of a PGD or FGSM attack as keyword arguments."""
    from snellen.features.attacks.pgd import RandomStarts
    from snellen.features.attacks.robust_accuracy import parse_strength

    if options.method == "autoattack":
        from snellen.features.attacks.robust_accuracy import autoattack_curve

        return {
            "attack": autoattack_curve,
            "eps": comma_list(options.eps),
            "norm": options.norm,
            "seed": options.seed,
        }
    fgsm = options.method == "fgsm"
    if options.restarts > 1 and not options.random_start:
        raise UsageError(
            f"{options.restarts} restarts without a random start are all the same.", "Ask for one of the two."
        )
    return {
        "eps": comma_list(options.eps),
        "steps": 1 if fgsm else options.steps,
        "alpha": "eps" if fgsm else None if options.alpha is None else parse_strength(options.alpha),
        "norm": options.norm,
        "starts": RandomStarts(options.restarts, options.seed) if options.random_start and not fgsm else None,
        "target": target,
    }


def _require_used(context: typer.Context, method: str) -> None:
    """Raise UsageError for an option on the command line that this method ignores."""
    if unused := typed(context, UNUSED.get(method, ())):
        raise UsageError(f"{method} takes no {unused[0]}.", f"Omit {unused[0]}.")


def _target(text: str | None) -> Any:
    if text is None or text == "least-likely":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--target {text}: a class id or least-likely was expected.", "Example: --target 3.") from None


def _limit_note(count: int, total: int) -> list[str]:
    return [] if count == total else [f"Metrics are over {count:,} of the split's {total:,} images (--limit)."]
