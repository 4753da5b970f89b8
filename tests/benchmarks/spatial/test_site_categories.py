"""SITE's sub-scores, worked out again from the questions and replies alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.spatial import official_drawn as drawn
from snellen.benchmarks import registry
from snellen.benchmarks.base import checked_data
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.scoring.scores import ScoreBuilder
from snellen.types import Sample

PROFILES = ("easi", "vlmevalkit", "lmms-eval", "strict")


def adjusted(right: list[tuple[Sample, bool]]) -> float:
    """The sum of hit - 1/n over the sum of 1 - 1/n."""
    chances = [(hit, 1 / len(sample.options or ())) for sample, hit in right]
    return sum(hit - chance for hit, chance in chances) / sum(1 - chance for _, chance in chances)


@pytest.mark.parametrize("profile", PROFILES)
def test_each_category_of_site_is_adjusted_for_chance_as_the_whole_is(tmp_path: Path, profile: str) -> None:
    site = registry.find("site")
    samples = list(site.samples(checked_data(site, drawn.draw("site", tmp_path, each=5), None, {})))
    builder, right = ScoreBuilder(), []
    for at, sample in enumerate(samples):
        gold = str(sample.meta["gold"])
        reply = gold if at % 5 > 1 else "B" if gold == "A" else "A"
        builder.add(sample, site.score[profile](sample, reply))
        right.append((sample, reply == gold))
    found = {metric.name: metric for metric in site.summarize(builder.build(len(samples)), profile)}
    assert found["overall"].value == pytest.approx(adjusted(right))
    for category, key in TASKS["site"].groups.items():
        own = [(sample, hit) for sample, hit in right if sample.meta["category"] == category]
        assert own, category
        assert found[key].value == pytest.approx(adjusted(own)), category
        assert found[key].value != pytest.approx(sum(hit for _, hit in own) / len(own)), "that is the plain accuracy"
        assert found[key].n == len(own)


def test_a_category_of_site_that_nobody_knows_is_named_for_what_its_figure_is(tmp_path: Path) -> None:
    site = registry.find("site")
    data = checked_data(site, drawn.draw("site", tmp_path), None, {})
    builder = ScoreBuilder()
    for sample in site.samples(data):
        other = structs.replace(sample, meta={**sample.meta, "category": "gravity"})
        builder.add(other, site.score["easi"](other, "A"))
    found = {metric.name: metric for metric in site.summarize(builder.build(), "easi")}
    assert found["gravity_caa"].value == pytest.approx(found["overall"].value)
    assert "gravity_accuracy" not in found


def test_figures_that_nothing_varied_have_no_interval_of_no_width(tmp_path: Path) -> None:
    """Every reply to a category is wrong: drawn anew it is the same figure, but for the rounding of its sums."""
    site = registry.find("site")
    builder = ScoreBuilder()
    for sample in site.samples(checked_data(site, drawn.draw("site", tmp_path, each=5), None, {})):
        builder.add(sample, site.score["easi"](sample, "B" if sample.meta["gold"] == "A" else "A"))
    found = site.summarize(builder.build(), "easi")
    assert all(metric.ci95 is None or metric.ci95[1] - metric.ci95[0] > 0.001 for metric in found)
    assert any(metric.ci95 is None for metric in found)
