"""Generation of one batch by transformers: stopping, penalties and sampling, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from snellen.errors import BadRequestError
from snellen.models.local.checkpoint import Loaded
from snellen.models.local.kv_cache import StaticDecoding, compile_errors
from snellen.models.local.replies import BELOW_ONE, BatchSettings, Reply, answer_end, reply_of, rooms_for

_SET_ASIDE = ("cache_implementation", "temperature", "top_p", "top_k", "min_p", "typical_p")


def generate(
    loaded: Loaded,
    inputs: Any,
    settings: BatchSettings,
    seeds: Sequence[int],
    prompts: Sequence[str],
    stopped: Callable[[], bool],
    static: StaticDecoding | None = None,
) -> list[Reply]:
    """Return answers to the rows of `inputs`, in their order.

    Args:
        inputs: what the processor made of the prompts: input_ids [rows, tokens] padded on the left, and images. Rows
            beyond those of `prompts` only fill the batch; they are copies of the first one and have no reply.
        seeds: one a prompt, used where the settings sample.
        prompts: the rows as text, handed through to the replies.
        stopped: asked before each token; True ends the batch where it stands.
        static: the cache of fixed length; None: the cache grows with the answer.

    Raises:
        BadRequestError: further arguments of `generate` that a static cache cannot be combined with.
        ModelError: torch.compile failed.
    """
    model, tokenizer = loaded.model, loaded.processor.tokenizer
    inputs = inputs.to(model.device, dtype=model.dtype)
    count, width = inputs["input_ids"].shape
    seeds = [*seeds, *[seeds[0]] * (count - len(seeds))]
    rooms = rooms_for(inputs["attention_mask"].sum(dim=1).tolist(), loaded.context, settings.max_new_tokens)
    longest = max(rooms)
    decode = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    watch = _Watch(decode, settings, width, rooms, stopped)
    config = _config(model.generation_config, longest, tokenizer.pad_token_id)
    extra = json.loads(settings.extra)
    penalty, config.repetition_penalty = config.repetition_penalty, 1.0  # ours does not see the padding of the batch
    if settings.repetition_penalty is not None or "repetition_penalty" in extra:
        penalty = settings.repetition_penalty
    steps = [*_penalties(settings, penalty, inputs["attention_mask"])]
    if settings.schema is not None:
        steps.append(
            _SchemaMask(settings.schema, tokenizer, _end_tokens(model.generation_config, tokenizer), count, width)
        )
    steps += _sampling(settings, seeds, model.device)
    with (
        torch.inference_mode(loaded.inference_mode),
        torch.no_grad(),
    ):  # in this order: leaving inference mode turns gradients on
        cache = {} if static is None else static.arguments(config, extra, count, width + longest)
        with nullcontext() if static is None else compile_errors(), _own_settings_ignored(model.generation_config):
            output = model.generate(
                **inputs,
                **cache,
                generation_config=config,
                stopping_criteria=StoppingCriteriaList([watch]),
                logits_processor=LogitsProcessorList(steps),
                **extra,
            )
    rows = output[:, width:].tolist()
    prompt_tokens = inputs["attention_mask"].sum(dim=1).tolist()
    ends = _end_tokens(model.generation_config, tokenizer)
    return [
        reply_of(decode, rows[row], settings, ends, watch.stopped_at[row], prompt_tokens[row], prompts[row])
        for row in range(len(prompts))
    ]


class _SchemaMask(LogitsProcessor):
    """Masks the tokens of a batch with which no reply by the schema goes on. `width`: tokens of the prompts."""

    def __init__(self, schema: str, tokenizer: Any, ends: frozenset[int], rows: int, width: int) -> None:
        from snellen.models.local.grammar import ReplyGrammar  # few runs have a schema

        if (backend := getattr(tokenizer, "backend_tokenizer", None)) is None:
            raise BadRequestError("--schema: the checkpoint's tokenizer cannot be used: it is not a fast one")
        self._grammar, self._rows, self._read = ReplyGrammar(schema, backend, ends, rows), rows, width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if len(input_ids) != self._rows:
            raise ValueError("a schema cannot be combined with num_beams")
        new = input_ids[:, self._read :].tolist()
        self._read = input_ids.shape[1]
        closed = [self._grammar.closed(row, tokens, scores.shape[1]) for row, tokens in enumerate(new)]
        return scores.masked_fill(torch.from_numpy(np.stack(closed)).to(scores.device), -torch.inf)


@contextmanager
def _own_settings_ignored(own: GenerationConfig) -> Iterator[None]:
    """Set aside a checkpoint's cache and sampling, which `generate` would fill in again: --kv-cache and `_sampling` decide.

    The cache of Gemma 3 is static, and transformers compiles it on CUDA. Of sampling it would warn that it is ignored.
    """
    before = {name: getattr(own, name) for name in _SET_ASIDE}
    try:
        for name in _SET_ASIDE:
            setattr(own, name, None)
        yield
    finally:
        for name, value in before.items():
            setattr(own, name, value)


def _config(own: GenerationConfig, max_new_tokens: int, pad: int | None) -> GenerationConfig:
    """Return the checkpoint's own settings (end tokens, repetition penalty), but greedy and of the length asked for."""
    config = GenerationConfig.from_dict(own.to_dict())
    config.do_sample = False
    config.max_new_tokens = max_new_tokens
    config.max_length = None
    for name in _SET_ASIDE:
        setattr(config, name, None)
    if config.pad_token_id is None:
        config.pad_token_id = pad
    return config


