"""snellen acuity --explain: margins against right answers, and the readers of geometry."""

from __future__ import annotations

import json
from math import log10
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.benchmarks.acuity.conditions import plan
from snellen.benchmarks.acuity.metrics import ConditionResult, Quantiles
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.runs.acuity_margin import ItemAnswer, ScoredItems, explain
from snellen.runs.geometry import ItemGeometry, ItemLevel, differing_region, read_cub, read_items
from snellen.scoring.psychometrics.curve import RIGHT, WRONG, Posterior, seen
from snellen.scoring.psychometrics.estimate import CatchTrials, ThresholdEstimate
from snellen.types import MediaSettings

pytestmark = pytest.mark.usefixtures("printed_as_schema")


def measured(name: str, threshold: float, state: str = "settled") -> ConditionResult:
    condition = plan({"attributes": name}).conditions[0]
    attribute = condition.attribute
    generator = np.random.default_rng(0)
    levels = generator.choice(attribute.levels, 120)
    share = attribute.guess_rate + (1 - attribute.guess_rate) * seen(
        "logistic", (levels - attribute.level(threshold)) / 0.3
    )
    answers = [(float(x), RIGHT if generator.random() < p else WRONG) for x, p in zip(levels, share, strict=True)]
    posterior = Posterior.start(condition.model("logistic")).fold(answers)
    low, middle, high = posterior.quantiles()
    value = None if state == "floor" else attribute.value(middle)
    known = ThresholdEstimate(state, middle if value else None, (low, high), 120, 120)
    lapse = Quantiles.of(posterior, "lapse")
    ends = sorted(attribute.value(end) for end in (low, high))
    return ConditionResult(
        condition, known, value, *ends, posterior, (), 0.0, CatchTrials(8, 8), 0.5, 0.5, lapse, lapse, None, None
    )  # fmt: skip


def run(model: str = "api:m"):
    options = SimpleNamespace(media=MediaSettings())
    spec = SimpleNamespace(model=model, options=options)
    return SimpleNamespace(path="results/x", meta=SimpleNamespace(spec=spec, environment={}))


def items(rows, model="api:m"):
    answers = [ItemAnswer(sample, group, right, ()) for sample, group, right in rows]
    return ScoredItems(run(model), "strict", answers, 0)


def acuity(*results):
    return SimpleNamespace(run=run(), results=list(results))


def simulated(n: int, slope: float, seed: int = 0):
    """Answers whose chance of being right rises with the contrast of the item, from .3 to 1."""
    generator = np.random.default_rng(seed)
    levels = 10 ** generator.uniform(-2.5, 0, n)
    chance = 0.3 + 0.7 / (1 + np.exp(-slope * (np.log10(levels) + 1.25)))
    rows = [(f"s{i}", f"g{i}", bool(generator.random() < p)) for i, p in enumerate(chance)]
    return items(rows), [ItemLevel(f"s{i}", "contrast@8", float(level)) for i, level in enumerate(levels)]


def test_a_dependence_is_claimed_and_none_is_not():
    threshold = measured("contrast@8", 10**-1.25)
    answers, levels = simulated(300, 6.0)
    found = explain(answers, acuity(threshold), ItemGeometry(levels, "sizes.csv"))
    assert found.area.value > 0.7
    assert found.sentence.startswith("Acuity explains some of the answers")
    assert found.seen.right / found.seen.answers > found.unseen.right / found.unseen.answers + 0.2
    assert found.seen.answers + found.unseen.answers == 300
    answers, levels = simulated(300, 0.0)
    none = explain(answers, acuity(threshold), ItemGeometry(levels, "sizes.csv"))
    assert none.area.ci95[0] < 0.5 < none.area.ci95[1]
    assert none.sentence == ""
    answers, levels = simulated(300, -6.0)
    against = explain(answers, acuity(threshold), ItemGeometry(levels, "sizes.csv"))
    assert "does not explain" in against.sentence


def test_one_condition_has_an_area_without_its_threshold_and_two_propagate_it():
    answers, levels = simulated(200, 4.0)
    areas = {
        explain(answers, acuity(measured("contrast@8", threshold)), ItemGeometry(levels, "")).area.ci95
        for threshold in (0.01, 0.2)
    }
    assert len(areas) == 1
    generator = np.random.default_rng(1)
    both = [
        *levels,
        *(ItemLevel(f"s{i}", "colour@a+", float(v)) for i, v in enumerate(generator.uniform(0.5, 20, 200))),
    ]
    mixed = explain(
        answers, acuity(measured("contrast@8", 0.05), measured("colour@a+", 3.0)), ItemGeometry(both, "sizes.csv")
    )
    assert mixed.propagated
    assert set(mixed.by_condition) == {"contrast@8", "colour@a+"}
    assert mixed.by_condition["contrast@8"].ci95 == areas.pop()


