"""A checkpoint in an engine inside this process: prompts are rendered here, and the engine batches them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from snellen.errors import BadRequestError, DataError, InputError, ModelError, PreflightError, UsageError
from snellen.media import MediaCache
from snellen.models.base import Model, ModelOptions
from snellen.models.local.adapters import Adapter, find_adapter, require_engine
from snellen.models.local.chat_template import (
    Conversation,
    content_digest,
    converse,
    omitted_by_template,
    require_accepted,
    require_arguments,
    require_written,
)
from snellen.models.local.checkpoint import Checkpoint, find
from snellen.models.local.own_sampling import OwnSampling
from snellen.models.local.replies import row_seed, settings_for
from snellen.sources import cache_folder
from snellen.types import Generation, Prompt, Response, Usage

IN_FLIGHT = 64
"""Prompts that keep an engine busy. Each holds its images in memory until it is answered."""
SEED_BITS = 31
"""Engines take seeds of 32-bit signed integers."""


class EngineStart(Struct, frozen=True):
    """Arguments with which an engine is started.

    Attributes:
        folder: the checkpoint's folder.
        dtype: auto, float32, bfloat16 or float16.
        seed: the run's seed.
        arguments: the user's own, by the engine's names.
        adapter: over the checkpoint, in each request.
    """

    folder: str
    dtype: str
    seed: int
    arguments: Mapping[str, Any]
    adapter: Adapter | None = None


class EngineRequest(Struct, frozen=True):
    """One prompt for an engine: its text as the chat template writes it, with one marker an image, and the images (PIL)."""

    text: str
    images: list[Any]
    settings: EngineSampling


class EngineSampling(Struct, frozen=True):
    """Sampling settings of one prompt. `extra` holds further settings by the engine's names, `schema` that of the reply."""

    max_new_tokens: int
    temperature: float
    top_p: float
    stop: tuple[str, ...]
    seed: int | None
    extra: Mapping[str, Any]
    schema: Mapping[str, Any] | None = None


class EngineReply(Struct, frozen=True):
    """What an engine answered; `finish_reason` is stop, length, or empty where the engine names none."""

    text: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    finish_reason: str


class Engine(Protocol):
    """An inference engine in this process."""

    def start(self, start: EngineStart) -> None:
        """Start the engine. Called once, inside the event loop, which it may block. Raises whatever the engine raises."""

    async def generate(self, request: EngineRequest) -> EngineReply:
        """Answer one prompt.

        Raises:
            ModelError: the engine refused or lost it.
            ValueError, TypeError: the engine does not accept the prompt or its settings.
        """

    def stop(self) -> None:
        """Stop the engine and its processes. Called even if `start` failed."""


