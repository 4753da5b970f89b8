"""Commands, options and names that other harnesses have are answered with the command to type here."""

from __future__ import annotations

import shlex

import pytest

from snellen.cli import main
from snellen.cli.suggestions import COMMAND_OF, OPTION_OF
from snellen.models.api.services import service

pytestmark = pytest.mark.installed


def refused(capsys, line: str) -> str:
    """What stands on stderr for a command line that is refused, in one line."""
    assert main(shlex.split(line)) == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("browse results/x", "snellen view results/x"),
        ("plot results/x", "snellen report results/x"),
        ("eval chart --model gpt-4o", "snellen run chart --model api:gpt-4o"),
        ("evaluate --tasks vlm2,blink --batch_size 8 -m gpt-4o", "snellen run vlm2 blink --batch-size 8 -m api:gpt-4o"),
        ("infer", "snellen run chart --model embedded"),
        ("resume results/a --out b", "snellen rerun results/a --out b"),
        ("leaderboard results/a", "snellen report --reference easi results/a"),
        ("chart -m embedded", "snellen run chart -m embedded"),
        ("--model gpt-4o --data BLINK", "snellen run blink --model api:gpt-4o"),
        ("--tasks chart --model gpt-4o", "snellen run chart --model api:gpt-4o"),
        ("run chart -T size=96 -m api:x", "snellen run chart -o size=96 -m api:x"),
        ("rerun results/a --limit 5", "snellen run BENCHMARK --model KIND:NAME --limit"),
        ("rnu chart", "snellen run chart"),
        ("list catalogue mmstar", "snellen list mmstar"),
        ("run catalogue -m embedded", "snellen run mmstar"),
        ("run fgbmk/cub/speces/choice -m embedded", "snellen run fgbmk/cub/species/choice -m embedded"),
        ("run vlm2/oc-cmt -m embedded", "snellen run vlm2/oc-cnt -m embedded"),
        ("reprot results/a", "snellen report results/a"),
        ("run --tasks chart,vlm2 --model x:y", "snellen run chart vlm2 --model x:y"),
        (
            "run --model openai --model_args model_version=gpt-4o,base_url=http://h/v1 --tasks blink --log_samples",
            "snellen run blink --model api:gpt-4o --base-url http://h/v1",
        ),
        (
            "run --model hf --model_args pretrained=Qwen/Qwen3-VL-8B-Instruct --tasks blink --output_path logs",
            "snellen run blink --model local:Qwen/Qwen3-VL-8B-Instruct --out logs",
        ),
        ("run chart --work-dir w --reuse -m embedded", "snellen run chart --out w -m embedded"),
        ("run chart -m api:x --max-connections 8 --epochs 3", "snellen run chart -m api:x -c 8 --repeats 3"),
        ("run chart -m api:x --gen_kwargs max_new_tokens=16,temperature=0", "--max-tokens 16 --temperature 0"),
        ("run --data BLINK --model gpt-4o", "snellen run blink --model api:gpt-4o"),
        ("run chart -m api:x --judge gpt-4o", "snellen judge RUN --model api:gpt-4o --rubric match"),
        ("score results/x --judge-model gpt-4o", "snellen judge RUN --model api:gpt-4o"),
        ("score results/x --judge-args {'model':'gpt-4o'}", "snellen judge RUN --model api:NAME"),
        ("query select --runs results/x", "Type: snellen query select results/x"),
        ("score results/x --tasks chart", "snellen score results/x --benchmark chart"),
        ("easi --tasks blink --model api:x", "snellen easi --benchmarks blink --model api:x"),
        ("run fika --model api:m --api-image-max-long-side 9", "snellen run fika --model api:m --max-long-side 9"),
        ("run fika --model agent:opencode --opencode-bin oc --timeout-sec 9", "--agent-bin oc --timeout 9"),
    ],
)
def test_what_another_harness_calls_it_is_answered_with_the_command_to_type(capsys, line, better):
    assert better in refused(capsys, line)


