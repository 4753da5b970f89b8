"""Vertex AI: access tokens of a server on loopback, and the requests of Gemini and Claude there."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import parse_qs

import pytest

from servers.cloud import CloudReply, CloudRequest, CloudServer
from servers.provider_server import answer
from snellen.errors import AuthError, KeyRefusedError, PreflightError, UsageError
from snellen.models.api import ApiModel
from snellen.models.api.protocol import open_protocol
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.redaction import redact
from snellen.types import Generation, Prompt, Response, Text

pytest.importorskip("google.auth")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import padding  # noqa: E402

QUESTION = Prompt((Text("Which colour?"),), system="Be brief.")
BODIES = {"gemini-test": "gemini", "claude-test@20250929": "messages"}


@pytest.fixture(scope="module")
def private_key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class TokenServer(CloudServer):
    """A token endpoint: tokens are `ya29.loopback-token-N`, each of which lives `seconds`, and is given after `pause_s`."""

    def __init__(self, seconds: int = 3600, pause_s: float = 0.0) -> None:
        self.given = 0

        def give(request: CloudRequest) -> CloudReply:
            time.sleep(pause_s)
            self.given += 1
            token = f"ya29.loopback-token-{self.given}"
            return CloudReply({"access_token": token, "expires_in": seconds, "token_type": "Bearer"})

        super().__init__(give)


@pytest.fixture
def account(private_key, monkeypatch, tmp_path):
    """Return a function that writes a service account's file for a token endpoint, as the environment names it."""
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

    def write(origin: str) -> None:
        file = tmp_path / "account.json"
        facts = {"type": "service_account", "project_id": "my-project", "private_key_id": "k1", "client_id": "1"}
        facts |= {
            "private_key": pem.decode(),
            "client_email": "eval@my-project.example",
            "token_uri": f"{origin}/token",
        }
        file.write_text(json.dumps(facts))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))

    return write


def opened(name: str, url: str, **options: Any) -> ApiModel:
    model = open_model(f"vertex:{name}", ModelOptions(base_url=url, timeout_s=20.0, patience_s=0.0, **options))
    assert isinstance(model, ApiModel)
    return model


async def asked(model: ApiModel, times: int = 1) -> list[Response]:
    try:
        return await asyncio.gather(*(model.answer(QUESTION) for _ in range(times)))
    finally:
        await model.close()


@pytest.mark.parametrize("name", BODIES)
def test_a_service_account_gives_one_token_to_many_requests_and_the_loop_goes_on(name, account, private_key):
    with TokenServer(pause_s=0.4) as tokens, CloudServer([CloudReply(answer(BODIES[name]))]) as server:
        account(tokens.origin)

        async def run() -> tuple[list[Response], int]:
            steps = 0
            task = asyncio.create_task(asked(opened(name, server.origin), times=20))
            while not task.done():
                await asyncio.sleep(0.02)
                steps += 1
            return await task, steps

        responses, steps = asyncio.run(run())
    assert {response.text for response in responses} == {"ANSWER: A"} and len(responses) == 20
    assert tokens.given == 1 and steps >= 10
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer ya29.loopback-token-1"}
    assertion = parse_qs(tokens.requests[0].data.decode())["assertion"][0]
    head, _, signed = assertion.rpartition(".")
    private_key.public_key().verify(_decoded(signed), head.encode(), padding.PKCS1v15(), hashes.SHA256())
    assert "loopback-token" not in redact("the header was Bearer ya29.loopback-token-1")
    assert "loopback-token" not in json.dumps([str(response.trace) for response in responses])


def _decoded(text: str) -> bytes:
    import base64

    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_bodies_and_addresses_are_those_of_both_publishers(account):
    with TokenServer() as tokens:
        account(tokens.origin)
        place = "projects/my-project/locations/global/publishers"
        for name, path in (
            ("gemini-test", f"/v1beta1/{place}/google/models/gemini-test:generateContent"),
            ("claude-test@20250929", f"/v1/{place}/anthropic/models/claude-test%4020250929:rawPredict"),
        ):
            with CloudServer([CloudReply(answer(BODIES[name]))]) as server:
                generation = Generation(max_tokens=20, top_k=3)
                asyncio.run(asked(opened(name, server.origin, generation=generation)))
                body = server.requests[0].body
                assert server.requests[0].path == path
                if name == "gemini-test":
                    assert body == {
                        "systemInstruction": {"parts": [{"text": "Be brief."}]},
                        "contents": [{"role": "user", "parts": [{"text": "Which colour?"}]}],
                        "generationConfig": {"maxOutputTokens": 20, "topK": 3},
                    }
                else:
                    assert body == {
                        "anthropic_version": "2026-10-21",
                        "system": "Be brief.",
                        "messages": [{"role": "user", "content": "Which colour?"}],
                        "max_tokens": 20,
                        "top_k": 3,
                    }
                    assert "anthropic-version" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_the_host_follows_from_the_location(location, host, account, monkeypatch):
    account("http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "other")
    if location:
        monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location)
    path = f"v1beta1/projects/other/locations/{location or 'global'}/publishers/google/models/m:generateContent"
    assert open_protocol("vertex", "m", ModelOptions()).url() == f"https://{host}/{path}"