def test_noise_leaves_more_margin_the_weaker_it_is():
    rows = [(f"s{i}", f"g{i}", i < 5) for i in range(10)]
    levels = [ItemLevel(f"s{i}", "noise", 10.0 + 10 * i) for i in range(10)]
    assert explain(items(rows), acuity(measured("noise", 40.0)), ItemGeometry(levels, "")).area.value == 1.0


def test_pixels_are_compared_as_the_model_gets_them_where_that_is_known():
    """The embedded model gets 48 pixels of any picture: an item of 10 px in 96 is one of 53 px in a drawing of 512."""
    rows = [("a", "a", True), ("b", "b", False)]
    levels = [ItemLevel("a", "gap", 10.0, 96, 96), ItemLevel("b", "gap", 12.0, 192, 192)]
    threshold = measured("gap", 40.0)
    own = SimpleNamespace(run=run("embedded"), results=[threshold])
    known = explain(items(rows, "embedded"), own, ItemGeometry(levels, ""))
    assert (known.area.value, known.seen.answers, known.unseen.answers) == (1.0, 1, 1)
    assert any("as the model gets them" in note for note in known.notes)
    sent = explain(items(rows), acuity(threshold), ItemGeometry(levels, ""))
    assert (sent.area.value, sent.seen.answers) == (0.0, 0)
    assert any("pixels as sent" in note for note in sent.notes)


def test_what_has_no_threshold_is_named():
    answers, levels = simulated(20, 1.0)
    with pytest.raises(UsageError, match="contrast@8 has no threshold"):
        explain(answers, acuity(measured("contrast@8", 0.1, "floor")), ItemGeometry(levels, ""))
    with pytest.raises(UsageError, match="contrast@8 was not measured"):
        explain(answers, acuity(measured("gap", 3.0)), ItemGeometry(levels, ""))
    with pytest.raises(UsageError, match="no answer is about an item"):
        explain(answers, acuity(measured("gap", 3.0)), ItemGeometry([ItemLevel("other", "gap", 1.0)], ""))
    with pytest.raises(UsageError) as refused:
        explain(answers, acuity(measured("gap", 3.0)), ItemGeometry(levels, ""))
    assert "measured gap" in refused.value.hint and "Sample ids" not in refused.value.hint


def test_a_file_of_levels_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("sample_id,attribute,level,width,height\na,gap,3.5,640,480\nb,contrast@8,0.1,,\n")
    (tmp_path / "b.jsonl").write_text(
        '{"sample_id": "a", "attribute": "gap", "level": 3.5, "width": 640, "height": 480}\n'
        '{"sample_id": "b", "attribute": "contrast@8", "level": 0.1}\n'
    )
    expected = [ItemLevel("a", "gap", 3.5, 640, 480), ItemLevel("b", "contrast@8", 0.1)]
    assert read_items(tmp_path / "a.csv").levels == read_items(tmp_path / "b.jsonl").levels == expected


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("a,gap,0", "line 2: level is '0'"),
        ("a,gap,nan", "level is 'nan'"),
        ("a,gap,inf", "level is 'inf'"),
        ("a,gap,1e308", "level is '1e308'; a number above 0, at most"),
        (f"a,gap,{'9' * 5000}", f"level is '{'9' * 58}…; a number"),
        ("a,,3", "no attribute"),
        (",gap,3", "no sample_id"),
        ("a,gap,3\na,gap,4", "line 3: 'a' has two levels of gap"),
        ("", "has no row"),
    ],
)
def test_a_damaged_file_of_levels_is_named_with_its_line(rows, problem, tmp_path):
    (tmp_path / "a.csv").write_text(f"sample_id,attribute,level\n{rows}\n")
    with pytest.raises(DataError, match=problem):
        read_items(tmp_path / "a.csv")


