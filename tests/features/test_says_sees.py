"""What a probe reads beside what a model answers: the join, the quadrants, where accuracy is lost."""

from __future__ import annotations

import numpy as np
import pytest

from snellen.errors import DataError, UsageError
from snellen.features.says_sees import QUADRANTS, AnswerScores, ClassPoint, ProbeResults, SaysSees, class_key, says_sees

CHANCE = 0.25


def data(
    sees: dict[str, float], says: dict[str, float], n: int = 40, chance: float = CHANCE
) -> tuple[ProbeResults, AnswerScores]:  # fmt: skip
    """n pictures a class, of which these shares are seen and said (the first ones of the class)."""
    names = [name for name in sees for _ in range(n)]
    ids = [f"{name}/{i}.jpg" for name in sees for i in range(n)]
    right = np.array([float(i < round(n * sees[name])) for name in sees for i in range(n)])
    value = np.array([float(i < round(n * says[name])) for name in sees for i in range(n)])
    return ProbeResults(ids, names, right, chance), AnswerScores(ids, names, value, np.full(len(ids), chance))


def by_name(found: SaysSees) -> dict[str, ClassPoint]:
    return {one.name: one for one in found.classes}


def metric(found: SaysSees, name: str) -> float | None:
    return next(one.value for one in found.metrics() if one.name == name)


FOUR = ({"wren": 0.95, "tern": 0.9, "gull": 0.3, "auk": 0.25}, {"wren": 0.9, "tern": 0.3, "gull": 0.85, "auk": 0.2})


def test_each_class_lies_in_the_quadrant_that_its_two_accuracies_name():
    found = says_sees(*data(*FOUR))
    points = by_name(found)
    assert [points[name].quadrant for name in FOUR[0]] == list(QUADRANTS)
    assert found.quadrants == dict.fromkeys(QUADRANTS, 1)
    assert points["tern"].probe == pytest.approx(0.9)
    assert points["tern"].answer == pytest.approx(0.3)
    assert found.classes[0].name == "tern", "the largest gap comes first"


def test_a_threshold_lies_as_far_above_chance_as_was_said():
    edge = {"at": CHANCE + 0.5 * (1 - CHANCE), "below": CHANCE + 0.5 * (1 - CHANCE) - 0.025}
    found = by_name(says_sees(*data(edge, {"at": 1.0, "below": 1.0})))
    assert found["at"].quadrant == "sees and says"
    assert found["below"].quadrant == "says without seeing"
    lower = by_name(says_sees(*data(edge, {"at": 1.0, "below": 1.0}), sees_from=0.4))
    assert lower["below"].quadrant == "sees and says"


def test_what_answers_lack_is_parted_into_what_the_probe_lacks_and_the_rest():
    # Above chance: seen 0.8, said 0.4. Of the 0.6 that answers lack, the probe lacks 0.2.
    found = says_sees(*data({"a": 0.85, "b": 0.85}, {"a": 0.55, "b": 0.55}))
    point = found.classes[0]
    assert point.gap == pytest.approx(0.4)
    assert (point.lost, point.lost_seeing, point.lost_saying) == pytest.approx((0.6, 0.2, 0.4))
    assert metric(found, "lost") == pytest.approx(0.6)
    assert metric(found, "lost/seeing") == pytest.approx(1 / 3)
    assert metric(found, "lost/saying") == pytest.approx(2 / 3)


def test_answers_better_than_the_probe_lose_nothing_in_saying():
    point = says_sees(*data({"a": 0.5}, {"a": 0.9})).classes[0]
    assert point.gap < 0
    assert point.lost_saying == 0
    assert point.lost_seeing == pytest.approx(point.lost)


def test_probe_and_questions_of_different_chance_are_compared_above_it():
    sees, says = data({"a": 0.5}, {"a": 0.75})
    # Halfway from 0 to 1 in a probe of many classes is halfway from one half to 1 in true or false.
    found = says_sees(
        ProbeResults(sees.ids, sees.classes, sees.right, 0.0),
        AnswerScores(says.ids, says.classes, says.value, np.full(40, 0.5)),
    )
    assert found.classes[0].gap == pytest.approx(0.0)
    assert found.classes[0].quadrant == "sees and says"


def test_several_answers_about_a_picture_weigh_as_one():
    sees = ProbeResults(["x", "y"], ["a", "a"], np.array([1.0, 1.0]), 0.5)
    says = AnswerScores(["x", "x", "x", "y"], ["a"] * 4, np.array([1.0, 1.0, 1.0, 0.0]), np.full(4, 0.5))
    point = says_sees(sees, says).classes[0]
    assert point.answer == 0.5
    assert (point.images, point.answers) == (2, 4)


