"""The words of VLMEvalKit's own prompts, read out of a checkout of it or of EASI, as a file for `--prompts`.

Its Python files are parsed, and nothing of them is run. A prompt is put together in `build_prompt` of a data set's class. Of
that function the texts that stand in our templates are taken; the rest of it, its layout, must be one that is known here by a
digest: otherwise the texts might stand elsewhere, so that the set is left out and the user is told.

Source: VLMEvalKit at e8e78f05 and EASI's copy of it at 5f78512, `vlmeval/dataset`.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, structs

from snellen.benchmarks.spatial.prompts.import_lmms_eval import Imported
from snellen.benchmarks.spatial.prompts.words import default_words
from snellen.benchmarks.table.set_sections import Form
from snellen.errors import DataError

FORM = "vlmevalkit"
LONGEST_FILE = 1 << 21
HOW_TO_GET = "Give the folder of a checkout of VLMEvalKit, or of EASI with its submodule: --path DIR."
_NAMED = re.compile(r"<(\w+)(?:#(\d+))?>")
_SITE = "Question: {question}\nOptions:\n{options}\n<post_prompt>"
_CHOICE = "[[Hint: {hint}\n]]Question: {question}\n[[Options:\n{options}\n<prompt+#1>]]"


class Recipe(Struct, frozen=True):
    """Where the words of one of a set's templates are in VLMEvalKit.

    Attributes:
        file: in `vlmeval/dataset`.
        owner: the class that has `build_prompt`.
        templates: our templates by name, with `<name>` for a text: a variable of the function (`#2`: its second one), an
            attribute of the class, or a constant of the file; `<prompt+>` is a text that is added to `prompt` or ends it.
        layouts: digests of the function without these texts.
    """

    file: str
    owner: str
    templates: Mapping[str, str]
    layouts: tuple[str, ...]


RECIPES: Mapping[str, Recipe] = {
    "vsi-bench": Recipe(
        "vsibench.py",
        "VsiBench",
        {
            "text": "<OFFICAL_PRE_PROMPT>\n{question}\n{options}\n<OFFICAL_MCQ_POST_PROMPT>",
            "number": "<OFFICAL_PRE_PROMPT>\n{question}\n<OFFICAL_VQA_POST_PROMPT>",
        },
        (
            "a46b5aaf28dda80b",
            "528751d19eb89c00",
        ),
    ),
    "mmsi-bench": Recipe(
        "mmsibench.py",
        "MMSIBench",
        {"text": "[[Hint: {hint}\n]]{question}\n[[Options: {options}]]\n<post_prompt>"},
        ("d593612bea148649",),
    ),
    "mindcube-tiny": Recipe("mindcubebench.py", "MindCubeBench", {"text": "{input_prompt}"}, ("dc9bb97fecb406ef",)),
    "viewspatial": Recipe(
        "viewspatialbench.py",
        "ViewSpatialBench",
        {"text": "Question: {question}\nChoices: {choices}\n<post_prompt>"},
        ("d198588393f598dc",),
    ),
    "site": Recipe("sitebench.py", "SiteBenchImage", {"text": _SITE}, ("958fd344bd83bf2c",)),
    "site, videos": Recipe(
        "sitebench.py", "SiteBenchVideo", {"video": f"<pre_prompt>\n{_SITE}"}, ("6b762226dd0f50c6",)
    ),
    "blink": Recipe("image_mcq.py", "ImageMCQDataset", {"text": _CHOICE}, ("1ad3c6e549fbbce5",)),
    "3dsrbench": Recipe("image_mcq.py", "ImageMCQDataset", {"text": _CHOICE}, ("1ad3c6e549fbbce5",)),
    "embspatial": Recipe("embspatialbench.py", "EmbSpatialBench", {"text": _SITE}, ("ad9fa4407530a6ea",)),
    "omnispatial": Recipe(
        "omnispatialbench.py",
        "OmniSpatialBench",
        {"text": "<MANUAL_COT_SYSTEM_PROMPT>\n<RE_FORMAT>\n\n{question}\n{options}"},
        ("5c9b267d6f94cff9",),
    ),
    "omnispatial-default": Recipe(
        "omnispatialbench.py",
        "OmniSpatialBench",
        {"text": "<DEFAULT_SYSTEM_PROMPT>\n<RE_FORMAT>\n\n{question}\n{options}"},
        ("5c9b267d6f94cff9",),
    ),
    "omnispatial-zeroshot-cot": Recipe(
        "omnispatialbench.py",
        "OmniSpatialBench",
        {"text": "<ZERO_SHOT_COT_SYSTEM_PROMPT>\n<RE_FORMAT>\n\n{question}\n{options}"},
        ("5c9b267d6f94cff9",),
    ),
    "omnispatial-direct": Recipe(
        "omnispatialbench.py", "OmniSpatialBench", {"text": "{question}\n{options}<prompt+>"}, ("fcf4591fce0e0189",)
    ),
    "spar-bench": Recipe(
        "sparbench.py",
        "SparBench",
        {
            "text": "\n{question}\n<post_prompt#2>\n<post_prompt2>",
            "number": "\n{question}\n<post_prompt>",
            "short": "\n{question}\n<post_prompt1>\n<post_prompt2#2>",
            "boxes": "\n{question}\n<post_prompt#3>\n<post_prompt2>",
        },
        ("097ae5d15a3db0dd",),
    ),
}
"""By set; `site, videos` is the other half of SITE. VSI-Debiased is asked in VSI-Bench's words."""
IN_ROWS = ("mmsi-video-bench",)
"""Sets whose words stand in the rows of their tables."""


