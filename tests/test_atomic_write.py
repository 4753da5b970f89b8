"""What a command writes is there whole or not at all, however it ends, and the same command leaves nothing beside it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from snellen.atomic_write import part_folder, replacing
from snellen.cli import main

LONGEST_S = 600


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("raised", [KeyboardInterrupt, OSError, ValueError])
def test_whatever_ends_a_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, raised):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(raised), replacing(path) as part:
        part.write_text("half of the new")
        raise raised
    assert names(tmp_path) == ["page.html"] and path.read_text() == "old"


def test_the_part_of_a_killed_process_is_taken_over_and_none_of_its_bytes_stay(tmp_path: Path) -> None:
    (tmp_path / "page.html.part").write_text("a long text of a process that was killed")
    with replacing(tmp_path / "page.html") as part, part.open("r+b") as file:
        file.write(b"new")
    assert names(tmp_path) == ["page.html"] and (tmp_path / "page.html").read_text() == "new"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_in_the_place_of_a_part_is_not_written_through(tmp_path, link):
    other = tmp_path / "other"
    other.write_text("somebody's")
    link(other, tmp_path / "page.html.part")
    with replacing(tmp_path / "page.html") as part:
        part.write_text("new")
    assert other.read_text() == "somebody's" and (tmp_path / "page.html").read_text() == "new"


def test_a_pipe_in_the_place_of_a_part_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "page.html.part")
    with replacing(tmp_path / "page.html") as part:
        part.write_text("new")
    assert (tmp_path / "page.html").read_text() == "new"


def test_of_processes_that_write_the_same_file_each_writes_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    text = (
        "import sys; from pathlib import Path; from snellen.atomic_write import replacing\n"
        "for turn in range(60):\n"
        "    with replacing(Path(sys.argv[1])) as part:\n"
        "        with part.open('w') as file:\n"
        "            for piece in range(40): file.write(sys.argv[2] * 1000); file.flush()\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", text, path, letter]) for letter in "abc"]
    contents: set[str] = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            contents.add(path.read_text())
    contents.add(path.read_text())
    assert [writer.wait(LONGEST_S) for writer in writers] == [0, 0, 0]
    assert contents <= {letter * 40_000 for letter in "abc"}
    assert names(tmp_path) == ["page.html"]


def test_a_folder_that_another_process_removed_before_its_lock_was_held_is_made_again(tmp_path, monkeypatch):
    acquire, removed = filelock.FileLock.acquire, []

    def late(lock: filelock.FileLock, *arguments: object, **settings: object) -> object:
        if not removed:
            removed.append(Path(lock.lock_file).parent)
            shutil.rmtree(removed[0])
        return acquire(lock, *arguments, **settings)

    monkeypatch.setattr(filelock.FileLock, "acquire", late)
    with part_folder(tmp_path) as folder:
        (folder / "large").write_text("x")
        assert removed and (folder / "large").exists()
    assert not list(tmp_path.iterdir())


def test_a_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    text = (
        "import sys, time; from pathlib import Path; from snellen.atomic_write import part_folder\n"
        "with part_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'large').write_text('x'); print(folder, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", text, tmp_path]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        killed, living = (Path(str(writer.stdout and writer.stdout.readline().strip())) for writer in writers)
        writers[0].kill()
        writers[0].wait()
        with part_folder(tmp_path) as mine:
            assert not killed.exists() and (living / "large").exists() and mine.is_dir()
        assert not mine.exists() and living.exists()
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


STEPWISE = """
import sys
from pathlib import Path
from killed_steps import KilledSteps
from snellen.atomic_write import part_folder
KilledSteps(int(sys.argv[1]))
with part_folder(Path.cwd()) as folder:
    (folder / "sub").mkdir()
    for name in ("large", "sub/large"):
        (folder / name).write_text("x")
"""
"""A process that makes a folder of parts and is killed at one of its steps on the disk."""


def test_a_folder_of_parts_is_removed_whenever_its_process_was_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    for step in range(1, 100):
        command = [sys.executable, "-c", STEPWISE, str(step)]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, timeout=LONGEST_S, check=False)
        with part_folder(tmp_path):
            pass
        assert not list(tmp_path.iterdir()), f"killed at step {step}"
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
    assert step > 10


KILLED = """
import os, signal, sys
from pathlib import Path
from snellen.cli import main
number, left = int(sys.argv.pop(1)), [int(sys.argv.pop(1))]
def ended(move):
    def moved(path, target):
        if ".part" in str(path):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), number)
        return move(path, target)
    return moved
Path.replace, Path.rename = ended(Path.replace), ended(Path.rename)
sys.exit(main())
"""
"""A command that gets a signal just before it moves its nth file into its place."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short run and pictures to build questions from."""
    place = tmp_path_factory.mktemp("place")
    arguments = ["run", "chart", "--model", "embedded", "--limit", "30", "--out", str(place / "run"), "--quiet"]
    assert main(arguments) == 0
    script = Path(__file__).parents[1] / "examples" / "chart_set.py"
    subprocess.run([sys.executable, script, place / "creatures", "--pictures", "1"], check=True, timeout=LONGEST_S)
    return place


COMMANDS = {
    "report": (1, "report run --out OUT/report.html"),
    "failures": (4, "failures run --pages OUT/pages"),
    "export": (1, "export run --format jsonl --out OUT/export"),
    "build": (
        1,
        "build questions --images creatures --taxonomy creatures/taxonomy.csv --noun creature --templates chart"
        " --copy-images --out OUT/set",
    ),
    "score": (1, "score run --per-sample OUT/per.jsonl"),
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_ended_while_it_writes_leaves_nothing_half_and_the_same_command_leaves_no_part(
    place, tmp_path, monkeypatch, name, number
):
    monkeypatch.chdir(place)
    nth, line = COMMANDS[name]
    words = line.replace("OUT", str(tmp_path / "out")).split()
    for folder in ("out", "whole"):
        (tmp_path / folder).mkdir()
    assert main(line.replace("OUT", str(tmp_path / "whole")).split()) == 0
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(int(number)), str(nth), *words],
        capture_output=True, text=True, timeout=LONGEST_S,
    )  # fmt: skip
    assert ended.returncode == (143 if number == signal.SIGTERM else -number), ended.stdout + ended.stderr
    left = names(tmp_path / "out")
    if number == signal.SIGTERM:
        assert not [path for path in left if ".part" in path]
    whole = names(tmp_path / "whole")
    assert {path for path in left if ".part" not in path} < set(whole)
    assert main(words) == 0
    assert names(tmp_path / "out") == whole
    assert not list((place / "run").rglob("*.part"))
