"""`snellen run … --paired`: a model with and without its tools, two run folders and one paired difference."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from servers.scripted import Action, Call, Refuse, Say, ScriptedServer
from snellen.cli import main

WITHOUT, WITH = ("A", "B", "A", "B", "B", "B", "B", "B"), ("A", "A", "B", "A", "A", "A", "A", "A")
"""Replies to eight questions whose answer is A: without tools two are right, with them seven."""


class Server(ScriptedServer):
    """A model that views the image first, if it may call tools, and then answers otherwise than without."""

    def next_action(self, body: dict[str, Any]) -> Action:
        asked = json.dumps(body["messages"])
        number = next(number for number in range(8) if f"no. {number}?" in asked)
        if "tools" not in body:
            return Say(WITHOUT[number])
        return Say(WITH[number]) if len(body["messages"]) > 1 else Call("view_image", {"image": "image.png"})


@pytest.fixture(autouse=True)
def questions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-provider")
    monkeypatch.delenv("SNELLEN_TOOLS", raising=False)
    with Path("birds.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "image", "question", "A", "B", "answer"])
        for number in range(8):
            picture = Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8))
            out = io.BytesIO()
            picture.save(out, "PNG")
            Path(f"{number}.png").write_bytes(out.getvalue())
            rows.writerow([f"q{number}", f"{number}.png", f"Which bird is this, no. {number}?", "wren", "robin", "A"])


def test_a_model_runs_with_and_without_tools_and_the_paired_difference_is_printed(capsys):
    words = ["run", "birds.csv", "--model", "tools:mock", "--tools", "crop,view", "--paired", "-q"]
    with Server({"mock": [Say("A")]}) as server:
        words += ["--base-url", server.url]
        assert main(words) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert len(server.asked) == 8 + 16
        assert main([*words, "--json"]) == 0
        assert len(server.asked) == 8 + 16, "both runs are resumed, and nothing is asked again"
    (pairing,) = json.loads(capsys.readouterr().out)["paired"]
    assert (pairing["baseline"], pairing["other"]) == ("results/birds-mock", "results/birds-tools-mock")
    (whole,) = [part for part in pairing["parts"] if part["name"] == "all"]
    # 6 better and 1 worse of 8: the exact McNemar test gives 2 (1 + 7) / 2^7.
    assert (whole["baseline"], whole["other"], whole["difference"]) == (0.25, 0.875, 0.625)
    assert (whole["wins"], whole["losses"], whole["test"]) == (6, 1, "exact McNemar")
    assert whole["p_value"] == pytest.approx(0.125) and whole["ci95"][0] < 0.625 < whole["ci95"][1]
    assert "birds-tools-mock against results/birds-mock" in out and "+0.6250" in out and "6 / 1" in out
    assert main(["compare", "results/birds-mock", "results/birds-tools-mock"]) == 0
    assert " ".join(capsys.readouterr().out.split()) in out, "the same table as that of snellen compare"


def test_a_pair_needs_a_model_with_tools(capsys):
    assert main(["run", "birds.csv", "--model", "api:mock", "--paired"]) == 2
    assert "--model api:mock has none" in capsys.readouterr().err


def test_where_one_of_the_two_runs_has_no_answer_no_difference_is_made_up(capsys):
    class Refusing(Server):
        def next_action(self, body: dict[str, Any]) -> Action:
            return super().next_action(body) if "tools" in body else Refuse(422)

    words = ["run", "birds.csv", "--model", "tools:mock", "--tools", "view", "--paired", "-q", "--json", "--limit", "2"]
    with Refusing({"mock": [Say("A")]}) as server:
        assert main([*words, "--base-url", server.url]) != 0
    shown = capsys.readouterr()
    assert "paired" not in json.loads(shown.out) and "with and without tools" in shown.err
