"""The command that adds an extra works for the installation that prints it."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from snellen import installation
from snellen.installation import install_command


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """Install the package as if pip had noted this in direct_url.json; None: nothing, as for a package of an index."""

    def install(note: object) -> str:
        monkeypatch.setattr(installation, "SOURCE", tmp_path / "site-packages")
        text = None if note is None else json.dumps(note)
        monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
        return install_command("local")

    return install


def checkout(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "snellen"\n')
    return folder


def test_a_checkout_that_runs_is_installed_from_itself():
    root = Path(__file__).parents[1]
    assert install_command("local") == f"pip install -e '{root}[local]'"


def test_a_folder_is_named_as_it_stands_with_its_spaces(noted, tmp_path):
    folder = checkout(tmp_path / "my snellen")
    command = noted({"url": folder.as_uri(), "dir_info": {}})
    assert shlex.split(command) == ["pip", "install", f"{folder}[local]"]


def test_a_folder_that_is_gone_is_not_named_as_if_it_were_there(noted, tmp_path):
    assert noted({"url": (tmp_path / "gone").as_uri(), "dir_info": {}}).startswith(
        "pip install '.[local]' in a checkout"
    )


@pytest.mark.parametrize(
    ("note", "url"),
    [
        ({"url": "https://example.org/snellen-0.2.0-py3-none-any.whl", "archive_info": {}}, "https://example.org/snellen-0.2.0-py3-none-any.whl"),
        ({"url": "https://example.org/snellen.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}, f"git+https://example.org/snellen.git@{'a' * 40}"),
    ],
)  # fmt: skip
def test_an_archive_or_repository_is_a_requirement_that_pip_parses(noted, note, url):
    (requirement,) = shlex.split(noted(note))[2:]
    parsed = Requirement(requirement)
    assert (parsed.name, parsed.extras, parsed.url) == ("snellen", {"local"}, url)


@pytest.mark.parametrize(
    "note", [None, [], {}, {"url": None}, "x", {"url": "file:///gone/snellen-1.0.0-py3-none-any.whl"}]
)
def test_an_index_is_named_where_nothing_else_is_noted(noted, note):
    assert noted(note) == "pip install 'snellen[local]'"
