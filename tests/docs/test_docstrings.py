"""Docstrings name the parameters that there are, and their examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

import snellen

SOURCE = Path(str(snellen.__file__)).parent
SECTION = re.compile(r"\n\s*(?:Returns|Raises|Yields|Source|Attributes)s?:")
FILES = sorted(SOURCE.rglob("*.py"))
WITH_EXAMPLES = [path for path in FILES if ">>> " in path.read_text(encoding="utf-8")]


def documented(path: Path) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield (name, parameters that the Args section names, parameters that there are) of functions and classes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        text = ast.get_docstring(node) or ""
        function = node if not isinstance(node, ast.ClassDef) else initializer(node)
        if "Args:" not in text or function is None:
            continue
        section = SECTION.split(text.split("Args:")[1])[0]
        names = {name for line in re.findall(r"(?m)^    (\w+(?:, \w+)*): ", section) for name in re.split(", ", line)}
        arguments = function.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        own = {parameter.arg for parameter in parameters if parameter is not None}
        yield node.name, names, own | settings(path, arguments.kwarg)


def settings(path: Path, keywords: ast.arg | None) -> set[str]:
    """Return the names that `**settings: Unpack[TypedDict]` stands for: the keys of the TypedDict."""
    if keywords is None or keywords.annotation is None:
        return set()
    unpacked = re.fullmatch(r"Unpack\[(\w+)\]", ast.unparse(keywords.annotation))
    if unpacked is None:
        return set()
    return set(get_type_hints(getattr(imported(path), unpacked[1])))


def imported(path: Path) -> ModuleType:
    """Import the module of a source file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def initializer(node: ast.ClassDef) -> ast.FunctionDef | None:
    """Return the class's own `__init__`, if it has one."""
    functions = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    return functions[0] if functions else None


def test_docstrings_name_the_parameters_that_there_are() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}: {name}: {', '.join(sorted(named - parameters))}"
        for path in FILES
        for name, named, parameters in documented(path)
        if named - parameters
    ]
    assert not wrong, "\n".join(wrong)


def test_settings_count_as_parameters_by_their_own_names_only() -> None:
    parameters = {name: set(there) for name, _, there in documented(SOURCE / "runs" / "evaluate.py")}
    assert {"repeats", "max_cost", "base_url"} <= parameters["evaluate"]
    assert "repeats" not in parameters["rerun"] and "max_costs" not in parameters["evaluate"]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_in_docstrings_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(imported(path), extraglobs={"snellen": snellen}, optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed
