"""Draw docs/images/architecture.svg: the layers and packages of Snellen, with arrows from the real imports.

`python scripts/architecture_drawing.py` writes the drawing. The layers come from the import contract in pyproject.toml.
An arrow says that one package imports another; an arrow that follows from others is omitted.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

from code_figures import imported

ROOT = Path(__file__).resolve().parent.parent
DRAWING = ROOT / "docs" / "images" / "architecture.svg"
BASE = "base"  # the single modules of the lowest layer share a box
WIDTH, ROW, BOX_WIDTH, BOX_HEIGHT, MARGIN = 900, 104, 172, 46, 150
CAPTIONS = {
    "cli": "one file a command",
    "viewer": "pages over all runs",
    "reports": "HTML pages, plots",
    "easi": "the EASI programme",
    "curation": "hard, leak-free sets",
    "training": "callback, watch",
    "runs": "evaluate, score, compare …",
    "features": "encoder measurements",
    "questions": "generated questions",
    "engine": "schedule, retry, journal",
    "models": "answer prompts",
    "benchmarks": "samples, scorers, metrics",
    "scoring": "extraction, statistics",
    "formats": "other tools' files",
    "sources": "rows, archives, hub",
    "media": "images and video",
    BASE: "single modules that every package may import",
}


def layers(root: Path = ROOT) -> list[list[str]]:
    """Return the packages of each layer, the highest first; the lowest layer is the one box `base`."""
    contract = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    rows = [[name.strip().removeprefix("snellen.") for name in row.split("|")] for row in contract["layers"][:-1]]
    return [*rows, [BASE]]


def imports(root: Path = ROOT) -> dict[str, set[str]]:
    """Return for each package the packages that it imports directly."""
    source = root / "src" / "snellen"
    files = sorted(path for path in source.rglob("*.py") if path.parent != source)
    modules = {".".join(path.relative_to(source.parent).with_suffix("").parts) for path in source.rglob("*.py")}
    packages = {name for row in layers(root) for name in row}
    upper = packages - {BASE}
    edges: dict[str, set[str]] = {name: set() for name in packages}
    for path in files:
        package = path.relative_to(source).parts[0]
        package = package if package in upper else BASE
        for module in imported(ast.parse(path.read_text("utf-8")), modules):
            parts = module.split(".")
            if parts[0] != "snellen" or len(parts) < 2:
                continue
            target = parts[1] if parts[1] in upper else BASE
            if target != package:
                edges[package].add(target)
    return edges


def _reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    pending, seen = list(edges[start]), set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(edges[name])
    return seen


def reduced(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the arrows that do not follow from others, sorted."""
    return sorted(
        (start, end)
        for start, ends in edges.items()
        for end in ends
        if not any(end in _reachable(edges, other) for other in ends - {end})
    )


def _boxes(rows: list[list[str]]) -> dict[str, tuple[float, float, float]]:
    """Return left edge, top edge and width of each box, in user units."""
    boxes = {}
    for number, row in enumerate(rows):
        if row == [BASE]:
            boxes[BASE] = (MARGIN, 20 + number * ROW, WIDTH - MARGIN - 20)
            continue
        step = (WIDTH - MARGIN - 20) / len(row)
        for column, name in enumerate(row):
            boxes[name] = (MARGIN + step * (column + 0.5) - BOX_WIDTH / 2, 20 + number * ROW, BOX_WIDTH)
    return boxes


def _ports(
    arrows: list[tuple[str, str]], boxes: dict[str, tuple[float, float, float]]
) -> dict[tuple[str, str, int], float]:
    """Return the x of both ends of each arrow, spread over the edge of the box."""
    ports = {}
    for side in (0, 1):
        for name, (left, _, width) in boxes.items():
            own = [arrow for arrow in arrows if arrow[side] == name]
            own.sort(key=lambda arrow: boxes[arrow[1 - side]][0] + boxes[arrow[1 - side]][2] / 2)
            for place, arrow in enumerate(own):
                ports[(*arrow, side)] = left + width * (place + 1) / (len(own) + 1)
    return ports


def drawing(root: Path = ROOT) -> str:
    """Return the drawing as SVG."""
    rows = layers(root)
    boxes = _boxes(rows)
    arrows = reduced(imports(root))
    ports = _ports(arrows, boxes)
    height = 20 + ROW * (len(rows) - 1) + BOX_HEIGHT + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" role="img" aria-labelledby="title">',
        '<title id="title">The eight layers of Snellen and the imports between their packages</title>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6b7c"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number in range(len(rows)):
        top = 20 + number * ROW
        lines.append(
            f'<rect x="8" y="{top - 12}" width="{WIDTH - 16}" height="{BOX_HEIGHT + 24}" rx="6" fill="#f2f5f8"/>'
        )
        lines.append(f'<text x="24" y="{top + 28}" font-size="14" fill="#5b6b7c">layer {len(rows) - number}</text>')
    for start, end in arrows:
        x1, y1 = ports[(start, end, 0)], boxes[start][1] + BOX_HEIGHT
        x2, y2 = ports[(start, end, 1)], boxes[end][1] - 1
        bend = (y2 - y1) / 2
        lines.append(
            f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}" '
            f'fill="none" stroke="#5b6b7c" stroke-width="1.3" marker-end="url(#tip)"><title>{start} imports {end}</title></path>'
        )
    for name, (left, top, width) in boxes.items():
        middle = left + width / 2
        title = "types · errors · redaction · …" if name == BASE else name
        lines.append(
            f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="6" fill="#ffffff" '
            'stroke="#22303c"/>'
        )
        lines.append(
            f'<text x="{middle:.0f}" y="{top + 20:.0f}" font-size="15" font-weight="bold" text-anchor="middle" '
            f'fill="#111111">{escape(title)}</text>'
        )
        lines.append(
            f'<text x="{middle:.0f}" y="{top + 37:.0f}" font-size="12" text-anchor="middle" fill="#333333">'
            f"{escape(CAPTIONS[name])}</text>"
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    DRAWING.parent.mkdir(exist_ok=True)
    DRAWING.write_text(drawing(), encoding="utf-8")
    print(DRAWING.relative_to(ROOT))
