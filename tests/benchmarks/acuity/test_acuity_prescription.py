"""Effective pixels and the prescription: rules of processors, sides that are measured, and advice with intervals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from snellen.benchmarks.acuity import ACUITY
from snellen.benchmarks.acuity.conditions import plan
from snellen.benchmarks.acuity.prescription import level_of_share
from snellen.benchmarks.acuity.processors import picture_size, processor_rule, processor_rules
from snellen.benchmarks.acuity.questions import place_of
from snellen.benchmarks.acuity.steering import grow
from snellen.benchmarks.base import Data, ModelFacts, ScoredAnswer
from snellen.runs.scoring import summarize
from snellen.scoring.psychometrics.curve import Posterior, forced_choice, seen
from snellen.types import MediaSettings, ProcessedImage, Record, Response


def details(options, thresholds, model=ModelFacts(), seed=0):
    """Details of a run in which each condition is seen from its threshold on; a threshold of None is never seen."""
    data, answers, pairs = Data(options=options, seed=seed), {}, []
    conditions = {each.key: each for each in plan(options).conditions}
    generator = np.random.default_rng(seed)
    while samples := [sample for sample in grow(data, answers) if sample.id not in answers]:
        for sample in sorted(samples, key=lambda each: each.id):
            place, condition = place_of(sample.id), conditions[sample.group]
            threshold = thresholds[condition.key]
            share = 0.0
            if threshold is not None:
                level = float(sample.meta["realised"])
                share = 0.98 * float(seen("logistic", np.array((level - condition.attribute.level(threshold)) / 0.25)))
            guessed = generator.random() < condition.attribute.guess_rate
            right = generator.random() < share or guessed
            assert place.key == condition.key
            wrong = next((letter for letter in sample.options if letter != sample.target), "0")
            reply = str(sample.target) if right else wrong
            answers[sample.id] = ScoredAnswer("ok", "correct" if right else "wrong", reply)
            pairs.append((sample, Record(sample.id, "ok", response=Response(reply))))
    summary = summarize(ACUITY, pairs, dict(ACUITY.score), expected=None, model=model)
    return summary.details["strict"]


def test_pictures_of_a_fixed_side_double_the_threshold_in_pixels_sent():
    fixed = details({"attributes": "gap", "sides": "256,512"}, {"gap@256": 3.0, "gap@512": 6.0})
    assert [pair["state"] for pair in fixed["resizing"]] == ["fixed side"]
    low, high = fixed["resizing"][0]["ci95"]
    assert 1.0 < low < 2.0 < high
    assert any("resized to one side" in line for line in fixed["lines"])
    assert fixed["prescription"][1]["side"] == 256  # the smallest side of those that show as much
    kept = details({"attributes": "gap", "sides": "256,512"}, {"gap@256": 3.0, "gap@512": 3.0})
    assert [pair["state"] for pair in kept["resizing"]] == ["none"]
    assert kept["prescription"][1]["side"] == 512
    assert "Send pictures at a side of 512 px" in kept["prescription"][1]["text"]


def test_a_ratio_that_is_neither_one_nor_two_is_unknown():
    other = details({"attributes": "gap", "sides": "256,512"}, {"gap@256": 3.0, "gap@512": 4.2})
    assert [pair["state"] for pair in other["resizing"]] == ["unknown"]
    assert any("is not known" in line for line in other["lines"])


def test_a_detail_spans_five_gaps_and_every_line_has_its_interval():
    advice = details(
        {"attributes": "gap,text,colour@a+,contrast@8,count"},
        {"gap@512": 4.0, "text@512": 10.0, "colour@a+@512": 3.0, "contrast@8@512": 0.05, "count@512": 9.0},
    )
    lines = {line["about"]: line for line in advice["prescription"]}
    settled = {row["condition"] for row in advice["conditions"] if row["state"] == "settled"}
    assert set(lines) == settled >= {"gap@512", "contrast@8@512"}
    assert lines["gap@512"]["value"] == pytest.approx(5 * 4.0, rel=0.5)
    for line in lines.values():
        assert line["ci95"][0] < line["value"] < line["ci95"][1]
        assert "[" in line["text"]
    assert {row["text"] for row in lines.values()} <= set(advice["lines"])
    assert json.loads(json.dumps(advice)) == advice


def test_a_condition_that_is_not_settled_has_no_line():
    blind = details({"attributes": "gap", "sides": "256,512"}, {"gap@256": None, "gap@512": None})
    assert blind["prescription"] == []
    assert blind["resizing"] == []
    assert all("sent" not in row for row in blind["conditions"])


def test_thresholds_are_told_after_the_processor_and_in_patches():
    facts = ModelFacts("local:somewhere", images=(ProcessedImage(512, 512, 256, 256, 16),))
    (row,) = details({"attributes": "gap"}, {"gap@512": 6.0}, facts)["conditions"]
    assert row["after"] == pytest.approx(row["sent"] / 2)
    assert row["patches"] == pytest.approx(row["after"] / 16)
    assert row["after_ci95"] == pytest.approx([end / 2 for end in row["sent_ci95"]])
    (unknown,) = details({"attributes": "gap"}, {"gap@512": 6.0}, ModelFacts("api:nobody-knows"))["conditions"]
    assert "after" not in unknown


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("embedded", "the embedded model"),
        ("api:Qwen/Qwen3-VL-8B-Instruct", "Qwen3-VL"),
        ("api:qwen2.5vl:7b", "Qwen2-VL and Qwen2.5-VL"),
        ("local:/models/Qwen2-VL-2B-Instruct/", "Qwen2-VL and Qwen2.5-VL"),
        ("api:claude-sonnet-4-5-20250929", "Claude to 4.5"),
        ("api:claude-sonnet-4-20250514", "Claude to 4.5"),
        ("api:claude-opus-4-6", "Claude after 4.5"),
        ("api:gpt-4o-2024-08-06", "GPT-4o"),
        ("api:gemini-3-pro", "Gemini 3"),
        ("api:some-model", None),
        ("local:/models/qwen3-vl/finetuned", None),
        ("replay:qwen3-vl.jsonl", None),
    ],
)
def test_models_have_the_rule_of_their_name_and_others_none(model, rule):
    matching = processor_rule(model)
    assert (None if matching is None else matching.name) == rule


@pytest.mark.parametrize(
    ("model", "side", "after"),
    [
        ("embedded", 512, 48),
        ("api:Qwen3-VL-8B", 128, 256),  # everything under 256 x 256 is enlarged
        ("api:Qwen3-VL-8B", 500, 512),
        ("api:Qwen2.5-VL-7B", 512, 504),
        ("api:Qwen2.5-VL-7B", 4096, 3584),
        ("api:claude-3-5-sonnet", 1024, 1024),
        ("api:claude-3-5-sonnet", 2048, 1150000**0.5),
        ("api:gpt-4o", 2048, 768),
        ("api:gpt-4o", 512, None),
        ("api:gemini-3-pro", 512, None),
        ("api:some-model", 512, None),
    ],
)
def test_rules_say_the_side_after_the_processor_or_that_it_is_unknown(model, side, after):
    picture = picture_size(side, ModelFacts(model))
    assert picture.after == (None if after is None else pytest.approx(after))
    assert picture.by == ("unknown" if after is None else "rule")
    assert picture.source


def test_the_rule_of_qwen_is_that_of_its_processor():
    """Of transformers' own smart_resize, over small, odd and very large sides."""
    smart_resize = pytest.importorskip("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl").smart_resize
    for rule in processor_rules():
        if rule.kind != "multiple":
            continue
        for side in (16, 20, 56, 100, 255, 256, 257, 500, 1000, 1023, 3584, 5000, 8192):
            expected = smart_resize(side, side, rule.factor, rule.min_pixels, rule.max_pixels)
            assert (rule.after(side), rule.after(side)) == expected


