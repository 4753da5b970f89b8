"""LaTeX tables: whatever a model is called, the table compiles and shows that name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from latex_page import set_page
from snellen.formats.latex import latex_number, latex_table, latex_text

HOSTILE = [
    "a_b 5% & #1 $x$ ~ ^ {z} \\",
    "\\input{/etc/passwd} \\end{tabular} %",
    "[1ex] begins an argument",
    "*{3}{l} so does this",
    "[x]",
    "--dashes-- ''quotes'' \"double\" `back` <u> a|b",
    "Ünïcödé Łódź naïve señor Škoda façade Ő",
    "α-β ≤ 10² µm × x₁ → ∞",
    "模型 модель 🙂 ą \u0301",
    "a\nb\tc\x00\x1b[31m\u202e\u200b",
    "",
    "\u00a0|\u2028",
]


def test_every_character_of_latex_is_escaped() -> None:
    assert latex_text("a_b\n{c} 5% $ & # ~ ^ \\") == (
        r"a\_b \{c\} 5\% \$ \& \# \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    assert latex_text("a--b ''c'' [d]") == "a-{}-b '{}'c'{}' {[}d]"


def test_letters_become_commands_that_every_engine_knows() -> None:
    assert latex_text("é ü ł α ≤ 10²") == (
        r"\'{e} \" {u} \l{} \ensuremath{\alpha} \ensuremath{\leq} 10\textsuperscript{2}".replace('" {', '"{')
    )
    assert latex_text("the 模型") == r"the \unicodetext{模型}{U+6A21 U+578B}"
    assert latex_number("-1.5") == "$-$1.5"
    assert latex_number("[-1e-05, 2.5], n = 3") == r"[$-1\times10^{-5}$, 2.5], n = 3"
    assert latex_number("9.99e-05") == r"$9.99\times10^{-5}$"


def test_tables_of_hostile_names_compile_and_show_them(tmp_path: Path) -> None:
    rows = [[latex_text(name), "1.0"] for name in HOSTILE]
    table = latex_table([latex_text(HOSTILE[0]), latex_text(HOSTILE[2])], rows, "about\n\\oops", notes=HOSTILE[:3])
    words = set_page(tmp_path, table)
    for word in (
        "a b 5% & #1 $x$",
        "{z} \\",
        "\\input{/etc/passwd} \\end{tabular} %",
        "[1ex] begins",
        "[x]",
        "--dashes--",
    ):
        assert word in words
    for word in ("ódź", "señor", "façade", "≤", "U+6A21 U+578B", "U+043C", "<u> a|b"):
        assert word in words


@pytest.mark.parametrize("seed", range(3))
def test_tables_of_any_characters_compile(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    blocks = [(0x0, 0x7F), (0x80, 0x24F), (0x300, 0x3FF), (0x2000, 0x23FF), (0x4E00, 0x4FFF), (0x1F300, 0x1F6FF)]
    texts = []
    for _ in range(150):
        low, high = choice.choice(blocks)
        texts.append("".join(chr(choice.randint(low, high)) for _ in range(choice.randint(1, 6))))
    rows = [[latex_text(text) for text in texts[at : at + 5]] for at in range(0, 150, 5)]
    preamble = ["", "\\usepackage[T1]{fontenc}", "\\usepackage[utf8]{inputenc}"][seed]
    set_page(tmp_path, latex_table(["a"] * 5, rows, "any"), preamble=preamble)


def test_a_long_note_does_not_widen_the_table() -> None:
    table = latex_table(["model", "accuracy"], [["m", "1"]], "about", notes=["word " * 60])
    notes = [line for line in table.splitlines() if "\\footnotesize" in line]
    assert len(notes) > 5 and max(map(len, notes)) < 90
    wide = latex_table(["model", "accuracy"], [["m" * 90, "1"]], "about", notes=["word " * 60])
    assert wide.count("\\footnotesize") < len(notes)
