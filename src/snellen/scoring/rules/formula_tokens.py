r"""Tokens of a formula in LaTeX, each in a colour of its own, as character detection matching (CDM) takes them.

Source: Wang et al. 2024, arXiv 2409.03643, and opendatalab/UniMERNet at 5a2c80d (`cdm`), reproduced from its behaviour: there an
old KaTeX reads a formula and writes it anew (`\dfrac` as `\frac`, `a \over b` as `\frac { a } { b }`, `\pmatrix` as an array in
`\left(`, subscripts first). What KaTeX cannot read stays as it is, and is taken apart at its blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

_Result = TypeVar("_Result")
MOST_DEPTH = 60
"""Groups within each other; formulas that are nested deeper count as not readable."""
_TOKEN = re.compile(
    r"\\(?:[a-zA-Z]+|[^\ud800-\udfff])|---?|[!-\[\]-\u2027\u202a-\ud7ff\uf900-\uffff\U00010000-\U0010ffff]"
)
_SIZE = re.compile(r"\s*(-?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]{2})\s*")


def commands(words: str) -> frozenset[str]:
    """Return words with a backslash before each."""
    return frozenset("\\" + word for word in words.split())


_GREEK = commands(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega "
    "varepsilon vartheta varpi varrho varsigma varphi imath jmath"
)
"""Commands whose name is written letter by letter within `\\mathrm`."""
_PLAIN_OPERATORS = commands(
    "arcsin arccos arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan tanh"
)
_LIMIT_OPERATORS = commands("det gcd inf lim liminf limsup max min Pr sup")
_SYMBOL_OPERATORS = commands(
    "int iint iiint oint coprod bigvee bigwedge biguplus bigcap bigcup intop prod sum bigotimes bigoplus bigodot bigsqcup smallint"
)
_OPERATORS = _PLAIN_OPERATORS | _LIMIT_OPERATORS | _SYMBOL_OPERATORS
_FRACTIONS = {
    **dict.fromkeys(commands("frac dfrac tfrac"), "\\frac"),
    **dict.fromkeys(commands("binom dbinom tbinom"), "\\binom"),
}
_FONTS = {name: name for name in commands(
    "mathrm mathit mathbf mathop stackrel mathbb mathcal mathfrak mathscr mathsf mathtt label comment hspace vspace atop fbox tag "
    "makebox raisebox framebox circle line put vphantom textup noalign"
)} | {"\\Bbb": "\\mathbb", "\\bold": "\\mathbf", "\\frak": "\\mathfrak"}  # fmt: skip
_TEXTS, _LINES, _LAPS = commands("text mbox hbox vbox"), commands("overline underline"), commands("llap rlap")
_ACCENTS = commands("acute grave ddot tilde bar breve check hat vec dot")
_SIZED = frozenset(f"\\{size}{side}" for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m"))
_SIZES = commands(
    "tiny scriptsize footnotesize small normalsize large Large LARGE huge Huge textrm rm cal bf siptstyle boldmath it"
)
_STYLES = commands("displaystyle textstyle scriptstyle scriptscriptstyle")
_INFIX = {"\\over": "\\frac", "\\choose": "\\binom"}
_UNREADABLE = commands("begin end left right \\ cr color KaTeX blue orange pink red green gray purple")
"""Commands that are no argument, and those that are read and cannot be written."""
_GREEDY = {**dict.fromkeys((*_TEXTS, *_FRACTIONS, *_FONTS), 2)}
_DELIMITERS = frozenset("()[]<>/|.") | commands(
    "lbrack rbrack { lbrace } rbrace lfloor rfloor lceil rceil langle rangle lt gt lvert rvert lVert rVert lgroup rgroup lmoustache "
    "rmoustache backslash vert | Vert uparrow Uparrow downarrow Downarrow updownarrow Updownarrow"
)
_ARRAYS: Mapping[str, tuple[str, str] | None] = {
    **dict.fromkeys(("array", "tabular", "matrix", "aligned")),
    "pmatrix": ("(", ")"), "bmatrix": ("[", "]"), "Bmatrix": ("\\{", "\\}"), "vmatrix": ("|", "|"),
    "Vmatrix": ("\\Vert", "\\Vert"), "cases": ("\\{", "."), "picture": ("\\{", "."),
}  # fmt: skip
_ENDS = frozenset(("}", "\\end", "\\right", "&", "\\\\", "\\cr", ""))
_FUNCTIONS = frozenset((
    *_OPERATORS, *_FRACTIONS, *_FONTS, *_TEXTS, *_LINES, *_LAPS, *_ACCENTS, *_SIZED, *_SIZES, *_STYLES, *_INFIX, *_UNREADABLE,
    "\\sqrt", "\\phantom", "\\rule",
))  # fmt: skip


class UnreadableError(ValueError):
    """The formula is not one that KaTeX reads."""


class _Node(Struct):
    """A part of a formula: its tokens, those of a group without their braces; `kind` is `group`, `operator` or `infix`."""

    tokens: list[str]
    kind: str = ""

    def written(self) -> list[str]:
        return ["{", *self.tokens, "}"] if self.kind == "group" else self.tokens


class _Reader:
    """Reads a formula by the grammar of KaTeX."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._in_text = self._upright = False

    def formula(self) -> list[str]:
        tokens = _tokens(self._expression())
        if self._peek():
            raise UnreadableError
        return tokens

    def _peek(self) -> str:
        start = self._at
        while start < len(self._text) and self._text[start] in " \r\n\t":
            start += 1
        if self._in_text and start > self._at:
            self._next = start
            return " "
        found = _TOKEN.match(self._text, start)
        if found is None and start < len(self._text):
            raise UnreadableError
        self._next = start if found is None else found.end()
        return "" if found is None else found[0]

    def _take(self, wanted: str | None = None) -> str:
        piece = self._peek()
        if wanted is not None and piece != wanted:
            raise UnreadableError
        self._at = self._next
        return piece

    def _expression(self, until: str = "", *, before_infix: bool = False) -> list[_Node]:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise UnreadableError
        nodes: list[_Node] = []
        while (piece := self._peek()) not in _ENDS and piece != until:
            start = self._at
            if (node := self._atom()) is None:
                break
            if before_infix and node.kind == "infix":
                self._at = start
                break
            nodes.append(node)
        self._depth -= 1
        places = [at for at, node in enumerate(nodes) if node.kind == "infix"]
        if len(places) > 1:
            raise UnreadableError
        for at in places:
            parts = [part[0] if _is_group(part) else _Node(_tokens(part)) for part in (nodes[:at], nodes[at + 1 :])]
            return [_Node([*nodes[at].tokens, *(piece for part in parts for piece in ("{", *part.tokens, "}"))])]
        return nodes

    def _atom(self) -> _Node | None:
        base = self._implicit()
        if self._in_text or base is None:
            return base
        scripts: dict[str, list[str]] = {}
        while True:
            piece = self._peek()
            if piece in ("\\limits", "\\nolimits"):
                if base.kind != "operator":
                    raise UnreadableError
                self._take()
                if base.tokens[0].startswith("\\operatorname"):
                    base.tokens[0] = "\\operatorname" + "*" * (piece == "\\limits")
            elif piece in ("^", "_"):
                self._take()
                node = self._argument(1)
                scripts[piece] = [] if node is None else [piece, "{", *node.tokens, "}"]
            elif piece == "'":
                primes: list[str] = []
                while self._peek() == "'":
                    self._take()
                    primes.append("\\prime")
                scripts["^"] = ["^", "{", *primes, "}"]
            else:
                break
        return _Node([*base.written(), *scripts.get("_", ()), *scripts.get("^", ())]) if scripts else base

    def _implicit(self) -> _Node | None:
        start = self._symbol()
        if start is None:
            return self._argument(-1)
        if isinstance(start, _Node):
            name = "".join(start.tokens).lstrip("\\")
            return (
                self._plain_array(name)
                if start.tokens and start.tokens[0] in commands("matrix pmatrix cases")
                else start
            )
        if start == "\\left":
            opening = self._delimiter()
            body = _tokens(self._expression())
            self._take("\\right")
            return _Node([f"\\left{opening}", *body, f"\\right{self._delimiter()}"])
        if start == "\\begin":
            return self._environment(self._name())
        if start == "\\rm":
            return _Node(["\\mathrm", "{", *self._in_font(lambda: _tokens(self._expression()), start), "}"])
        if start in _SIZES or start in _STYLES:
            return _Node([start, *_tokens(self._expression(before_infix=start in _STYLES))])
        return self._function(start)

    def _symbol(self) -> _Node | str | None:
        piece = self._peek()
        if piece in ("", "{"):
            return None
        self._take()
        if piece in _FUNCTIONS:
            return piece
        if piece in _GREEK and self._upright:
            return _Node(["\\", *piece[1:]])
        return _Node([{" ": "~", "\\ ": "\\"}.get(piece, piece)])

    def _group(self) -> _Node | str | None:
        if self._peek() != "{":
            return self._symbol()
        self._take()
        nodes = self._expression()
        self._take("}")
        return _Node(_tokens(nodes), "group")

    def _argument(self, greediness: int, before: _Node | None = None) -> _Node | None:
        """Return a group or symbol, or a function that binds more strongly than the one whose argument it is.

        For any other function the authors' KaTeX takes the argument before once more, and reads on behind the function's name.
        """
        found = self._group()
        if not isinstance(found, str):
            return found
        if _GREEDY.get(found, 1) > greediness:
            return self._function(found)
        if before is None:
            raise UnreadableError
        return before

    def _needed(self, greediness: int, before: _Node | None = None) -> _Node:
        node = self._argument(greediness, before)
        if node is None:
            raise UnreadableError
        return node

    def _optional(self) -> list[str]:
        if self._peek() != "[":
            return []
        self._take()
        tokens = _tokens(self._expression("]"))
        self._take("]")
        return ["[", *tokens, "]"]

    def _function(self, name: str) -> _Node:
        if name in _UNREADABLE or name in _SIZES or name in _STYLES:
            raise UnreadableError
        if name in _OPERATORS:
            star = "*" * (name in _LIMIT_OPERATORS)
            tokens = [name] if name in _SYMBOL_OPERATORS else [f"\\operatorname{star}", "{", *name[1:], "}"]
            return _Node(tokens, "operator")
        if name in _INFIX:
            return _Node([_INFIX[name]], "infix")
        if name == "\\sqrt":
            return _Node([name, *self._optional(), *self._needed(1).written()])
        if name in _FRACTIONS:
            above = self._needed(2)
            return _Node([_FRACTIONS[name], *above.written(), *self._needed(2, above).written()])
        if name in _SIZED:
            return _Node([name, self._delimiter()])
        if name == "\\rule":
            return _Node([name, *self._length(), *self._length()])
        if name in _TEXTS:
            return _Node(["\\mathrm", "{", *self._words(), "}"])
        node = self._in_font(lambda: self._needed(2), name) if name in _FONTS else self._needed(1)
        if name in _LINES:
            return _Node([name, "{", *node.written(), "}"])
        if name == "\\phantom" or (name in _ACCENTS and node.kind != "group"):
            return _Node([name, "{", *node.tokens, "}"])
        return _Node([_FONTS.get(name, name), *node.written()])

    def _in_font(self, read: Callable[[], _Result], name: str) -> _Result:
        before, self._upright = self._upright, name in ("\\mathrm", "\\rm")
        result = read()
        self._upright = before
        return result

    def _words(self) -> list[str]:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        before, self._in_text = self._in_text, True
        tokens = self._needed(2).tokens
        self._in_text = before
        return tokens

    def _delimiter(self) -> str:
        node = self._needed(1)
        if node.kind or "".join(node.tokens) not in _DELIMITERS:
            raise UnreadableError
        return "".join(node.tokens)

    def _length(self) -> list[str]:
        self._take("{")
        size = _SIZE.match(self._text, self._at)
        if size is None:
            raise UnreadableError
        self._at = size.end()
        self._take("}")
        return ["{", f"{float(size[1] + size[2]):g}", size[3], "}"]

    def _name(self) -> str:
        found = re.compile(r"\s*\{([^{}]*)\}").match(self._text, self._at)
        if found is None:
            raise UnreadableError
        self._at = found.end()
        return found[1]

    def _environment(self, name: str) -> _Node:
        if name not in _ARRAYS:
            raise UnreadableError
        columns = [piece for piece in self._columns() if piece in "lcr"] if name in ("array", "tabular") else None
        rows = self._rows()
        self._take("\\end")
        if self._name() != name:
            raise UnreadableError
        return self._array(name, rows, columns)

    def _columns(self) -> list[str]:
        node = self._group()
        if not isinstance(node, _Node):
            raise UnreadableError
        depth, columns = 0, []
        for piece in node.tokens:
            depth += (piece == "{") - (piece == "}")
            columns += [piece] * (not depth)
        return columns

    def _plain_array(self, name: str) -> _Node:
        self._take("{")
        rows = self._rows()
        self._take("}")
        return self._array(name, rows, None)

    def _rows(self) -> list[list[list[str]]]:
        rows: list[list[list[str]]] = [[]]
        while True:
            rows[-1].append(_tokens(self._expression()))
            piece = self._peek()
            if piece in ("\\end", "}"):
                return rows
            self._take()
            if piece == "&":
                continue
            if piece not in ("\\\\", "\\cr"):
                raise UnreadableError
            if self._peek() == "[":
                self._take()
                size = _SIZE.match(self._text, self._at)
                if size is None:
                    raise UnreadableError
                self._at = size.end()
                self._take("]")
            rows.append([])

    @staticmethod
    def _array(name: str, rows: list[list[list[str]]], columns: list[str] | None) -> _Node:
        if name == "aligned":
            rows = [[["{", "}", *cell] if at % 2 else cell for at, cell in enumerate(row)] for row in rows]
            columns = ["rl"[at % 2] for at in range(max(map(len, rows)))]
        elif name in ("cases", "picture"):
            columns = ["l", "l"]
        elif columns is None:
            columns = ["l"] * len(rows[0])
        lines = []
        for row in rows:
            if any(row):
                cells = [["{", *cell, "}"] if cell else [] for cell in row]
                lines.append(
                    [piece for at, cell in enumerate(cells) for piece in (*("&" for _ in range(at > 0)), *cell)]
                )
        body = [piece for at, line in enumerate(lines) for piece in (*("\\\\" for _ in range(at > 0)), *line)]
        tokens = ["\\begin{array}", "{", *columns, "}", *body, "\\end{array}"]
        around = _ARRAYS[name]
        return _Node(tokens if around is None else [f"\\left{around[0]}", *tokens, f"\\right{around[1]}"])


def _tokens(nodes: Sequence[_Node]) -> list[str]:
    return [piece for node in nodes for piece in node.written()]


def _is_group(nodes: Sequence[_Node]) -> bool:
    return len(nodes) == 1 and nodes[0].kind == "group"


def read_formula(text: str) -> list[str]:
    """Return the tokens of a formula as KaTeX writes them. Raises UnreadableError where it cannot read the formula."""
    return _Reader(text).formula()
