"""What preflight says about a checkpoint: usable, or why not and what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_vlm
import torch

from servers.hub import HubHandler
from servers.loopback import LoopbackServer
from snellen.errors import PreflightError
from snellen.models.base import ModelOptions
from snellen.models.local.checkpoint import pick_device, pick_dtype, stored_dtype
from snellen.models.local.model import open_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.set_num_threads(1)
    return tiny_vlm.build(tmp_path_factory.mktemp("models") / "whole")


@pytest.fixture
def folder(whole, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


async def refusal(name: str | Path, **options: object) -> str:
    model = open_model(str(name), ModelOptions(**options))  # type: ignore[arg-type]
    with pytest.raises(PreflightError) as caught:
        await model.preflight()
    await model.close()
    return str(caught.value)


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


async def test_a_folder_that_is_not_there_is_named(tmp_path):
    assert "there is no model folder" in await refusal(tmp_path / "missing")


async def test_a_folder_without_config_says_what_is_missing(tmp_path):
    assert "config.json" in await refusal(tmp_path)


async def test_a_model_of_another_architecture_is_refused_by_its_type(folder):
    edit(folder, model_type="bert")
    assert "not an image-text-to-text model: model_type 'bert'" in await refusal(folder)


async def test_a_checkpoint_with_code_of_its_own_is_refused_and_the_code_not_run(folder):
    edit(folder, model_type="mine", auto_map={"AutoModelForImageTextToText": "modeling.Mine"})
    (folder / "modeling.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    assert "which Snellen never runs" in await refusal(folder)
    assert not (folder / "ran").exists()


async def test_pickled_weights_are_never_opened(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    assert "pytorch_model.bin, a pickle" in await refusal(folder)


async def test_a_folder_without_weights_says_so(folder):
    (folder / "model.safetensors").unlink()
    assert "no safetensors weights" in await refusal(folder)


async def test_weights_cut_short_are_a_damaged_checkpoint(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    assert "cannot be loaded" in await refusal(folder)


async def test_missing_tensors_are_never_filled_with_random_numbers(folder):
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    lost = sorted(name for name in tensors if "layers.1" in name)[0]
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, path, {"format": "pt"})
    assert "1 tensors are missing" in await refusal(folder)


async def test_a_model_without_a_chat_template_cannot_be_asked(tmp_path):
    assert "no chat template" in await refusal(tiny_vlm.build(tmp_path / "base", template=False))


async def test_a_torchvision_of_another_torch_is_named(folder, tmp_path, monkeypatch):
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    assert "must be built for the installed torch" in await refusal(folder)


async def test_a_folder_has_no_revision(folder):
    assert "has no revision" in await refusal(folder, revision="v2")


async def test_a_cuda_device_that_is_not_there_is_refused(folder):
    assert "torch sees" in await refusal(folder, device="cuda:99")


def test_the_identity_of_a_folder_is_its_content_and_not_its_place(whole, folder):
    def identity(place):
        return open_model(str(place), ModelOptions()).identity()

    (folder / "README.md").write_text("a note")
    assert identity(folder) == identity(whole)
    assert str(folder.parent) not in json.dumps(identity(folder))
    (folder / "chat_template.jinja").write_text(tiny_vlm.TEMPLATE + " ")
    assert identity(folder) != identity(whole)


def test_precision_is_float32_on_a_processor_and_the_checkpoints_own_on_an_accelerator(monkeypatch):
    assert pick_dtype("auto", "cpu", "float16") == "float32"
    assert pick_dtype("auto", "cuda", "float16") == "float16"
    assert pick_dtype("bfloat16", "cpu", "float32") == "bfloat16"
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    assert pick_dtype("auto", "cpu", "bfloat16") == "bfloat16"
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    assert pick_dtype("auto", "cpu", "bfloat16") == "float32"
    assert stored_dtype({"text_config": {"torch_dtype": "bfloat16"}}) == "bfloat16"
    assert pick_device("cpu") == "cpu"


class Hub(HubHandler):
    """As much of the hub's protocol as its own client asks for: `owner/good`, `owner/gated`, `owner/text`."""

    folder: Path

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        repo = "/".join(path.removeprefix("/api/models").strip("/").split("/")[:2])
        if repo == "owner/gated":
            self.reply(403, b"{}", X_Error_Code="GatedRepo")
        elif repo not in ("owner/good", "owner/text"):
            self.reply(404, b"{}", X_Error_Code="RepoNotFound")
        elif path.startswith("/api/models/") and "/revision/v9" in path:
            self.reply(404, b"{}", X_Error_Code="RevisionNotFound")
        elif path.startswith("/api/models/"):
            names = [*sorted(file.name for file in self.folder.iterdir()), "pytorch_model.bin"]
            tree = [{"type": "file", "path": name, "size": self.size(name), "oid": name} for name in names]
            card = {"id": repo, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            self.reply(200, json.dumps(tree if "/tree/" in path else card).encode())
        else:
            data = (self.folder / Path(path).name).read_bytes()
            if repo == "owner/text" and path.endswith("config.json"):
                data = b'{"model_type": "bert"}'
            self.reply(200, data, ETag=f'"{len(data)}-{Path(path).name}"', X_Repo_Commit=COMMIT)

    def size(self, name: str) -> int:
        path = self.folder / name
        return path.stat().st_size if path.exists() else 1


@pytest.fixture(scope="module")
def hub(whole):
    with LoopbackServer(type("TinyHub", (Hub,), {"folder": whole})) as server:
        yield server.origin


ASK = """
import asyncio, json, sys
from snellen.errors import PreflightError
from snellen.models.base import ModelOptions
from snellen.models.local.model import open_model

async def outcome(name, revision=None):
    model = open_model(name, ModelOptions(revision=revision))
    try:
        await model.preflight()
        return model.identity()
    except PreflightError as error:
        return str(error)
    finally:
        await model.close()

print(json.dumps([asyncio.run(outcome(*asked)) for asked in json.loads(sys.argv[1])]))
"""


def outcomes(asked: list[list[str]], **environment: str) -> list[object]:
    """Run in a process of its own: the hub's client reads its environment when it is imported."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(asked)],
        env=clean | {"OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: list[object] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_a_hub_model_is_fetched_without_its_pickles_and_known_by_its_commit(hub, tmp_path):
    asked = [["owner/good"], ["owner/gated"], ["owner/unknown"], ["owner/text"], ["owner/good", "v9"]]
    good, gated, unknown, text, revision = outcomes(asked, HF_ENDPOINT=hub, HF_HOME=str(tmp_path))
    assert isinstance(good, dict)
    assert (good["repo"], good["commit"], good["dtype"]) == ("owner/good", COMMIT, "float32")
    assert not list(tmp_path.rglob("*.bin"))
    assert "access is granted by its owner" in str(gated)
    assert "no such model" in str(unknown)
    assert "not an image-text-to-text model: model_type 'bert'" in str(text)
    assert not list(tmp_path.rglob("models--owner--text/snapshots/*/*.safetensors"))
    assert "no revision 'v9'" in str(revision)
    # And now without a network: what is in the cache is used, what is not is named.
    cached, absent = outcomes([["owner/good"], ["owner/other"]], HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert cached == good
    assert "HF_HUB_OFFLINE" in str(absent)


async def test_a_text_only_checkpoint_is_refused_by_that_name_and_with_what_to_use(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    small = LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=64,
    )  # fmt: skip
    LlamaForCausalLM(small).save_pretrained(tmp_path / "text")
    with pytest.raises(PreflightError, match="text-only model") as caught:
        await open_model(str(tmp_path / "text"), ModelOptions()).preflight()
    assert "LlamaForCausalLM" in caught.value.message and "takes no images" in caught.value.message
    assert "local:Qwen/" in caught.value.hint
