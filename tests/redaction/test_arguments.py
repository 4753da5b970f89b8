"""A key is refused wherever it would be recorded or read by others: arguments, addresses, request settings, names."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen import redaction
from snellen.cli import main
from snellen.redaction.arguments import held_key, key_among, may_be_shown
from stopwatch import cpu_times

SECRET = "zq7f3a9c51e2Kd8"

HELD = [
    f"pretrained=a,azure_key={SECRET}",
    "pretrained=a,azure_key=letmein",
    f"key={SECRET}",
    f"auth={SECRET}",
    f"model=a,token={SECRET}",
    f"--api-key {SECRET}",
    f"--hf_token={SECRET}",
    f"azurekey={SECRET}",
    f"openaiApiKey={SECRET}",
    f"KEY2={SECRET}",
    f"base_url=http://me:{SECRET}@host/v1",
    f"base_url=http://{SECRET}@host/v1",
    f"https://host/v1?x=1&key={SECRET}",
    f"https://host/v1?%6b%65y={SECRET}",
    f'{{"headers": {{"Authorization": "Bearer {SECRET}"}}}}',
    f'{{\\"api_key\\": \\"{SECRET}\\"}}',
    f"x-api-key: {SECRET}",
    f"my_secret={SECRET}",
    "a=sk-abcdefghijklmnopqrstuvwx",
    f"https://host/api/run?code={SECRET}",
    f"session={SECRET},a=1",
    f"access_key_id={SECRET}",
    f"jwt={SECRET}",
    "https://host/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.9f3Kd8PqLm/v1",
    *(
        f"http://host/{head}{SECRET}0Xy/v1"
        for head in ("glpat-", "xoxb-1-", "ghs_", "r8_", "pplx-", "AQ.", "ya29.", "dapi")
    ),
]
FREE = [
    "pretrained=Qwen/Qwen2.5-VL-3B-Instruct,device_map=auto,attn_implementation=flash_attention_2",
    "max_tokens=12,stop_token_ids=1,2,num_key_value_heads=4",
    "eos_token=</s>,image_token=<image>,pad_token=[PAD]",
    "use_auth_token=True,api_key=EMPTY",
    "api_key=$OPENAI_API_KEY",
    "--api-key-env MY_KEY --key-env OPENAI_API_KEY",
    "sort_key=question_id,image_key=image_0,keypoints=17",
    "The key: think of monkeys and tokens.",
    "http://127.0.0.1:8000/v1",
    "git+ssh://git@github.com/a/b",
    "pass=2,max_pass=3,compass=north,session=3,language_code=zh-Hans,license=apache-2.0",
    "https://host/openai/deployments/gpt-4o?api-version=2024-10-21",
    "AQ.1,fw_model,r8_v2,ghs_cache",
]


@pytest.mark.parametrize("text", HELD)
def test_a_key_among_arguments_is_seen_and_not_shown(text: str) -> None:
    assert held_key(text) is not None
    assert SECRET not in str(held_key(text)) and "letmein" not in str(held_key(text))


@pytest.mark.parametrize("text", FREE)
def test_settings_that_are_no_keys_are_let_through(text: str) -> None:
    assert held_key(text) is None


@pytest.mark.parametrize("piece", ["a", "a=", "a.", "a://", "eyJ-", "--a ", "key: ", "ghs_"])
def test_a_long_setting_is_searched_in_proportion_to_its_length(piece: str) -> None:
    short, long = (piece * (characters // len(piece)) for characters in (16_000, 160_000))
    short_s = max(0.005, *cpu_times(lambda: held_key(short), 5))
    assert min(cpu_times(lambda: held_key(long), 5)) <= 12 * short_s


def test_a_key_inside_a_json_value_is_seen_by_its_name_its_parents_name_or_its_text() -> None:
    for value in (
        {"api_key": "abc"},
        {"extra": [{"headers": {"X-Api-Key": "abc"}}]},
        {"auth": {"type": "basic", "value": "abc"}},
        {"url": "https://me:abc@host"},
        {"note": "sk-abcdefghijklmnopqrstuvwx"},
        {"sk-abcdefghijklmnopqrstuvwx": 1},
        {"headers": [["Authorization", SECRET]]},
        {"env": [{"name": "API_KEY", "value": "abc"}]},
        {"authentication": {"type": "connection_string", "connection_string": "abc"}},
        {"apiKeys": {"primary": SECRET}},
        {"api_keys": {SECRET: True}},
        {"headers": {"Cookie": "a=b; c=d"}},
        {"text": "-----BEGIN RSA PRIVATE KEY-----"},
    ):
        assert key_among(value) is not None
    for value in (
        {"top_k": 1, "stop_token_ids": [1, 2]},
        {"prompt_cache_key": "a1b2c3d4"},
        {"api_key": None},
        None,
        ["key", "value"],
        {"code": "x1 = y2 + z3", "stop": ["key", "token"]},
        [{"name": "color", "value": "a1b2c3d4"}],
        {"authentication": {"type": "system_assigned_managed_identity"}, "key_field": "doc_id"},
        {"properties": {"token_count": {"type": "integer"}}, "tokenizer": "Qwen/Qwen2.5-VL-7B-Instruct"},
        {"key_env": "OPENAI_API_KEY_2", "session": "evaluation-run", "keys": ["left", "right"]},
    ):
        assert key_among(value) is None


WORDS = ("api", "access", "token", "value", "client", "secret", "string", "password", "authorization", "header", "json")
SECRET_WORDS = ("key", "token", "secret", "password", "authorization", "credential", "signature", "sas", "cookie")
STYLES = ("_".join, "-".join, lambda words: words[0] + "".join(map(str.title, words[1:])))


@given(
    st.lists(st.sampled_from(WORDS), max_size=2),
    st.sampled_from(SECRET_WORDS),
    st.sampled_from(("", "value", "string", "primary", "v2")),
    st.sampled_from(STYLES),
    st.from_regex(r"(?=.*[A-Za-z][0-9].*[0-9][A-Za-z])[A-Za-z0-9_+/-]{12,40}", fullmatch=True),
    st.lists(st.sampled_from(("member", "list", "text", "below")), max_size=4),
)
def test_a_value_drawn_by_lot_under_a_name_for_a_secret_is_seen_at_any_depth_and_not_shown(
    before, secret, after, style, key, around
):
    value: Any = {style([*before, secret, *filter(None, [after])]): key}
    for place in around:
        value = {
            "member": {"a": value},
            "list": [1, value],
            "text": {"b": json.dumps(value)},
            "below": {"c": [[value]]},
        }[place]
    found = key_among(value)
    assert found is not None and key not in found


def test_the_name_of_a_variable_is_told_from_a_key() -> None:
    assert all(map(may_be_shown, ("OPENAI_API_KEY", "MY_KEY2", "HF_TOKEN", "KEY", "my_key")))
    assert not any(
        map(
            may_be_shown,
            (SECRET, "UmSTTNxjMjRgnFBjiKzASy", "sk-abc", "X7F3A9C51E2KD8P", "a b", "", "AKIAIOSFODNN7EXAMPLE", "k\n"),
        )
    )


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that is refused as misuse says, without the key."""
    assert main(words) == 2, words
    said = "".join(capsys.readouterr())
    assert SECRET not in said
    return " ".join(said.split())


