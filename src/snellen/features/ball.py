"""The points that an attack may go to: a ball around an image, within the bounds of pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from snellen.errors import SnellenError

if TYPE_CHECKING:
    import torch

Norm = Literal["linf", "l2"]


class Ball:
    """The points that an attack may go to: within eps of the images and within the bounds."""

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
        """Back into the ball, on the device of the points."""
        import torch

        if self.norm == "l2":
            centre = self.images.to(points.device)
            away = points - centre
            length = lengths(away)
            shrink = torch.where(length > self.eps, self.eps / length, torch.ones_like(length))
            points = centre + away * widened(shrink, away)
        return points.clamp(self.low.to(points.device), self.high.to(points.device))

    def distance(self, points: torch.Tensor) -> torch.Tensor:
        """float64 [B]."""
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
    """images + away, rounded toward the images, so that no rounding leads out of the ball."""
    import torch

    exact = images.double() + away
    if images.dtype == torch.float64:
        return exact
    near = exact.to(images.dtype)
    beyond = near.double() < exact if away < 0 else near.double() > exact
    return torch.where(beyond, torch.nextafter(near, images), near)


def lengths(values: torch.Tensor) -> torch.Tensor:
    """Euclidean length [B] of each, scaled first so that no square underflows."""
    import torch

    flat = values.flatten(1)
    largest = flat.abs().amax(1)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    found: torch.Tensor = largest * (flat / scale[:, None]).norm(dim=1)
    return found


def widened(each: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return each.view(-1, *[1] * (like.ndim - 1))
