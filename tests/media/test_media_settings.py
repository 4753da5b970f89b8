"""Settings that exclude each other are refused; what nobody set is not written, so that older runs keep their name."""

from __future__ import annotations

import msgspec
import pytest

from snellen.cli.options import MediaOptions
from snellen.engine.fingerprint import digest
from snellen.errors import UsageError
from snellen.media import MediaCache, check_settings
from snellen.models.api import ApiModel
from snellen.models.base import ModelOptions
from snellen.models.embedded import open_model as open_embedded
from snellen.models.local.model import open_model as open_local
from snellen.types import MediaSettings


def asked(frames: int | None = None, fps: float | None = None, video: str = "frames", **others: object):
    return MediaOptions(frames=frames, fps=fps, video=video, **others).settings()


def test_settings_that_nobody_set_leave_no_trace_in_a_fingerprint():
    assert msgspec.to_builtins(MediaSettings()) == {}
    assert msgspec.to_builtins(MediaSettings(frames=4, blank=True)) == {"frames": 4, "blank": True}
    assert digest({"media": MediaSettings(frames=4)}) == digest({"media": {"frames": 4}})


def test_a_rate_and_the_file_itself_are_other_experiments():
    digests = {digest({"media": s}) for s in (MediaSettings(), MediaSettings(fps=1.0), MediaSettings(video="native"))}
    assert len(digests) == 3


def test_settings_of_runs_made_before_are_still_read():
    old = b'{"max_long_side":100,"frames":4}'
    assert msgspec.json.decode(old, type=MediaSettings) == MediaSettings(max_long_side=100, frames=4)


def test_a_number_of_frames_and_a_rate_exclude_each_other():
    for frames in (4, 8):
        with pytest.raises(UsageError, match=f"--frames {frames} and --fps 1 exclude"):
            asked(frames=frames, fps=1.0)
    with pytest.raises(UsageError, match="--frames 4 and --fps 2 exclude"):
        check_settings(MediaSettings(frames=4, fps=2.0))


def test_what_is_given_alone_is_kept():
    assert asked() == MediaSettings()
    assert asked(frames=3) == MediaSettings(frames=3)
    assert asked(fps=0.5) == MediaSettings(fps=0.5)
    assert asked(video="native") == MediaSettings(video="native")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(UsageError, match="above 0"):
        asked(fps=rate)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        (MediaSettings(video="native", blank=True), "--blank-images"),
        (MediaSettings(video="native", max_long_side=100), "--max-long-side"),
        (MediaSettings(video="native", max_pixels=100), "--max-pixels"),
        (MediaSettings(video="native", format="png"), "--image-format"),
        (MediaSettings(video="native", frames=4), "--frames"),
        (MediaSettings(video="native", fps=1.0), "--fps"),
    ],
)
def test_a_file_that_is_sent_as_it_is_cannot_be_changed_as_well(settings, flag):
    for refuse in (
        lambda: check_settings(settings),
        lambda: MediaCache(settings),
        lambda: ApiModel("m", ModelOptions(media=settings)),
    ):
        with pytest.raises(UsageError, match=flag):
            refuse()


def test_frames_said_aloud_beside_native_are_refused_even_when_they_are_the_default():
    with pytest.raises(UsageError, match="--frames 8"):
        asked(frames=8, video="native")


def test_models_that_are_handed_pixels_refuse_files_and_say_what_to_do():
    pytest.importorskip("torch", reason="torch (extra local) is not installed")
    options = ModelOptions(media=MediaSettings(video="native"))
    for refuse in (lambda: open_local("somewhere", options), lambda: open_embedded("", options)):
        with pytest.raises(UsageError, match="--video frames"):
            refuse()
