"""A command of FIKA-Bench's own documents works as typed, or is answered with the command that does the same."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from snellen.cli import main
from snellen.cli.app import build
from snellen.cli.benchmark_options import own_options, tell_apart
from snellen.cli.suggestions import _descend


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = (
        "LIMIT",
        "OUT_DIR",
        "DATA_ZIP",
        "MODEL_PATH",
        "GPU",
        "PORT",
        "SIF",
        "VLLM_DOCKER_IMAGE",
        "DATA_PARALLEL_SIZE",
    )
    for name in (*names, "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def answered(capsys: pytest.CaptureFixture[str], line: str) -> tuple[str, str]:
    """The command to type, and all that is said."""
    assert main(shlex.split(line)) == 2
    text = capsys.readouterr().err
    (typed,) = [part.strip().removeprefix("Type: ") for part in text.splitlines() if part.strip().startswith("Type: ")]
    return typed, text


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            "python scripts/run_api_eval.py --model gpt-5-mini --judge --concurrency 4 --api-image-max-long-side 1600 --resume",
            "snellen run fika --model api:gpt-5-mini -c 4 --max-long-side 1600 --resume --judge",
        ),
        (
            "scripts/run_local_transformers_eval.py --model-path /m/Qwen3 --model Qwen3-VL-8B-Instruct --max-pixels 802816 "
            "--max-new-tokens 512 --stop-after-first-json --judge --resume",
            "snellen run fika --model local:/m/Qwen3 --max-pixels 802816 --max-new-tokens 512 --stop-after-first-json "
            "--resume --judge",
        ),
        (
            "python3 ./scripts/run_opencode_eval.py --opencode-bin opencode --config configs/opencode.example.json "
            "--model vllm-local/Qwen/Qwen3-VL-8B-Instruct-FP8 --timeout-sec 300 --resume",
            "snellen run fika --model agent:opencode --agent-model vllm-local/Qwen/Qwen3-VL-8B-Instruct-FP8 "
            "--agent-bin opencode --agent-config configs/opencode.example.json --timeout 300 --resume",
        ),
        (
            "python scripts/judge_results.py --results results/x/results.jsonl --base-url http://h/v1 --api-key sk-secret-1 "
            "--judge-model gpt-5-mini --resume",
            "snellen judge results/x --model api:gpt-5-mini --base-url http://h/v1 --resume",
        ),
        ("python scripts/summarise.py --results results/x/results.jsonl", "snellen score results/x"),
        (
            "bash examples/build_vllm_sif.sh",
            "snellen agents image ../containers/vllm-openai.sif --from docker://vllm/vllm-openai:latest",
        ),
        (
            "bash examples/apptainer_vllm_qwen3vl8b_server.sh",
            "snellen serve vllm Qwen/Qwen3-VL-8B-Instruct-FP8 --port 8010 --apptainer ../containers/vllm-openai.sif",
        ),
        (
            "examples/apptainer_openclaw_eval.sh",
            "snellen run fika --model agent:openclaw --agent-model vllm-local/Qwen/Qwen3-VL-8B-Instruct-FP8 "
            "--base-url http://127.0.0.1:8010/v1",
        ),
    ],
)  # fmt: skip
def test_a_script_is_answered_with_the_command_that_does_the_same(capsys, line, command):
    typed, text = answered(capsys, line)
    assert typed == command and "sk-secret-1" not in text
    _, *words = shlex.split(typed)
    from typer.main import get_command

    target, path, rest = _descend(get_command(build(words)), words)
    assert path and not tell_apart(rest, own_options(target)).unknown  # every option of the answer is one of ours


def test_variables_of_the_scripts_are_in_the_answer(capsys, monkeypatch):
    for name, value in {
        "GPU": "0,1,2",
        "PORT": "8011",
        "DATA_PARALLEL_SIZE": "3",
        "SIF": "c/v.sif",
        "LIMIT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    typed, _ = answered(capsys, "bash examples/apptainer_vllm_qwen3vl8b_server.sh")
    assert typed.endswith("--port 8011 --gpu 0,1,2 --data-parallel 3 --apptainer c/v.sif")
    typed, text = answered(capsys, "bash examples/apptainer_openclaw_eval.sh")
    assert "--base-url http://127.0.0.1:8011/v1" in typed and "LIMIT is read from the environment" in text


def test_an_option_that_is_not_known_is_named_and_a_key_is_not_shown(capsys):
    typed, text = answered(capsys, "scripts/run_api_eval.py --model m --retries 3 --api-key sk-another-secret")
    assert typed == "snellen run fika --model api:m"
    assert "--retries: not known" in text and "sk-another-secret" not in text and "set OPENAI_API_KEY" in text


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("run fika --model api:m --api-image-max-long-side 1600", "snellen run fika --model api:m --max-long-side 1600"),
        ("run fika --model agent:opencode --opencode-bin oc --timeout-sec 9", "--agent-bin oc --timeout 9"),
    ],
)  # fmt: skip
def test_an_option_of_the_scripts_is_answered_with_ours(capsys, line, command):
    typed, _ = answered(capsys, line)
    assert command in typed
