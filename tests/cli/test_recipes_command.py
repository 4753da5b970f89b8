"""`snellen recipes`, and `--sampling` on the command line."""

from __future__ import annotations

import json
from pathlib import Path


def test_recipes_are_listed_for_a_model_in_a_table_and_as_json(snellen):
    said = snellen("recipes", "local:Qwen/Qwen3-VL-8B-Instruct")
    assert said.status == 0 and "qwen3-vl-instruct" in said.out and "kimi" not in said.out
    assert "presence_penalty 1.5" in said.out and "QwenLM/Qwen3-VL README" in said.out
    listed = json.loads(snellen("recipes", "--json").out)["recipes"]
    assert len({recipe["name"] for recipe in listed}) == len(listed) > 10
    none = snellen("recipes", "no-such-model")
    assert none.status == 0 and "no recipe is for no-such-model" in none.err


def test_the_title_of_the_scores_names_recipe_and_repeats(snellen):
    words = ("run", "chart/digits", "-m", "embedded", "--limit", "2", "--sampling", "kimi-vl-thinking-2506")
    for said in (snellen(*words, "--repeats", "3", "--out", "r"), snellen("score", "r")):
        assert said.status == 0
        assert " ".join(said.out.split()).count("sampling kimi-vl-thinking-2506 · 3 repeats") == 1
    meta = json.loads(Path("r/run_meta.json").read_bytes())
    assert meta["identity"]["generation"] == {"temperature": 0.8, "max_tokens": 32768}


def test_each_sampling_field_has_an_option_of_its_own_name(snellen):
    fields = {
        "top_k": 20,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": 1.5,
        "frequency_penalty": -0.5,
    }
    words = [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert snellen("run", "chart/digits", "-m", "embedded", "--limit", 1, "--out", "r", *words).status == 0
    assert json.loads(Path("r/run_meta.json").read_bytes())["identity"]["generation"] == fields


def test_an_unknown_recipe_is_refused_before_anything_is_written(snellen):
    for more in ((), ("--dry-run",)):
        said = snellen("run", "chart/digits", "-m", "embedded", "--sampling", "qwen3-vl", *more)
        assert said.status == 2 and "Near: qwen3-vl-" in said.err
        assert not Path("results").exists()
    said = snellen("run", "chart/digits", "-m", "api:m", "--sampling", "checkpoint", "--dry-run")
    assert said.status == 2 and "--model api:m has none here" in said.err
    said = snellen("run", "chart/digits", "-m", "embedded", "--chat-template-kwargs", "thinking")
    assert said.status == 2 and "--chat-template-kwargs is not a JSON object" in said.err


def test_a_dry_run_refuses_what_the_run_would(snellen):
    for words, named in (
        (("-m", "openai:gpt-4o", "--top-k", 5), "takes no top_k in this protocol"),
        (("-m", "anthropic:claude", "--min-p", 0.1), "takes no min_p in this protocol"),
        (("-m", "api:m", "--kv-cache", "static"), "--kv-cache is for"),
    ):
        said = snellen("run", "chart/digits", "--limit", 1, "--dry-run", *words)
        assert said.status == 2 and named in " ".join(said.err.split())
    plan = 'benchmarks = ["chart/digits"]\nmodels = ["openai:gpt-4o"]\n[defaults]\nlimit = 1\ntop_k = 5\n'
    Path("plan.toml").write_text(plan)
    said = snellen("run", "plan.toml", "--dry-run")
    assert "will fail" in said.err and "takes no top_k" in " ".join(said.err.split())
    assert not Path("results").exists()


def test_easi_takes_a_recipe_and_the_sampling_fields(snellen, tmp_path):
    words = ("easi", "-m", "openai:gpt-4o", "--benchmarks", "viewspatial", "--dry-run", "--no-rich")
    for more, named in (
        (("--sampling", "qwen3-vl"), "Near: qwen3-vl-"),
        (("--sampling", "qwen3-vl-instruct"), "takes no top_k"),
        (("--top-k", 5), "takes no top_k"),
    ):
        said = snellen(*words, *more)
        assert said.status == 2 and named in " ".join(said.err.split()), said.err
