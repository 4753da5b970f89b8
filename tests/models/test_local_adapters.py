"""LoRA adapters of `local:`: replies as of merged weights, one loaded base under several, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tiny_adapters import merge, write_adapter
from tiny_vlm import ask, question, texts

import snellen
from snellen.cli import main
from snellen.errors import FingerprintError, PreflightError, SnellenError, UsageError
from snellen.models.base import ModelOptions
from snellen.models.local import checkpoint
from snellen.models.local.adapters import MODULES, find_adapter
from snellen.models.local.model import SharedWeights
from snellen.models.registry import open_model
from snellen.runs.run import load_run
from snellen.runs.tables import result_table

QUESTIONS = [question(number) for number in range(6)]


@pytest.fixture(scope="module")
def adapters(folder, tmp_path_factory):
    """Two adapters over the tiny checkpoint; the second reaches the vision tower, has DoRA, and replaces a module."""
    root = tmp_path_factory.mktemp("adapters")
    more: Any = {"use_dora": True, "modules_to_save": ["multi_modal_projector"]}
    two = write_adapter(folder, root / "two", 2, ("q_proj", "up_proj", "fc1"), **more)
    return write_adapter(folder, root / "one", 1), two


@pytest.fixture
def loads(monkeypatch):
    """The calls that load a checkpoint."""
    calls: list[Any] = []
    real = checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda *words: calls.append(words) or real(*words))
    return calls


def said(run: Any) -> dict[str, str]:
    return {record.sample_id: record.response.text for record in run.folder.records()}


async def replies(folder: Path, weights: SharedWeights | None = None, **options: Any) -> list[str]:
    model: Any = open_model(f"local:{folder}", ModelOptions(batch_size=4, **options))
    if weights is not None:
        model.share(weights)
    try:
        return texts(await ask(model, QUESTIONS))
    finally:
        await model.close()


async def test_an_adapter_answers_as_the_model_with_merged_weights(folder, adapters, tmp_path):
    plain = await replies(folder)
    for adapter in adapters:
        merged = await replies(merge(folder, adapter, tmp_path / adapter.name))
        assert await replies(folder, adapter=str(adapter)) == merged != plain


async def test_models_with_different_adapters_over_one_base_answer_at_the_same_time(folder, adapters, loads):
    alone = [await replies(folder, adapter=adapter) for adapter in (None, *map(str, adapters))]
    loads.clear()
    weights = SharedWeights()
    opened: list[Any] = []
    for adapter in (None, *map(str, adapters)):
        opened.append(open_model(f"local:{folder}", ModelOptions(batch_size=1, adapter=adapter)))
        opened[-1].share(weights)
        await opened[-1].preflight()
    together = await asyncio.gather(*(ask(model, QUESTIONS) for model in opened))
    assert [texts(each) for each in together] == alone and len(loads) == 1
    await opened[1].close()  # its adapter goes, and the others stay
    assert [texts(await ask(opened[number], QUESTIONS)) for number in (0, 2)] == [alone[0], alone[2]]
    for model in opened:
        await model.close()
    assert await replies(folder, weights) == alone[0], "the base is itself once all adapters have gone"
    assert await replies(folder, weights, adapter=str(adapters[0])) == alone[1] and len(loads) == 1


def test_a_plan_of_several_adapters_loads_their_base_once(folder, adapters, tmp_path, monkeypatch, loads, capsys):
    monkeypatch.chdir(tmp_path)
    models = [f'[[model]]\nname = "local:{folder}"\nlabel = "base"\n']
    models += [
        f'[[model]]\nname = "local:{folder}"\nlabel = "{one.name}"\nadapter = "{one.name}"\n' for one in adapters
    ]
    settings = 'benchmarks = ["chart/digits", "chart/creatures"]\n[defaults]\nlimit = 6\nmax_tokens = 4\n'
    plan = adapters[0].parent / "plan.toml"  # adapters are looked for beside it
    plan.write_text(settings + "".join(models))
    assert main(["run", str(plan), "--json"]) == 0, capsys.readouterr().err
    assert len(loads) == 1
    for benchmark in ("chart/digits", "chart/creatures"):
        for label, adapter in (("base", None), ("one", adapters[0]), ("two", adapters[1])):
            of_plan = load_run(f"results/plan/{benchmark.replace('/', '-')}-{label}")
            command = ["run", benchmark, "-m", f"local:{folder}", "--limit", "6", "--max-tokens", "4", "--quiet"]
            out = f"alone/{benchmark.replace('/', '-')}-{label}"
            assert main([*command, "--out", out, *(() if adapter is None else ("--adapter", str(adapter)))]) == 0
            alone = load_run(out)
            assert of_plan.meta.fingerprint == alone.meta.fingerprint
            assert said(of_plan) == said(alone)
    base = f"local:{folder}"
    rows = result_table([f"alone/chart-digits-{label}" for label in ("base", "one", "two")]).rows
    assert [row.label for row in rows] == [base, *(f"{base} + {adapter}" for adapter in adapters)]
    assert f"{base}+{adapters[0]}" in "".join(capsys.readouterr().out.split()), "the titles of their runs"


def test_the_fingerprint_holds_the_adapters_content_and_a_changed_one_is_not_resumed(folder, adapters, tmp_path):
    adapter = shutil.copytree(adapters[0], tmp_path / "adapter")
    settings: Any = {"limit": 3, "out": tmp_path / "run"}
    run = snellen.evaluate("chart/digits", f"local:{folder}", adapter=str(adapter), **settings)
    plain, identity = (
        open_model(f"local:{folder}", ModelOptions(adapter=each)).identity() for each in (None, str(adapter))
    )
    assert "adapter" not in plain and identity == {**plain, "adapter": identity["adapter"]}
    assert identity.items() <= run.meta.identity["model"].items()  # a run's has the sampling too
    assert identity["adapter"].startswith("sha256:") and str(tmp_path) not in json.dumps(identity)
    moved = shutil.copytree(adapter, tmp_path / "moved")
    (moved / "README.md").write_text("a read-me changes no answer")
    assert open_model(f"local:{folder}", ModelOptions(adapter=str(moved))).identity() == identity
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({name: 2 * tensor for name, tensor in weights.items()}, adapter / "adapter_model.safetensors")
    with pytest.raises(FingerprintError, match=r"model\.adapter"):
        snellen.evaluate("chart/digits", f"local:{folder}", adapter=str(adapter), **settings)
    config = json.loads((moved / "adapter_config.json").read_text())
    (moved / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 1}))
    assert open_model(f"local:{folder}", ModelOptions(adapter=str(moved))).identity() != identity


def altered(adapter: Path, folder: Path, **config: Any) -> Path:
    shutil.copytree(adapter, folder)
    kept = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(kept | config))
    return folder


async def test_what_is_no_adapter_of_this_base_is_refused_with_its_reason(folder, adapters, tmp_path):
    one = adapters[0]
    wide = load_file(one / "adapter_model.safetensors")
    wide = {name: tensor.repeat(1, 2) if "lora_A" in name else tensor for name, tensor in wide.items()}
    other = shutil.copytree(one, tmp_path / "other")
    save_file(wide, other / "adapter_model.safetensors")
    more = shutil.copytree(one, tmp_path / "more")
    first = next(iter(wide))
    eighth = {first.replace("layers.0", "layers.7"): wide[first]}
    save_file(load_file(one / "adapter_model.safetensors") | eighth, more / "adapter_model.safetensors")
    pickled = shutil.copytree(one, tmp_path / "pickled")
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    cut = shutil.copytree(one, tmp_path / "cut")
    (cut / "adapter_model.safetensors").write_bytes((cut / "adapter_model.safetensors").read_bytes()[:-9])
    damaged = shutil.copytree(one, tmp_path / "damaged")
    (damaged / "adapter_config.json").write_text("[1, 2]")
    (tmp_path / "empty").mkdir()
    for adapter, match in (
        (tmp_path / "nowhere", "there is no adapter folder"),
        (tmp_path / "empty", r"there is no adapter_config\.json in it"),
        (folder, "is a whole model, not an adapter"),
        (damaged, r"adapter_config\.json does not hold a JSON object"),
        (altered(one, tmp_path / "prompts", peft_type="PROMPT_TUNING"), "peft_type is 'PROMPT_TUNING'"),
        (altered(one, tmp_path / "bias", bias="all"), "bias is 'all'"),
        (altered(one, tmp_path / "pissa", init_lora_weights="pissa"), "init_lora_weights is 'pissa'"),
        (altered(one, tmp_path / "megatron", megatron_config={"x": 1}), "megatron_config"),
        (pickled, "is a pickle and is never opened"),
        (altered(one, tmp_path / "targets", target_modules=["query_key_value"]), "query_key_value"),
        (altered(one, tmp_path / "rank", r="four"), "r 'four'; a whole number from 1 was expected"),
        (other, "does not fit .*size mismatch"),
        (more, r"does not fit .*no counterpart there, first .*layers\.7"),
        (cut, "does not fit"),
    ):
        with pytest.raises(PreflightError, match=match):
            await replies(folder, adapter=str(adapter))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("lora_alpha", value) for value in (float("nan"), float("inf"), -16, 0, "16", True, None)),
        *(("r", value) for value in (0, -4, 4.0, True, [4])),
        ("rank_pattern", {"q_proj": 0}),
        ("alpha_pattern", {"q_proj": float("nan")}),
        ("alpha_pattern", [1]),
        *((setting, {"(a+)+": 4}) for setting in ("rank_pattern", "alpha_pattern")),
        *((setting, ["(a+)+"]) for setting in ("layers_pattern", "modules_to_save")),
        *((setting, value) for setting in MODULES for value in ([1], 7, [None])),
    ],
)
def test_a_setting_without_a_usable_value_is_refused_before_the_model_is_loaded(adapters, tmp_path, setting, value):
    with pytest.raises(PreflightError, match=f"adapter_config.json has {setting} "):
        find_adapter(str(altered(adapters[0], tmp_path / "changed", **{setting: value})))


async def test_a_pattern_of_modules_is_matched_as_by_peft_and_one_that_would_hang_is_refused(
    folder, adapters, tmp_path
):
    pattern = r"(?!.*vision).*\.(?:q|v|down)_proj"
    adapter = write_adapter(folder, tmp_path / "pattern", 1, pattern)
    merged = merge(folder, adapter, tmp_path / "merged")
    weights = SharedWeights()
    await replies(folder, weights, adapter=str(adapters[1]))
    assert await replies(folder, weights, adapter=str(adapter)) == await replies(merged) != await replies(folder)
    for name, hanging in (("hanging", r"(\w|\w\w|\.)+\d"), ("long", "q_proj|" * 2_000), ("broken", "(q_proj")):
        for setting in MODULES:
            changed = altered(adapter, tmp_path / f"{name}-{setting}", **{setting: hanging})
            with pytest.raises(
                PreflightError, match=f"{setting} is .*this is no pattern, longer than 10,000 characters, or"
            ):
                await replies(folder, adapter=str(changed))


async def test_an_adapter_that_does_not_fit_leaves_the_next_model_of_its_base_unharmed(folder, adapters, tmp_path):
    weights = SharedWeights()
    broken = altered(adapters[0], tmp_path / "rank", r=7)
    with pytest.raises(PreflightError, match="does not fit"):
        await replies(folder, weights, adapter=str(broken))
    assert await replies(folder, weights) == await replies(folder)
    assert await replies(folder, weights, adapter=str(adapters[0])) == await replies(folder, adapter=str(adapters[0]))


def test_a_model_that_this_process_does_not_load_takes_no_adapter(adapters):
    for model in ("api:gpt-6-astra", "replay:answers.jsonl"):
        with pytest.raises(UsageError, match="--adapter is for models that this process loads"):
            open_model(model, ModelOptions(adapter=str(adapters[0])))


def test_a_model_folder_that_is_an_adapter_is_answered_with_the_command(folder, adapters):
    with pytest.raises(SnellenError) as caught:
        open_model(f"local:{adapters[0]}", ModelOptions()).identity()
    assert f"--model local:{folder} --adapter {adapters[0]}" in caught.value.hint


def test_a_configuration_that_is_no_file_or_has_no_end_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").symlink_to("/dev/zero")
    with pytest.raises(PreflightError, match=r"adapter_config\.json cannot be read: it is no regular file"):
        checkpoint.read_config(tmp_path, "adapter", "adapter_config.json")
    (tmp_path / "config.json").touch()
    os.truncate(tmp_path / "config.json", checkpoint.CONFIG_BYTES + 1)
    with pytest.raises(PreflightError, match=r"config\.json cannot be read: it is no regular file"):
        checkpoint.read_config(tmp_path, "adapter")