@pytest.mark.parametrize(
    ("model", "better"),
    [
        ("gpt-4o", "--model api:gpt-4o"),
        ("claude-sonnet-4-5", "--model anthropic:claude-sonnet-4-5, or --model api:claude-sonnet-4-5 --base-url URL"),
        ("Gemini-2.5-pro", "--model gemini:Gemini-2.5-pro, or --model api:Gemini-2.5-pro --base-url URL"),
        ("Qwen/Qwen3-VL-8B-Instruct", "--model local:Qwen/Qwen3-VL-8B-Instruct, or --model api:Qwen/"),
        ("openai/gpt-4o", "--model openai:gpt-4o"),
        ("claude:opus", "--model anthropic:opus"),
        ("litellm:gpt-4o", "--model api:gpt-4o"),
        ("hf:org/name", "--model local:org/name"),
        ("API:gpt-4o", "--model api:gpt-4o"),
        ("api/gpt-4o", "--model api:gpt-4o"),
        ("api=gpt-4o", "--model api:gpt-4o"),
        ("http://localhost:8000/v1", "--model api:NAME --base-url http://localhost:8000/v1"),
        ("api:http://localhost:8000/v1", "--model api:NAME --base-url http://localhost:8000/v1"),
        ("checkpoint", "--model local:checkpoint"),
        ("./checkpoint", "--model local:./checkpoint"),
        ("./gone/checkpoint", "--model local:./gone/checkpoint"),
        ("../gone", "--model local:../gone"),
        ("/models/of/gone", "--model local:/models/of/gone"),
        ("~/gone", "--model local:~/gone"),
        ("old-run", "--model replay:old-run"),
        ("answers.jsonl", "--model replay:answers.jsonl"),
    ],
)
def test_a_model_without_a_kind_gets_the_kind_that_fits(capsys, tmp_path, monkeypatch, model, better):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    (tmp_path / "old-run").mkdir()
    (tmp_path / "old-run" / "run_meta.json").write_text("{}")
    (tmp_path / "answers.jsonl").write_text("")
    assert f"Write {better}" in refused(capsys, f"run chart -m {model}")
    assert not (tmp_path / "results").exists()


def test_a_name_with_a_colon_gets_the_kind_of_a_server(capsys):
    assert "write --model api:qwen2.5vl:7b" in refused(capsys, "run chart -m qwen2.5vl:7b")


@pytest.mark.parametrize("option", ["--runner", "--turns", "--thirst"])
def test_trust_is_proposed_for_no_other_word(capsys, option):
    assert "Type: snellen query x --trust" not in refused(capsys, f"query x {option} r")
    assert "Type: snellen query x --trust" in refused(capsys, "query x --trsut")


def test_the_variable_that_is_proposed_for_a_key_is_the_one_that_is_read(capsys):
    text = refused(capsys, "run chart -m api:x --api-key sk-abcdefghijklmnop")
    for provider in ("openai", "anthropic", "gemini"):
        assert any(name in text for name in service(provider).key_variables), provider
    assert "OPENAI_APIKEY" not in text


def test_data_that_names_another_harness_benchmark_is_not_answered_with_one_that_looks_like_it(capsys):
    said = refused(capsys, "run --data MMBench_DEV_EN --model api:x")
    assert "MMBench_DEV_EN is neither a file nor a benchmark" in said and "mmsi" not in said
    assert "snellen run vsi-bench" in refused(capsys, "run --data VSI-Bench --model api:x")


@pytest.mark.parametrize("option", ["--api-key", "--api_key", "--openai-api-key"])
@pytest.mark.parametrize("joined", [True, False])
def test_a_key_on_the_command_line_is_refused_and_never_printed(capsys, option, joined):
    key = "plain-secret-without-a-head"
    line = f"{option}={key}" if joined else f"{option} {key}"
    for command in (f"run chart -m api:x {line}", f"evaluate {line} chart", f"judge results/x {line}"):
        told = refused(capsys, command)
        assert key not in told
        assert "--key-env" in told or "snellen run chart" in told


