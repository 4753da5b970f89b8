"""A zip that one request cannot hold goes by the leaderboard's blob store; the user's token never reaches the store."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from easi.submit.conftest import ABOUT, TOKEN
from servers.loopback import JsonHandler, LoopbackServer
from snellen.easi.submit import client, package
from snellen.easi.submit.client import send_by_blob
from snellen.errors import SubmissionError

CLIENT_TOKEN = "vercel_blob_client_abc123_c2lnbmF0dXJl"
STORED = "https://abc123.private.blob.vercel-storage.com/easi_results-x7.zip"
ZIP = b"PK\x03\x04" + bytes(range(256)) * 40


class Got(NamedTuple):
    method: str
    path: str
    headers: Any
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Server(LoopbackServer):
    """Leaderboard and blob store; `answers` overrides what a path says: (status, object)."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        server = self

        class Handler(JsonHandler):
            def handled(self) -> None:
                server.got.append(got := Got(self.command, self.path, self.headers, self.read()))
                self.send(*server.answer(got))

            do_POST = do_PUT = handled

        super().__init__(Handler)
        self.endpoint = f"{self.origin}/api/submit-with-file/"

    def answer(self, got: Got) -> tuple[int, Any]:
        if planned := self.answers.get(got.path.partition("?")[0]):
            return planned.pop(0)
        if got.path == "/api/submit":
            return 200, {"success": True}
        if got.path == "/api/blob-upload" and got.method == "POST":
            return 200, {"type": "blob.generate-client-token", "clientToken": CLIENT_TOKEN}
        return 200, {"url": STORED, "pathname": "easi_results.zip", "contentType": "application/zip"}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def store(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(client.VARIABLE, f"{server.origin}/store/")
    return f"{server.origin}/store"


def sent(server: Server, waits: tuple[float, ...] = (0.0, 0.0)) -> Any:
    payload = {"modelName": "org/model", "scores": {"blink": 50.0}}
    return send_by_blob(payload, ZIP, TOKEN, endpoint=server.endpoint, timeout_s=600.0, waits_s=waits)


def test_the_token_for_the_upload_is_asked_for_then_the_zip_is_stored_and_its_address_is_submitted(server, store):
    assert sent(server).status == 200
    grant, upload, submit = server.got
    assert (grant.method, grant.path) == ("POST", "/api/blob-upload")
    event = grant.json()
    assert event["type"] == "blob.generate-client-token" and event["payload"]["multipart"] is False
    assert json.loads(event["payload"]["clientPayload"]) == {"token": TOKEN}
    assert event["payload"]["pathname"] == "easi_results.zip"

    assert (upload.method, upload.path) == ("PUT", "/store/?pathname=easi_results.zip")
    assert upload.body == ZIP and upload.headers["Authorization"] == f"Bearer {CLIENT_TOKEN}"
    assert (
        upload.headers["x-content-type"] == "application/zip" and upload.headers["x-vercel-blob-store-id"] == "abc123"
    )
    assert TOKEN not in str(upload.headers)

    assert (submit.method, submit.path) == ("POST", "/api/submit")
    assert submit.headers["Authorization"] == f"Bearer {TOKEN}"
    assert submit.json() == {"modelName": "org/model", "scores": {"blink": 50.0}, "blobUrl": STORED}


def test_a_leaderboard_of_this_machine_stores_the_zip_itself(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(client.VARIABLE, raising=False)
    sent(server)
    upload, submit = server.got
    assert (upload.method, upload.path) == ("PUT", "/api/blob-upload")
    whole = message_from_bytes(f"Content-Type: {upload.headers['Content-Type']}\r\n\r\n".encode() + upload.body)
    (part,) = whole.get_payload()
    assert part.get_param("name", header="content-disposition") == "file" and part.get_payload(decode=True) == ZIP
    assert submit.json()["blobUrl"] == STORED


@pytest.mark.parametrize(
    ("path", "status", "answer", "words"),
    [
        ("/api/blob-upload", 400, {"error": "Rate limit exceeded. Try again in 7 minutes."}, "Rate limit exceeded"),
        ("/api/blob-upload", 200, {"type": "x"}, "gave no token for an upload"),
        ("/store/", 403, {"error": {"code": "forbidden"}}, "HTTP 403"),
        ("/store/", 200, {"url": "https://evil.example/easi.zip"}, "the address of a blob was expected"),
        ("/store/", 200, {"url": "https://abc.private.blob.vercel-storage.com.evil.example/z"}, "address of a blob"),
        ("/store/", 200, {}, "the address of a blob was expected"),
        ("/api/submit", 400, {"success": False, "error": "has no license"}, "has no license"),
    ],
)
def test_a_step_that_is_refused_names_the_step_and_ends_the_submission(path, status, answer, words, server, store):
    server.answers[path] = [(status, answer)]
    with pytest.raises(SubmissionError, match=words) as refused:
        sent(server)
    assert TOKEN not in str(refused.value) and CLIENT_TOKEN not in str(refused.value)
    assert [got.path.partition("?")[0] for got in server.got][-1] == path


def test_a_store_that_stumbles_is_asked_again(server: Server, store: str) -> None:
    server.answers["/store/"] = [(502, {}), (500, {})]
    assert sent(server).status == 200
    assert [got.method for got in server.got] == ["POST", "PUT", "PUT", "PUT", "POST"]
    server.answers["/store/"] = [(502, {})] * 3
    with pytest.raises(SubmissionError, match="HTTP 502"):
        sent(server)


def test_whole_replies_that_one_request_cannot_hold_go_by_the_store(runs, whole, snellen, server, store, monkeypatch):
    small = json.loads(snellen("submit", "easi", runs, *ABOUT, "--dry-run", "--json").out)
    assert small["upload"] == "request"
    monkeypatch.setattr(package, "LARGEST_REQUEST", small["request_bytes"] - 500)
    said = snellen("submit", "easi", runs, *ABOUT, "--yes", "--endpoint", server.endpoint)
    assert said.status == 0, said.err
    assert "by the blob store" in said.out and "whole replies" in said.out
    (upload,) = [got for got in server.got if got.method == "PUT"]
    assert zipfile.ZipFile(BytesIO(upload.body)).testzip() is None
    assert server.got[-1].path == "/api/submit" and server.got[-1].json()["scores"]
    (folder,) = [path.parent for path in Path("results/submissions").glob("*/sent.jsonl")]
    assert (folder / "easi_results.zip").read_bytes() == upload.body


def test_the_blob_store_can_be_asked_for_and_refused(runs: Path, whole: None, snellen: Any, monkeypatch: Any) -> None:
    forced = json.loads(snellen("submit", "easi", runs, *ABOUT, "--upload", "blob", "--dry-run", "--json").out)
    assert (forced["upload"], forced["request_bytes"], forced["reply_characters"]) == ("blob", None, None)
    monkeypatch.setattr(package, "LARGEST_ZIP", 10)
    said = snellen("submit", "easi", runs, *ABOUT, "--upload", "blob", "--dry-run")
    assert said.status == 10 and "even without the replies" in said.err
