"""What a server's own lists show before the first question: an address without /v1, a model without vision."""

from contextlib import ExitStack

import pytest

from servers.loopback import JsonHandler, LoopbackServer
from snellen.cli import main


class Handler(JsonHandler):
    """Serves /v1/models with `rows`, refuses chat completions, and keeps the `paths` that were asked for."""

    def do_GET(self):
        self.answer(200 if self.path == "/v1/models" else 404, {"data": self.rows})

    def do_POST(self):
        self.read()
        self.answer(400 if self.path == "/v1/chat/completions" else 404, {"error": {"message": "no image input"}})

    def answer(self, status, body):
        self.paths.append(self.path)
        self.send(status, body if status != 404 else {"detail": "Not Found"})


@pytest.fixture
def served():
    with ExitStack() as stack:

        def start(*rows):
            handler = type("Served", (Handler,), {"rows": list(rows), "paths": []})
            return handler, stack.enter_context(LoopbackServer(handler)).origin

        yield start


def test_an_address_without_v1_is_answered_with_the_address_to_write(served, tmp_path, capsys):
    server, url = served({"id": "m"})
    for base in (url, f"{url}/"):
        run = ["run", "chart", "-m", "api:m", "--base-url", base, "--limit", "1", "-q", "--out", str(tmp_path / "run")]
        assert main(run) == 4
        assert f"Write --base-url {url}/v1" in " ".join(capsys.readouterr().err.split())
    assert not any("completions" in path and path.startswith("/v1") for path in server.paths)


def test_a_server_that_drops_the_first_check_is_told_what_was_sent(served, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Handler, "do_POST", lambda handler: setattr(handler, "close_connection", True))
    _, url = served({"id": "m"})
    run = ["run", "chart", "-m", "api:m", "--base-url", f"{url}/v1", "--limit", "1", "-q", "--out", str(tmp_path / "r")]
    assert main(run) == 4
    printed = " ".join(capsys.readouterr().err.split())
    assert "closed the connection without a reply" in printed
    assert "{} is sent to /chat/completions, and HTTP 400 is a good reply" in printed
    assert "TLS" not in printed


def test_a_first_reply_that_is_too_large_is_not_called_none(served, tmp_path, capsys, monkeypatch):
    def send_much(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        handler.close_connection = True

    monkeypatch.setattr(Handler, "do_POST", send_much)
    _, url = served({"id": "m"})
    run = ["run", "chart", "-m", "api:m", "--base-url", f"{url}/v1", "--limit", "1", "-q", "--out", str(tmp_path / "r")]
    assert main(run) == 4
    printed = " ".join(capsys.readouterr().err.split())
    assert "The reply is larger than 8 MiB" in printed
    assert "The server's own log may say why." in printed and "none" not in printed


@pytest.mark.parametrize(
    ("row", "warned"),
    [
        ({"id": "m", "architecture": {"input_modalities": ["text"]}}, True),
        ({"id": "m", "capabilities": {"vision": False}}, True),
        ({"id": "m", "architecture": {"input_modalities": ["text", "image"]}}, False),
        ({"id": "m", "capabilities": {"vision": True}}, False),
        ({"id": "m"}, False),
    ],
)
def test_a_model_listed_without_image_input_is_warned_of(served, tmp_path, capsys, row, warned):
    _, url = served(row)
    main(["run", "chart", "-m", "api:m", "--base-url", f"{url}/v1", "--limit", "1", "-q", "--out", str(tmp_path / "r")])
    assert ("a model without image input" in capsys.readouterr().err) == warned
