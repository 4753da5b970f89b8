"""snellen features cka"""

from __future__ import annotations

from pathlib import Path

from snellen.cli import options as shared
from snellen.cli.features.shared import Outputs, group, show_result, store_notes
from snellen.cli.option_parsing import argument, option
from snellen.errors import UsageError
from snellen.text import comma_list


@group.command()
def cka(
    stores: list[Path] = argument("Feature stores of the same images.", value="STORE"),
    *,
    outputs: Outputs = None,
    layers: bool = option("Compare each block of an output such as cls_last4 on its own.", False),
    debiased: bool = option("Use the unbiased estimate, which is near 0 for unrelated features.", False),
    split: str | None = option("Rows to compare.", value="SPLIT", said="test, else all"),
    limit: int | None = option("Compare only N rows, spread evenly.", least=4),
    as_json: shared.JsonResult = False,
) -> None:
    """Measure how similar encoders and layers represent the same images: linear centred kernel alignment (CKA)."""
    import numpy as np

    from snellen.cli.features.shared import store_names
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
