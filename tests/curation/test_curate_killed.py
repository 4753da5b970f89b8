"""Each stage of the real command is killed again and again while it works, and gone on with: nothing is lost or doubled.

The clock of the children stands still: a set's provenance says when each search was made, and two sets are compared byte
by byte here. A line of a journal takes them 10 ms more, so that there is time to kill them in. What is random about the
moments is drawn from a seed.
"""

from __future__ import annotations

import html
import http.cookiejar
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import setting
from setting import answer

from snellen.curation.workspace import open_work

CHILD = """
import sys, time
from snellen.cli import main
from snellen.engine.journal import Journal
append = Journal.append
def slowly(journal, record):
    time.sleep(0.01)
    append(journal, record)
Journal.append = slowly
time.time = lambda: 1.8e9
sys.exit(main())
"""
KILLS = 3
"""Of each stage."""
REJECTED = 16
CONCURRENCY = 4


class Killed:
    """One curation that is killed `KILLS` times in each stage; with `chance` None it is left in peace."""

    def __init__(self, work: Path, place: Path, url: str, chance: random.Random | None) -> None:
        self.work, self.place, self.url, self.chance = work, place, url, chance
        self.kills: Counter[str] = Counter()

    def start(self, *words: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, "build", "curate", "--out", str(self.work), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "STUB_KEY": "k"},
        )

    def stage(self, name: str, journal: str, *words: object) -> None:
        """Run a stage; kill it whenever its journal has grown by some lines, or a little later."""
        path = self.work / journal
        for _ in range(KILLS if self.chance is not None else 0):
            process = self.start("--stage", name, *words)
            wanted = lines(path) + self.chance.randint(1, 6)
            while process.poll() is None and lines(path) < wanted:
                time.sleep(0.001)
            time.sleep(self.chance.random() * 0.02)
            self.kills[name] += kill(process)
        process = self.start("--stage", name, *words)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, out + err

    def review(self) -> None:
        """Two people judge everything; the server is killed between their forms and under one, and started again."""
        for reviewer in ("Ann", "Bo"):
            done = False
            while not done:
                left = self.chance.randint(3, 12) if self.chance is not None and self.kills["review"] < KILLS else 1000
                process, browser = self.serving(reviewer)
                done = browser.judge_all(left, None if left == 1000 else process.kill)
                if done:
                    process.send_signal(signal.SIGINT)
                    _, err = process.communicate(timeout=600)
                    assert process.returncode == 0, err
                else:
                    self.kills["review"] += kill(process)

    def serving(self, reviewer: str) -> tuple[subprocess.Popen[str], Browser]:
        process = self.start("--stage", "review", "--port", 0)
        assert process.stderr is not None
        while not (found := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line := process.stderr.readline())):
            assert line, "the review page did not start"
        return process, Browser(found[0], reviewer)

    def pack(self) -> None:
        """The last stage writes no journal: it is killed at any time of the time that it takes."""
        zips = self.work / "packs"
        if self.chance is not None:
            started = time.monotonic()
            self.start("--stage", "pack", "--version", "0.1").communicate(timeout=600)  # how long it takes here and now
            takes = time.monotonic() - started
            for attempt in range(5 * KILLS):
                process = self.start("--stage", "pack")
                # Shorter and shorter waits: a machine that was busy a moment ago need not be any more.
                time.sleep(takes * self.chance.uniform(0.5, 1.0) * 0.9**attempt)
                self.kills["pack"] += kill(process)
                for path in zips.glob("*.zip"):
                    assert zipfile.ZipFile(path).testzip() is None, "a pack is there, and is not whole"
                if self.kills["pack"] == KILLS:
                    break
        process = self.start("--stage", "pack")
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, out + err


class Browser:
    """A person's requests to the review page, by the standard library."""

    def __init__(self, address: str, name: str) -> None:
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._open = urllib.request.build_opener(jar).open
        self._home = address.partition("/?")[0]
        self._get(address)
        self._page = self._get(f"{self._home}/review?step=queue&reviewer={name}")

    def judge_all(self, most: int, before_the_last: Callable[[], None] | None) -> bool:
        """Follow the queue until nothing is left; after `most` forms something happens while one is on its way."""
        for count in range(most):
            form = re.search(r'<form method="post" action="([^"]+case=(\d+)[^"]*)"', self._page)
            if form is None:
                return True
            said = {"decision": "accept"}
            if int(form[2]) - 1 == REJECTED:
                said = {"decision": "reject", "note": "too dark"}
            if before_the_last is not None and count == most - 1:
                threading.Timer(0.002, before_the_last).start()
                try:
                    self._post(html.unescape(form[1]), said)
                except (OSError, urllib.error.URLError):
                    return False
                return False
            self._post(html.unescape(form[1]), said)
        return False

    def _get(self, address: str) -> str:
        with self._open(address, timeout=600) as answer:
            return answer.read().decode()

    def _post(self, path: str, fields: dict[str, str]) -> None:
        page = re.search(r'name="id" value="([^"]+)"', self._page)
        assert page is not None, self._page
        body = urllib.parse.urlencode({**fields, "id": page[1]}).encode()
        request = urllib.request.Request(self._home + path, body, {"Origin": self._home})
        with self._open(request, timeout=600) as answer:
            self._page = answer.read().decode()


