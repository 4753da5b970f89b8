"""The hub's real client against a stand-in for the hub: the paths that the client calls, on loopback."""

import hashlib
import importlib
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.hub import HubHandler, standing_in
from snellen import sources
from snellen.errors import DataError
from snellen.redaction import redact
from snellen.sources import download, download_file, locate, rows

OLD, NEW = "a" * 40, "b" * 40
FILES = {
    OLD: {"rows.jsonl": b'{"v": 1}\n'},
    NEW: {"rows.jsonl": b'{"v": 2}\n', "images/1.png": b"pixels", "images/2.png": b"more pixels"},
}
REFS = {"main": NEW, "v1": OLD, OLD: OLD, NEW: NEW}


class Hub(HubHandler):
    seen: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization", "")))
        path = self.path.split("?")[0]
        repo = re.search(r"/datasets/(\w+/\w+)", path)
        name = repo[1] if repo else ""
        if name == "a/gated" and self.headers.get("Authorization") != "Bearer hf_good":
            self.reply(403, X_Error_Code="GatedRepo", X_Error_Message="Access is restricted.")
        elif name == "a/forbidden":
            self.reply(403)
        elif name == "a/broken":
            self.reply(500)
        elif name not in ("a/birds", "a/gated"):
            self.reply(401, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        elif info := re.fullmatch(r"/api/datasets/\w+/\w+(?:/revision/(\S+))?", path):
            self.about(name, info[1] or "main")
        elif tree := re.fullmatch(r"/api/datasets/\w+/\w+/tree/(\w+)", path):
            files = FILES[REFS[tree[1]]]
            listing = [
                {"type": "file", "path": each, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for each, data in files.items()
            ]
            self.reply_json(listing)
        elif file := re.fullmatch(r"/datasets/\w+/\w+/resolve/(\w+)/(\S+)", path):
            self.file(REFS[file[1]], file[2])
        else:
            self.reply(404)

    def about(self, name: str, revision: str) -> None:
        if revision not in REFS:
            self.reply(404, X_Error_Code="RevisionNotFound", X_Error_Message="Invalid rev id")
            return
        commit = REFS[revision]
        self.reply_about(name, commit, FILES[commit])

    def file(self, commit: str, name: str) -> None:
        data = FILES[commit].get(name)
        if data is None:
            self.reply(404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
            return
        self.reply(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', X_Repo_Commit=commit, Accept_Ranges="bytes")


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[list[tuple[str, str]]]:
    """The requests that the stand-in has seen: (path, authorization)."""
    seen: list[tuple[str, str]] = []
    with standing_in(Hub, {"seen": seen}, monkeypatch, tmp_path):
        yield seen


def test_a_repository_is_fetched_at_a_commit_that_is_written_down(hub, tmp_path):
    found = download("a/birds", cache=tmp_path / "hub")
    assert found.revision == NEW and found.repo == "a/birds"
    assert found.tree().names() == ["images/1.png", "images/2.png", "rows.jsonl"]
    assert found.tree().read("images/1.png") == b"pixels"
    assert list(rows(found.path / "rows.jsonl")) == [{"v": 2}]
    old = download("a/birds", revision="v1", cache=tmp_path / "hub")
    assert old.revision == OLD and old.tree().names() == ["rows.jsonl"]


def test_a_commit_that_is_cached_is_not_fetched_again(hub, tmp_path):
    download("a/birds", revision=NEW, cache=tmp_path / "hub")
    before = [path for path, _ in hub if "resolve" in path]
    assert download("a/birds", revision=NEW, cache=tmp_path / "hub").tree().read("images/2.png") == b"more pixels"
    assert [path for path, _ in hub if "resolve" in path] == before


def test_only_the_files_that_match_are_fetched(hub, tmp_path):
    found = download("a/birds", patterns=["*.jsonl"], cache=tmp_path / "hub")
    assert found.tree().names() == ["rows.jsonl"]
    assert not any("resolve" in path and "png" in path for path, _ in hub)
    with pytest.raises(DataError, match=r"no file matches \*\.parquet"):
        download("a/birds", revision="v1", patterns=["*.parquet"], cache=tmp_path / "other")


def test_one_file_is_fetched_with_the_commit_it_came_from(hub, tmp_path):
    path, commit = download_file("a/birds", "images/1.png", cache=tmp_path / "hub")
    assert path.read_bytes() == b"pixels" and commit == NEW
    with pytest.raises(DataError, match="no such file"):
        download_file("a/birds", "images/9.png", cache=tmp_path / "hub")
    with pytest.raises(DataError, match="must stay under their root"):
        download_file("a/birds", "../../outside", cache=tmp_path / "hub")


def test_the_users_token_is_sent_and_opens_what_is_gated(hub, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="gated") as caught:
        download("a/gated", cache=tmp_path / "hub")
    assert "HF_TOKEN" in caught.value.hint
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert download("a/gated", cache=tmp_path / "hub").revision == NEW
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(DataError, match="gated") as caught:
        download("a/gated", revision="v1", cache=tmp_path / "hub")
    assert "hf_wrong" not in str(caught.value)


def test_a_token_that_a_hub_echoes_is_struck(hub, tmp_path, monkeypatch, forget_keys):
    monkeypatch.setenv("HF_TOKEN", "team token-7f3a9c51e2")
    with pytest.raises(DataError):
        download("a/gated", cache=tmp_path / "hub")
    assert redact("The hub said: TOKEN 7f3a9c51e2.") == "The hub said: [redacted]."


def test_the_password_of_a_proxy_that_the_proxy_echoes_is_struck(hub, tmp_path, monkeypatch, forget_keys):
    monkeypatch.setenv("HTTPS_PROXY", "http://bob:pass%2Bword-7f3a9c51e2@127.0.0.1:9")
    with pytest.raises(DataError):
        download("a/gone", cache=tmp_path / "hub")
    header = b64encode(b"bob:pass+word-7f3a9c51e2").decode()
    for echoed in (f"407 Basic {header}", "407 pass+word-7f3a9c51e2", "407 pass%2Bword-7f3a9c51e2"):
        assert "7f3a9c51e2" not in redact(echoed) and header[8:] not in redact(echoed)
        assert "[redacted]" in redact(echoed)


@pytest.mark.parametrize(
    ("repo", "revision", "why"),
    [
        ("a/gone", None, "not found on the hub, or private"),
        ("a/birds", "v9", "no such revision"),
        ("a/forbidden", None, "the hub answered 403"),
        ("a/broken", None, "could not be fetched"),
        ("a/b/c", None, "not a repository name"),
    ],
)
def test_what_cannot_be_had_says_why_and_what_to_do(repo, revision, why, hub, tmp_path):
    with pytest.raises(DataError, match=why) as caught:
        download(repo, revision=revision, cache=tmp_path / "hub")
    assert caught.value.hint


def test_offline_finds_what_was_fetched_before_and_names_what_was_not(hub, tmp_path, monkeypatch):
    download("a/birds", cache=tmp_path / "hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = len(hub)
    found = download("a/birds", cache=tmp_path / "hub")
    assert found.revision == NEW and found.tree().read("images/1.png") == b"pixels"
    assert download_file("a/birds", "rows.jsonl", cache=tmp_path / "hub")[1] == NEW
    for repo, revision in (("a/birds", "v1"), ("a/other", None), ("a/birds", OLD)):
        with pytest.raises(DataError, match="offline mode is on"):
            download(repo, revision=revision, cache=tmp_path / "hub")
    assert len(hub) == asked


def test_a_hub_that_does_not_answer_is_an_error_and_no_old_copy_is_taken_in_silence(hub, tmp_path, monkeypatch):
    download("a/birds", cache=tmp_path / "hub")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="could not be fetched") as caught:
        download("a/birds", cache=tmp_path / "hub")
    assert "HF_HUB_OFFLINE=1" in caught.value.hint


@pytest.mark.parametrize("kind", [str, Path])
def test_data_is_located_on_the_hub_or_where_the_path_says(kind, hub, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    newest = locate(kind("hf:a/birds"))
    assert newest.name == NEW and (newest / "images/1.png").read_bytes() == b"pixels"
    older = locate(kind("hf:a/birds@v1"))
    assert older.name == OLD and list(rows(older / "rows.jsonl")) == [{"v": 1}]
    asked = len(hub)
    for given in (tmp_path, tmp_path / "not-there", Path("hf") / "a", Path("birds.zip")):
        assert locate(kind(given)) == given
    assert len(hub) == asked
    with pytest.raises(DataError, match="not found on the hub"):
        locate(kind("hf:a/gone"))
    for given in ("hf:", "hf:a/birds@", "hf:@v1"):
        with pytest.raises(DataError, match=r"hf:owner/name@revision was expected"):
            locate(kind(given))


def test_only_the_files_of_a_pattern_are_fetched_when_data_is_located(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    found = locate("hf:a/birds", patterns=["*.jsonl"])
    assert [path.name for path in found.iterdir()] == ["rows.jsonl"]
    assert locate(tmp_path / "x", patterns=["*.jsonl"]) == tmp_path / "x"


def test_no_module_of_the_package_takes_the_place_of_a_function() -> None:
    for path in Path(sources.__file__).parent.glob("[a-z]*.py"):
        importlib.import_module(f"snellen.sources.{path.stem}")
    assert [name for name in sources.__all__ if not callable(getattr(sources, name))] == []
