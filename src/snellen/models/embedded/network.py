"""The embedded checkpoint in NumPy: CLIP tower, projector and Llama with a key-value cache, in float32.

Source: `modeling_clip.py`, `modeling_llava.py` and `modeling_llama.py` of transformers 5.23, whose replies it gives.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.special import erf

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
MASKED = np.finfo(np.float32).min
"""Score of a position that is not attended to: finite, so that a row of padding has no NaN."""


class Network:
    """Weights and shapes of a LLaVA checkpoint whose tower is CLIP and whose text model is Llama with as many keys as heads.

    Args:
        folder: `config.json` and `model.safetensors`, as transformers saves them.

    Attributes:
        image_tokens: tokens of one image.
        image_id: the token that stands for them.
    """

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_bytes())
        self._eye, self._text = config["vision_config"], config["text_config"]
        self.image_tokens, self.image_id = config["image_seq_length"], config["image_token_index"]
        self.context: int = self._text["max_position_embeddings"]
        stored = load_file(folder / "model.safetensors")
        self._weights = {name: array.astype(np.float32) for name, array in stored.items()}
        half = self._text["head_dim"] // 2
        turns = self._text["rope_parameters"]["rope_theta"] ** (-np.arange(half, dtype=np.float32) / np.float32(half))
        angles = np.arange(self.context, dtype=np.float32)[:, None] * turns.astype(np.float32)
        self._rotation = np.cos(angles), np.sin(angles)

    def see(self, pixels: Floats) -> Floats:
        """Return the tokens [images, image_tokens, width] of images [images, channels, height, width], normalised."""
        name, patch, width = "vision_tower", self._eye["patch_size"], self._eye["hidden_size"]
        images, channels, side, _ = pixels.shape
        grid = side // patch
        patches = pixels.reshape(images, channels, grid, patch, grid, patch).transpose(0, 2, 4, 1, 3, 5)
        kernel = self._weights[f"{name}.embeddings.patch_embedding.weight"].reshape(width, -1)
        first = np.broadcast_to(self._weights[f"{name}.embeddings.class_embedding"], (images, 1, width))
        state = np.concatenate([first, patches.reshape(images, grid * grid, kernel.shape[1]) @ kernel.T], axis=1)
        state = self._normed(
            state + self._weights[f"{name}.embeddings.position_embedding.weight"], f"{name}.pre_layrnorm"
        )
        for number in range(self._eye["num_hidden_layers"]):
            layer = f"{name}.encoder.layers.{number}"
            inner = self._normed(state, f"{layer}.layer_norm1")
            heads = self._eye["num_attention_heads"]
            query, key, value = (_heads(self._linear(inner, f"{layer}.self_attn.{part}_proj"), heads) for part in "qkv")
            state = state + self._linear(_attended(query, key, value), f"{layer}.self_attn.out_proj")
            inner = self._linear(self._normed(state, f"{layer}.layer_norm2"), f"{layer}.mlp.fc1")
            state = state + self._linear(_gelu(inner), f"{layer}.mlp.fc2")
        inner = _gelu(self._linear(state[:, 1:], "multi_modal_projector.linear_1"))
        return self._linear(inner, "multi_modal_projector.linear_2")

    def embedded(self, ids: Integers, seen: Floats) -> Floats:
        """Return vectors [rows, tokens, width] of tokens; those of images are `seen`, in the order in which they stand.

        Without any, as in the steps of a reply, the mark of an image is a token like any other.
        """
        state: Floats = self._weights["language_model.model.embed_tokens.weight"][ids]
        if len(seen):
            state[ids == self.image_id] = seen.reshape(-1, state.shape[-1])
        return state

    def read(self, state: Floats, attended: NDArray[np.bool_], cache: list[tuple[Floats, Floats]]) -> Floats:
        """Return scores [rows, vocabulary] of the token after the last one.

        Args:
            state: vectors [rows, new tokens, width].
            attended: [rows, tokens so far and new ones]; False at padding, which stands on the left.
            cache: keys and values of the tokens so far by layer, which grow; empty at the beginning.
        """
        new, heads = state.shape[1], self._text["num_attention_heads"]
        places = np.maximum(np.cumsum(attended, axis=1) - 1, 0)[:, -new:]
        later = np.arange(attended.shape[1])[None, :] > np.arange(attended.shape[1] - new, attended.shape[1])[:, None]
        mask = np.where(later[None, None] | ~attended[:, None, None, :], MASKED, np.float32(0))
        cosine, sine = (table[places][:, None] for table in self._rotation)
        last = self._text["num_hidden_layers"] - 1
        for number in range(last + 1):
            layer = f"language_model.model.layers.{number}"
            inner = self._scaled(state, f"{layer}.input_layernorm")
            query, key, value = (_heads(self._linear(inner, f"{layer}.self_attn.{part}_proj"), heads) for part in "qkv")
            query, key = _rotated(query, cosine, sine), _rotated(key, cosine, sine)
            if number < len(cache):
                before_key, before_value = cache[number]
                key, value = np.concatenate([before_key, key], axis=2), np.concatenate([before_value, value], axis=2)
                cache[number] = key, value
            else:
                cache.append((key, value))
            if number == last:  # nothing reads what the last layer makes of the other tokens
                query, state, mask = query[:, :, -1:], state[:, -1:], mask[:, :, -1:]
            state = state + self._linear(_attended(query, key, value, mask), f"{layer}.self_attn.o_proj")
            inner = self._scaled(state, f"{layer}.post_attention_layernorm")
            gate, up = (self._linear(inner, f"{layer}.mlp.{part}_proj") for part in ("gate", "up"))
            with np.errstate(over="ignore"):  # e ** -gate beyond float32: the share is 0 there, as it should be
                state = state + self._linear(gate / (1 + np.exp(-gate)) * up, f"{layer}.mlp.down_proj")
        final = self._scaled(state[:, -1], "language_model.model.norm")
        return self._linear(final, "language_model.lm_head")

    def _linear(self, state: Floats, name: str) -> Floats:
        weight, bias = self._weights[f"{name}.weight"], self._weights.get(f"{name}.bias")
        made: Floats = state.reshape(-1, state.shape[-1]) @ weight.T  # one product for all rows: twice as fast
        return (made if bias is None else made + bias).reshape(*state.shape[:-1], len(weight))

    def _normed(self, state: Floats, name: str) -> Floats:
        centred = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._eye["layer_norm_eps"]))
        made: Floats = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return made

    def _scaled(self, state: Floats, name: str) -> Floats:
        size = np.sqrt((state * state).mean(axis=-1, keepdims=True) + np.float32(self._text["rms_norm_eps"]))
        made: Floats = state / size * self._weights[f"{name}.weight"]
        return made


def _heads(state: Floats, heads: int) -> Floats:
    """Return a state [rows, tokens, width] as [rows, heads, tokens, width of a head]."""
    rows, tokens, width = state.shape
    return state.reshape(rows, tokens, heads, width // heads).transpose(0, 2, 1, 3)


def _attended(query: Floats, key: Floats, value: Floats, mask: Any = np.float32(0)) -> Floats:
    """Return values [rows, tokens, width] weighted by attention; the three are [rows, heads, tokens, width of a head]."""
    scores = query @ key.transpose(0, 1, 3, 2) * np.float32(query.shape[-1] ** -0.5) + mask
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    made: Floats = (weights / weights.sum(axis=-1, keepdims=True)) @ value
    rows, heads, tokens, width = made.shape
    return made.transpose(0, 2, 1, 3).reshape(rows, tokens, heads * width)


def _rotated(state: Floats, cosine: Floats, sine: Floats) -> Floats:
    """Return queries or keys turned by their places: the first half of a head is the real part, the second the imaginary."""
    left, right = np.split(state, 2, axis=-1)
    made: Floats = np.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)
    return made


def _gelu(state: Floats) -> Floats:
    made: Floats = state * np.float32(0.5) * (1 + erf(state * np.float32(0.5**0.5)))
    return made
