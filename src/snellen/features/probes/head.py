"""A linear layer on features, with the scaling that it was trained under: saved as one npz, used by numpy and torch."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
import numpy as np
from msgspec import Struct, field

from snellen.atomic_write import replacing
from snellen.errors import DataError
from snellen.sources.zip_archive import check_npz

if TYPE_CHECKING:
    import torch

FILE = "probe.npz"
Scale = Literal["none", "l2", "standardise"]


class Scaling(Struct, frozen=True, eq=False):
    """Scaling of features before the linear layer.

    Attributes:
        kind: "none"; "l2": each row divided by its length (a zero row stays); "standardise": each feature minus its
            mean over train, divided by its standard deviation over train (a constant feature by 1).
        mean, scale: [d] float64, 0 and 1 unless the kind is "standardise".
    """

    kind: Scale
    mean: np.ndarray
    scale: np.ndarray

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Scale [n, d] to [n, d], float32 unless the values are float64."""
        rows = np.asarray(values, dtype=np.float64 if values.dtype == np.float64 else np.float32)
        if self.kind == "l2":
            lengths = np.sqrt(np.square(rows).sum(axis=1, dtype=np.float64))[:, None]
            return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0).astype(rows.dtype))
        if self.kind == "standardise":
            return np.asarray((rows - self.mean.astype(rows.dtype)) / self.scale.astype(rows.dtype))
        return rows


def scaling(kind: Scale, train: np.ndarray) -> Scaling:
    """Compute the scaling from training rows [n, d]."""
    width = train.shape[1]
    if kind != "standardise":
        return Scaling(kind, np.zeros(width), np.ones(width))
    mean = train.mean(axis=0, dtype=np.float64)
    deviation = train.std(axis=0, dtype=np.float64)
    # What rounding leaves of a constant feature is no spread.
    rounding = 1e-14 if train.dtype == np.float64 else 1e-7
    constant = deviation <= rounding * np.abs(mean)
    return Scaling(kind, mean, np.where(constant, 1.0, deviation))


class ProbeHead(Struct, frozen=True, eq=False):
    """A trained probe.

    Attributes:
        weights: [d, c] float32 or float64.
        bias: [c], likewise.
        scaling: what comes before them.
        classes: [c] int64, the class id of each column.
        names: what classes are called, None where they have no names.
        several: whether each column is a class against the rest (sigmoid), rather than one of c (softmax).
        settings: what it was trained on and how.
    """

    weights: np.ndarray
    bias: np.ndarray
    scaling: Scaling
    classes: np.ndarray
    names: tuple[str, ...] | None = None
    several: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def logits(self, features: np.ndarray) -> np.ndarray:
        """Compute [n, c] scores of [n, d] features. Raises DataError for another width."""
        if features.ndim != 2 or features.shape[1] != len(self.weights):
            raise DataError(
                f"features of shape {list(features.shape)} for a head that takes [rows, {len(self.weights)}]",
                "Take the output of the encoder that the head was trained on; its settings name it.",
            )
        return np.asarray(self.scaling.apply(features) @ self.weights + self.bias)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Predict [n] int64 class ids; of several best classes the first."""
        return np.asarray(self.classes[self.logits(features).argmax(axis=1)])

    def module(self, device: str = "cpu", dtype: Any = None) -> torch.nn.Module:
        """Return the head as a torch module of buffers, differentiable in the features; dtype None: torch.float32."""
        import torch

        kind = torch.float32 if dtype is None else dtype

        class Linear(torch.nn.Module):
            def __init__(self, head: ProbeHead) -> None:
                super().__init__()
                self.kind = head.scaling.kind
                arrays = {
                    "weights": head.weights,
                    "bias": head.bias,
                    "mean": head.scaling.mean,
                    "scale": head.scaling.scale,
                }
                for name, array in arrays.items():
                    self.register_buffer(name, torch.as_tensor(np.array(array)).to(device=device, dtype=kind))

            def forward(self, features: torch.Tensor) -> torch.Tensor:
                weights, bias = self.get_buffer("weights"), self.get_buffer("bias")
                scaled = features.to(weights.dtype)
                if self.kind == "l2":
                    lengths = scaled.norm(dim=-1, keepdim=True)
                    scaled = scaled / torch.where(lengths > 0, lengths, torch.ones_like(lengths))
                elif self.kind == "standardise":
                    scaled = (scaled - self.get_buffer("mean")) / self.get_buffer("scale")
                return scaled @ weights + bias

        return Linear(self)

    def save(self, path: Path) -> Path:
        """Write the file, by rename; a folder gets `probe.npz`. Returns the file's path."""
        file = path / FILE if path.is_dir() else path
        with replacing(file) as part, part.open("wb") as out:
            np.savez(
                out,
                weights=self.weights,
                bias=self.bias,
                mean=self.scaling.mean,
                scale=self.scaling.scale,
                standardise=np.array(self.scaling.kind),
                classes=self.classes,
                names=np.array([] if self.names is None else list(self.names), dtype=str),
                several=np.array(self.several),
                settings=np.array(msgspec.json.encode(self.settings, enc_hook=str).decode()),
            )
        return file


def load_head(path: Path | str) -> ProbeHead:
    """Read what `Head.save` wrote.

    Args:
        path: the file, the file without its ending, or the folder that holds `probe.npz`.

    Raises:
        DataError: no such file, or not one of a probe.
    """
    location = Path(path)
    file = location / FILE if location.is_dir() else location
    if not file.is_file():
        file = location.with_name(f"{location.name}.npz")
    if not file.is_file():
        raise DataError(f"{location}: there is no probe", f"snellen features probe STORE --save writes STORE/{FILE}.")
    check_npz(file)
    try:
        with np.load(file, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        kind = str(arrays["standardise"])
        if kind not in get_args(Scale):
            raise ValueError(f"a scaling {kind!r}")
        head = ProbeHead(
            arrays["weights"],
            arrays["bias"],
            Scaling(kind, arrays["mean"], arrays["scale"]),  # type: ignore[arg-type]
            arrays["classes"],
            tuple(str(name) for name in arrays["names"]) or None,
            bool(arrays["several"]),
            msgspec.json.decode(str(arrays["settings"])),
        )
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile, msgspec.DecodeError, RecursionError) as error:
        raise DataError(f"{file} is no probe of this program: {error}", "Train it again with --save.") from error
    width, classes = head.weights.shape
    if head.bias.shape != (classes,) or head.classes.shape != (classes,) or head.scaling.mean.shape != (width,):
        raise DataError(f"{file}: its arrays do not fit each other", "Train it again with --save.")
    return head