@given(st.lists(st.tuples(st.text(max_size=6), st.text(max_size=6), st.text(max_size=8)), max_size=6))
@settings(max_examples=30, deadline=None)
def test_any_file_is_read_or_named(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("g") / "a.jsonl"
    lines = [json.dumps({"sample_id": a, "attribute": b, "level": c}) for a, b, c in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        levels = read_items(path).levels
    except DataError:
        return
    assert levels
    assert all(level.level > 0 and level.sample_id for level in levels)


def cub(folder, *, head=True):
    (folder / "parts").mkdir(parents=True)
    (folder / "images.txt").write_text("1 001.A/A_1.jpg\n2 001.A/A_2.jpg\n")
    (folder / "bounding_boxes.txt").write_text("1 10.0 10.0 100.0 50.0\n2 0.0 0.0 20.0 60.0\n")
    (folder / "parts" / "parts.txt").write_text("1 beak\n2 crown\n3 tail\n4 nape\n")
    (folder / "parts" / "part_locs.txt").write_text(
        "1 1 10 10 1\n1 2 30 15 1\n1 3 99 99 1\n1 4 20 40 1\n2 1 5 5 1\n2 2 9 9 0\n2 4 6 6 1\n"
    )
    return folder


def test_boxes_and_heads_of_cub_are_the_longer_side_in_gaps(tmp_path):
    folder = cub(tmp_path / "CUB")
    images = {"q1": "/data/images/001.A/A_1.jpg", "q2": "001.A/A_2.jpg", "q3": "elsewhere.jpg"}
    birds = read_cub(folder, "bird", images)
    assert birds.levels == [ItemLevel("q1", "gap", 20.0), ItemLevel("q2", "gap", 12.0)]
    assert any("1 samples show an image" in note for note in birds.notes)
    heads = read_cub(folder, "head", images)
    assert heads.levels == [ItemLevel("q1", "gap", 6.0)]
    with pytest.raises(DataError, match="no image of the run"):
        read_cub(folder, "bird", {"q": "x.jpg"})
    (folder / "bounding_boxes.txt").write_text("1 10.0 10.0 100.0\n")
    with pytest.raises(DataError, match=r"bounding_boxes\.txt, line 1: found 4 columns"):
        read_cub(folder, "bird", images)
    with pytest.raises(DataError, match="cannot read"):
        read_cub(tmp_path / "none", "bird", images)


def test_the_region_in_which_a_pair_differs_has_its_size_and_colour():
    first = np.full((200, 300, 3), 120, dtype=np.uint8)
    second = first.copy()
    second[40:60, 100:150] = (200, 80, 80)
    second[5, 5] = 126  # less than what counts as a change
    (gap, colour), reason = differing_region("q", first, second)
    assert reason == ""
    assert gap == ItemLevel("q", "gap", pytest.approx(10.0, abs=0.3), 300, 200)
    assert colour.attribute == "colour@a+"
    assert 20 < colour.level < 60
    assert differing_region("q", first, first)[1] == "pictures that hardly differ"
    assert differing_region("q", first, first[:100])[1] == "pictures of two sizes"


def test_the_command_says_what_follows(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["acuity", "--model", "embedded", "--attributes", "chart/digit-blur", "--most", "24", "--quiet"]) == 0
    assert main(["run", "chart/digits", "--model", "embedded", "--limit", "12", "--out", "digits", "--quiet"]) == 0
    capsys.readouterr()
    names = [json.loads(line)["sample_id"] for line in (tmp_path / "digits" / "results.jsonl").open()]
    rows = [f'"{name}",chart/digit-blur,{1 + 3 * i}' for i, name in enumerate(sorted(names))]
    (tmp_path / "sizes.csv").write_text("\n".join(["sample_id,attribute,level", *rows]))
    words = ["acuity", "embedded", "--explain", "digits", "--geometry", "sizes.csv"]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["items"] == 12
    assert result["area"]["right"] + result["area"]["wrong"] == 12
    assert result["seen"]["answers"] + result["unseen"]["answers"] == 12
    assert result["models"] == {"run": "embedded", "acuity": "embedded"}
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "area under" in shown.out
    assert "an association is no proof" in shown.err
    for wrong, problem in (
        (words[:-2], "belong together"),
        ([*words, "--model", "embedded"], "--model measures a model"),
        ([*words[:3], "results/acuity-embedded", *words[4:]], "a run of acuity itself"),
        ([*words[:-1], "cub:"], "no folder is named"),
        ([*words[:-1], "pairs"], "gap was not measured in"),
    ):
        assert main(wrong) != 0
        assert problem in capsys.readouterr().err


def test_margins_are_decades_above_the_threshold():
    threshold = measured("contrast@8", 0.1)
    assert log10(0.2) - threshold.estimate.value == pytest.approx(log10(2), abs=0.2)
