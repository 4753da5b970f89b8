"""Amazon Bedrock: requests and replies against the service model that botocore carries, signatures computed again."""

from __future__ import annotations

import asyncio
import json
import sys
from io import BytesIO
from typing import Any

import pytest
from PIL import Image as Pillow

from servers.cloud import CloudReply, CloudRequest, CloudServer
from snellen.errors import (
    AuthError,
    BadRequestError,
    KeyRefusedError,
    MissingExtraError,
    ModelError,
    NoCreditError,
    PreflightError,
    RateLimitError,
    RefusalError,
    ServerError,
    UsageError,
)
from snellen.media.encode import Encoded
from snellen.models.api import ApiModel
from snellen.models.api.bedrock_converse import _VIDEO_FORMATS
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.redaction import redact
from snellen.sources.blobs import BytesBlob
from snellen.types import Generation, Image, Prompt, Response, Text, Turn, Video

auth = pytest.importorskip("botocore.auth")

from botocore import credentials, loaders, model, serialize, validate  # noqa: E402
from botocore.awsrequest import AWSRequest  # noqa: E402

KEY, SECRET, REGION = "AKIDEXAMPLE", "loopback-secret-0815-of-a-test", "eu-west-3"
CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROFILE = "arn:aws:bedrock:eu-west-3:123456789012:application-inference-profile/a1b2c3"
SERVICE = model.ServiceModel(loaders.Loader().load_service_model("bedrock-runtime", "service-2"))
CONVERSE = SERVICE.operation_model("Converse")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def picture():
    out = BytesIO()
    Pillow.new("RGB", (40, 30), (200, 30, 90)).save(out, "PNG")
    return Image(BytesBlob("p.png", out.getvalue()))


def reply(*blocks: dict[str, Any], stop: str = "end_turn", **usage: Any) -> dict[str, Any]:
    """Return a reply of the service, which its own model accepts."""
    counts = {"inputTokens": 100, "outputTokens": 7, "totalTokens": 107, **usage}
    body = {
        "output": {"message": {"role": "assistant", "content": list(blocks) or [{"text": "ANSWER: A"}]}},
        "stopReason": stop,
        "usage": counts,
        "metrics": {"latencyMs": 12},
    }
    report = validate.ParamValidator().validate(body, CONVERSE.output_shape)
    assert not report.has_errors(), report.generate_report()
    assert stop in CONVERSE.output_shape.members["stopReason"].enum
    return body


def ask(prompt: Prompt, *script: CloudReply, name: str = CLAUDE, **options: Any) -> tuple[list[CloudRequest], Response]:
    with CloudServer(script or [CloudReply(reply())]) as server:

        async def run() -> Response:
            opened = open_model(f"bedrock:{name}", ModelOptions(base_url=server.origin, timeout_s=20.0, **options))
            assert isinstance(opened, ApiModel)
            try:
                return await opened.answer(prompt)
            finally:
                await opened.close()

        return server.requests, asyncio.run(run())


def signature(request: CloudRequest, secret: str = SECRET, token: str | None = None) -> str:
    """Compute the signature of a request that arrived, with botocore's own rules."""
    signed = request.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    again = AWSRequest(
        "POST",
        f"http://{request.headers['host']}{request.path}",
        data=request.data,
        headers={name: request.headers[name] for name in signed},
    )
    again.context["timestamp"] = request.headers["x-amz-date"]
    signer = auth.SigV4Auth(credentials.Credentials(KEY, secret, token), "bedrock", REGION)
    return signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)


def test_body_and_address_are_what_botocore_writes_for_the_same_question(picture):
    history = (Turn("user", (picture, Text("first"))), Turn("assistant", (Text("one"),)))
    prompt = Prompt((picture, Text("Which colour?")), system="Be brief.", history=history)
    chosen = Generation(max_tokens=20, temperature=0.5, top_p=0.9, top_k=5, stop=("END",))
    (request,), response = ask(prompt, generation=chosen, effort="low")
    shown = {"image": {"format": "png", "source": {"bytes": picture.blob.read()}}}
    parameters = {
        "modelId": CLAUDE,
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [shown, {"text": "first"}]},
            {"role": "assistant", "content": [{"text": "one"}]},
            {"role": "user", "content": [shown, {"text": "Which colour?"}]},
        ],
        "inferenceConfig": {"maxTokens": 20, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "additionalModelRequestFields": {"top_k": 5},
        "outputConfig": {"effort": "low"},
    }
    expected = serialize.create_serializer("rest-json").serialize_to_request(parameters, CONVERSE)
    assert request.body == json.loads(expected["body"])
    assert request.path == expected["url_path"]
    assert (response.text, response.usage.input_tokens, response.usage.output_tokens) == ("ANSWER: A", 100, 7)


