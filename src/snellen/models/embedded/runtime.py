"""The runtime of the embedded checkpoint: prompts to arrays, and replies by `Network`, without torch and transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from PIL import Image as pillow
from threadpoolctl import ThreadpoolController
from tokenizers import Tokenizer

from snellen.errors import BadRequestError
from snellen.models.embedded.network import Floats, Integers, Network
from snellen.models.local.chat_template import Conversation
from snellen.models.local.replies import BELOW_ONE, BatchSettings, Reply, answer_end, reply_of, rooms_for
from snellen.types import ProcessedImage

ROLES = {"assistant": "<|assistant|>"}
"""Marks of roles in the chat template; every other role has that of the user."""


class EncodedPrompts(Struct, frozen=True):
    """A batch as arrays: tokens [rows, tokens] padded on the left, where they are no padding, and images in their order.

    `texts`: the prompts as the chat template writes them, with one mark an image.
    """

    ids: Integers
    attended: NDArray[np.bool_]
    pixels: Floats
    texts: list[str]


class EmbeddedRuntime:
    """Tokenizer, image processor and network of the checkpoint, as its files describe them.

    Attributes:
        context: tokens that prompt and reply may have together.
        own_limit: new tokens where nobody asks for another number.
    """

    def __init__(self, folder: Path) -> None:
        self._network = Network(folder)
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.encode_special_tokens = True  # `</s>` in a question stands for its letters
        generation = json.loads((folder / "generation_config.json").read_bytes())
        processor = json.loads((folder / "processor_config.json").read_bytes())
        self._images = processor["image_processor"]
        self._image_mark: str = processor["image_token"]
        self.context, self.own_limit = self._network.context, int(generation["max_new_tokens"])
        self._begin, self._end = int(generation["bos_token_id"]), int(generation["eos_token_id"])
        self._patch = int(processor["patch_size"])
        self._threads: Any = ThreadpoolController()

    def encode(self, conversations: Sequence[Conversation]) -> EncodedPrompts:
        """Return the arrays of a batch. Raises BadRequestError for a prompt that leaves no room for a reply."""
        written = [self._written(conversation) for conversation in conversations]
        longest = max(len(ids) for ids, _ in written)
        if longest >= self.context:
            raise BadRequestError(
                f"the prompt has {longest} tokens, images included; the model reads {self.context} at most.",
                "Send fewer images (--frames), or a shorter text.",
            )
        ids = np.zeros((len(written), longest), np.int64)
        attended = np.zeros(ids.shape, np.bool_)
        for row, (tokens, _) in enumerate(written):
            ids[row, longest - len(tokens) :] = tokens
            attended[row, longest - len(tokens) :] = True
        shown = [part["image"] for each in conversations for part in _parts(each) if part["type"] == "image"]
        pixels = np.stack([self._pixels(image) for image in shown]) if shown else self._blank()
        return EncodedPrompts(ids, attended, pixels, [text for _, text in written])

    def _written(self, conversation: Conversation) -> tuple[list[int], str]:
        """Return tokens and text of a prompt, as chat_template.jinja writes it: the images of a turn before its text."""
        ids, text = [self._begin], str(self._tokenizer.id_to_token(self._begin))
        for turn in conversation.messages:
            mark = ROLES.get(turn["role"], "<|user|>")
            images = sum(part["type"] == "image" for part in turn["content"])
            words = "".join(part["text"] for part in turn["content"] if part["type"] == "text")
            ids += [self._tokenizer.token_to_id(mark), *[self._network.image_id] * self._network.image_tokens * images]
            ids += self._tokenizer.encode(words, add_special_tokens=False).ids
            text += mark + self._image_mark * images + words
            if turn["role"] == "assistant":
                ids.append(self._end)
                text += str(self._tokenizer.id_to_token(self._end))
        return [*ids, self._tokenizer.token_to_id(ROLES["assistant"])], text + ROLES["assistant"]

    def processed(self, width: int, height: int) -> ProcessedImage:
        """Return the size in which the network sees an image."""
        return ProcessedImage(width, height, self._images["size"]["width"], self._images["size"]["height"], self._patch)

    def _pixels(self, image: pillow.Image) -> Floats:
        """Return an RGB image [channels, height, width], resized and normalised as the processor's Pillow path does it."""
        size = self._images["size"]["width"], self._images["size"]["height"]
        resized = image.resize(size, pillow.Resampling(self._images["resample"])) if image.size != size else image
        scaled = np.asarray(resized, np.float32).transpose(2, 0, 1) * np.float32(self._images["rescale_factor"])
        mean, deviation = (np.array(self._images[name], np.float32) for name in ("image_mean", "image_std"))
        made: Floats = (scaled - mean[:, None, None]) / deviation[:, None, None]
        return made

    def _blank(self) -> Floats:
        return np.zeros((0, 3, self._images["size"]["height"], self._images["size"]["width"]), np.float32)

    def generate(
        self, batch: EncodedPrompts, settings: BatchSettings, seeds: Sequence[int], stopped: Callable[[], bool]
    ) -> list[Reply]:
        """Return the replies to the rows of a batch, in their order.

        Args:
            seeds: one a row, used where the settings sample.
            stopped: asked before each token; True ends the batch where it stands.
        """
        prompts = [row[shown].tolist() for row, shown in zip(batch.ids, batch.attended, strict=True)]
        rooms = rooms_for([len(prompt) for prompt in prompts], self.context, settings.max_new_tokens)
        grammar, ends = None, frozenset({self._end})
        if settings.schema is not None:
            from snellen.models.local.grammar import ReplyGrammar  # few runs have a schema

            grammar = ReplyGrammar(settings.schema, self._tokenizer, ends, len(prompts))
        chances = [np.random.default_rng(seed) for seed in seeds] if settings.temperature > 0 else []
        replies: list[list[int]] = [[] for _ in prompts]
        rows, attended, cache = list(range(len(prompts))), batch.attended, []  # type: list[int], Any, list[Any]
        with self._threads.limit(limits=1, user_api="blas"):  # two threads wait for each other longer than they compute
            state = self._network.embedded(batch.ids, self._network.see(batch.pixels))
            while True:
                for row, scores in zip(rows, self._network.read(state, attended, cache), strict=True):
                    scores = _penalised(scores, prompts[row], replies[row], settings)
                    if grammar is not None:
                        scores[grammar.closed(row, replies[row][-1:], len(scores))] = -np.inf
                    drawn = _drawn(scores, settings, chances[row]) if chances else int(scores.argmax())
                    replies[row].append(drawn)
                kept = [at for at, row in enumerate(rows) if not self._has_ended(replies[row], rooms[row], settings)]
                if not kept or stopped():
                    break
                rows = [rows[at] for at in kept]
                cache = [(key[kept], value[kept]) for key, value in cache]
                attended = np.pad(attended[kept], ((0, 0), (0, 1)), constant_values=True)
                state = self._network.embedded(np.array([replies[row][-1:] for row in rows]), np.zeros(0, np.float32))
        return [
            reply_of(self._decode, reply, settings, ends, None, len(prompt), text)
            for reply, prompt, text in zip(replies, prompts, batch.texts, strict=True)
        ]

    def _has_ended(self, reply: list[int], room: int, settings: BatchSettings) -> bool:
        if reply[-1] == self._end or len(reply) >= room:
            return True
        reads = settings.stop or settings.first_json
        return bool(reads) and answer_end(self._decode(reply), settings.stop, settings.first_json) is not None

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))


