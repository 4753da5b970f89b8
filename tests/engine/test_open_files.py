"""The limit of open files: requests in flight follow it, and where it is reached the advice is about it."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from servers import fast
from snellen.cli.console import environment_fault
from snellen.engine.concurrency import fitting
from snellen.engine.journal import storage_error
from snellen.engine.request_errors import advice
from snellen.errors import DataError, SnellenError, StorageError, open_files_limit


@pytest.mark.parametrize("files", [48, 64, 256])
def test_a_run_under_a_small_limit_of_open_files_is_answered_whole_with_fewer_in_flight(files, tmp_path):
    rows = [{"id": str(n), "question": f"Which, {n}?", "A": "one", "B": "two", "answer": "A"} for n in range(400)]
    (tmp_path / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with fast.running(latency_s=0.05) as server:
        words = ["run", "quiz.jsonl", "-m", f"api:{fast.MODEL}", "--base-url", server.url, "-c", "512", "--out", "run"]
        done = subprocess.run(
            [sys.executable, "-m", "snellen", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
        )
        stats = server.stats()
    assert done.returncode == 0, done.stderr
    assert stats["served"] == len(rows) and stats["most_in_flight"] < files
    assert "not the 512 asked for" in done.stderr and f"may have {files} files open" in done.stderr
    assert "ulimit -n 4096" in done.stderr
    meta = json.loads((tmp_path / "run" / "run_meta.json").read_text())
    assert meta["spec"]["options"]["concurrency"] == 512, "what was asked for is recorded"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EACCES])
def test_the_advice_where_no_further_file_can_be_opened_is_not_that_of_a_full_disk(number):
    cause = OSError(number, os.strerror(number))
    try:
        try:
            raise cause
        except OSError as error:
            raise StorageError("cannot write x", "Name another --out.") from error
    except StorageError as error:
        raised = error
    try:
        try:
            raise cause
        except OSError:
            raise DataError("no row", "Check it.") from None
    except DataError as error:
        hidden = error
    fault = environment_fault(cause)
    built = storage_error(Path("x"), cause)
    built.__cause__ = cause  # as `raise … from` sets it
    assert fault is not None
    about_files = number in (errno.EMFILE, errno.ENFILE)
    errors: list[SnellenError] = [raised, hidden, fault, built]
    for each in errors:
        assert ("files open" in each.hint) == about_files, each
        assert ("free" in each.hint.lower() or "another" in each.hint or "Check" in each.hint) != about_files


def test_samples_that_found_no_free_file_have_that_advice():
    said = advice("connection", f"Cannot connect to http://x: {os.strerror(errno.EMFILE)}.")
    assert "ulimit -n" in said and "server is up" not in said


def test_what_fits_is_never_more_than_wanted_and_never_nothing(monkeypatch):
    assert open_files_limit() in (None, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for most in (1, 16, 64, 256, 1024, 1 << 20, None):
        monkeypatch.setattr("snellen.engine.concurrency.open_files_limit", lambda most=most: most)
        for wanted in (1, 16, 512, 65_536):
            for each in (1, 2, 12):
                fits = fitting(wanted, each)
                assert 1 <= fits <= wanted
                assert fits == 1 or most is None or fits * each < most
