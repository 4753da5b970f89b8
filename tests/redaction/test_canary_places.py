"""Keys in 150 places: nested bodies, headers, addresses, plans, TOML, proxies, echoes. None is in a byte written or printed."""

from __future__ import annotations

import json
import os
import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redaction.test_canary import leaks, snellen
from servers.echoing import command_lines
from servers.loopback import JsonHandler, LoopbackServer
from snellen import redaction
from snellen.cli import main

SEED = 3141
LETTERS, DIGITS = string.ascii_letters, string.digits
SHAPES: tuple[tuple[str, int], ...] = (
    (LETTERS + DIGITS, 24),
    ("0123456789abcdef", 32),
    (LETTERS + DIGITS + "-_", 30),
    (string.ascii_lowercase + DIGITS, 20),
    (LETTERS, 22),
)
STYLES: tuple[Callable[[list[str]], str], ...] = (
    "_".join,
    "-".join,
    lambda words: words[0] + "".join(map(str.title, words[1:])),
    lambda words: "".join(map(str.title, words)),
    lambda words: "-".join(map(str.title, words)),
    lambda words: "_".join(words).upper(),
)
NAMES = (
    *("api key", "key", "access token", "token value", "client secret", "secret string", "db password"),
    *("authorization", "authorization header", "service credential", "credentials json", "request signature"),
    *(
        "signature value",
        "sas",
        "sas url part",
        "connection string",
        "session cookie",
        "cookie jar",
        "shared access key",
    ),
    *("subscription key", "encoded api key", "webhook secret id", "private key data", "bearer"),
)
NESTS: tuple[Callable[[str, str], Any], ...] = (
    lambda name, key: {name: key},
    lambda name, key: {"data_sources": [{"type": "azure_search", "parameters": {"authentication": {name: key}}}]},
    lambda name, key: {"a": [{"b": {"c": [[{name: [key]}]]}}]},
    lambda name, key: {"extra": {name: {"value": key, "type": "plain"}}},
    lambda name, key: {"headers": [{"name": name, "value": key}]},
    lambda name, key: {"headers": [[name, key]]},
    lambda name, key: {"text": f"{name}={key}"},
    lambda name, key: {"text": json.dumps({"inner": {name: key}})},
)
ADDRESSES = (
    "http://bob:{}@HOST/v1",
    "http://{}@HOST/v1",
    "http://HOST/v1?key={}",
    "http://HOST/v1?api-version=1&sig={}",
    "http://HOST/v1#token={}",
    "http://HOST/v1?api-version=2024&X-Amz-Signature={}",
)
WORDS: tuple[Callable[[str], list[str]], ...] = (
    lambda key: ["--stop", f"token={key}"],
    lambda key: ["--system", f"Use api_key: {key} for it."],
    lambda key: ["--key-env", key],
    lambda key: ["--extra-body", json.dumps({"url": f"https://bob:{key}@host/x"})],
    lambda key: ["--extra-body", json.dumps({"url": f"https://host/x?sv=2024&sig={key}"})],
    lambda key: ["--extra-body", json.dumps({"x": f"AccountName=a;AccountKey={key};"})],
    lambda key: ["--extra-body", json.dumps({"x": f"Cookie: session={key}"})],
    lambda key: ["--extra-body", json.dumps({"api_keys": {key: True}})],
)
PLANS = (
    '[defaults.extra_body.deep]\n{name} = "{key}"\n',
    '[defaults]\nextra_body = {{ data_sources = [ {{ parameters = {{ {name} = "{key}" }} }} ] }}\n',
    '[defaults]\nstop = ["{name}={key}"]\n',
    '[[settings]]\nname = "a"\n[settings.extra_body]\nlist = [ {{ {name} = "{key}" }} ]\n',
    '[limits]\n{name} = "{key}"\n',
)


def drawn(rng: random.Random, number: int) -> str:
    letters, length = SHAPES[number % len(SHAPES)]
    return "".join(rng.choice(letters) for _ in range(length))