def test_the_run_s_own_settings_shrink_first_and_a_recorded_processor_wins_over_a_rule():
    shrunk = picture_size(512, ModelFacts("embedded", MediaSettings(max_long_side=256)))
    assert (shrunk.sent, shrunk.after, shrunk.scale) == (256, 48.0, 48 / 512)
    recorded = ModelFacts("api:Qwen3-VL-8B", images=(ProcessedImage(512, 512, 448, 448, 14), ProcessedImage(96, 96)))
    assert picture_size(512, recorded).after == 448.0
    tiles = picture_size(96, ModelFacts("x", images=(ProcessedImage(96, 96, tiles=5),)))
    assert tiles.after is None
    assert "5 tiles" in tiles.source


def test_every_rule_has_a_date_and_a_source():
    for rule in processor_rules():
        assert rule.date.year >= 2026
        assert rule.source


def test_the_level_that_is_seen_nine_times_in_ten_lies_above_the_threshold():
    levels = tuple(np.linspace(0, 2, 41).tolist())
    posterior = Posterior.start(forced_choice(levels, 0.0))
    answers = [(float(level), int(np.random.default_rng(k).random() > seen("logistic", np.array((level - 1) / 0.4)))) for k, level in enumerate(np.tile(np.linspace(0.5, 1.5, 21), 12))]  # fmt: skip
    middle, low, high = level_of_share(posterior.fold(answers), "logistic", 0.9)
    truth = 1 + 0.4 * np.log(9) / (2 * np.log(19))
    assert low < truth < high
    assert middle == pytest.approx(truth, abs=0.08)
