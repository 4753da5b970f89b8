"""Every way in which a server fails is recorded under its kind, in bounded time."""

from __future__ import annotations

import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.hostile import KIND
from snellen.errors import ModelError, ModelTimeoutError, RateLimitError
from snellen.models.api import ApiModel
from snellen.models.api.errors import excerpt, from_status
from snellen.models.base import ModelOptions
from snellen.types import Prompt, Response, Text
from stopwatch import Stopwatch

SHORT_S = 1.5
"""A limit for requests that never end, and for no others: on a slow machine any answer may take longer."""
PATIENT_S = 600.0
QUESTION = Prompt((Text("What is shown?"),))


async def ask(url: str, timeout_s: float = PATIENT_S) -> Response:
    model = ApiModel("stub-vlm", ModelOptions(base_url=url, timeout_s=timeout_s))
    try:
        return await model.answer(QUESTION)
    finally:
        await model.close()


@pytest.mark.parametrize("behaviour", KIND)
async def test_each_misbehaviour_is_recorded_under_its_kind_and_never_outlasts_the_timeout(hostile, behaviour):
    watch = Stopwatch()
    try:
        response = await ask(hostile.url(behaviour), SHORT_S if KIND[behaviour] == "timeout" else PATIENT_S)
        kind = ""
        assert response.text in ("ANSWER: A", "")
    except ModelError as error:
        kind = error.kind
        assert error.message
        assert error.message.isprintable(), "control characters of a server must not reach a terminal"
        assert len(error.message) < 600
    assert kind == KIND[behaviour]
    assert watch.seconds < SHORT_S + 5.0
    assert hostile.seen[behaviour] == 1, "retries are the engine's"


@pytest.mark.parametrize(
    ("behaviour", "least", "most"), [("429_seconds", 7, 7), ("429_date", 25, 30), ("503_wait", 3, 3)]
)
async def test_the_time_that_a_server_asks_us_to_wait_is_handed_on(hostile, behaviour, least, most):
    with pytest.raises(ModelError) as caught:
        await ask(hostile.url(behaviour))
    assert caught.value.retry
    assert caught.value.retry_after_s is not None
    assert least <= caught.value.retry_after_s <= most


async def test_a_429_without_a_time_leaves_the_wait_to_the_engine(hostile):
    with pytest.raises(RateLimitError) as caught:
        await ask(hostile.url("429"))
    assert caught.value.retry_after_s is None


async def test_an_account_without_credit_is_not_asked_again(hostile):
    with pytest.raises(ModelError) as caught:
        await ask(hostile.url("no_credit"))
    assert not caught.value.retry
    assert "credit" in caught.value.hint


async def test_nobody_listening_is_a_connection_error():
    with pytest.raises(ModelError, match=r"Cannot connect to http://127\.0\.0\.1:9/v1") as caught:
        await ask("http://127.0.0.1:9/v1")
    assert caught.value.kind == "connection"


async def test_a_connection_that_is_not_made_in_time_is_told_from_a_slow_answer():
    """A host that is gone drops packets: it took no request, and an attempt is not used up."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as clients:
        for _ in range(3):  # more than the queue of connections holds: the next ones hear nothing
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        with pytest.raises(ModelTimeoutError, match="No connection to") as caught:
            await ask(f"http://127.0.0.1:{server.getsockname()[1]}/v1", 1.0)
    assert caught.value.unavailable


async def test_a_name_that_does_not_exist_is_a_connection_error():
    with pytest.raises(ModelError) as caught:
        await ask("http://no-such-host.invalid/v1", timeout_s=10)
    assert caught.value.kind in ("connection", "timeout")


async def test_one_broken_exchange_does_not_spoil_the_next_ones(hostile):
    model = ApiModel("stub-vlm", ModelOptions(base_url=hostile.url("by-question"), timeout_s=PATIENT_S))
    try:
        for behaviour in ("reset", "half_body", "closed", "huge", "bomb", "not_http"):
            with pytest.raises(ModelError) as caught:
                await model.answer(Prompt((Text(f"[[{behaviour}]]"),)))
            assert caught.value.kind == KIND[behaviour]
            assert (await model.answer(Prompt((Text("[[ok]]"),)))).text == "ANSWER: A"
    finally:
        await model.close()


async def test_a_request_that_hangs_does_not_spoil_the_next_ones(hostile):
    model = ApiModel("stub-vlm", ModelOptions(base_url=hostile.url("by-question"), timeout_s=SHORT_S))
    try:
        with pytest.raises(ModelTimeoutError):
            await model.answer(Prompt((Text("[[hang]]"),)))
        for _ in range(300):  # on a slow machine a good answer may take longer than the limit too
            with contextlib.suppress(ModelTimeoutError):
                assert (await model.answer(Prompt((Text("[[ok]]"),)))).text == "ANSWER: A"
                break
        else:
            pytest.fail("no request after it was answered")
    finally:
        await model.close()


@given(st.integers(100, 999), st.binary(max_size=200))
def test_any_status_with_any_body_becomes_a_model_error(status, body):
    error = from_status(status, {}, body)
    assert isinstance(error, ModelError)
    assert error.message.isprintable()


@given(st.text())
def test_an_excerpt_is_one_printable_line_without_tags(text):
    said = excerpt(f"<script>{text}</script>".encode("utf-8", "surrogatepass"))
    assert "\n" not in said
    assert "\x1b" not in said
    assert "<script>" not in said