def _end_tokens(config: GenerationConfig, tokenizer: Any) -> frozenset[int]:
    ends = config.eos_token_id if config.eos_token_id is not None else tokenizer.eos_token_id
    return frozenset([ends] if isinstance(ends, int) else ends or [])


def _penalties(settings: BatchSettings, repetition: float | None, attended: torch.Tensor) -> list[LogitsProcessor]:
    """Return the penalties on tokens; `attended` [rows, tokens of the prompts] is 0 at padding."""
    steps: list[LogitsProcessor] = []
    if repetition not in (None, 1.0):
        steps.append(_RepetitionPenalty(float(repetition), attended))
    if settings.presence_penalty or settings.frequency_penalty:
        steps.append(_ReplyPenalties(settings.presence_penalty, settings.frequency_penalty, attended.shape[1]))
    return steps


def _sampling(settings: BatchSettings, seeds: Sequence[int], device: Any) -> list[LogitsProcessor]:
    """Return what transformers' own sampling does to scores, in its order, and the draw; nothing for greedy decoding."""
    if settings.temperature <= 0:
        return []
    steps: list[LogitsProcessor] = []
    if settings.temperature != 1.0:
        steps.append(TemperatureLogitsWarper(settings.temperature))
    if settings.top_k is not None:
        steps.append(TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1.0:
        steps.append(TopPLogitsWarper(settings.top_p))
    if settings.min_p is not None:
        steps.append(MinPLogitsWarper(settings.min_p))
    return [*steps, _Draw(seeds, device)]


class _RepetitionPenalty(LogitsProcessor):
    """transformers' repetition penalty over prompt and reply, but not over the padding that a row has for its neighbours."""

    def __init__(self, penalty: float, attended: torch.Tensor) -> None:
        self._penalty = RepetitionPenaltyLogitsProcessor(penalty)
        self._padding = attended == 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        rows, width = self._padding.shape
        prompts = input_ids[:, :width]
        padding = self._padding.repeat_interleave(len(input_ids) // rows, dim=0)  # beams of a row follow each other
        prompts = torch.where(padding, prompts[:, -1:], prompts)  # the last token of a prompt is never padding
        return self._penalty(torch.cat([prompts, input_ids[:, width:]], dim=1), scores)  # type: ignore[no-any-return]


class _ReplyPenalties(LogitsProcessor):
    """Presence and frequency penalties over the tokens of the reply.

    Source: OpenAI's API guide, frequency and presence penalties: score - count * frequency - (count > 0) * presence.
    """

    def __init__(self, presence: float, frequency: float, width: int) -> None:
        self._presence, self._frequency, self._width = presence, frequency, width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        reply = input_ids[:, self._width :]
        counts = torch.zeros_like(scores).scatter_add_(1, reply, torch.ones_like(reply, dtype=scores.dtype))
        return scores - self._frequency * counts - self._presence * (counts > 0)


class _Draw(LogitsProcessor):
    """Draws each row's token by inverting its distribution at a random number of its own.

    torch.multinomial takes one generator for the whole batch, so an answer would depend on its neighbours.
    """

    def __init__(self, seeds: Sequence[int], device: Any) -> None:
        self._chance = [np.random.default_rng(seed) for seed in seeds]
        self._device = device

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if scores.shape[0] != len(self._chance):
            raise ValueError("a temperature cannot be combined with num_beams")
        # In float32 a draw may round up to 1, which no token's share of the distribution holds.
        chances = [[min(chance.random(), BELOW_ONE)] for chance in self._chance]
        drawn = torch.tensor(chances, dtype=torch.float32, device=scores.device)
        summed = scores.float().softmax(dim=-1).cumsum(dim=-1)
        token = torch.searchsorted(summed, drawn * summed[:, -1:], right=True).clamp_(max=scores.shape[-1] - 1)
        return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)


class _Watch(StoppingCriteria):
    """Ends a row at its stop string or JSON object or its last token, and the batch when nobody waits for it any more."""

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        settings: BatchSettings,
        width: int,
        rooms: list[int],
        stopped: Callable[[], bool],
    ) -> None:
        self.stopped_at: list[int | None] = [None] * len(rooms)
        self._rooms = rooms
        self._shortest = min(rooms)
        self._decode = decode
        self._settings = settings
        self._width = width
        self._stopped = stopped
        self._reads = bool(settings.stop) or settings.first_json

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        done = torch.full((input_ids.shape[0],), self._stopped(), dtype=torch.bool, device=input_ids.device)
        written = input_ids.shape[1] - self._width
        if written >= self._shortest and input_ids.shape[0] == len(self.stopped_at):
            for row, room in enumerate(self._rooms):
                if written >= room and self.stopped_at[row] is None:
                    self.stopped_at[row] = written
                done[row] |= written >= room
        if self._reads and input_ids.shape[0] == len(self.stopped_at):
            rows = input_ids[:, self._width :].tolist()
            for row, ids in enumerate(rows):
                if self.stopped_at[row] is None:
                    text = self._decode(ids)
                    if answer_end(text, self._settings.stop, self._settings.first_json) is not None:
                        self.stopped_at[row] = len(ids)
                done[row] |= self.stopped_at[row] is not None
        return done
