"""Attempts for one sample: requests, waits between them, and the resulting record."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

from msgspec import Struct, structs

from snellen.engine.concurrency import Gate
from snellen.engine.pacing import Ticket
from snellen.engine.progress import Progress
from snellen.engine.questions import Ask, Observer, Outcome, Question
from snellen.engine.stopping import Stop
from snellen.engine.traces import Traces
from snellen.errors import WAITED, DataError, InputError, ModelError, ModelTimeoutError, WorkersGoneError
from snellen.event_loop import off_loop
from snellen.models.base import PATIENCE_S, Model
from snellen.plugin_errors import place_of
from snellen.redaction import redact
from snellen.redaction.gold import strike
from snellen.text import whole_text
from snellen.types import NOWHERE, Failure, Generation, Image, Prompt, Record, Response, Sample, Text, Video

log = logging.getLogger(__name__)
SAME_REPLY = (
    "an empty reply is not asked for again, as --retry-empty would: this model decodes greedily, so that its reply would be "
    "the same. To draw another one, sample: --temperature, or --sampling with a recipe (snellen recipes)."
)
SILENT_S = 2.0
"""A server is not taken for dead in less time, however small the patience."""


class Backoff(Struct, frozen=True):
    """Waits between attempts: exponential with full jitter, in seconds.

    Attempt k waits uniform(0, min(cap_s, base_s * 2 ** (k - 1))). A wait that the server asks for is the least wait.
    Requests that the server did not take use up no attempt, but `patience_s`: the time that a sample waits on its own
    account, and the time in which the server answers nobody.
    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    attempts: int = 6
    base_s: float = 1.0
    cap_s: float = 60.0
    patience_s: float = PATIENCE_S

    def wait_s(self, attempt: int, asked_s: float | None, chance: random.Random) -> float:
        own = chance.uniform(0.0, min(self.cap_s, self.base_s * 2.0 ** min(attempt - 1, 60)))
        return own if asked_s is None else min(self.patience_s, asked_s) + own

    def refused_wait_s(self, refusals: int, asked_s: float | None, chance: random.Random) -> float:
        """Return the wait after a refusal. The first leaves the pace to the gate; later ones let others pass."""
        own = 0.0 if refusals == 1 else self.wait_s(refusals - 1, None, chance)
        return max(own, asked_s or 0.0)


CHARACTERS_A_TOKEN, TOKENS_AN_IMAGE, TOKENS_A_REPLY = 4, 1000, 500
"""A rough estimate of tokens, used for `--tpm` until three replies have said what was used."""


class Refused(Exception):
    """Refusal of a request by the server: it uses up no attempt. `waited_s`: since it was sent."""

    def __init__(self, error: ModelError, waited_s: float) -> None:
        super().__init__(error.message)
        self.error, self.waited_s = error, waited_s


class Seeds(Struct, frozen=True):
    """Seeds of the prompts of a run, where there is a `seed`: the same for a resumed run as for an undisturbed one.

    `by_sample`: one for each (sample, repeat), so that neither runs with other seeds nor equal questions share a draw. Else
    `seed` + repeat: where the user set the seed that requests carry, and in earlier runs.
    """

    seed: int | None
    by_sample: bool = False

    def prompt(self, sample: Sample, repeat: int, empty: int = 0) -> Prompt:
        """Return the prompt of one repeat of a sample with its seed; the first one of `seed` + repeat needs none.

        After `empty` replies that said nothing it is another seed: with the same one the reply would be the same.
        """
        prompt, seed = sample.prompt, self.seed
        if seed is None or (repeat == empty == 0 and not self.by_sample):
            return prompt
        if self.by_sample or empty:
            again = f"{empty}/" if empty else ""
            material = f"{seed}/{repeat}/{again}{sample.id}".encode("utf-8", "surrogatepass")
            seed = int.from_bytes(blake2b(material, digest_size=4).digest()) >> 1  # engines take 31 bits
        else:
            seed += repeat
        return structs.replace(prompt, generation=structs.replace(prompt.generation or Generation(), seed=seed))


