"""`snellen serve`: the real server in a process of its own, asked by the real OpenAI client and by our own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import openai
import pytest
from tiny_vlm import ask, picture, question, texts

from servers.loopback import JsonHandler, LoopbackServer, free_port
from snellen.errors import BadRequestError, PreflightError
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.types import Generation, Image, MediaSettings, Prompt, Text, Video

SNELLEN = (sys.executable, "-c", "from snellen.cli import main; raise SystemExit(main())")
LIFE_S = 600
KEY = "a-key-for-the-tests-only"


class Serving(NamedTuple):
    """A running server: its base URL, the name of its model, and its process."""

    url: str
    name: str
    process: subprocess.Popen[str]


@contextlib.contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[Serving]:
    """`snellen serve` on a free port; it ends with the block, and by itself after four minutes."""
    line = [*SNELLEN, "serve", *arguments, "--port", "0"]
    clean = {name: value for name, value in os.environ.items() if name != "SNELLEN_DEBUG"}
    process = subprocess.Popen(
        line, env=clean | {"OMP_NUM_THREADS": "1", **environment}, stderr=subprocess.PIPE, text=True
    )
    timer = threading.Timer(LIFE_S, process.kill)
    timer.start()
    try:
        assert process.stderr is not None
        said = []
        for text in process.stderr:
            said.append(text)
            if found := re.match(r"Serving (\S+) at (http://\S+)", text):
                yield Serving(found[2], found[1], process)
                break
        else:
            raise AssertionError("".join(said))
    finally:
        timer.cancel()
        process.send_signal(signal.SIGINT)
        try:
            process.wait(600)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


@pytest.fixture(scope="module")
def server(folder):
    with serving(str(folder), "--api-key-env", "TEST_KEY", "--max-body-mb", "1", TEST_KEY=KEY) as running:
        yield running


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0, timeout=600) as one:
        yield one


def uri(image: Image) -> str:
    return "data:image/png;base64," + base64.b64encode(image.blob.read()).decode()


def message(text: str, *urls: str) -> Any:
    return [
        {
            "role": "user",
            "content": [
                *({"type": "image_url", "image_url": {"url": url}} for url in urls),
                {"type": "text", "text": text},
            ],
        }
    ]


def post(server: Serving, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    """A request by hand, for what no well-behaved client sends."""
    place = urlsplit(server.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=600)
    given = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}", **headers}
    connection.request("POST", "/v1/chat/completions", body, given)
    reply = connection.getresponse()
    said = reply.read()
    connection.close()
    return reply.status, json.loads(said) if said.startswith(b"{") else {"text": said.decode()}


def test_the_openai_client_gets_an_answer_about_a_picture(client, server):
    assert [model.id for model in client.models.list()] == [server.name] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    reply = client.chat.completions.create(
        model="tiny", messages=message("What is this?", uri(picture(1))), max_tokens=5
    )
    assert reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "length"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3 + 4 + 13, 5)


def test_a_stream_brings_the_same_answer(client):
    asked: Any = {"model": "tiny", "messages": message("What is this?", uri(picture(1)))}
    whole = client.chat.completions.create(**asked)
    events = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(event.choices[0].delta.content or "" for event in events if event.choices) == (
        whole.choices[0].message.content
    )
    assert events[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert events[-1].usage == whole.usage


def test_stop_and_system_and_seed_are_understood(client):
    system: Any = {"role": "system", "content": "Be brief."}
    reply = client.chat.completions.create(
        model="tiny", messages=[system, *message("Hi")], max_completion_tokens=4, temperature=1.0, seed=5, stop=["\n"]
    )
    assert reply.usage.prompt_tokens == 4 + len("Be brief.Hi")


@pytest.fixture
def spy():
    """A picture on a server, and the list of those who came for it."""
    visits: list[str] = []

    class Gallery(JsonHandler):
        def do_GET(self):
            visits.append(self.path)
            self.send(200, picture(1).blob.read())

    with LoopbackServer(Gallery) as gallery:
        yield f"{gallery.origin}/secret.png", visits


def test_addresses_and_files_are_never_fetched(client, spy, tmp_path):
    address, visits = spy
    (tmp_path / "secret.png").write_bytes(picture(1).blob.read())
    for url in (address, f"file://{tmp_path}/secret.png", f"{tmp_path}/secret.png"):
        with pytest.raises(openai.BadRequestError, match="not a data URI"):
            client.chat.completions.create(model="tiny", messages=message("What is this?", url))
    assert not visits


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"temperature": -1}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "no user message"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "assistant"),
        ({"messages": message("a") + message("b")}, "one user message"),
        ({"messages": message("a", "data:image/png;base64,????")}, "not base64"),
        ({"messages": message("a", "data:image/png;base64,AAAA")}, "JPEG, PNG"),
        ({"messages": message("long " * 1000)}, "512 at most"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_refused_in_the_protocols_own_words(server, change, says):
    status, reply = post(server, json.dumps({"model": "tiny", "messages": message("Hi"), **change}).encode())
    assert status == 400
    assert reply["error"]["type"] == "invalid_request_error"
    assert says in reply["error"]["message"]


def test_another_model_is_not_found_here(client):
    with pytest.raises(openai.NotFoundError, match="this server has 'tiny'"):
        client.chat.completions.create(model="gpt-5", messages=message("Hi"))


def test_without_the_key_nothing_is_answered(server):
    asked = json.dumps({"model": "tiny", "messages": message("Hi")}).encode()
    for wrong in ("Bearer nonsense", KEY, ""):
        status, reply = post(server, asked, Authorization=wrong)
        assert (status, reply["error"]["type"]) == (401, "authentication_error")
    with (
        openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_a_request_over_the_size_limit_is_cut_off(server):
    status, reply = post(server, b" " * (2 * 2**20))
    assert status == 413
    assert "1,048,576" in reply["error"]["message"]


def test_what_a_web_page_can_send_unasked_is_turned_away(server):
    asked = json.dumps({"model": "tiny", "messages": message("Hi")}).encode()
    assert post(server, asked, **{"Content-Type": "text/plain"})[0] == 415
    assert post(server, asked, Host="rebound.example")[0] == 400


def test_broken_json_is_a_bad_request(server):
    assert post(server, b'{"model": "tiny", ')[0] == 400
    assert post(server, b"[" * 100_000)[0] == 400


async def served(server: Serving, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    monkeypatch.setenv("TEST_KEY", KEY)
    return open_model(f"api:{server.name}", ModelOptions(base_url=server.url, key_env="TEST_KEY", **options))


async def test_our_own_client_gets_from_the_server_what_the_model_says_directly(server, folder, monkeypatch):
    prompts = [question(i, pictures=i % 3) for i in range(24)]
    clip = Video(frames=tuple(picture(i) for i in range(6)))
    prompts.append(Prompt((clip, Text("What moves?")), system="Look closely."))
    media = MediaSettings(frames=3)
    direct = open_model(f"local:{folder}", ModelOptions(media=media))
    through = await served(server, monkeypatch, media=media)
    try:
        await through.preflight()
        expected, got = await ask(direct, prompts), await ask(through, prompts)
        assert texts(got) == texts(expected)
        for one, other in zip(got, expected, strict=True):
            assert one.usage.input_tokens == other.usage.input_tokens
            assert one.finish_reason == other.finish_reason
    finally:
        await direct.close()
        await through.close()


async def test_our_own_client_sees_faults_under_their_kinds(server, monkeypatch):
    model = await served(server, monkeypatch)
    try:
        with pytest.raises(BadRequestError, match="512 at most"):
            await model.answer(Prompt((Text("long " * 1000),)))
    finally:
        await model.close()
    stranger = open_model("api:other", ModelOptions(base_url=server.url, key_env="TEST_KEY"))
    with pytest.raises(PreflightError, match="has no model 'other'"):
        await stranger.preflight()
    await stranger.close()


def test_a_client_that_hangs_up_does_not_hold_the_server_up(server, client):
    body = json.dumps({"model": "tiny", "messages": message("Hi"), "max_tokens": 500}).encode()
    place = urlsplit(server.url)
    for _ in range(5):
        with socket.create_connection((place.hostname or "", place.port or 0)) as line:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    assert client.chat.completions.create(model="tiny", messages=message("Hi"), max_tokens=2).choices


def test_an_interrupted_server_ends_quietly(folder):
    with serving(f"local:{folder}", "--name", "other-name") as running:
        assert running.name == "other-name"
    assert running.process.returncode == 0
    assert "Traceback" not in running.process.stderr.read()
    with pytest.raises(OSError):
        socket.create_connection((urlsplit(running.url).hostname or "", urlsplit(running.url).port or 0), timeout=2)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["api:gpt-5"], 2, "not a model of this machine"),
        (["no/such/folder"], 4, "there is no model folder"),
        (["{folder}", "--api-key-env", "NOT_SET_ANYWHERE"], 4, "NOT_SET_ANYWHERE"),
        (["{folder}", "--server", "transformers", "--host", "0.0.0.0"], 2, "fetches any address"),
        (["{folder}", "--server", "transformers", "--api-key-env", "HOME"], 2, "--api-key-env"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_listens(folder, arguments, status, says, capfd):
    from snellen.cli import main

    assert main(["serve", *(word.format(folder=folder) for word in arguments), "--port", "0"]) == status
    assert says in capfd.readouterr().err


def test_a_port_in_use_is_named(folder, capfd):
    from snellen.cli import main

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(folder), "--port", str(port)]) == 4
    assert f"port {port}" in capfd.readouterr().err


@contextlib.contextmanager
def transformers_serving(folder: Path) -> Iterator[str]:
    """`snellen serve --server transformers`; its base URL. It may not answer yet."""
    port = free_port()
    process = subprocess.Popen(
        [*SNELLEN, "serve", str(folder), "--server", "transformers", "--port", str(port)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    timer = threading.Timer(LIFE_S, process.kill)
    timer.start()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        timer.cancel()
        process.terminate()
        process.wait(600)


async def test_transformers_own_server_answers_our_client_with_the_same_words(folder):
    """The peer: `transformers serve`, the server that transformers brings along."""
    generation = Generation(max_tokens=8, temperature=0.0)
    prompts = [question(i, pictures=1) for i in range(6)]
    direct = open_model(f"local:{folder}", ModelOptions(generation=generation))
    with transformers_serving(folder) as url:
        through = open_model(f"api:{folder}", ModelOptions(base_url=url, generation=generation))
        try:
            for _ in range(LIFE_S):
                if await answers(through):
                    break
                await asyncio.sleep(0.5)
            assert texts(await ask(through, prompts)) == texts(await ask(direct, prompts))
        finally:
            await through.close()
            await direct.close()


async def answers(model: Any) -> bool:
    """Whether the server behind an API model is up."""
    try:
        await model.preflight()
    except PreflightError:
        return False
    return True
