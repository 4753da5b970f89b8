"""Settings that change the pictures of acuity: refused on every way, and part of every name with `through=yes`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from keyed_observers import KeyedObserver, observed_run
from snellen.benchmarks.acuity.conditions import plan
from snellen.benchmarks.acuity.questions import QuestionPlace, place_of, question
from snellen.benchmarks.acuity.through import change_names, change_words, with_media
from snellen.benchmarks.base import Data
from snellen.errors import UsageError
from snellen.media import check_settings
from snellen.models.base import ModelOptions
from snellen.runs.score_rows import details
from snellen.types import MediaSettings, Video

CHANGES = {
    "--corrupt blur:3": MediaSettings(corrupt="blur:3"),
    "--max-long-side 64": MediaSettings(max_long_side=64),
    "--max-pixels 1000": MediaSettings(max_pixels=1000),
    "--image-format jpeg": MediaSettings(format="jpeg"),
    "--blank-images": MediaSettings(blank=True),
}


@pytest.mark.parametrize("option", CHANGES)
def test_python_refuses_a_change_and_names_its_option(tmp_path, option):
    with pytest.raises(UsageError) as refused:
        snellen.evaluate(
            "acuity", "embedded", benchmark_options={"attributes": "gap"}, media=CHANGES[option], out=tmp_path / "run"
        )
    assert change_words(change_names(CHANGES[option])) in refused.value.message
    assert option in refused.value.hint
    assert "through=yes" in refused.value.hint
    assert not (tmp_path / "run").exists()


def test_a_lossless_format_and_no_change_are_accepted():
    data = Data(options={"attributes": "gap"})
    assert with_media(data, MediaSettings(format="png")) == with_media(data, MediaSettings()) == data


def test_frames_are_refused_only_where_clips_are_measured():
    for media in (MediaSettings(frames=4), MediaSettings(fps=2.0)):
        with pytest.raises(UsageError, match="motion"):
            with_media(Data(options={"attributes": "gap,motion"}), media)
        with_media(Data(options={"attributes": "gap"}), media)


@pytest.mark.parametrize(
    ("through", "media"),
    [
        ("yes", MediaSettings()),
        ("jpeg-80", MediaSettings(format="jpeg", quality=90)),
        ("jpeg-80", MediaSettings()),
        ("maybe", MediaSettings(format="jpeg")),
    ],
)
def test_a_name_that_the_settings_do_not_bear_out_is_refused(through, media):
    with pytest.raises(UsageError):
        with_media(Data(options={"attributes": "gap", "through": through}), media)


def test_every_name_of_a_run_through_a_change_says_so(tmp_path):
    asked = Data(options={"attributes": "gap,spacing", "most": "24", "through": "yes"})
    media = MediaSettings(format="jpeg", quality=80, max_long_side=256)
    data = with_media(asked, media)
    run = observed_run(tmp_path / "run", KeyedObserver(data), media=media)
    assert {metric.name for metric in run.figures()["strict"]} == {
        "threshold/gap+side-256+jpeg-80",
        "threshold/spacing+side-256+jpeg-80",
    }
    described = details(run)["conditions"]
    assert all("through a long side of 256 px, jpeg quality 80" in each["words"] for each in described)
    assert with_media(data, media) == data  # a run that goes on


def test_pictures_through_a_change_never_meet_the_others():
    plain = plan({"attributes": "gap"}).conditions[0]
    through = plan({"attributes": "gap", "through": "jpeg-90"}).conditions[0]
    name = QuestionPlace(through.key, 0, 0, 1.0).id
    assert plain.key != through.key
    with pytest.raises(ValueError, match="no condition"):
        question(Data(options={"attributes": "gap"}), name)


@given(
    st.sampled_from(["", "grey", "blur:3,grey", "salt-pepper:0.5", "salt-pepper:0.00001", "jitter:0.25"]),
    st.none() | st.integers(1, 9999),
    st.none() | st.integers(1, 10**8),
    st.sampled_from(["original", "jpeg", "webp"]),
    st.integers(1, 100),
)
def test_ids_with_any_change_are_read_back(corrupt, side, pixels, kind, quality):
    media = check_settings(
        MediaSettings(corrupt=corrupt, max_long_side=side, max_pixels=pixels, format=kind, quality=quality)
    )
    names = change_names(media)
    condition = plan({"attributes": "contrast@8", **({"through": names} if names else {})}).conditions[0]
    place = QuestionPlace(condition.key, 3, 5, -0.25, 6.5)
    assert place_of(place.id) == place
    assert place.id.startswith("contrast@8@512")


def test_all_frames_of_a_long_clip_are_sent():
    from snellen.media.video import drawn_frames

    data = Data(options={"attributes": "order"})
    name = QuestionPlace(plan(data.options).conditions[0].key, 0, 0, 0.0).id
    (video, _) = question(data, name).prompt.parts
    assert isinstance(video, Video)
    assert len(drawn_frames(video, ModelOptions().media)) == 16
