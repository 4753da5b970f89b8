"""`--frames`, `--fps` and `--video`, from the words on the line to the settings of the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "media"),
    [
        ([], {}),
        (["--frames", "8"], {}),
        (["--frames", "3"], {"frames": 3}),
        (["--fps", "0.5", "--max-pixels", "1000"], {"fps": 0.5, "max_pixels": 1000}),
        (["--video", "native"], {"video": "native"}),
        (["--video", "native", "--fps", "2"], {"video": "native", "fps": 2.0}),
        (["--timestamps"], {"timestamps": True}),
        (["--no-timestamps"], {"timestamps": False}),
    ],
)
def test_a_run_records_how_clips_are_shown_and_nothing_that_was_not_asked_for(snellen, words, media):
    assert snellen("run", "lights", "-m", "pixels", *words).status == 0
    identity = json.loads(Path("results/lights-pixels/run_meta.json").read_bytes())["identity"]
    assert identity["media"] == media


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frames", "8", "--fps", "1"], "exclude each other"),
        (["--fps", "0"], "above 0"),
        (["--frames", "8", "--video", "native"], "--frames 8"),
        (["--video", "native", "--blank-images"], "--blank-images would change it"),
        (["--video", "native", "--max-pixels", "100"], "--max-pixels would change it"),
        (["--video", "native", "--timestamps"], "--timestamps would change it"),
    ],
)
def test_options_that_exclude_each_other_end_the_command_before_anything_is_written(snellen, words, message):
    said = snellen("run", "lights", "-m", "pixels", *words)
    assert said.status == 2 and message in said.err
    assert not Path("results").exists()
