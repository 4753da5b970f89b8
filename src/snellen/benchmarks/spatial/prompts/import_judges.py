"""Judge prompts of VLMEvalKit and of VLM2-Bench's authors, read out of a checkout, as a file of rubrics for `--rubric`.

Python files are parsed, and nothing of them is run. The function that sends a prompt must be one that is known here by a digest
(`import_vlmevalkit.layout`): it says which model is asked, with which limits, and how the reply is read. The digest of VLM2-Bench's
covers the prompts' places too.

Source: EASI's VLMEvalKit at 5f78512, `vlmeval/dataset/utils`; VLM2-Bench at 7624b77, `code/pc/video/eval`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.benchmarks.spatial.prompts.import_vlmevalkit import assigned, data_sets, layout, parsed
from snellen.errors import DataError

KIT_JUDGE, AUTHORS_JUDGE = "gpt-4o-2024-11-20", "gpt-4o"
VIDEO_SCRIPT = Path("code/pc/video/eval/eval_pc-v_open-ended.py")
GET_VLM2 = "Give the folder of a checkout of github.com/vlm2-bench/VLM2-Bench: --path DIR."
_PLACE = re.compile(r"\{\{|\}\}|\{(\w*)\}")
_SCORE = {"marker": "Score:", "reask": False}
_GRADE = {
    "field": "grade", "labels": {"A": 1.0, "B": 0.0, "C": 0.0}, "reason": "extracted", "line": True, "extracts": True,
    "reask": False,
}  # fmt: skip


class JudgeRecipe(Struct, frozen=True):
    """Where a judge's prompt is, and what its rubric is for.

    Attributes:
        file: below the checkout's folder of data sets, or the checkout.
        text: the name that the prompt is given, in `function` or in the file.
        function: the function that is known by a digest.
        layouts: digests of that function without the text.
        places: our places by the prompt's: names, or numbers from 0 where they have none.
        names: the benchmarks, or rubrics of the package, that the rubric is for.
        verdict: of the rubric.
        max_tokens: of the rubric.
    """

    file: str
    text: str
    function: str
    layouts: Sequence[str]
    places: Mapping[str, str]
    names: Sequence[str]
    verdict: Mapping[str, Any]
    max_tokens: int | None = None


_MATCH_PLACES = {"0": "row_question", "1": "row_options", "2": "reply"}
_MATCH_FILE = "utils/multiple_choice.py"
KIT: Mapping[str, JudgeRecipe] = {
    "match": JudgeRecipe(
        _MATCH_FILE, "tmpl", "build_prompt", ("288852874f0a776e",), _MATCH_PLACES, ("3dsrbench", "cv-bench"),
        {"option": True, "reask": False},
    ),
    "match-blink": JudgeRecipe(
        _MATCH_FILE, "tmpl", "build_prompt_blink", ("288852874f0a776e",), _MATCH_PLACES, ("blink",), {"option": True, "reask": False},
    ),
    "extract": JudgeRecipe(
        "utils/spatial_bench/llm_extract.py", "GENERIC_EXTRACT_JUDGE_PROMPT", "call_llm_extract", ("ffeeedf644d30830", "92ae6b8b5ccf52fb"),
        {"question": "row_question", "options_block": "row_options_block", "gold_answer": "row_answer", "llm_response": "reply"},
        ("vsi-bench", "vsi-debiased", "mmsi-bench", "mindcube-tiny", "viewspatial", "site", "embspatial", "mmsi-video-bench",
         "omnispatial", "spar-bench", "erqa", "dsr-bench", "stare", "spatialviz", "sti-bench"),
        _GRADE,
    ),
}  # fmt: skip
"""Prompts of VLMEvalKit's judges for the sets that its classes use them for."""
VLM2: Mapping[str, JudgeRecipe] = {
    name: JudgeRecipe(
        str(VIDEO_SCRIPT), text, "process_file", ("d5b6120db4d90207",), {"description": "reply"}, (name,),
        {**_SCORE, "range": [0, highest]}, 300,
    )
    for name, text, highest in (("vlm2-ab", "prompt_ab", 1), ("vlm2-aba", "prompt_aba", 2))
}  # fmt: skip


