"""Generation of one batch: settings, stopping, sampling, and the replies row by row."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from msgspec import Struct
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

from snellen.models.local.checkpoint import Loaded
from snellen.models.local.kv_cache import StaticDecoding, compile_errors
from snellen.types import Generation

DEFAULT_MAX_NEW_TOKENS = 1024  # where neither the user, the benchmark nor the checkpoint says how long an answer may be
_SET_ASIDE = ("cache_implementation", "temperature", "top_p", "top_k", "min_p", "typical_p")


class BatchSettings(Struct, frozen=True):
    """Settings that the rows of one batch share.

    `extra` and `template` are JSON of further arguments of `generate`, and of arguments of the chat template; `schema` is
    that of the reply.
    `repetition_penalty` None: that of the checkpoint.
    """

    max_new_tokens: int
    temperature: float
    top_p: float
    stop: tuple[str, ...]
    first_json: bool
    extra: str
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    template: str = "{}"
    schema: str | None = None


class Reply(Struct, frozen=True):
    """The reply of one row to `prompt`, as the chat template wrote it. Input tokens include those of the images."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str
    prompt: str


def settings_for(generation: Generation, first_json: bool, own_limit: int | None) -> BatchSettings:
    """Return BatchSettings of one prompt, from what the run and the prompt ask for together and the checkpoint's length limit.

    Greedy unless a temperature above 0, or top_p, top_k or min_p, is asked for: the same question gets the same answer.
    """
    temperature = generation.temperature
    if temperature is None:
        unset = (generation.top_p, generation.top_k, generation.min_p) == (None, None, None)
        temperature = 0.0 if unset else 1.0
    return BatchSettings(
        max_new_tokens=generation.max_tokens or own_limit or DEFAULT_MAX_NEW_TOKENS,
        temperature=temperature,
        top_p=1.0 if generation.top_p is None else generation.top_p,
        stop=generation.stop,
        first_json=first_json or generation.reply_schema is not None,
        extra=json.dumps(dict(generation.extra), sort_keys=True),
        top_k=generation.top_k,
        min_p=generation.min_p,
        repetition_penalty=generation.repetition_penalty,
        presence_penalty=generation.presence_penalty or 0.0,
        frequency_penalty=generation.frequency_penalty or 0.0,
        template=json.dumps(dict(generation.chat_template_kwargs), sort_keys=True),
        schema=None if generation.reply_schema is None else json.dumps(generation.reply_schema),
    )


def row_seed(seed: int, content: bytes) -> int:
    """Return seed of one row: it depends on what is asked and never on what else is in the batch."""
    material = f"{seed}/".encode() + content
    return int.from_bytes(hashlib.blake2b(material, digest_size=8).digest(), "big")


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
    rooms = _rooms(inputs["attention_mask"].sum(dim=1).tolist(), loaded.context, settings.max_new_tokens)
    longest = max(rooms)
    watch = _Watch(tokenizer, settings, width, rooms, stopped)
    config = _config(model.generation_config, longest, tokenizer.pad_token_id)
    extra = json.loads(settings.extra)
    penalty, config.repetition_penalty = config.repetition_penalty, 1.0  # ours does not see the padding of the batch
    if settings.repetition_penalty is not None or "repetition_penalty" in extra:
        penalty = settings.repetition_penalty
    steps = [*_penalties(settings, penalty, inputs["attention_mask"])]
    if settings.schema is not None:
        from snellen.models.local.grammar import SchemaMask  # few runs have a schema

        steps.append(
            SchemaMask(settings.schema, tokenizer, _end_tokens(model.generation_config, tokenizer), count, width)
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
        _reply(tokenizer, rows[row], settings, ends, watch.stopped_at[row], prompt_tokens[row], prompts[row])
        for row in range(len(prompts))
    ]


