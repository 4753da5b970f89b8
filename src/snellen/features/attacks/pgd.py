"""Attacks on a classifier in pixel space: PGD (L-inf, L2) and FGSM by autograd, and accuracy over their strength.

The classifier is any torch module (or function) from images in [0, 1] to logits, normalising inside. What it was
trained with is not asked; labels are columns of its logits.

The gradient is that of the cross-entropy. Of an image of class y it is, in the logits z,

    (1 - p_y) * (softmax of the logits without z_y, at the other classes; -1 at y)

and neither sign nor direction depend on the factor 1 - p_y. So the factor is left out and the rest is computed in
float64. Software that takes the softmax in float32 gets 0 for 1 - p_y as soon as a model is sure by 17 nats, and
then follows a wrong gradient, or none; in float64 the same happens at 37 nats; here it never does.

Sources: Goodfellow et al. 2015, arXiv 1412.6572 (FGSM); Madry et al. 2018, arXiv 1706.06083 (PGD). Steps, projection
and starts are those of torchattacks, so that the same settings without a random start break the same images.

Given starts of an attack on a split: read from a file, and matched with images by id.

Lp ball of an attack, within the bounds of pixels, and random starts in it.

A start depends on the image's id, the seed and the restart alone, never on the batch.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from snellen.errors import DataError, SnellenError, UsageError
from snellen.sources.zip_archive import check_npz

if TYPE_CHECKING:
    import torch


Norm = Literal["linf", "l2"]


class Ball:
    """Points within eps of the images and within the bounds."""

    def __init__(self, images: torch.Tensor, eps: float, norm: Norm, bounds: tuple[float, float] | None) -> None:
        import torch

        self.images, self.eps, self.norm, self.bounds = images, eps, norm, bounds
        low, high = bounds or (-torch.inf, torch.inf)
        if norm == "linf":
            self.low, self.high = (
                _inward(images, -eps).clamp(min=low),
                _inward(images, eps).clamp(max=high),
            )
        else:
            self.low, self.high = torch.full_like(images, low), torch.full_like(images, high)

    def only(self, rows: torch.Tensor) -> Ball:
        return Ball(self.images[rows], self.eps, self.norm, self.bounds)

    def project(self, points: torch.Tensor) -> torch.Tensor:
        """Project into the ball, on the device of the points."""
        import torch

        if self.norm == "l2":
            centre = self.images.to(points.device)
            away = points - centre
            length = lengths(away)
            shrink = torch.where(length > self.eps, self.eps / length, torch.ones_like(length))
            points = centre + away * broadcast_over(shrink, away)
        return points.clamp(self.low.to(points.device), self.high.to(points.device))

    def distance(self, points: torch.Tensor) -> torch.Tensor:
        """Return the distance from the images, float64 [B]."""
        away = (points.double() - self.images.double()).flatten(1)
        return away.abs().amax(1) if self.norm == "linf" else away.norm(dim=1)

    def require(self, points: torch.Tensor, first: int) -> None:
        """Raise SnellenError unless every point lies in the ball and the bounds.

        An L-inf ball may be left by what rounding the distance itself does in float64, an L2 ball by what rounding
        each coordinate can do.
        """
        unit = 2.0**-24 if points.dtype.itemsize < 8 else 2.0**-53
        slack = 2.0**-52 if self.norm == "linf" else 100 * unit * self.eps + unit * points[0].numel() ** 0.5
        away = self.distance(points)
        low, high = self.bounds or (-float("inf"), float("inf"))
        inside = (away <= self.eps + slack) & (points.flatten(1).amin(1) >= low) & (points.flatten(1).amax(1) <= high)
        if not bool(inside.all()):
            row = int((~inside).nonzero()[0])
            raise SnellenError(
                f"image {first + row} was attacked to a distance of {float(away[row]):.9g} with values from "
                f"{float(points[row].min()):.9g} to {float(points[row].max()):.9g}; at most {self.eps:.9g} ({self.norm}) "
                f"and values from {low:g} to {high:g} were expected",
                "This is a fault of the attack, and no accuracy can be given. Please report it.",
            )


def _inward(images: torch.Tensor, away: float) -> torch.Tensor:
    """Return images + away, rounded toward the images, so that rounding never leaves the ball."""
    import torch

    exact = images.double() + away
    if images.dtype == torch.float64:
        return exact
    rounded = exact.to(images.dtype)
    beyond = rounded.double() < exact if away < 0 else rounded.double() > exact
    return torch.where(beyond, torch.nextafter(rounded, images), rounded)


def lengths(values: torch.Tensor) -> torch.Tensor:
    """Compute the Euclidean length [B] of each, scaled first so that no square underflows."""
    import torch

    flat = values.flatten(1)
    largest = flat.abs().amax(1)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    norms: torch.Tensor = largest * (flat / scale[:, None]).norm(dim=1)
    return norms


def broadcast_over(each: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return each.view(-1, *[1] * (like.ndim - 1))


def random_starts(
    ids: Sequence[str], shape: tuple[int, ...], norm: Literal["linf", "l2"], seed: int, restart: int
) -> np.ndarray:
    """Draw points of the unit ball, float64 [n, *shape].

    linf: every coordinate uniform in [-1, 1]. l2: a Gaussian direction times a uniform number from 0 to 1, as
    torchattacks draws it; points near the middle are more likely than in a uniform ball.

    Random numbers are the raw words of PCG64, seeded by the BLAKE2b of seed, restart and id. NumPy fixes that stream
    (NEP 19), so the same call gives the same points in every version of it.
    """
    size = prod(shape)
    points = np.empty((len(ids), size))
    for row, name in enumerate(ids):
        digest = blake2b(f"snellen.attack/{seed}/{restart}\0{name}".encode(errors="surrogateescape"), digest_size=16)
        words = np.random.PCG64(int.from_bytes(digest.digest(), "little"))
        if norm == "linf":
            points[row] = 2.0 * _uniform(words, size) - 1.0
        else:
            radius = float(_uniform(words, 1)[0])
            direction = _normal(words, size)
            points[row] = direction * (radius / np.linalg.norm(direction))
    return points.reshape(len(ids), *shape)


def _uniform(words: np.random.PCG64, count: int) -> np.ndarray:
    """Draw [count] numbers in the open interval from 0 to 1."""
    raw = np.asarray(words.random_raw(count), dtype=np.uint64)
    return ((raw >> np.uint64(11)).astype(np.float64) + 0.5) / float(1 << 53)


def _normal(words: np.random.PCG64, count: int) -> np.ndarray:
    """Draw [count] standard normal numbers (Box and Muller 1958, Annals of Mathematical Statistics 29:610)."""
    half = (count + 1) // 2
    radius = np.sqrt(-2.0 * np.log(_uniform(words, half)))
    angle = 2.0 * np.pi * _uniform(words, half)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def read_starts(path: Path) -> dict[str, np.ndarray]:
    """Read starts of an attack from .npz: `ids` [n] and `images`, [n, 3, H, W] or [n, r, 3, H, W] of r starts.

    Integers are divided by 255. Raises DataError.
    """
    try:
        check_npz(path)
        with np.load(path, allow_pickle=False) as saved:
            ids, images = saved["ids"], saved["images"]
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} holds no starts: {error}", "Save `ids` and `images` [n, 3, H, W] with numpy.savez."
        ) from error
    names = [str(name) for name in ids.reshape(-1)]
    numeric = images.dtype.kind in "iuf"
    if not numeric or images.ndim not in (4, 5) or len(images) != len(names) or len(set(names)) < len(names):
        raise DataError(
            f"{path}: {len(names):,} ids ({len(set(names)):,} different) for images of shape {list(images.shape)} and type "
            f"{images.dtype}",
            "Give one id and one image [3, H, W] (or several, [r, 3, H, W]) of each.",
        )
    points = images.astype(np.float32) / (255 if images.dtype.kind in "iu" else 1)
    return dict(zip(names, points, strict=True))


def select_starts(ids: Sequence[str], points: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> GivenStarts:
    """Return the starts of some images of this shape, in their order. Raises DataError."""
    if missing := next((name for name in ids if name not in points), None):
        raise DataError(f"the starts have no image {missing!r}", "Give a start for every image of the split.")
    several = [points[name] if points[name].ndim == 4 else points[name][None] for name in ids]
    wrong = next((array for array in several if array.shape[1:] != shape or len(array) != len(several[0])), None)
    if wrong is not None:
        raise DataError(
            f"a start has the shape {list(wrong.shape[1:])}; the encoder takes {list(shape)}",
            "Save starts at the encoder's own input size, after resize and crop.",
        )
    return GivenStarts(np.stack(several, axis=1))


Logits = Callable[["torch.Tensor"], "torch.Tensor"]

STEPS = 10
BATCH = 64


class RandomStarts(Struct, frozen=True):
    """Random starts of an attack: how many, and their seed."""

    count: int = 1
    seed: int = 0


class GivenStarts(Struct, frozen=True, eq=False):
    """Points to start at, such as the images that another attack ended with.

    Attributes:
        points: [n, ...], or [r, n, ...] for r starts of each image, in the units of the images. They are projected into
            the ball and the bounds.
    """

    points: Any


Starts = RandomStarts | GivenStarts | None


class Attacked(Struct, frozen=True, eq=False):
    """Result of attacking n images at one strength.

    Attributes:
        images: [n, ...] as attacked, of the type of the input, on the CPU.
        predicted: [n] int64, the column of the largest logit of each attacked image, the first of equal ones.
        correct: [n] bool, whether that is the image's label.
        distance: [n] float64, the perturbation: its largest absolute value (linf) or Euclidean length (l2).
        blind: [n] bool, whether no gradient at all came back at the first step of every restart that was run: such
            an image was never attacked.
        alpha: the step that was used.
        classes: how many logits there are.
        restarts: starts of each image.
    """

    images: torch.Tensor
    predicted: np.ndarray
    correct: np.ndarray
    distance: np.ndarray
    blind: np.ndarray
    alpha: float
    classes: int
    restarts: int = 1


def pgd(
    logits: Logits,
    images: Any,
    labels: Any,
    *,
    eps: float,
    steps: int = STEPS,
    alpha: float | None = None,
    norm: Norm = "linf",
    starts: Starts = RandomStarts(),
    ids: Sequence[str] | None = None,
    targets: Any = None,
    batch_size: int = BATCH,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Attacked:
    """Projected gradient ascent on the cross-entropy, or descent to targets.

    Each step goes `alpha` along the gradient's sign (linf) or its direction (l2), then back into the ball around the
    image and into `bounds`. Of several restarts the worst is kept: one that is misclassified (with targets: as the
    target), else the one of the largest loss. Only images that have withstood so far are started again.

    Args:
        logits: images [B, ...] to logits [B, c]. A torch module is put into evaluation mode for the call, and back.
        images: [n, ...] tensor or array, float32 or float64, within `bounds`.
        labels: [n] integers, columns of the logits.
        eps: radius of the ball in the units of the images, 4/255 for instance. 0 leaves the images as they are.
        alpha: length of a step; None takes 2.5 * eps / steps.
        starts: random points of the ball to begin at: uniform (linf), or a Gaussian direction times eps times a uniform
            number (l2). A point follows from seed, number of the start and the image's id alone. GivenStarts: these
            points. None: the image itself.
        ids: [n] names of the images for their starts; None takes their numbers.
        targets: [n] integers to be led to; None for none.
        batch_size: images at once. Starts do not depend on it; a float32 model's rounding may.
        bounds: lowest and highest value of a pixel; None for none (a space that is not that of pixels).

    Raises:
        UsageError: a setting out of its range.
        DataError: images out of bounds, given starts of another shape, labels or targets that are no columns, logits that are no numbers.
        SnellenError: an attacked image lies outside its ball or bounds, which is checked in every call.
    """
    import torch

    step = _check_settings(eps, steps, alpha, norm, starts, batch_size)
    clean, wanted, aims = _as_tensors(images, labels, targets, bounds)
    names = [str(i) for i in range(len(clean))] if ids is None else [str(name) for name in ids]
    if len(names) != len(clean):
        raise UsageError(f"{len(names):,} ids for {len(clean):,} images.", "Give one id an image, or none.")
    starting_points = _given_points(starts.points, clean) if isinstance(starts, GivenStarts) else None
    parts: list[Attacked] = []
    with evaluating(logits):
        device = _device(logits, images)
        for first in range(0, len(clean), batch_size):
            rows = slice(first, first + batch_size)
            aim = None if aims is None else aims[rows]
            ball = Ball(clean[rows], eps, norm, bounds)
            parts.append(
                _attack_batch(
                    logits, ball, wanted[rows], aim, names[rows], device, first, steps, step,
                    starts if starting_points is None else GivenStarts(starting_points[:, rows]),
                )
            )  # fmt: skip
    if not parts:
        raise UsageError("there are no images to attack.", "Give one at least.")
    return Attacked(
        torch.cat([part.images for part in parts]),
        np.concatenate([part.predicted for part in parts]),
        np.concatenate([part.correct for part in parts]),
        np.concatenate([part.distance for part in parts]),
        np.concatenate([part.blind for part in parts]),
        step,
        parts[0].classes,
        parts[0].restarts,
    )


def fgsm(
    logits: Logits, images: Any, labels: Any, *, eps: float, targets: Any = None, batch_size: int = BATCH
) -> Attacked:
    """One step of `eps` along the sign of the gradient, from the image itself. Arguments and errors as for `pgd`."""
    return pgd(
        logits,
        images,
        labels,
        eps=eps,
        steps=1,
        alpha=eps,
        starts=None,
        targets=targets,
        batch_size=batch_size,
    )


def fgbmk_legacy(
    logits: Logits,
    images: Any,
    labels: Any,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    steps: int = 10,
    batch_size: int = BATCH,
) -> Attacked:
    """PGD with the parameters of FG-BMK's demo code, for comparison with figures made by it, and for nothing else.

    L-inf in the space of normalised values: alpha = 1/255, eps = 0.2, 10 or 20 steps, no random start, no bounds. The
    steps end before eps is reached (20/255 = 0.078), so eps never binds; attacked values may be no colours (below 0 or
    above 1). In units of pixels a step is std/255 of each channel. The demo's automatic mixed precision is not
    reproduced. `images` and `distance` of the result are in normalised values.

    Args:
        mean, std: [3], what the classifier normalises by; `logits` still takes images in [0, 1].
    """
    import torch

    if steps not in (10, 20):
        raise UsageError(f"fgbmk-legacy has 10 or 20 steps; {steps} were asked for.", "Choose one of the two.")
    clean, wanted, _ = _as_tensors(images, labels, None, (0.0, 1.0))
    shift, scale = (torch.tensor(values, dtype=clean.dtype).view(1, -1, 1, 1) for values in (list(mean), list(std)))
    device = _device(logits, images)

    def normalised(values: torch.Tensor) -> torch.Tensor:
        return logits((values * scale + shift).to(device))

    with evaluating(logits):
        return pgd(
            normalised,
            (clean - shift) / scale,
            wanted,
            eps=0.2,
            alpha=1 / 255,
            steps=steps,
            starts=None,
            batch_size=batch_size,
            bounds=None,
        )


def predictions(logits: Logits, images: Any, *, batch_size: int = BATCH) -> np.ndarray:
    """[n] int64, the column of the largest logit of each image. Raises DataError where logits are no numbers."""
    import torch

    tensor = torch.as_tensor(images)
    columns = [np.zeros(0, dtype=np.int64)]
    with evaluating(logits), torch.no_grad():
        device = _device(logits, tensor)
        for first in range(0, len(tensor), batch_size):
            outputs = _finite(logits(tensor[first : first + batch_size].to(device)), first)
            columns.append(outputs.argmax(1).cpu().numpy())
    return np.concatenate(columns)


def gradient_in_logits(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The gradient of the cross-entropy in the logits, divided by 1 - p_y: float64 [B, c].

    Args:
        logits: logits [B, c], c of two or more.
        labels: int64 [B].
    """
    import torch

    exact = logits.detach().double()
    at = labels.to(exact.device)[:, None]
    others = exact.scatter(1, at, -torch.inf)
    return others.softmax(1).scatter(1, at, -1.0)


