"""The key comes from the environment or .env, goes to the server, and turns up nowhere else."""

import asyncio
import contextlib
import os
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from snellen import redaction
from snellen.errors import ModelError, PreflightError, SnellenError, UsageError
from snellen.models.api import ApiModel
from snellen.models.api.endpoint import find_proxy, parse_endpoint
from snellen.models.api.services import find_key
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.types import Prompt, Text

KEY = "zq-7f3a9c51e2"


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        *(name for name in os.environ if name.lower().endswith("_proxy")),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    redaction.forget()


def test_the_key_is_read_from_the_named_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", "another-key-1")
    assert find_key(None) == KEY
    assert find_key("OTHER_KEY") == "another-key-1"


def test_the_key_is_read_from_a_dotenv_file_and_the_environment_wins(monkeypatch):
    Path(".env").write_text(f"# keys\nOPENAI_API_KEY='{KEY}'\nA=$OPENAI_API_KEY\n")
    assert find_key(None) == KEY
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    assert find_key(None) == "from-environment"


def test_a_server_without_a_key_is_asked_without_one():
    assert find_key(None) is None


def test_a_named_variable_that_is_not_set_is_an_error_that_names_it():
    with pytest.raises(PreflightError, match="MY_KEY is not set"):
        find_key("MY_KEY")


def test_a_key_with_a_line_break_is_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nX-Evil: 1")
    with pytest.raises(PreflightError) as caught:
        find_key(None)
    assert KEY not in str(caught.value)


async def test_the_key_reaches_the_server_and_no_error_message(hostile, monkeypatch):
    hostile.key = KEY
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = ApiModel("stub-vlm", ModelOptions(base_url=hostile.url("by-question")))
    await model.preflight()
    response = await model.answer(Prompt((Text("[[ok]]"),)))
    with pytest.raises(ModelError, match=r"Authorization=Bearer \[redacted\]") as caught:
        await model.answer(Prompt((Text("[[echo_key]]"),)))
    await model.close()
    for text in (str(caught.value), repr(caught.value), repr(model), str(model.identity())):
        assert KEY not in text
    assert KEY.encode() not in msgspec.json.encode(response)


async def test_no_key_is_read_before_the_first_use():
    model = ApiModel("stub-vlm", ModelOptions(key_env="NOT_SET", base_url="http://127.0.0.1:9/v1"))
    assert model.identity()["model"] == "stub-vlm"
    with pytest.raises(PreflightError, match="NOT_SET"):
        await model.preflight()


def test_the_name_is_the_one_that_is_typed_after_model():
    assert ApiModel("gpt-5-mini", ModelOptions()).name == ApiModel("api:gpt-5-mini", ModelOptions()).name
    with pytest.raises(UsageError, match="names no model"):
        ApiModel("api:", ModelOptions())


def test_the_identity_changes_with_whatever_can_change_an_answer():
    from snellen.types import Generation, MediaSettings

    plain = ModelOptions(base_url="http://a/v1")
    others = [
        ModelOptions(base_url="http://b/v1"),
        ModelOptions(base_url="http://a/v1", generation=Generation(temperature=0.5)),
        ModelOptions(base_url="http://a/v1", media=MediaSettings(max_long_side=100)),
        ModelOptions(base_url="http://a/v1", extra_body={"top_k": 1}),
    ]
    same = [
        ModelOptions(base_url="http://a/v1/", concurrency=3, timeout_s=1.0),
        ModelOptions(base_url="http://a/v1/chat/completions", key_env="X"),
    ]
    identity = ApiModel("m", plain).identity()
    assert all(ApiModel("m", options).identity() != identity for options in others)
    assert ApiModel("n", plain).identity() != identity
    assert all(ApiModel("m", options).identity() == identity for options in same)
    msgspec.json.encode(identity)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("localhost:8000/v1", "http"),
        ("ftp://host/v1", "http"),
        ("https:///v1", "host"),
        ("http://host:99999/v1", "address"),
        ("https://user:pa55word@host/v1", "password"),
        ("https://host/v1?key=secret-value", "'key'"),
        ("https://host/v1#frag", "fragment"),
    ],
)
def test_an_address_that_is_wrong_or_holds_a_secret_is_refused(address, complaint):
    with pytest.raises(UsageError, match=complaint) as caught:
        parse_endpoint(address)
    assert "pa55word" not in str(caught.value)
    assert "secret-value" not in str(caught.value)


def test_the_address_is_taken_from_the_option_then_the_environment_then_openai(monkeypatch):
    assert str(parse_endpoint(None)) == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://env:1/v1")
    assert str(parse_endpoint(None)) == "http://env:1/v1"
    assert str(parse_endpoint("http://option:2/v1/")) == "http://option:2/v1"
    azure = parse_endpoint("https://x.example/openai/deployments/d?api-version=2024-10-21")
    assert azure.url("/chat/completions").endswith("/d/chat/completions?api-version=2024-10-21")


