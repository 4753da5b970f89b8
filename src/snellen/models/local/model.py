"""The local model: what it refuses, and how it answers: `answer` puts a prompt into the queue, a batch brings the reply back."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from snellen.errors import BadRequestError, MissingExtraError, ModelError, PreflightError, SnellenError, UsageError
from snellen.installation import install_hint
from snellen.media import MediaCache, check_settings
from snellen.models.base import AUTO, CHECKPOINT, Model, ModelOptions
from snellen.models.local.adapters import Adapter, LoadedAdapters, find_adapter
from snellen.models.local.batching import Batches, Job
from snellen.models.local.chat_template import (
    MOST_SIZES,
    Conversation,
    content_digest,
    converse,
    encode,
    omitted_by_template,
    processed_images,
    rendered,
    require_accepted,
    require_arguments,
    require_written,
    size_of,
)
from snellen.models.local.checkpoint import (
    VIDEO_PART,
    Checkpoint,
    NoVideoPart,
    find,
    is_out_of_memory,
    release_memory,
)
from snellen.models.local.native_video import LOSSLESS, native_clip
from snellen.models.local.own_sampling import OwnSampling
from snellen.models.local.replies import Reply, row_seed, settings_for
from snellen.sources import cache_folder
from snellen.types import Image, ProcessedImage, Prompt, Response, Usage, Video

if TYPE_CHECKING:
    from snellen.models.local.checkpoint import Loaded
    from snellen.models.local.kv_cache import StaticDecoding

KV_CACHES = ("auto", "dynamic", "static")
DTYPES = ("auto", "float32", "bfloat16", "float16")
_DRAWN_HERE = ("do_sample", "temperature", "top_p", "top_k", "min_p")
BATCHES_IN_FLIGHT = 5
"""One batch is answered, one encoded, the images of one are read; prompts of similar length are chosen from the others."""


def open_model(name: str, options: ModelOptions, label: str | None = None) -> LocalModel:
    """Return the model behind `--model local:NAME`. Cheap: `preflight` looks for files and reads weights.

    Args:
        name: a folder with `config.json` and safetensors weights, or a hub id `owner/name`.
        options: what the user set.
        label: the model's `name` in records and reports; `local:NAME` if None.

    Raises:
        MissingExtraError: torch, transformers, or peft for an adapter, is not installed.
        UsageError: no name, an option that a local model cannot use, or an unknown dtype or device.
    """
    for package in ("torch", "transformers", *(("peft",) if options.adapter else ())):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"a local model needs {package}, which is not installed.",
                install_hint("local"),
            )
    if not name:
        raise UsageError("no model is named.", "Write --model local:NAME, with a folder or a hub id owner/name.")
    require_usable(options)
    return LocalModel(name, options, label or f"local:{name}")


def has_static_cache(options: ModelOptions) -> bool:
    """Return True if answers are decoded with a cache of fixed length; `auto` is one only for compiled decoding."""
    return options.kv_cache == "static" or options.compile


def require_usable(options: ModelOptions, *, in_memory: bool = False) -> None:
    """Raise UsageError for an option that a local model cannot use; one in memory has a device and precision already."""
    if in_memory and options.compile:
        raise UsageError(
            "compile is set, but a model in memory would stay compiled after the run.",
            "Omit compile, or evaluate the saved checkpoint as local:PATH.",
        )
    if in_memory:
        if options.sampling in (AUTO, CHECKPOINT):
            raise UsageError(
                f"sampling is {options.sampling!r}, but a model in memory has no generation_config.json.",
                "Omit it, choose greedy or a recipe, or pass generation=Generation(temperature=…).",
            )
        own = {"device": options.device != "auto", "dtype": options.dtype != "auto", "revision": bool(options.revision)}
        own["adapter"] = options.adapter is not None
        for name in (name for name, is_set in own.items() if is_set):
            raise UsageError(
                f"{name} is {getattr(options, name)!r}, but a model in memory keeps its own.",
                f"Omit {name}; move or convert the model before the call.",
            )
    remote = {
        "--base-url": options.base_url,
        "--key-env": options.key_env,
        "--extra-body": options.extra_body,
        "--prices": options.prices,
    }
    for flag, value in remote.items():
        if value:
            raise UsageError(
                f"{flag} is for models behind an endpoint; a local model does not use it.",
                f"Omit {flag}, or name the model as api:NAME.",
            )
    if options.media.format != "original":
        raise UsageError(
            f"images are to be sent as {options.media.format}, but a local model takes pixels, not files.",
            "Omit --image-format for local models.",
        )
    if options.dtype not in DTYPES:
        raise UsageError(f"dtype {options.dtype!r} is not known.", f"Choose one of: {', '.join(DTYPES)}.")
    if options.kv_cache not in KV_CACHES:
        raise UsageError(f"--kv-cache {options.kv_cache!r} is not known.", f"Choose one of: {', '.join(KV_CACHES)}.")
    if options.compile and options.kv_cache == "dynamic":
        raise UsageError("--compile needs a static cache.", "Omit --kv-cache dynamic, or omit --compile.")
    kind, _, index = options.device.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (index and not (kind == "cuda" and index.isdecimal())):
        raise UsageError(f"device {options.device!r} is not known.", "Choose one of: auto, cpu, cuda, cuda:N, mps.")
    if options.batch_size < 1:
        raise UsageError(f"--batch-size {options.batch_size} is too small.", "Choose a batch size of 1 or more.")


@dataclass(frozen=True)
class RowContent:
    """A prompt with its images read, and the seed of its row."""

    conversation: Conversation
    seed: int


@dataclass(frozen=True)
class EncodedBatch:
    """Tensors of a batch, and its prompts as the chat template writes them."""

    inputs: Any
    prompts: list[str]


@dataclass
class SharedWeights:
    """A loaded checkpoint that several models use in turn, with other settings and adapters each."""

    loaded: Loaded | None = None
    adapters: LoadedAdapters = field(default_factory=LoadedAdapters)


class LocalModel(Model):
    """A checkpoint on this machine's own processor or accelerator.

    Greedy answers do not depend on the batch they were made in, but for the rounding of padded sums: in float32 they
    were equal for every batch size tried; in bfloat16 and float16 a near tie between two tokens can fall either way.
    """

    def __init__(self, name: str, options: ModelOptions, label: str) -> None:
        if dropped := next((name for name in _DRAWN_HERE if name in options.generation.extra), None):
            raise UsageError(
                f"Generation.extra holds {dropped!r}, which generate would ignore: the tokens are drawn here.",
                "Set it as a field: Generation(temperature=…, top_k=…).",
            )
        self.name = label
        self.seed = options.seed
        self.sampling = options.sampling
        self.in_flight = BATCHES_IN_FLIGHT * options.batch_size
        self._path = name
        self._options = options
        self._media = check_settings(options.media)
        self._clips: MediaCache | None = None
        self._making_clips = threading.Lock()
        self._loading = threading.Lock()
        self._checkpoint: Checkpoint | None = None
        self._adapter: Adapter | None = None
        self._adapters = LoadedAdapters()
        self._active: str | None = None
        self._loaded: Loaded | None = None
        self._batches: Batches[Reply] | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._closed = False
        self._shared = SharedWeights()
        self._sent: Counter[tuple[int, int]] = Counter()
        self._omitted: frozenset[str] | None = None
        self._static: StaticDecoding | None = None
        self.supports = frozenset({"system"} if label == "embedded" else {"system", "history"})
        if find_spec("llguidance") is not None:  # the extra `structured`
            self.supports |= {"schema"}

    def share(self, weights: SharedWeights) -> None:
        """Use the checkpoint in `weights`, or load it into there. It stays loaded when this model is closed.

        The other models must be of the same files, revision, device and dtype.
        """
        self._shared = weights

    @property
    def batch_limit(self) -> int:  # type: ignore[override]
        """Prompts that a batch holds at most by now: fewer than was asked for once memory ran out."""
        return self._options.batch_size if self._batches is None else self._batches.limit

    def identity(self) -> Mapping[str, Any]:
        """Return content of checkpoint and adapter (never their place), precision and stopping: what can change an answer.

        Raises PreflightError where one of them cannot be found or used.
        """
        return {
            "kind": "local",
            **self._found().origin,
            **({} if (adapter := self._found_adapter()) is None else {"adapter": adapter.digest}),
            "dtype": self._dtype(),
            "stop_after_first_json": self._options.stop_after_first_json,
            **self._decoding(),
            **({"sampling": own} if (own := self._sampling.fields) else {}),
        }

    def _dtype(self) -> str:
        """Return the precision that the weights are computed in."""
        from snellen.models.local.checkpoint import pick_device, pick_dtype, stored_dtype

        return pick_dtype(self._options.dtype, pick_device(self._options.device), stored_dtype(self._found().config))

    @cached_property
    def _sampling(self) -> OwnSampling:
        """Return what samples. Raises PreflightError."""
        folder = self._found().folder if self._path else None  # weights that were shared may have none
        return OwnSampling(self._options, folder, self.name)

    def _decoding(self) -> dict[str, Any]:
        """Return cache and compilation where they are not the usual ones: near ties may fall the other way with them."""
        decoding: dict[str, Any] = {"kv_cache": "static"} if has_static_cache(self._options) else {}
        return {**decoding, "compile": True} if self._options.compile else decoding

    async def preflight(self) -> None:
        """Find, check and load the checkpoint. Raises PreflightError."""
        await asyncio.to_thread(self._start)

    async def answer(self, prompt: Prompt) -> Response:
        """Return one reply; `latency_s` counts from the moment the prompt was handed in, its wait for a batch included.

        Raises:
            InputError: an image of this prompt cannot be read.
            BadRequestError: the prompt is longer than the model's context, or its chat template or generate refuses it.
            OutOfMemoryError: this prompt alone does not fit into memory.
            ModelError: the model failed on this prompt, or was closed.
        """
        began = time.perf_counter()
        if self._batches is None:
            await asyncio.to_thread(self._start)
        job = self._job(prompt)
        reply = await asyncio.wrap_future(job.answer)
        images = msgspec.to_builtins(job.content.result().conversation.images)
        return Response(
            text=reply.text,
            usage=Usage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
            latency_s=time.perf_counter() - began,
            finish_reason=reply.finish_reason,
            model=self.name,
            trace={"request": {"prompt": reply.prompt, "pictures": images}, "reply": {"text": reply.text}},
        )

    def may_differ(self, prompt: Prompt) -> bool:
        """Return False for a prompt that is decoded greedily."""
        return settings_for(self._sampling.of(prompt.generation), first_json=False, own_limit=None).temperature > 0

    def drop_queued(self) -> None:
        """Cancel all prompts but those of the batch that is being answered."""
        if self._batches is not None:
            self._batches.drop_queued()

    async def executed(self) -> Mapping[str, Any] | None:
        """Return the sizes of images before and after the processor, of the most frequent sizes that were sent.

        A processor that cannot be asked so is named with its error under `images_error`: the answers are there already.
        """
        sent, loaded = sorted(size for size, _ in self._sent.most_common(MOST_SIZES)), self._loaded
        if not sent or loaded is None:
            return self._sampling.facts() or None
        try:
            sizes = await asyncio.to_thread(self._processed, loaded, sent)
        except Exception as error:  # noqa: BLE001 - any fault of any processor; the run is over and must be recorded
            return {"images_error": f"{type(error).__name__}: {error}"[:200], **self._sampling.facts()}
        return {"images": msgspec.to_builtins(sizes), **self._sampling.facts()}

    def _processed(self, loaded: Loaded, sent: Sequence[tuple[int, int]]) -> list[ProcessedImage]:
        """Return what the processor makes of images of these sizes (width, height)."""
        return processed_images(loaded.processor, loaded.model, sent)

    async def close(self) -> None:
        """End the threads and free the memory. Prompts that still wait fail with ModelError."""
        await asyncio.to_thread(self._stop)

    def _found(self) -> Checkpoint:
        if self._checkpoint is None:
            self._checkpoint = find(self._path, self._options.revision)
        return self._checkpoint

    def _found_adapter(self) -> Adapter | None:
        if self._adapter is None and self._options.adapter is not None:
            self._adapter = find_adapter(self._options.adapter)
        return self._adapter

    def _load(self) -> Loaded:
        from snellen.models.local.checkpoint import load

        return load(self._found(), self._path, self._options.device, self._options.dtype)

    def _start(self) -> None:
        with self._loading:
            if self._closed:
                raise ModelError("the model is closed and takes no more prompts.")
            if self._batches is not None:
                return
            adapter = self._found_adapter()
            loaded = self._shared.loaded = self._shared.loaded or self._load()
            self._adapters = self._shared.adapters
            if adapter is not None:
                try:
                    self._active = self._adapters.add(loaded.model, adapter, self._path)
                except PreflightError:
                    self._shared.loaded, self._shared.adapters = None, LoadedAdapters()
                    raise
            self._loaded = loaded
            if arguments := self._options.generation.chat_template_kwargs:
                self._require_arguments(loaded, arguments)
                require_accepted(loaded.processor, arguments, self.name)
            self._static = self._static_decoding(loaded)
            self._readers = ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="snellen-images")
            self._batches = Batches(
                encode=lambda jobs: self._encode(loaded, jobs),
                generate=lambda jobs, inputs, stopped: self._generate(loaded, jobs, inputs, stopped),
                out_of_memory=is_out_of_memory,
                recover=self._recover,
                max_batch=self._options.batch_size,
            )

    def _require_arguments(
        self, loaded: Loaded, arguments: Mapping[str, Any], error: type[SnellenError] = PreflightError
    ) -> None:
        """Raise `error` for an argument of the chat template that it does not read."""
        require_arguments(loaded.processor, arguments, self.name, error)

    def _static_decoding(self, loaded: Loaded) -> StaticDecoding | None:
        """Return the static cache that the options ask for; raise PreflightError where the model has none."""
        if not has_static_cache(self._options):
            return None
        from snellen.models.local.kv_cache import StaticDecoding, require_compiler, require_static_cache

        require_static_cache(loaded.model, self.name)
        if self._options.compile:
            require_compiler(loaded.model, self.name)
        return StaticDecoding(loaded.model, loaded.context, compiled=self._options.compile)

    def _recover(self) -> None:
        if self._static is not None:
            self._static.release()
        release_memory()

    def _stop(self) -> None:
        with self._loading:
            self._closed = True
            batches, readers = self._batches, self._readers
            if batches is None or readers is None:
                return
            batches.close()
            readers.shutdown(wait=True, cancel_futures=True)
            if self._active is not None:
                self._adapters.remove(self._active)
            self._batches = self._readers = self._loaded = self._static = None
            self._shared = SharedWeights()
            release_memory()

    def _job(self, prompt: Prompt) -> Job[Reply]:
        batches, readers, loaded = self._batches, self._readers, self._loaded
        if batches is None or readers is None or loaded is None:
            raise ModelError("the model is closed and takes no more prompts.")
        generation = self._sampling.of(prompt.generation)
        settings = settings_for(generation, self._options.stop_after_first_json, self._own_limit(loaded))
        seed = self._options.seed if generation.seed is None else generation.seed
        content: Future[RowContent] = Future()

        def read() -> None:
            readers.submit(settle, content, self._read, prompt, seed if settings.temperature > 0 else None)

        images, characters = size_of(prompt, self._options.media)
        # Some processors misplace tokens of a text without images beside others with them: PaliGemma's does.
        job: Job[Reply] = Job(content, (settings, images > 0), (images, characters), read)
        batches.submit(job)
        return job

    def _own_limit(self, loaded: Loaded) -> int | None:
        """Return the checkpoint's own limit of new tokens."""
        limit: int | None = loaded.model.generation_config.max_new_tokens
        return limit

    def _encode(self, loaded: Loaded, jobs: Sequence[Job[Reply]]) -> EncodedBatch:
        """Return tensors and texts of a batch, filled with copies of its first prompt where compiled decoding needs it."""
        conversations = [job.content.result().conversation for job in jobs]
        rows = len(jobs) if self._static is None else self._static.rows(len(jobs), self.batch_limit)
        filled = [*conversations, *[conversations[0]] * (rows - len(jobs))]
        settings, _ = jobs[0].batch_key
        template = json.loads(settings.template)
        return EncodedBatch(encode(loaded, filled, template), rendered(loaded, conversations, template))

    def _read(self, prompt: Prompt, seed: int | None) -> RowContent:
        self._require_template(prompt)
        native = None
        if self._media.video == "native" and self._loaded is not None:
            processor = self._video_processor(self._loaded)
            native = partial(native_clip, processor=processor, frames=self._frames, rate=self._media.fps)
        conversation = converse(prompt, self._media, self._frames, native)
        self._sent.update((image.width, image.height) for image in conversation.images)
        row = 0 if seed is None else row_seed(seed, content_digest(prompt, conversation))
        return RowContent(conversation, row)

    def _frames(self, video: Video) -> tuple[Image, ...]:
        """Return the frames of a clip; each is decoded once a run. A run without clips makes no cache."""
        with self._making_clips:
            if self._clips is None:
                settings = LOSSLESS if self._media.video == "native" else self._media
                self._clips = MediaCache(settings, shared=cache_folder() / "frames")
        return self._clips.frames(video)

    def _video_processor(self, loaded: Loaded) -> Any:
        """Return the processor. Raises BadRequestError where it has no video part."""
        part = getattr(loaded.processor, VIDEO_PART, None)
        if part is None or isinstance(part, NoVideoPart):
            raise BadRequestError(
                f"the processor of {self.name} takes no videos, only images.",
                "Omit --video native: frames are sent instead.",
            )
        return loaded.processor

    def _require_template(self, prompt: Prompt) -> None:
        """Raise BadRequestError for what the chat template does not write: system text, earlier turns, its arguments."""
        if self._loaded is not None and prompt.generation is not None:
            self._require_arguments(self._loaded, prompt.generation.chat_template_kwargs, BadRequestError)
        if not (prompt.system or prompt.history) or self._loaded is None:
            return
        if self._omitted is None:
            self._omitted = omitted_by_template(self._loaded.processor)
        require_written(prompt, self._omitted, self.name)

    def _generate(
        self, loaded: Loaded, jobs: Sequence[Job[Reply]], batch: EncodedBatch, stopped: Callable[[], bool]
    ) -> list[Reply]:
        from snellen.models.local.generate import generate

        seeds = [job.content.result().seed for job in jobs]
        settings, _ = jobs[0].batch_key
        with self._adapters.active(self._active):
            return generate(loaded, batch.inputs, settings, seeds, batch.prompts, stopped, self._static)


def settle(content: Future[RowContent], read: Callable[..., RowContent], *arguments: Any) -> None:
    """Settle a future with what a function returns or raises."""
    try:
        content.set_result(read(*arguments))
    except BaseException as error:  # noqa: BLE001 - as an executor does: whoever waits for the future raises it
        content.set_exception(error)
