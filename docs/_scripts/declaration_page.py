"""Write the tables of docs/declare.md and docs/declare-sets.md from the declaration's structures, and docs/catalogue.md and
docs/reproductions.md from the catalogue.

Usage: python docs/_scripts/declaration_page.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import structs

from snellen.benchmarks.table.declaration import (
    AnswerSpace,
    Cards,
    Cell,
    Declaration,
    Figure,
    Group,
    InspectScorer,
    JudgeRule,
    PromptStyle,
    Protocol,
    Report,
    RunDefaults,
    ScoreRule,
    Source,
)
from snellen.benchmarks.table.entries import entry, names
from snellen.benchmarks.table.set_sections import (
    DocumentsRule,
    Form,
    FramesRule,
    KitNames,
    Layout,
    LmmsNames,
    SetSummary,
    Subsets,
)
from snellen.scoring.rules.harness_regions import RegionRule

DOCS = Path(__file__).parent.parent
DECLARE, DECLARE_SETS, CATALOGUE = DOCS / "declare.md", DOCS / "declare-sets.md", DOCS / "catalogue.md"
REPRODUCTIONS = DOCS / "reproductions.md"
SECTIONS = {
    "top": Declaration,
    "source": Source,
    "rows": Cell,
    "documents": DocumentsRule,
    "group": Group,
    "prompt": PromptStyle,
    "answer": AnswerSpace,
    "score": ScoreRule,
    "region": RegionRule,
    "report": Report,
    "figure": Figure,
    "protocol": Protocol,
    "run": RunDefaults,
    "inspect": InspectScorer,
    "cards": Cards,
}
SET_SECTIONS = {
    "vlmevalkit": KitNames,
    "lmms-eval": LmmsNames,
    "layout": Layout,
    "subset": Subsets,
    "summary": SetSummary,
    "frames": FramesRule,
    "form": Form,
}
CATALOGUE_HEAD = """# Catalogue

These benchmarks are declared in a TOML each (`src/snellen/benchmarks/table/catalogue/`); the comments there say what is special of an entry.
`snellen list catalogue` prints them, and `snellen list NAME` the details. This page is written by `python docs/_scripts/declaration_page.py`.

`snellen run NAME` looks for the table in this order: `--data`, the folder `$LMUData` or `~/LMUData` of VLMEvalKit, Snellen's
cache, the declared address. A table of the same name with another digest is refused; `--data FILE` uses it as it is. Every entry is scored under
the [profiles](profiles.md) `strict`, `vlmevalkit` and `lmms-eval`, and under `authors` where its declaration says how their script reads.

A licence UNKNOWN means that no source names one: ask the authors. Published figures beside a run are those of another harness, often with a judge.

| name | probes | rows | licence | data |
|---|---|---|---|---|
"""


REPRODUCTIONS_HEAD = """# Reproductions

What others published of the sets that model cards report, and the command that measures it here. `ours` is filled by runs, and is empty until there is
one. This page is written by `python docs/_scripts/declaration_page.py`; `snellen list --cards` says who reports what.

Two figures compare where prompt, image limits, sampling, tokens and judge are the same: `snellen list NAME` says what differs between harnesses. `snellen
reproduce` asks the published judge, takes published sampling, tokens and pixels where a source says them (your own options count first), and sets
published figures beside the measured one: whether its interval holds them, and which settings are the same, differ, or are unknown. `--run RUN` does that
for a run that exists, `--json` in JSON. Figures of `another model` (names are compared) and a run of which questions, answers or verdicts are missing (`a part`)
are not set against the interval. A published judge that is shut down is refused; `--judge` names another. `MODEL` is the model, as `api:NAME`.

| set | published: model, figure, by whom, source | command | ours |
|---|---|---|---|
"""


def attributes(struct: type) -> Iterator[tuple[str, str]]:
    """Yield key and description of the Attributes of a docstring."""
    _, _, listed = (struct.__doc__ or "").partition("Attributes:\n")
    joined = re.sub(r"\n {12,}", " ", listed)
    for line in joined.splitlines():
        key, mark, text = line.strip().partition(": ")
        if mark:
            yield key, text


def keys_table(struct: type) -> str:
    """Return the table of a section's keys, by the names of the TOML."""
    names_in_toml = {field.name: field.encode_name for field in structs.fields(struct)}
    rows = []
    for keys, text in attributes(struct):
        named = ", ".join(f"`{names_in_toml.get(key, key)}`" for key in keys.split(", "))
        rows.append(f"| {named} | {text} |")
    return "\n".join(["| key | meaning |", "|---|---|", *rows])


def declare_page(text: str, sections: Mapping[str, type] = SECTIONS) -> str:
    """Return the page with the tables between its marks renewed."""
    for name, struct in sections.items():
        pattern = re.compile(rf"(<!-- keys: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        table = keys_table(struct)
        text = pattern.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)  # type: ignore[misc]
    return text


def catalogue_page() -> str:
    """Return docs/catalogue.md."""
    rows = []
    for name in names():
        declared = entry(name)
        source = declared.source
        count = "" if source.rows is None else f"{source.rows:,}"
        licence = f"{declared.licence}, gated" if declared.gated else declared.licence
        title = f"[`{name}`]({declared.url})"
        rows.append(f"| {title} | {declared.probes} | {count} | {licence} | {data(name)} |")
    return CATALOGUE_HEAD + "\n".join(rows) + "\n"


def reproductions_page() -> str:
    """Return docs/reproductions.md: a row for each set of the cards."""
    rows = []
    for declared in filter(lambda each: each.cards.count, map(entry, names())):
        by_source: dict[str, list[str]] = {}
        for each in declared.figure:
            by_source.setdefault(f"{each.by}; {each.source}", []).append(f"{each.model} {each.value:g}")
        figures = "; ".join(f"{', '.join(values)} ({source})" for source, values in by_source.items())
        judge = declared.score.judge if declared.score is not None else JudgeRule()
        judged = " --judge api:JUDGE" if judge.rubric and not judge.published else ""
        command = f"snellen reproduce {declared.name} --model MODEL{judged}"
        rows.append(f"| `{declared.name}` | {figures or 'none found'} | `{command}` | |")
    return REPRODUCTIONS_HEAD + "\n".join(rows) + "\n"


def data(name: str) -> str:
    """Return how the data of an entry comes, the same on every machine."""
    source = entry(name).source
    if source.hub:
        return f"hub `{source.hub}`"
    image = entry(name).rows.get("image")
    images = ", `--images`" if getattr(image, "folder", False) else ""
    written = source.tsv or source.json
    return f"{'fetched' if written.startswith('https://') else '`--data`'}{images}"


def main() -> None:
    """Write the pages."""
    DECLARE_SETS.write_text(declare_page(DECLARE_SETS.read_text(encoding="utf-8"), SET_SECTIONS), encoding="utf-8")
    DECLARE.write_text(declare_page(DECLARE.read_text(encoding="utf-8")), encoding="utf-8")
    CATALOGUE.write_text(catalogue_page(), encoding="utf-8")
    REPRODUCTIONS.write_text(reproductions_page(), encoding="utf-8")
    print(DECLARE, DECLARE_SETS, CATALOGUE, REPRODUCTIONS)


if __name__ == "__main__":
    main()
