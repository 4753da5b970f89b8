"""What the chart asks: the same to the byte, each question once, nothing to be had by guessing."""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import sha256
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Picture

from snellen.benchmarks.base import Data
from snellen.benchmarks.chart import creatures, drawing, world
from snellen.benchmarks.chart import digits as digits_chart
from snellen.benchmarks.chart.creatures import CHART, CREATURES, DIALS
from snellen.benchmarks.chart.digits import DIGITS
from snellen.benchmarks.chart.questions import YES_NO
from snellen.benchmarks.chart.rng import Stream
from snellen.errors import UsageError
from snellen.sources.blobs import stored_png
from snellen.types import Image, Sample, Video


def _images(sample: Sample) -> list[Image]:
    out: list[Image] = []
    for part in sample.prompt.parts:
        out += part.frames if isinstance(part, Video) else [part] if isinstance(part, Image) else []
    return out


def _asked(**options: str) -> list[Sample]:
    return list(CHART.samples(Data(options=options)))


def _pixels(blob: bytes) -> np.ndarray:
    return np.asarray(Picture.open(BytesIO(blob)))


@pytest.fixture(scope="module")
def chart() -> list[Sample]:
    return _asked()


def _digest(samples: list[Sample]) -> str:
    total = sha256()
    for sample in samples:
        total.update(repr((sample.id, sample.prompt.parts[-1].text, sample.target, dict(sample.options))).encode())
        for image in _images(sample):
            total.update(image.blob.read())
    return total.hexdigest()


def test_the_drawings_and_questions_of_a_seed_are_the_same_bytes_everywhere():
    options = {"questions": "6"}
    creatures_now = _digest(list(CREATURES.samples(Data(options=options))))
    harder = _digest(
        list(CREATURES.samples(Data(seed=7, options={"questions": "2", "difficulty": "0.5", "size": "64"})))
    )
    digits_now = _digest(list(DIGITS.samples(Data(options=options))))
    assert (creatures_now, harder, digits_now) == (
        "8300b4e9e73c1cb1797eeb3391008bbd3ee1d2104d9ac6eac31b0b8fc845651b",
        "d1bf968ab421542b1a77b517eb6e0742d5729968c7c6e6e9efe5ab15550ec99e",
        "e28da51158829551b93b05c349844b8be840f6263be9391d4313fecbea16738d",
    )


def test_every_id_is_unique_and_the_size_is_known_beforehand(chart):
    assert len({sample.id for sample in chart}) == len(chart) == CHART.size(Data())
    assert 1500 <= len(chart) <= 2500
    assert sum(1 for _ in CREATURES.samples(Data(options={"questions": "7"}))) == CREATURES.size(
        Data(options={"questions": "7"})
    )


def test_true_and_false_are_balanced_in_every_cell_and_form(chart):
    tally: dict[tuple[str, str], Counter] = defaultdict(Counter)
    for sample in chart:
        if sample.kind == "truth" and sample.meta["cell"] not in ("relation", "motion"):
            tally[sample.meta["cell"], sample.meta["form"]][sample.target] += 1
    assert len(tally) == 22
    for cell, counts in tally.items():
        assert abs(counts[True] - counts[False]) <= 1, (cell, counts)


def test_the_right_letter_stands_everywhere_equally_often(chart):
    tally: dict[str, Counter] = defaultdict(Counter)
    for sample in chart:
        if sample.kind == "choice" and sample.meta["cell"] != "choice/attribute":
            assert sample.options[sample.target] in sample.prompt.parts[-1].text
            tally[sample.meta["cell"]][sample.target] += 1
    assert set(tally) == {"choice/class", "choice/genus", "choice/species", "group", "motion", "digits/choice"}
    for cell, counts in tally.items():
        if cell != "motion":
            assert max(counts.values()) - min(counts.values()) <= 2, (cell, counts)


def test_the_names_in_a_choice_do_not_give_the_answer_away():
    """Two of the right branch and two of another: the odd one out is never the answer."""
    for sample in CREATURES.samples(Data(options={"questions": "60"})):
        if sample.meta["cell"] == "choice/species":
            genera = Counter(name.split()[0] for name in sample.options.values())
            assert sorted(genera.values()) == [2, 2]
        if sample.meta["cell"] == "choice/genus":
            classes = Counter(
                k for name in sample.options.values() for k, names in enumerate(world.GENERA) if name in names
            )
            assert sorted(classes.values()) == [2, 2]


