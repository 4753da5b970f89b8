"""Official tables: from VLMEvalKit's folder or fetched, and never another table than the declared one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from snellen.benchmarks.table import official
from snellen.benchmarks.table.declaration import Declaration, Source, declaration
from snellen.errors import DataError
from snellen.sources import remote

TABLE = b"index\timage\tquestion\tA\tB\tanswer\n1\tx\tUp?\ta\tb\tA\n"
ADDRESS = "https://example.invalid/data/Drawn_Set.tsv"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LMUData", raising=False)
    official.official_table.cache_clear()


def drawn(**source: Any) -> Declaration:
    values = {
        "name": "drawn",
        "source": {"tsv": ADDRESS, **source},
        "rows": {"question": "question", "answer": "answer"},
    }
    return declaration(values, "drawn.toml")


def source(**keys: Any) -> Source:
    return drawn(**keys).source


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class Reply:
    """What urlopen returns: a body and headers."""

    def __init__(self, body: bytes) -> None:
        self.body, self.headers = body, {"Content-Length": str(len(body))}

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        part, self.body = self.body[:size], self.body[size:]
        return part


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], list[str]]:
    """Serve files by address; an address without one cannot be reached."""

    def serve(files: dict[str, bytes]) -> list[str]:
        requested: list[str] = []

        def urlopen(request: Any, **_: object) -> Reply:
            requested.append(request.full_url)
            if request.full_url not in files:
                raise OSError("no route to host")
            return Reply(files[request.full_url])

        monkeypatch.setattr("urllib.request.urlopen", urlopen)
        return requested

    return serve


@pytest.mark.parametrize("name", ["Drawn_Set.tsv", "KitName.tsv"])
def test_a_table_in_the_folder_of_the_kit_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = tmp_path / "lmu"
    folder.mkdir()
    (folder / name).write_bytes(TABLE)
    monkeypatch.setenv("LMUData", str(folder))
    assert official.official_table(source(md5=md5(TABLE), table="KitName.tsv")) == folder / name


def test_the_kits_folder_in_the_users_home_is_found_too(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "LMUData"
    folder.mkdir(parents=True)
    (folder / "Drawn_Set.tsv").write_bytes(TABLE)
    assert official.official_table(source()) == folder / "Drawn_Set.tsv"


def test_another_table_of_the_same_name_is_refused_with_both_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Drawn_Set.tsv").write_bytes(TABLE + b"more")
    monkeypatch.setenv("LMUData", str(tmp_path))
    with pytest.raises(DataError, match=f"its MD5 is {md5(TABLE + b'more')}, and {md5(TABLE)} was expected") as error:
        official.official_table(source(md5=md5(TABLE)))
    assert f"as it is: --data {tmp_path / 'Drawn_Set.tsv'}" in (error.value.hint or "")


def test_a_table_is_fetched_once_and_kept(web: Callable[[dict[str, bytes]], list[str]]) -> None:
    requested = web({ADDRESS: TABLE})
    path = official.official_table(source(sha256=hashlib.sha256(TABLE).hexdigest()))
    assert path.read_bytes() == TABLE
    official.official_table.cache_clear()
    assert official.official_table(source(sha256=hashlib.sha256(TABLE).hexdigest())) == path
    assert requested == [ADDRESS]


def test_a_mirror_is_asked_where_the_first_address_has_another_table(
    web: Callable[[dict[str, bytes]], list[str]],
) -> None:
    mirror = "https://mirror.invalid/Drawn_Set.tsv"
    requested = web({ADDRESS: b"an error page", mirror: TABLE})
    assert official.official_table(source(md5=md5(TABLE), mirrors=[mirror])).read_bytes() == TABLE
    assert requested == [ADDRESS, mirror]


def test_a_table_that_nobody_has_is_an_error_that_says_what_to_fetch_and_where_to_put_it(
    web: Callable[[dict[str, bytes]], list[str]], tmp_path: Path
) -> None:
    web({})
    with pytest.raises(DataError, match="no route to host") as error:
        official.official_table(source(md5=md5(TABLE)))
    assert f"Fetch {ADDRESS} yourself and name it: --data FILE" in (error.value.hint or "")
    assert not list((tmp_path / "cache" / "tables").rglob("*.tsv"))


def test_an_address_of_the_hub_goes_through_the_hubs_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str, str]] = []
    file = tmp_path / "a b.tsv"
    file.write_bytes(TABLE)

    def download_file(repo: str, name: str, *, revision: str) -> tuple[Path, str]:
        calls.append((repo, name, revision))
        return file, "0" * 40

    monkeypatch.setattr("snellen.sources.hub.download_file", download_file)
    address = "https://huggingface.co/datasets/owner/name/resolve/main/data/t.tsv?download=true"
    assert remote.fetch([address], tmp_path / "to.tsv") == file
    assert calls == [("owner/name", "data/t.tsv", "main")]


def test_plain_http_is_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not an https address"):
        remote.fetch(["http://example.invalid/t.tsv"], tmp_path / "t.tsv")


def test_a_set_whose_data_is_not_fetched_says_what_to_name() -> None:
    values = {
        "name": "whatsup-x",
        "url": "https://example.invalid/home",
        "source": {"json": "controlled.json"},
        "rows": {"question": "q", "answer": "a", "image": msgspec.to_builtins({"column": "path", "folder": True})},
    }
    error = official.missing_data(declaration(values, "x.toml"))
    assert "controlled.json was expected" in error.message
    assert "https://example.invalid/home, then type: snellen run whatsup-x --data FILE --images FOLDER" in (
        error.hint or ""
    )