def test_every_suggested_command_and_option_exists(capsys):
    from typer.main import get_command

    from snellen.cli.app import COMMANDS, build
    from snellen.cli.benchmark_options import own_options

    commands = get_command(build(None)).commands
    ours = {name: command.ours.split() for name, command in COMMAND_OF.items() if not command.ours.startswith("-")}
    assert all(words[0] in COMMANDS for words in ours.values())
    assert not set(COMMAND_OF) & set(COMMANDS)
    run = own_options(commands["run"])
    for name, option in OPTION_OF.items():
        assert all(word in run for word in option.rule("1") if word.startswith("-")), name
        assert option.why


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("run chrat -m api:x --limit 5", "Type: snellen run chart -m api:x --limit 5"),
        ("run vsi-bnech -m api:x --data d", "Type: snellen run vsi-bench -m api:x --data d"),
        ("run chart -m apii:x -c 4", "Type: snellen run chart -m api:x -c 4"),
        ("run chart --model=m -c 4", "Type: snellen run chart --model=api:m -c 4"),
        ("run chart -m api:x --profil strict", "Type: snellen run chart -m api:x --profile strict"),
        ("run 'chart ' -m api:x", "Type: snellen run chart -m api:x"),
        ("run chart --modle embedded", "No such option: --modle Type: snellen run chart --model embedded"),
        ("run chart -m api:x --profile exact,strct", "Type: snellen run chart -m api:x --profile exact,strict"),
        ("run chart -m api:x -o sise=96", "Type: snellen run chart -m api:x -o size=96"),
        ("score r --pre-sample x.jsonl --json", "Type: snellen score r --per-sample x.jsonl --json"),
        ("lmms_eval --tasks vsibench --model x", "Type: snellen run vsi-bench --model api:x"),
        ("inspect eval chart --model api:x", "Type: snellen run chart --model api:x"),
        ("python run.py --data BLINK --model gpt-4o", "Type: snellen run blink --model api:gpt-4o"),
    ],
)
def test_a_name_near_another_is_answered_with_the_whole_command(capsys, monkeypatch, tmp_path, line, better):
    monkeypatch.chdir(tmp_path)
    assert better in refused(capsys, line)


def test_the_opposite_of_an_option_is_not_proposed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert "Type:" not in refused(capsys, "run chart -m api:x --no-blank-images")


@pytest.mark.parametrize(
    "line",
    [
        "run --tasks mme --model openai_compatible --model_args model_version=m1",
        "run --tasks ChartQA --model x",
        "lmms-eval --tasks mme --model x",
        "eval inspect_evals/mmmu --model x",
        "inspect eval inspect_evals/mmmu --model x",
        "run MMBench_DEV_EN -m api:x",
        "run chartqa_test -m api:x",
    ],
)
def test_no_command_is_proposed_with_a_benchmark_that_there_is_not(capsys, monkeypatch, tmp_path, line):
    monkeypatch.chdir(tmp_path)
    told = refused(capsys, line)
    names = [word for word in told.split() if word in ("mme", "chart", "mmsi-bench", "mmmu", "ChartQA")]
    assert not names and ("BENCHMARK" in told or "a benchmark of other harnesses" in told)


def test_a_command_that_is_proposed_holds_no_key(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    secret = "plain-secret-without-a-head"
    for line in (
        f"run chrat -m api:x --key-env {secret}",
        f"run chrat -m api:x --key-env={secret}",
        f"run chrat -m api:x --api-kye {secret}",
        f"run chrat -m api:x --base-url http://h/v1?api_key={secret}",
    ):
        assert secret not in refused(capsys, line)


@pytest.mark.parametrize(
    ("line", "better"),
    [
        ("run -m chart api:x -c 4", "Type: snellen run -m api:x chart -c 4"),
        ("run chart api:x", "Type: snellen run chart --model api:x"),
        ("run api:x", "Type: snellen run BENCHMARK --model api:x"),
        ("judge api:x -m taken", "Type: snellen judge taken -m api:x"),
        ("judge taken api:x", "Type: snellen judge taken --model api:x"),
        ("score chart taken --json", "Type: snellen score taken --json --benchmark chart"),
        ("query taken", "Type: snellen query 'SELECT run, state, value FROM runs' taken"),
        ("query taken 'select count(*) from answers'", "Type: snellen query 'select count(*) from answers' taken"),
    ],
)
def test_arguments_in_each_others_place_are_answered_with_the_command_to_type(
    capsys, monkeypatch, tmp_path, line, better
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "run_meta.json").write_text("{}")
    assert better in refused(capsys, line)
