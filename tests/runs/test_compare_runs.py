"""Two runs are compared question by question, and only where that means something."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replaced
from PIL import Image

from engine.stubs import ARITHMETIC
from snellen import evaluate, import_run, load_run
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.runs.compare import compare
from snellen.scoring.statistics import composite, mean
from snellen.types import Generation, MediaSettings, Metric, Sample


def samples(data: Data) -> Iterator[Sample]:
    """Sums in pairs, of two levels."""
    for sample in ARITHMETIC.samples(data):
        i = int(sample.id[1:])
        yield Sample(sample.id, sample.prompt, sample.target, "count", meta={"level": "odd" if i % 2 else "even"})


def worst(scores: Any) -> float:
    """The lower of the two levels' accuracies."""
    return min((float(part.value.mean()) for _, part in scores.by("level")), default=float("nan"))


def summarize(scores: Any, profile: str) -> list[Metric]:
    return [*ARITHMETIC.summarize(scores, profile)[:1], composite("worst", scores, worst, replicates=10)]


LEVELS = replace(ARITHMETIC, name="levels", samples=samples, summarize=summarize)
OTHER = replace(LEVELS, digest=lambda data: "other data")
DRAWN = replace(LEVELS, name="drawn")
SLICED = replace(
    ARITHMETIC,
    name="sliced",
    samples=samples,
    summarize=lambda scores, profile: [mean("accuracy", scores), *(mean(f"by {name}", scores) for name in scores.meta)],
)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LEVELS", "DRAWN", "SLICED"):
        monkeypatch.setitem(registry.BUILT_IN, name.lower(), f"{__name__}:{name}")
    monkeypatch.chdir(tmp_path)


