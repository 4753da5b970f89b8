"""Extracted frames shared by processes: made once, waited for, checked, bounded, and never in anyone's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from clips import clip

from snellen.media import MediaCache
from snellen.media.frame_cache import FrameStore, entry_name
from snellen.media.video import EncodedFrame
from snellen.sources import FileBlob
from snellen.types import MediaSettings, Pick, Video

NAME, OTHER = "a" * 64, "b" * 64
FRAMES = [
    EncodedFrame(0, 0.0, b"first"),
    EncodedFrame(5, 0.5, b"second"),
    EncodedFrame(5, 0.5, b"second"),
    EncodedFrame(2, 0.2, b""),
]

WORKER = """
import sys
from pathlib import Path

import av

log, folder, *films = map(Path, sys.argv[1:])
real = av.open


def counting(file, *rest, **options):
    with log.open("a") as lines:
        lines.write(f"{len(file.getvalue())}\\n")
    return real(file, *rest, **options)


av.open = counting

from snellen.media import MediaCache
from snellen.sources import FileBlob
from snellen.types import MediaSettings, Video

sys.stdin.read(1)
cache = MediaCache(MediaSettings(frames=6), budget_bytes=1, shared=folder)
for question in range(18):
    for film in films:
        for image in cache.frames(Video(blob=FileBlob(film))):
            print(film.name, cache.get(image).digest)
"""


def test_eight_processes_with_many_questions_on_four_videos_decode_each_once(tmp_path):
    pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    films = [tmp_path / f"{number}.mp4" for number in range(4)]
    for number, film in enumerate(films):
        film.write_bytes(clip(20 + number, codec="libx264" if number % 2 else "mpeg4"))
    sizes = sorted(film.stat().st_size for film in films)
    log = tmp_path / "opened.txt"
    command = [sys.executable, "-c", WORKER, str(log), str(tmp_path / "shared")]
    workers = [
        # Each begins with another film, and has no memory to keep any: every question goes to the folder.
        subprocess.Popen(
            [*command, *map(str, films[start % 4 :] + films[: start % 4])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for start in range(8)
    ]
    for worker in workers:
        worker.stdin.write("go")
        worker.stdin.flush()
    said = [worker.communicate(timeout=600)[0].splitlines() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8
    assert all(len(lines) == 18 * 4 * 6 and set(lines) == set(said[0]) for lines in said)
    # A film that is decoded is opened twice: once for its packets, once for its frames.
    assert sorted(map(int, log.read_text().split())) == sorted(sizes * 2)


def test_threads_and_caches_of_one_process_decode_a_video_once(tmp_path, monkeypatch):
    av = pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    film = tmp_path / "film.mp4"
    film.write_bytes(clip())
    opened, real = [], av.open

    def counting(*given, **options):
        opened.append(given)
        return real(*given, **options)

    monkeypatch.setattr(av, "open", counting)
    caches = [MediaCache(MediaSettings(), shared=tmp_path / "shared") for _ in range(3)]
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda number: caches[number % 3].frames(Video(blob=FileBlob(film))), range(24)))
    assert len(opened) == 2
    assert len({tuple(image.blob.read() for image in clip_) for clip_ in found}) == 1


@pytest.mark.parametrize("settings", [MediaSettings(), MediaSettings(fps=2.0), MediaSettings(format="png", max_long_side=32)])  # fmt: skip
def test_what_a_model_gets_is_the_same_with_and_without_the_store(tmp_path, settings):
    film = tmp_path / "film.mp4"
    film.write_bytes(clip())
    video = Video(blob=FileBlob(film))
    alone, first, again = (MediaCache(settings, shared=where) for where in (None, tmp_path / "s", tmp_path / "s"))
    frames = [cache.frames(video) for cache in (alone, first, again)]
    assert frames[0] == frames[1] == frames[2], "keys, bytes and settings"
    sent = [[cache.get(image) for image in found] for cache, found in zip((alone, first, again), frames, strict=True)]
    assert sent[0] == sent[1] == sent[2]


def test_an_entry_is_named_by_all_that_its_frames_depend_on():
    names = [
        entry_name(b"film", Video(), MediaSettings(), 10),
        entry_name(b"other", Video(), MediaSettings(), 10),
        entry_name(b"film", Video(), MediaSettings(quality=80), 10),
        entry_name(b"film", Video(), MediaSettings(fps=1.0), 10),
        entry_name(b"film", Video(), MediaSettings(), 11),
        entry_name(b"film", Video(start=1.0), MediaSettings(), 10),
        entry_name(b"film", Video(end=1.0), MediaSettings(), 10),
        entry_name(b"film", Video(times=(1.0,)), MediaSettings(), 10),
        entry_name(b"film", Video(pick=Pick("even 8", range, 8)), MediaSettings(), 10),
        entry_name(b"film", Video(pick=Pick("even 9", range, 9)), MediaSettings(), 10),
    ]
    assert len(set(names)) == len(names) and all(len(name) == 64 and set(name) <= set("0123456789abcdef") for name in names)  # fmt: skip
    assert names[0] == entry_name(b"film", Video(), MediaSettings(), 10)


def never() -> list[tuple[int, bytes]]:
    raise AssertionError("made again")


def test_an_entry_is_kept_and_read_back_with_its_repeated_frames(tmp_path):
    assert FrameStore(tmp_path).get(NAME, lambda: FRAMES) == FRAMES
    assert FrameStore(tmp_path).get(NAME, never) == FRAMES
    assert (tmp_path / NAME).read_bytes().count(b"second") == 1


def test_a_damaged_cut_off_or_foreign_entry_is_made_anew(tmp_path):
    store = FrameStore(tmp_path)
    store.get(NAME, lambda: FRAMES)
    whole = (tmp_path / NAME).read_bytes()
    for at in range(len(whole)):
        (tmp_path / NAME).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store._read(NAME) is None
        (tmp_path / NAME).write_bytes(whole[:at])
        assert store._read(NAME) is None
    (tmp_path / NAME).write_bytes(b"something else")
    assert store.get(NAME, lambda: FRAMES) == FRAMES
    assert (tmp_path / NAME).read_bytes() == whole


def test_an_error_is_handed_on_and_nothing_is_kept_or_locked(tmp_path):
    store = FrameStore(tmp_path)
    with pytest.raises(ZeroDivisionError):
        store.get(NAME, lambda: [EncodedFrame(0, 0.0, bytes(1 // 0))])
    assert store.get(NAME, lambda: FRAMES) == FRAMES


def test_the_store_stays_within_its_budget_and_what_was_not_used_goes_first(tmp_path):
    store = FrameStore(tmp_path, budget_bytes=4000)
    names = [f"{number:064d}" for number in range(9)]
    for age, name in enumerate(names):
        store.get(name, lambda: [EncodedFrame(0, 0.0, bytes(700))])
        os.utime(tmp_path / name, ns=(age, age))
        if age == 3:
            store.get(names[0], never)  # used: its time is now
    kept = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert sum((tmp_path / name).stat().st_size for name in kept) <= 4000
    assert names[0] in kept and names[-1] in kept and names[1] not in kept
    store.get(OTHER, lambda: [EncodedFrame(0, 0.0, bytes(5000))])
    assert not (tmp_path / OTHER).exists(), "larger than everything: handed out and not kept"


HOLDER = """
import sys, time
from pathlib import Path
from snellen.media.frame_cache import FrameStore