def test_pictures_that_one_side_has_alone_are_counted_and_said():
    sees = ProbeResults(["a.jpg", "b.jpg", "c.jpg"], ["k"] * 3, np.ones(3), 0.5)
    says = AnswerScores(["b.jpg", "c.jpg", "d.jpg", "e.jpg"], [""] * 4, np.ones(4), np.full(4, 0.5))
    found = says_sees(sees, says)
    assert (found.only_probe, found.only_answers, found.classes[0].images) == (1, 2, 2)
    notes = " ".join(found.notes())
    assert "1 images of the probe's test rows appear in no question" in notes
    assert "2 images of the questions are not among the probe's test rows" in notes


@pytest.mark.parametrize(
    ("mine", "theirs", "how"),
    [
        ("a, b/1.jpg", "a, b/1.jpg", "whole names"),
        ("test/1.png", "test/1", "names without ending"),
        ("images/x/1.jpg", "cub/x/1.jpg", "file names without folder and ending"),
    ],
)
def test_pictures_meet_by_the_strictest_name_that_joins_most(mine, theirs, how):
    found = says_sees(
        ProbeResults([mine, "other"], ["k", "k"], np.ones(2), 0.5),
        AnswerScores([theirs], ["k"], np.ones(1), np.full(1, 0.5)),
    )
    assert found.settings.matched == how
    assert found.classes[0].images == 1


def test_a_name_that_stands_for_two_rows_joins_neither():
    sees = ProbeResults(["x/1.jpg", "y/1.jpg", "y/2.jpg"], ["a", "b", "b"], np.ones(3), 0.5)
    says = AnswerScores(["1", "2"], ["", ""], np.ones(2), np.full(2, 0.5))
    found = says_sees(sees, says)
    assert [one.name for one in found.classes] == ["b"]
    assert found.ambiguous == 1
    assert "1 images were omitted because several rows" in " ".join(found.notes())


def test_classes_join_by_names_written_in_two_ways():
    sees = ProbeResults(["1", "2", "3"], ["017.Northern_Cardinal"] * 2 + ["018.Wren"], np.array([1.0, 0.0, 1.0]), 0.5)
    says = AnswerScores(
        ["p", "p", "q"], ["northern cardinal", "northern cardinal", "grebe"], np.array([1.0, 1.0, 0.0]), np.full(3, 0.5)
    )
    found = says_sees(sees, says, join="class")
    assert [(one.name, one.probe, one.answer) for one in found.classes] == [("017.Northern_Cardinal", 0.5, 1.0)]
    assert (found.only_probe, found.only_answers) == (1, 1)
    assert class_key("Pied-billed_Grebe") == "pied billed grebe"


def test_nothing_in_common_is_an_error_that_shows_both_names():
    with pytest.raises(UsageError, match=r"'x\.jpg'.*'y\.jpg'") as error:
        says_sees(
            ProbeResults(["x.jpg"], ["a"], np.ones(1), 0.5), AnswerScores(["y.jpg"], ["a"], np.ones(1), np.full(1, 0.5))
        )
    assert "--join class" in (error.value.hint or "")


def test_thresholds_and_lengths_are_checked():
    sees, says = data({"a": 1.0}, {"a": 1.0})
    with pytest.raises(UsageError, match=r"threshold of sees is 1\.5"):
        says_sees(sees, says, sees_from=1.5)
    with pytest.raises(DataError, match="arrays of 39, 40"):
        says_sees(ProbeResults(sees.ids[1:], sees.classes, sees.right, 0.5), says)


def test_the_correlation_over_classes_is_pearsons_and_holds_its_value():
    probe = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
    answer = [0.9, 0.8, 0.85, 0.6, 0.65, 0.4, 0.45, 0.3]
    names = [f"c{i}" for i in range(8)]
    found = says_sees(
        *data(dict(zip(names, probe, strict=True)), dict(zip(names, answer, strict=True)), n=20)
    )  # fmt: skip
    one = next(one for one in found.metrics() if one.name == "correlation")
    assert one.value == pytest.approx(np.corrcoef(probe, answer)[0, 1])
    assert one.ci95 is not None and one.ci95[0] < one.value <= one.ci95[1]
    assert metric(says_sees(*data(*FOUR)), "correlation") is None, "four classes say nothing about a correlation"


def test_intervals_of_gaps_hold_the_true_gap_as_often_as_they_say():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        seen = (rng.random(60) < 0.8).astype(float)
        said = (rng.random(60) < np.where(seen > 0, 0.7, 0.5)).astype(float)
        ids = [str(i) for i in range(60)]
        found = says_sees(
            ProbeResults(ids, ["a"] * 60, seen, 0.2), AnswerScores(ids, [""] * 60, said, np.full(60, 0.5))
        )
        span = found.classes[0].gap_ci95
        assert span is not None
        held += span[0] <= 0.75 - (0.66 - 0.5) / 0.5 <= span[1]
    assert 0.925 <= held / 400 <= 0.985