@pytest.mark.parametrize("name", [CLAUDE, PROFILE, "amazon.nova-lite-v1:0"])
@pytest.mark.parametrize("token", [None, "loopback-session-token-4711"])
def test_the_signature_is_that_of_the_request_as_it_arrives(picture, monkeypatch, name, token):
    if token is not None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    (request,), _ = ask(Prompt((picture, Text("é?"))), name=name)
    assert request.path == f"/model/{name.replace(':', '%3A').replace('/', '%2F')}/converse"
    assert request.headers["authorization"].endswith(f"Signature={signature(request, token=token)}")
    assert not request.headers["authorization"].endswith(signature(request, "another secret", token))
    assert request.headers.get("x-amz-security-token") == token
    assert SECRET not in redact(f"the secret is {SECRET}")


def test_a_bearer_key_takes_the_place_of_the_signature(monkeypatch):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-0815-of-a-test")
    monkeypatch.delenv("AWS_REGION")
    (request,), _ = ask(Prompt((Text("q"),)))
    assert request.headers["authorization"] == "Bearer bedrock-api-key-0815-of-a-test"


def test_a_profile_gives_region_and_keys(monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(UsageError, match="region"):
        open_model(f"bedrock:{CLAUDE}", ModelOptions())
    (tmp_path / "config").write_text("[profile lab]\nregion = us-gov-west-1\n")
    (tmp_path / "credentials").write_text(f"[lab]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    opened = open_model(f"bedrock:{CLAUDE}", ModelOptions())
    assert opened.identity()["base_url"] == "https://bedrock-runtime.us-gov-west-1.amazonaws.com"
    (request,), _ = ask(Prompt((Text("q"),)))
    assert f"Credential={KEY}/" in request.headers["authorization"]
    assert "/us-gov-west-1/bedrock/aws4_request" in request.headers["authorization"]


def test_reasoning_and_cached_tokens_are_read():
    thought = {"reasoningContent": {"reasoningText": {"text": "It is red.", "signature": "x"}}}
    counts = {"cacheReadInputTokens": 40, "cacheWriteInputTokens": 60}
    written = [{"ttl": "1h", "inputTokens": 25}, {"ttl": "5m", "inputTokens": 35}]
    body = reply(thought, {"text": "A"}, {"text": "B"}, stop="max_tokens", **counts, cacheDetails=written)
    _, response = ask(Prompt((Text("q"),)), CloudReply(body, headers={"x-amzn-RequestId": "req-1"}))
    assert (response.text, response.reasoning, response.finish_reason) == ("AB", "It is red.", "length")
    usage = response.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (200, 40, 60)
    assert usage.cache_write_1h_tokens == 25
    assert response.request_id == "req-1"


@pytest.mark.parametrize("stop", ["guardrail_intervened", "content_filtered"])
def test_a_guardrail_is_a_refusal_with_its_tokens(stop):
    with pytest.raises(RefusalError, match=stop) as caught:
        ask(Prompt((Text("q"),)), CloudReply(reply({"text": "Sorry."}, stop=stop)))
    assert caught.value.response.usage.input_tokens == 100


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ("ThrottlingException", RateLimitError),
        ("ModelNotReadyException", RateLimitError),
        ("ModelTimeoutException", ServerError),
        ("ModelErrorException", ServerError),
        ("InternalServerException", ServerError),
        ("ServiceUnavailableException", ServerError),
        ("ServiceQuotaExceededException", NoCreditError),
        ("ValidationException", BadRequestError),
        ("AccessDeniedException", AuthError),
        ("ResourceNotFoundException", BadRequestError),
    ],
)
def test_errors_of_the_service_model_have_our_kinds(shape, kind):
    status = SERVICE.shape_for(shape).metadata["error"]["httpStatusCode"]
    said = CloudReply({"message": "as it is"}, status, {"x-amzn-ErrorType": f"{shape}:http://internal.amazon.com/"})
    with pytest.raises(ModelError, match="as it is") as caught:
        ask(Prompt((Text("q"),)), said)
    assert type(caught.value) is kind


