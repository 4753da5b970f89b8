"""snellen features acuity: thresholds of simulated and of the embedded encoder, and what is refused."""

from __future__ import annotations

import json
from math import log10

import numpy as np
import pytest

from snellen.benchmarks.acuity.attribute import Attribute, Scene
from snellen.benchmarks.acuity.attributes import EVERY_ATTRIBUTE
from snellen.benchmarks.acuity.conditions import Condition, plan
from snellen.benchmarks.acuity.metrics import ConditionResult, Quantiles
from snellen.benchmarks.chart.rng import Stream
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.acuity import (
    READOUTS,
    EncoderSettings,
    LabelledFeatures,
    compare_with_answers,
    drawings,
    encoder_threshold,
    refusal,
    right_answers,
    select_conditions,
    spread_levels,
)
from snellen.features.store import import_file
from snellen.reports.features.build import ReportSettings, write_report
from snellen.scoring.psychometrics.curve import RIGHT, WRONG, Posterior, seen
from snellen.scoring.psychometrics.estimate import CatchTrials, ThresholdEstimate

pytestmark = pytest.mark.usefixtures("printed_as_schema")

OPTIONS = tuple("abcdefgh")


def coded(scene: Scene):
    """A picture whose pixels say answer, level in thousandths of a decade, and a number of its own."""
    level = round(1000 * log10(scene.value))
    return (np.array([[scene.answer, level % 256, level // 256, scene.stream.below(256)]], dtype=np.uint8),)


CODED = Condition("coded", Attribute("coded", "px", "", ("?", "?"), OPTIONS, 100.0, 1.0, coded), "", 512)


def simulated_encoder(threshold: float, width: float = 0.3, lapse: float = 0.02, seed: int = 0):
    """One-hot features of the right option where it is seen, of any option where not."""
    generator = np.random.default_rng(seed)

    def encode(pictures):
        rows = np.zeros((len(pictures), len(OPTIONS)), dtype=np.float32)
        for row, pixels in enumerate(pictures):
            answer, low, high, _ = map(int, pixels[0])
            sees = (1 - lapse) * seen("logistic", np.array(((low + 256 * high) / 1000 - log10(threshold)) / width))
            rows[row, answer if generator.random() < sees else generator.integers(len(OPTIONS))] = 1.0
        return rows + 0.01 * generator.standard_normal(rows.shape).astype(np.float32)

    return encode


SETTINGS = EncoderSettings(levels=9, train=64, test=64)


@pytest.mark.parametrize("threshold", [3.0, 20.0])
def test_a_known_threshold_lies_in_both_intervals(threshold):
    result = encoder_threshold(CODED, simulated_encoder(threshold, seed=3), SETTINGS)
    for known in result.readouts:
        assert known.state == "measured"
        assert known.low < threshold < known.high
        assert known.high / known.low < 1.7
        assert min(known.fit_p, known.monotone_p) > 0.01
    assert [count.tested for count in result.readouts[0].counts] == [64] * 9


def test_who_resolves_nothing_or_everything_has_no_threshold():
    nothing = encoder_threshold(CODED, simulated_encoder(1e4), SETTINGS)
    everything = encoder_threshold(CODED, simulated_encoder(0.01), SETTINGS)
    assert {(known.state, known.words) for known in nothing.readouts} == {
        ("not separated", "not separated at the easiest level")
    }
    assert {known.words for known in everything.readouts} == {"below the smallest level drawn (1.0 px)"}
    assert all(known.value is None for known in (*nothing.readouts, *everything.readouts))
    assert nothing.metrics("coded")[0].value is None


def test_features_that_say_nothing_reach_chance_exactly():
    classes = np.arange(64) % 8
    rivals = np.tile(np.arange(8), (64, 1))
    same = LabelledFeatures(np.ones((64, 5), dtype=np.float32), classes, rivals)
    for readout in READOUTS:
        assert right_answers(readout, same, same, 8).mean() == 1 / 8


def test_the_cosine_readout_is_the_nearest_centroid():
    train = LabelledFeatures(
        np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0], [0.0, 3.0]], dtype=np.float32),
        np.array([0, 0, 1, 1]),
        np.tile([0, 1], (4, 1)),
    )
    # mean (1.5, 1); centroids (3, 0) and (0, 2), less the mean: (1.5, -1) and (-1.5, 1)
    test = LabelledFeatures(
        np.array([[1.6, 1.0], [1.4, 1.0], [1.5, 1.2]], dtype=np.float32), np.array([0, 1, 0]), np.tile([0, 1], (3, 1))
    )
    assert right_answers("cosine", train, test, 2).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("link", "several pictures"),
        ("motion", "clip"),
        ("order", "clip"),
        ("chart/motion", "clip"),
        ("text", "written"),
        ("count", "written"),
        ("chart/offset-vertical", "words of the question"),
    ],
)
def test_what_no_single_picture_decides_is_refused(name, word):
    assert word in (refusal(EVERY_ATTRIBUTE[name]) or "")
    with pytest.raises(UsageError, match=word):
        select_conditions("hf:x", f"gap,{name}", None)


