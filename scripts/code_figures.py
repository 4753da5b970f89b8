"""Print figures of the code base: size, layers, names, docstrings, documentation.

`python scripts/code_figures.py` measures the working tree; `--rev REV` measures a commit; `--before REV` prints both
side by side. The figures describe, they do not gate: CI prints them.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VAGUE = frozenset(["found", "one", "said", "asked", "shown", "held", "told", "kept", "given", "thing", "what"])
OPENINGS = ("What", "Whether", "How", "Where")
SHORT = 30  # non-blank lines; a file of at most this many is counted as short


def bindings(tree: ast.AST) -> Iterator[str]:
    """Yield each name that a module binds: assignments, loops, arguments, comprehensions, `with` and `except`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def parameters(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the number of parameters of each function, with its name and line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)
            yield count, f"{node.name}:{node.lineno}"


def imported(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a module imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def sentences(markdown: str) -> Iterator[int]:
    """Yield the number of words of each sentence of running text: no code, tables, headings or link targets."""
    text = re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", text):
        prose = block.strip()
        if not prose or prose.startswith(("#", "|", "---", "<", "???", "!!!")):
            continue
        prose = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", prose)
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\d])", " ".join(prose.split())):
            words = re.findall(r"[\w'%.-]*\w", sentence)
            if len(words) >= 3:
                yield len(words)


def layers(pyproject: str) -> int:
    """Count the layers of the first import contract."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    return len(contracts[0]["layers"])


def _module(path: Path, source: Path) -> str:
    parts = list(path.relative_to(source.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def measure(root: Path) -> dict[str, object]:
    """Measure the checkout at `root`. Raises SyntaxError for a module that Python cannot parse."""
    source = root / "src" / "snellen"
    files = sorted(source.rglob("*.py"))
    modules = {_module(path, source) for path in files}
    names: Counter[str] = Counter()
    classes: defaultdict[str, set[str]] = defaultdict(set)
    openings = total_docstrings = lines = non_blank = short = 0
    longest: tuple[int, str] = (0, "")
    arrows: set[tuple[str, str]] = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        names.update(bindings(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].add(str(path))
        for docstring in docstrings(tree):
            total_docstrings += 1
            openings += docstring.split(None, 1)[0].rstrip(",.:") in OPENINGS
        longest = max([longest, *((count, f"{path.relative_to(source)}:{name}") for count, name in parameters(tree))])
        filled = sum(1 for line in text.splitlines() if line.strip())
        lines += len(text.splitlines())
        non_blank += filled
        short += filled <= SHORT and path.name not in ("__init__.py", "__main__.py")
        module = _module(path, source)
        arrows |= {
            (_room(module), _room(target))
            for target in imported(tree, modules)
            if target.startswith("snellen.") and _room(target) != _room(module) and module != "snellen"
        }
    pages = [page.read_text("utf-8") for page in sorted((root / "docs").glob("*.md"))]
    words = [count for page in pages for count in sentences(page)]
    repeated = Counter({name: len(places) for name, places in classes.items() if len(places) > 1})
    return {
        "files": len(files),
        "lines": lines,
        "non-blank lines": non_blank,
        "layers": layers((root / "pyproject.toml").read_text(encoding="utf-8")),
        "arrows between packages": len(arrows),
        "vague bindings, %": round(100 * sum(names[name] for name in VAGUE) / max(1, names.total()), 2),
        "class names in 4 or more files": sum(count >= 4 for count in repeated.values()),
        "class names in 2 or more files": len(repeated),
        "docstrings that open with What, Whether, How, Where, %": round(100 * openings / max(1, total_docstrings), 1),
        "words in docs": sum(len(re.findall(r"\S*\w\S*", page)) for page in pages),
        "words a sentence in docs": round(sum(words) / max(1, len(words)), 1),
        "longest parameter list": longest[0],
        "where": longest[1],
        f"files of at most {SHORT} non-blank lines": short,
    }


def at(revision: str) -> dict[str, object]:
    """Measure a commit. Raises CalledProcessError where git does not know it, as in a shallow clone."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S603, S607
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        return measure(Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description="Print figures of the code base.")
    parser.add_argument("--rev", help="measure this commit instead of the working tree")
    parser.add_argument("--before", metavar="REV", help="print the figures of this commit beside them")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    columns = {arguments.rev or "working tree": at(arguments.rev) if arguments.rev else measure(ROOT)}
    if arguments.before:
        try:
            columns = {arguments.before: at(arguments.before), **columns}
        except subprocess.CalledProcessError:
            print(f"{arguments.before} is not in this clone; only the working tree is measured.", file=sys.stderr)
    if arguments.json:
        print(json.dumps(columns, indent=2))
        return 0
    keys = list(next(iter(columns.values())))
    width = max(map(len, keys))
    print(" " * width, *(f"{name[:14]:>14}" for name in columns))
    for key in keys:
        print(f"{key:<{width}}", *(f"{figures[key]!s:>14}" for figures in columns.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