class EngineModel(Model):
    """A checkpoint in vLLM or SGLang, inside this process.

    Args:
        kind: vllm or sglang.
        name: a folder with `config.json` and safetensors weights, or a hub id `owner/name`.
        options: what the user set; `require_usable` has accepted it.
        engine: the engine.
    """

    def __init__(self, kind: str, name: str, options: ModelOptions, engine: Engine) -> None:
        self.name = f"{kind}:{name}"
        self.in_flight = IN_FLIGHT
        self.seed = options.seed
        self._kind, self._path, self._options, self._engine = kind, name, options, engine
        if options.media.video == "native":
            raise UsageError(
                f"--video native: {kind}: takes frames alone here.", "Omit it, or serve the model: api:NAME."
            )
        self._media = MediaCache(options.media, shared=cache_folder() / "frames")
        self._checkpoint: Checkpoint | None = None
        self._adapter: Adapter | None = None
        self._processor: Any = None
        self._control_tokens: tuple[str, ...] = ()
        self._omitted: frozenset[str] = frozenset()
        self._own_limit: int | None = None
        self.supports = frozenset({"system", "history", "schema"})
        self._starting = asyncio.Lock()
        self._state = "new"

    def identity(self) -> Mapping[str, Any]:
        """Return engine, content of the checkpoint, precision and the engine's arguments: what can change an answer.

        Raises PreflightError where the checkpoint or the adapter cannot be found or used.
        """
        return {
            "kind": self._kind,
            **self._find().origin,
            **({} if self._adapter is None else {"adapter": self._adapter.digest}),
            "dtype": self._options.dtype,
            "engine_args": dict(self._options.engine_args),
            **({"sampling": own} if (own := self._sampling.fields) else {}),
        }

    async def preflight(self) -> None:
        """Find and check the checkpoint, and start the engine. Raises PreflightError."""
        await self._start()

    async def answer(self, prompt: Prompt) -> Response:
        """Return one reply.

        Raises:
            InputError: an image of this prompt cannot be read.
            BadRequestError: the prompt is too long, holds control tokens of the model, or the engine refuses a setting.
            ModelError: the engine failed on this prompt, or was closed.
        """
        began = time.perf_counter()
        if self._state != "ready":
            await self._start()
        try:
            conversation = await asyncio.to_thread(converse, prompt, self._media.settings, self._media.frames)
        except DataError as error:
            raise InputError(error.message, error.hint) from error
        request = self._request(prompt, conversation)
        try:
            reply = await self._engine.generate(request)
        except (ValueError, TypeError) as error:
            raise BadRequestError(f"the engine does not accept this prompt or these settings: {error}") from error
        except (ModelError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise ModelError(f"the engine failed on this prompt: {type(error).__name__}: {error}") from error
        return Response(
            text=reply.text,
            usage=Usage(
                input_tokens=reply.input_tokens, output_tokens=reply.output_tokens, cached_tokens=reply.cached_tokens
            ),
            latency_s=time.perf_counter() - began,
            finish_reason=reply.finish_reason,
            model=self.name,
            trace={
                "request": {
                    "prompt": request.text,
                    "pictures": msgspec.to_builtins(conversation.images),
                    "sampling": msgspec.to_builtins(request.settings),
                },
                "reply": {"text": reply.text},
            },
        )

    def may_differ(self, prompt: Prompt) -> bool:
        """Return False for a prompt that is decoded greedily."""
        return settings_for(self._sampling.of(prompt.generation), first_json=False, own_limit=None).temperature > 0

    async def executed(self) -> Mapping[str, Any] | None:
        """Return the engine's version, which may change answers by rounding and is recorded, not compared."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return {"engine": self._kind, "version": version(self._kind), **self._sampling.facts()}
        except PackageNotFoundError:
            return {"engine": self._kind, "version": None, **self._sampling.facts()}

    async def close(self) -> None:
        """Stop the engine. A later `answer` fails with ModelError."""
        if self._state in ("ready", "failed"):
            self._engine.stop()
        self._state = "closed"
        self._processor = None
        self._media.close()

    @cached_property
    def _sampling(self) -> OwnSampling:
        """Return what samples. Raises PreflightError."""
        return OwnSampling(self._options, self._find().folder, self.name)

    def _find(self) -> Checkpoint:
        if self._checkpoint is None:
            if self._options.adapter is not None:
                self._adapter = find_adapter(self._options.adapter)
                require_engine(self._adapter, self._kind)
            self._checkpoint = find(self._path, self._options.revision)
        return self._checkpoint

    async def _start(self) -> None:
        async with self._starting:
            if self._state == "closed":
                raise ModelError("the model is closed and takes no more prompts.")
            if self._state == "ready":
                return
            checkpoint = await asyncio.to_thread(self._find)
            await asyncio.to_thread(self._load_processor, checkpoint)
            arguments = dict(self._options.engine_args)
            start = EngineStart(
                str(checkpoint.folder), self._options.dtype, self._options.seed, arguments, self._adapter
            )
            try:
                self._engine.start(start)
            except Exception as error:
                self._state = "failed"
                raise PreflightError(
                    f"{self._kind} did not start with {self._path}: {type(error).__name__}: {error}",
                    "Check the engine's own log above; pass its arguments with --engine-args JSON.",
                ) from error
            self._state = "ready"

    def _load_processor(self, checkpoint: Checkpoint) -> None:
        import transformers

        try:
            processor: Any = transformers.AutoProcessor.from_pretrained(  # type: ignore[no-untyped-call]
                checkpoint.folder, trust_remote_code=False, local_files_only=True
            )
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise PreflightError(
                f"{self._path}: its processor cannot be loaded: {type(error).__name__}: {error}",
                "Check the files of the checkpoint.",
            ) from error
        try:
            limits: Any = transformers.GenerationConfig.from_pretrained(checkpoint.folder, local_files_only=True)
            self._own_limit = limits.max_new_tokens
        except (OSError, ValueError):
            self._own_limit = None  # a checkpoint without generation_config.json, or one that names no limit
        if getattr(processor, "chat_template", None) is None and processor.tokenizer.chat_template is None:
            raise PreflightError(
                f"{self._path} has no chat template.",
                "Add chat_template.jinja to the folder, or use another checkpoint.",
            )
        require_arguments(processor, self._options.generation.chat_template_kwargs, self.name)
        require_accepted(processor, self._options.generation.chat_template_kwargs, self.name)
        self._omitted = omitted_by_template(processor)
        self._processor = processor
        self._control_tokens = tuple(sorted(map(str, processor.tokenizer.all_special_tokens)))

    def _request(self, prompt: Prompt, conversation: Conversation) -> EngineRequest:
        """Render a prompt. Raises BadRequestError for what the template omits and for a control token of the model."""
        require_written(prompt, self._omitted, self.name)
        texts = [part["text"] for message in conversation.messages for part in message["content"] if "text" in part]
        if token := next((token for token in self._control_tokens if any(token in text for text in texts)), None):
            raise BadRequestError(
                f"the question holds {token!r}, a control token of this model, which an engine would not read as text.",
                "Use --model local:NAME for such questions.",
            )
        generation = self._sampling.of(prompt.generation)
        require_arguments(self._processor, generation.chat_template_kwargs, self.name, BadRequestError)
        try:
            text = self._processor.apply_chat_template(
                conversation.messages, add_generation_prompt=True, tokenize=False, **generation.chat_template_kwargs
            )
        except Exception as error:  # a template may raise anything on what it does not accept
            raise BadRequestError(f"the chat template does not accept this prompt: {error}") from error
        images = [part["image"] for message in conversation.messages for part in message["content"] if "image" in part]
        return EngineRequest(text, images, self._settings(generation, prompt, conversation))

    def _settings(self, generation: Generation, prompt: Prompt, conversation: Conversation) -> EngineSampling:
        """Return the settings of one prompt, greedy or sampled as for local models. Both engines have our names of them."""
        settings = settings_for(generation, first_json=False, own_limit=self._own_limit)
        seed = None
        if settings.temperature > 0:
            run_seed = self._options.seed if generation.seed is None else generation.seed
            seed = row_seed(run_seed, content_digest(prompt, conversation)) % 2**SEED_BITS
        more = {name: value for name, value in generation.more_sampling().items() if name != "chat_template_kwargs"}
        return EngineSampling(
            settings.max_new_tokens,
            settings.temperature,
            settings.top_p,
            settings.stop,
            seed,
            {**more, **generation.extra},
            generation.reply_schema,
        )
