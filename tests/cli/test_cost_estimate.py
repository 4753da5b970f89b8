"""The cost that `run --dry-run` and `check` print before anything is sent."""

from __future__ import annotations

import json

import pytest

from snellen.cli import main

OPENAI = ["--base-url", "https://api.openai.com/v1"]
RUN = ["run", "chart/digits", "--limit", "5", "--dry-run"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return tmp_path


def estimate(capsys, *more):
    assert main([*RUN, "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_dry_run_prices_a_known_model_without_a_file_and_says_where_the_price_is_from(capsys):
    told = estimate(capsys, "-m", "api:gpt-6-astra", *OPENAI, "--max-tokens", "50")
    (run,) = told["runs"]
    assert run["cost"] == pytest.approx((run["input_tokens"] * 10 + 250 * 50) / 1e6) == told["cost"]
    assert run["batch_cost"] == pytest.approx(run["cost"] / 2) == told["batch_cost"]
    assert run["price"]["day"] == "2026-11-23" and run["price"]["source"].startswith("https://developers.openai.com")
    assert run["image_rule"]["form"] == "patches" and 0 < run["image_tokens"] < run["input_tokens"]
    assert main([*RUN, "-m", "api:gpt-6-astra", *OPENAI]) == 0
    said = capsys.readouterr()
    words = " ".join(said.err.split())
    assert "as a batch" in " ".join(said.out.split()) and "check it" in words and "2026-11-23" in words
    assert "images count as 32 x 32 patches" in words and "not confirmed" in words


def test_a_dry_run_of_a_part_counts_the_samples_that_this_part_asks(capsys):
    whole = ["run", "chart/digits", "--limit", "30", "-m", "embedded"]
    counts = []
    for shard in ("1/3", "2/3", "3/3"):
        assert main([*whole, "--shard", shard, "--dry-run", "--json"]) == 0
        (run,) = json.loads(capsys.readouterr().out)["runs"]
        counts.append((run["questions"], run["images"]))
    assert sum(questions for questions, _ in counts) == 30 and all(0 < questions < 30 for questions, _ in counts)
    assert main([*whole, "--dry-run", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["questions"], run["images"]) == (30, sum(images for _, images in counts))


@pytest.mark.parametrize("setting", [("--corrupt", "grey"), ("-o", "questions=2"), ("--temperature", "0.5")])
def test_a_dry_run_over_a_run_with_other_settings_is_refused_as_the_run_is(capsys, setting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", "chart/digits", "--limit", "2", "-m", "embedded"]
    assert main(words) == 0
    assert main([*words, "--dry-run", "--json"]) == 0
    capsys.readouterr()
    assert main([*words, *setting]) == 5
    refusal = capsys.readouterr().err.splitlines()
    assert "was started with other settings" in refusal[0]
    assert main([*words, *setting, "--dry-run"]) == 5
    assert set(capsys.readouterr().err.splitlines()) <= set(
        refusal
    )  # prompts, which differ with the questions, are not made


def test_a_name_of_a_provider_has_no_price_at_another_address(capsys):
    (run,) = estimate(capsys, "-m", "api:gpt-6-astra", "--base-url", "http://127.0.0.1:9/v1")["runs"]
    assert (run["cost"], run["batch_cost"], run["price"], run["image_rule"]) == (None, None, None, None)


def test_an_unknown_model_says_so_and_names_the_way_out(capsys):
    assert main([*RUN, "-m", "api:gpt-99", *OPENAI]) == 0
    words = " ".join(capsys.readouterr().err.split())
    assert "api:gpt-99: no price is known" in words and "--prices FILE" in words


def test_a_price_file_comes_before_the_table(folder, capsys):
    (folder / "p.toml").write_text('["gpt-6-astra"]\ninput = 1.0\noutput = 0.0\n')
    (run,) = estimate(capsys, "-m", "api:gpt-6-astra", *OPENAI, "--prices", "p.toml")["runs"]
    assert run["cost"] == pytest.approx(run["input_tokens"] / 1e6)
    assert run["price"]["source"] == "p.toml" and run["price"]["day"] is None


def test_the_check_of_own_questions_uses_the_table_too(folder, capsys):
    (folder / "my.csv").write_text("question,A,B,answer\n" + "".join(f"Is {n} odd?,yes,no,A\n" for n in range(9)))
    assert main(["check", "my.csv", "-m", "api:gpt-6-astra", "--max-tokens", "10", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["cost"] == pytest.approx((checked["input_tokens"] * 10 + 90 * 50) / 1e6)
