"""A PDF that tests write by hand, object by object: pages with a word each, in Helvetica."""

from __future__ import annotations

from collections.abc import Sequence


def pdf(words: Sequence[str], size: tuple[float, float] = (144, 72), encrypt: str = "") -> bytes:
    """Return a PDF with a page for each word; `size` in points. `encrypt` is the dictionary of an encryption."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(words)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(words)}/MediaBox[0 0 {size[0]:g} {size[1]:g}]>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for at, word in enumerate(words):
        drawing = f"BT /F 30 Tf 5 20 Td ({word}) Tj ET"
        objects.append(f"<</Type/Page/Parent 2 0 R/Contents {5 + 2 * at} 0 R/Resources<</Font<</F 3 0 R>>>>>>")
        objects.append(f"<</Length {len(drawing)}>>\nstream\n{drawing}\nendstream")
    text, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(text)
    text += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    text += "".join(f"{place:010} 00000 n \n" for place in places)
    more = f"/Encrypt {encrypt}/ID[<00><00>]" if encrypt else ""
    return f"{text}trailer\n<</Size {len(objects) + 1}/Root 1 0 R{more}>>\nstartxref\n{start}\n%%EOF\n".encode(
        "latin-1"
    )


LOCKED = f"<</Filter/Standard/V 2/R 3/Length 128/P -4/O<{'11' * 32}>/U<{'22' * 32}>>>"
"""An encryption that no empty password opens."""
