"""One value of a row, as a declaration writes it: a column, several columns, or a cell with operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct


class Strict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A section of the TOML: an unknown key is an error."""


AnswerForm: TypeAlias = Literal[
    "",
    "letter",
    "index0",
    "letter-index0",
    "index1",
    "text",
    "bool",
    "number",
    "choice",
    "multi-choice",
    "truth",
    "count",
    "quantity",
    "date",
    "time",
    "name",
    "list",
    "box",
    "boxes",
    "point",
    "points",
    "region",
    "moment",
    "formula",
    "json",
    "judged",
]


class Cell(Strict, frozen=True, rename={"as_": "as", "from_": "from"}):
    """One value of a row: a column (or a constant `text`), changed by the operations in the order in which they stand here.

    Attributes:
        column: the column; `#` is the row's number from 0, `@key` the key of an object of lists, `@row` the whole row;
            of a set, a name that ends with `?` may be missing.
        first_of: in place of a column: several, of which the first that the row has counts.
        subset: of a set: it is one of its subsets; default: by the name of the row's file.
        place: of a set: a whole number is a place, from 0, in the list of this column, whose letter it becomes.
        text: a constant in place of a column.
        member: the member of the object in the cell, such as `a.b`; one that ends with `?` may be missing.
        page_parts: of a page record of OmniDocBench: the list of what it has of `text`, `formula`, `table` and `order`.
        rename: value to value.
        otherwise: with `rename`: the value of all others.
        cut: a separator; `field` says which part is taken, from 0.
        field: see `cut`; -1 is the last part.
        before: the text before the first occurrence of this one.
        after: the text after the first occurrence of this one.
        strip: characters that are removed at both ends, as blanks are.
        replace: text to text, wherever it stands.
        lower: in lower case, without blanks around it.
        first: that many characters.
        fill: a text around it, `{}`, with other columns in braces; an empty value stays empty.
        remove: a text that is removed wherever it stands.
        modulo: the remainder of a whole number.
        split: a separator; the value becomes a list, an empty one an empty list.
        repeat_row: with `split`: the row counts once for each element of the list.
        each: the value is a list; a row is in the slice of each element.
        list: the cell is a list written as text, in JSON or Python syntax.
        sizes: names of a list by its number of elements, from 0; the last for more.
        drop: that many characters at the start of a text, or of each element of a list.
        labels: of a list of boxes: the column with the label of each.
        by: a column; `orders` maps its values to what the numbers of a list are (`xywh`), or to `absent`: there is
            nothing to point at.
        orders: see `by`.
        shuffle: the seed of a shuffle of the options; the answer follows its option.
        make: how many options are drawn for each row, the gold answer among them.
        from_: with `make`: the column of the labels; default: that of the answer.
        seed: with `make`: the seed of the draw.
        as_: how the answer names its option: `letter`, `index0`, `index1`, `letter-index0` (a number is an index from 0),
            `text`; of options `text` keeps names such as `A. ` in it; or of which kind it is: `bool`, `number`,
            `quantity` and every other kind; `json`: an object is one answer, and its members are none.
        folder: the value is a path below the images.
        letters: the letters of a row whose list of options is empty, since they stand in the image: `ABCD`.
    """

    column: str = ""
    first_of: tuple[str, ...] = ()
    subset: bool = False
    place: str = ""
    text: str | None = None
    member: str = ""
    page_parts: bool = False
    rename: Mapping[str, str] = {}
    otherwise: str | None = None
    cut: str = ""
    field: int | None = None
    before: str = ""
    after: str = ""
    strip: str = ""
    replace: Mapping[str, str] = {}
    lower: bool = False
    first: int | None = None
    fill: str = ""
    remove: str = ""
    drop: int = 0
    modulo: int | None = None
    split: str = ""
    repeat_row: bool = False
    each: bool = False
    list: bool = False
    sizes: tuple[str, ...] = ()
    labels: str = ""
    by: str = ""
    orders: Mapping[str, str] = {}
    shuffle: int | None = None
    make: int | None = None
    from_: str = ""
    seed: int = 0
    as_: AnswerForm = ""
    folder: bool = False
    letters: str = ""


CellSpec: TypeAlias = str | tuple[str, ...] | Cell
