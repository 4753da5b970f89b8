"""snellen subset"""

from __future__ import annotations

from pathlib import Path

from msgspec import to_builtins

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_parsing import REQUIRED, argument, option


def subset(
    benchmark: str = argument("Name or file of the benchmark.", value="BENCHMARK"),
    *,
    stored: list[Path] = option(
        "A stored run of all of the benchmark, or a folder of runs; may be repeated. Ten models are needed.",
        REQUIRED,
        names=("--from",),
        value="RUN",
    ),
    size: int = option("Number of items to choose.", 100, least=2, most=100_000),
    out: Path = option("File of the subset (.json).", REQUIRED, value="FILE"),
    profile: str | None = option("Scoring profile.", said="the benchmark's first"),
    seed: shared.Seed = 0,
    trust: shared.Trust = False,
    as_json: shared.JsonResult = False,
) -> None:
    """Choose items that tell the score on a whole benchmark, for `snellen run --subset-file` and `snellen watch --subset-file`.

    Items are chosen by item response theory from stored runs. The error of the estimated score is measured by leaving out
    one model at a time, and shown beside that of random subsets.
    """
    from snellen.runs.subset import make_subset, write_subset

    made = make_subset(benchmark, stored, size=size, seed=seed, profile=profile, trust=trust)
    write_subset(made, out)
    if as_json:
        show_json(to_builtins(made))
        return
    models = len(made.models)
    table = new_table(f"{size:,} of {made.total:,} items, fitted on {models} models", [""], ["mean absolute error"])
    table.add_row("chosen items, estimated score", f"{100 * made.error.mean_absolute:.2f} points")
    table.add_row("random items, plain mean", f"{100 * made.error.random:.2f} points")
    show(table)
    print(f"Left out in turn, {made.error.covered} of {models} models lie in the 95 % interval that the others set.")
    print(out)
    for copy, model in made.copies.items():
        note(f"note: {copy} counts as one model with {model}: their scores hardly differ, item by item")
    if models < 30:
        share = 100 * (0.95 * 0.05 / models) ** 0.5
        note(
            f"note: {models} models measure the error and the interval roughly: the share of models in it has a standard "
            f"error of {share:.0f} points, and models unlike these may lie outside more often"
        )
