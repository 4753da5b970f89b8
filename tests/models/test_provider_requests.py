"""Requests of the native clients: every field is one that the provider knows, and pictures go out as they are."""

from __future__ import annotations

import asyncio
import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from servers.provider_server import KEY, ProviderServer
from snellen.errors import InputError, PreflightError, UsageError
from snellen.models.api import ApiModel
from snellen.models.api.protocol import open_protocol
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.sources.blobs import FileBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Response, Text, Turn, Video

PROTOCOLS = ("chat", "responses", "messages", "gemini")
KINDS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gemini"}
EFFORTS = {
    "chat": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "responses": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "messages": ("none", "low", "medium", "high", "xhigh", "max"),
    "gemini": ("none", "minimal", "low", "medium", "high", "xhigh"),
}
BENCHMARK = Generation(max_tokens=24, temperature=0.0, top_p=0.9, extra={"top_k": 1})


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    for name in (
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "GOOGLE_GEMINI_BASE_URL",
        "OPENAI_API_VERSION",
        "SNELLEN_SERVICES",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def picture(tmp_path):
    """A PNG under the name of a JPEG."""
    out = BytesIO()
    Pillow.new("RGB", (40, 30), (200, 30, 90)).save(out, "PNG")
    path = tmp_path / "picture.jpg"
    path.write_bytes(out.getvalue())
    return Image(FileBlob(path))


def opened(protocol: str, url: str | None, **options: Any) -> ApiModel:
    kind = KINDS[protocol]
    settings = ModelOptions(base_url=url, responses=protocol == "responses", timeout_s=20.0, **options)
    model = open_model(f"{kind}:gemini-test" if kind == "gemini" else f"{kind}:m-1", settings)
    assert isinstance(model, ApiModel)
    return model


def ask(protocol: str, prompt: Prompt, **options: Any) -> tuple[dict[str, Any], Response]:
    """Return the body that a checking server received, and the response."""
    with ProviderServer(protocol) as server:

        async def run() -> Response:
            model = opened(protocol, server.url, **options)
            try:
                await model.preflight()
                return await model.answer(prompt)
            finally:
                await model.close()

        response = asyncio.run(run())
        assert server.faults == []
        assert len(server.bodies) == 1
        return server.bodies[0], response


def sent_pictures(protocol: str, body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Return (media type, bytes) of the images in a body."""
    pictures = []
    if protocol == "gemini":
        for content in body["contents"]:
            for part in content["parts"]:
                if "inlineData" in part:
                    pictures.append((part["inlineData"]["mimeType"], base64.b64decode(part["inlineData"]["data"])))
        return pictures
    for message in body["input" if protocol == "responses" else "messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if protocol == "messages" and part["type"] == "image":
                pictures.append((part["source"]["media_type"], base64.b64decode(part["source"]["data"])))
            elif part["type"] in ("image_url", "input_image"):
                url = part["image_url"] if protocol == "responses" else part["image_url"]["url"]
                head, data = url.split(";base64,")
                pictures.append((head.removeprefix("data:"), base64.b64decode(data)))
    return pictures


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_bytes_of_a_picture_go_out_untouched_with_their_own_media_type(protocol, picture):
    body, _ = ask(protocol, Prompt((picture, Text("Which colour?"), picture)))
    data = picture.blob.read()
    assert sent_pictures(protocol, body) == [("image/png", data)] * 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_with_a_system_text_is_written_in_each_protocol(protocol, picture):
    history = (Turn("user", (picture, Text("first"))), Turn("assistant", (Text("one"),)))
    prompt = Prompt((Text('sec"ond\n\u00e9'),), system="Be brief.", history=history)
    body, response = ask(protocol, prompt)
    assert response.text == "ANSWER: A"
    text = json.dumps(body, ensure_ascii=False)
    places = [text.index(words) for words in ("Be brief.", "first", "one", 'sec\\"ond\\n\u00e9')]
    assert places == sorted(places)
    assert len(sent_pictures(protocol, body)) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_sampling_is_sent_that_the_user_did_not_ask_for(protocol):
    body, _ = ask(protocol, Prompt((Text("q"),), generation=BENCHMARK))
    text = json.dumps(body)
    assert not any(word in text for word in ("temperature", "top_p", "topP", "top_k", "topK"))
    assert "24" in text  # the benchmark's limit on new tokens
    mine, _ = ask(
        protocol, Prompt((Text("q"),), generation=BENCHMARK), generation=Generation(temperature=0.5, top_p=0.8)
    )
    assert "0.5" in json.dumps(mine) and "0.8" in json.dumps(mine)


SCHEMA = {"type": "object", "properties": {"answer": {"type": "string", "enum": ["A", "B"]}}, "required": ["answer"]}
SCHEMA_PLACES = {
    "chat": lambda body: body["response_format"]["json_schema"],
    "responses": lambda body: body["text"]["format"],
    "messages": lambda body: body["output_config"]["format"],
    "gemini": lambda body: {"schema": body["generationConfig"]["responseJsonSchema"]},
}


@pytest.mark.parametrize("effort", [None, "low"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_schema_stands_where_each_protocol_has_it_and_nowhere_without_one(protocol, effort):
    prompt = Prompt((Text("q"),), generation=Generation(reply_schema=SCHEMA))
    body, _ = ask(protocol, prompt, effort=effort)
    place = SCHEMA_PLACES[protocol](body)
    assert place["schema"] == SCHEMA and list(place["schema"]) == list(SCHEMA)
    assert place.get("strict") is (True if protocol in ("chat", "responses") else None)
    plain, _ = ask(protocol, Prompt((Text("q"),), generation=BENCHMARK), effort=effort)
    assert not any(word in json.dumps(plain) for word in ("schema", "Schema", "response_format", "responseMimeType"))


MORE = {
    "top_k": 20,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "presence_penalty": 1.5,
    "frequency_penalty": -0.5,
    "chat_template_kwargs": {"enable_thinking": False},
}
TAKEN = {
    "chat": {"presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty"},
    "responses": {},
    "messages": {"top_k": "top_k"},
    "gemini": {"top_k": "topK", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty"},
}
"""Sampling fields that a provider has besides temperature and top_p, by its names of them."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", MORE)
def test_a_sampling_field_is_written_as_the_provider_has_it_or_refused_before_the_run(protocol, name):
    generation = Generation(**{name: MORE[name]})
    if name not in TAKEN[protocol]:
        with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} is set, and .* takes no {name}"):
            opened(protocol, None, generation=generation)
        return
    body, _ = ask(protocol, Prompt((Text("q"),)), generation=generation)
    fields = body["generationConfig"] if protocol == "gemini" else body
    assert fields[TAKEN[protocol][name]] == MORE[name]


