"""What is known before the first request is said before it: wrong options, and what a run will cost."""

from __future__ import annotations

import json

import pytest

from snellen import evaluate
from snellen.cli import main

PRICES = "[stub-vlm]\ninput = 2.0\noutput = 8.0\n[embedded]\ninput = 2.0\noutput = 8.0\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a file of prices and no key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "prices.toml").write_text(PRICES)
    return tmp_path


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--profile", "nosuch"], "no scoring profile 'nosuch'"),
        (["--profile", "strict,nosuch"], "no scoring profile 'nosuch'"),
        (["-o", "nosuch=1"], "has no option 'nosuch'"),
        (["chart/nosuch"], "there is no benchmark"),
        (["-m", "gpt-4o"], "names no kind of model"),
    ],
)
def test_what_is_used_after_the_answers_is_refused_before_the_first_request(folder, stub, capsys, more, said):
    assert main(["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "-q", *more]) == 2
    assert said in capsys.readouterr().err
    assert stub.stats()["served"] == 0
    assert not (folder / "results").exists()


def test_a_profile_of_a_repeated_run_is_refused_before_the_first_request(folder, stub, capsys):
    run = ["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "--limit", "2", "-q", "--out", "run"]
    assert main(run) == 0
    before = stub.stats()["served"]
    again = ["rerun", "run", "--base-url", stub.url, "--out", "again"]
    assert main([*again, "--profile", "nosuch"]) == 2
    (folder / "other.toml").write_text("[other]\ninput = 1\noutput = 1\n")
    assert main([*again, "--prices", "other.toml"]) == 2
    assert stub.stats()["served"] == before
    assert not (folder / "again").exists()


def test_a_second_benchmark_without_its_data_is_refused_before_the_first_is_asked(folder, stub, capsys):
    assert main(["run", "chart", "vsi-bench", "-m", "api:stub-vlm", "--base-url", stub.url, "-q"]) != 0
    assert "--data" in capsys.readouterr().err
    assert stub.stats()["served"] == 0


def test_a_dry_run_counts_and_prices_without_a_request_or_a_key(folder, stub, capsys):
    run = ["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "--limit", "20", "--max-tokens", "50"]
    assert main([*run, "--dry-run", "--prices", "prices.toml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (one,) = told["runs"]
    assert (one["questions"], one["answered"], one["output_tokens"]) == (20, 0, 1000)
    assert one["images"] >= 20 and one["input_tokens"] > 20
    assert one["cost"] == pytest.approx((one["input_tokens"] * 2 + 1000 * 8) / 1e6) == told["cost"]
    assert stub.stats()["served"] == 0 and not (folder / "results").exists()
    assert main([*run, "-q"]) == 0
    capsys.readouterr()
    more = ["--repeats", "1", "--limit", "30"]
    assert main([*run, *more, "--dry-run"]) == 0
    out = capsys.readouterr()
    assert "no price" in out.out and "30" in out.out
    assert main([*run, "--dry-run", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["runs"]
    assert (done["questions"], done["answered"], done["input_tokens"]) == (20, 20, 0)
    assert main([*run[:-2], "--dry-run", "--json", "--out", "elsewhere"]) == 0
    (free,) = json.loads(capsys.readouterr().out)["runs"]
    assert free["output_tokens"] is None and free["cost"] is None


def test_pictures_count_by_their_pixels_after_the_limits_of_the_run(folder, capsys):
    def tokens(*more):
        assert main(["run", "chart/digits", "-m", "api:x", "--limit", "5", "--dry-run", "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)["runs"][0]["input_tokens"]

    assert tokens("--max-long-side", "8") < tokens()


def test_prices_of_a_finished_run_come_from_its_recorded_usage(folder, capsys):
    run = evaluate("chart", "embedded", limit=3, out=folder / "run")
    expected = (run.meta.totals.input_tokens * 2 + run.meta.totals.output_tokens * 8) / 1e6
    assert main(["score", "run", "--prices", "prices.toml", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost == {"dollars": pytest.approx(expected), "answers": 3, "without_usage": 0}
    said = f"cost ${expected:.4f}, from the recorded usage of 3 answers"
    assert main(["score", "run", "--prices", "prices.toml"]) == 0
    assert said in " ".join(capsys.readouterr().err.split())
    assert main(["rerun", "run", "--prices", "prices.toml", "-q"]) == 0
    assert said in " ".join(capsys.readouterr().err.split())
    assert main(["report", "run", "--prices", "prices.toml"]) == 0
    assert said in (folder / "run" / "report.html").read_text()


def test_prices_without_the_model_or_without_usage_are_refused(folder, capsys):
    evaluate("chart", "embedded", limit=1, out=folder / "run")
    (folder / "other.toml").write_text("[other]\ninput = 1\noutput = 1\n")
    assert main(["score", "run", "--prices", "other.toml"]) == 2
    assert "no price for 'embedded'" in capsys.readouterr().err
    (folder / "answers.jsonl").write_text("")
    assert main(["score", "answers.jsonl", "--benchmark", "chart", "--prices", "prices.toml"]) == 2
    assert "recorded usage" in capsys.readouterr().err


def test_pages_that_cannot_be_written_are_refused_before_a_judge_is_asked(folder, stub, capsys, monkeypatch):
    evaluate("chart", "embedded", limit=2, out=folder / "run")
    (folder / "file").write_text("")
    monkeypatch.setenv("JUDGE_API_KEY", "sk-judge-key-0123456789")
    command = ["failures", "run", "--judge", "api:stub-vlm", "--base-url", stub.url, "--pages", "file/pages", "-q"]
    assert main(command) == 6
    assert "--pages file/pages cannot be written" in capsys.readouterr().err
    assert stub.stats()["served"] == 0
