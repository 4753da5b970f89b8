"""The order of the package's layers, checked by import-linter's contracts in pyproject.toml, and no circles between files."""

from __future__ import annotations

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent


def test_arrows_between_the_rooms_point_downward_only():
    """In a process of its own: import-linter configures logging, and disables the loggers of this one."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_imports_itself_by_way_of_others():
    """Imports at the top of a file and inside its functions count alike, those for types alone do not."""
    graph = grimp.build_graph("snellen", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    circle: list[str] = []
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert not circle, " is imported by ".join(circle)