def test_every_other_attribute_is_drawn_with_the_right_name_first():
    usable = [name for name, attribute in EVERY_ATTRIBUTE.items() if refusal(attribute) is None]
    assert len(usable) == 22
    for name in ("gap", "chart/digit-noise", "chart/belt", "colour@a+"):
        condition = plan({"attributes": name}).conditions[0]
        attribute = condition.attribute
        first = list(drawings(condition, attribute.levels[-1], "test", 4, seed=1))
        again = list(drawings(condition, attribute.levels[-1], "test", 4, seed=1))
        other = list(drawings(condition, attribute.levels[-1], "test", 4, seed=2))
        assert [(a.pixels.tobytes(), a.names) for a in first] == [(b.pixels.tobytes(), b.names) for b in again]
        assert [a.pixels.tobytes() for a in first] != [b.pixels.tobytes() for b in other]
        assert all(1 / len(a.names) == attribute.guess_rate for a in first)


def test_the_names_are_those_of_the_question_that_is_asked():
    for name in ("chart/digit-blur", "chart/eye"):
        attribute = EVERY_ATTRIBUTE[name]
        for number in range(8):
            scene = [Scene(attribute.easy, number % 2, Stream("t", number), 96) for _ in "ab"]
            asked = attribute.worded(scene[0], 1)
            names = attribute.alternatives(scene[1])
            if asked.options:
                assert asked.options[asked.target] == names[0]
                assert sorted(asked.options.values()) == sorted(names)
            else:
                assert names[0 if number % 2 == 0 else 1] in asked.text


def test_training_and_test_show_different_scans():
    condition = plan({"attributes": "chart/digit-blur"}).conditions[0]
    level = condition.attribute.levels[-1]
    train, test = (
        {each.pixels.tobytes() for each in drawings(condition, level, part, 40, seed=0)} for part in ("train", "test")
    )
    assert len(train) > 20
    assert not train & test


def condition_result(condition: Condition, threshold: float, answers: int = 100) -> ConditionResult:
    """The result of answers around a threshold, as a run has it."""
    generator = np.random.default_rng(1)
    levels = generator.choice(condition.attribute.levels, answers)
    share = 1 / 8 + 7 / 8 * seen("logistic", (levels - log10(threshold)) / 0.3)
    folded = [(float(x), RIGHT if generator.random() < p else WRONG) for x, p in zip(levels, share, strict=True)]
    posterior = Posterior.start(condition.model("logistic")).fold(folded)
    low, middle, high = posterior.quantiles()
    estimate = ThresholdEstimate("settled", middle, (low, high), answers, answers)
    lapse = Quantiles.of(posterior, "lapse")
    ends = 10**low, 10**high
    return ConditionResult(
        condition, estimate, 10**middle, *ends, posterior, tuple(folded), 0.0, CatchTrials(8, 8), 0.5, 0.5, lapse, lapse, None, None
    )  # fmt: skip


def test_a_sentence_stands_only_where_the_interval_excludes_one():
    known = encoder_threshold(CODED, simulated_encoder(4.0, seed=5), SETTINGS).readouts[0]
    finer = compare_with_answers(known, condition_result(CODED, 16.0))
    assert finer.ci95[0] < 4 < finer.ci95[1]
    assert finer.sentence.startswith("The encoder (probe) resolves 3.6 px [3.3, 4.0]")
    assert "the answers need 1" in finer.sentence
    equal = compare_with_answers(known, condition_result(CODED, 4.0))
    assert equal.ci95[0] < 1 < equal.ci95[1]
    assert equal.sentence == ""
    coarser = compare_with_answers(known, condition_result(CODED, 1.5))
    assert coarser.ci95[1] < 1
    assert "misses what the model uses" in coarser.sentence


def test_levels_are_spread_over_the_range_with_both_ends():
    assert spread_levels([0.0, 0.1, 0.2, 0.3, 0.4], 3) == [0.0, 0.2, 0.4]
    assert spread_levels([0.0, 0.1], 12) == [0.0, 0.1]


def acuity(*words: str) -> int:
    return main(["features", "acuity", "--encoder", "embedded", *words])


