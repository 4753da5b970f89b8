"""The command `snellen view`: its address, its end at Ctrl-C, and its errors."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from browser_checks import served_by_command
from run_folders import right_reply, samples_of, write_run

from printed_schema import require_schema
from snellen.cli import main
from snellen.errors import PreflightError, UsageError
from snellen.viewer.serve import serve
from snellen.viewer.site import ViewSettings


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_server_prints_its_address_and_ends_at_a_signal(tmp_path, end):
    with served_by_command("view", tmp_path, "--port", 0, "--no-open") as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert b"Snellen" in urllib.request.urlopen(address).read()
        process.send_signal(end)
        assert "Traceback" not in process.communicate(timeout=600)[1]
        assert process.returncode in (0, 130, 143)


def test_with_json_the_address_is_an_object_on_standard_output(tmp_path):
    command = [sys.executable, "-m", "snellen", "view", str(tmp_path), "--port", "0", "--no-open", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        require_schema("view", line := process.stdout.readline())
        address = json.loads(line)["address"]
        assert b"Snellen" in urllib.request.urlopen(address).read()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.25])
def test_ctrl_c_while_the_index_is_made_ends_the_command_and_does_not_abort_it(tmp_path, after_s):
    for number in range(3):
        replies = {sample.id: right_reply(sample) for sample in samples_of("chart/digits", 40)}
        write_run(tmp_path / f"run{number}", "chart/digits", replies)
    with served_by_command("view", tmp_path, "--port", 0, "--no-open") as (process, address):
        urllib.request.urlopen(address).read()
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        assert "FATAL" not in process.communicate(timeout=600)[1]
        assert process.returncode in (0, 130)


def test_a_token_is_part_of_the_printed_address_and_lets_a_browser_in(tmp_path):
    words = ("view", tmp_path, "--port", 0, "--no-open", "--token")
    with served_by_command(*words, SNELLEN_VIEW_TOKEN="fixed-token-of-the-test") as (_, address):
        assert address.endswith("?token=fixed-token-of-the-test")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.partition("?")[0])
        assert urllib.request.urlopen(address).status == 200


def test_a_port_that_is_taken_is_named_with_a_way_out(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PreflightError, match="port") as error:
            serve(ViewSettings(tmp_path), taken.getsockname()[1], open_browser=False, notify=lambda line: None)
    assert "--port" in error.value.hint


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "somewhere.example"])
def test_another_address_than_loopback_requires_a_token(tmp_path, host):
    with pytest.raises(UsageError, match="other machines") as error:
        serve(ViewSettings(tmp_path, host=host), 0, open_browser=False, notify=lambda line: None)
    assert "--token" in error.value.hint


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (False, [], "does not exist"),
        (True, ["--token", "--host", "0.0.0.0"], "SNELLEN_VIEW_TOKEN must have 16 characters"),
        (True, ["--export", "site", "--show-gold"], "excludes --show-gold"),
        (True, ["--review", "ada\nbob"], "expected a printable name"),
        (True, ["--review", "ada,\u202ebob"], "expected a printable name"),
        (True, ["--review", " , "], "expected a printable name"),
        (True, ["--review", "a" * 200], "expected a printable name"),
    ],
)
def test_errors_of_the_command_are_sentences_with_exit_status_2(tmp_path, monkeypatch, capsys, make, arguments, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_VIEW_TOKEN", "short")
    if make:
        Path("results").mkdir()
    assert main(["view", "results", "--no-open", *arguments]) == 2
    assert words in capsys.readouterr().err
