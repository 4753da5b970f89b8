"""The summary of `snellen doctor` fits on a screen, and reads what is required from the installation's metadata."""

from __future__ import annotations

import json
import socket
from importlib import metadata

import pytest

from snellen.cli import doctor, main

ROWS, COLUMNS = 24, 80


def test_the_summary_fits_one_screen_and_every_check_is_behind_all(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < ROWS and max(map(len, lines)) <= COLUMNS
    assert main(["doctor", "--all"]) == 0
    every = capsys.readouterr().out.splitlines()
    assert main(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["findings"]
    assert len(every) == len(rows) and all(f" {row['name']}" in line for line, row in zip(every, rows, strict=True))
    assert len(every) > 2 * len(lines)


def test_a_fault_is_shown_in_full_and_the_rest_stays_short(capsys):
    long = "something " * 30
    rows = [doctor.DoctorFinding("disk", "fault", long), doctor.DoctorFinding("numpy", "ok", "2", doctor.CORE)]
    text = " ".join("\n".join(doctor.summary(rows)).split())
    assert text.startswith(f"FAULT disk {long.strip()} ok snellen ")


def test_extras_and_packages_are_those_that_the_metadata_declares(monkeypatch):
    declared = [
        "numpy>=2.0",
        "absent-core>=1",
        'absent-extra[cli]>=1; extra == "novel"',
        "uvloop>=0.2; sys_platform != 'win32'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: [*declared, "pytest; extra == 'dev'"])
    rows = {finding.name: finding for finding in doctor._packages()}
    assert rows.keys() == {"snellen", "numpy", "absent-core", "uvloop", "extra novel"}
    assert (rows["absent-core"].state, rows["extra novel"].state) == ("fault", "missing")
    assert "absent-extra: pip install" in rows["extra novel"].text and "novel]" in rows["extra novel"].text


def test_every_extra_of_users_is_a_finding():
    named = {name.removeprefix("extra ") for name in (finding.name for finding in doctor._packages())}
    assert named >= set(metadata.metadata("snellen").get_all("Provides-Extra")) - set(doctor.INTERNAL_EXTRAS)


@pytest.mark.parametrize("listens", [True, False])
def test_a_server_at_its_usual_port_is_seen_and_sent_nothing(listens, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not listens:
            server.close()
        monkeypatch.setattr(doctor, "USUAL_SERVERS", {port: "vLLM"})
        (finding,) = doctor._servers()
        assert finding.state == ("ok" if listens else "missing")
        if listens:
            assert f"--base-url http://127.0.0.1:{port}/v1" in finding.text
            assert server.accept()[0].recv(1) == b""
