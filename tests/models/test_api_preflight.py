"""Before the first question: is anybody there, is the key good, is the model known?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from servers.loopback import free_port
from snellen import redaction
from snellen.errors import PreflightError
from snellen.models.api import ApiModel
from snellen.models.base import ModelOptions
from snellen.types import Generation, Prompt, Text
from stopwatch import Stopwatch

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield
    redaction.forget()


@asynccontextmanager
async def server(models: Answer | None, chat: Answer | None) -> AsyncIterator[str]:
    app = web.Application()
    if models is not None:
        app.router.add_get("/v1/models", models)
    if chat is not None:
        app.router.add_post("/v1/chat/completions", chat)
    async with TestServer(app) as running:
        yield str(running.make_url("/v1"))


def replies(status: int, body: object = None, headers: dict[str, str] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


async def check(url: str, model: str = "stub-vlm", **options: object) -> None:
    await ApiModel(model, ModelOptions(base_url=url, **options)).preflight()  # type: ignore[arg-type]


async def test_a_good_server_passes_and_is_asked_no_question(hostile):
    await check(hostile.url("ok"))
    assert not hostile.seen


async def test_a_dead_endpoint_is_named_with_what_to_do():
    with pytest.raises(PreflightError, match=r"Cannot connect to http://127.0.0.1:9/v1[\s\S]*--base-url"):
        await check("http://127.0.0.1:9/v1", patience_s=0.0)


async def test_a_server_that_accepts_and_says_nothing_does_not_hang_the_check():
    async def hang(request):
        await asyncio.sleep(600)
        return web.Response()

    async with server(hang, hang) as url:
        watch = Stopwatch()
        with pytest.raises(PreflightError, match="within 1 s"):
            await check(url, timeout_s=1.0)
        assert watch.seconds < 3


async def test_a_bad_key_is_told_from_a_missing_one(hostile, monkeypatch):
    hostile.key = "the-right-key-1"
    with pytest.raises(PreflightError, match="requires a key and OPENAI_API_KEY is not set"):
        await check(hostile.url("ok"))
    monkeypatch.setenv("OPENAI_API_KEY", "the-wrong-key-1")
    with pytest.raises(PreflightError, match="does not accept the key in OPENAI_API_KEY") as caught:
        await check(hostile.url("ok"))
    assert "the-wrong-key-1" not in str(caught.value)


async def test_a_bad_key_is_found_where_the_list_of_models_is_public():
    chat = replies(401, {"error": {"message": "No auth credentials found"}})
    async with server(replies(200, {"data": [{"id": "stub-vlm"}]}), chat) as url:
        with pytest.raises(PreflightError, match="requires a key"):
            await check(url)


@pytest.mark.parametrize("body", [b"<title>Access denied</title>", b'{"error": {"message": "Country not supported"}}'])
async def test_a_server_that_forbids_is_not_said_to_refuse_the_key(body, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "the-right-key-1")

    async def forbid(request):
        return web.Response(status=403, body=body)

    async with server(forbid, forbid) as url:
        with pytest.raises(PreflightError, match=r"refuses the request \(HTTP 403") as caught:
            await check(url)
    assert "does not accept" not in str(caught.value)
    assert "rights of the key in OPENAI_API_KEY" in caught.value.hint and "from here" in caught.value.hint


async def test_a_key_that_may_not_list_models_may_still_ask():
    listing = replies(403, {"error": {"message": "Missing scopes: api.model.read"}})
    async with server(listing, replies(400, {})) as url:
        await check(url)


async def test_an_unknown_model_is_refused_with_the_nearest_names(hostile):
    hostile.models = ["qwen3-vl-8b", "qwen3-vl-4b", "llava-7b"]
    with pytest.raises(PreflightError, match=r"no model 'qwen3-vl-9b'; it lists 3[\s\S]*qwen3-vl-8b"):
        await check(hostile.url("ok"), model="qwen3-vl-9b")


@pytest.mark.parametrize(
    ("listed", "asked"),
    [
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("llava:latest", "llava"),
        ("qwen/qwen3-vl-8b", "qwen/qwen3-vl-8b:free"),
    ],
)
async def test_the_usual_ways_of_listing_a_name_are_known(hostile, listed, asked):
    hostile.models = [listed]
    await check(hostile.url("ok"), model=asked)


@pytest.mark.parametrize("body", [{"data": []}, {"data": None}, {"object": "list"}, [], {"data": [1, {"id": None}]}])
async def test_a_server_that_lists_nothing_is_not_asked_for_names(body):
    async with server(replies(200, body), replies(400, {})) as url:
        await check(url)


async def test_a_server_without_a_list_of_models_passes():
    async with server(None, replies(422, {})) as url:
        await check(url)


async def test_an_address_without_v1_is_refused_with_that_hint(hostile):
    with pytest.raises(PreflightError, match=r"no chat completions[\s\S]*/v1"):
        await check(hostile.url("ok").removesuffix("/v1"))


async def test_a_web_page_is_not_taken_for_a_model_server():
    async def page(request):
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    async with server(page, page) as url:
        with pytest.raises(PreflightError, match="not JSON"):
            await check(url)


async def test_a_server_that_is_still_loading_is_told_from_a_wrong_one():
    async with server(replies(503, {"error": {"message": "Loading model"}}), replies(503, {})) as url:
        with pytest.raises(PreflightError, match=r"503: Loading model[\s\S]*still be loading"):
            await check(url, patience_s=0.0)


async def test_a_redirect_is_not_followed_with_the_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "the-right-key-1")
    reached = []

    async def elsewhere(request):
        reached.append(request.headers.get("Authorization"))
        return web.json_response({})

    async with server(elsewhere, elsewhere) as other:
        moved = replies(308, None, {"Location": f"{other}/models"})
        async with server(moved, moved) as url:
            with pytest.raises(PreflightError, match="redirects to"):
                await check(url)
    assert not reached


async def test_a_model_that_wants_the_newer_name_for_its_token_limit_is_asked_again_under_it():
    bodies = []

    async def picky(request):
        body = await request.json()
        bodies.append(body)
        if "max_tokens" in body:
            said = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
            return web.json_response({"error": {"message": said}}, status=400)
        return web.json_response({"choices": [{"message": {"content": "B"}}]})

    async with server(None, picky) as url:
        model = ApiModel("future-model", ModelOptions(base_url=url, generation=Generation(max_tokens=7)))
        for _ in range(3):
            assert (await model.answer(Prompt((Text("?"),)))).text == "B"
        await model.close()
    assert [sorted(set(body) - {"model", "messages"}) for body in bodies] == [
        ["max_tokens"],
        ["max_completion_tokens"],
        ["max_completion_tokens"],
        ["max_completion_tokens"],
    ]


@pytest.mark.parametrize(("patience", "wait"), [({}, "30 s"), ({"patience_s": 900.0}, "900 s")])
async def test_a_server_that_comes_up_later_is_waited_for(patience, wait, capsys):
    port = free_port()
    app = web.Application()
    app.router.add_get("/v1/models", replies(200, {"data": []}))
    app.router.add_post("/v1/chat/completions", replies(400, {"error": {"message": "no messages"}}))

    async def start_late():
        await asyncio.sleep(1.2)
        running = TestServer(app, port=port)
        await running.start_server()
        return running

    starting = asyncio.create_task(start_late())
    try:
        await check(f"http://127.0.0.1:{port}/v1", **patience)
    finally:
        await (await starting).close()
    assert f"waiting up to {wait} for the server: Cannot connect" in capsys.readouterr().err


async def test_a_server_that_is_not_ready_is_waited_for_no_longer_than_patience_says():
    loading = [503, 503, 200]

    async def models(request):
        return web.json_response({"data": []}, status=loading.pop(0))

    async with server(models, replies(400)) as url:
        await check(url, patience_s=20.0)
    assert not loading
    async with server(replies(503), None) as url:
        with pytest.raises(PreflightError, match=r"It was waited for 1 s\.[\s\S]*--patience SECONDS"):
            await check(url, patience_s=1.0)


async def test_a_wrong_address_is_not_waited_for():
    watch = Stopwatch()
    with pytest.raises(PreflightError, match="--base-url"):
        await check("http://no-such-host.invalid/v1", patience_s=60.0)
    assert watch.seconds < 30