def test_keys_that_expired_are_read_anew_once(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    lines = "[default]\naws_access_key_id = {}\naws_secret_access_key = secret-{}-of-a-test\n"
    file.write_text(lines.format("OLD", "OLD"))
    expired = CloudReply({"message": "expired"}, 403, {"x-amzn-errortype": "ExpiredTokenException"})

    def script(request: CloudRequest) -> CloudReply:
        if "Credential=OLD/" in request.headers["authorization"]:
            file.write_text(lines.format("NEW", "NEW"))
            return expired
        return CloudReply(reply())

    with CloudServer(script) as server:

        async def run(text: str) -> str:
            opened = open_model(f"bedrock:{CLAUDE}", ModelOptions(base_url=server.origin))
            try:
                return (await opened.answer(Prompt((Text(text),)))).text
            finally:
                await opened.close()

        assert asyncio.run(run("q")) == "ANSWER: A"
        assert len(server.requests) == 2
    with pytest.raises(KeyRefusedError):  # the file has the same keys as before
        ask(Prompt((Text("q"),)), expired)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (CloudReply({"message": "messages is required"}, 400, {"x-amzn-errortype": "ValidationException"}), ""),
        (CloudReply({"message": "no"}, 403, {"x-amzn-errortype": "AccessDeniedException"}), "credentials of AWS"),
        (CloudReply({"message": "no such model"}, 404, {"x-amzn-errortype": "ResourceNotFoundException"}), "name"),
        (CloudReply({"message": "down"}, 503), "answers at"),
    ],
)
def test_the_preflight_sends_a_question_without_content(said, words):
    with CloudServer([said]) as server:
        options = ModelOptions(base_url=server.origin, patience_s=0.0)

        async def run() -> None:
            await open_model(f"bedrock:{CLAUDE}", options).preflight()

        if words:
            with pytest.raises(PreflightError, match=words):
                asyncio.run(run())
        else:
            asyncio.run(run())
        assert [request.data for request in server.requests] == [b"{}"]


@pytest.mark.parametrize(
    "options",
    [
        {"stream": True},
        {"detail": "high"},
        {"effort": "none"},
        {"generation": Generation(seed=1)},
        {"generation": Generation(min_p=0.1)},
        {"generation": Generation(top_k=3)},
        {"generation": Generation(temperature=1.5)},
        {"extra_body": {"messages": []}},
    ],
)
def test_what_the_service_lacks_is_refused_by_name(options):
    with pytest.raises(UsageError, match=r"Bedrock|bedrock|messages"):
        open_model("bedrock:amazon.nova-lite-v1:0", ModelOptions(**options))


def test_a_video_is_sent_in_a_format_of_the_service_alone():
    opened = open_model("bedrock:amazon.nova-lite-v1:0", ModelOptions())
    shape = SERVICE.shape_for("VideoFormat").enum
    for mime, form in _VIDEO_FORMATS.items():
        before, _, after = opened.writer.media_part(Video(), Encoded(b"AA==", mime, "", 1, 1))
        assert json.loads(before + after[:-1])["video"]["format"] == form and form in shape
    with pytest.raises(ModelError, match="video/x-msvideo"):
        opened.writer.media_part(Video(), Encoded(b"AA==", "video/x-msvideo", "", 1, 1))


def test_a_missing_extra_is_named_with_its_command(monkeypatch):
    for name, kind, variable in (
        ("botocore.auth", "bedrock", "AWS_REGION"),
        ("google.auth", "vertex", "GOOGLE_CLOUD_PROJECT"),
    ):
        monkeypatch.setenv(variable, "eu-west-3")
        monkeypatch.setitem(sys.modules, name, None)
        opened = open_model(f"{kind}:m", ModelOptions(base_url="http://127.0.0.1:9"))
        with pytest.raises(MissingExtraError, match=rf"{name.partition('.')[0]} is not installed(.|\n)*\[{kind}\]"):
            asyncio.run(opened.preflight())
