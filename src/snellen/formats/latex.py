"""LaTeX tables: text escaped so that pdfLaTeX, XeLaTeX and LuaLaTeX set it as it is, in the rules of booktabs."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import groupby

from snellen.text import normalized, without_controls

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    # In the usual encoding (OT1) these are other letters.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedblright{}",
    # After \\ and after a rule, [ and * would begin an argument.
    "[": "{[}",
    "*": "{*}",
    "`": r"\`{}",
}

_ACCENTS = {
    **{"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u"},
    **{"\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d"},
    **{"\u0327": "c", "\u0331": "b"},
}

_LETTERS = {
    **dict(zip("ßæÆœŒøØłŁıȷ", ["ss", "ae", "AE", "oe", "OE", "o", "O", "l", "L", "i", "j"], strict=True)),
    **{"†": "dag", "‡": "ddag", "§": "S", "¶": "P", "©": "copyright", "£": "pounds", "…": "dots"},
    **{"–": "textendash", "—": "textemdash", "‘": "textquoteleft", "’": "textquoteright"},
    **{"“": "textquotedblleft", "”": "textquotedblright", "•": "textbullet", "·": "textperiodcentered"},
    **{"®": "textregistered", "™": "texttrademark", "€": "texteuro"},
}

_GREEK = {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta"},
    **{"θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi"},
    **{"ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega"},
    **{"Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma"},
    **{"Υ": "Upsilon", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega", "ς": "varsigma", "ϕ": "phi", "µ": "mu"},
}

_SIGNS = {
    **{"×": r"\times", "÷": r"\div", "±": r"\pm", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx"},
    **{"∞": r"\infty", "→": r"\rightarrow", "←": r"\leftarrow", "↑": r"\uparrow", "↓": r"\downarrow"},
    **{"↔": r"\leftrightarrow", "⇒": r"\Rightarrow", "∈": r"\in", "∪": r"\cup", "∩": r"\cap", "√": r"\surd"},
    **{"°": r"{}^\circ", "−": "-"},
}

_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))

UNICODE_TEXT = (
    "% Letters that pdfLaTeX cannot set are their code points there; XeLaTeX and LuaLaTeX set the letters.",
    r"\providecommand{\unicodetext}[2]{\ifdefined\pdftexversion\texttt{#2}\else#1\fi}",
)
_LIGATURE = re.compile(r"([-',])(?=\1)")
"""Characters that LaTeX joins with the next one to a dash or a quotation mark."""
_POWER = re.compile(r"(-?\d[\d.,]*)e([+-]?\d+)")
_HYPHEN = re.compile(r"\$[^$]*\$|-")
_COMMAND = re.compile(r"\\[A-Za-z]+|[{}$\\]")
_NARROWEST = 40
"""Characters of the shortest line of a note."""


def latex_text(text: str) -> str:
    """Return a text on one line as ASCII that LaTeX sets as it is.

    LaTeX's own characters are escaped, accents are its commands, and Greek letters and usual signs are its symbols.
    Other letters, such as Chinese ones, become `\\unicodetext{letters}{U+6A21}`, which `latex_table` defines.
    """
    line = " ".join(without_controls(text).split())
    pieces = []
    for unknown, group in groupby(normalized("NFC", line), lambda character: _command(character) is None):
        characters = "".join(group)
        if unknown:
            codes = " ".join(f"U+{ord(character):04X}" for character in characters)
            pieces.append(f"\\unicodetext{{{characters}}}{{{codes}}}")
        else:
            pieces.append("".join(_command(character) or "" for character in characters))
    return _LIGATURE.sub(r"\1{}", "".join(pieces))


@cache
def _command(character: str) -> str | None:
    """Return LaTeX for one character; None for a letter that pdfLaTeX's usual fonts lack."""
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character.isascii():
        return character
    if character == "\u00a0":
        return "~"
    if character in _LETTERS:
        return f"\\{_LETTERS[character]}{{}}"
    if character in _GREEK:
        return f"\\ensuremath{{\\{_GREEK[character]}}}"
    if character in _SIGNS:
        return f"\\ensuremath{{{_SIGNS[character]}}}"
    if character in _RAISED:
        return f"\\textsuperscript{{{_RAISED[character]}}}"
    if character in _LOWERED:
        return f"\\ensuremath{{_{_LOWERED[character]}}}"
    letter, *marks = list(unicodedata.normalize("NFD", character))
    if len(marks) == 1 and marks[0] in _ACCENTS and letter.isascii() and letter.isalpha():
        return f"\\{_ACCENTS[marks[0]]}{{{letter}}}"
    return None


def latex_number(text: str) -> str:
    """Return formatted numbers with minus signs in place of hyphens, and powers of ten in place of `e-05`."""
    powers = _POWER.sub(lambda number: f"${number[1]}\\times10^{{{int(number[2])}}}$", text)
    return _HYPHEN.sub(lambda piece: "$-$" if piece[0] == "-" else piece[0], powers)


def latex_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    about: str,
    *,
    align: str = "",
    above: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return a tabular with the rules of booktabs.

    Args:
        head: the line of column names, LaTeX already, as are `rows` and `above`.
        rows: cells of each row, as many as `head` has.
        about: a comment above the table.
        align: l, r or c for each column; the first to the left and the others to the right if it is empty.
        above: lines over `head`: groups of columns with their rules.
        notes: plain text below the table, wrapped so that they do not widen it.
    """
    remarks = [
        f"\\multicolumn{{{len(head)}}}{{l}}{{\\footnotesize {latex_text(line)}}} \\\\"
        for note in notes
        for line in textwrap.wrap(note, _note_width([head, *rows]))
    ]
    body = [
        f"\\begin{{tabular}}{{{align or 'l' + 'r' * (len(head) - 1)}}}",
        "\\toprule",
        *above,
        " & ".join(head) + " \\\\",
        "\\midrule",
        *(" & ".join(cells) + " \\\\" for cells in rows),
        "\\bottomrule",
        *remarks,
        "\\end{tabular}",
    ]
    commands = UNICODE_TEXT if any("\\unicodetext" in line for line in body) else ()
    comments = [f"% {' '.join(without_controls(about).split())}", "% needs \\usepackage{booktabs}"]
    return "\n".join([*comments, *commands, *body, ""])


def _note_width(lines: Sequence[Sequence[str]]) -> int:
    """Return how many characters of a note fit below a table of these cells."""
    columns = zip(*lines, strict=True)
    widths = [max(len(_COMMAND.sub("", cell)) for cell in column) + 2 for column in columns]
    return max(_NARROWEST, sum(widths))
