"""Page records in OmniDocBench's layout, and replies that resemble them, drawn from a seed."""

from __future__ import annotations

import random
import string
from typing import Any

WORDS = [
    "river",
    "copper",
    "lantern",
    "seven",
    "margin",
    "orbit",
    "velvet",
    "thunder",
    "canvas,",
    "pilot;",
    "harbour.",
    "maple",
    "1984",
    "Gravity",
    "(note)",
    "α/β",
]
CHINESE = "水山火木金土日月人口手足目耳风雨电云花草"
FORMULAS = (
    r"\frac{a+b}{c} = \sqrt{d}", r"E = mc^2", r"\sum_{i=1}^{n} x_i \tag{3}", r"\mathbf{A} x = \lambda x",
    r"\begin{aligned} y &= 2x \\ z &= 3 \end{aligned}", r"\int_0^1 f(t)\, dt.",
)  # fmt: skip
INLINE = (r"$x_1$", r"\(\alpha^2\)", "$5$", r"$\frac{1}{2}$")
TEXT_CATEGORIES = ("text_block", "title", "reference", "figure_caption", "header", "page_number", "table_caption")


def sentence(draw: random.Random, least: int = 3, most: int = 40) -> str:
    if draw.random() < 0.2:
        return "".join(draw.choices(CHINESE, k=draw.randint(least, most)))
    words = draw.choices(WORDS, k=draw.randint(least, most))
    if draw.random() < 0.3:
        words.insert(draw.randrange(len(words)), draw.choice(INLINE))
    return " ".join(words)


def table(draw: random.Random) -> list[list[str]]:
    rows, columns = draw.randint(2, 4), draw.randint(2, 4)
    return [[draw.choice(("x", "12.5", "a & b", "total", "", "3 < 4")) for _ in range(columns)] for _ in range(rows)]


def as_html(rows: list[list[str]], *, plain: bool = False) -> str:
    escaped = [[cell.replace("&", "&amp;").replace("<", "&lt;") for cell in row] for row in rows]
    if plain:
        return "<table>" + "".join(f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in escaped) + "</table>"
    head = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in escaped[0])}</tr></thead>"
    cells = ["".join(f'<td style="x"><span>{cell}</span></td>' for cell in row) for row in escaped[1:]]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<table class="t">{head}<tbody>{body}</tbody></table>'


def as_markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row).replace("<", "&lt;") + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def perturbed(draw: random.Random, text: str, share: float) -> str:
    return "".join(
        draw.choice(string.ascii_letters) if draw.random() < share else sign
        for sign in text
        if draw.random() > share / 2
    )


def page(seed: int) -> tuple[dict[str, Any], str]:
    """Return a page record and a reply to it: blocks left out, split, joined, moved and misread."""
    draw = random.Random(seed)
    blocks: list[dict[str, Any]] = []
    parts: list[str] = []
    for order in range(1, draw.randint(3, 12)):
        what = draw.choices(("text", "formula", "table"), (8, 2, 1))[0]
        block: dict[str, Any] = {"anno_id": f"b{order}", "order": order, "ignore": False, "poly": [0.0] * 8}
        noise = draw.choice((0.0, 0.02, 0.1, 0.5))
        if what == "text":
            block |= {"category_type": draw.choice(TEXT_CATEGORIES), "text": sentence(draw)}
            if block["category_type"] in ("header", "page_number"):
                block["order"] = None
            part = perturbed(draw, block["text"], noise)
            if draw.random() < 0.2:
                at = draw.randrange(len(part) + 1)
                part = part[:at] + "\n\n" + part[at:]
        elif what == "formula":
            latex = draw.choice(FORMULAS)
            block |= {"category_type": "equation_isolated", "latex": latex}
            opening, closing = draw.choice((("$$", "$$"), ("\\[", "\\]"), ("$$\n", "\n$$")))
            part = opening + perturbed(draw, latex, noise) + closing
        else:
            rows = table(draw)
            block |= {"category_type": "table", "html": as_html(rows), "latex": ""}
            read = [[perturbed(draw, cell, noise) for cell in row] for row in rows][: draw.randint(1, len(rows))]
            part = as_markdown(read) if draw.random() < 0.4 else as_html(read, plain=draw.random() < 0.5)
        blocks.append(block)
        if draw.random() > 0.1:
            parts.append(part)
    if draw.random() < 0.3 and len(parts) > 1:
        at = draw.randrange(len(parts) - 1)
        parts[at], parts[at + 1] = parts[at + 1], parts[at]
    if draw.random() < 0.3:
        parts.insert(draw.randrange(len(parts) + 1), sentence(draw))
    relation = []
    texts = [block for block in blocks if block["category_type"] == "text_block"]
    if len(texts) > 1 and draw.random() < 0.4:
        ends = {"source_anno_id": texts[0]["anno_id"], "target_anno_id": texts[1]["anno_id"]}
        relation.append({**ends, "relation_type": "truncated"})
    joint = draw.choice(("\n\n", "\n\n", "\n\n", "\n"))
    record = {"layout_dets": blocks, "extra": {"relation": relation}, "page_info": {"image_path": f"p{seed}.jpg"}}
    record["page_info"]["page_attribute"] = {"language": "english", "data_source": "book", "layout": "single_column"}
    return record, joint.join(parts)
