"""Subtasks of VLM2-Bench that are run one by one give the overall scores of the whole, and their distance from people."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import drawn
import pytest

from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.benchmarks.vlm2.layout import BY_NAME
from snellen.reports.runs import report
from snellen.runs.evaluate import evaluate
from snellen.runs.run import Run
from snellen.runs.suite_overall import suite_overall

IMAGES = [f"vlm2/{name}" for name in BY_NAME if name != "pc-vid"]


def replies(benchmark: str, data: Path, out: Path) -> Path:
    """Write replies to a benchmark's questions: right, but for every third, whatever the name they are asked under."""
    lines, asked = [], {}
    for sample in find(benchmark).samples(Data(data)):
        task = sample.meta.get("task", benchmark.partition("/")[2])
        asked[task] = asked.get(task, -1) + 1
        gold = {"truth": "T" if sample.target else "F", "count": sample.target, "choice": f"{sample.target})"}.get(
            sample.kind
        )
        reply = "1" if asked[task] % 3 == 2 else str(gold)
        lines.append(json.dumps({"id": sample.id, "reply": reply}) + "\n")
    out.write_text("".join(lines), "utf-8")
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[Run]]:
    folder = tmp_path_factory.mktemp("runs")
    data = drawn.draw(folder / "data", groups=4)

    def run(benchmark: str) -> Run:
        answers = replies(benchmark, data, folder / "replies.jsonl")  # one path: the model's name is the same
        return evaluate(benchmark, f"replay:{answers}", data=data, out=folder / benchmark.replace("/", "-"))

    whole = run("vlm2")
    return whole, [run(name) for name in IMAGES]


def test_eight_subtasks_named_one_by_one_give_the_overall_score_of_the_whole(runs: tuple[Run, list[Run]]) -> None:
    whole, single = runs
    expected = {m.name: m for m in whole.summarize("all", save=False).metrics["official"]}["overall_8"]
    (together,) = suite_overall(single)
    (metric,) = together.metrics
    assert (together.suite, together.profile, metric.name) == ("vlm2", "official", "overall_8")
    assert metric.value == pytest.approx(expected.value) and 0.3 < metric.value < 0.95
    assert (metric.n, metric.ci95) == (expected.n, expected.ci95)
    assert suite_overall(single[:-1]) == []  # seven of eight
    every = {overall.profile for overall in suite_overall(single, "all")}
    assert every == set(find("vlm2").score)


def test_the_page_has_one_line_over_the_eight_with_its_mean_and_how_far_people_are(
    runs: tuple[Run, list[Run]], tmp_path: Path
) -> None:
    _, single = runs
    page = report(single, tmp_path / "r.html").read_text("utf-8")
    section = page.partition('id="published-title"')[2].partition("</section>")[0]
    (first, *others) = re.findall(r"<tr[^>]*>(.*?)</tr>", section, re.S)
    assert "against people" in first and not re.search(r"<h3.*<h3", section, re.S)  # one table, not one a subtask
    cells = {
        html.unescape(re.search(r"<bdi>(.*?)</bdi>", row)[1]): re.findall(r">([+\-]?\d+\.\d\d|–)<", row)
        for row in others
        if "figure" in row
    }
    (measured,) = [row for name, row in cells.items() if name.startswith("replay")]
    overall = suite_overall(single)[0].metrics[0].value or 0.0
    assert measured[-2:] == [f"{100 * overall:.2f}", f"{100 * overall - 94.44:+.2f}"]
    assert cells["Qwen2.5-VL-7B"][-2:] == ["55.86", "-38.58"]
    assert cells["human"][-2:] == ["94.44", "+0.00"]


def test_the_headline_of_the_whole_names_the_distance_from_people(runs: tuple[Run, list[Run]]) -> None:
    whole, _ = runs
    metrics = whole.summarize("all").metrics
    headline = whole.headline(metrics)
    value = next(m.value for m in metrics["official"] if m.name == "overall_8")
    assert headline.text == f"overall_8 {100 * value:.2f}, people 94.44: {100 * value - 94.44:+.2f} points"
    assert json.loads(whole.folder.summary.read_text())["overall_8_against_people"] == pytest.approx(value - 0.9444)