def margin(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """float64 [B]: log-sum-exp of the other logits minus that of the label; the cross-entropy is its softplus."""
    import torch

    exact = logits.detach().double()
    at = labels.to(exact.device)[:, None]
    return exact.scatter(1, at, -torch.inf).logsumexp(1) - exact.gather(1, at)[:, 0]


@contextmanager
def evaluating(logits: Any) -> Iterator[None]:
    """Evaluation mode for a module and all in it, and each one's own mode again at the end."""
    modules = list(logits.modules()) if hasattr(logits, "modules") else []
    before = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, before, strict=True):
            module.training = mode


def _attack_batch(
    logits: Logits,
    ball: Ball,
    labels: torch.Tensor,
    aims: torch.Tensor | None,
    names: Sequence[str],
    device: torch.device,
    first: int,
    steps: int,
    alpha: float,
    starts: Starts,
) -> Attacked:
    """The worst of some starts for one batch; None starts once, at the images."""
    import torch

    count = len(labels)
    worst_images = ball.images.clone()
    predicted = torch.zeros(count, dtype=torch.int64)
    worst = torch.full((count,), -torch.inf, dtype=torch.float64)
    blind = torch.ones(count, dtype=torch.bool)
    open_ = torch.arange(count)
    classes = 0
    for restart in range(_count_starts(starts)):
        inner = ball if len(open_) == count else ball.only(open_)
        begin = inner.images
        if isinstance(starts, GivenStarts):
            begin = inner.project(starts.points[restart][open_])
        elif starts is not None and ball.eps > 0:
            shape = tuple(begin.shape[1:])
            random = random_starts([names[i] for i in open_.tolist()], shape, ball.norm, starts.seed, restart)
            begin = inner.project(begin + ball.eps * torch.from_numpy(random).to(begin.dtype))
        toward = labels[open_] if aims is None else aims[open_]
        points, dark = _ascend(logits, inner, begin, toward, aims is not None, device, first, steps, alpha)
        with torch.no_grad():
            outputs = _finite(logits(points.to(device)), first).cpu()
        classes = outputs.shape[1]
        _require_columns(toward, classes)
        _require_columns(labels, classes)
        guess = outputs.argmax(1)
        loss = margin(outputs, toward) * (1 if aims is None else -1)
        done = guess != labels[open_] if aims is None else guess == toward
        loss = torch.where(done, torch.inf, loss)
        better = loss > worst[open_]
        rows = open_[better]
        worst_images[rows], predicted[rows], worst[rows] = points[better], guess[better], loss[better]
        blind[open_] &= dark
        open_ = open_[~done]
        if not len(open_):
            break
    ball.require(worst_images, first)
    return Attacked(
        images=worst_images,
        predicted=predicted.numpy(),
        correct=(predicted == labels).numpy(),
        distance=ball.distance(worst_images).numpy(),
        blind=blind.numpy(),
        alpha=alpha,
        classes=classes,
        restarts=_count_starts(starts),
    )