class PacedModel:
    """A model behind the gate, which learns from each reply how fast the server takes requests."""

    def __init__(
        self,
        model: Model,
        gate: Gate,
        seeds: Seeds,
        *,
        patience_s: float,
        timeout_s: float = 300.0,
        count_tokens: bool = False,
        observer: Observer | None = None,
    ) -> None:
        self.gate = gate
        self._observer = observer
        self._model, self._seeds = model, seeds
        self._patience_s, self._timeout_s = patience_s, timeout_s
        self._count_tokens = count_tokens

    async def send(self, question: Question, *, first: bool = False) -> Response | None:
        """Return the reply to one request; None if the run is to end and it was not sent.

        Args:
            question: what is asked.
            first: before all who wait already.

        Raises:
            Refused: the server did not take the request.
            ModelError: it was taken, and there is no answer.
        """
        prompt = self._seeds.prompt(question.sample, question.repeat, question.empty)
        ticket = await self.gate.enter(_estimate(prompt) if self._count_tokens else 0.0, first=first)
        if ticket is None:
            return None
        gate = self.gate
        try:
            if self._observer is None:
                response = await self._model.answer_for(question.sample.id, question.repeat, prompt)
            else:
                response = await self._observed(self._observer, question, prompt)
        except ModelError as error:
            self._report(ticket, error)
            raise
        except WorkersGoneError:
            gate.dropped(ticket)
            raise
        except DataError as error:  # an image that cannot be read is this sample's fault alone
            gate.answered(ticket)
            raise InputError(error.message, error.hint) from error
        except Exception as error:  # a model of another user may raise anything; the sample is recorded as failed
            gate.answered(ticket)
            place = place_of(error)
            raise ModelError(f"{type(error).__name__}: {error}" + (f" at {place}" if place else "")) from error
        except BaseException:
            gate.dropped(ticket)
            raise
        usage = response.usage
        gate.answered(ticket, usage.input_tokens + usage.output_tokens)
        return response

    async def _observed(self, observer: Observer, question: Question, prompt: Prompt) -> Response:
        began_s = time.time()
        try:
            response = await self._model.answer_for(question.sample.id, question.repeat, prompt)
        except BaseException as error:
            observer.requested(question, prompt, began_s, getattr(error, "response", None), error)
            raise
        observer.requested(question, prompt, began_s, response, None)
        return response

    def _report(self, ticket: Ticket, error: ModelError) -> None:
        """Tell the gate why a request has no answer. Raises Refused if the server did not take it."""
        gate, unavailable = self.gate, error.unavailable
        if unavailable is None:
            unavailable = gate.last_answer < ticket.sent_at
        if unavailable:
            wait_s = error.retry_after_s
            gate.refused(ticket, None if wait_s is None else min(wait_s, self._patience_s), down=not error.limits)
            raise Refused(error, gate.clock() - ticket.sent_at) from error
        if isinstance(error, ModelTimeoutError):
            gate.timed_out(ticket, self._timeout_s)
        else:
            gate.answered(ticket)


def _estimate(prompt: Prompt) -> float:
    """Estimate the tokens that a prompt and its reply may use."""
    tokens = len(prompt.system) / CHARACTERS_A_TOKEN + TOKENS_A_REPLY
    for part in prompt.conversation_parts:
        if isinstance(part, Text):
            tokens += len(part.text) / CHARACTERS_A_TOKEN
        elif isinstance(part, Image):
            tokens += TOKENS_AN_IMAGE
        elif isinstance(part, Video):
            tokens += 8 * TOKENS_AN_IMAGE
    return tokens


class RetryingModel:
    """A paced model whose requests are repeated until one is answered, or attempts or patience are used up."""

    def __init__(
        self,
        paced: PacedModel,
        backoff: Backoff,
        traces: Traces,
        progress: Progress,
        stop: Stop,
        seed: int | None = None,
        concealed: Sequence[str] = (),
    ) -> None:
        self._paced, self._gate = paced, paced.gate
        self._backoff = backoff
        self._traces = traces
        self._progress = progress
        self._stop = stop
        self._concealed = concealed
        self._chance = random.Random(seed)  # noqa: S311 - jitter of waits, not a secret

    async def ask(self, question: Question) -> Outcome | None:
        """Return the outcome of one question; None if the run is to end and it was never sent.

        A question that failed before gets a single attempt: it had all of them.
        """
        sample, repeat = question.sample, question.repeat
        limit = self._backoff.attempts if question.failure is None else 1
        started = time.time()
        sent, used, refusals, waited_s = question.sent, 0, 0, 0.0
        failure: ModelError | None = None
        while True:
            sent += 1
            try:
                response = await self._paced.send(question, first=refusals == 1)
            except Refused as refusal:
                failure = error = refusal.error
                refusals += 1
                if self._gate.silent_s() >= max(SILENT_S, self._backoff.patience_s):
                    return await self._failed(question, error, sent, started, waited=True, silent=True)
                waited_s += refusal.waited_s
                left_s = self._backoff.patience_s - waited_s
                if left_s <= 0.0:
                    return await self._failed(question, error, sent, started, waited=True)
                wait_s = min(left_s, self._backoff.refused_wait_s(refusals, error.retry_after_s, self._chance))
                waited_s += wait_s
            except ModelError as error:
                failure = error
                used += 1
                if not error.retry or used >= limit:
                    return await self._failed(question, error, sent, started)
                wait_s = self._backoff.wait_s(used, error.retry_after_s, self._chance)
            else:
                if response is None:
                    return None if failure is None else await self._failed(question, failure, sent - 1, started)
                if response.trace is not None:
                    await self._traces.add(sample.id, repeat, sent, response.trace)
                    response = structs.replace(response, trace=None)
                size = len(response.text) + len(response.reasoning)
                response = await off_loop(size, recorded_response, await off_loop(size, checked_reply, response))
                return Outcome(Record(sample.id, "ok", repeat, response, None, sent, started, time.time()))
            if self._stop.requested():
                return await self._failed(question, failure, sent, started)
            self._progress.retries += 1
            if wait_s > 0.0 and not await self._stop.pause(wait_s):
                return await self._failed(question, failure, sent, started)

    async def _failed(
        self,
        question: Question,
        error: ModelError,
        sent: int,
        started: float,
        *,
        waited: bool = False,
        silent: bool = False,
    ) -> Outcome:
        sample, repeat = question.sample, question.repeat
        if error.trace is not None:
            await self._traces.add(sample.id, repeat, sent, error.trace)
        message = await off_loop(len(error.message), recorded_failure, error.message, self._concealed)
        if waited:
            message += f"{WAITED} {self._backoff.patience_s:g} s of --patience)"
        record = failed_record(sample.id, repeat, error, message, sent, started, time.time())
        return Outcome(record, error, silent)


