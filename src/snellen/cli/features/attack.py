"""snellen features attack"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from snellen.cli.features.shared import AsJson, Images, TorchThreads, group, tell
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.types import Metric

SETS = "A general set beside it"
OF_PGD = ("eps", "alpha", "norm", "random_start", "restarts", "seed", "target")
OF_SETS = ("general", "general_images", "general_head")
UNUSED = {
    "--corrupt": ("method", "steps", *OF_PGD, *OF_SETS),
    "--method fgbmk-legacy": (*OF_PGD, *OF_SETS),
    "--method fgsm": ("steps", "alpha", "norm", "random_start", "restarts", "seed"),
}
"""What each way of attacking does not look at; to name it is a mistake, and none is passed over in silence."""


@group.command()
def attack(
    context: typer.Context,
    encoder: Annotated[
        str,
        typer.Option(
            metavar="hf:NAME|FOLDER|embedded|timm:NAME|open_clip:NAME/WEIGHTS",
            help="The encoder whose features the head was trained on.",
        ),
    ],
    head: Annotated[
        Path, typer.Option(metavar="STORE|FILE", help="What `snellen features probe --save` wrote: STORE/probe.npz.")
    ],
    split: Annotated[str, typer.Option(metavar="[NAME=]FILE", help="CSV of path,label: the pictures to attack.")],
    images: Images,
    output: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which output of the encoder.", show_default="the one the head names"),
    ] = None,
    eps: Annotated[
        str, typer.Option(metavar="LIST", help="Strengths by comma, in units of pixels from 0 to 1.")
    ] = "0.25/255,0.5/255,1/255,2/255,4/255,8/255",
    steps: Annotated[int, typer.Option(min=1, help="Steps of each attack.")] = 10,
    alpha: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Length of a step.", show_default="2.5 * eps / steps")
    ] = None,
    norm: Annotated[Literal["linf", "l2"], typer.Option(help="What eps bounds.")] = "linf",
    method: Annotated[
        Literal["pgd", "fgsm", "fgbmk-legacy"],
        typer.Option(
            help="fgsm: one step of eps. fgbmk-legacy: the parameters of FG-BMK's demo code, 10 or 20 --steps."
        ),
    ] = "pgd",
    random_start: Annotated[
        bool, typer.Option("--random-start/--no-random-start", help="Begin at a random point of the ball.")
    ] = True,
    restarts: Annotated[int, typer.Option(min=1, help="Random starts; the worst is kept.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the random starts.")] = 0,
    target: Annotated[
        str | None, typer.Option(metavar="CLASS|least-likely", help="Lead every picture to a class id.")
    ] = None,
    corrupt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATION",
            help="Instead of an attack: blur:5, salt-pepper:10, grey, jitter:0.4, or A+B; may be repeated.",
        ),
    ] = None,
    general: Annotated[
        str | None,
        typer.Option(metavar="[NAME=]FILE", help="CSV of a general set, attacked alike.", rich_help_panel=SETS),
    ] = None,
    general_images: Annotated[
        Path | None, typer.Option(help="Where its paths lie.", show_default="--images", rich_help_panel=SETS)
    ] = None,
    general_head: Annotated[
        Path | None, typer.Option(metavar="STORE|FILE", help="Head for its classes.", rich_help_panel=SETS)
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many pictures, spread over the split.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures attacked at once.")] = 64,
    compute: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"], typer.Option(help="Precision of the encoder.")
    ] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N, mps.")] = "auto",
    threads: TorchThreads = None,
    as_json: AsJson = False,
) -> None:
    """Accuracy of encoder and head on the pictures that fool them most, within eps of what they are shown.

    PGD in pixel space, at the encoder's own input size. With --corrupt: on blurred, speckled, grey or jittered
    pictures.
    """
    from msgspec import to_builtins

    from snellen.features.attacks import classifier
    from snellen.features.attacks.robust_accuracy import parse_strength
    from snellen.features.encoders import open_encoder
    from snellen.features.extract.threads import torch_threads
    from snellen.features.probes.head import load_head

    way = "--corrupt" if corrupt else f"--method {method}"
    _require_used(context, way)
    if general is None and (general_images is not None or general_head is not None):
        raise UsageError("--general-images and --general-head are of a general set.", "Name one with --general.")
    goal = _target(target)
    if general is not None and isinstance(goal, int):
        raise UsageError(
            f"--target {goal} is a class of the one set, and --general has others.",
            "Lead both to --target least-likely, or attack one of them alone.",
        )
    trained = load_head(head)
    names = classifier.head_outputs(trained, output)
    opened = open_encoder(encoder, names, device=device, compute=compute)
    taken = names or opened.outputs[:1]
    logits = classifier.build_classifier(opened, trained, taken)
    checked = classifier.require_same_encoder(trained, opened, head if head.is_dir() else head.parent)
    notes = [one for one in [checked] if one]
    other, unchecked = trained, None
    if general_head is not None:
        other = load_head(general_head)
        lies = general_head if general_head.is_dir() else general_head.parent
        unchecked = classifier.require_same_encoder(other, opened, lies)
    settings: dict[str, Any] = {
        "encoder": encoder,
        "output": "+".join(taken),
        "head": str(head),
        "features": trained.settings.get("store"),
        "identity": (trained.settings.get("identity") or None) if as_json else None,
        "split": split,
        "limit": limit,
    }
    metrics: list[Metric] = []
    where = (split, images, opened.transform, trained)
    with torch_threads(opened, batch_size, threads):
        if corrupt:
            shown, of = classifier.measure_corruptions(logits, *where, corrupt, limit=limit, batch_size=batch_size)
            metrics = classifier.with_coverage(shown.metrics(), of)
            settings["corrupt"] = list(shown.specs)
            notes += _part(len(shown.clean), of)
        elif method == "fgbmk-legacy":
            metrics, of = classifier.attack_as_fgbmk(logits, *where, steps=steps, limit=limit, batch_size=batch_size)
            settings |= {"attack": "fgbmk-legacy", "steps": steps, "alpha": 1 / 255, "eps": 0.2, "space": "normalised"}
            metrics = classifier.with_coverage(metrics, of)
            notes.append("fgbmk-legacy is for comparison with figures of FG-BMK's demo code: its eps never binds.")
            notes += _part(metrics[0].n, of)
        else:
            how: dict[str, Any] = {
                "eps": comma_list(eps),
                "steps": 1 if method == "fgsm" else steps,
                "alpha": "eps" if method == "fgsm" else None if alpha is None else parse_strength(alpha),
                "norm": norm,
                "random_start": random_start and method == "pgd",
                "restarts": restarts,
                "seed": seed,
                "limit": limit,
                "batch_size": batch_size,
                "target": goal,
            }
            found, of = classifier.attack_split(logits, *where, **how)
            settings |= to_builtins(found.settings)
            metrics, notes = (
                classifier.with_coverage(found.metrics(), of),
                [*notes, *found.notes(), *_part(len(found.clean), of)],
            )
            if general is not None:
                place = (general, general_images or images, opened.transform, other)
                beside, all_ = classifier.attack_split(classifier.build_classifier(opened, other, taken), *place, **how)
                metrics += classifier.compare_with_general(found, beside, all_)
                settings["general"] = general
                told = [*beside.notes(), *_part(len(beside.clean), all_)]
                told += [unchecked] if unchecked else []
                notes += [f"General set: {one}" for one in told]
    tell(head, "attack", settings, metrics, notes, as_json)


def _require_used(context: typer.Context, way: str) -> None:
    """Raise UsageError where an option was given that this way of attacking does not look at."""
    for name in UNUSED.get(way, ()):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{way} takes no --{name.replace('_', '-')}.", "Leave it away.")


def _target(text: str | None) -> Any:
    if text is None or text == "least-likely":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--target {text}: a class id or least-likely was expected.", "As in --target 3.") from None


def _part(count: int, of: int) -> list[str]:
    return [] if count == of else [f"{count:,} of the split's {of:,} pictures are in these numbers (--limit)."]
