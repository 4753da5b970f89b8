"""The repository of MMLongBench-Doc, drawn: a few questions about a PDF of 3 pages and one of 125."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from drawn_pdf import pdf

DOCUMENT_SETS = ("mmlongbench-doc", "mmlongbench-doc-evidence")
DOCUMENTS = {"a.pdf": pdf(["one", "two", "three"]), "long.pdf": pdf([f"p{at}" for at in range(125)])}


def row(doc: str, question: str, answer: str, form: str, pages: str, sources: str) -> dict[str, str]:
    return {
        "doc_id": doc, "doc_type": "Brochure" if doc == "a.pdf" else "Guidebook", "question": question, "answer": answer,
        "evidence_pages": pages, "evidence_sources": sources, "answer_format": form,
    }  # fmt: skip


ROWS = [
    row("a.pdf", "How many?", "8", "Int", "[2]", "['Table']"),
    row("a.pdf", "What share?", "18.29%", "Float", "[1, 2]", "['Table', 'Chart']"),
    row("a.pdf", "Which person?", "Jean Moulin", "Str", "[3]", "['Pure-text (Plain-text)']"),
    row("long.pdf", "Which colours?", "['White', '10%']", "List", "[]", "['Figure']"),
    row("long.pdf", "How many cats?", "Not answerable", "None", "[]", "[]"),
    row("long.pdf", "Which list?", "[]", "List", "[124, 999]", "['Figure']"),
]


def repository(folder: Path) -> Path:
    """Draw the repository of the hub: rows in a parquet, PDFs in `documents/`."""
    (folder / "set/data").mkdir(parents=True)
    (folder / "set/documents").mkdir()
    for name, data in DOCUMENTS.items():
        (folder / "set/documents" / name).write_bytes(data)
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "set/data/train-00000-of-00001.parquet")
    return folder / "set"