def make():
    print("making", flush=True)
    time.sleep(600)


FrameStore(Path(sys.argv[1])).get(sys.argv[2], make)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), NAME], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "making\n"
    return process


def test_a_process_killed_while_it_decodes_leaves_nobody_waiting(tmp_path):
    process = holder(tmp_path)
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(FrameStore(tmp_path).get(NAME, lambda: FRAMES)), daemon=True)
    waiting.start()
    time.sleep(0.3)
    assert not found, "the other one is at it"
    process.send_signal(signal.SIGKILL)
    process.wait(600)
    waiting.join(600)
    assert found == [FRAMES]


def test_a_process_that_hangs_is_not_waited_for_without_end(tmp_path):
    process = holder(tmp_path)
    try:
        assert FrameStore(tmp_path, wait_s=0.2).get(NAME, lambda: FRAMES) == FRAMES
    finally:
        process.kill()
        process.wait(600)


def test_a_folder_that_cannot_be_made_or_written_is_no_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = FrameStore(tmp_path / "file" / "frames")
    assert store.get(NAME, lambda: FRAMES) == FRAMES
    assert store.get(NAME, lambda: FRAMES) == FRAMES


def test_a_cache_of_images_alone_does_not_import_the_store_of_frames(tmp_path):
    code = (
        "import sys; from pathlib import Path; from snellen.media import MediaCache; from snellen.types import MediaSettings; "
        "MediaCache(MediaSettings(), shared=Path(sys.argv[1])); print('snellen.media.frame_cache' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.split() == ["False"]
