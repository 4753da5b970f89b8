"""Acuity in the engine: thresholds of observers that measure the pixels, whatever bias, refusals and interruptions."""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pytest

from pixel_observers import PixelObserver
from snellen.benchmarks.acuity import ACUITY
from snellen.benchmarks.acuity.attributes import ATTRIBUTES, DEFAULT
from snellen.benchmarks.acuity.comparison import questions_of
from snellen.benchmarks.acuity.conditions import names, plan
from snellen.benchmarks.acuity.questions import QuestionPlace, place_of, question
from snellen.benchmarks.acuity.steering import grow
from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.rng import Stream
from snellen.benchmarks.chart.world import EPITHETS, GENERA, Dials, creature, portrait
from snellen.engine.growth import sample_of
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import DataError, UsageError
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import load_run
from snellen.types import Text


def measured(folder, observer, *, concurrency=16, seed=0, limit=None, **options):
    spec = RunSpec(
        benchmark="acuity",
        model=observer.name,
        data=Data(options=options, seed=seed),
        options=ModelOptions(concurrency=concurrency),
        limit=limit,
    )
    return perform(spec, RunFolder(folder), benchmark=ACUITY, model=observer, backoff=Backoff(base_s=0.001))


def threshold(run):
    (metric,) = run.figures()["strict"]
    return metric


CASES = [
    ("gap", "gap", 3.2, {"bias": 1.0}),
    ("contrast", "contrast@8", 0.05, {"sides": "256"}),
    ("colour", "colour@a+", 3.0, {"sides": "256"}),
    ("vernier", "vernier", 1.1, {}),
    ("length", "length", 0.08, {"sides": "256"}),
    ("orientation", "orientation", 4.0, {"sides": "256"}),
    ("number", "number", 0.3, {"sides": "256"}),
    ("gap", "gap", 3.2, {"lapse": 0.15}),
    ("gap", "gap", 3.2, {"refuses": 0.9}),
]


@pytest.mark.parametrize(("attribute", "name", "truth", "settings"), CASES)
def test_the_threshold_of_an_observer_that_measures_the_pixels(tmp_path, attribute, name, truth, settings):
    """Of two seeds at least one interval holds the truth, and no threshold is off by half: the chance of less is .003."""
    options = {"attributes": name, **{key: value for key, value in settings.items() if key == "sides"}}
    observing = {key: value for key, value in settings.items() if key != "sides"}
    inside = 0
    for seed in range(2):
        observer = PixelObserver(attribute, truth, seed=seed, **observing)
        metric = threshold(measured(tmp_path / str(seed), observer, seed=seed, **options))
        assert metric.name == f"threshold/{name}"
        assert metric.unit == ATTRIBUTES[attribute].unit
        assert metric.value == pytest.approx(truth, rel=0.5)
        inside += metric.ci95[0] <= truth <= metric.ci95[1]
    assert inside >= 1


def test_the_same_questions_at_any_concurrency_and_after_a_stop(tmp_path):
    runs = [
        measured(tmp_path / str(count), PixelObserver("gap", 3.2), concurrency=count, attributes="gap")
        for count in (1, 3, 64)
    ]
    measured(tmp_path / "stopped", PixelObserver("gap", 3.2), attributes="gap", limit=13)
    runs.append(measured(tmp_path / "stopped", PixelObserver("gap", 3.2), attributes="gap"))
    asked = [Counter(json.loads(line)["sample_id"] for line in (run.path / "results.jsonl").open()) for run in runs]
    assert asked[0] == asked[1] == asked[2] == asked[3]
    assert set(asked[0].values()) == {1}
    assert len({(threshold(run).value, threshold(run).ci95) for run in runs}) == 1


def test_an_observer_that_sees_nothing_has_no_threshold(tmp_path):
    run = measured(tmp_path / "run", PixelObserver("gap", 3000.0), attributes="gap")
    metric = threshold(run)
    assert (metric.value, metric.ci95) == (None, None)
    assert run.headline(run.figures()) is None


def test_a_run_is_scored_again_from_its_journal_to_the_same_figures(tmp_path):
    run = measured(tmp_path / "run", PixelObserver("vernier", 1.1), attributes="vernier")
    again = load_run(run.path).summarize(save=False).metrics["strict"]
    assert [(metric.value, metric.ci95, metric.n) for metric in again] == [
        (metric.value, metric.ci95, metric.n) for metric in run.figures()["strict"]
    ]


