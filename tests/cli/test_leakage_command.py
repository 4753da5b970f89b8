"""`snellen leakage`: a panel of the chart, of a table over an endpoint, and of the samples alone."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from pathlib import Path

import pytest
from PIL import Image as Pillow

from servers.loopback import ChatHandler, LoopbackServer
from snellen.cli import main
from snellen.runs.run import load_run

pytestmark = pytest.mark.usefixtures("printed_as_schema")

COLOURS = {"red": (200, 0, 0), "green": (0, 160, 0), "blue": (0, 0, 200), "black": (0, 0, 0)}


class Painter(ChatHandler):
    """Names the colour of the picture it is sent; without one it takes the first option by the alphabet."""

    requests = 0

    def chat(self, body):
        type(self).requests += 1
        content = body["messages"][-1]["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        options = dict(re.findall(r"^([A-D])[.)] (\w+)$", text, re.MULTILINE))
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        seen = None
        if urls:
            pixel = Pillow.open(io.BytesIO(base64.b64decode(urls[0].partition(",")[2]))).convert("RGB").getpixel((3, 3))
            seen = next((name for name, colour in COLOURS.items() if colour == pixel), None)
        named = seen if seen in options.values() else min(options.values())
        self.send_completion(next(letter for letter, name in options.items() if name == named))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty questions about the colour of a picture, with the gold answer at each position equally often."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    names = list(COLOURS)
    with Path("colours.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "image", "question", "A", "B", "C", "D", "answer"])
        for at in range(40):
            order = names[at % 4 :] + names[: at % 4]
            gold = order[(at // 4) % 4]
            Pillow.new("RGB", (8, 8), COLOURS[gold]).save(f"{at}.png")
            writer.writerow([f"row{at}", f"{at}.png", "Which colour is it?", *order, "ABCD"[(at // 4) % 4]])
    return Path("colours.csv")


def asked(*words: str) -> int:
    return main(["leakage", "colours.csv", "--model", "api:stub", "--out", "panel", "--quiet", *words])


def test_a_table_is_asked_under_every_condition_once_and_scored_by_position(table, capsys):
    Painter.requests = 0
    with LoopbackServer(Painter) as server:
        assert asked("--base-url", server.url, "--json") == 0
        first = json.loads(capsys.readouterr().out)
        requests = Painter.requests
        assert asked("--base-url", server.url, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert (
        requests >= 9 * 40 and Painter.requests - requests <= 9
    )  # at most one look for each run whether a server is there
    assert again["rows"] == first["rows"] and first["found"] == []
    rows = {row["condition"]: row for row in first["rows"]}
    assert list(rows)[:3] == ["full", "text", "options"] and len(rows) == 9
    assert rows["full"]["score"]["value"] == rows["shuffle-3"]["score"]["value"] == 1.0
    assert rows["text"]["score"]["value"] == rows["grey"]["score"]["value"] == 0.25
    assert rows["patches"]["score"]["value"] == 1.0  # colour is left where patches are moved
    assert rows["other"]["score"]["value"] < 0.6 and first["consistency"]["value"] == 1.0
    assert Path(first["page"]).read_text().count("picture as sent") >= 20
    assert load_run("panel/other").meta.spec.control == "other"
    assert main(["score", "panel/shuffle-1", "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["profiles"][0]["metrics"]
    assert metrics[0]["value"] == 1.0
    assert main(["compare", "panel/full", "panel/text", "--json"]) == 0
    assert "the prompts differ" in capsys.readouterr().out


def test_the_samples_alone_are_looked_at_and_blind_runs_of_others(table, capsys):
    with LoopbackServer(Painter) as server:
        assert asked("--base-url", server.url, "--conditions", "text") == 0
        for name in ("second", "third"):
            assert asked("--base-url", server.url, "--conditions", "text", "--out", name) == 0
    capsys.readouterr()
    assert main(["leakage", "colours.csv", "--runs", "panel", "second", "third", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agreement"] == {"models": 3, "questions": 10, "of": 40, "by_guessing": pytest.approx(6.25)}
    assert {each["models"] for each in found["blind"]} == {3} and found["rows"] == [] and found["page"] is None
    assert main(["leakage", "colours.csv", "panel"]) == 2
    assert "Name runs behind --runs" in capsys.readouterr().err


def test_the_most_that_may_be_spent_is_for_all_conditions(table, capsys):
    Path("prices.toml").write_text("[stub]\ninput = 10.0\noutput = 10.0\n")
    bound = ("--prices", "prices.toml", "--max-tokens", "4", "--json", "--max-cost")
    with LoopbackServer(Painter) as server:
        assert asked("--base-url", server.url, *bound, "0.02") == 7
        assert "the budget is used up" in capsys.readouterr().err
        spent = [load_run(path.parent).meta.totals.cost or 0.0 for path in Path("panel").glob("*/run_meta.json")]
        assert 0.01 < sum(spent) <= 0.02 and len(spent) < 9
        assert asked("--base-url", server.url, *bound, "1") == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 9


def test_a_note_is_called_one_once(table, capsys):
    Path("counts.csv").write_text(
        "id,image,question,answer\n" + "".join(f"n{at},{at}.png,How many?,{at % 9}\n" for at in range(40))
    )
    assert main(["leakage", "counts.csv"]) == 0
    assert "\nnote: 40 of 40 questions have no known chance" in "\n" + capsys.readouterr().err


def test_a_dry_run_sends_nothing_and_grey_pictures_are_a_condition(table, capsys):
    assert asked("--dry-run") == 0
    assert "no request is sent" in capsys.readouterr().out and not Path("panel").exists()
    assert asked("--blank-images") == 2
    assert "Omit --blank-images" in capsys.readouterr().err


def test_the_chart_is_measured_with_the_embedded_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["leakage", "chart/digits", "--model", "embedded", "--limit", "40", "--shuffles", "1", "--quiet"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "No leak was found." in out and "options in another order, 1" in out
    assert out.rstrip().endswith("results/leakage-chart-digits-embedded/leakage.html")
