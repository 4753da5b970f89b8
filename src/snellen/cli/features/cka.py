"""snellen features cka"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as shared
from snellen.cli.features.shared import group, show_result, store_notes
from snellen.cli.option_parsing import expand_options
from snellen.errors import UsageError
from snellen.text import comma_list


@group.command()
@expand_options
def cka(
    stores: Annotated[list[Path], typer.Argument(metavar="STORE", help="Feature stores of the same images.")],
    *,
    outputs: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Outputs, separated by commas, or all.", show_default="the first of each store"
        ),
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Compare each block of an output such as cls_last4 on its own.")
    ] = False,
    debiased: Annotated[
        bool, typer.Option("--debiased", help="Use the unbiased estimate, which is near 0 for unrelated features.")
    ] = False,
    split: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Rows to compare.", show_default="test, else all")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=4, help="Compare only N rows, spread evenly.")] = None,
    as_json: shared.JsonResult = False,
) -> None:
    """Measure how similar encoders and layers represent the same images: linear centred kernel alignment (CKA)."""
    import numpy as np

    from snellen.cli.features.against import store_names
    from snellen.features.cka import cka_matrix, store_representations
    from snellen.features.pairing import share_rows
    from snellen.features.store import TEST, open_store, store_outputs

    wanted = comma_list(outputs)
    opened = []
    for path in stores:
        own = list(store_outputs(path))
        names = own if "all" in wanted else [name for name in wanted if name in own] or own[:1]
        opened += [open_store(path, name) for name in names]
    known = {features.name for features in opened} | {"all"}
    if missing := [name for name in wanted if name not in known]:
        raise UsageError(f"no store has an output {missing[0]!r}", f"There are: {', '.join(sorted(known - {'all'}))}.")
    titles = store_names(opened)
    if len(set(titles)) < len(titles):
        raise UsageError(f"the same output of the same store is named twice: {', '.join(titles)}", "Name each once.")
    shared_stores, notes = share_rows(opened, titles)
    rows = np.arange(len(shared_stores[0]))
    chosen = split or (TEST if TEST in shared_stores[0].splits else None)
    if chosen is not None:
        from snellen.features.ranking.relevance import select_rows

        rows = select_rows(chosen, shared_stores[0].split, len(shared_stores[0]), "split")
    total = len(rows)
    if limit is not None and limit < total:
        rows = rows[np.arange(limit) * total // limit]
        notes.append(f"{limit:,} of {total:,} rows were compared (--limit).")
    parts = [(title, store.take(rows)) for title, store in zip(titles, shared_stores, strict=True)]
    matrix = cka_matrix(store_representations(parts, layers=layers), debiased=debiased)
    settings = {
        "stores": [str(path) for path in stores],
        "representations": list(matrix.names),
        "estimate": "debiased" if debiased else "biased",
        "kernel": "linear",
        "split": chosen,
        "rows": matrix.rows,
        "matrix": [[float(value) for value in row] for row in matrix.values] if as_json else None,
    }
    notes += [*matrix.notes(), *(line for store in opened for line in store_notes(store))]
    show_result(stores[0], "cka", settings, matrix.metrics(), list(dict.fromkeys(notes)), as_json)