def test_names_have_the_side_only_where_several_are_measured(tmp_path):
    run = measured(tmp_path / "run", PixelObserver("gap", 3.2), attributes="gap", sides="256,512")
    assert {metric.name for metric in run.figures()["strict"]} == {"threshold/gap@256", "threshold/gap@512"}
    assert "20/" in run.headline(run.figures()).text


def test_each_option_is_right_equally_often_in_each_round_and_so_is_each_letter():
    data = Data(options={"attributes": "gap,colour@b+,vernier"})
    for key in ("gap@512", "colour@b+@512", "vernier@512"):
        for number in range(4):
            samples = [question(data, f"{key}/r{number:03}/q{slot}/x+0.3000") for slot in range(8)]
            letters, words = Counter(s.target for s in samples), Counter(s.options[s.target] for s in samples)
            options = len(samples[0].options)
            assert set(letters.values()) == set(words.values()) == {8 // options}


def test_every_attribute_makes_questions_from_ids_alone():
    """Each default and optional condition draws at both ends of its range, from its id, the same bytes each time."""
    data = Data(options={"attributes": "all", "sides": "256"})
    for condition in plan(data.options).conditions:
        for level in (condition.attribute.levels[0], condition.attribute.levels[-1]):
            sample = question(data, f"{condition.key}/r002/q3/x{level:+.4f}")
            first = sample.prompt.parts[0]
            blob = first.frames[0].blob if hasattr(first, "frames") else first.blob
            assert blob.read().startswith(b"\x89PNG")
            again = question(data, sample.id).prompt.parts[0]
            assert blob.read() == (again.frames[0] if hasattr(again, "frames") else again).blob.read()
            text = sample.prompt.parts[-1]
            assert isinstance(text, Text)
            if sample.options:
                assert all(f"\n{letter}. {option}" in text.text for letter, option in sample.options.items())
                assert sample.target in sample.options
            else:
                assert sample.target


def test_the_first_round_depends_on_no_answer_and_scaled_attributes_wait():
    assert {sample.group for sample in grow(Data(options={"attributes": "gap,spacing"}), {})} == {"gap@512"}
    alone = [sample.id for sample in grow(Data(options={"attributes": "spacing"}), {})]
    assert {place_of(name).scale for name in alone} == {6.0}
    assert [place_of(name).id for name in alone] == alone


def test_the_default_set_has_its_conditions():
    assert set(DEFAULT) <= set(names())
    assert [condition.name for condition in plan({}).conditions] == list(DEFAULT)
    assert len(ATTRIBUTES) == 22


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"attributes": "gapp"}, "no attribute 'gapp'"),
        ({"sides": "12"}, "sides"),
        ({"width": "wide"}, "width"),
        ({"most": "0"}, "most"),
        ({"shape": "cubic"}, "no such curve"),
        ({"design": "random"}, "no such design"),
        ({"wording": "3"}, "wording"),
        ({"sides": "512,512"}, "twice"),
        ({"sides": "48"}, "gap needs at least 64"),
        ({"attributes": "chart/crown"}, "Did you mean chart/crest|no attribute 'chart/crown'"),
    ],
)
def test_options_that_cannot_be_are_named(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        plan(options)


def test_the_family_of_the_chart_asks_in_the_words_of_the_chart():
    """False names are those of siblings, answers are balanced, and pictures are drawn from ids alone."""
    data = Data(options={"attributes": "chart/*"})
    conditions = plan(data.options).conditions
    assert [condition.key for condition in conditions] == [
        f"chart/{name}@96"
        for name in (
            "crest",
            "belt",
            "eye",
            "digit-blur",
            "digit-noise",
            "offset-horizontal",
            "offset-vertical",
            "motion",
        )
    ]
    for condition in conditions:
        samples = [
            question(data, f"{condition.key}/r000/q{slot}/x{condition.attribute.levels[3]:+.4f}") for slot in range(8)
        ]
        assert set(Counter(str(sample.target) for sample in samples).values()) == {8 / len(condition.attribute.options)}
        for sample in samples:
            first = sample.prompt.parts[0]
            assert (first.frames[0] if hasattr(first, "frames") else first).blob.read().startswith(b"\x89PNG")
            if condition.name == "chart/eye":
                genus, epithet = re.search(r"creature (\w+) (\w+)\?", sample.prompt.parts[1].text).groups()
                assert genus in sum(GENERA, ())
                assert epithet in EPITHETS


def test_only_the_mark_that_is_asked_about_fades():
    """Grey at the contrast of a hundredth: the crest, in rows above the body."""
    who = creature(Stream("fading"))
    plain, faint = (
        portrait(who, Stream("portrait"), 96, Dials(), marks=marks).pixels.astype(int) for marks in (None, (1000, 0, 0))
    )
    differs = np.abs(plain - faint).sum(axis=2) > 0
    assert differs.any()
    assert np.flatnonzero(differs.any(axis=1)).max() < 48


@pytest.mark.parametrize("name", ["gap@512", "gap@512/r1/q0/x+0.1", "gap@512/r000/q0/x0.1", "../r000/q0/x+0.1000"])
def test_an_id_of_no_question_is_refused(name):
    with pytest.raises(ValueError, match=r"no (question|condition)"):
        question(Data(), name)


def test_the_constant_design_asks_every_level_equally_often(tmp_path):
    inside = 0
    for seed in range(2):
        run = measured(
            tmp_path / str(seed), PixelObserver("gap", 3.2, seed=seed), seed=seed, attributes="gap", design="constant"
        )
        levels = Counter(place_of(record.sample_id).level for record in run.folder.records())
        assert set(levels.values()) == {16}
        assert len(levels) == 12
        low, high = threshold(run).ci95
        inside += low <= 3.2 <= high
        assert np.log10(high / low) < 0.4
    assert inside >= 1


def test_a_threshold_declares_its_direction_by_its_attribute(tmp_path):
    run = measured(tmp_path / "run", PixelObserver("gap", 3.2), attributes="gap,count", limit=12)
    lower = {metric.name: metric.lower_is_better for metric in run.figures()["strict"]}
    assert lower == {"threshold/gap": True, "threshold/count": False}


FOREIGN_IDS = [
    "vernier@512/r000/q0/x+999999.0000",
    f"vernier@512/r000/q0/x+{'9' * 400}.0000",
    "vernier@512/r000/q0/x+1.3000",
    "vernier@512/r000/q0/x+0.1019/s6.00",
    "vernier@512/r000/q0/same",
    "vernier@512/r000/q8/x+0.1019",
    "vernier@512/r٠٠٠/q0/x+0.1019",
    "vernier@512/r0000/q0/x+0.1019",
    "noise@512/r000/q0/x-1.0000/s99999.00",
    f"noise@512/r000/q0/x-1.0000/s{'9' * 400}.00",
]


@pytest.mark.parametrize("sample_id", FOREIGN_IDS)
def test_ids_outside_of_what_is_drawn_are_no_questions(sample_id):
    """Ids come from anybody's journal: levels and scales of none of the attribute's pictures are refused, not drawn."""
    with pytest.raises(ValueError, match="is no question of acuity"):
        question(Data(options={"attributes": "vernier,noise"}), sample_id)


@pytest.mark.parametrize("name", names())
def test_every_level_and_scale_that_is_asked_has_an_id(name):
    data = Data(options={"attributes": name})
    (condition,) = plan(data.options).conditions
    attribute = condition.attribute
    for level in attribute.levels:
        scale = attribute.scale[1] if attribute.scaled_by else 0.0
        place = QuestionPlace(condition.key, 0, 0, level, scale)
        assert place_of(place.id) == place
        assert question(data, place.id).id == place.id


def test_rounds_beyond_the_thousandth_are_read():
    """--most allows 10,000 questions, which are 1,250 rounds."""
    data = Data(options={"attributes": "vernier", "most": "10000", "design": "constant"})
    assert question(data, "vernier@512/r1249/q7/x+0.1019").meta["round"] == "1249"


@pytest.mark.parametrize("sample_id", ["vernier@512/r000/q0/same", f"vernier@512/r000/q0/x+{'9' * 5000}.0000"])
def test_a_foreign_run_is_refused_by_like_and_by_score(tmp_path, sample_id):
    options = {"attributes": "vernier"}
    (tmp_path / "run").mkdir()
    record = {"sample_id": sample_id, "status": "ok", "response": {"text": "A"}, "started_at": 0, "finished_at": 0}
    (tmp_path / "run" / "results.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(DataError, match="is no question of acuity") as of_like:
        questions_of(Data(options={**options, "design": "like"}, path=tmp_path / "run"))
    with pytest.raises(DataError, match="belongs to no question of acuity") as of_score:
        sample_of(ACUITY, Data(options=options), sample_id)
    assert max(len(str(error.value)) for error in (of_like, of_score)) < 900
