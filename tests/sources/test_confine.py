import os
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import DataError, UnsafeArchiveError
from snellen.sources import FolderTree, member_name, open_tree, within

HOSTILE = [
    "../gold.json",
    "a/../../gold.json",
    "a/..",
    "..",
    "/etc/passwd",
    "//server/share",
    "C:/Windows/win.ini",
    "c:relative",
    "..\\gold.json",
    "a\\b",
    "\\\\server\\share",
    "a\0.png",
    "a\n.png",
    "",
    ".",
    "a" * 5000,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leaves_its_root_is_refused_by_every_kind_of_tree(name, tmp_path):
    (tmp_path / "gold.json").write_text("secret")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    for ask in (within, lambda top, each: FolderTree(top).blob(each), lambda top, each: FolderTree(top).exists(each)):
        with pytest.raises(UnsafeArchiveError):
            ask(root, name)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab./\\: \0\x07~"), max_size=24))
def test_whatever_the_name_the_path_is_under_the_root_or_an_error(name):
    try:
        path = within("/no/such/root", name)
    except UnsafeArchiveError:
        return
    assert os.path.normpath(path).startswith("/no/such/root/")


def test_harmless_names_pass_and_lose_their_dots():
    assert member_name("images/017.Cardinal/Cardinal_0001.jpg", "x") == "images/017.Cardinal/Cardinal_0001.jpg"
    assert member_name("./a//b/./c", "x") == "a/b/c"
    assert member_name("..a/b..", "x") == "..a/b.."
    assert member_name("日本/é.png", "x") == "日本/é.png"


def test_links_are_followed_inside_the_folder_and_refused_outside_of_it(tmp_path):
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("inside")
    (tmp_path / "gold.txt").write_text("secret")
    (root / "deep" / "in").symlink_to("../a.txt")
    (root / "out").symlink_to("../gold.txt")
    (root / "up").symlink_to("..")
    tree = open_tree(root)
    assert tree.read("deep/in") == b"inside"
    for name in ("out", "up/gold.txt"):
        with pytest.raises(UnsafeArchiveError, match="symbolic link"):
            tree.read(name)


def test_a_folder_beside_the_root_with_a_longer_name_is_outside(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root-gold").mkdir()
    (tmp_path / "root" / "out").symlink_to("../root-gold")
    with pytest.raises(UnsafeArchiveError):
        within(tmp_path / "root", "out/x")


def test_the_hubs_snapshot_folders_may_link_to_the_contents_beside_them(tmp_path):
    repo = tmp_path / "datasets--a--b"
    (repo / "blobs").mkdir(parents=True)
    (repo / "snapshots" / "abc" / "images").mkdir(parents=True)
    (repo / "blobs" / "123").write_bytes(b"pixels")
    (repo / "snapshots" / "abc" / "images" / "1.png").symlink_to("../../../blobs/123")
    (repo / "snapshots" / "abc" / "out").symlink_to("../../refs")
    assert open_tree(repo / "snapshots" / "abc").read("images/1.png") == b"pixels"
    assert open_tree(repo / "snapshots" / "abc" / "images").read("1.png") == b"pixels"
    with pytest.raises(UnsafeArchiveError):
        open_tree(repo / "snapshots" / "abc").read("out")


def test_pipes_sockets_devices_and_folders_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(tmp_path)  # socket paths are short
        listener.bind("sock")
    finally:
        os.fchdir(here)
        os.close(here)
        listener.close()
    tree = open_tree(tmp_path)
    assert tree.names() == []
    for name in ("pipe", "sock", "folder"):
        with pytest.raises(DataError, match="not a regular file"):
            tree.read(name)
    with pytest.raises(DataError, match="not a regular file"):
        open_tree("/dev/zero")


def test_a_folder_lists_its_files_sorted_with_slashes(tmp_path):
    for name in ("b.txt", "a/c.txt", "a/b/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    tree = open_tree(tmp_path)
    assert tree.names() == ["a/b/d.txt", "a/c.txt", "b.txt"]
    assert tree.exists("a/c.txt") and not tree.exists("a/x.txt")
    assert tree.open("a/c.txt").read() == b"a/c.txt"
    with pytest.raises(DataError, match=r"x\.txt"):
        tree.blob("x.txt")


def test_what_is_not_there_or_of_another_kind_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match="Check the path"):
        open_tree(tmp_path / "gone.zip")
    (tmp_path / "a.tar.xz").write_bytes(b"x")
    with pytest.raises(DataError, match="Unpack it first"):
        open_tree(tmp_path / "a.tar.xz")
