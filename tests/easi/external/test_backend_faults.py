"""What a log says went wrong: of which kind, with which benchmark, a traceback as one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.easi.external.outcome import MOST, faults, kind_of, lines_of


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", "out of memory"),
        ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1", "between the GPUs"),
        ("[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)", "between the GPUs"),
        ("/bin/sh: line 1:  4242 Killed   python run.py", "killed"),
        ("torch.distributed.elastic: failed (exitcode: -9) local_rank: 0", "killed"),
        ("OSError: org/x is not a local folder and is not a valid model identifier", "model not loaded"),
        ("OSError: org/x does not appear to have a file named config.json", "model not loaded"),
        ("OSError: Can't load tokenizer for 'org/x'", "model not loaded"),
        ("RuntimeError: Error(s) in loading state_dict for Qwen", "model not loaded"),
        ("ValueError: Attempted to load model 'x', but no model for this name found!", "model not loaded"),
        (
            "ValueError: Tasks not found: vsibench_debiased_multiimage. Try `lmms-eval --tasks list`",
            "task or data not found",
        ),
        ("datasets.exceptions.DatasetNotFoundError: Dataset 'a/b' doesn't exist", "task or data not found"),
        ("OSError: [Errno 28] No space left on device", "no space on the disk"),
        ("RuntimeError: [Errno 98] Address already in use", "port taken"),
        ("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url", "not allowed"),
        ("ERROR - Model m x Dataset BLINK combination failed: AssertionError, skipping", "failed"),
        ("KeyError: 'question_type'", "failed"),
        ("UserWarning: CUDA out of memory was once a problem", None),
        ("100%|██████████| 6/6 [00:00<00:00]", None),
        ("The error of the model was 0.3", None),
    ],
)
def test_each_kind_of_fault_is_known_by_its_line(line, kind):
    assert kind_of(line) == kind


def test_a_fault_belongs_to_the_benchmark_whose_longest_name_is_in_its_line():
    lines = [
        "ERROR - m x Dataset VSI-Bench-Debiased_32frame combination failed: AssertionError",
        "ERROR - m x Dataset VSI-Bench_32frame combination failed: CUDA out of memory",
        "NCCL error: remote process exited",
    ]
    found = faults(lines, ["VSI-Bench_32frame", "VSI-Bench-Debiased_32frame", "BLINK"])
    assert {name: [fault.kind for fault in some] for name, some in found.items()} == {
        "VSI-Bench-Debiased_32frame": ["failed"],
        "VSI-Bench_32frame": ["out of memory"],
        "": ["between the GPUs"],
    }


def test_a_traceback_is_its_last_line_with_colours_and_ranks_taken_off():
    lines = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "a.py", line 3, in <module>',
        "[rank0]:     raise ValueError('out of memory is not what this is about')",
        "[rank0]: ValueError: the frames are odd",
        "",
        "During handling of the above exception, another exception occurred:",
        "Traceback (most recent call last):",
        '  File "b.py", line 9, in g',
        "\x1b[31mRuntimeError: no frames\x1b[0m",
    ]
    (some,) = faults(lines).values()
    assert [fault.text for fault in some] == ["ValueError: the frames are odd", "RuntimeError: no frames"]


def test_the_first_three_different_ones_are_told_and_the_reason_goes_before_the_end():
    lines = ["2026 | ERROR | Error during evaluation: x"]
    lines += [f"torch.OutOfMemoryError: CUDA out of memory at step {at}" for at in range(100)]
    lines += ["OSError: No space left on device", "RuntimeError: NCCL error", "Connection refused"]
    (some,) = faults(lines).values()
    assert [fault.kind for fault in some] == ["out of memory", "no space on the disk", "between the GPUs"]
    assert some[0].text.endswith("step 0")


def test_of_a_log_only_what_came_after_the_start_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"CUDA out of memory\nsecond\rthird \xff\n")
    assert lines_of(log, 19) == ["second", "third �", ""]
    assert lines_of(tmp_path / "nothing") == []


@given(st.lists(st.text(max_size=200), max_size=30))
def test_no_log_breaks_it(lines):
    found = faults(lines, ["BLINK"])
    assert all(1 <= len(some) <= MOST for some in found.values())
