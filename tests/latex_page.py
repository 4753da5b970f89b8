"""LaTeX tables set on a page by pdfLaTeX, as a paper would set them."""

from __future__ import annotations

import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

PAGE = r"""\documentclass{article}
\usepackage[landscape,margin=1cm]{geometry}
\usepackage{booktabs}
%s
\begin{document}
%s
\end{document}
"""


def set_page(folder: Path, *tables: str, preamble: str = "") -> str:
    """Set tables on pages and return the words that stand there; the page stays in `folder` as table.pdf.

    LaTeX draws an underscore as a rule, so that it is a space among the words.

    Skips the test where pdfLaTeX is not installed.
    """
    if shutil.which("pdflatex") is None or shutil.which("pdftotext") is None:
        pytest.skip("pdflatex or pdftotext is not installed: apt-get install texlive-latex-recommended poppler-utils")
    folder.mkdir(parents=True, exist_ok=True)
    body = "\n\\clearpage\n".join(tables)
    (folder / "table.tex").write_text(PAGE % (preamble, body), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=600)
    log = (folder / "table.log").read_text("utf-8", errors="replace")
    assert done.returncode == 0, log[-3000:]
    assert "Missing character" not in log and "undefined" not in log, log
    words = subprocess.run(["pdftotext", "-layout", "table.pdf", "-"], cwd=folder, capture_output=True, text=True)
    return unicodedata.normalize("NFC", words.stdout)