@pytest.mark.parametrize(("name", "end"), [("m", ":streamGenerateContent?alt=sse"), ("claude-m", ":streamRawPredict")])
def test_streams_have_addresses_of_their_own(name, end, account):
    account("http://127.0.0.1:9")
    assert open_protocol("vertex", name, ModelOptions(stream=True)).url().endswith(f"/models/{name}{end}")


def test_a_token_that_is_refused_mid_run_is_renewed_once_for_all_requests(account):
    with TokenServer() as tokens:
        account(tokens.origin)

        def script(request: CloudRequest) -> CloudReply:
            fresh = request.headers["authorization"] != "Bearer ya29.loopback-token-1"
            return CloudReply(answer("gemini")) if fresh else CloudReply({"error": {"code": 401, "message": "no"}}, 401)

        with CloudServer(script) as server:
            responses = asyncio.run(asked(opened("gemini-test", server.origin), times=8))
            assert [response.text for response in responses] == ["ANSWER: A"] * 8
            renewed = [request.headers["authorization"][-1] == "2" for request in server.requests]
            assert tokens.given == 2 and sum(renewed) == 8 and 8 < len(renewed) <= 16
        with CloudServer([CloudReply({"error": {"code": 401, "message": "never"}}, 401)]) as server:
            with pytest.raises(KeyRefusedError, match="never"):
                asyncio.run(asked(opened("gemini-test", server.origin)))
            assert len(server.requests) == 2


def test_a_token_is_renewed_before_it_expires(account):
    with TokenServer(seconds=60) as tokens, CloudServer([CloudReply(answer("gemini"))]) as server:
        account(tokens.origin)  # google-auth takes a token with less than 225 s to live for an expired one

        async def run() -> None:
            model = opened("gemini-test", server.origin)
            await model.answer(QUESTION)
            await asked(model)

        asyncio.run(run())
        assert [request.headers["authorization"][-1] for request in server.requests] == ["1", "2"]


def test_a_token_in_a_variable_needs_no_credentials(account, monkeypatch):
    account("http://127.0.0.1:9")
    monkeypatch.setenv("MY_TOKEN", "ya29.token-of-a-variable-4711")
    with CloudServer([CloudReply(answer("gemini"))]) as server:
        asyncio.run(asked(opened("gemini-test", server.origin, key_env="MY_TOKEN")))
        assert server.requests[0].headers["authorization"] == "Bearer ya29.token-of-a-variable-4711"


def test_missing_and_refused_credentials_are_said_before_the_first_question(account, monkeypatch, tmp_path):
    refused = CloudReply({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400)
    with CloudServer([refused]) as tokens, CloudServer([CloudReply({}, 400)]) as server:
        account(tokens.origin)
        with pytest.raises(PreflightError, match="Invalid JWT Signature"):
            asyncio.run(opened("gemini-test", server.origin).preflight())
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
        with pytest.raises(UsageError, match="GOOGLE_CLOUD_PROJECT"):
            opened("gemini-test", server.origin)
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
        with pytest.raises(AuthError, match="not found"):
            asyncio.run(asked(opened("gemini-test", server.origin)))
        assert server.requests == []


@pytest.mark.parametrize("reply", [{"access_token": "x", "expires_in": "soon"}, {"access_token": None}, [1]])
def test_a_token_servers_reply_of_another_form_is_a_refusal(account, reply):
    with CloudServer(lambda _: CloudReply(reply)) as tokens, CloudServer([CloudReply({}, 400)]) as server:
        account(tokens.origin)
        with pytest.raises(KeyRefusedError, match="no access token"):
            asyncio.run(asked(opened("gemini-test", server.origin)))
        assert server.requests == []


def test_the_preflight_names_a_model_that_is_not_there(account):
    missing = CloudReply({"error": {"code": 404, "message": "Publisher Model `m` was not found"}}, 404)
    with TokenServer() as tokens:
        account(tokens.origin)
        for said in (missing, CloudReply({"error": {"code": 400, "message": "contents is required"}}, 400)):
            with CloudServer([said]) as server:
                if said.status == 404:
                    with pytest.raises(PreflightError, match="was not found"):
                        asyncio.run(opened("gemini-test", server.origin).preflight())
                else:
                    asyncio.run(opened("gemini-test", server.origin).preflight())
                assert server.requests[0].data == b"{}"


def test_batches_and_uploads_are_refused_by_name(account):
    account("http://127.0.0.1:9")
    for name, title in (("gemini-test", "Vertex AI"), ("claude-test", "Claude on Vertex AI")):
        with pytest.raises(UsageError, match=title):
            opened(name, "http://127.0.0.1:9").batches()
