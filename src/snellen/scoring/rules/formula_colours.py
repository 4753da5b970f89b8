r"""A formula in LaTeX with a colour for each visible token, as character detection matching (CDM) renders it.

Source: as in `formula_tokens`. Names of functions are taken apart (`\sin` as `\mathrm { s i n }`, dots as `. . .`), missing braces
added. Groups whose tokens were coloured are longer than before, and the authors go on at the old end: a token there may stay
without a colour, and here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from snellen.scoring.rules.formula_tokens import UnreadableError, commands, read_formula

CHINESE = re.compile("[\u4e00-\u9fff]")
_OPERATORS = commands(
    "arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf injlim ker lg lim liminf limsup ln log max min Pr projlim "
    "sec sin sinh sup tan"
)
_SPELLED = commands(
    "ex ln lg cot mod bmod pmod min max ker hom sec scs csc deg arg log dim exp sin cos tan tanh cosh sinh coth arcsin arccos arctan"
)
_DOTS = commands("ldots hdots cdots dddot dots dotsc dotsi dotsm dotso dotsb mathellipsis") | {"…"}
_HIDDEN = commands("fontfamily vphantom phantom rowcolor ref thesubequation global theboldgroup")
_FRACTIONS = commands("frac binom")
_ROOTS = commands("xrightarrow xleftarrow sqrt")
_PAIRS = commands("overset underset stackrel")
_MARKS = commands(
    "widetilde overline hat widehat tilde Tilde dot bar vec underline underbrace check breve Bar Vec mathring ddot Ddot dddot ddddot"
)
_STYLES = commands(
    "boldsymbol pmb textbf mathrm mathbf mathbb mathcal textmd texttt textnormal text textit textup mathop mathbin smash operatorname "
    "textrm mathfrak emph textsf textsc"
)
_PLAIN = commands(
    "\\ index a multirow def edef raggedright url cr ensuremath left right mathchoice scriptstyle displaystyle qquad quad , ! boldmath "
    "gdef today the"
) | {"\\", "&", "$", "~"}
_UNSEEN = re.compile(r"[{}\[\]^_]|\\(?:begin|end)\{.*?\}|\\.*(?:rule|line)|\[[-.0-9]+[epm][xtm]\]")
"""Beginnings of tokens that have no colour."""
_SIZED = re.compile(r"\\[Bb]igg?[glrm]?")
_COLOUR_STEP, _COLOURS = 15, 18
MOST_TOKENS, MOST_SIGNS = 5_800, 10_000
"""Colours of the authors; and signs of a formula, of which a longer one is not rendered."""


class Coloured(Struct, frozen=True):
    """A formula for LaTeX, the names of its coloured tokens in their order, and whether it needs Chinese fonts."""

    latex: str
    tokens: tuple[str, ...]
    is_chinese: bool


def colour(number: int) -> tuple[int, int, int]:
    """Return the colour of a token by its place, red, green and blue of 0 to 255."""
    red, rest = divmod(number + 1, _COLOURS**2)
    green, blue = divmod(rest, _COLOURS)
    return red * _COLOUR_STEP, green * _COLOUR_STEP, blue * _COLOUR_STEP


def bare(text: str) -> str:
    r"""Return a formula without `$`, `\[ \]` or `\( \)` around it, a code block, tags and `\nonumber`, as OmniDocBench 1.6 does."""
    text = text.split("```latex")[-1].split("```")[0].strip().strip("$").strip()
    for opening, closing in (("\\[", "\\]"), ("\\(", "\\)")):
        if text.startswith(opening) and text.endswith(closing):
            text = text[2:-2].strip()
    return re.sub(r"\\tag\s*+(?:\*\s*+)?+\{[^{}]*\}|\\no(?:tag|number)", "", text).strip()


def coloured(formula: str) -> Coloured:
    """Return a formula with colours. Raises ValueError where braces or arguments are missing, or it is too long or deep."""
    if len(formula) > MOST_SIGNS:
        raise ValueError("too long to render")
    text = formula.replace("\n", " ")
    is_chinese = CHINESE.search(text) is not None
    if is_chinese:
        text = re.sub(
            "[\u4e00-\u9fff\u3400-\u4dbf]+", _in_text, text.translate({0xFF0C: ", ", 0xFF1A: ": ", 0xFF1B: "; "})
        )
    try:
        tokens = _named(read_formula(_prepared(text)))
    except UnreadableError:
        tokens = []
    tokens = tokens or text.replace("\\%", "<PERCENTAGETOKEN>").split(" ")  # as the authors leave it
    if is_chinese:
        tokens = [piece.replace("\\mathrm", "\\text") for piece in tokens]
    try:
        made = _Colours(_braced(_joined(_spelled(tokens))))
    except (IndexError, RecursionError):
        raise ValueError("an argument is missing, or groups are too deep") from None
    if len(made.names) > MOST_TOKENS:
        raise ValueError("more tokens than colours")
    return Coloured(" ".join(made.tokens), tuple(made.names), is_chinese)


def _in_text(match: re.Match[str]) -> str:
    around = match.string[max(0, match.start() - 6) : match.start()] + match.string[match.end() : match.end() + 1]
    return match[0] if around == "\\text{}" else f"\\text{{{match[0]}}}"


def _prepared(text: str) -> str:
    """Return a formula as KaTeX is given it: environments that it does not know renamed, without comment, `$` and labels."""
    for names, new in (("split|align|alignedat|alignat|eqnarray", "aligned"), ("smallmatrix", "matrix")):
        text = re.sub(rf"\\begin{{({names})\*?}}(.+?)\\end{{\1\*?}}", rf"\\begin{{{new}}}\2\\end{{{new}}}", text)
    text = re.split(r"(?<!\\)%", text.removeprefix("%"), maxsplit=1)[0]
    text = re.sub(r"\\[~>]|\$|\\label\{.*?\}", lambda match: "" if match[0].startswith("\\label") else " ", text)
    if not any(word in text for word in ("matrix", "cases", "array", "begin")):
        text = text.replace("\\\\", "\\,")
    return re.sub(r"\{ ?\\rm|\\rm\{", r"\\mathrm{", text) + " "


def _named(tokens: Sequence[str]) -> list[str]:
    r"""Return tokens with `\operatorname { s i n }` as `\sin`."""
    made, at = list(tokens), 0
    while at < len(made):
        if made[at] == "\\operatorname" and made[at + 1 : at + 2] == ["{"]:
            end = next((place for place in range(at + 2, len(made)) if made[place] == "}"), at)
            if (name := "\\" + "".join(made[at + 2 : end])) in _OPERATORS:
                made[at : end + 1] = [name]
        at += 1
    return made


def _spelled(tokens: Iterable[str]) -> list[str]:
    made: list[str] = []
    for piece in tokens:
        for unseen in ("\\raggedright", "\\arraybackslash", "\\lowercase", "\\uppercase", "\\lefteqn"):
            piece = piece.replace(unseen, "")
        if piece in _DOTS:
            made += "..."
        elif piece in ("--", "---"):
            made += piece
        elif piece in _SPELLED:
            made += ["\\mathrm", "{", *piece.removeprefix("\\b").removeprefix("\\p").lstrip("\\"), "}"]
        else:
            made.append(piece)
    return made


def _joined(tokens: Sequence[str]) -> list[str]:
    """Return tokens with those joined that are no good alone: lengths, columns of arrays, sizes with their bracket."""
    made: list[str] = []
    at = 0
    while at < len(tokens):
        piece, rest = tokens[at], tokens[at + 1 : at + 2]
        end = at + 1
        if piece in ("\\hspace", "\\vspace") and (length := _length(tokens, at + 1, r"[.0-9a-z]+")):
            end = length
        elif piece == "\\rule" and (first := _length(tokens, at + 1, r"[.0-9a-z]+")):
            end = _length(tokens, first, r"[.0-9a-z]+") or end
        elif piece == "\\begin{array}" and (columns := _length(tokens, at + 1, "[lrc]+")):
            made.append(piece)
            at, end = at + 1, columns
        elif piece in ("\\textcolor", "\\colorbox", "\\cellcolor") and (
            named := _length(tokens, at + 1, "[A-Za-z0-9,!]+")
        ):
            at = named
            continue
        elif rest and (
            piece == "\\string"
            or (piece == "\\'" and len(rest[0]) == 1 and rest != ["{"])
            or (_SIZED.fullmatch(piece) and (rest[0] in "(){}|[]" or rest[0].startswith("\\")))
        ):
            end = at + 2
        made.append("".join(tokens[at:end]))
        at = end
    return made


def _length(tokens: Sequence[str], start: int, inside: str) -> int:
    """Return where a group ends whose tokens are all of one kind; 0 where there is none."""
    end = start + 1
    while end < len(tokens) and re.fullmatch(inside, tokens[end]):
        end += 1
    return end + 1 if tokens[start : start + 1] == ["{"] and tokens[end : end + 1] == ["}"] and end > start + 1 else 0


def _close(tokens: Sequence[str], start: int, marks: str = "{}") -> int:
    """Return where the group ends that begins at a place; -1 where none begins. Raises ValueError where it does not end."""
    depth = 0
    for at in range(start, len(tokens)):
        depth += (tokens[at] == marks[0]) - (tokens[at] == marks[1])
        if depth == 0 and tokens[at] == marks[1]:
            return at
    if depth > 0:
        raise ValueError("a brace is not closed")
    return -1


def _braced(tokens: Sequence[str]) -> list[str]:
    """Return tokens with braces around the arguments of marks, styles, roots and fractions."""
    made, at = ["", *tokens, ""], 0
    while at < len(made):
        piece = made[at]
        if piece in _MARKS or piece in _STYLES:
            start = at + 1
            while start < len(made) and (made[start] in _MARKS or made[start] in _STYLES):
                start += 1
            end = start
            if made[start] == "{":
                end = _close(made, start)
            inner = made[start + 1 : end] if made[start] == "{" else [made[start]]
            opened = [part for name in made[at:start] for part in (name, "{")]
            made[at : end + 1] = [*opened, *inner, *("}" for _ in range(start - at))]
        elif piece in _ROOTS:
            _brace(made, _close(made, at + 1, "[]") + 1 if made[at + 1] == "[" else at + 1)
        elif piece in _FRACTIONS or piece in _PAIRS:
            _brace(made, at + 1)
            _brace(made, _close(made, at + 1) + 1)
        at += 1
    return " ".join(made).strip().split(" ")


def _brace(tokens: list[str], at: int) -> None:
    if tokens[at] != "{":
        tokens[at : at + 1] = ["{", tokens[at], "}"]


class _Colours:
    """The tokens of a formula with colours.

    Attributes:
        tokens: pieces of LaTeX.
        names: the tokens that have a colour.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens, self.names = list(tokens), list[str]()
        at = 0
        while at < len(self.tokens):
            at = self._walk(at)

    def _paint(self, at: int, *, grouped: bool = False, end: int | None = None) -> None:
        """Give a token a colour, or a command and all to `end`."""
        piece = self.tokens[at]
        red, green, blue = colour(len(self.names))
        self.names.append(piece)
        start, stop = f"{'{' * grouped}\\mathcolor[RGB]{{{red},{green},{blue}}}{{{piece}", "}" + "}" * grouped
        if end is None:
            self.tokens[at] = start + stop
        else:
            self.tokens[at : end + 1] = [start, *self.tokens[at + 1 : end + 1], stop]

    def _inside(self, start: int, end: int, *, grouped: bool = False) -> None:
        at = start + 1
        while at < end:
            at = self._walk(at, grouped=grouped)

    def _walk(self, at: int, *, grouped: bool = False) -> int:
        """Colour what begins at a place, and return where to go on."""
        piece = self.tokens[at]
        if not piece:
            return at + 1
        if piece in _HIDDEN:
            return (_close(self.tokens, at + 1) if self.tokens[at + 1] == "{" else at + 1) + 1
        if piece in _FRACTIONS:
            self._paint(at, end=_close(self.tokens, _close(self.tokens, at + 1) + 1))
        elif piece in _MARKS:
            end = _close(self.tokens, at + 1)
            self._paint(at, end=end, grouped=piece != "\\underbrace" and self.tokens[end + 1 : end + 2] == ["_"])
        elif piece in _STYLES:
            end = _close(self.tokens, at + 1)
            if end == at + 3:
                self._paint(at + 2)
            else:
                self._inside(at + 1, end)
            return end + 1
        elif piece in _ROOTS:
            return self._root(at)
        elif piece in ("\\multicolumn", "\\multirow"):
            third = _close(self.tokens, _close(self.tokens, at + 1) + 1) + 1
            end = _close(self.tokens, third)
            self._inside(third, end)
            return end + 1
        elif piece in _PLAIN or piece in _PAIRS or _UNSEEN.match(piece):
            is_bracket = (piece == "[" and self.tokens[at - 1] != "\\sqrt") or (
                piece == "]" and at >= 3 and self.tokens[at - 3] != "\\sqrt"
            )
            if is_bracket:
                self._paint(at)
        else:
            self._paint(at, grouped=grouped or (at > 1 and self.tokens[at - 1] == "_"))
        return at + 1

    def _root(self, at: int) -> int:
        """Colour a root or an arrow with what is above and below it."""
        is_short = self.tokens[at + 1] == "{"
        first = _close(self.tokens, at + 1, "{}" if is_short else "[]")
        last = first if is_short else _close(self.tokens, first + 1)
        self._paint(at, end=last)
        self._inside(at + 1, first, grouped=not is_short)
        if not is_short:
            self._inside(first + 1, last)
        return last + 1
