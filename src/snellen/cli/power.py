"""snellen power"""

from __future__ import annotations

from pathlib import Path

from msgspec import to_builtins

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_parsing import argument, option


def power(
    benchmark: str | None = argument("Name or file, for its number of questions.", None, value="[BENCHMARK]"),
    *,
    difference: float = option("Difference of the two models' mean scores, 0 to 1.", 0.02),
    repeats: int = option("Replies a question of either model.", 1, least=1),
    stored: list[Path] | None = option(
        "A stored run of the benchmark; pass two for their differences.", names=("--from",), value="RUN"
    ),
    samples: int | None = option("Number of questions.", value="N", said="all of the benchmark", least=1),
    discordance: float | None = option(
        "Share of questions on which exactly one of the two is right.", said="that of the stored runs, else 0.2"
    ),
    plot: Path | None = option("Plot power against difference (.svg, .png).", value="FILE"),
    as_json: shared.JsonResult = False,
) -> None:
    """Say before a run which difference of two models a benchmark can show.

    One reply a question: the exact power of McNemar's test. With clusters, partial credit or repeats, differences of two
    stored runs (--from RUN --from RUN) are resampled.
    """
    from snellen.runs.power import draw
    from snellen.runs.power import power as compute

    result = compute(
        benchmark, difference=difference, repeats=repeats, runs=stored or (), samples=samples, discordance=discordance
    )
    if plot is not None:
        draw(result, plot)
    if as_json:
        show_json(to_builtins(result))
        return
    table = new_table(f"{result.n:,} questions, {result.test}", [], ["difference", "chance of finding it"])
    for step, chance in result.curve:
        table.add_row(f"{100 * step:.2f} points", f"{100 * chance:.1f} %")
    show(table)
    least = result.smallest_detectable
    print(f"A difference of {100 * result.difference:.2f} points is found with a chance of {100 * result.power:.1f} %.")
    print("No difference is found with 80 %." if least is None else f"Found with 80 %: {100 * least:.2f} points.")
    note(f"note: {result.assumed}")
    if not stored:
        note(
            "note: each question counts as independent; where some share an image, pass two runs: --from RUN --from RUN"
        )
