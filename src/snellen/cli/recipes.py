"""snellen recipes"""

from __future__ import annotations

import msgspec

from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_parsing import argument, option


def recipes(
    model: str | None = argument("Show the recipes of this model alone, by its name or a part of it.", None),
    as_json: bool = option("One JSON object.", False, names=("--json",)),
) -> None:
    """List recipes of sampling, each with what it sets and its source, for `snellen run --sampling NAME`."""
    from snellen.runs.recipes import recipes as known

    found = [each for each in known().values() if model is None or each.fits(model)]
    if as_json:
        show_json({"recipes": [msgspec.to_builtins(each) for each in found]})
        return
    if not found:
        note(f"no recipe is for {model}: --sampling checkpoint takes what its generation_config.json says")
        return
    table = new_table(None, ("--sampling", "models", "sets", "source"))
    for each in found:
        sets = ", ".join(f"{name} {value}" for name, value in each.settings().items())
        prompts = f"figures by {each.prompts}" if each.prompts else ""
        source = ". ".join(filter(None, [each.source, each.note, prompts]))
        table.add_row(each.name, ", ".join(each.models), sets, source)
    show(table)