class ImportedRubrics(Struct, frozen=True):
    """The rubrics of a checkout as text of a TOML file, the names that they are for, and prompts that could not be read."""

    toml: str
    names: tuple[str, ...]
    remarks: tuple[str, ...]


def of_kit(path: Path, source: str) -> ImportedRubrics:
    """Return VLMEvalKit's judge prompts; those that cannot be read are remarks. `source` names its version.

    Raises:
        DataError: it is no checkout of VLMEvalKit.
    """
    return _rubrics(data_sets(path), KIT, KIT_JUDGE, f"{source}, {{file}}: {{where}}")


def of_vlm2(path: Path) -> ImportedRubrics:
    """Return the judge prompts of VLM2-Bench's authors.

    Raises:
        DataError: there is no such script, or a prompt cannot be read or is sent in an unknown way.
    """
    if not (path / VIDEO_SCRIPT).is_file():
        raise DataError(f"{path}: there is no {VIDEO_SCRIPT}", GET_VLM2)
    imported = _rubrics(path, VLM2, AUTHORS_JUDGE, "VLM2-Bench's authors, {file}: {where}")
    if imported.remarks:
        raise DataError("; ".join(imported.remarks), "Report it: the file may be newer than this version of Snellen.")
    return imported


def _rubrics(folder: Path, recipes: Mapping[str, JudgeRecipe], judge: str, source: str) -> ImportedRubrics:
    tables: list[str] = []
    names: list[str] = []
    remarks: list[str] = []
    for key, recipe in recipes.items():
        try:
            template = _template(folder / recipe.file, recipe)
        except (DataError, RecursionError) as error:
            remarks.append(
                f"judge prompt {recipe.text} of {recipe.function}: {getattr(error, 'message', 'nested too deeply')}"
            )
            continue
        names += recipe.names
        fields = {
            "names": list(recipe.names), "judge": judge, "verbatim": True, "max_tokens": recipe.max_tokens,
            "source": source.format(file=recipe.file, where=recipe.function if recipe.text == "tmpl" else recipe.text), "template": template,
        }  # fmt: skip
        tables += [_toml(f"rubrics.{key}", fields), _toml(f"rubrics.{key}.verdict", recipe.verdict)]
    return ImportedRubrics("\n".join(tables), tuple(names), tuple(remarks))


def _toml(name: str, fields: Mapping[str, Any]) -> str:
    rows = [f"[{name}]"]
    for key, value in fields.items():
        if isinstance(value, dict):
            rows.append(f"{key} = {{ {', '.join(f'{label} = {score}' for label, score in value.items())} }}")
        elif value is not None:
            rows.append(f"{key} = {json.dumps(value, ensure_ascii=True)}")
    return "\n".join(rows) + "\n"


def _template(file: Path, recipe: JudgeRecipe) -> str:
    """Return a judge's prompt with our places. Raises DataError for an unknown layout or an unknown place."""
    module = parsed(file)
    function = next(
        (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == recipe.function), None
    )
    if function is None:
        raise DataError(f"{file.name} has no function {recipe.function}")
    known = {**dict(assigned(module.body)), **dict(assigned(ast.walk(function)))}
    text = known.get(f"{recipe.text}#1")
    if text is None:
        raise DataError(f"{file.name} has no text {recipe.text}")
    digest = layout(function, {id(text)})
    if digest not in recipe.layouts:
        raise DataError(f"{file.name}: {recipe.function} is laid out in a way that is not known here ({digest})")
    seen: list[str] = []

    def place(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        name = found[1] or str(len(seen))
        seen.append(name)
        if name not in recipe.places:
            raise DataError(f"{file.name}: {recipe.text} has an unknown place {found[0]}")
        return f"{{{recipe.places[name]}}}"

    template = _PLACE.sub(place, str(text.value))
    if sorted(seen) != sorted(recipe.places):
        raise DataError(f"{file.name}: {recipe.text} has the places {seen}; expected {list(recipe.places)}")
    return template
