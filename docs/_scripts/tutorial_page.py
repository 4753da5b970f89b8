"""Write docs/tutorial.md from examples/tutorial.ipynb, with the outputs of its cells.

Usage: python docs/_scripts/tutorial_page.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent.parent
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
PAGE = ROOT / "docs" / "tutorial.md"
NOT_RUN = "<!-- no-run: a test executes the notebook -->"
SOURCE = "This page is the notebook `examples/tutorial.ipynb` with its outputs."


def executed(folder: Path) -> Any:
    """Return the notebook after all of its cells have run in a folder. Raises CellExecutionError where one fails."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def page(notebook: Any) -> str:
    """Return an executed notebook as Markdown. What a cell writes to stderr is left out."""
    blocks = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            blocks.append(cell.source)
            continue
        blocks.append(f"{NOT_RUN}\n```python\n{cell.source}\n```")
        texts = [
            each.text if each.output_type == "stream" else each.data["text/plain"] for each in _shown(cell.outputs)
        ]
        if text := "".join(texts).strip():
            blocks.append(f"```text\n{text}\n```")
    blocks.insert(1, SOURCE)
    return "\n\n".join(blocks) + "\n"


def _shown(outputs: Any) -> list[Any]:
    return [each for each in outputs if each.get("name") != "stderr"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(executed(Path(folder))), encoding="utf-8")
