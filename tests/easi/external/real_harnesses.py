"""The real lmms-eval and VLMEvalKit, where the environment names them, and three benchmarks drawn where they look for data.

`make test-external` installs both and sets the variables. Nothing is fetched: pictures and clips are drawn, servers listen on
loopback, and the local model is an untrained one on the CPU.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.spatial import kit_drawn, official_drawn
from models import tiny_families
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.easi.external import HarnessSettings

PYTHON = {"lmms-eval": "SNELLEN_TEST_LMMS_PYTHON", "vlmevalkit": "SNELLEN_TEST_KIT_PYTHON"}
KIT = "SNELLEN_TEST_KIT"
BENCHMARKS = {"blink": "letters", "spar-bench": "numbers", "vsi-bench": "video frames"}
SPOKEN = "ABCD0123456789."
TOKENS = 2
"""What the tiny model says: a letter or a number, so that rules find something to read."""
PICTURES = """
import sys
from datasets import Dataset, Image, Sequence
picture = {"bytes", "path"}
for path in sys.argv[1:]:
    rows = Dataset.from_parquet(path)
    kinds = rows.features.copy()
    for name, kind in rows.features.items():
        if isinstance(kind, dict) and set(kind) == picture:
            kinds[name] = Image()
        elif isinstance(getattr(kind, "feature", None), dict) and set(kind.feature) == picture:
            kinds[name] = Sequence(Image())
    rows.cast(kinds).to_parquet(path)
"""
"""The hub's tables say which columns are pictures; the drawn ones are told so by the harness's own library."""


def python(harness: str) -> Path:
    """Return the harness's interpreter; skip the test where there is none."""
    named = os.environ.get(PYTHON[harness], "")
    if not named:
        pytest.skip(f"{harness} is not tried: {PYTHON[harness]} names no interpreter with it (make test-external)")
    return Path(named)


def checkout() -> Path:
    """Return the checkout of VLMEvalKit; skip the test where none is named."""
    named = os.environ.get(KIT, "")
    if not named:
        pytest.skip(f"VLMEvalKit is not tried: {KIT} names no checkout (VLMEVALKIT=FOLDER make test-external)")
    return Path(named).absolute()


class TriedModel(NamedTuple):
    """A model as one harness is told of it: name, arguments and further options."""

    name: str
    args: str = ""
    extra: tuple[str, ...] = ()


def api_model(harness: str, url: str) -> TriedModel:
    """Return the harness's own client of OpenAI-compatible servers."""
    if harness == "lmms-eval":
        return TriedModel("openai", f"model_version=stub-vlm,base_url={url}")
    return TriedModel("stub-vlm", extra=("--base-url", url, "--api-nproc", "2", "--retry", "1"))


def tiny_model(harness: str, folder: Path) -> TriedModel:
    """Return the harness's Qwen2.5-VL with an untrained checkpoint, written into a folder, on the CPU."""
    (family,) = (one for one in tiny_families.FAMILIES if one.name == "Qwen2.5-VL")
    path = tiny_families.build(family, folder)
    vocabulary = json.loads((path / "tokenizer.json").read_text())["model"]["vocab"]
    config = json.loads((path / "generation_config.json").read_text())
    config["suppress_tokens"] = sorted(set(vocabulary.values()) - {vocabulary[character] for character in SPOKEN})
    (path / "generation_config.json").write_text(json.dumps(config))
    if harness == "lmms-eval":
        pixels = "min_pixels=3136,max_pixels=12544"
        on_cpu = f"pretrained={path},device=cpu,device_map=cpu,attn_implementation=eager,{pixels}"
        return TriedModel("qwen2_5_vl", on_cpu, extra=("--gen_kwargs", f"max_new_tokens={TOKENS}"))
    return TriedModel("tiny-qwen2.5-vl")


def settings(harness: str, home: Path, model: TriedModel) -> HarnessSettings:
    """Return how a harness is driven whose data lie in a folder."""
    return HarnessSettings(
        model=model.name,
        model_args=model.args,
        extra=model.extra,
        python=python(harness),
        home=home / "kit",
        dataset_dir=home / "LMUData",
        out=home / "out",
        accelerate=False,
        time_limit_s=600,
    )


def lmms_data(home: Path, interpreter: Path, each: dict[str, int]) -> None:
    """Draw benchmarks in the folder `home`, named as lmms-eval names the authors' repositories; clips in its cache."""
    tables: list[str] = []
    for name, count in each.items():
        place = home / TASKS[name].hub
        shutil.copytree(official_drawn.draw(name, home / "drawn", each=count), place)
        tables += map(str, place.rglob("*.parquet"))
        _CARDS.get(name, lambda place: None)(place)
    for archive in (home / "nyu-visionx" / "VSI-Bench").glob("*.zip"):
        zipfile.ZipFile(archive).extractall(home / "hub" / "vsibench")
    subprocess.run([interpreter, "-c", PICTURES, *tables], check=True, capture_output=True, timeout=600)


def _blink_card(place: Path) -> None:
    names = sorted(folder.name for folder in place.iterdir() if folder.is_dir())
    _card(place, {name: (f"{name}/val-*", "val") for name in names})


def _vsi_card(place: Path) -> None:
    _card(place, {"full": ("test.parquet", "test"), "debiased": ("test_debiased.parquet", "test")})


def _card(place: Path, configs: dict[str, tuple[str, str]]) -> None:
    listed = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: {split}\n    path: {path}\n"
        for name, (path, split) in configs.items()
    )
    (place / "README.md").write_text(f"---\nconfigs:\n{listed}---\n")


_CARDS: dict[str, Callable[[Path], None]] = {"blink": _blink_card, "vsi-bench": _vsi_card}


def kit_data(home: Path, names: tuple[str, ...]) -> None:
    """Draw the kit's tables in `home/LMUData` and clips in its cache; `home/kit` starts the checkout with both allowed."""
    for name in names:
        drawn = kit_drawn.draw(name, home / "drawn")
        for table in drawn.glob("*.tsv"):
            (home / "LMUData").mkdir(exist_ok=True)
            shutil.copy(table, home / "LMUData")
    cache = home / "hub" / "hub" / "datasets--nyu-visionx--VSI-Bench"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("0" * 40)
    clips = cache / "snapshots" / ("0" * 40)
    for archive in (home / "drawn" / "vsi-bench").glob("*.zip"):
        zipfile.ZipFile(archive).extractall(clips)
    (clips / ".vsibench_extracted").write_text("done")
    (home / "kit").mkdir()
    shutil.copy(Path(__file__).with_name("kit_start.py"), home / "kit" / "run.py")
    for part in ("vlmeval", ".git"):
        (home / "kit" / part).symlink_to(checkout() / part)
