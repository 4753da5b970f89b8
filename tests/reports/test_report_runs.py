"""Reports of runs from folders: what they show, what they cost, and figures without an interval."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from servers import fast
from snellen import MediaSettings, evaluate
from snellen.cli import main
from snellen.engine.run_folder import Totals
from snellen.reports import runs
from snellen.reports.collect import RunTally
from snellen.reports.plots.base import Series
from snellen.reports.plots.costs import CostPoint, HeadlineScore, comparable, cost_plots, name_places, unbeaten
from snellen.reports.plots.svg import page_style
from snellen.runs.caveats import conditions
from snellen.runs.costs import cost_per_correct, cost_text
from snellen.types import Generation, Metric

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin" / "src" / "snellen_lights" / "__init__.py"


@pytest.fixture
def lights():
    """The example plug-in, imported from where it stands."""
    spec = importlib.util.spec_from_file_location("example_lights", PLUGIN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pixels(lights: ModuleType, **settings: object):
    from snellen.models.base import ModelOptions

    return lights.open_model("", ModelOptions(**settings))


def test_notes_say_what_a_reader_must_know_first(lights, tmp_path):
    media = MediaSettings(blank=True)
    run = evaluate(lights.LIGHTS, pixels(lights, media=media), out=tmp_path / "run", limit=9, repeats=2, media=media)
    assert runs.notes(run) == [
        "Only the first 9 of 60 samples were run.",
        "Blind control: every image was replaced by a grey one.",
        "Each sample was asked 2 times; scores are means over the replies.",
    ]


def test_scores_pages_and_exported_files_say_the_same_of_a_run(lights, tmp_path):
    from snellen.runs.export import export

    media = MediaSettings(blank=True)
    run = evaluate(lights.LIGHTS, pixels(lights, media=media), out=tmp_path / "run", limit=9, repeats=2, media=media)
    lines = [line.lower().rstrip(".") for line in runs.notes(run)]
    assert [line.lower() for line in run.notes()] == lines and len(lines) == 3
    assert [line.lower() for line in export(run, "jsonl").notes][:3] == lines


def test_a_whole_run_needs_no_note(lights, tmp_path):
    run = evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "run")
    assert runs.notes(run) == []
    assert runs.facts(run)["fingerprint"] == run.meta.fingerprint


def test_the_header_states_the_system_text_and_the_examples(lights, tmp_path):
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": "digit-0435-short", "reply": "0"}\n')
    study = {"system": "Be brief. " * 60, "few_shot": 2, "few_shot_from": "seed=1000"}
    run = evaluate("chart/digits", f"replay:{answers}", out=tmp_path / "run", limit=1, **study)
    known = runs.facts(run)
    assert known["system text"].startswith("Be brief. ") and len(known["system text"]) == 501
    assert known["examples"] == "2, the same before every question"
    plain = runs.facts(evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "plain", limit=1))
    assert "system text" not in plain and "examples" not in plain


def test_the_header_states_the_settings_that_are_not_at_their_default(lights, tmp_path):
    settings = {"media": MediaSettings(max_long_side=64), "generation": Generation(temperature=0.5, max_tokens=9)}
    run = evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "run", limit=2, **settings)
    assert runs.facts(run)["settings"] == "max_long_side = 64, max_tokens = 9, temperature = 0.5"
    plain = runs.facts(evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "plain", limit=1))
    assert "settings" not in plain


def test_a_view_starts_anew_each_time_its_answers_are_asked_for(lights, tmp_path):
    run = evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "run", limit=5)
    view = runs.run_view(run)
    assert [one.sample_id for one in view.answers()] == [one.sample_id for one in view.answers()]
    assert all(one.scores["strict"].verdict == "correct" and one.reply in lights.COLOURS for one in view.answers())


def test_a_restricted_benchmark_keeps_its_gold_unless_it_is_asked_for(lights, tmp_path):
    from dataclasses import replace

    run = evaluate(replace(lights.LIGHTS, restricted=True), pixels(lights), out=tmp_path / "run", limit=3)
    assert all(one.target is None for one in runs.run_view(run).answers())
    assert any("restricted" in note for note in runs.run_view(run).notes)
    assert all(one.target is not None for one in runs.run_view(run, show_gold=True).answers())


def test_two_runs_of_one_benchmark_are_compared_and_named_apart(lights, tmp_path):
    media = MediaSettings(blank=True)
    seen = evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "a" / "run")
    blind = evaluate(lights.LIGHTS, pixels(lights, media=media), out=tmp_path / "b" / "run", media=media)
    page = runs.report([seen, blind], tmp_path / "out" / "both.html").read_text("utf-8")
    assert ">Comparison</a>" in page and "Blind control" in page
    assert str(tmp_path / "a" / "run") in page and str(tmp_path / "b" / "run") in page


def test_a_run_that_cannot_be_compared_stands_beside_the_others_with_the_reason(lights, tmp_path):
    from dataclasses import replace

    def others(data):
        return (replace_id(sample) for sample in lights.samples(data))

    def replace_id(sample):
        from msgspec import structs

        return structs.replace(sample, id=f"other-{sample.id}")

    first = evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "one", limit=4)
    second = evaluate(replace(lights.LIGHTS, samples=others), pixels(lights), out=tmp_path / "two", limit=4)
    page = runs.report([first, second], tmp_path / "both.html").read_text("utf-8")
    assert "Not compared with one" in page


def test_a_report_is_written_inside_a_running_loop_as_in_a_notebook(lights, tmp_path):
    async def cell():
        run = evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "run", limit=3)
        return runs.report([run], run.folder.report)

    assert asyncio.run(cell()).is_file()


def test_published_tables_stand_beside_a_run_that_has_their_profile_with_how_it_was_asked(lights, tmp_path):
    from dataclasses import replace

    from snellen.benchmarks.base import Published, PublishedRow

    rows = (PublishedRow("chance", "chance", (0.25,)), PublishedRow("Somebody-7B", "model", (0.9,)))
    table = Published("Lights", "A paper, table 1", ("All",), ("accuracy",), "strict", rows)
    other = Published("Lights, elsewhere", "Another paper", ("All",), ("accuracy",), "no-such-profile", rows)
    benchmark = replace(lights.LIGHTS, published=(table, other), options={"prompting": "how", "verdicts": "a file"})
    media = MediaSettings(blank=True, max_long_side=64)
    run = evaluate(
        benchmark,
        pixels(lights, media=media),
        out=tmp_path / "run",
        limit=9,
        repeats=2,
        media=media,
        benchmark_options={"prompting": "cot", "verdicts": "/home/me/verdicts.jsonl"},
    )
    view = runs.run_view(run)
    assert list(view.published) == [table]
    assert view.conditions == [
        "only the first 9 samples",
        "prompting = cot",
        "own verdicts",
        "blind control",
        "asked 2 times",
        "max_long_side = 64",
    ]
    page = runs.report([run], tmp_path / "report.html").read_text("utf-8")
    assert "Published scores" in page and "Lights, elsewhere" not in page and "/home/me" not in page


def test_a_run_that_asked_as_the_benchmark_asks_has_no_conditions(lights, tmp_path):
    run = evaluate(lights.LIGHTS, pixels(lights), out=tmp_path / "run")
    assert conditions(run.meta, run.benchmark) == []


def point(name: str, score: float, cost: float, *, n: int = 100) -> CostPoint:
    metric = Metric("accuracy", score, n)
    return CostPoint(
        HeadlineScore(Series(name, name, "strict", (metric,), RunTally(name), 1), "b", metric, False), cost
    )


def test_the_line_joins_the_runs_that_no_other_beats_at_the_same_or_a_lower_cost():
    points = [point("dear", 0.8, 3.0), point("cheap", 0.5, 1.0), point("worse", 0.4, 2.0), point("twin", 0.5, 1.0)]
    points.append(point("half", 0.9, 0.5, n=50))
    assert [each.headline.series.label for each in unbeaten(comparable(points))] == ["cheap", "dear"]


def test_names_of_dots_do_not_lie_on_each_other_or_on_other_dots():
    """Dots that stand apart have their names above them; of a crowd only some have room."""
    apart = {(0.1, 0.5): "run-a", (0.5, 0.6): "run-b", (0.97, 0.9): "run-c"}
    assert name_places(apart) == {(0.1, 0.5): (True, True), (0.5, 0.6): (True, True), (0.97, 0.9): (False, True)}
    crowd = {(0.3 + 0.002 * number, 0.5): f"run-{number}" for number in range(20)}
    placed = name_places(crowd)
    assert 1 <= len(placed) <= 4
    assert (0.3, 0.5) in placed, "the first has room"


@pytest.mark.parametrize(
    ("costs", "words"), [((0.01, 0.5), "logarithmic"), ((0.0, 0.5), "dollars"), ((0.4, 0.5), "dollars")]
)
def test_costs_of_several_decades_are_on_a_logarithmic_axis(costs, words):
    points = [point(f"run-{cost}", 0.5 + cost / 2, cost) for cost in costs]
    with page_style():
        (plot,) = cost_plots(points)
    assert words in plot.svg
    assert ("logarithmic" in plot.svg) == (words == "logarithmic")
    assert "run-0.5" in plot.svg


def test_the_cost_of_a_correct_answer_counts_failures_and_is_unknown_without_one():
    totals = Totals(ok=80, error=20, cost=2.0)
    assert cost_per_correct(totals, Metric("accuracy", 0.4, 100)) == pytest.approx(0.05)
    assert cost_text(totals, Metric("accuracy", 0.4, 100)) == "$2.0000, $0.05 per correct answer"
    cheap = Totals(ok=100, cost=0.00112)
    assert cost_text(cheap, Metric("accuracy", 0.5, 100)) == "$0.0011, $0.0000224 per correct answer"
    assert cost_per_correct(totals, Metric("accuracy", 0.0, 100)) is None
    assert cost_per_correct(totals, Metric("threshold", 3.0, 100, unit="px")) is None
    assert cost_per_correct(totals, None) is None
    assert cost_per_correct(Totals(ok=5), Metric("accuracy", 0.4, 100)) is None
    assert cost_text(Totals(ok=5), None) == ""


def test_cost_per_correct_answer_stands_in_every_table(stub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, price in (("cheap", 1.0), ("dear", 9.0)):
        Path(f"{name}.toml").write_text(f'["{fast.MODEL}"]\ninput = {price}\noutput = {price}\n')
        evaluate(
            "chart", f"api:{fast.MODEL}", out=f"results/{name}", base_url=stub.url, limit=60, prices=f"{name}.toml"
        )
    assert main(["list", "--runs", "--json"]) == 0
    listed = {Path(run["path"]).name: run for run in json.loads(capsys.readouterr().out)["runs"]}
    share = listed["cheap"]["cost_per_correct"]
    right = listed["cheap"]["headline"]["value"] * 60
    assert right > 0, "the stub answers some questions of the chart"
    assert share == pytest.approx(60 * 124e-6 / right)
    assert main(["list", "--runs"]) == 0
    assert "per" in capsys.readouterr().out
    assert main(["compare", "results/cheap", "results/dear"]) == 0
    assert capsys.readouterr().out.count("per correct answer") == 2
    assert main(["query", "SELECT cost_per_correct FROM runs WHERE path LIKE '%cheap'", "--json"]) == 0
    assert f"{share:.3g}"[:4] in capsys.readouterr().out
    assert main(["score", "results/cheap"]) == 0
    assert "per correct answer" in " ".join(capsys.readouterr().err.split())
    assert main(["report", "results/cheap", "results/dear", "--out", "both.html"]) == 0
    page = Path("both.html").read_text()
    assert "Score against cost" in page and "per correct answer" in page
    assert main(["report", "results/cheap", "--out", "one.html"]) == 0
    assert "Score against cost" not in Path("one.html").read_text()


def test_a_page_says_why_its_headline_has_no_interval(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "chart", "--model", "embedded", "--limit", "8", "--out", "few", "--report", "--quiet"]) == 0
    about = Path("few/report.html").read_text("utf-8").partition('class="about">')[2].partition("<br>")[0]
    assert "no interval: too few clusters (effective number 1.0)" in about
