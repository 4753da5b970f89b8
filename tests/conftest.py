"""Fixtures that every room may use. Being here also makes `tests/` importable, for `servers`."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import shutil
import signal
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

# Each worker of the suite and the programs that it starts compute with one thread: more would wait for each other. Read
# when torch and numpy are imported, so this stands before every import that may bring them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

import snellen
from command_server import command_server
from servers import fast
from servers.hostile import HostileServer
from snellen import redaction

# A suite that was started with `nohup … &` ignores these signals, and so would the programs that tests send them to. A
# handler is not inherited by another program; what is ignored is.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)

PATIENCE_MS = 180_000
"""How long a page may take: what a browser shows must not depend on how fast the machine is."""

# Examples are timed on machines that do other things as well; how long one took says nothing. They are drawn alike in each
# run, so that a failure is one of the change that it meets; `pytest --hypothesis-profile=random` draws others.
settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile("house")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import all of Snellen in a worker of the suite: Hypothesis also draws constants of the modules that are loaded.

    Otherwise its draws depend on which files the worker was given before.
    """
    if hasattr(session.config, "workerinput"):
        for module in walk_packages(snellen.__path__, "snellen."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


@pytest.fixture
def printed_as_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare each object that a command of this process prints with what `snellen schema` says of it."""
    from printed_schema import compare_printed

    compare_printed(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The key that marks this user's runs lies in a folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNELLEN_DATA", str(tmp_path_factory.mktemp("snellen-data")))
        yield


INSTALLED = "SNELLEN_TEST_INSTALLED" in os.environ
"""`make test-installed` runs the tests, in an environment without the extras that other tests import."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the files without a test of the installed package, where those are run."""
    if INSTALLED and collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return "mark.installed" not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.fixture(scope="session", autouse=True)
def package_of_the_wheel() -> None:
    """Check that `make test-installed` tests the installed package, and not that of the checkout."""
    if INSTALLED:
        assert Path(snellen.__file__).is_relative_to(sysconfig.get_path("purelib")), snellen.__file__


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder, for PATH, of a `snellen` that starts at once, and of `run-script FILE`: `command_server` says how."""
    with command_server(tmp_path_factory.mktemp("commands")) as folder:
        yield folder


@pytest.fixture(autouse=True)
def no_key_of_another_test() -> Iterator[None]:
    """Keys that a test registers are struck from what this process writes; the next test has none of them."""
    yield
    redaction.forget()


@pytest.fixture(autouse=True)
def before_the_shutdowns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests name models that their providers end: on every day they are judged as of this one."""
    monkeypatch.setattr("snellen.models.shutdowns.today", lambda: dt.date(2026, 11, 22))


@pytest.fixture
def hostile() -> Iterator[HostileServer]:
    """A server that misbehaves as asked: `hostile.url("reset")`."""
    with HostileServer() as server:
        yield server


@pytest.fixture
def stub() -> Iterator[fast.Running]:
    """A good, fast server in a process of its own: `stub.url`, `stub.stats()`."""
    with fast.running() as server:
        yield server


@pytest.fixture
def forget_keys() -> Iterator[None]:
    """Keys that a test registers are struck in that test alone."""
    redaction.forget()
    yield
    redaction.forget()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Headless Chromium: the system's, else Playwright's own."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
    system = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
    with api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no Chromium could be started: {str(error).splitlines()[0]}")
        chromium.new_context = _patient(chromium.new_context)
        chromium.new_page = _patient(chromium.new_page)
        api.expect.set_options(timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """Open contexts or pages that wait as long as a slow machine needs."""

    def made(*words: Any, **options: Any) -> Any:
        opened = make(*words, **options)
        opened.set_default_timeout(PATIENCE_MS)
        return opened

    return made
