"""One question to one model: attempts, waits between them, and the record that comes of it."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import structs

from snellen.engine.gate import Backoff, Gate
from snellen.engine.limits import Stop
from snellen.engine.progress import Progress
from snellen.engine.traces import Traces
from snellen.errors import DataError, InputError, ModelError, RateLimitError, WorkersGoneError
from snellen.models.base import Model
from snellen.redaction import redact
from snellen.types import Failure, Generation, Prompt, Record, Response, Sample

AnswerFor: TypeAlias = Callable[[str, int, Prompt], Awaitable[Response]]


class Asker:
    """Asks a model until it answers or the attempts are used up. Whatever happens, there is one record."""

    def __init__(
        self,
        model: Model,
        gate: Gate,
        backoff: Backoff,
        traces: Traces,
        progress: Progress,
        stop: Stop,
        seed: int | None,
    ) -> None:
        self._model = model
        self._gate = gate
        self._backoff = backoff
        self._traces = traces
        self._progress = progress
        self._stop = stop
        self._seed = seed
        # A model that knows samples by their ids (replay), or keeps files by them (the judge), is asked with the id.
        self._answer_for: AnswerFor | None = getattr(model, "answer_for", None)
        self._chance = random.Random(seed)  # noqa: S311 - jitter of waits, not a secret

    async def ask(self, sample: Sample, repeat: int) -> Record:
        """The record of one sample (status ok, or why not)."""
        prompt = self._prompt(sample.prompt, repeat)
        started = time.time()
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._once(prompt, sample.id, repeat)
            except ModelError as error:
                if error.retry and attempt < self._backoff.attempts and not self._stop.asked():
                    self._progress.retries += 1
                    wait_s = self._backoff.wait_s(attempt, error.retry_after_s, self._chance)
                    if await self._stop.pause(wait_s):
                        continue
                if error.trace is not None:
                    self._traces.add(sample.id, repeat, attempt, error.trace)
                failure = Failure(error.kind, _recorded(error.message))
                return Record(sample.id, error.status, repeat, None, failure, attempt, started, time.time())
            if response.trace is not None:
                self._traces.add(sample.id, repeat, attempt, response.trace)
                response = structs.replace(response, trace=None)
            return Record(sample.id, "ok", repeat, _recorded_response(response), None, attempt, started, time.time())

    async def _once(self, prompt: Prompt, sample_id: str, repeat: int) -> Response:
        gate = self._gate
        if gate.active >= int(gate.limit):
            await gate.enter()
        else:
            gate.active += 1
        try:
            if self._answer_for is None:
                response = await self._model.answer(prompt)
            else:
                response = await self._answer_for(sample_id, repeat, prompt)
        except RateLimitError:
            gate.refused(time.monotonic())
            raise
        except (ModelError, WorkersGoneError):
            raise
        except DataError as error:  # a picture that cannot be read is this sample's fault alone
            raise InputError(error.message, error.hint) from error
        except Exception as error:  # a model of somebody else may raise anything; the sample is recorded as failed
            raise ModelError(f"{type(error).__name__}: {error}") from error
        finally:
            gate.leave()
        gate.succeeded()
        return response

    def _prompt(self, prompt: Prompt, repeat: int) -> Prompt:
        if repeat == 0 or self._seed is None:
            return prompt
        generation = prompt.generation or Generation()
        return structs.replace(prompt, generation=structs.replace(generation, seed=self._seed + repeat))


def _recorded_response(response: Response) -> Response:
    """The response with each text that it holds as results.jsonl can hold it."""
    before = (response.text, response.reasoning, response.finish_reason, response.model)
    after = tuple(_recorded(text) if text else text for text in before)
    if after == before:
        return response
    text, reasoning, finish_reason, model = after
    return structs.replace(response, text=text, reasoning=reasoning, finish_reason=finish_reason, model=model)


def _recorded(text: str) -> str:
    """The text as results.jsonl can hold it: no key, and no half of a surrogate pair.

    Halves come from models that cut an emoji in two, and from file names that are not UTF-8.
    """
    text = redact(text)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