class EchoServer(LoopbackServer):
    """Sends back what it got: the line, all headers and the body, in answers, errors, pages and headers."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.command_lines: set[str] = set()
        server = self

        class Handler(JsonHandler):
            def answered(self) -> None:
                body = self.read().decode("utf-8", "replace")
                echo = f"{self.path} {dict(self.headers)} {body[:300]}"
                server.requests.append(echo)
                server.command_lines.update(command_lines())
                if self.path.endswith("/models"):
                    status, reply = 200, json.dumps({"data": [{"id": "m", "owner": echo}]})
                elif '"messages":[]' in body.replace(" ", ""):
                    status, reply = 400, json.dumps({"error": {"message": f"no messages: {echo}"}})
                else:
                    status, reply = replies(echo)[len(server.requests) % 5]
                shown = "".join(char for char in echo if " " <= char <= "~")[:900]
                self.send(status, reply.encode(), x_request_id=shown)

            do_GET = do_POST = answered

        super().__init__(Handler)
        self.host = self.origin.removeprefix("http://")


def replies(echo: str) -> tuple[tuple[int, str], ...]:
    said = {"message": {"role": "assistant", "content": f"7 {echo}", "reasoning": echo}, "finish_reason": "stop"}
    whole = json.dumps({"id": echo, "model": echo, "choices": [said], "usage": {"prompt_tokens": 1, echo: echo}})
    error = json.dumps({"error": {"message": echo, "type": echo, "details": [{"metadata": {"raw": [echo]}}]}})
    return ((200, whole), (400, error), (500, f"<html>{echo}</html>"), (200, error), (422, echo))


@pytest.fixture(scope="module")
def echo() -> Iterator[EchoServer]:
    with EchoServer() as server:
        yield server


def written(folder: Path) -> str:
    """Everything below a folder, names and bytes, but for pictures, whose base64 may hold any letters."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("given")]
    text = "\n".join(f"{path.name}\n{path.read_bytes().decode('utf-8', 'surrogateescape')}" for path in files)
    return re.sub(r"data:image/[a-z]+;base64,[A-Za-z0-9+/=]+", "", text)


