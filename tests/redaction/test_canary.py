"""A server echoes the key in every form and field: no form of it is on the disk, on the terminal or among arguments."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from servers.echoing import FORMS, KINDS, MODEL, Echoing

CANARY = "zq-7f3a9c51e2-Kd8PqLmW4xTy"
JUDGES = "Jv4Rb8Nw1Xc6Zt3Hy9Gf5Sd2Qa7"


DRAWN = {0xE0000 + code: code for code in range(0x20, 0x7F)} | {
    first + code: 0x61 + code for first in (0x1F170, 0x1F1E6) for code in range(26)
}


def plain(text: str) -> str:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # escapes may have given halves
    return re.sub("[^a-z0-9]", "", unicodedata.normalize("NFKC", whole).translate(DRAWN).lower())


def trails(key: str) -> list[str]:
    """What of a key must not be found: any 12 letters and digits of it in a row, and of its codings that many bytes."""
    whole = plain(key)
    found = [whole[at : at + 12] for at in range(len(whole) - 11)]
    found += [one[::-1] for one in found]
    data = key.encode()
    found += [plain(data[at : at + 14].hex()) for at in range(0, len(data) - 13)]
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + data).decode()[(8 * shift + 5) // 6 : 8 * (shift + len(data)) // 6]
        found += [plain(coded[at : at + 20]) for at in range(0, len(coded) - 19)]
    return found


def views(text: str) -> list[str]:
    """The text with its escapes undone, again and again, with tags and terminal sequences and without."""
    found = [text]
    for _ in range(4):
        text = re.sub(
            r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrtbf])",
            lambda hit: chr(int(hit[1] or hit[2] or "20", 16)),
            html.unescape(unquote(text)),
        )
        found.append(text)
    bare = re.sub(r"0x([0-9a-fA-F]{2})", lambda hit: chr(int(hit[1], 16)), text)
    return [*found, bare, re.sub(r"<[^<>]*>|\x1b\[[0-9;]*m", "", text)]


@lru_cache(maxsize=2)  # a text is searched for many keys, one after the other
def plain_views(text: str) -> list[str]:
    return list(map(plain, views(text)))


def leaks(text: str, *keys: str) -> list[str]:
    return [trail for view in plain_views(text) for key in keys for trail in trails(key) if trail in view]


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("masked", "its first half")])
def test_the_search_of_these_tests_finds_every_form(form: str) -> None:
    assert leaks(f"It is {FORMS[form](CANARY)}.", CANARY)
    assert leaks(json.dumps(f"It is {FORMS[form](CANARY)}."), CANARY)


COMMANDS = "import json, sys; from snellen.cli import main; print([main(words) for words in json.loads(sys.argv[1])])"


def snellen(folder: Path, variables: Mapping[str, str], *commands: Sequence[str]) -> tuple[list[int], str]:
    """Run commands in one interpreter: the exit status of each, and what was printed on both streams."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        cwd=folder,
        env=variables,
        capture_output=True,
        timeout=600,
    )
    printed = (done.stdout + done.stderr).decode(errors="replace")
    return json.loads(done.stdout.splitlines()[-1]), printed


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Echoing]:
    """A run, a judge's run, and everything that is made of them: the folder, what was printed, the server."""
    folder = tmp_path_factory.mktemp("canary")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "JUDGE", "SNELLEN"))}
    with Echoing() as server:
        asked = ("--model", f"api:{MODEL}", "--base-url", server.url, "--max-attempts", "1")
        statuses, said = snellen(
            folder,
            {**clean, "OPENAI_API_KEY": CANARY, "JUDGE_API_KEY": JUDGES},
            ["run", "chart/digits", *asked, "--limit", str(len(FORMS) * len(KINDS)), "--out", "run", "--report"],
            ["doctor", "--base-url", server.url],
            ["judge", "run", *asked, "--rubric", "match", "--limit", str(3 * len(FORMS))],
            ["run", "chart/digits", *asked, "--limit", "5", "--out", "as-json", "--json"],
            ["failures", "run", "--pages", "pages"],
            ["report", "run", "--out", "report.html"],
            ["export", "run", "--format", "jsonl", "--out", "exported"],
            ["score", "run", "--profile", "all", "--per-sample", "scores.jsonl", "--disagreements"],
            ["query", "SELECT * FROM results", "run", "--csv"],
            ["list", "--runs", "--results", "."],
        )
    assert set(statuses) <= {0, 9}, said[-2000:]
    return folder, said, server


def test_a_key_that_a_server_echoes_is_nowhere_on_the_disk(ran: tuple[Path, str, Echoing]) -> None:
    folder, _, server = ran
    assert server.keys == {CANARY, JUDGES}, "both keys were sent"
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"results.jsonl", "run_meta.json", "summary.json", "report.html", "index.html", "scores.jsonl"} <= names
    assert {path.parent.name for path in files} >= {"traces", "raw_judge_outputs", "raw_judge_inputs", "exported"}
    for path in files:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        pictures = re.sub(r"data:image/[a-z]+;base64,[A-Za-z0-9+/=]+", "", text)
        assert not leaks(pictures, CANARY, JUDGES), path
        assert not leaks(path.name, CANARY, JUDGES)


def test_a_key_that_a_server_echoes_is_nowhere_on_the_terminal(ran: tuple[Path, str, Echoing]) -> None:
    _, said, _ = ran
    assert "[redacted]" in said
    assert not leaks(said, CANARY, JUDGES)


def test_no_process_has_a_key_among_its_arguments(ran: tuple[Path, str, Echoing]) -> None:
    _, _, server = ran
    assert any("chart/digits" in line for line in server.seen)
    assert not any(key in line for line in server.seen for key in (CANARY, JUDGES))


def test_what_is_left_of_the_answers_is_whole_json_and_is_scored(ran: tuple[Path, str, Echoing]) -> None:
    folder, _, _ = ran
    records = [json.loads(line) for line in (folder / "run" / "results.jsonl").read_text().splitlines()]
    assert len(records) == len(FORMS) * len(KINDS)
    assert sum(record["status"] == "ok" for record in records) == 2 * len(FORMS)
    for line in "\n".join(path.read_text() for path in (folder / "run" / "traces").iterdir()).splitlines():
        json.loads(line)
