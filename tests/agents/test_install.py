"""Installing an agent: npm is believed, half an installation is never found, and a second call needs no network."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from printed_schema import require_schema
from snellen.errors import AgentInstallError, UsageError
from snellen.models.agents import install

# A program in npm's place: it writes what npm would, as far as it matters here.
NPM = """#!/bin/sh
echo "$PWD: $*" >> {log}
{fail}
if grep -q opencode package.json; then
  for machine in x64 arm64; do
    mkdir -p node_modules/opencode-linux-$machine/bin; echo program > node_modules/opencode-linux-$machine/bin/opencode
  done
fi
"""


@pytest.fixture
def npm(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))

    def put(fail=""):
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "npm").write_text(NPM.format(log=tmp_path / "log", fail=fail))
        (programs / "npm").chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        return tmp_path / "log"

    return put


def test_a_second_call_finds_what_the_first_installed_and_runs_no_npm(npm):
    log = npm()
    first, new = install.install("opencode")
    assert new and first.files >= 2 and len(first.digest) == 64
    again, new = install.install("opencode")
    assert not new and again == first
    assert len(log.read_text().splitlines()) == 1
    assert json.loads((first.folder / "installed.json").read_bytes())["digest"] == first.digest
    assert install.installed() == [first]


def test_what_npm_says_when_it_fails_is_passed_on_and_nothing_is_left(npm):
    npm(fail="echo 'no such package' >&2; exit 7")
    with pytest.raises(AgentInstallError, match=r"status 7(.|\n)*no such package"):
        install.install("opencode")
    assert install.find("opencode") is None
    assert [path for path in install.root().iterdir() if path.is_dir()] == []


def test_what_a_killed_installation_left_is_removed_by_the_next_one(npm, tmp_path):
    npm(fail="kill -9 $PPID; sleep 5")
    code = "from snellen.models.agents import install; install.install('opencode')"
    killed = subprocess.run([sys.executable, "-c", code], env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    (left,) = [path for path in install.root().iterdir() if path.is_dir()]
    assert install.installed() == [] and left.name.startswith(".opencode-")
    npm()
    found, new = install.install("opencode")
    assert new and [path for path in install.root().iterdir() if path.is_dir()] == [found.folder]


def test_an_installation_without_the_program_is_an_error(npm):
    npm(fail="exit 0")
    with pytest.raises(AgentInstallError, match="is not in it"):
        install.install("opencode")


def test_without_npm_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentInstallError, match="npm is needed"):
        install.install("opencode")


def test_a_changed_file_is_found_by_its_digest(npm):
    npm()
    found, _ = install.install("opencode")
    install.verify(found)
    found.warm.mkdir()
    (found.warm / "compiled").write_text("grows, and is not part of it")
    install.verify(found)
    next(found.folder.glob("node_modules/*/bin/opencode")).write_text("another program")
    with pytest.raises(AgentInstallError, match="digest"):
        install.verify(found)


@pytest.mark.parametrize("name", ["claw", "opencode@", "opencode@../..", "opencode@latest"])
def test_only_agents_and_versions_that_can_be_are_taken(name):
    with pytest.raises(UsageError):
        install.recipe_of(name)


def test_the_stand_in_for_libsignal_has_the_names_and_refuses_to_work(tmp_path):
    install.write_libsignal_stub(tmp_path)
    script = (
        f"const all = require('{tmp_path}/{install.LIBSIGNAL_FOLDER}');"
        f"const curve = require('{tmp_path}/{install.LIBSIGNAL_FOLDER}/src/curve.js');"
        "let refused = 0; try { new all.SessionCipher() } catch { refused++ } try { curve.generateKeyPair() } catch { refused++ }"
        "console.log(Object.keys(all).length, refused)"
    )
    try:
        done = subprocess.run(["node", "-e", script], capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        pytest.skip("there is no node on PATH")
    assert done.stdout.split() == ["4", "2"], done.stderr


def test_the_command_lists_what_is_installed_and_says_how_to_get_the_rest(npm, capsys):
    from snellen.cli import main

    npm()
    assert main(["agents", "install", "opencode"]) == 0
    assert "opencode 1.18.33: installed" in capsys.readouterr().out
    assert main(["agents", "install", "opencode", "--json"]) == 0
    require_schema("agents install", printed := capsys.readouterr().out)
    (agent,) = json.loads(printed)["agents"]
    assert agent["installed"] and Path(agent["folder"]).is_dir()
    assert main(["agents", "list", "--verify"]) == 0
    said = capsys.readouterr().out
    assert "opencode 1.18.33  sha256:" in said and "verified" in said
    assert "openclaw 2026.3.13  not installed: snellen agents install openclaw" in said
    npm(fail="exit 1")
    assert main(["agents", "install", "openclaw"]) == 3
