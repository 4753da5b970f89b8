"""Encoder base class: named outputs read by hooks from the blocks of any vision transformer.

The outputs of the last n blocks are caught by hooks, so that one way of reading serves transformers, timm and
open_clip alike. The encoder's own final norm is applied to the tokens of every block that is read (as DINOv2's linear
evaluation does), and token means are taken after it.

Convolutional and hierarchical encoders: features pooled over the positions of the last stage.

Their stages have maps of different sizes and widths, so there is no CLS token and there are no blocks of one width.
Each gives `embedding`, what the model itself pools, and `patch_mean`, the mean over the last stage's positions.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from math import isqrt
from pathlib import Path
from typing import Any, Literal

import torch
from msgspec import Struct, to_builtins
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

from snellen.errors import DataError, PreflightError, UsageError
from snellen.features.extract.preprocess import Transform, normalise
from snellen.features.store.format import PATCH_TOKENS
from snellen.models.local.checkpoint import PICKLES, SMALL_FILES, WEIGHTS, download

OUTPUT = re.compile(r"(cls|patch_mean)(?:_last([1-9]\d*))?|embedding|projector_input|aligned")


class EncoderParts(Struct, frozen=True, eq=False):
    """Parts of an encoder that its outputs are read from.

    Attributes:
        call: float [B, 3, H, W] to a mapping that may hold `embedding` [B, d] and `aligned` [B, d]; runs all blocks.
        blocks: the blocks in order; each returns tokens [B, T, d], or [B * T, d] of images of one size.
        norm: the final norm, applied to tokens.
        patches: how many patch tokens an image has; those before them are CLS and registers.
        first: whether token 0 is a CLS token that was trained.
        extras: which of embedding, aligned, projector_input there are; and of maps patch_mean and patch_tokens.
        projector: the module between tower and language model, None where there is none.
        sequence_first: whether blocks hand on [T, B, d].
        work: multiply-adds of one image; None estimates them from weights and patches.
    """

    call: Callable[[torch.Tensor], Mapping[str, torch.Tensor]]
    blocks: Sequence[nn.Module]
    norm: nn.Module
    patches: int
    first: bool
    extras: frozenset[str]
    projector: nn.Module | None = None
    sequence_first: bool = False
    work: float | None = None


class Encoder:
    """Encoder: normalised pixels to named outputs.

    Attributes:
        transform: what images go through on their way here.
        outputs: names of what `encode` returns, in order.
        tokens: whether it returns `patch_tokens` too, see `with_tokens`.
        device: where it computes.
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        parts: EncoderParts,
        transform: Transform,
        origin: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
    ) -> None:
        """`module` is put into evaluation mode and its weights are frozen; gradients flow to the pixels.

        Args:
            outputs: `cls`, `patch_mean`, each also `_lastN` (of the last N blocks, in their order, side by side),
                `embedding`, and of a vision-language model `projector_input` and `aligned` (means of the tokens
                before and behind the projector). None takes CLS (where there is one) and patch mean.

        Raises:
            UsageError: an output that there is not.
        """
        self.name = name
        self.module = module.eval().requires_grad_(False)
        self.transform = transform
        self._parts, self._origin = parts, dict(origin)
        weight = next(module.parameters())
        self.device, self.compute = weight.device, weight.dtype
        self.outputs = tuple(outputs or self._usual())
        self._last = max((self._depth(output) for output in self.outputs), default=0)
        self.tokens = False
        self._caught = threading.local()  # several threads encode at once, each images of its own
        self._hooks: list[RemovableHandle] = []
        self._catch()

    def with_tokens(self) -> Encoder:
        """Let `encode` return `patch_tokens` too: [B, tokens, width] of the last block after the final norm, or of the last map.

        Raises:
            UsageError: the encoder has no patch tokens that can be read.
        """
        if not self._parts.blocks and PATCH_TOKENS not in self._parts.extras:
            raise UsageError(f"{self.name} has no patch tokens that can be read.", "Omit --tokens.")
        self.tokens = True
        self._last = max(self._last, 1 if self._parts.blocks else 0)
        self._catch()
        return self

    def identity(self) -> dict[str, Any]:
        """Return everything that can change a value: weights, transform, outputs and their order, precision."""
        return {
            "encoder": dict(self._origin),
            "transform": to_builtins(self.transform),
            "outputs": list(self.outputs),
            "compute": str(self.compute).removeprefix("torch."),
            **({PATCH_TOKENS: True} if self.tokens else {}),
        }

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each output of one image, found by encoding a grey one."""
        height, width = self.transform.size
        with torch.inference_mode():
            outputs = self.encode(torch.zeros(1, 3, height, width, device=self.device))
        return {name: tuple(values.shape[1:]) for name, values in outputs.items()}

    def widths(self) -> dict[str, int]:
        """Return the width of each output that is one vector an image."""
        return {name: shape[0] for name, shape in self.shapes().items() if len(shape) == 1}

    def work(self) -> float:
        """Return the multiply-adds of one image; unless they were counted, every weight is used for every patch."""
        if self._parts.work is not None:
            return self._parts.work
        return float(sum(weight.numel() for weight in self.module.parameters())) * max(1, self._parts.patches)

    def encode(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the outputs of normalised pixels, float32 [B, 3, H, W] on any device: each float32 [B, width] (patch tokens [B, T, width]).

        Differentiable.
        """
        caught = self._caught.outputs = list[torch.Tensor]()
        projector_inputs = self._caught.inputs = list[torch.Tensor]()
        try:
            known = dict(self._parts.call(pixels.to(self.device, self.compute)))
        finally:
            del self._caught.outputs, self._caught.inputs
        if len(caught) != self._last:
            raise DataError(
                f"{self.name}: {len(caught)} of its last {self._last} blocks were called; its tokens cannot be read",
                "Choose other outputs, or another encoder.",
            )
        tokens = [self._normed(output, len(pixels)) for output in caught]
        if projector_inputs:
            known["projector_input"] = (
                projector_inputs[0].reshape(len(pixels), -1, projector_inputs[0].shape[-1]).mean(1)
            )
        values = {name: self._output(name, tokens, known).float() for name in self.outputs}
        if self.tokens:
            patches = known[PATCH_TOKENS] if PATCH_TOKENS in known else self._patches(tokens[-1])
            values[PATCH_TOKENS] = patches.float()
        return values

    def forward_pixels(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the outputs of images in [0, 1], float [B, 3, H, W] of the transform's size; normalises inside. Differentiable."""
        return self.encode(normalise(images.to(self.device), self.transform))

    def _catch(self) -> None:
        """Hook the blocks and the projector that outputs are read from, for the thread that encodes."""
        for hook in self._hooks:
            hook.remove()
        caught, blocks = self._caught, self._parts.blocks
        self._hooks = [
            block.register_forward_hook(catch_output(lambda: getattr(caught, "outputs", None)))
            for block in blocks[len(blocks) - self._last :]
        ]
        if "projector_input" in self.outputs and self._parts.projector is not None:
            catch_input = _catch_input(lambda: getattr(caught, "inputs", None))
            self._hooks.append(self._parts.projector.register_forward_pre_hook(catch_input, with_kwargs=True))

    def _usual(self) -> list[str]:
        if not self._parts.blocks:
            return ["embedding"]
        names = ["cls", "patch_mean"] if self._parts.first else ["patch_mean"]
        return [*names, *(["aligned"] if "aligned" in self._parts.extras else [])]

    def _depth(self, output: str) -> int:
        """Return the number of blocks that an output is read from."""
        if output in self._parts.extras - {PATCH_TOKENS}:
            return 0
        match = OUTPUT.fullmatch(output)
        kind = match[1] if match else None
        if match is None or not self._parts.blocks or kind is None or (kind == "cls" and not self._parts.first):
            known = ["cls", "cls_lastN"] if self._parts.first else []
            known += ["patch_mean", "patch_mean_lastN"] if self._parts.blocks else []
            known += sorted(self._parts.extras - {PATCH_TOKENS})
            tokens = " Patch tokens are stored with --tokens." if "token" in output else ""
            raise UsageError(f"{self.name} has no output {output!r}.", f"It has: {', '.join(known)}.{tokens}")
        depth = int(match[2] or 1)
        if depth > len(self._parts.blocks):
            raise UsageError(
                f"{output} asks for {depth} blocks of {self.name}, which has {len(self._parts.blocks)}.",
                "Choose fewer blocks.",
            )
        return depth

    def _normed(self, tokens: torch.Tensor, count: int) -> torch.Tensor:
        if tokens.ndim == 2:
            tokens = tokens.reshape(count, -1, tokens.shape[-1])
        if self._parts.sequence_first:
            tokens = tokens.transpose(0, 1)
        normed: torch.Tensor = self._parts.norm(tokens)
        return normed

    def _output(self, name: str, tokens: Sequence[torch.Tensor], known: Mapping[str, torch.Tensor]) -> torch.Tensor:
        match = OUTPUT.fullmatch(name)
        if match is None or name in known:
            return known[name]
        last = tokens[len(tokens) - int(match[2] or 1) :]
        if match[1] == "cls":
            return torch.cat([block[:, 0] for block in last], dim=1)
        return torch.cat([self._patches(block).mean(1) for block in last], dim=1)

    def _patches(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the tokens of patches, without those before them."""
        return tokens[:, tokens.shape[1] - self._parts.patches :]


def catch_output(target: Callable[[], list[torch.Tensor] | None]) -> Callable[..., None]:
    """Return a forward hook that appends a block's tokens to the list that `target` returns; None keeps nothing."""

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        if (caught := target()) is not None:
            caught.append(output[0] if isinstance(output, tuple) else output)

    return hook


def _catch_input(target: Callable[[], list[torch.Tensor] | None]) -> Callable[..., None]:
    def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
        if (caught := target()) is not None:
            caught.append(
                next(argument for argument in (*args, *kwargs.values()) if isinstance(argument, torch.Tensor))
            )

    return hook


def weights_digest(module: nn.Module) -> str:
    """Return `sha256:` over names, types, shapes and bytes of all parameters and buffers, in the order of their names."""
    total = sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if isinstance(tensor, torch.Tensor):
            total.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
            plain = tensor.detach().cpu().contiguous()
            total.update(plain.view(torch.uint8).numpy().tobytes() if plain.ndim else plain.numpy().tobytes())
    return f"sha256:{total.hexdigest()}"


Layout = Literal["NCHW", "NHWC"]
OUTPUTS = frozenset({"embedding", "patch_mean", PATCH_TOKENS})


def average_map(features: torch.Tensor, layout: Layout = "NCHW") -> torch.Tensor:
    """Average a map [B, C, H, W] (or [B, H, W, C]) or tokens [B, T, C] over positions: [B, C]."""
    if features.ndim == 4:
        return features.mean((2, 3) if layout == "NCHW" else (1, 2))
    return map_tokens(features).mean(1)


def map_tokens(features: torch.Tensor, layout: Layout = "NCHW") -> torch.Tensor:
    """Return the positions of a map, or of tokens [B, T, C], row by row: [B, T, C].

    Of tokens, one more than a square is a pooled token before the positions, as in DINOv3's ConvNeXt; it is left out.
    """
    if features.ndim == 4:
        return features.flatten(2).transpose(1, 2) if layout == "NCHW" else features.flatten(1, 2)
    count = features.shape[1]
    first = 1 if isqrt(count) ** 2 != count and isqrt(count - 1) ** 2 == count - 1 else 0
    return features[:, first:]


def build_map_parts(
    call: Callable[[torch.Tensor], Mapping[str, torch.Tensor]], trial: torch.Tensor, outputs: frozenset[str] = OUTPUTS
) -> EncoderParts:
    """Build the parts of an encoder without blocks.

    Args:
        call: pixels to the outputs.
        trial: one image, to count its operations with.
    """
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        call(trial)
    return EncoderParts(call, (), nn.Identity(), 0, False, outputs, work=counter.get_total_flops() / 2)


def pool_model(model: Any) -> Callable[[torch.Tensor], Mapping[str, torch.Tensor]]:
    """Return the call of a model of transformers whose last hidden state is a map, or tokens of one."""

    def call(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        output = model(pixel_values=pixels)
        mean = average_map(output.last_hidden_state)
        pooled = getattr(output, "pooler_output", None)
        embedding = mean if pooled is None else pooled.reshape(len(pixels), -1)
        return {"embedding": embedding, "patch_mean": mean, PATCH_TOKENS: map_tokens(output.last_hidden_state)}

    return call


def is_hierarchical(model: Any, trial: torch.Tensor, patch_size: int | None) -> bool:
    """Return True if the model gives a map, or fewer tokens than there are patches of `patch_size` pixels."""
    with torch.inference_mode():
        last = getattr(model(pixel_values=trial), "last_hidden_state", None)
    if not isinstance(last, torch.Tensor) or last.ndim not in (3, 4):
        return False
    if last.ndim == 4 or patch_size is None:
        return True
    return int(last.shape[1]) < (trial.shape[-2] // patch_size) * (trial.shape[-1] // patch_size)


def find_weights(path: str, label: str, names: tuple[str, ...] = ("model.safetensors",)) -> Path:
    """Return the safetensors file that a local path means: itself, or the one in a folder.

    Args:
        names: which file of a folder is taken if it has several.

    Raises:
        PreflightError: there is none, it is a pickle, or a folder holds several.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        files = sorted(place.glob(WEIGHTS))
        usual = [file for name in names for file in files if file.name == name]
        if len(files) == 1 or usual:
            return (usual or files)[0]
        if files:
            raise PreflightError(
                f"{label}: {path} holds {len(files)} safetensors files, first {files[0].name}.", "Name one of them."
            )
        pickles = sorted(file.name for file in place.iterdir() if file.suffix in PICKLES)
        if pickles:
            raise _pickle(label, pickles[0])
        raise PreflightError(f"{label}: there is no safetensors file in {path}.", "Name a file of weights.")
    if place.suffix in PICKLES:
        raise _pickle(label, place.name)
    if not place.is_file():
        raise PreflightError(f"{label}: there is no file or folder {path}.", "Check the path after the comma.")
    if place.suffix != ".safetensors":
        raise PreflightError(f"{label}: {place.name} is not a safetensors file.", "Name a file *.safetensors.")
    return place


def fetch_weights(repository: str, label: str, names: tuple[str, ...] = ("model.safetensors",)) -> Path:
    """Download a repository's configuration and these of its weights; return the file, as `find_weights` does."""
    return find_weights(str(download(repository, None, (*SMALL_FILES, *names))), label, names)


def tensor_shapes(file: Path, label: str) -> dict[str, list[int]]:
    """Return the shape of each tensor of a safetensors file. Raises PreflightError if it is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as tensors:
            return {name: list(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise PreflightError(
            f"{label}: {file} is not a readable safetensors file: {error}", "Copy it again."
        ) from error


def _pickle(label: str, name: str) -> PreflightError:
    return PreflightError(
        f"{label}: the weights are in {name}, a pickle, which can run code when it is opened.",
        "Convert it to safetensors on a machine that you can lose, or choose weights that are safetensors.",
    )