def _reply(
    tokenizer: Any,
    ids: list[int],
    settings: BatchSettings,
    ends: frozenset[int],
    stopped_at: int | None,
    prompt_tokens: int,
    prompt: str,
) -> Reply:
    ended = next((index + 1 for index, token in enumerate(ids) if token in ends), None)
    ids = ids[: min(len(ids), *(end for end in (ended, stopped_at) if end is not None), len(ids))]
    text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    ends_early = settings.stop or settings.first_json
    cut = answer_end(text, settings.stop, settings.first_json) if ends_early else None
    finished = ended is not None or cut is not None
    return Reply(text if cut is None else text[:cut], prompt_tokens, len(ids), "stop" if finished else "length", prompt)


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


def _rooms(prompt_tokens: Sequence[int], context: int | None, max_new_tokens: int) -> list[int]:
    """Return how many tokens the answer of each row may have: the limit, or what its prompt leaves of the context."""
    if context is None:
        return [max_new_tokens] * len(prompt_tokens)
    return [min(max_new_tokens, context - tokens) for tokens in prompt_tokens]


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


BELOW_ONE = 1.0 - 2.0**-24
"""The greatest float32 below 1."""


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
        self, tokenizer: Any, settings: BatchSettings, width: int, rooms: list[int], stopped: Callable[[], bool]
    ) -> None:
        self.stopped_at: list[int | None] = [None] * len(rooms)
        self._rooms = rooms
        self._shortest = min(rooms)
        self._tokenizer = tokenizer
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
                    text = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
                    if answer_end(text, self._settings.stop, self._settings.first_json) is not None:
                        self.stopped_at[row] = len(ids)
                done[row] |= self.stopped_at[row] is not None
        return done


THINKING, THOUGHT = "<think>", "</think>"
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
_TOKEN = re.compile(
    rf'[ \t\n\r]*(?:(?P<string>{_STRING}")|(?P<sign>[{{}}\[\]:,])'
    r"|(?P<other>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity))"
)
_CUT_STRING = re.compile(rf"[ \t\n\r]*{_STRING}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z")


def answer_end(text: str, stop: Sequence[str], first_json: bool) -> int | None:
    """Return the number of characters of `text` that are the answer; None while it has not ended.

    A stop string ends the answer before itself, as in the OpenAI protocol; a JSON object ends it after its last brace.
    The earliest end counts.
    """
    ends = [at for at in (text.find(word) for word in stop) if at >= 0]
    if first_json and (json_end := first_json_end(text)) is not None:
        ends.append(json_end)
    return min(ends, default=None)


def first_json_end(text: str) -> int | None:
    """Index after the first whole JSON object at the top level of `text`; None if there is none yet.

    Braces inside strings do not count. Braces that hold no JSON (`{x}`, `\\boxed{5}`) are passed over up to the place
    where they are none, and so is what stands between `<think>` and `</think>` before the object. Takes time
    proportional to the length of the text.
    """
    start = 0
    while (opened := text.find("{", start)) >= 0:
        thinking = text.find(THINKING, start, opened)
        if thinking >= 0:
            start = text.find(THOUGHT, thinking)
            if start < 0:
                return None
            continue
        is_whole, start = _read_object(text, opened)
        if is_whole:
            return start
    return None


def _read_object(text: str, opened: int) -> tuple[bool, int]:
    """Read JSON from the brace at `opened`; return True and the index after its end, or False and where it is no JSON.

    An object that the end of the text cuts is no JSON from there on.
    """
    at, wanted = opened + 1, "key }"
    closers = ["}"]
    while token := _TOKEN.match(text, at):
        sign = token["sign"]
        if sign == closers[-1] and wanted in ("key }", "value ]", ","):
            closers.pop()
            wanted = ","
        elif wanted.startswith("key") and token["string"]:
            wanted = ":"
        elif wanted == ":" == sign:
            wanted = "value"
        elif wanted == "," == sign:
            wanted = "key" if closers[-1] == "}" else "value"
        elif wanted.startswith("value") and sign in ("{", "["):
            closers.append("}" if sign == "{" else "]")
            wanted = "key }" if sign == "{" else "value ]"
        elif wanted.startswith("value") and sign is None:
            wanted = ","
        else:
            return False, at
        at = token.end()
        if not closers:
            return True, at
    return False, len(text) if _CUT_STRING.match(text, at) else at