def commands(host: str, folder: Path) -> list[tuple[str, list[str]]]:
    """Every place with its key: the command that is to refuse it. Files that the user has written are called `given`."""
    rng = random.Random(SEED)
    run = ["run", "chart/digits", "-m", "api:m", "--limit", "1", "--max-attempts", "1"]
    here = ["--base-url", f"http://{host}/v1"]
    placed: list[tuple[str, list[str]]] = []

    def place(words: Callable[[str], list[str]]) -> None:
        key = drawn(rng, len(placed))
        placed.append((key, words(key)))

    for number in range(4 * len(NAMES)):
        name = STYLES[rng.randrange(len(STYLES))](NAMES[number % len(NAMES)].split())
        nest = NESTS[(number + number // len(NAMES)) % len(NESTS)]
        place(lambda key, name=name, nest=nest: [*run, *here, "--extra-body", json.dumps(nest(name, key))])
    for address in ADDRESSES:
        place(lambda key, address=address: [*run, "--base-url", address.format(key).replace("HOST", host)])
    for extra in WORDS:
        place(lambda key, extra=extra: [*run, *here, *extra(key)])
    for number, text in enumerate(PLANS * 4):
        name = NAMES[number % len(NAMES)].replace(" ", "_-"[number % 2])
        plan = folder / f"given-{number}.toml"

        def planned(key: str, name: str = name, text: str = text, plan: Path = plan) -> list[str]:
            models = f'benchmarks = ["chart/digits"]\nmodels = [{{ name = "api:m", base_url = "http://{host}/v1" }}]\n'
            plan.write_text(models + text.format(name=name, key=key))
            return ["run", str(plan)]

        place(planned)
    for number in range(4):
        declared = folder / f"given-declaration-{number}.toml"

        def declaring(key: str, number: int = number, declared: Path = declared) -> list[str]:
            section = ("source", "source.headers", "prompt", "report")[number]
            declared.write_text(
                f'name = "own"\n[{section}]\n{("api_key", "token_value", "Cookie", "x-auth")[number]} = "{key}"\n'
            )
            return ["run", str(declared), "-m", "api:m", *here]

        place(declaring)
    for number in range(3):
        tools = folder / f"given-tools-{number}.json"

        def tooled(key: str, number: int = number, tools: Path = tools) -> list[str]:
            address = ("http://u:{}@host", "http://host/search?api_key={}", "https://{}@host/x")[number].format(key)
            tools.write_text(json.dumps({"backend": "web", "searxng": address}))
            return ["run", "chart/digits", "-m", "tools:m", "--tools", str(tools), *here]

        place(tooled)
    return placed


def test_a_key_in_any_setting_is_refused_before_a_byte_is_written_or_sent(echo, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "placeholder-of-this-test")
    placed = commands(echo.host, tmp_path)
    echo.requests.clear()
    assert len({key for key, _ in placed}) == len(placed) >= 135
    for key, words in placed:
        redaction.forget()
        status = main(words)
        said = "".join(capfd.readouterr())
        assert status in (2, 3, 4), (status, words, said)
        assert any(word in " ".join(said.split()) for word in REASONS), (words, said)
        assert not leaks(said, key), (words, said)
        assert not (tmp_path / "results").exists(), words
    redaction.forget()
    assert echo.requests == []
    assert not leaks(written(tmp_path), *(key for key, _ in placed))


REASONS = (
    " hold ",
    " holds ",
    "holds text that looks like a key",
    "a user name or password",
    "only api-version",
    "key-env takes",
)
ECHOED = ("API key", "named variable", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "proxy user", "encoded password")


@pytest.fixture(scope="module")
def echoed(echo: EchoServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str, Path]:
    """Runs whose keys are given as they should be, against a server and proxy that sends them back: keys, output, folder."""
    rng = random.Random(SEED + 1)
    folder = tmp_path_factory.mktemp("echoed")
    host = echo.host
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith(("_proxy", "_key"))}
    keys: list[str] = []
    said: list[str] = []

    for number in range(2 * len(ECHOED)):
        key, place = drawn(rng, number), ECHOED[number % len(ECHOED)]
        keys.append(key)
        out = f"run-{number}"
        asked = ("--limit", "6", "--max-attempts", "1", "--patience", "0.2", "--out", out)
        words = ["run", "chart/digits", "-m", "api:m", *asked]
        own, other = f"http://{host}/v1", "http://model.example/v1"
        variables, address, more = {
            "API key": ({"OPENAI_API_KEY": key}, own, []),
            "named variable": ({"MINE": key}, own, ["--key-env", "MINE"]),
            "HTTP_PROXY": ({"HTTP_PROXY": f"http://bob:{key}@{host}"}, other, []),
            "http_proxy": ({"http_proxy": f"http://bob:{key}@{host}/"}, other, []),
            "ALL_PROXY": ({"ALL_PROXY": f"http://bob:{key}@{host}"}, other, []),
            "proxy user": ({"HTTP_PROXY": f"http://{key}@{host}"}, other, []),
            "encoded password": ({"HTTP_PROXY": f"http://bob:%40{key}%2F@{host}"}, other, []),
        }[place]
        run = [*words, "--base-url", address, *more, *(["--json"] if number % 2 else ["--report"])]
        exports = [["export", out, "--format", form, "--out", f"{out}-{form}"] for form in ("jsonl", "inspect")]
        queried = ["query", "SELECT * FROM results", out, "--json"]
        more_commands = [*exports, queried] if number < len(ECHOED) else []
        said.append(snellen(folder, clean | variables, run, *more_commands)[1])
    said.append(snellen(folder, clean, ["list", "--runs", "--results", ".", "--json"])[1])
    return keys, "\n".join(said), folder


def test_a_key_of_the_environment_that_server_and_proxy_echo_is_nowhere(echo, echoed):
    keys, said, folder = echoed
    sent = "\n".join(echo.requests)
    assert all(leaks(sent, key) for key in keys), "every key was sent"
    assert {path.parent.name for path in folder.rglob("*") if path.is_file()} >= {"traces", "run-0", "run-0-jsonl"}
    assert "[redacted]" in said
    text = written(folder)
    for key in keys:
        assert not leaks(said, key)
        assert not leaks(text, key)
        assert not any(key in line for line in echo.command_lines)


def test_at_least_150_keys_are_placed(tmp_path: Path) -> None:
    assert len(commands("127.0.0.1:9", tmp_path)) + 2 * len(ECHOED) >= 150