def read(path: Path) -> Imported:
    """Return the words of VLMEvalKit for the spatial benchmarks of EASI's payload.

    Args:
        path: a checkout of VLMEvalKit, or of EASI with VLMEvalKit in it.

    Raises:
        DataError: it is none, or no set's prompt could be read.
    """
    folder = data_sets(path)
    words: dict[str, Form] = {}
    faults: dict[str, str] = {}
    for place, recipe in RECIPES.items():
        name = place.partition(",")[0]
        try:
            texts = templates(folder / recipe.file, recipe)
            words[name] = structs.replace(words.get(name) or default_words(FORM, name), **texts)
        except DataError as error:
            faults[name] = error.message
        except RecursionError:
            faults[name] = f"{recipe.file} is nested too deeply"
    words = {name: each for name, each in words.items() if name not in faults}
    if not words:
        raise DataError(f"{folder}: no prompt of it could be read: {next(iter(faults.values()))}", HOW_TO_GET)
    words |= {name: default_words(FORM, name) for name in IN_ROWS}
    remarks = [f"{name}: {why}; the file has no words for it" for name, why in faults.items()]
    return Imported(words, tuple(faults), tuple(remarks), version_of(folder), FORM)


def version_of(folder: Path) -> str:
    """Return VLMEvalKit and its version, as the package says it."""
    with contextlib.suppress(DataError):
        for name, node in assigned(parsed(folder.parent / "__init__.py").body):
            if name == "__version__#1":
                return "VLMEvalKit " + str(node.value)
    return "VLMEvalKit"


def templates(file: Path, recipe: Recipe) -> dict[str, str]:
    """Return a recipe's templates with the texts of a file.

    Raises:
        DataError: the file cannot be read or has no such class or text, or its prompt is laid out in an unknown way.
    """
    module = parsed(file)
    owner = next((node for node in module.body if isinstance(node, ast.ClassDef) and node.name == recipe.owner), None)
    function = (
        next((node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "build_prompt"), None)
        if owner is not None
        else None
    )
    if owner is None or function is None:
        raise DataError(f"{file.name} has no {recipe.owner}.build_prompt")
    known = [dict(assigned(scope)) for scope in (ast.walk(function), owner.body, module.body)]
    used: dict[str, ast.Constant] = {}
    for template in recipe.templates.values():
        for name, number in _NAMED.findall(template.replace("+", "_added")):
            key = f"{name}#{number or 1}"
            node = next((scope[key] for scope in known if key in scope), None)
            if node is None:
                raise DataError(f"{file.name}: {recipe.owner} has no text {key}")
            used[key] = node
    digest = layout(function, {id(node) for node in used.values()})
    if digest not in recipe.layouts:
        raise DataError(
            f"{file.name}: {recipe.owner}.build_prompt is laid out in a way that is not known here ({digest})"
        )
    for key, node in used.items():
        if re.search(r"\{\w+\}|\[\[", str(node.value)):
            raise DataError(f"{file.name}: {key} of {recipe.owner} has marks of our templates in it")
    return {
        kind: _NAMED.sub(lambda named: str(used[f"{named[1]}#{named[2] or 1}"].value), template.replace("+", "_added"))
        for kind, template in recipe.templates.items()
    }


def layout(function: ast.FunctionDef, blank: set[int]) -> str:
    """Return a digest of a function without its docstring and without the constants of these ids."""

    def told(node: object) -> object:
        if isinstance(node, ast.AST):
            if id(node) in blank:
                return "text"
            fields = [
                (name, told(value)) for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment")
            ]
            return [type(node).__name__, *((name, value) for name, value in fields if value not in (None, []))]
        return [told(each) for each in node] if isinstance(node, list) else repr(node) if node is not None else None

    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    return sha256(repr([told(function.args), told(body)]).encode()).hexdigest()[:16]


def assigned(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[tuple[str, ast.Constant]]:
    """Yield `name#1`, `name#2` and so on for the texts that a name is given, `name_added#1` for those added to it."""
    found = [node for node in nodes if isinstance(node, ast.Assign | ast.AugAssign)]
    counts: dict[str, int] = {}
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        last = node.value.right if isinstance(node.value, ast.BinOp) else node.value
        if isinstance(target, ast.Name) and isinstance(last, ast.Constant) and isinstance(last.value, str):
            name = target.id + "_added" * (isinstance(node, ast.AugAssign) or last is not node.value)
            counts[name] = counts.get(name, 0) + 1
            yield f"{name}#{counts[name]}", last


def data_sets(path: Path) -> Path:
    """Return the folder of VLMEvalKit's data sets in a checkout of it or of EASI. Raises DataError without one."""
    for folder in (path, path / "VLMEvalKit", path / "vlmeval", path / "VLMEvalKit" / "vlmeval"):
        for within in (folder / "vlmeval" / "dataset", folder / "dataset"):
            if (within / "image_mcq.py").is_file():
                return within
    raise DataError(f"{path}: there are no data sets of VLMEvalKit (vlmeval/dataset)", HOW_TO_GET)


def parsed(file: Path) -> ast.Module:
    """Return a file's syntax tree. Raises DataError where it cannot be read."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(LONGEST_FILE + 1)
        if len(raw) > LONGEST_FILE:
            raise DataError(f"{file}: more than {LONGEST_FILE:,} bytes", HOW_TO_GET)
        return ast.parse(raw)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{file.name} cannot be read as Python: {error}", HOW_TO_GET) from error