def test_the_embedded_encoder_by_the_command_line(capsys):
    pytest.importorskip("torch")
    words = ["--attributes", "chart/digit-blur", "--levels", "3", "--train", "32", "--test", "16", "--json"]
    assert acuity(*words) == 0
    first = capsys.readouterr().out
    assert acuity(*words) == 0
    assert capsys.readouterr().out == first
    result = json.loads(first)
    (condition,) = result["conditions"]
    assert condition["guess"] == 0.25
    assert [readout["readout"] for readout in condition["readouts"]] == ["probe", "cosine"]
    for readout in condition["readouts"]:
        assert [tested for _, _, tested in readout["levels"]] == [16] * 3
        assert readout["levels"][-1][1] >= 12
    assert [metric["name"] for metric in result["metrics"]] == [
        "threshold/chart/digit-blur/probe",
        "threshold/chart/digit-blur/cosine",
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--attributes", "link"], "several pictures"),
        (["--attributes", "gapp"], "no attribute 'gapp'"),
        (["--with", "nowhere"], "nowhere is no run folder"),
    ],
)
def test_mistakes_are_named_before_the_encoder_is_loaded(words, problem, capsys):
    assert acuity(*words) != 0
    assert problem in capsys.readouterr().err


def test_the_answers_of_a_run_stand_beside_the_encoder(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    words = ["--model", "embedded", "--attributes", "chart/digit-blur,chart/motion", "--most", "8", "--quiet"]
    assert main(["acuity", *words]) == 0
    capsys.readouterr()
    drawn = ["--with", "embedded", "--levels", "3", "--train", "16", "--test", "8"]
    assert acuity(*drawn, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [condition["name"] for condition in result["conditions"]] == ["chart/digit-blur"]
    assert result["settings"]["model"] == "embedded"
    assert any("chart/motion is not measured" in note for note in result["notes"])
    assert not any("not known whether" in note for note in result["notes"])
    for readout in result["conditions"][0]["readouts"]:
        answers = readout["answers"]
        assert answers["words"]
        assert answers["ratio"] is None or answers["ci95"][0] < answers["ratio"] < answers["ci95"][1]
    assert acuity(*drawn, "--attributes", "gap") != 0
    assert "the run has none of these conditions" in capsys.readouterr().err


ANSWERS = {
    "words": "3.2 px [2.7, 3.7] at 512",
    "ratio": 1.6,
    "ci95": [1.2, 2.1],
    "sentence": "The encoder resolves <b>it</b>.",
}
MEASURED = {
    "measure": "acuity",
    "settings": {"encoder": "hf:x", "output": "cls", "train": 192, "test": 96, "model": "api:<i>m</i>"},
    "conditions": [
        {"name": "gap", "readouts": [{"readout": "probe", "words": "2.0 px [1.7, 2.3]", "answers": ANSWERS}]}
    ],
    "notes": ["a note"],
}


def store(folder):
    numbers = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
    np.savez(folder / "f.npz", features=numbers, labels=[0, 0, 1, 1] * 6, split=["train", "test"] * 12)
    import_file(folder / "f.npz", folder / "store")
    return folder / "store"


def test_the_page_has_the_thresholds_beside_the_answers(tmp_path):
    (tmp_path / "acuity.json").write_text(json.dumps(MEASURED), encoding="utf-8")
    settings = ReportSettings(measured=[tmp_path / "acuity.json"])
    page, _ = write_report([store(tmp_path)], tmp_path / "page.html", choices=settings)
    text = page.read_text(encoding="utf-8").partition('id="thresholds"')[2]
    assert "1.60 [1.20, 2.10]" in text
    assert "2.0 px [1.7, 2.3]" in text
    assert "The encoder resolves &lt;b&gt;it&lt;/b&gt;." in text
    assert "192 drawings of each level" in text
    assert "<i>m</i>" not in text.partition("<script")[0]


@pytest.mark.parametrize("text", ['{"measure": "acuity"}', '{"measure": "acuity", "settings": 3}', "[" * 5000])
def test_a_damaged_file_of_thresholds_is_named(text, tmp_path):
    (tmp_path / "acuity.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"acuity\.json is not the output"):
        write_report(
            [store(tmp_path)], tmp_path / "p.html", choices=ReportSettings(measured=[tmp_path / "acuity.json"])
        )


def test_an_empty_list_of_conditions_is_refused():
    with pytest.raises(UsageError, match="no attribute ''"):
        select_conditions("embedded", "", None)


def test_more_drawings_than_memory_may_hold_are_refused(capsys):
    """All drawings of a level are in memory at once."""
    assert main(["features", "acuity", "--encoder", "embedded", "--attributes", "gap", "--train", "999999999"]) == 2
    assert "10000" in capsys.readouterr().err
