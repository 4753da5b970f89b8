"""Boxes and points of which a reply says what each number is: `x1: 12`, `left 12 px`, `x from 3 to 9`, corners by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from snellen.scoring.answers.base import Found

_WORDS = {
    "x1": "left x1 xmin x_min links linke gauche izquierda sinistra 左边 左端 左",
    "y1": "top y1 ymin y_min oben haut arriba superior alto 上边 上端 上",
    "x2": "right x2 xmax x_max rechts droite derecha destra 右边 右端 右",
    "y2": "bottom y2 ymax y_max unten bas abajo basso 下边 下端 下",
    "w": "width w breite largeur ancho larghezza 宽度 宽 幅",
    "h": "height h höhe hauteur altura altezza 高度 高さ 高",
    "x": "x",
    "y": "y",
}
_NAMES = {word: name for name, words in _WORDS.items() for word in words.split()}
_NAME = "|".join(re.escape(word) for word in sorted(_NAMES, key=len, reverse=True))
_NUMBER = r"[-−+]?\d{1,9}(?:(?:\.|,(?=\d{1,18}(?!\d)(?:\s?%)?(?:\s{0,3}[,;\n)\]]\s{0,3}[^\W\d]|\s{0,3};|\s{0,3}[.)\]]?\s{0,3}$)))\d{1,18})?"
"""A number; its comma is a decimal one where a name, a semicolon or the end follows: `x1 = 0,37; y1 = 0,2`, `left: 0,5, top: 0,2`."""
_IS = r"[\"'*]{0,3}(?:\s{0,2}(?:edge|side|border|rand|coordinate|axis|方向|坐标)){0,2}\s{0,2}[\"'*]{0,3}(?:\s{0,2}(?:[=:：]|\b(?:is|at|ist|bei|es|está|est|à)\b)){0,2}\s{0,2}[\"'*]{0,3}\s{0,2}"
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9])(?P<name>{_NAME})(?![A-Za-z]){_IS}(?P<number>{_NUMBER})(?![\d.]*\d)\s?(?P<unit>px\b|pixels?\b|%)?",
    re.IGNORECASE | re.MULTILINE,
)
_RANGE = re.compile(
    rf"(?<![A-Za-z0-9])(?P<name>[xy])(?![A-Za-z0-9]){_IS}(?:from|von|de|从|between|between)?\s{{0,2}}(?P<first>{_NUMBER})\s?(?:px|%)?"
    rf"\s{{0,2}}(?:to|bis|a|à|hasta|until|through|至|到|から|[-–—~])\s{{0,2}}(?:(?P=name)\s?=\s?)?(?P<last>{_NUMBER})(?![\d.]*\d)\s?(?P<unit>px|%)?",
    re.IGNORECASE,
)
_CORNER = re.compile(
    r"(?P<first>top[\s_-]?left|upper[\s_-]?left|(?:linke\s)?obere\s(?:linke\s)?ecke|links\soben|superior\sizquierda|supérieur\sgauche|左上)"
    r"|(?P<last>(?:bottom|lower)[\s_-]?right|(?:rechte\s)?untere\s(?:rechte\s)?ecke|rechts\sunten|inferior\sderecha|inférieur\sdroit|右下)",
    re.IGNORECASE,
)
_PAIR = re.compile(rf"[^\d()\[\]]{{0,40}}[(\[]\s?({_NUMBER})\s?,\s?({_NUMBER})\s?[)\]]")
_GAP = 24
"""Characters between the numbers of one box."""


def named_boxes(text: str) -> Iterator[Found]:
    """Yield the complete boxes and points whose numbers a text names, each as an object; a name that repeats begins the next one."""
    found = [
        (
            match.start(),
            match.end(),
            {f"{match['name'].lower()}{side}": match[part] for side, part in ((1, "first"), (2, "last"))},
            match["unit"],
        )
        for match in _RANGE.finditer(text)
    ]
    found += [
        (match.start(), match.end(), {_NAMES[match["name"].lower()]: match["number"]}, match["unit"])
        for match in _NAMED.finditer(text)
        if not any(start <= match.start() < end for start, end, *_ in found)
    ]
    for match in _CORNER.finditer(text):
        if pair := _PAIR.match(text, match.end()):
            side = 1 if match["first"] else 2
            found.append((match.start(), pair.end(), {f"x{side}": pair[1], f"y{side}": pair[2]}, None))
    box: dict[str, Any] = {}
    begin = before = 0
    for start, end, numbers, unit in [*sorted(found, key=lambda one: one[0]), (len(text) + 2 * _GAP, 0, {}, None)]:
        if box and (start - before > _GAP or box.keys() & numbers.keys()):
            if {*box} in _COMPLETE:
                yield Found(box, begin, before)
            box = {}
        begin = begin if box else start
        written = {
            name: number.replace(",", ".").replace("−", "-") + ("%" if unit == "%" else "")
            for name, number in numbers.items()
        }
        box, before = {**box, **written}, end


_COMPLETE = ({"x1", "y1", "x2", "y2"}, {"x", "y", "w", "h"}, {"x1", "y1", "w", "h"}, {"x", "y"})
