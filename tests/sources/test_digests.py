import os
import time

import pytest

from snellen.errors import DataError
from snellen.sources import cache_folder, digest, digests


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SNELLEN_CACHE", str(folder))
    return folder


@pytest.fixture
def data(tmp_path):
    """A folder whose files were last changed a minute ago."""
    root = tmp_path / "data"
    (root / "images").mkdir(parents=True)
    for name, content in {"rows.jsonl": "{}\n", "images/1.png": "pixels", "images/2.png": "more"}.items():
        (root / name).write_text(content)
        os.utime(root / name, (time.time() - 60,) * 2)
    return root


def test_a_files_digest_is_the_sha256_that_every_tool_prints(data):
    (data / "abc").write_bytes(b"abc")
    assert digest(data / "abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_an_md5_is_taken_in_the_same_read_and_remembered(data, monkeypatch):
    (data / "abc").write_bytes(b"abc")
    os.utime(data / "abc", (time.time() - 60,) * 2)
    both = digests.with_md5(data / "abc")
    assert both == (digest(data / "abc"), "900150983cd24fb0d6963f7d28e17f72")
    for reads in ("_whole", "_both"):
        monkeypatch.setattr(digests, reads, lambda path: pytest.fail("read again"))
    assert digests.with_md5(data / "abc") == both and digest(data / "abc") == both[0]


def test_a_folders_digest_follows_names_and_contents_and_nothing_else(data, tmp_path):
    first = digest(data)
    assert first == digest(data)
    os.utime(data / "rows.jsonl")
    assert digest(data) == first
    seen = {first}
    (data / "rows.jsonl").write_text("[]\n")
    seen.add(digest(data))
    (data / "images" / "1.png").rename(data / "images" / "3.png")
    seen.add(digest(data))
    (data / "images" / "empty").touch()
    seen.add(digest(data))
    assert len(seen) == 4
    data.rename(tmp_path / "moved")
    assert digest(tmp_path / "moved") in seen


def test_a_file_that_did_not_change_is_not_read_again(data, monkeypatch):
    first = digest(data)
    reads: list[object] = []
    monkeypatch.setattr(digests, "_whole", lambda path: reads.append(path) or "sha256:other")
    assert digest(data) == first and reads == []
    (data / "rows.jsonl").write_text("{} \n")
    digest(data)
    assert [path.name for path in reads] == ["rows.jsonl"]


def test_a_file_changed_a_moment_ago_is_read_every_time(data, own_cache):
    (data / "new").write_text("a")
    first = digest(data / "new")
    assert not (own_cache / "digests").exists()
    (data / "new").write_text("b")
    assert digest(data / "new") != first


def test_a_damaged_note_or_a_cache_that_cannot_be_written_is_no_error(data, own_cache, monkeypatch):
    first = digest(data)
    for note in (own_cache / "digests").iterdir():
        note.write_text("{")
    assert digest(data) == first
    monkeypatch.setenv("SNELLEN_CACHE", str(data / "rows.jsonl" / "no"))
    assert digest(data) == first


def test_a_sampled_digest_says_so_and_sees_both_ends_and_the_size(data):
    big = data / "big.bin"
    content = bytearray(80 << 20)
    seen = set()
    for change in (None, 0, len(content) - 1, 40 << 20):
        if change is not None:
            content[change] ^= 1
        big.write_bytes(content)
        seen.add(digest(big, sampled=True))
    big.write_bytes(content[:-1])
    seen.add(digest(big, sampled=True))
    assert all(each.startswith("sampled:") for each in seen)
    assert len(seen) >= 4
    assert digest(big).startswith("sha256:")


def test_what_is_missing_or_no_file_is_an_error(data):
    with pytest.raises(DataError, match="gone"):
        digest(data / "gone")
    os.mkfifo(data / "pipe")
    with pytest.raises(DataError, match="not a regular file"):
        digest(data)


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SNELLEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "snellen"