def test_a_server_of_ones_own_gets_every_sampling_field_and_a_provider_at_its_address_only_its_own():
    options = ModelOptions(base_url="http://127.0.0.1:1/v1", generation=Generation(temperature=0.7, **MORE))
    model = open_model("api:m-1", options)
    assert isinstance(model, ApiModel)
    body = json.loads(asyncio.run(model.writer.write(Prompt((Text("q"),)))).sent)
    assert {name: body[name] for name in MORE} == MORE
    with pytest.raises(UsageError, match="OpenAI takes no top_k"):
        open_model("api:m-1", ModelOptions(generation=Generation(top_k=20)))
    open_model("api:m-1", ModelOptions(generation=Generation(presence_penalty=1.5)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_benchmark_s_sampling_fields_do_not_reach_a_provider(protocol):
    body, _ = ask(protocol, Prompt((Text("q"),), generation=Generation(max_tokens=24, **MORE)))
    assert not any(word in json.dumps(body) for word in ("top_k", "topK", "enalty", "thinking"))


def test_a_model_behind_an_api_has_no_checkpoint_to_sample_as():
    with pytest.raises(UsageError, match="--sampling checkpoint reads a checkpoint"):
        opened("chat", None, sampling="checkpoint")


@pytest.mark.parametrize(("protocol", "effort"), [(name, effort) for name in PROTOCOLS for effort in EFFORTS[name]])
def test_each_effort_of_a_provider_is_written_as_the_provider_has_it(protocol, effort):
    body, _ = ask(protocol, Prompt((Text("q"),), generation=BENCHMARK), effort=effort)
    if protocol == "chat":
        assert body["reasoning_effort"] == effort
    elif protocol == "responses":
        assert body["reasoning"] == {"effort": effort}
    elif protocol == "messages":
        thinking = {"type": "disabled"} if effort == "none" else {"type": "adaptive", "display": "summarized"}
        assert body["thinking"] == thinking
        assert body.get("output_config") == (None if effort == "none" else {"effort": effort})
        assert body["max_tokens"] == (
            24 if effort == "none" else 16384
        )  # the benchmark's limit leaves no room to think
    else:
        config = body["generationConfig"]["thinkingConfig"]
        assert config == (
            {"thinkingBudget": 0} if effort == "none" else {"includeThoughts": True, "thinkingLevel": effort.upper()}
        )


@pytest.mark.parametrize(
    ("protocol", "option", "words"),
    [
        ("messages", {"effort": "minimal"}, "--effort minimal: Anthropic has none, low, medium, high, xhigh, max"),
        ("gemini", {"effort": "max"}, "--effort max: Gemini has none, minimal, low, medium, high, xhigh"),
        ("messages", {"detail": "low"}, "--detail low: Anthropic has auto, original"),
        ("messages", {"extra_body": {"system": "x"}}, "sets 'system'"),
        ("gemini", {"extra_body": {"contents": []}}, "sets 'contents'"),
        ("messages", {"generation": Generation(seed=3)}, "Anthropic has no seed"),
        ("messages", {"generation": Generation(temperature=1.5)}, "accepts 0 to 1"),
        ("messages", {"media": MediaSettings(video="native")}, "takes no videos"),
        ("chat", {"media": MediaSettings(video="native", fps=2.0)}, "--fps 2 with --video native: .* no field for it"),
    ],
)
def test_what_a_provider_does_not_have_is_refused_before_any_request(protocol, option, words):
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        opened(protocol, None, **option)


def test_options_of_services_are_refused_for_other_models():
    for option in ({"effort": "low"}, {"detail": "high"}, {"responses": True}, {"stream": True}):
        with pytest.raises(UsageError, match="is for models behind an API"):
            open_model("embedded:", ModelOptions(**option))
    with pytest.raises(UsageError, match="--responses is for openai:MODEL"):
        open_model("anthropic:m", ModelOptions(responses=True))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_detail_original_keeps_the_service_from_scaling_pictures(protocol, picture):
    body, _ = ask(protocol, Prompt((picture, Text("q"))), detail="original")
    text = json.dumps(body)
    expected = {
        "chat": '"detail": "original"',
        "responses": '"detail": "original"',
        "messages": '"transformations": {"oversized_image": "error"}',
        "gemini": '"mediaResolution": {"level": "MEDIA_RESOLUTION_ULTRA_HIGH"}',
    }
    assert expected[protocol] in text


def test_low_and_high_detail_of_gemini_are_settings_of_the_whole_request(picture):
    for detail in ("low", "high"):
        body, _ = ask("gemini", Prompt((picture, Text("q"))), detail=detail)
        assert body["generationConfig"] == {"mediaResolution": f"MEDIA_RESOLUTION_{detail.upper()}"}


def test_the_responses_api_is_told_to_store_nothing():
    assert ask("responses", Prompt((Text("q"),)))[0]["store"] is False


def test_a_video_goes_to_gemini_as_its_file_and_to_others_as_frames(tmp_path):
    path = tmp_path / "clip.mp4"
    boxes = ((b"ftyp", b"mp42\0\0\0\0mp42isom"), (b"moov", b""), (b"mdat", bytes(range(200))))
    path.write_bytes(b"".join((8 + len(data)).to_bytes(4, "big") + name + data for name, data in boxes))
    extra = {"videoMetadata": {"fps": 2.0}}
    prompt = Prompt((Video(FileBlob(path)), Text("q")))
    body, _ = ask("gemini", prompt, media=MediaSettings(video="native"), extra_body=extra)
    part = body["contents"][0]["parts"][0]
    assert part["videoMetadata"] == {"fps": 2.0}
    assert part["inlineData"]["mimeType"] == "video/mp4"
    assert base64.b64decode(part["inlineData"]["data"]) == path.read_bytes()
    body, _ = ask("gemini", prompt, media=MediaSettings(video="native", fps=0.5))
    assert body["contents"][0]["parts"][0]["videoMetadata"] == {"fps": 0.5}
    frames = tuple(Image(FileBlob(_frame(tmp_path, number))) for number in range(3))
    body, _ = ask("messages", Prompt((Video(frames=frames), Text("q"))))
    assert len(sent_pictures("messages", body)) == 3


def _frame(folder: Path, number: int) -> Path:
    path = folder / f"{number}.png"
    Pillow.new("RGB", (8, 8), (number * 50, 0, 0)).save(path)
    return path


def test_a_request_above_the_inline_limit_is_refused_with_the_limit(tmp_path, monkeypatch):
    rows = tmp_path / "services.toml"
    rows.write_text("[gemini]\nrequest_bytes = 2000\n")
    monkeypatch.setenv("SNELLEN_SERVICES", str(rows))
    protocol = open_protocol("gemini", "m", ModelOptions())
    noise = Pillow.effect_noise((64, 64), 90.0)
    noise.save(tmp_path / "noise.png")
    with pytest.raises(InputError, match=r"Gemini takes 2,000 at most"):
        asyncio.run(protocol.write(Prompt((Image(FileBlob(tmp_path / "noise.png")), Text("q")))))


def test_versions_and_headers_are_data(tmp_path, monkeypatch):
    assert open_protocol("gemini", "m", ModelOptions()).url() == (
        "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
    )
    usual = open_protocol("anthropic", "m", ModelOptions())
    assert usual.headers(KEY) == {"anthropic-version": "2026-10-21", "Authorization": f"Bearer {KEY}"}
    rows = tmp_path / "services.toml"
    rows.write_text(
        '[anthropic]\nkey_header = "x-api-key"\nkey_form = "{key}"\nheaders = { anthropic-version = "2023-06-01" }\n'
        '[gemini]\nversion = "v1"\n'
    )
    monkeypatch.setenv("SNELLEN_SERVICES", str(rows))
    older = open_protocol("anthropic", "m", ModelOptions())
    assert older.headers(KEY) == {"anthropic-version": "2023-06-01", "x-api-key": KEY}
    assert older.identity()["headers"] != usual.identity()["headers"]
    assert "/v1/models/m:generateContent" in open_protocol("gemini", "m", ModelOptions()).url()
    for text in ("[nobody]\n", "[gemini]\nversions = 3\n", "gemini = [", "[gemini]\npath = 3\n"):
        rows.write_text(text)
        with pytest.raises(UsageError, match=r"services\.toml"):
            open_protocol("gemini", "m", ModelOptions())


@pytest.mark.parametrize(
    ("kind", "base_url", "expected"),
    [
        ("openai", None, "https://api.openai.com/v1/chat/completions"),
        ("openrouter", None, "https://openrouter.ai/api/v1/chat/completions"),
        ("anthropic", None, "https://api.anthropic.com/v1/messages"),
        ("anthropic", "http://gateway:8/claude", "http://gateway:8/claude/v1/messages"),
        ("anthropic", "http://gateway:8/v1", "http://gateway:8/v1/messages"),
        ("anthropic", "http://gateway:8/v1/messages", "http://gateway:8/v1/messages"),
        ("gemini", "http://gateway:8/v1", "http://gateway:8/v1/models/m:generateContent"),
        ("azure", "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/chat/completions"),
        ("azure", "https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1/chat/completions"),
        (
            "azure",
            "https://r.openai.azure.com?api-version=2025-01-01",
            "https://r.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-01-01",
        ),
        (
            "azure",
            "https://r.openai.azure.com/openai/deployments/m?api-version=2025-01-01",
            "https://r.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-01-01",
        ),
    ],
)
def test_the_address_of_a_question_at_each_service(kind, base_url, expected):
    assert open_protocol(kind, "m", ModelOptions(base_url=base_url)).url() == expected


def test_azure_has_its_key_in_its_own_header_and_needs_an_address(monkeypatch):
    protocol = open_protocol("azure", "m", ModelOptions(base_url="https://r.openai.azure.com"))
    assert protocol.headers(KEY) == {"api-key": KEY}
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    with pytest.raises(UsageError, match="Azure OpenAI has an address of its own"):
        open_protocol("azure", "m", ModelOptions())


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini", "openrouter"])
def test_a_provider_without_its_key_is_refused_before_any_request(kind, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    model = open_model(f"{kind}:m", ModelOptions())
    with pytest.raises(PreflightError, match=r"API_KEY.* is not set.*No request was sent"):
        asyncio.run(model.preflight())


def test_the_pieces_of_a_picture_are_views_of_one_encoding(picture):
    for kind in ("anthropic", "gemini"):
        protocol = open_protocol(kind, "m", ModelOptions())
        bodies = [asyncio.run(protocol.write(Prompt((picture, Text(str(number)))))) for number in range(2)]
        views = [next(piece for piece in body.pieces if isinstance(piece, memoryview)) for body in bodies]
        assert views[0].obj is views[1].obj
        assert b"sha256:" in bodies[0].traced and len(bodies[0].traced) < len(bodies[0].sent)
        json.loads(bodies[0].traced)