def test_a_run_with_a_key_among_its_settings_is_refused_and_leaves_no_trace_of_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for options in (
        ("--key-env", SECRET),
        ("--key-env", f"{SECRET}-with-a-hyphen"),
        ("--extra-body", f'{{"api_key": "{SECRET}"}}'),
        ("--extra-body", f'{{"headers": {{"Authorization": "Bearer {SECRET}"}}}}'),
        ("--base-url", f"http://me:{SECRET}@127.0.0.1:9/v1"),
        ("--base-url", f"http://{SECRET}@127.0.0.1:9/v1"),
        ("--base-url", f"http://127.0.0.1:9/v1?key={SECRET}"),
        ("--stop", f"auth={SECRET}"),
    ):
        given = ("--base-url", "http://127.0.0.1:9/v1") if options[0] != "--base-url" else ()
        said = refused(capsys, "run", "chart/digits", "-m", "api:m", *given, *options)
        assert "environment variable" in said, options
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_other_commands_refuse_a_key_in_place_of_the_name_of_its_variable(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "chart/digits", "-m", "embedded", "--limit", "1", "--out", "run"]) == 0
    for words in (
        ("judge", "run", "--model", "api:m"),
        ("failures", "run", "--judge", "api:m"),
        ("doctor", "--base-url", "http://127.0.0.1:9/v1"),
    ):
        refused(capsys, *words, "--key-env", SECRET)


def test_a_harness_is_not_started_with_a_key_among_its_arguments(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    harness = ("easi", "--backend", "lmms-eval", "-m", "qwen3_vl", "--benchmarks", "vsi_bench")
    for arguments in HELD[:5]:
        said = refused(capsys, *harness, "--model-args", arguments, "--backend-python", sys.executable)
        assert "stands in the arguments" in said


def test_keys_of_the_environment_that_another_program_gets_are_struck(forget_keys: None) -> None:
    redaction.register_environment({"AZURE_KEY": SECRET, "PATH": "/usr/bin:/usr/local/bin", "HF_TOKEN": "short"})
    assert redaction.redact(f"It has {SECRET}") == "It has [redacted]"
    assert redaction.redact("/usr/bin:/usr/local/bin short") == "/usr/bin:/usr/local/bin short"
