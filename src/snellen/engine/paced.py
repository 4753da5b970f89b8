"""One request to the model, sent when the gate lets it go: the innermost layer of a question."""

from __future__ import annotations

from msgspec import structs

from snellen.engine.concurrency import Gate
from snellen.engine.pacing import Ticket
from snellen.engine.questions import Question
from snellen.errors import DataError, InputError, ModelError, ModelTimeoutError, WorkersGoneError
from snellen.models.base import Model
from snellen.plugin_errors import place_of
from snellen.types import Generation, Image, Prompt, Response, Text, Video

CHARACTERS_A_TOKEN, TOKENS_AN_IMAGE, TOKENS_A_REPLY = 4, 1000, 500
"""A rough estimate of tokens, used for `--tpm` until three replies have said what was used."""


class Refused(Exception):
    """Refusal of a request by the server: it uses up no attempt. `waited_s`: since it was sent."""

    def __init__(self, error: ModelError, waited_s: float) -> None:
        super().__init__(error.message)
        self.error, self.waited_s = error, waited_s


class PacedModel:
    """A model behind the gate, which learns from each reply how fast the server takes requests."""

    def __init__(
        self,
        model: Model,
        gate: Gate,
        seed: int | None,
        *,
        patience_s: float,
        timeout_s: float = 300.0,
        count_tokens: bool = False,
    ) -> None:
        self.gate = gate
        self._model, self._seed = model, seed
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
        prompt = repeated_prompt(question.sample.prompt, question.repeat, self._seed)
        ticket = await self.gate.enter(_estimate(prompt) if self._count_tokens else 0.0, first=first)
        if ticket is None:
            return None
        gate = self.gate
        try:
            response = await self._model.answer_for(question.sample.id, question.repeat, prompt)
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


def repeated_prompt(prompt: Prompt, repeat: int, seed: int | None) -> Prompt:
    """Return the prompt of one repeat of a sample: from the second on with a seed of its own, where there is a seed."""
    if repeat == 0 or seed is None:
        return prompt
    generation = prompt.generation or Generation()
    return structs.replace(prompt, generation=structs.replace(generation, seed=seed + repeat))


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
