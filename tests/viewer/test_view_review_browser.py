"""Reviews in real browsers: two reviewers, the keyboard alone, and a server that is killed in between."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser_checks import check_page, every_shape, goto_ready, opened, serving, wait_decided, wait_loaded
from case_runs import ask, write_questions
from PIL import Image

from servers.loopback import free_port
from snellen.curation.review_cases import open_review, read_all
from snellen.curation.workspace import Work, open_work
from snellen.runs.reviews.decisions import VerdictReview
from snellen.runs.reviews.journal import ReviewJournal, read_reviews_of
from snellen.viewer.index import open_index

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
pytestmark = pytest.mark.browser

IDS = ("q1", "q2", "q3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three questions with images."""
    folder = tmp_path_factory.mktemp("review-browser")
    table = write_questions(folder, IDS)
    ask(table, folder / "results" / "one", ["A", "I cannot say which.", "C"], "sibyl-9")
    ask(table, folder / "results" / "two", ["A", "B", "The answer is wren."], "zeno-2")
    return folder / "results"


@pytest.fixture
def root(runs: Path, tmp_path: Path) -> Path:
    """A copy of the runs, with its index and without any review."""
    shutil.copytree(runs, tmp_path / "results")
    open_index(tmp_path / "results").refresh()
    return tmp_path / "results"


class Server:
    """`snellen view` as a process of its own, which can be killed and started again on its port."""

    def __init__(self, root: Path, reviewers: str) -> None:
        self.root, self.reviewers, self.port = root, reviewers, free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["view", str(self.root), "--review", self.reviewers, "--port", str(self.port), "--no-open"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "snellen", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.address}/review", timeout=600).read()
                return
            except OSError:
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def server_of(root: Path, reviewers: str) -> Iterator[Server]:
    server = Server(root, reviewers)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()


def queue_of(server: Server, page, reviewer: str) -> None:
    """Open the queue as a user does: the page of the reviews, its queue, the own name."""
    goto_ready(page, f"{server.address}/review")
    page.get_by_role("link", name="Doubtful first").first.click()
    page.get_by_role("link", name=reviewer, exact=True).click()
    wait_loaded(page, "form.decide")


def decided(page) -> int:
    return int(re.search(r"([\d,]+) of", page.locator("#review-status").inner_text())[1])


def press(page, key: str) -> None:
    """Press a key and wait for the page that comes next."""
    number = decided(page)
    page.keyboard.press(key)
    wait_decided(page, number + 1)


def test_two_reviewers_in_two_browsers_and_a_kill_9_in_between_leave_every_decision_there_once(browser, root):
    with server_of(root, "ada,bob") as server:
        contexts = {name: browser.new_context() for name in ("ada", "bob")}
        pages = {name: context.new_page() for name, context in contexts.items()}
        for name, page in pages.items():
            queue_of(server, page, name)
        keys = {"ada": "123456", "bob": "654321"}
        for number in range(2):
            for name, page in pages.items():
                press(page, keys[name][number])
        server.kill()
        for name, page in pages.items():  # pressed while nobody answers
            page.keyboard.press(keys[name][2])
            sync_api.expect(page.locator("[data-sending]")).to_contain_text("The server does not answer")
        pages["bob"].keyboard.press("1")  # an impatient reviewer: the decision that waits is the one that counts
        server.start()
        for page in pages.values():
            wait_decided(page, 3, timeout=600_000)
        for number in range(3, 6):
            for name, page in pages.items():
                if number == 4 and name == "ada":
                    page.keyboard.press(keys[name][number])
                    server.kill()  # before or after the write: the page sends it again
                    server.start()
                    status = "document.querySelector('#review-status')?.textContent.trim()"
                    page.wait_for_function(
                        f"() => location.protocol === 'chrome-error:' || {status}.startsWith('5')", timeout=600_000
                    )
                    if page.url.startswith("chrome-error:"):  # answered before, while the page that follows was not
                        page.reload()
                    wait_decided(page, 5)
                else:
                    press(page, keys[name][number])
        for page in pages.values():
            sync_api.expect(page.get_by_text("All 6 are decided.")).to_be_visible()
        for context in contexts.values():
            context.close()
    words = ("right", "wrong", "gold-wrong", "ambiguous", "unreadable", "cannot-tell")
    lines = {name: [] for name in contexts}
    for run in ("one", "two"):
        journal = ReviewJournal(root / run)
        assert journal.faults() == []
        for review in journal.reviews:
            lines[review.reviewer].append((review.at, run, review))
    for name, entries in lines.items():
        entries.sort(key=lambda entry: entry[0])
        places = [(run, review.sample_id) for _, run, review in entries]
        assert len(places) == 6 == len(set(places))
        assert [review.decision for _, _, review in entries] == [words[int(key) - 1] for key in keys[name]]