def _ascend(
    logits: Logits,
    ball: Ball,
    begin: torch.Tensor,
    toward: torch.Tensor,
    targeted: bool,
    device: torch.device,
    first: int,
    steps: int,
    alpha: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(points [B, ...] on the CPU after the last step, [B] bool: no gradient came back at the first)."""
    import torch

    points = begin.to(device)
    dark = torch.ones(len(begin), dtype=torch.bool)
    if ball.eps == 0:
        return begin, torch.zeros_like(dark)
    for step in range(steps):
        points = points.detach().requires_grad_(True)
        with torch.enable_grad():
            outputs = _finite(logits(points), first)
            if not outputs.requires_grad:
                raise UsageError(
                    "the classifier gives no gradient to its images.",
                    "Its logits must be computed by torch, outside of no_grad and inference_mode.",
                )
            _require_columns(toward, outputs.shape[1])
            # On the CPU in float64: there are devices without it.
            slope = gradient_in_logits(outputs.cpu(), toward) * (-1 if targeted else 1)
            (ascent,) = torch.autograd.grad(outputs, points, slope.to(outputs.dtype).to(outputs.device))
        _require_gradient(ascent, first)
        if step == 0:
            dark = (ascent.flatten(1) == 0).all(1).cpu()
        with torch.no_grad():
            if ball.norm == "linf":
                moved = points + alpha * ascent.sign()
            else:
                length = lengths(ascent)
                moved = points + alpha * ascent * broadcast_over(
                    torch.where(length > 0, 1 / length, 0 * length), ascent
                )
            points = ball.project(moved)
    return points.detach().cpu(), dark


def _count_starts(starts: Starts) -> int:
    """Return the number of starts of each image."""
    if isinstance(starts, GivenStarts):
        return int(starts.points.shape[0])
    return 1 if starts is None else starts.count


def _given_points(points: Any, images: torch.Tensor) -> torch.Tensor:
    """Return given starts as [r, n, ...] of the images' type. Raises DataError."""
    import torch

    tensor = torch.as_tensor(points).detach().cpu()
    shape = tuple(images.shape)
    several = tensor[None] if tuple(tensor.shape) == shape else tensor
    if several.ndim != images.ndim + 1 or tuple(several.shape[1:]) != shape or not len(several):
        raise DataError(
            f"starts of shape {list(tensor.shape)} for images of shape {list(shape)}",
            "Give one point an image, or [starts, images, ...].",
        )
    several = several.to(images.dtype)
    if not bool(several.isfinite().all()):
        raise DataError("the starts are not all finite", "Give points in the units of the images.")
    return several


def _finite(logits: torch.Tensor, first: int) -> torch.Tensor:
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise DataError(
            f"the classifier gives {list(logits.shape)}; logits [images, classes] of two classes or more were expected",
            "Give it images [B, 3, H, W] in [0, 1] and let it return logits.",
        )
    if not bool(logits.isfinite().all()):
        row = int((~logits.detach().isfinite()).any(1).nonzero()[0])
        raise DataError(
            f"the logits of an image of the batch from image {first} on (place {row}) are not all finite",
            "Check the classifier's precision: float16 overflows at 65,504.",
        )
    return logits


def _require_columns(wanted: torch.Tensor, columns: int) -> None:
    if bool((wanted >= columns).any()):
        raise DataError(
            f"the label {int(wanted.max())} is no column: the classifier has {columns} logits",
            "Labels are columns of the logits, from 0: close the gaps between class ids first.",
        )


def _require_gradient(ascent: torch.Tensor, first: int) -> None:
    if not bool(ascent.isfinite().all()):
        row = int((~ascent.isfinite()).flatten(1).any(1).nonzero()[0])
        raise DataError(
            f"the gradient of an image of the batch from image {first} on (place {row}) is not finite",
            "Check the classifier: a square root or a norm of 0 has no gradient.",
        )


def _check_settings(eps: float, steps: int, alpha: float | None, norm: str, starts: Starts, batch_size: int) -> float:
    """The length of a step. Raises UsageError."""
    if norm not in ("linf", "l2"):
        raise UsageError(f"the norm {norm!r} is not known.", "Choose linf or l2.")
    if not np.isfinite(eps) or eps < 0 or (alpha is not None and (not np.isfinite(alpha) or alpha <= 0 < eps)):
        raise UsageError(f"eps {eps} and alpha {alpha}: positive numbers were expected.", "As in eps 4/255.")
    if steps < 1 or (isinstance(starts, RandomStarts) and starts.count < 1) or batch_size < 1:
        raise UsageError("steps, restarts and batch size are 1 or more.", "Correct the number.")
    return 2.5 * eps / steps if alpha is None else alpha


def _as_tensors(
    images: Any, labels: Any, targets: Any, bounds: tuple[float, float] | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Images, labels and targets as tensors on the CPU. Raises DataError."""
    import torch

    tensor = torch.as_tensor(images).detach().cpu()
    if tensor.dtype not in (torch.float32, torch.float64) or tensor.ndim < 2:
        raise DataError(
            f"images are {list(tensor.shape)} of {tensor.dtype}; float32 or float64 [n, 3, H, W] was expected",
            "Divide bytes by 255.",
        )
    low, high = bounds or (-float("inf"), float("inf"))
    flat = tensor.flatten(1)
    fine = (flat >= low).all(1) & (flat <= high).all(1) & flat.isfinite().all(1)
    if not bool(fine.all()):
        row = int((~fine).nonzero()[0])
        raise DataError(
            f"image {row} has values from {float(flat[row].min()):g} to {float(flat[row].max()):g}; "
            f"{low:g} to {high:g} was expected",
            "An attack works on pixels in [0, 1]; the classifier normalises inside.",
        )
    wanted = _as_columns(labels, len(tensor), "labels")
    return tensor, wanted, None if targets is None else _as_columns(targets, len(tensor), "targets")


def _as_columns(values: Any, count: int, role: str) -> torch.Tensor:
    import torch

    columns = torch.as_tensor(values).detach().cpu()
    if tuple(columns.shape) != (count,) or columns.is_floating_point() or bool((columns < 0).any()):
        raise DataError(
            f"{role} are {list(columns.shape)} of {columns.dtype}; [{count}] columns of the logits, from 0, were expected",
            "One class an image: rows with several labels have no cross-entropy of this kind.",
        )
    return columns.long()


def _device(logits: Any, images: Any) -> torch.device:
    """Return the device of a module's weights, or of the images if it has none."""
    import torch

    weight = next(iter(logits.parameters()), None) if hasattr(logits, "parameters") else None
    tensor = weight if isinstance(weight, torch.Tensor) else torch.as_tensor(images)
    return tensor.device