def test_a_proxy_of_the_environment_is_used_and_never_for_loopback(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert find_proxy(parse_endpoint("https://api.example/v1")) == "http://proxy:3128"
    assert find_proxy(parse_endpoint("https://inside.example/v1")) is None
    assert find_proxy(parse_endpoint("http://127.0.0.1:8000/v1")) is None


FAULTS = {
    "has no scheme": (
        "proxy.corp:3128",
        "proxy.corp",
        "bob:hunter2secret9@proxy.corp:3128",
        "//proxy:1",
        "10.0.0.1:80",
    ),
    "unknown scheme": ("ftp://proxy:21", "htttp://proxy:3128", "tcp://proxy:80"),
    "SOCKS": ("socks5://proxy:1080", "socks5h://bob:hunter2secret9@proxy:1080", "SOCKS4://proxy"),
    "bad port": (
        "http://proxy:",
        "http://proxy:0",
        "http://proxy:99999",
        "http://proxy:31a8",
        "http://a:b:c",
        "http://[::1]:x",
    ),
    "white space": (" http://proxy:80", "http://proxy:80 ", "http://pro xy:80", "http://proxy\t:80"),
    "blanks alone": (" ", "\t\t"),
    "names no host": ("http://", "http://:3128", "http://bob:hunter2secret9@:80", "http://[zz]:80", "http://-:80"),
    "password with": ("http://bob:hunter2/secret9@proxy:80", "http://bob:hunter2#secret9@proxy:80"),
}
NO_PROXY_FAULTS = {
    "blanks between": ("one.example two.example", "one.example, two three"),
    "with a scheme": ("http://one.example", "a,https://b"),
    "bad port": ("one.example:80a", "one.example:0"),
    "names no host": ("-", "[zz]", "a,$b"),
}


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize(("fault", "value"), [(fault, value) for fault, values in FAULTS.items() for value in values])
def test_a_faulty_proxy_is_named_by_its_variable_and_never_shown(variable, fault, value, monkeypatch, forget_keys):
    monkeypatch.setenv(variable, value)
    with pytest.raises(PreflightError, match=fault) as caught:
        find_proxy(parse_endpoint("https://api.example/v1"))
    assert caught.value.message.startswith(f"{variable} ")
    assert not any(part in str(caught.value) for part in ("hunter2", "secret9"))
    assert find_proxy(parse_endpoint("http://localhost:8000/v1")) is None, "this machine needs no proxy"
    monkeypatch.setenv("no_proxy", ".example")
    assert find_proxy(parse_endpoint("https://api.example/v1")) is None


@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize(
    ("fault", "value"), [(fault, value) for fault, values in NO_PROXY_FAULTS.items() for value in values]
)
def test_an_exception_from_the_proxy_that_matches_no_host_is_named(variable, fault, value, monkeypatch):
    monkeypatch.setenv(variable, value)
    assert find_proxy(parse_endpoint("https://api.example/v1")) is None, "without a proxy it says nothing"
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    with pytest.raises(PreflightError, match=fault) as caught:
        find_proxy(parse_endpoint("https://api.example/v1"))
    assert caught.value.message.startswith(f"{variable} ")


@pytest.mark.parametrize(
    ("host", "entries"),
    [
        ("api.example", "*"),
        ("api.example", "x, *"),
        ("api.example", "*.example"),
        ("api.example", " .example ,"),
        ("api.example:8443", "api.example:8443"),
        ("10.1.2.3", "10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3"),
        ("[fd00::1]", "fd00::/8"),
    ],
)
def test_hosts_are_excepted_from_the_proxy(host, entries, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "https://proxy.example.org:3128/")
    assert find_proxy(parse_endpoint(f"https://{host}/v1")) == "https://proxy.example.org:3128/"
    monkeypatch.setenv("NO_PROXY", entries)
    assert find_proxy(parse_endpoint(f"https://{host}/v1")) is None
    assert find_proxy(parse_endpoint("https://elsewhere.test/v1")) is None or entries.strip(" x,") != "*"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", b""])
def test_a_run_behind_a_proxy_that_refuses_names_the_variable(answer, monkeypatch, tmp_path, forget_keys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve():
            while answer:
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(answer)
                    continue
                return

        if answer:
            threading.Thread(target=serve, daemon=True).start()
        else:
            listener.close()
        monkeypatch.setenv("https_proxy", f"http://bob:hunter2secret9@127.0.0.1:{port}")
        model = open_model("api:m", ModelOptions(base_url="https://api.example/v1", timeout_s=5, patience_s=0.1))
        with pytest.raises(SnellenError, match="The proxy of https_proxy") as caught:
            asyncio.run(model.preflight())
    assert "hunter2" not in str(caught.value) and "NO_PROXY" in str(caught.value)