def test_a_whole_review_takes_the_keyboard_alone(browser, root):
    with serving(root, reviewer="ada") as address, opened(browser, address + "/") as page:
        page.keyboard.press("r")
        page.wait_for_url("**/review")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        wait_loaded(page, "form.decide")
        page.keyboard.press("w")
        page.keyboard.type("it names 1 and 2")
        page.keyboard.press("Escape")
        press(page, "2")
        for key in "spn":
            before = page.url
            page.keyboard.press(key)
            page.wait_for_function("(url) => location.href !== url && document.readyState === 'complete'", arg=before)
        page.keyboard.press("u")
        wait_decided(page, 0)
        assert page.locator("textarea").input_value() == ""
        for _ in range(6):
            press(page, "1")
        sync_api.expect(page.get_by_text("All 6 are decided.")).to_be_visible()
        page.keyboard.press("?")
        sync_api.expect(page.get_by_text("undo the last decision", exact=True)).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("o")
        page.wait_for_url("**/review")
    reviews = [review for run in ("one", "two") for review in read_reviews_of(root / run)]
    assert [review.note for review in reviews if review.note] == ["it names 1 and 2"]
    assert sum(review.decision is None for review in reviews) == 1 and len(reviews) == 8


def test_without_scripts_the_buttons_decide_too(browser, root):
    with serving(root, reviewer="ada") as address:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        goto_ready(page, f"{address}/review")
        page.get_by_role("link", name="Doubtful first").click()
        page.get_by_role("button", name="The verdict is wrong").click()
        sync_api.expect(page.locator("#review-status")).to_contain_text("1 of 6 decided")
        context.close()


def test_a_decision_that_the_server_refuses_is_named_on_the_page(browser, root):
    with serving(root, reviewer="ada") as address:
        context = browser.new_context()
        page = context.new_page()
        goto_ready(page, f"{address}/review")
        page.get_by_role("link", name="Doubtful first").click()
        wait_loaded(page, "form.decide")
        page.evaluate("document.querySelector('[name=verdict]').value = 'perhaps'")
        page.keyboard.press("1")
        sync_api.expect(page.locator("[data-sending]")).to_contain_text("verdict is 'perhaps'")
        context.close()


def candidates(folder: Path) -> Work:
    """A working folder with two candidates of a benchmark."""
    (folder / "images").mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(folder / "images" / "a.png")
    rows = [{"id": f"{folder.name} {n}", "image": "a.png", "question": f"Which {n}?", "answer": "wren"} for n in (1, 2)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_work(folder / "work", folder / "rows.jsonl", folder / "images", folder.name)


def test_a_decision_is_kept_until_its_review_is_entered_with_the_token_of_a_new_start(browser, tmp_path):
    birds, fish, port = candidates(tmp_path / "birds"), candidates(tmp_path / "fish"), free_port()

    @contextmanager
    def reviewing(work: Work, token: str) -> Iterator[str]:
        with (
            open_review(work, 1, ("hard", "leaks", "evidence")) as cases,
            serving(work.path, port, token=token * 32, cases=cases) as address,
        ):
            yield f"{address}/review?reviewer=Ann&step=queue&token={token * 32}"

    context = browser.new_context()
    page, posts = context.new_page(), []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    with reviewing(birds, "a") as address:
        page.goto(address)
        wait_loaded(page, "form.decide")
    page.keyboard.press("1")
    sync_api.expect(page.locator("[data-sending]")).to_contain_text(f"with --port {port}")
    with reviewing(fish, "b") as address:
        sync_api.expect(page.locator("[data-sending]")).to_contain_text("open the address that the server printed")
        posts.clear()
        page.goto(address)
        wait_loaded(page, "form.decide")
        assert posts == [] and decided(page) == 0
    with reviewing(birds, "c") as address:
        page.goto(address)
        sync_api.expect(page.locator("#review-status")).to_contain_text("1 of 2 decided")
    context.close()
    assert [(one.id, one.say) for one in read_all(birds)] == [("birds 1", "accept")] and read_all(fish) == []


@every_shape
def test_every_shape_of_the_page_is_quiet_and_fits(browser, root, width, theme):
    for number, sample_id in enumerate(IDS):
        for name in ("ada", "bob"):
            word = "wrong" if name == "bob" and number < 2 else ("right", "ambiguous")[number % 2]
            line = VerdictReview(
                sample_id=sample_id, reviewer=name, decision=word, note="a note", verdict="wrong", design="queue"
            )
            ReviewJournal(root / "one").append(line)
    shapes = ["Doubtful first", "Audit sample", "Adjudicate", "Agreement"]
    with serving(root, reviewer="ada, carl") as address:
        with opened(browser, f"{address}/review?reviewer=carl", width=width, theme=theme) as page:
            check_page(page)
            addresses = [page.get_by_role("link", name=shape).get_attribute("href") for shape in shapes]
        for place in [*addresses, addresses[0].replace("&reviewer=carl", "")]:
            with opened(browser, address + place, width=width, theme=theme) as page:
                check_page(page)
