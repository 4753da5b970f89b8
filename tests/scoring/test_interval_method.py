"""Each figure says how its interval was made, and the progress line uses the rule of the table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.scoring import metrics, statistics
from snellen.scoring.metric_text import MARKS, legend, mark, span
from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics.intervals import RunningMean
from snellen.types import Prompt, Sample, Score, Text

ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 0.3, 0.75]), st.sampled_from(["", "a", "b", "c"])), min_size=1, max_size=40
)


def built(rows, repeats=1):
    builder = ScoreBuilder()
    for number, (value, group) in enumerate(rows):
        sample = Sample(f"s{number // repeats}", Prompt((Text("?"),)), "A", "choice", group=group)
        builder.add(sample, Score(value, "A", "correct" if value == 1 else "wrong"), number % repeats)
    return builder.build()


@given(ROWS)
def test_the_interval_of_the_progress_line_is_that_of_the_table_for_the_same_rows(rows):
    running = RunningMean()
    for value, group in rows:
        running.add(value, group)
    whole = metrics.accuracy(built(rows))
    ends = running.interval()
    assert running.mean == pytest.approx(whole.value)
    assert (ends is None) == (whole.ci95 is None)
    if ends is not None:
        assert tuple(ends) == pytest.approx(whole.ci95, abs=1e-9)
        assert ends.about.method == whole.interval.method and ends.about.clusters == whole.interval.clusters


@pytest.mark.parametrize(
    ("rows", "method", "cluster"),
    [
        ([(1.0, ""), (0.0, ""), (1.0, "")], "Wilson", None),
        ([(0.4, ""), (0.0, ""), (1.0, "")] * 2, "Wilson, effective size", None),
        ([(0.4, ""), (0.0, ""), (1.0, "")], "no interval: too few rows", None),
        ([(value, group) for group in "abcde" for value in (1.0, 0.0)], "cluster-robust Wilson", "group"),
        ([(1.0, group) for group in "abcde" * 2], "Wilson over clusters", "group"),
        ([(1.0, "a"), (0.0, "a"), (1.0, "b"), (1.0, "b")], "no interval: too few clusters", "group"),
        ([(1.0, "a"), (1.0, "a"), (1.0, "b"), (1.0, "b")], "no interval: too few clusters", "group"),
    ],
)
def test_a_mean_names_the_method_of_its_interval_and_the_cluster(rows, method, cluster):
    metric = metrics.accuracy(built(rows))
    assert (metric.interval.method, metric.interval.cluster, metric.interval.level) == (method, cluster, 0.95)


def test_repeats_of_a_question_are_clusters_called_question():
    metric = metrics.accuracy(built([(1.0, ""), (0.0, ""), (1.0, ""), (1.0, "")] * 3, repeats=2))
    assert metric.interval.text == "cluster-robust Wilson by question"


def test_a_benchmark_s_own_word_stands_in_the_place_of_group():
    rows = [(value, group) for group in "abcdef" for value in (1.0, 0.0)]
    (metric,) = statistics.with_cluster([metrics.accuracy(built(rows))], "image")
    assert metric.interval.text == "cluster-robust Wilson by image"
    assert legend([metric]) == "95 % intervals: CW cluster-robust Wilson by image"


def test_bootstraps_and_paired_differences_say_so():
    scores = built([(float(k % 3 > 0), "abcdef"[k % 6]) for k in range(24)])
    composite = statistics.composite("c", scores, lambda rows: float(np.nanmean(rows.value)))
    assert composite.interval.text == "cluster bootstrap by group" and composite.interval.clusters == 6
    alone = np.arange(24)
    pair = statistics.compare(scores.value, 1 - scores.value, alone)
    assert pair.interval.method == "Bonett-Price"
    assert (
        statistics.compare(scores.value, 1 - scores.value, alone // 4).interval.method == "cluster-robust Bonett-Price"
    )


def test_a_metric_without_an_interval_says_why_and_every_method_has_a_mark():
    metric = metrics.accuracy(built([(1.0, "a"), (0.0, "a")]))
    assert metric.ci95 is None
    assert metric.interval.text == "no interval: too few clusters (effective number 1.0)"
    assert mark(metric.interval) == " –"
    assert legend([metric]) == "95 % intervals: – no interval: too few clusters (effective number 1.0)"
    assert len(set(MARKS.values())) == len(MARKS)
    assert span((0.0, 0.563)) == "0.000 – 0.563"
