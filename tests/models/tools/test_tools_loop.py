"""`tools:NAME`: the loop of a model with the tools, against a scripted server on loopback."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import photographs
import pytest

from servers.scripted import Action, Call, Hang, Refuse, Repeat, Say, ScriptedServer, pictures_in
from snellen.errors import (
    AgentLoopError,
    AgentNoAnswerError,
    ModelTimeoutError,
    PreflightError,
    ServerError,
    UsageError,
)
from snellen.models.api.request import BodyWriter
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.models.tools.model import ToolConversation, ToolsModel, read_calls
from snellen.models.tools.settings import ToolLimits, ToolSettings
from snellen.models.trace import Step, calls_by_tool, read, turns
from snellen.sources import BytesBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Response, Text

CAT = photographs.png(photographs.photograph("chelsea.png"))
QUESTION = Prompt((Image(BytesBlob("cat", CAT)), Text("What is it called?")), "Be brief.", Generation(max_tokens=50))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def settings(tmp_path):
    home = tmp_path / "pages"
    home.mkdir()
    (home / "cat.png").write_bytes(CAT)
    row = {"url": "https://example.org/cat", "title": "Chelsea", "text": "A cat named Chelsea.", "images": ["cat.png"]}
    (home / "cat.json").write_text(json.dumps(row))
    return ToolSettings(pages=str(home))


async def ask(
    script: Sequence[Action], settings: ToolSettings, prompt: Prompt = QUESTION, **options: Any
) -> tuple[Response, list[dict[str, Any]]]:
    with ScriptedServer({"mock": script}, seconds=60) as server:
        model = ToolsModel("mock", ModelOptions(base_url=server.url, **options), settings)
        try:
            await model.preflight()
            return await model.answer(prompt), server.of("mock")
        finally:
            await model.close()


async def test_a_model_crops_searches_reads_and_answers(settings):
    script = [
        Call("crop_zoom", {"image": "image.png", "box": [0.2, 0.2, 0.8, 0.8]}),
        Call("reverse_image_search", {"image": "image.png"}),
        Call("fetch_url", {"url": "https://example.org/cat"}),
        Say("Chelsea"),
    ]
    reply, asked = await ask(script, settings)
    assert (reply.text, reply.finish_reason) == ("Chelsea", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (480, 32)
    steps = read(reply.trace)
    assert turns(steps) == 4
    assert calls_by_tool(steps) == {"crop_zoom": 1, "fetch_url": 1, "reverse_image_search": 1}
    assert steps[0] == Step(0, "user", "What is it called?", images=(sha256(CAT).hexdigest(),))
    assert "A cat named Chelsea." in steps[-2].result
    # The server was shown the part that was cut out, after the tool's message, and the bytes are those of the trace.
    roles = [message["role"] for message in asked[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    shown = [sha256(data).hexdigest() for data in pictures_in(asked[1])]
    assert shown == [*steps[0].images, *steps[2].images]
    assert len(shown) == 2
    assert asked[3]["messages"][3]["tool_call_id"] == asked[3]["messages"][2]["tool_calls"][0]["id"]
    assert {tool["function"]["name"] for tool in asked[0]["tools"]} == {
        *("web_search", "fetch_url", "reverse_image_search", "crop_zoom", "view_image")
    }
    assert asked[0]["max_tokens"] == asked[3]["max_tokens"] == 50


async def test_the_question_goes_out_as_it_does_without_tools(settings):
    writer = BodyWriter("mock", ModelOptions(media=MediaSettings(max_long_side=100)))
    plain = json.loads((await writer.write(QUESTION)).sent)
    _, asked = await ask([Say("Chelsea")], settings, media=MediaSettings(max_long_side=100))
    assert {name: asked[0][name] for name in plain} == plain
    assert set(asked[0]) - set(plain) == {"tools"}
    # A text alone is a string and not a list of parts; the joints hold there too.
    chat = ToolConversation(writer, [])
    await chat.begin(Prompt((Text('"}],"'),)))
    chat.add({"role": "user", "content": "more"})
    assert json.loads(chat.body(False).sent)["messages"] == [
        {"role": "user", "content": '"}],"'},
        {"role": "user", "content": "more"},
    ]


async def test_a_corrupted_or_blank_picture_is_not_seen_whole_through_the_tools(settings):
    script = [Call("view_image", {"image": "image.png"}), Say("grey")]
    reply, _ = await ask(script, settings, media=MediaSettings(blank=True))
    steps = read(reply.trace)
    seen = {digest for step in steps for digest in step.images}
    assert sha256(CAT).hexdigest() not in seen


async def test_a_picture_is_cropped_in_its_full_size_however_small_it_was_sent(settings):
    script = [Call("crop_zoom", {"image": "image.png", "box": [0, 0, 1, 1], "scale": 1}), Say("a cat")]
    reply, _ = await ask(script, settings, media=MediaSettings(max_long_side=100))
    assert "(451 x 300)" in read(reply.trace)[2].result


async def test_the_same_call_a_third_time_is_a_loop_and_keeps_its_trace(settings):
    with pytest.raises(AgentLoopError, match="web_search 3 times") as caught:
        await ask([Call("web_search", {"query": "cat"})], settings)
    assert calls_by_tool(read(caught.value.trace)) == {"web_search": 3}


async def test_when_turns_are_used_up_the_model_is_asked_for_its_answer(settings):
    script = [Call("web_search", {"query": "cat", "k": number}) for number in (1, 2)] + [Say("a cat, I think")]
    from msgspec import structs

    reply, asked = await ask(script, structs.replace(settings, limits=ToolLimits(turns=3)))
    assert reply.text == "a cat, I think"
    assert asked[2]["tool_choice"] == "none"
    assert "final answer" in asked[2]["messages"][-1]["content"]
    reply, asked = await ask(script[:1] + script[2:], structs.replace(settings, limits=ToolLimits(calls=1)))
    assert [body.get("tool_choice") for body in asked] == [None, "none"]


async def test_a_model_that_says_nothing_has_given_no_answer(settings):
    with pytest.raises(AgentNoAnswerError) as caught:
        await ask([Call("view_image", {"image": "image.png"}), Say("  ")], settings)
    assert turns(read(caught.value.trace)) == 2


async def test_what_goes_wrong_in_a_tool_is_told_and_the_conversation_goes_on(settings):
    script = [Call("browser", {}), Call("fetch_url", {"url": "http://127.0.0.1/"}), Repeat()]
    reply, _ = await ask(script, settings)
    assert "there is no tool 'browser'" in reply.text
    assert "not in the collection" in reply.text
    assert [step.error for step in read(reply.trace) if step.role == "tool"] == [True, True]


async def test_a_server_that_fails_in_between_is_asked_again_and_the_conversation_is_kept(settings, monkeypatch):
    waits: list[float] = []

    async def pause(seconds):
        waits.append(seconds)

    monkeypatch.setattr("snellen.models.tools.model.asyncio.sleep", pause)
    script = [Call("web_search", {"query": "cat"}), Refuse(500)]
    with pytest.raises(ServerError) as caught:
        await ask(script, settings)
    assert waits == [1.0, 2.0, 4.0]
    assert turns(read(caught.value.trace)) == 1
    with pytest.raises(ServerError):
        await ask([Refuse(500)], settings)
    assert len(waits) == 3, "the first request is left to the engine"
    waits.clear()
    with pytest.raises(ServerError):
        await ask([Call("web_search", {"query": "cat"}), Refuse(503)], settings, patience_s=300.0)
    assert waits[:5] == [1.0, 2.0, 4.0, 8.0, 16.0] and sum(waits) == 300.0, "a busy server costs patience, not attempts"


async def test_a_hanging_server_ends_as_a_timeout(settings, monkeypatch):
    monkeypatch.setattr("snellen.models.tools.model.ATTEMPTS", 1)
    with pytest.raises(ModelTimeoutError):
        await ask([Call("web_search", {"query": "cat"}), Hang()], settings, timeout_s=0.5)


async def test_a_key_reaches_the_server_and_nothing_else(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k3y-of-the-test-2718281828")
    with ScriptedServer({"mock": [Call("web_search", {"query": "k3y-of-the-test-2718281828"}), Repeat()]}) as server:
        model = ToolsModel("mock", ModelOptions(base_url=server.url), settings)
        reply = await model.answer(QUESTION)
        await model.close()
        assert server.keys == {"Bearer k3y-of-the-test-2718281828"}
    assert "2718281828" not in json.dumps(model.identity()) + reply.text


def test_the_run_knows_its_tools_and_the_pages_behind_them(settings, tmp_path):
    (tmp_path / "tools.json").write_text('{"pages": "pages", "limits": {"turns": 5}}')
    model = open_model("tools:mock", ModelOptions(tools=str(tmp_path / "tools.json")))
    before = model.identity()
    assert model.name == "tools:mock"
    assert before["kind"] == "tools"
    assert before["tools"]["limits"] == {"turns": 5}
    assert str(tmp_path) not in json.dumps(before)
    (tmp_path / "pages" / "more.txt").write_text("more")
    assert model.identity() != before
    with pytest.raises(UsageError, match="--tools is not for"):
        open_model("api:mock", ModelOptions(tools="tools.json"))


async def test_a_collection_that_is_not_there_is_told_before_the_run(tmp_path):
    model = ToolsModel(
        "mock", ModelOptions(base_url="http://127.0.0.1:9/v1"), ToolSettings(pages=str(tmp_path / "none"))
    )
    with pytest.raises(PreflightError, match="is not a folder"):
        await model.preflight()


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([{"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}}], ("a", {"x": 1}, "")),
        ([{"function": {"name": "f", "arguments": {"x": 1}}}], ("call_0_0", {"x": 1}, "")),
        ([{"id": None, "function": {"name": "f", "arguments": ""}}], ("call_0_0", {}, "")),
        ([{"id": "a", "function": {"name": "f"}}], ("a", {}, "")),
        ([{"id": "a", "function": {"name": "f", "arguments": "{x: 1"}}], ("a", None, "the arguments are not JSON")),
    ],
)
def test_tool_calls_are_read_as_servers_write_them(calls, expected):
    data = json.dumps({"choices": [{"message": {"content": None, "tool_calls": calls}}]}).encode()
    (call,) = read_calls(data, 0)
    assert (call.id, call.arguments) == expected[:2]
    assert call.fault.startswith(expected[2])
