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

Each of these benchmarks is a TOML in `src/snellen/benchmarks/table/catalogue/`, whose comments say what is special of it.
`snellen list catalogue` prints them, and `snellen list NAME` the details.

`snellen run NAME` looks for the table in this order: `--data`, VLMEvalKit's folder (`$LMUData` or `~/LMUData`), Snellen's
cache, the declared address. A table of the same name with another digest is refused; `--data FILE` uses it as it is. Scores are those of
the [profiles](profiles.md) `strict`, `vlmevalkit` and `lmms-eval`, and of `authors` where the declaration says how their script reads.

Licence: that of the data; `?` where no source names one. Data: the hub's name, an option that you give, or nothing where the
table is fetched.

| name (rows) | probes | licence | data |
|---|---|---|---|
"""


REPRODUCTIONS_HEAD = """# Reproductions

What others published of the sets that model cards report. `snellen reproduce NAME --model api:NAME` measures it. `snellen list --cards` says who
reports what.

Two figures compare where prompt, image limits, sampling, tokens and judge are the same: `snellen list NAME` says what differs between harnesses. `snellen
reproduce` asks the published judge, and takes published sampling, tokens and pixels where a source says them; your own options come first. It
says whether the measured interval holds the published figures, and which settings are the same, differ, or are unknown. `--run RUN` does that
for a run that exists. Two kinds are not set against the interval: figures of `another model`, and a run that lacks questions, answers or verdicts (`a part`).
A published judge that is shut down is refused; `--judge` names another.

| set | published: model, figure (by whom; number of the source) |
|---|---|
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
    """Return docs/catalogue.md: one row for the entries that differ in name and number of rows alone."""
    alike: dict[str, list[str]] = {}
    for name in names():
        declared = entry(name)
        count = "" if declared.source.rows is None else f" ({declared.source.rows:,})"
        licence = re.sub(r"^UNKNOWN\b", "?", declared.licence) + (", gated" if declared.gated else "")
        rest = f"| {declared.probes} | {licence} | {data(name)} |"
        alike.setdefault(rest, []).append(f"[`{name}`]({declared.url}){count}")
    return CATALOGUE_HEAD + "".join(f"| {', '.join(listed)} {rest}\n" for rest, listed in alike.items())


def reproductions_page() -> str:
    """Return docs/reproductions.md: a row for each set of the cards, and the sets of which no figure was found."""
    rows, without, judged = [], [], []
    sources: dict[str, int] = {}
    for declared in filter(lambda each: each.cards.count, map(entry, names())):
        by_source: dict[str, list[str]] = {}
        for each in declared.figure:
            number = sources.setdefault(each.source, len(sources) + 1)
            by_source.setdefault(f"{each.by}; {number}", []).append(f"{each.model} {each.value:g}")
        figures = "; ".join(f"{', '.join(values)} ({source})" for source, values in by_source.items())
        judge = declared.score.judge if declared.score is not None else JudgeRule()
        name = f"`{declared.name}`"
        judged += [name] if judge.rubric and not judge.published else []
        if figures:
            rows.append(f"| {name} | {figures} |\n")
        else:
            without.append(name)
    needs = f"\nThe command needs `--judge` for {', '.join(judged)}: no source names theirs.\n" if judged else ""
    listed = "".join(f"{number}. {source}\n" for source, number in sources.items())
    return f"{REPRODUCTIONS_HEAD}{''.join(rows)}{needs}\nNo figure was found of {', '.join(without)}.\n\n## Sources\n\n{listed}"


def data(name: str) -> str:
    """Return how the data of an entry comes, the same on every machine."""
    source = entry(name).source
    if source.hub:
        return f"`{source.hub}`"
    written = source.tsv or source.json
    needed = [] if written.startswith("https://") else ["`--data`"]
    needed += ["`--images`"] if getattr(entry(name).rows.get("image"), "folder", False) else []
    return ", ".join(needed)


def main() -> None:
    """Write the pages."""
    DECLARE_SETS.write_text(declare_page(DECLARE_SETS.read_text(encoding="utf-8"), SET_SECTIONS), encoding="utf-8")
    DECLARE.write_text(declare_page(DECLARE.read_text(encoding="utf-8")), encoding="utf-8")
    CATALOGUE.write_text(catalogue_page(), encoding="utf-8")
    REPRODUCTIONS.write_text(reproductions_page(), encoding="utf-8")
    print(DECLARE, DECLARE_SETS, CATALOGUE, REPRODUCTIONS)


if __name__ == "__main__":
    main()
