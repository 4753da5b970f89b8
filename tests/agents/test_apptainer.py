"""The image for Apptainer and its digest, with a small program in apptainer's place; test_apptainer_real.py runs apptainer itself."""

import hashlib
import json
from pathlib import Path

import pytest

from printed_schema import require_schema
from snellen.cli import main
from snellen.errors import AgentInstallError, PreflightError, UsageError
from snellen.models.agents import apptainer, sandbox
from snellen.models.agents.install import Installation
from snellen.models.agents.process import AgentCommand
from snellen.models.agents.workdir import AgentModelSettings, WorkdirFactory
from snellen.types import Generation

FAKE = '#!/bin/sh\n[ "$1" = build ] || exit 3\n[ -e "$3/broken" ] && { echo "no space"; exit 255; }\necho "image of $3" > "$2"\n'


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apptainer").write_text(FAKE)
    (tmp_path / "bin/apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "root").mkdir()
    return tmp_path


def test_an_image_has_its_digest_beside_it_and_a_changed_image_is_refused(program):
    out = program / "agents.sif"
    digest = apptainer.build(str(program / "root"), out)
    assert digest == hashlib.sha256(out.read_bytes()).hexdigest()
    assert (program / "agents.sif.sha256").read_text() == f"{digest}  agents.sif\n"
    assert apptainer.check(str(out)) == digest
    out.write_bytes(b"another")
    with pytest.raises(PreflightError, match=r"sif\.sha256 says"):
        apptainer.check(str(out))


def test_the_command_prints_the_image_and_its_digest(program, capsys):
    out = program / "agents.sif"
    assert main(["agents", "image", str(out), "--from", str(program / "root"), "--json"]) == 0
    require_schema("agents image", printed := capsys.readouterr().out)
    assert json.loads(printed) == {
        "image": str(out),
        "digest": hashlib.sha256(out.read_bytes()).hexdigest(),
    }


def test_a_build_that_fails_leaves_no_image_and_its_last_words_are_shown(program):
    (program / "root/broken").touch()
    with pytest.raises(AgentInstallError, match=r"status 255(.|\n)*no space"):
        apptainer.build(str(program / "root"), program / "agents.sif")
    assert not (program / "agents.sif").exists()


def test_an_image_is_not_overwritten_and_a_source_must_be_one(program):
    (program / "agents.sif").touch()
    with pytest.raises(UsageError, match="there already"):
        apptainer.build(str(program / "root"), program / "agents.sif")
    with pytest.raises(UsageError, match="neither a folder nor"):
        apptainer.build("debian", program / "other.sif")


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="needs an image"):
        apptainer.check(None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreflightError, match="apptainer is not on PATH"):
        apptainer.check(str(tmp_path / "x.sif"))


def test_the_command_shows_the_image_the_installation_and_the_box_and_no_key(program, tmp_path):
    rooms = WorkdirFactory(tmp_path)
    here = rooms.make(
        AgentModelSettings("p", "m", "http://h/v1", Generation(), 5.0), "work", sandbox.SAMPLE, sandbox.AGENT, None
    )
    found = Installation("opencode", "1", "", 0, 0, "", "", tmp_path / "installation")
    command = AgentCommand(
        ["/agent/program", "run"], {"HOME": f"{here.inside}/home"}, f"{here.inside}/{here.workplace}", b"?"
    )
    shut = sandbox.wrap_command("apptainer", command, here, found, "k-123456789", "image.sif")
    words = shut.argv
    assert words[0] == str(program / "bin" / "apptainer"), "the one that was checked is started"
    assert words[-3:] == ["image.sif", "/agent/program", "run"]
    assert {"--containall", "--no-home"} <= set(words)
    binds = [words[n + 1] for n, word in enumerate(words) if word == "--bind"]
    box = f"{here.host}/box"
    assert binds == [
        f"{tmp_path}/installation:{sandbox.AGENT}:ro",
        f"{box}:{sandbox.SAMPLE}",
        *(f"{box}/tmp:{inside}" for inside in ("/tmp", "/var/tmp")),
        f"{box}/shm:/dev/shm",
        "/proc/sys:/proc/sys:ro",
    ]
    assert "--writable-tmpfs" not in words and words[words.index("--no-mount") + 1] == "sys,mqueue"
    _, _, profile = words[words.index("--security") + 1].partition("seccomp:")
    rules = json.loads(Path(profile).read_bytes())["syscalls"]
    closed = {name for rule in rules for name in rule["names"] if rule["action"] == "SCMP_ACT_ERRNO"}
    assert {"unshare", "setns", "memfd_create", "keyctl", "clone", "socket"} <= closed
    assert "k-123456789" not in " ".join(shut.argv) and shut.env["APPTAINERENV_SNELLEN_MODEL_KEY"] == "k-123456789"
    here.remove()
    rooms.close()