def run(
    out: str, wrong: set[int], *, n: int = 100, missing: set[int] = frozenset(), benchmark: Any = LEVELS, **more: Any
) -> str:  # type: ignore[assignment]
    """A run in `out` that is wrong where told and has no answer where told."""
    rows = [
        {"id": f"q{i}", "repeat": k, "reply": None if i in missing else "?" if i in wrong else str(i % 7)}
        for i in range(n)
        for k in range(more.get("repeats", 1))
    ]
    Path(f"{out}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate(benchmark, f"replay:{out}.jsonl", out=out, **more)
    return out


def test_wins_and_losses_are_counted_by_question_and_tested_exactly():
    run("a", set(range(20)))
    run("b", set(range(10, 24)))
    (found,) = compare("a", "b")
    whole = found.parts[0]
    assert (whole.name, whole.baseline, whole.other) == ("all", 0.8, 0.86)
    assert (whole.comparison.wins, whole.comparison.losses, whole.comparison.n) == (10, 4, 100)
    assert whole.comparison.difference == pytest.approx(0.06) and whole.comparison.test == "exact McNemar"
    assert whole.comparison.p_value == pytest.approx(2 * sum([1, 14, 91, 364, 1001]) / 2**14)
    low, high = whole.comparison.ci95 or (1.0, 0.0)
    assert low < 0.06 < high and whole.comparison.smallest_detectable is not None
    assert [(part.name, part.comparison.n) for part in found.parts[1:]] == [("level=even", 50), ("level=odd", 50)]
    assert found.notes == []


def test_the_same_run_twice_under_two_names_shows_no_difference():
    run("a", {1, 2})
    run("b", {1, 2})
    comparison = compare("a", "b")[0].parts[0].comparison
    assert comparison.difference == 0.0 and comparison.p_value == 1.0


def test_questions_that_one_run_lacks_are_counted_and_do_not_count():
    run("a", set())
    run("b", {0}, limit=40)
    (found,) = compare("a", "b")
    assert (found.n, found.only_baseline, found.only_other) == (40, 60, 0)
    assert found.parts[0].comparison.losses == 1
    assert any("60 samples only in the baseline" in note for note in found.notes)
    assert any("--limit none and 40" in note for note in found.notes)


def test_a_failed_sample_counts_against_the_run_that_failed():
    run("a", set())
    run("b", set(), missing={3, 4, 5})
    comparison = compare("a", "b")[0].parts[0].comparison
    assert (comparison.n, comparison.losses) == (100, 3)
    (line,) = compare("a", "b")[0].notes
    assert line.startswith("b: 3 of ") and "samples have no answer and count as wrong; 3 × " in line


def test_the_metrics_that_can_be_compared_are_those_of_the_runs_alone():
    run("a", set(), benchmark=SLICED)
    run("b", {1}, benchmark=SLICED)
    with pytest.raises(UsageError) as refused:
        compare("a", "b", metric="acc")
    assert refused.value.hint == "It has: accuracy, by kind, by level."


def test_a_column_that_nothing_can_be_sliced_by_is_said_and_not_passed_over():
    run("a", set())
    run("b", {1})
    with pytest.raises(UsageError, match="no meta column 'levle' to slice by\nIt has: kind, level"):
        compare("a", "b", by=["levle"])
    many = replace(LEVELS, samples=lambda data: (replaced(s, meta={"word": s.id}) for s in samples(data)))
    with_words = [load_run(name, benchmark=many) for name in "ab"]
    (found,) = compare(*with_words, by=["word"])
    assert [part.name for part in found.parts] == ["all"]
    assert found.notes == ["not sliced by word: it has one value here, or more than 40"]


def test_repeats_of_a_question_are_one_question(capsys):
    run("a", set(range(30)), repeats=3)
    run("b", set(range(20)))
    (found,) = compare("a", "b")
    assert found.n == 100 and found.parts[0].comparison.wins == 10
    assert any("3 and 1 times" in note for note in found.notes)
    for figure in ("pass@2", "pass^2"):
        assert main(["compare", "a", "b", "--metric", figure]) == 2
        assert "Figures of repeats are not compared" in capsys.readouterr().err


def test_flips_show_both_replies_and_nothing_else():
    run("a", {5})
    run("b", {7})
    (found,) = compare("a", "b", flips=True)
    assert found.flips is not None
    assert [(f.sample_id, f.baseline, f.other, f.baseline_reply, f.other_reply) for f in found.flips] == [
        ("q5", 0.0, 1.0, "?", "5"),
        ("q7", 1.0, 0.0, "0", "?"),
    ]


def test_a_composite_metric_is_compared_on_the_same_resamples():
    run("a", set(range(0, 60, 2)))
    run("b", set())
    (found,) = compare("a", "b", metric="worst")
    own = found.metric
    assert own is not None and own.baseline == pytest.approx(0.4) and own.other == 1.0
    assert own.difference == pytest.approx(0.6) and own.ci95 is not None
    assert 0.4 < own.ci95[0] < 0.6 < own.ci95[1] < 0.8
    assert own.interval is not None and "bootstrap" in own.interval.text
    with pytest.raises(UsageError, match="no metric 'best'"):
        compare("a", "b", metric="best")


def test_runs_of_other_questions_are_refused_unless_forced():
    run("a", set())
    run("b", {1}, benchmark=OTHER)
    with pytest.raises(UsageError, match="did not answer the same samples:\n  data: "):
        compare(load_run("a"), load_run("b", benchmark=OTHER))
    (found,) = compare(load_run("a"), load_run("b", benchmark=OTHER), force=True)
    assert found.n == 100 and "data: " in found.notes[0]
    run("c", {1}, benchmark=DRAWN)
    with pytest.raises(UsageError, match="benchmark: levels in the baseline, drawn in the other"):
        compare("a", "c")


def test_questions_that_are_drawn_by_another_seed_are_other_questions():
    drawn = replace(LEVELS, digest=lambda data: "")  # as the chart's: the seed stands for the data
    run("a", set(), benchmark=drawn)
    run("b", set(), benchmark=drawn, seed=1)
    with pytest.raises(UsageError, match="seed: 0 in the baseline, 1 in the other"):
        compare("a", "b")


def test_settings_that_differ_are_named(capsys):
    run("a", set())
    run("b", {1}, generation=Generation(temperature=0.5), media=MediaSettings(corrupt="blur:3", blank=True))
    run("c", {1})
    first, second = compare("a", "b", "c")
    (note,) = first.notes
    assert note.startswith("the settings differ: temperature: the default in the baseline, 0.5 in the other; ")
    assert "corrupt: the default in the baseline, blur:3 in the other" in note and "blank: the default" in note
    assert not second.notes
    assert main(["compare", "a", "b", "c"]) == 0
    printed = capsys.readouterr()
    assert "the settings differ: temperature" in " ".join(printed.err.split())
    assert "interval by" in printed.out[printed.out.index("Ranking") :]


def test_one_run_or_the_same_one_twice_is_no_comparison():
    run("a", set())
    for runs in (["a"], ["a", "a/"]):
        with pytest.raises(UsageError):
            compare(*runs)


def test_runs_without_a_common_question_say_so():
    run("a", set(), n=3, limit=3)
    Path("b.jsonl").write_text('{"id": "q9", "reply": "2"}\n')
    run("b", set())
    journal = Path("b/results.jsonl")
    journal.write_text("".join(line + "\n" for line in journal.read_text().splitlines() if '"q99"' in line))
    with pytest.raises(DataError, match="no scored sample in common"):
        compare("a", "b")


def test_the_command_prints_a_table_for_each_pair_and_json_for_machines(capsys):
    for name, wrong in (("a", {1}), ("b", {1, 2}), ("c", set())):
        run(name, wrong)
    assert main(["compare", "a", "b", "c", "--flips"]) == 0
    said = capsys.readouterr()
    assert "b against a" in said.out and "c against a" in said.out and "level=odd" in said.out
    assert "q2: 1 -> 0\n  baseline  '2'\n  other     '?'" in said.out
    assert main(["compare", "a", "b", "c", "--json", "--metric", "accuracy"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["other"] for one in found["comparisons"]] == ["b", "c"]
    whole = found["comparisons"][0]["parts"][0]
    assert whole["name"] == "all" and whole["difference"] == pytest.approx(-0.01) and whole["losses"] == 1
    assert found["comparisons"][1]["metric"]["difference"] == pytest.approx(0.01)
    assert main(["compare", "a", "b", "--profile", "no-such"]) == 2


def test_runs_of_a_users_own_file_are_compared_by_its_categories_and_clustered_by_image(tmp_path):
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (32, 32), colour).save(tmp_path / f"{name}.png")
    rows = [f"{i},Which of {i}?,yes,no,A,{'ab'[i % 2]}.png,{('near', 'far')[i // 6]}" for i in range(12)]
    (tmp_path / "mine.csv").write_text("\n".join(["id,question,A,B,answer,image,topic", *rows]) + "\n")
    for name, wrong in (("first", {0}), ("second", {0, 1, 2, 7})):
        lines = [f"{i},{'B' if i in wrong else 'A'}" for i in range(12)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,reply", *lines]) + "\n")
        import_run(tmp_path / f"{name}.csv", str(tmp_path / "mine.csv"), out=tmp_path / name)
    (pairing,) = compare(tmp_path / "first", tmp_path / "second")
    assert {part.name: part.other - part.baseline for part in pairing.parts} == {
        "all": pytest.approx(-3 / 12),
        "topic=near": pytest.approx(-2 / 6),
        "topic=far": pytest.approx(-1 / 6),
    }
    interval = pairing.parts[0].comparison.interval
    assert interval is not None and interval.cluster == "image"
