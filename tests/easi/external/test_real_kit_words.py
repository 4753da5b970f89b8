"""Prompts with VLMEvalKit's imported words, part by part beside what the kit's own build_prompt makes of the same rows."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import string
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.spatial import kit_drawn
from easi.external.real_harnesses import checkout
from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.benchmarks.spatial.prompts import import_lmms_eval, import_vlmevalkit
from snellen.types import Text

pytestmark = pytest.mark.external

PANDAS = SimpleNamespace(isna=lambda cell: cell != cell)
"""What the kit asks of pandas in a prompt: whether a cell is missing."""

CLASSES = {place: (recipe.file, recipe.owner) for place, recipe in import_vlmevalkit.RECIPES.items()}
CLASSES |= {"vsi-debiased": CLASSES["vsi-bench"], "mmsi-video-bench": ("mmsibench.py", "MMSIVideoBench")}


def kit_class(folder: Path, place: str) -> Any:
    """The kit's class of a set, its own code run without the package: only bases of the same file, and no decorators."""
    file, owner = CLASSES[place]
    module = ast.parse((folder / file).read_text())
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    wanted = [owner, *(base.id for base in classes[owner].bases if isinstance(base, ast.Name) and base.id in classes)]
    kept: list[ast.stmt] = []
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name in wanted:
            node.bases = [base for base in node.bases if isinstance(base, ast.Name) and base.id in wanted]
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            texts = [
                one
                for one in node.body
                if isinstance(one, ast.Assign) and not any(isinstance(part, ast.Call) for part in ast.walk(one))
            ]
            node.body = [*texts, *methods]
            kept.append(node)
        elif isinstance(node, ast.Assign) and not any(isinstance(part, ast.Call) for part in ast.walk(node)):
            kept.append(node)
    space: dict[str, Any] = {"string": string, "pd": PANDAS, "ast": ast, "json": json, "os": os, "re": re}
    space["toliststr"] = _listed
    kept = [node for node in kept if not (isinstance(node, ast.ClassDef) and node.name != owner)] or kept
    for node in module.body:  # the bases stand before what is made of them
        if isinstance(node, ast.ClassDef) and node.name in wanted and node not in kept:
            kept.insert(0, node)
    exec(compile(ast.Module(kept, []), file, "exec"), space)
    return space[owner]


def _listed(value: Any) -> list[str]:
    """A cell as the kit's `toliststr` reads it."""
    if isinstance(value, str) and value.startswith("["):
        return [str(each) for each in ast.literal_eval(value)]
    return value if isinstance(value, list) else [value] * (value == value)


def read(table: Path) -> list[dict[str, Any]]:
    """The rows of a table; a cell without anything is missing, as pandas reads it."""
    csv.field_size_limit(sys.maxsize)
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [{name: cell or float("nan") for name, cell in row.items()} for row in rows]


def kit_parts(cls: Any, row: dict[str, Any], images: int, mode: str) -> list[str]:
    """What the kit sends for a row: texts, and `(image)` or `(video)`; `mode` is OmniSpatial's."""
    made = cls.__new__(cls)
    made.__dict__.update(meta_only=True, data_root="", prompt_mode=mode, nframe=1, fps=-1)
    cls.save_video_frames = lambda self, paths, *more: [["frame"]] * str(row).count("<video>")
    cls.parse_image_path = staticmethod(lambda value: value)
    if cls.__name__ == "OmniSpatialBench":  # the drawn table has a list where the kit's has a column for each
        row = {**row, **dict(zip(string.ascii_uppercase, ast.literal_eval(row["options"]), strict=False))}
    line = {"video": "", **row, "image_path": ["image"] * images}
    takes_video = "video_llm" in cls.build_prompt.__code__.co_varnames
    messages = made.build_prompt(line, video_llm=True) if takes_video else made.build_prompt(line)
    return [part["value"] if part["type"] == "text" else f"({part['type']})" for part in messages]


@pytest.mark.parametrize("place", sorted(CLASSES))
def test_imported_words_make_the_kits_own_prompts(place: str, tmp_path: Path) -> None:
    kit = checkout()
    words = tmp_path / "words.toml"
    words.write_text(import_lmms_eval.toml(import_vlmevalkit.read(kit)), encoding="utf-8")
    name, _, video = place.partition(", ")
    base, _, mode = name.partition("-") if name.startswith("omnispatial") else (name, "", "")
    data = kit_drawn.draw(base, tmp_path)
    tables = [table for table in sorted(data.glob("*.tsv")) if name != "site" or ("Video" in table.name) == bool(video)]
    rows = [row for table in tables for row in read(table)]
    member = f"site/{'video' if video else 'image'}" if name == "site" else name
    samples = list(find(member).samples(Data(path=data, options={"prompts": str(words)})))
    assert len(samples) == len(rows) > 2
    cls = kit_class(import_vlmevalkit.data_sets(kit), place)
    for sample, row in zip(samples, rows, strict=True):
        ours = [p.text if isinstance(p, Text) else f"({type(p).__name__.lower()})" for p in sample.prompt.parts]
        images = ours.count("(image)")
        theirs = kit_parts(cls, row, images, mode.replace("-", "_") or "manual_cot")
        if name == "mmsi-video-bench":  # which frames are shown is compared elsewhere
            ours, theirs = ([part for part in parts if part[0] != "("] for parts in (ours, theirs))
        assert ours == theirs, sample.id