def asking_again_if_empty(
    ask: Ask, times: int, progress: Progress, stop: Stop, may_differ: Callable[[Prompt], bool] = lambda prompt: True
) -> Ask:
    """Return a layer that asks again, up to so many times, where a reply says nothing; the record counts all its tokens.

    A failure meanwhile leaves the empty reply, and so does a prompt of which `may_differ` says that no reply would differ.
    """
    is_named = False

    async def asked(question: Question) -> Outcome | None:
        nonlocal is_named
        outcome = await ask(question)
        for number in range(1, times + 1):
            if outcome is None or (reply := outcome.record.response) is None or not reply.empty or stop.requested():
                break
            if not may_differ(question.sample.prompt):
                if not is_named:
                    log.warning("%s", SAME_REPLY)
                is_named = True
                break
            progress.retries += 1
            again = await ask(question._replace(sent=outcome.record.attempts, empty=number))
            if again is None:
                break
            record = structs.replace(
                outcome.record, attempts=again.record.attempts, finished_at=again.record.finished_at
            )
            if again.record.status == "ok" and again.record.response is not None:
                usage = reply.usage + again.record.response.usage
                record = structs.replace(record, response=structs.replace(again.record.response, usage=usage))
            outcome = Outcome(record)
        return outcome

    return asked


def failed_record(
    sample_id: str, repeat: int, error: ModelError, message: str, attempts: int, started: float, finished: float
) -> Record:
    """Return the record of a sample without an answer, with the part of a reply that there is."""
    response = None if error.response is None else recorded_response(structs.replace(error.response, trace=None))
    failure = Failure(error.kind, message)
    return Record(sample_id, error.status, repeat, response, failure, attempts, started, finished)


def recorded_failure(message: str, concealed: Sequence[str]) -> str:
    """Return an error's text as results.jsonl can hold it, without what is concealed: a server may quote the request."""
    message = recorded_text(message)
    return strike(message, concealed) if concealed else message


def checked_reply(response: Response) -> Response:
    """Return a reply with what it lacks: the place of its text if it says nothing, and the half of its tokens not counted.

    No prompt has no tokens, nor has a reply with text; servers that do not count them leave them out, or write 0.
    """
    from snellen.scoring.replies.reply import silence  # readers of replies are no part of a start

    usage, wrote = response.usage, response.text or response.reasoning
    if not usage.lacks and bool(usage.input_tokens) != bool(usage.output_tokens) and (wrote or usage.output_tokens):
        usage = structs.replace(usage, lacks="output" if usage.input_tokens else "input")
    empty = silence(response.text)
    if empty == NOWHERE:
        empty = response.empty or ("reasoning" if response.reasoning.strip() else NOWHERE)
    if empty == response.empty and usage is response.usage:
        return response
    return structs.replace(response, empty=empty, usage=usage)


def recorded_response(response: Response) -> Response:
    """Return the response with its texts as results.jsonl can hold them."""
    names = ("text", "reasoning", "finish_reason", "model", "request_id", "empty")
    before = [getattr(response, name) for name in names]
    after = [recorded_text(text) if text else text for text in before]
    if after == before:
        return response
    # The tokens of a text that held a key hold its pieces.
    logprobs = response.logprobs if redact(response.text) == response.text else None
    return structs.replace(response, **dict(zip(names, after, strict=True)), logprobs=logprobs)


def recorded_text(text: str) -> str:
    """Return the text as results.jsonl can hold it: no key, and no half of a surrogate pair.

    Halves come from models that cut an emoji in two, and from file names that are not UTF-8.
    """
    return whole_text(redact(text))