def kill(process: subprocess.Popen[str]) -> bool:
    """SIGKILL; whether it was still at work."""
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def curate(killed: Killed) -> None:
    """All stages, with the same words for everybody."""
    place = killed.place
    model = ("--model", "api:stub", "--base-url", killed.url, "--key-env", "STUB_KEY", "-c", CONCURRENCY, "-q")
    killed.stage(
        "hard",
        "hard/api-stub/results.jsonl",
        place / "candidates.jsonl",
        "--images",
        place / "images",
        "--name",
        "set",
        *model,
    )
    killed.stage("leaks", "leaks/searches.jsonl", "--collection", place / "web", "--encoder", "none")
    killed.stage("evidence", "evidence/fetched.jsonl", "--pages", place / "pages")
    killed.review()
    killed.pack()


@pytest.fixture(scope="module")
def both(place: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Killed, Killed, int]:
    """One that was left in peace, one that was killed; and how often the second's model was asked."""
    root = tmp_path_factory.mktemp("killed")
    begun = open_work(root / "probe", place / "candidates.jsonl", place / "images")
    by_sight = {begun.candidates[n].sha256: [answer(n)] for n in setting.KNOWN}
    made = []
    asked = 0
    for name, chance in (("peace", None), ("killed", random.Random(5))):
        with setting.Endpoint(by_sight, delay_s=0.01) as server:
            one = Killed(root / name, place, server.url, chance)
            curate(one)
            asked = server.asked
        made.append(one)
    return made[0], made[1], asked


def test_every_stage_was_killed_while_it_worked(both: tuple[Killed, Killed, int]) -> None:
    _, killed, _ = both
    assert set(killed.kills) == {"hard", "leaks", "evidence", "review", "pack"}
    assert all(count >= 2 for count in killed.kills.values()), killed.kills


def test_the_set_is_byte_for_byte_that_of_an_undisturbed_curation(both: tuple[Killed, Killed, int]) -> None:
    peace, killed, _ = both
    ours, theirs = (one.work / "packs" / "set-1.0.zip" for one in (killed, peace))
    assert ours.read_bytes() == theirs.read_bytes()
    assert (ours.parent / "set-1.0.zip.sha256").read_text() == (theirs.parent / "set-1.0.zip.sha256").read_text()
    with zipfile.ZipFile(ours) as archive:
        assert len(archive.read("data/manifest.jsonl").splitlines()) == len(setting.REVIEWED) - 1


def test_every_candidate_went_through_every_stage_once(both: tuple[Killed, Killed, int]) -> None:
    peace, killed, asked = both
    answered = Counter(
        row["sample_id"] for row in rows(killed.work / "hard/api-stub/results.jsonl") if row["status"] == "ok"
    )
    assert len(answered) == setting.COUNT and set(answered.values()) == {1}
    # Asked anew is only what was on its way when a process was killed.
    assert setting.COUNT <= asked <= setting.COUNT + KILLS * (CONCURRENCY + 1)
    for journal, key in (("leaks/searches.jsonl", "sha256"), ("evidence/fetched.jsonl", "url")):
        once = Counter(row[key] for row in rows(killed.work / journal))
        assert set(once.values()) == {1}, (journal, once.most_common(3))
        assert once.keys() == {row[key] for row in rows(peace.work / journal)}
    opinions = Counter((row["id"], row["reviewer"]) for row in rows(killed.work / "review/opinions.jsonl"))
    assert len(opinions) == 2 * len(setting.REVIEWED) and set(opinions.values()) == {1}


@pytest.mark.parametrize("stage", ["hard", "leaks", "evidence", "review"])
def test_the_decisions_of_every_stage_are_those_of_an_undisturbed_one(both, stage):
    peace, killed, _ = both
    ours, theirs = (json.loads((one.work / f"{stage}.json").read_text()) for one in (killed, peace))
    assert ours == theirs
    ids = [one["id"] for one in ours["decisions"]]
    assert len(ids) == len(set(ids)) > 0