def test_a_class_without_errors_has_a_gap_with_an_interval_of_its_size():
    few, many = (says_sees(*data({"a": 1.0}, {"a": 1.0}, n=n)).classes[0].gap_ci95 for n in (10, 200))
    assert few[0] < many[0] < 0 < many[1] < few[1]


def test_two_asked_pictures_of_one_file_name_are_not_taken_for_one():
    sees = ProbeResults(["test/1.jpg", "test/2.jpg"], ["wren", "tern"], np.ones(2), 0.5)
    says = AnswerScores(
        ["wren/1.jpg", "tern/1.jpg", "tern/2.jpg"], [""] * 3, np.array([1.0, 0.0, 1.0]), np.full(3, 0.5)
    )
    found = says_sees(sees, says)
    assert [one.name for one in found.classes] == ["tern"]
    assert (found.ambiguous, found.classes[0].answers) == (2, 1)
    assert "2 images were omitted because several rows, or several" in " ".join(found.notes())
    with pytest.raises(UsageError, match="2 have an ambiguous name"):
        says_sees(sees, AnswerScores(says.ids[:2], [""] * 2, np.ones(2), np.full(2, 0.5)))


def test_pictures_of_another_data_set_that_are_called_alike_are_told():
    dogs = ProbeResults([f"dogs/{i}.jpg" for i in range(20)], ["beagle"] * 10 + ["husky"] * 10, np.ones(20), 0.5)
    birds = AnswerScores([f"birds/{i}" for i in range(20)], ["wren"] * 20, np.ones(20), np.full(20, 0.5))
    found = says_sees(dogs, birds)
    assert (found.unknown_class, found.other_class) == (20, 0)
    assert "it is not verified that the 20 joined images are the same" in " ".join(found.notes())
    one_known = AnswerScores(birds.ids, ["beagle", *birds.classes[1:]], birds.value, birds.chance)
    assert "not verified" not in " ".join(says_sees(dogs, one_known).notes())
    unnamed = AnswerScores(birds.ids, [""] * 20, birds.value, birds.chance)
    assert says_sees(dogs, unnamed).unknown_class == 0


def test_classes_that_differ_in_case_alone_are_not_joined_by_name():
    sees = ProbeResults(["1", "2", "3"], ["Wren", "wren", "Tern"], np.array([1.0, 0.0, 1.0]), 0.5)
    says = AnswerScores(["p", "q"], ["wren", "tern"], np.array([1.0, 0.0]), np.full(2, 0.5))
    found = says_sees(sees, says, join="class")
    assert [one.name for one in found.classes] == ["Tern"]
    assert (found.ambiguous, found.only_probe, found.only_answers) == (2, 0, 0)
    assert "2 classes of the probe were omitted because their normalised names are equal" in " ".join(found.notes())


def test_pictures_that_questions_place_in_another_class_of_the_probe_are_told():
    sees = ProbeResults(["a/1.jpg", "a/2.jpg", "b/3.jpg"], ["Wren", "Wren", "Tern"], np.ones(3), 0.5)
    says = AnswerScores(["x/1", "x/2", "x/3", "x/3"], ["tern", "wren", "bird", ""], np.ones(4), np.full(4, 0.5))
    found = says_sees(sees, says)
    assert found.other_class == 1
    assert any(one.startswith("1 joined images have another class") for one in found.notes())


@pytest.mark.parametrize(
    ("value", "chance", "said"), [(np.nan, 0.5, "no numbers"), (2.0, 0.5, "no numbers"), (1.0, 1.0, "a chance that")]
)
def test_answers_that_are_no_scores_are_refused(value, chance, said):
    sees = ProbeResults(["x", "y"], ["a", "b"], np.ones(2), 0.5)
    with pytest.raises(DataError, match=said):
        says_sees(sees, AnswerScores(["x", "y"], ["", ""], np.array([1.0, value]), np.array([0.5, chance])))


def test_many_classes_are_told_apart_by_naive_code_as_well():
    rng = np.random.default_rng(2)
    names = [f"c{i}" for i in rng.integers(0, 40, 700)]
    sees = ProbeResults([str(i) for i in range(700)], names, (rng.random(700) < 0.6).astype(float), 0.1)
    of = rng.integers(0, 700, 1500)
    says = AnswerScores(
        [str(i) for i in of], [""] * 1500, rng.random(1500), np.where(rng.random(1500) < 0.5, 0.25, 0.5)
    )
    found = by_name(says_sees(sees, says))
    for name in sorted(set(names)):
        pictures = [i for i in sorted(set(of.tolist())) if names[i] == name]
        seen = np.mean([sees.right[i] for i in pictures])
        said = np.mean([says.value[of == i].mean() for i in pictures])
        guess = np.mean([says.chance[of == i].mean() for i in pictures])
        gap = (seen - 0.1) / 0.9 - (said - guess) / (1 - guess)
        assert found[name].gap == pytest.approx(gap)
        assert found[name].answers == sum(int((of == i).sum()) for i in pictures)