def _parts(conversation: Conversation) -> list[dict[str, Any]]:
    return [part for turn in conversation.messages for part in turn["content"]]


def _penalised(scores: Floats, prompt: list[int], reply: list[int], settings: BatchSettings) -> Floats:
    """Return scores [vocabulary] after the penalties on tokens of the prompt and the reply, as `local/generate.py` has them."""
    if settings.repetition_penalty not in (None, 1.0):
        seen, penalty = list({*prompt, *reply}), np.float32(settings.repetition_penalty)
        scores[seen] = np.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
    if reply and (settings.presence_penalty or settings.frequency_penalty):
        tokens, counts = np.unique(reply, return_counts=True)
        scores[tokens] -= np.float32(settings.frequency_penalty) * counts + np.float32(settings.presence_penalty)
    return scores


def _drawn(scores: Floats, settings: BatchSettings, chance: np.random.Generator) -> int:
    """Return a token drawn from scores [vocabulary], with the warpers of transformers in their order."""
    scores = scores / np.float32(settings.temperature)
    if settings.top_k is not None:
        scores[scores < np.sort(scores)[-min(settings.top_k, len(scores))]] = -np.inf
    if settings.top_p < 1.0:
        order = np.argsort(scores, kind="stable")
        below = _shares(scores[order]).cumsum() <= 1 - settings.top_p
        scores[order[:-1][below[:-1]]] = -np.inf
    if settings.min_p is not None:
        shares = _shares(scores)
        scores[shares < np.float32(settings.min_p) * shares.max()] = -np.inf
    summed = _shares(scores).cumsum()
    drawn = np.float32(min(chance.random(), BELOW_ONE)) * summed[-1]
    return min(int(np.searchsorted(summed, drawn, side="right")), len(scores) - 1)


def _shares(scores: Floats) -> Floats:
    weights: Floats = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights
