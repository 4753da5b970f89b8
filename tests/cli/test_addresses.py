"""Data and runs at addresses of fsspec: read by a copy, bounded, never written. The S3 server is moto's, on loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import numpy as np
import pytest
from PIL import Image

from servers.loopback import free_port
from snellen.cli import main
from snellen.errors import DataError, MissingExtraError, UnsafeArchiveError, UsageError
from snellen.sources import remote
from snellen.sources.remote import local_copy

SECRET = "wJalrXUtnFEMI0K7MDENG0bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.fixture(scope="module")
def server():
    """The address of an S3 server in a process of its own."""
    port = free_port()
    program = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"
    process = subprocess.Popen([sys.executable, "-c", program, str(port)], stdout=-3, stderr=-3)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(600)


@pytest.fixture
def bucket(server, monkeypatch):
    """A client of a new, empty bucket `lab`, with the keys in the environment."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    if system.exists("lab"):
        system.rm("lab", recursive=True)
    system.mkdir("lab")
    yield system
    s3fs.S3FileSystem.clear_instance_cache()


def table(folder: Path, count: int = 4) -> Path:
    """Write a table of questions with a picture each."""
    (folder / "img").mkdir(parents=True)
    rows = []
    for number in range(count):
        Image.new("RGB", (40, 40), (60 * number, 0, 0)).save(folder / "img" / f"{number}.png")
        rows.append({"id": str(number), "image": f"img/{number}.png", "question": "Is it red?", "answer": "yes"})
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "questions.jsonl"


@pytest.mark.parametrize("images", [["--images", "s3://lab/pics 1"], ["--images=s3://lab/pics 1"]])
def test_images_of_a_bucket_are_named_by_one_word_or_two(images, bucket, tmp_path):
    questions = table(tmp_path / "set")
    bucket.put(str(tmp_path / "set" / "img"), "lab/pics 1/img", recursive=True)
    shutil.rmtree(tmp_path / "set" / "img")
    assert main(["run", str(questions), *images, "--model", "embedded", "--out", "here", "--quiet"]) == 0


def test_a_table_with_its_images_and_a_run_are_read_from_s3(bucket, tmp_path, capfd):
    table(tmp_path / "set")
    bucket.put(str(tmp_path / "set"), "lab/set", recursive=True)
    shutil.rmtree(tmp_path / "set")
    assert main(["run", "s3://lab/set/questions.jsonl", "--model", "embedded", "--out", "here", "--quiet"]) == 0
    capfd.readouterr()
    assert main(["score", "here", "--json"]) == 0
    local = json.loads(capfd.readouterr().out)
    for name in ("here", "again"):
        bucket.put(str(tmp_path / "here"), f"lab/runs/{name}", recursive=True)
    shutil.rmtree(tmp_path / "here")
    assert main(["score", "s3://lab/runs/here", "--json"]) == 0
    far, said = capfd.readouterr()
    assert "fetched" in said
    assert {**json.loads(far), "run": ""} == {**local, "run": ""}
    assert main(["report", "s3://lab/runs/here", "--out", "page.html"]) == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert main(["compare", "s3://lab/runs/here", "s3://lab/runs/again"]) == 0
    out = capfd.readouterr()
    assert "(0 bytes fetched)" in out.err
    assert SECRET not in "".join(out)
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_only_what_changed_is_fetched_and_what_is_gone_is_removed(bucket, tmp_path):
    bucket.pipe({"lab/d/a.txt": b"one", "lab/d/sub/b.txt": b"two", "lab/other.txt": b"x"})
    folder, fetched = local_copy("s3://lab/d")
    assert (fetched, (folder / "sub" / "b.txt").read_bytes()) == (6, b"two")
    assert local_copy("s3://lab/d") == (folder, 0)
    bucket.pipe("lab/d/a.txt", b"six")  # of the same size: the ETag tells
    bucket.rm("lab/d/sub/b.txt")
    assert local_copy("s3://lab/d") == (folder, 3)
    assert [file.name for file in folder.rglob("*") if file.is_file()] == ["a.txt"]
    assert (folder / "a.txt").read_bytes() == b"six"


def test_a_copy_that_was_changed_here_is_kept_and_never_overwritten(memory):
    memory.pipe("/d/a.txt", b"one")
    folder, _ = local_copy("memory://d")
    (folder / "a.txt").write_bytes(b"mine")
    (folder / "own.txt").write_bytes(b"mine")
    assert local_copy("memory://d") == (folder, 0)
    memory.pipe("/d/a.txt", b"three")
    with pytest.raises(DataError, match=r"a.txt has changed there, and its copy .* has changed here"):
        local_copy("memory://d")
    assert (folder / "a.txt").read_bytes() == b"mine"
    (folder / "a.txt").unlink()
    assert local_copy("memory://d") == (folder, 5)
    assert (folder / "own.txt").read_bytes() == b"mine"


def test_a_table_comes_with_its_folder_and_an_archive_alone(memory):
    memory.pipe({"/d/q.csv": b"a", "/d/img/1.png": b"bb", "/d/i.zip": b"ccc", "/e/x": b"dddd"})
    assert local_copy("memory://d/i.zip")[1] == 3
    path, fetched = local_copy("memory://d/q.csv", beside=False)
    assert (path.name, fetched) == ("q.csv", 1)
    assert local_copy("memory://d/q.csv")[1] == 2


@pytest.mark.parametrize("name", ["/d/../../out.txt", "/d/a\\b.txt", "/d/a\x07.txt"])
def test_names_that_leave_the_copy_are_refused(name, memory, cache):
    memory.store[name] = fsspec.implementations.memory.MemoryFile(memory, name, b"x")
    with pytest.raises(UnsafeArchiveError):
        local_copy("memory://d")
    assert not [file for file in cache.rglob("*") if file.suffix == ".txt"]


@pytest.mark.parametrize(
    ("address", "fault", "words"),
    [
        ("memory://nothing/here", DataError, "there is nothing at memory://nothing/here"),
        ("memory://..", DataError, "is no bucket"),
        ("memory://d/../e", UnsafeArchiveError, "holds '..'"),
        ("s3://key:secret@lab/x", UsageError, "holds a key"),
        ("gs://lab/x", MissingExtraError, "needs gcsfs"),
    ],
)
def test_what_cannot_be_read_says_why_without_the_key(address, fault, words, memory):
    with pytest.raises(fault, match=words) as caught:
        local_copy(address)
    assert "secret" not in caught.value.message + caught.value.hint


def test_copies_are_bounded_in_files_and_bytes(memory, monkeypatch):
    memory.pipe({f"/d/{number}": b"0" * 100 for number in range(5)})
    monkeypatch.setenv("SNELLEN_REMOTE_GB", "4e-7")
    with pytest.raises(DataError, match=r"500 bytes of its bucket would be copied; at most 400 are"):
        local_copy("memory://d")
    monkeypatch.setattr(remote, "MAX_FILES", 3)
    with pytest.raises(DataError, match="more than 3 files"):
        local_copy("memory://d")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run q.csv --model embedded --out s3://lab/x", "--out of snellen run takes no address"),
        ("run q.csv --model embedded --out=s3://lab/x", "--out of snellen run takes no address"),
        ("rerun s3://lab/x", "snellen rerun takes no address"),
        ("report here --out gs://lab/x.html", "--out of snellen report takes no address"),
    ],
)
def test_writing_to_an_address_is_refused_with_what_to_do(line, words, capsys):
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert words in " ".join(said.split())
    assert "copy the result" in " ".join(said.split())


def test_features_are_read_from_an_address_and_their_store_lies_here(memory, tmp_path, capfd, monkeypatch):
    np.savez(tmp_path / "given.npz", features=np.eye(4, dtype=np.float32), labels=[0, 0, 1, 1])
    data = (tmp_path / "given.npz").read_bytes()
    memory.pipe({"/lab/f/given.npz": data, "/lab/f/beside.bin": b"0" * 9})
    assert main(["features", "import", "memory://lab/f/given.npz"]) == 0
    assert f"({len(data):,} bytes fetched)" in capfd.readouterr().err
    assert (tmp_path / "given" / "store.json").is_file()
    monkeypatch.setattr(
        "snellen.sources.hub.find_file", lambda *named: tmp_path / "given.npz" if named == HUB_FILE else None
    )
    assert main(["features", "import", "hf:org/set/deep/given.npz@main", "--out", "hub"]) == 0
    assert main(["features", "import", "hf:org/set/none.npz", "--out", "none"]) == 3
    assert main(["features", "import", "given.npz", "--out", "memory://lab/out"]) == 2


HUB_FILE = ("org/set", "deep/given.npz", "main")


def test_a_table_on_the_web_is_read_and_a_server_stays_an_option(tmp_path, capfd):
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "q.csv").write_text("id,question,answer\n1,Is it red?,yes\n")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "-b", "127.0.0.1", "-d", "www"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = process.stdout.readline().split("port ")[1].split()[0]
        assert main(["check", f"http://127.0.0.1:{port}/q.csv"]) in (0, 1)
        assert "bytes fetched" in capfd.readouterr().err
        line = f"run http://127.0.0.1:{port}/q.csv --model api:x --base-url http://127.0.0.1:{port}/v1 --dry-run"
        assert main(line.split()) == 0
        assert "(0 bytes fetched)" in capfd.readouterr().err
    finally:
        process.terminate()
        process.wait(600)
    assert [folder.name for folder in (tmp_path / "cache" / "remote").iterdir()] == ["http"]