def test_nothing_is_drawn_until_a_picture_is_read(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("drawn too early")

    monkeypatch.setattr(creatures, "stored_png", refuse)
    monkeypatch.setattr(digits_chart, "stored_png", refuse)
    samples = _asked(questions="3")
    with pytest.raises(AssertionError, match="drawn too early"):
        _images(samples[0])[0].blob.read()


def test_questions_about_one_picture_share_its_group_and_its_key(chart):
    keys = defaultdict(set)
    for sample in chart:
        keys[sample.group].add(tuple(image.blob.key for image in _images(sample)))
    portraits = [group for group in keys if "portrait" in group]
    assert len(portraits) == 80
    assert all(len(keys[group]) == 1 for group in portraits)


def test_two_pictures_with_one_key_have_the_same_bytes_and_others_differ(chart):
    first: dict[str, bytes] = {}
    for sample in chart[:300] + chart[-200:]:
        for image in _images(sample):
            assert first.setdefault(image.blob.key, image.blob.read()) == image.blob.read()
    assert len(set(first.values())) == len(first)


def test_other_seeds_draw_other_pictures_under_the_same_ids():
    a, b = (list(CREATURES.samples(Data(seed=seed, options={"questions": "4"}))) for seed in (0, 1))
    assert [sample.id for sample in a] == [sample.id for sample in b]
    assert {i.blob.read() for s in a for i in _images(s)}.isdisjoint({i.blob.read() for s in b for i in _images(s)})


def test_no_digit_that_is_asked_was_ever_trained_on():
    train, test = (digits_chart.split(name)[0] for name in ("train", "test"))
    assert (len(train), len(test)) == (1198, 599)
    every = list(DIGITS.samples(Data(options={"questions": "599"})))
    seen = {image.blob.read() for sample in every for image in _images(sample)}
    trained = {stored_png(digits_chart.enlarged(scan, 96)) for scan in train}
    assert len(seen) == 599
    assert seen.isdisjoint(trained)


def test_the_digits_are_those_that_scikit_learn_carries():
    sklearn = pytest.importorskip("sklearn.datasets", reason="scikit-learn is in the extra dev")
    digits = sklearn.load_digits()
    assert np.array_equal(digits_chart.split("test")[0], digits.images[2::3].astype(np.uint8))
    assert np.array_equal(digits_chart.split("test")[1], digits.target[2::3])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"colour": "1"}, "no option 'colour'"),
        ({"difficulty.colour": "2"}, "expected a number from 0"),
        ({"difficulty": "nan"}, "expected a number from 0"),
        ({"questions": "0"}, "whole number from 1"),
        ({"size": "12x"}, "whole number from 48"),
        ({"key": "maybe"}, "expected yes or no"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        next(iter(CREATURES.samples(Data(options=options))))


@pytest.mark.parametrize("dial", DIALS)
def test_every_dial_changes_pictures_and_no_question(dial):
    plain, turned = (
        list(CREATURES.samples(Data(options={"questions": "8", **more})))
        for more in ({}, {f"difficulty.{dial}": "0.9"})
    )
    assert [(s.id, s.prompt.parts[-1], s.target) for s in plain] == [
        (s.id, s.prompt.parts[-1], s.target) for s in turned
    ]
    differ = sum(
        a.blob.read() != b.blob.read()
        for s, t in zip(plain, turned, strict=True)
        for a, b in zip(_images(s), _images(t), strict=True)
    )
    assert differ > 0


@pytest.mark.parametrize("dial", ["taxa", "colour", "shape", "size", "texture"])
def test_a_dial_at_one_leaves_no_difference_to_see(dial):
    dials = world.Dials(**{dial: 1000})
    names = {"taxa": ("klass", "genus", "species")}.get(dial, (dial,))
    base = world.Creature(0, 0, 0, 0, 0, 0, 1 if dial == "texture" else 0, 0, 0)
    for name in names:
        other = type(base)(**{**{f: getattr(base, f) for f in base.__struct_fields__}, name: 2})
        pictures = [world.portrait(who, Stream("test", dial), 96, dials).pixels for who in (base, other)]
        assert np.array_equal(*pictures), name


def test_the_field_guide_stands_before_every_question_when_asked_for():
    plain, guided = (list(CREATURES.samples(Data(options={"questions": "2", **more}))) for more in ({}, {"key": "yes"}))
    assert not any(sample.prompt.system for sample in plain)
    for sample in guided:
        if sample.meta["cell"].startswith(("short", "truth", "choice", "pair")):
            assert all(name in sample.prompt.system for name in (*world.CLASSES, *world.EPITHETS, "ostra"))


def test_the_place_asked_for_is_where_the_creature_is(chart):
    """Relations are checked on the scene itself: who lies left, above, and is drawn larger."""
    for i in range(40):
        stream = Stream("test", i)
        right, below, nearer = (bool(stream.below(2)) for _ in range(3))
        first, second = world.couple(stream, right, below, nearer, world.Dials())
        assert (first.cx > second.cx, first.cy > second.cy, first.radius > second.radius) == (right, below, nearer)
        assert abs(first.cx - second.cx) >= 250
        assert abs(first.cy - second.cy) >= 250
    texts = [s.prompt.parts[-1].text for s in chart if s.meta["cell"] == "relation" and s.kind == "truth"]
    assert all(text.endswith(YES_NO) for text in texts)


def test_pairs_agree_just_where_the_gold_says():
    for i in range(200):
        stream = Stream("pairs", i)
        who = world.creature(stream)
        for level in (*world.LEVELS, *world.ATTRIBUTES):
            for same in (True, False):
                other = creatures.related(who, level, same, stream)
                assert (who.name(level) == other.name(level)) == same
                if level == "species" and not same:
                    assert who.name("genus") == other.name("genus")


@given(st.integers(1, 40), st.integers(1, 40), st.booleans(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_any_picture_survives_the_png_unchanged(height, width, colour, seed):
    shape = (height, width, 3) if colour else (height, width)
    pixels = Stream(seed).octets(int(np.prod(shape))).reshape(shape)
    assert np.array_equal(_pixels(stored_png(pixels)), pixels)


def test_a_picture_of_more_than_one_stored_block_is_whole():
    pixels = Stream("large").octets(300 * 300 * 3).reshape(300, 300, 3)
    assert np.array_equal(_pixels(stored_png(pixels)), pixels)


@given(st.integers(1, 24))
def test_discs_are_round_and_fill_their_box(radius):
    widths = drawing.disc(radius)
    assert widths.max() == radius
    assert widths.tolist() == widths[::-1].tolist()
    area = int((2 * widths + 1).sum())
    assert abs(area - np.pi * (radius + 0.5) ** 2) <= 0.12 * area + 3
